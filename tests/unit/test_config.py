from __future__ import annotations

import re
import tomllib
from decimal import Decimal
from pathlib import Path

import pytest

from plansmith.config import Settings, load_settings
from plansmith.errors import Misconfigured


def settings(tmp_path: Path, text: str = "", **environment: str) -> Settings:
    if text:
        (tmp_path / "plansmith.toml").write_text(text, encoding="utf-8")
    return load_settings(folder=tmp_path, environment={"HOME": str(tmp_path)} | environment)


def test_without_anything_the_defaults_stand(tmp_path: Path) -> None:
    found = settings(tmp_path)
    assert found == Settings()
    assert found.models.role("report").model == "auto"
    assert (found.planner.top_k, found.planner.repairs) == (6, 2)


def test_a_model_is_a_name_or_a_table_and_roles_fall_back_to_the_planner(tmp_path: Path) -> None:
    text = """
    [models]
    triage = "openai:small"
    [models.plan]
    model = "anthropic:large"
    context_tokens = 100000
    [planner]
    top_k = 9
    """
    found = settings(tmp_path, text)
    assert found.models.role("triage").model == "openai:small"
    assert found.models.role("report").model == "anthropic:large"
    assert found.models.role("plan").context_tokens == 100_000
    assert found.planner.top_k == 9


def test_the_environment_wins_over_the_project_and_the_project_over_the_person(
    tmp_path: Path,
) -> None:
    own = tmp_path / ".config" / "plansmith"
    own.mkdir(parents=True)
    (own / "config.toml").write_text('[models]\nplan = "a:own"\n[planner]\ntop_k = 3\n')
    text = '[models]\nplan = "a:project"\n'
    assert settings(tmp_path, text).models.plan.model == "a:project"
    found = settings(tmp_path, text, PLANSMITH_MODEL="a:env", PLANSMITH_BASE_URL="http://x")
    assert (found.models.plan.model, found.models.plan.base_url) == ("a:env", "http://x")
    assert found.planner.top_k == 3
    changed = load_settings(
        folder=tmp_path, environment={}, changes={"models": {"plan": {"model": "a:flag"}}}
    )
    assert changed.models.plan.model == "a:flag"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense", "cannot be read"),
        ("[planer]\n", "did you mean 'planner'"),
        ("[planner]\ntopk = 3", "did you mean 'top_k'"),
        ("[planner]\ntop_k = 0", r"planner\.top_k"),
        ('[planner]\ntop_k = "6"', r"planner\.top_k"),
        ('[models.plan]\noutput = "xml"', r"models\.plan\.output"),
    ],
)
def test_a_wrong_setting_names_its_file_and_the_mend(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(Misconfigured, match=why) as caught:
        settings(tmp_path, text)
    assert "plansmith.toml" in str(caught.value)


RUNNING = Path(__file__).parents[2] / "docs" / "running.md"


def test_every_setting_of_running_is_documented_with_a_value_that_is_right(tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", RUNNING.read_text(encoding="utf-8"), re.DOTALL)
    [text] = [each for each in blocks if "[run]" in each]
    found = settings(tmp_path, text)
    shown = tomllib.loads(text)
    for table in ("review", "budget", "run"):
        assert shown[table].keys() == type(getattr(found, table)).model_fields.keys()
    assert (found.review.never_for, found.budget.money) == (("note.*",), Decimal("0.5"))
    assert found.run == Settings().run.replace(per_tool={"note": 1})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[review]\nask = 'never'", r"review\.ask"),
        ("[budget]\nmoney = 0", r"budget\.money"),
        ("[budget]\nstep = 3", "did you mean 'steps'"),
        ("[run]\nwidth = 0", r"run\.width"),
        ("[run.per_tool]\nx = 0", r"run\.per_tool\.x"),
        ("[run]\ngrace = 3", "did you mean 'grace_s'"),
        ("tools = ['mine.py']", "does not choose the code"),
    ],
)
def test_a_wrong_setting_of_running_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        settings(tmp_path, text)


def test_the_person_may_choose_code_for_all_folders(tmp_path: Path) -> None:
    own = tmp_path / ".config" / "plansmith"
    own.mkdir(parents=True)
    (own / "config.toml").write_text("tools = ['mine.py']\n")
    assert settings(tmp_path).tools == (Path("mine.py"),)
