"""Settings and what they are wired to: files, the environment, defaults, and packages found."""

from __future__ import annotations

import inspect
import os
import os.path
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from decimal import Decimal
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from tests.unit.planner.context.test_person import ANNA
from tests.unit.server.house import serving

from plansmith import Plansmith, plugins
from plansmith.errors import Misconfigured
from plansmith.plan.limits import BudgetLimits, Limits
from plansmith.plan.timing import zone_of
from plansmith.ports import Clock
from plansmith.review.settings import ReviewPolicy
from plansmith.store.urls import store_kind
from plansmith.tools.functions import FunctionTools
from plansmith_cli.config import Settings, load_settings, look_at, read_profile
from plansmith_cli.extras import install_command
from plansmith_cli.folders import data_folder
from plansmith_cli.trust import TrustBook
from plansmith_cli.wiring import make_smith
from plansmith_compat.valuecell import RemoteConnections
from plansmith_desk.builtin import builtin_sources
from plansmith_desk.settings import BuiltinSettings
from plansmith_planner import model
from plansmith_planner.models.choose import choose, installed_shelf
from plansmith_planner.models.provider import ProviderModel
from plansmith_planner.settings import ModelSettings, PlannerSettings
from plansmith_server.bodies import Behaviour, NewRun


def settings(tmp_path: Path, text: str = "", **environment: str) -> Settings:
    """The settings with a project file that the person trusts."""
    places = {"HOME": str(tmp_path)} | environment
    if text:
        (tmp_path / "plansmith.toml").write_text(text, encoding="utf-8")
        project = look_at(tmp_path)
        assert project is not None
        TrustBook(data_folder(places)).put(project)
    return load_settings(folder=tmp_path, environment=places)


def strange(tmp_path: Path, text: str, own: str = "") -> tuple[Settings, list[str]]:
    """The settings in a folder of somebody else, and what the person is told."""
    home, folder, messages = tmp_path / "home", tmp_path / "folder", list[str]()
    (home / ".config" / "plansmith").mkdir(parents=True)
    (home / ".config" / "plansmith" / "config.toml").write_text(own, encoding="utf-8")
    folder.mkdir(exist_ok=True)
    (folder / "plansmith.toml").write_text(text, encoding="utf-8")
    found = load_settings(folder=folder, environment={"HOME": str(home)}, tell=messages.append)
    return found, messages


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


LIMITS = Path(__file__).parents[4] / "docs" / "settings.md"


def test_every_setting_of_running_is_documented_with_a_value_that_is_right(tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", LIMITS.read_text(encoding="utf-8"), re.DOTALL)
    [text] = [each for each in blocks if "[run]" in each]
    found = settings(tmp_path, text)
    example = tomllib.loads(text)
    for table in ("review", "budget", "run"):
        assert example[table].keys() == type(getattr(found, table)).model_fields.keys()
    assert (found.review.never_for, found.budget.money) == (("note.*",), Decimal("0.5"))
    assert found.run == Settings().run.replace(per_tool={"note": 1})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[run]\nwidth = 0", "run.width must be at least 1 (got 0)"),
        ("[review]\nask = 'never'", "review.ask must be"),
        ("[run.per_tool]\nx = 0", "run.per_tool.x must be at least 1 (got 0)"),
        ("[run]\nwidth = 1.5", "run.width must be a whole number (got 1.5)"),
        ("[run]\nwidth = true", "run.width must be a whole number (got true)"),
        ("[planner]\ntriage = 1", "planner.triage must be true or false (got 1)"),
        ("[run]\nper_tool = 3", "run.per_tool must be a table (got 3)"),
        ("[run]\ndata = 'no'", "run.data must be 'show', 'ask' or 'deny' (got \"no\")"),
        ("[budget]\nmoney = 0", "budget.money must be more than 0 (got 0)"),
        ("[budget]\nmoney = 'much'", "budget.money must be a number"),
        ("[budget]\nseconds = nan", "budget.seconds must be a number (got NaN)"),
        ("[run]\nwidht = 3", "run.widht is not known (did you mean 'width'?)"),
        ("[secrets]\nkey = 'hunter2'", "secrets.key must be a table"),
        ("tools = 'x.py'", "tools must be a list"),
        ("nonsense", "cannot be read"),
        ("[planer]", "planer is not known (did you mean 'planner'?)"),
        ('[models.plan]\noutput = "xml"', "models.plan.output must be"),
        ("[budget]\nmoney = 'NaN'", "budget.money must be"),
        ("[budget]\nmoney = '1e400'", "budget.money must have at most 20 digits"),
    ],
)
def test_a_wrong_setting_is_told_in_plain_words(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        settings(tmp_path, text)
    assert re.search(rf"plansmith\.toml:? {re.escape(words)}", str(caught.value))
    assert "hunter2" not in str(caught.value)


def test_no_setting_of_a_strange_folder_counts_not_even_a_stricter_one(tmp_path: Path) -> None:
    text = """
    documents = ["/etc"]
    store = "sqlite:///theirs.db"
    models.plan.base_url = "http://evil"
    review = {ask = "writes", never_for = ["*"]}
    budget.money = 0.1
    mcp.servers.x = {command = "touch"}
    secrets.y = {env = "HOME", tools = ["*"]}
    """
    own = '[review]\nask = "always"\n'
    found, [message] = strange(tmp_path / "after", text, own)
    assert found == strange(tmp_path / "before", "", own)[0]
    for name in ("documents", "models.plan.base_url", "review.never_for", "mcp.servers.x,"):
        assert name in message
    assert "secrets.y" in message or "more" in message
    assert "plansmith trust" in message


def test_a_project_file_that_is_a_link_or_a_pipe_is_not_read(tmp_path: Path) -> None:
    for make in ("link", "pipe"):
        folder, lines = tmp_path / make, list[str]()
        folder.mkdir()
        (tmp_path / "other.toml").write_text("[planner]\nmax_steps = 5\n")
        if make == "link":
            (folder / "plansmith.toml").symlink_to(tmp_path / "other.toml")
        else:
            os.mkfifo(folder / "plansmith.toml")
        found = load_settings(folder=folder, environment={"HOME": str(tmp_path)}, tell=lines.append)
        assert found == Settings()
        assert "was not read: it is" in lines[0]


def test_keys_of_a_strange_file_steer_no_terminal(tmp_path: Path) -> None:
    _, [message] = strange(tmp_path / "a", '[secrets."\\u001b[2Jx"]\nenv = "HOME"\n')
    assert "\x1b" not in message
    with pytest.raises(Misconfigured) as caught:
        strange(tmp_path / "b", '[planner]\n"\\u001b[2J" = 1\n')
    assert "\x1b" not in str(caught.value)


def test_files_that_own_settings_name_are_not_sought_in_a_strange_folder(tmp_path: Path) -> None:
    own = """
    tools = ["mine.py"]
    profile = "me.yaml"
    planner.prompts = "prompts"
    mcp.files = ["mcp.json"]
    mcp.approvals = "approvals.json"
    secrets.x = {file = "key", tools = ["a"]}
    """
    found, _ = strange(tmp_path, "", own)
    base = tmp_path / "home" / ".config" / "plansmith"
    files = (*found.tools, found.profile, found.planner.prompts, *found.mcp.files)
    assert all(path is not None and path.parent == base for path in files)
    assert (found.mcp.approvals, found.secrets["x"].file) == (base / "approvals.json", base / "key")


def test_the_time_zone_is_that_of_the_machine_unless_it_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    assert PlannerSettings().timezone == "Asia/Shanghai"
    code = "import plansmith_cli.config as c; print(c.load_settings().planner.timezone)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert run.stdout.strip() == "Asia/Shanghai"
    set_here = settings(tmp_path, "[planner]\ntimezone = 'Europe/Oslo'\n")
    assert set_here.planner.timezone == "Europe/Oslo"
    for odd in ("../../../etc/passwd", "CET-1CEST", ":Etc/UTC", "Europe"):
        monkeypatch.setenv("TZ", odd)
        assert zone_of(PlannerSettings().timezone).key == PlannerSettings().timezone


# One set of limits: the same classes and defaults whichever door a run comes through


def by_parameter(function: Any) -> dict[str, object]:
    return {name: each.default for name, each in inspect.signature(function).parameters.items()}


def by_field(value: Any) -> dict[str, object]:
    return {name: getattr(value, name) for name in type(value).model_fields}


def _rules(smith: Plansmith) -> tuple[Limits, BudgetLimits, ReviewPolicy]:
    runs = smith.runs
    return runs.execution.limits, runs.budgets.limits, runs.intake.policy


async def test_every_default_is_the_same_through_every_door(tmp_path: Path) -> None:
    library = Plansmith()
    wired = make_smith(Settings(store="memory"), model=None)
    loaded = load_settings(folder=tmp_path, environment={"HOME": str(tmp_path)})
    async with serving(tmp_path) as house:
        served = house.server_state.smith
        doors = {
            "library": _rules(library),
            "settings": (Settings().run, Settings().budget, Settings().review),
            "files": (loaded.run, loaded.budget, loaded.review),
            "from settings": _rules(wired),
            "server": _rules(served),
        }
    for door, found in doors.items():
        for one, usual in zip(found, (Limits(), BudgetLimits(), ReviewPolicy()), strict=True):
            assert by_field(one).keys() == by_field(usual).keys()
            for name, each in by_field(usual).items():
                assert by_field(one)[name] == each, (door, name)
    assert Behaviour().settings() == {}
    assert NewRun(request="x").budget is None


def test_money_keeps_its_digits_on_every_way() -> None:
    for amount in ("0.50", Decimal("0.50")):
        assert BudgetLimits(money=amount).to_json() == {"money": "0.50"}  # type: ignore[arg-type]
    assert Settings.model_validate({"budget": {"money": 0.5}}).budget.money == Decimal("0.5")


async def test_a_wrong_budget_is_told_in_the_same_words_through_every_door(tmp_path: Path) -> None:
    rule = "must be at least 1"
    (tmp_path / "plansmith.toml").write_text("[budget]\nsteps = 0\n", encoding="utf-8")
    with pytest.raises(Misconfigured, match=f"budget.steps {rule}"):
        load_settings(folder=tmp_path, environment={"HOME": str(tmp_path)})
    with pytest.raises(Misconfigured, match=f"budget.steps {rule}"):
        await Plansmith().plan("r", budget={"steps": 0})
    async with serving(tmp_path) as house:
        body = {"request": "r", "budget": {"steps": 0}}
        result = (await house.client.post("/v1/runs", json=body)).json()
        blank = (await house.client.post("/v1/runs", json={"request": "  "})).json()
    assert blank["detail"] == "the body (request): must not be blank"
    assert result["detail"] == f"the body (budget.steps): {rule}"
    assert result["problems"] == [{"path": ["budget", "steps"], "message": rule}]


def test_parts_that_programs_make_themselves_have_the_defaults_of_the_settings() -> None:
    model, built = by_parameter(ProviderModel), by_parameter(builtin_sources)
    for name in ("timeout_s", "output"):
        assert model[name] == getattr(ModelSettings(), name)
    for name in ("write", "hosts", "private", "writable", "databases"):
        assert built[name] == getattr(BuiltinSettings(), name)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    plugins._found.cache_clear()
    yield
    plugins._found.cache_clear()


def install(folder: Path, text: str) -> None:
    """Make a folder look as pip leaves it after installing a package with these entry points."""
    made = folder / "theirs-1.0.dist-info"
    made.mkdir(parents=True)
    (made / "entry_points.txt").write_text(text, encoding="utf-8")


def test_a_package_of_somebody_else_brings_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "[console_scripts]\nx = y:z\n\n[plansmith.stores]\ntheirs = os.path:join\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert "theirs" in plugins.names("stores")
    kinds: list[Any] = [store_kind(url) for url in ("theirs://here", "sqlite:///theirs")]
    assert kinds == [os.path.join, None]


def test_what_is_missing_says_what_to_install() -> None:
    with pytest.raises(Misconfigured) as caught:
        plugins.load("stores", "nowhere")
    assert "plansmith[postgres]" in caught.value.hint


def test_a_folder_that_one_works_in_brings_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "[plansmith.stores]\ntheirs = os.path:join\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    assert "theirs" not in plugins.names("stores")


def test_a_package_of_somebody_else_brings_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "plansmith.testing:ScriptedModel"
    install(tmp_path, f"[plansmith.models]\ntheirs = {place}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert model("theirs:hello").name == "scripted"
    with pytest.raises(Misconfigured, match="'rules:fast' is not the name of a model"):
        model("rules:fast")


def test_an_extra_names_what_its_packages_need_and_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(name: str, known: Callable[[str], str] = metadata.version) -> str:
        return known("no-such-package" if name == "psycopg" else name)

    monkeypatch.setattr(metadata, "version", version)
    assert "psycopg[binary]>=3.2" in install_command("postgres")


async def test_without_the_desk_a_person_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plugins, "_entry_point_files", lambda: iter(()))
    with pytest.raises(Misconfigured, match="no API key and no model server") as nothing:
        await choose({}, shelf=installed_shelf(), places=[])
    assert "plansmith[desk]" in nothing.value.hint
    for name in ("rules", "local:mine.gguf"):
        with pytest.raises(Misconfigured) as caught:
            model(name)
        assert "plansmith[desk]" in caught.value.hint


def their_tools(folder: Path, *, zone: str, clock: Clock) -> list[FunctionTools]:
    """What a package of somebody else names in its entry points."""

    def where() -> str:
        """Tell where it works."""
        return f"{folder} {zone}"

    return [FunctionTools([where])]


async def test_tools_of_an_installed_package_join_the_built_in_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, f"[plansmith.tools]\ntheirs = {__name__}:their_tools\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    async with make_smith(Settings(store="memory"), model=None) as smith:
        names = (await smith.runs.registry.callees()).specs
    assert {"where", "files.read"} <= {*names}
    bare = Settings(store="memory", builtin=BuiltinSettings(enabled=False))
    async with make_smith(bare, model=None) as smith:
        assert {*(await smith.runs.registry.callees()).specs} == {"where"}


async def test_a_program_of_another_system_gets_the_plansmith_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANSMITH_STORE", f"sqlite:///{tmp_path / 'new' / 'runs.db'}")
    async with RemoteConnections().smith as smith:
        assert "files.read" in (await smith.runs.registry.callees()).specs
    assert (tmp_path / "new").is_dir()


# Profiles of who asks


YAML = """
name: Anna
role: buyer
goals: [save money, be quick]
tasks: order
backstory: |-
  Ten years
  in the trade
language: zh
hard_constraints:
  - never more than 100 €
soft_constraints: local shops
"""
TOML = """
[profile]
name = "Anna"
role = "buyer"
goals = ["save money", "be quick"]
tasks = ["order"]
backstory = "Ten years\\nin the trade"
language = "zh"
hard_constraints = ["never more than 100 €"]
soft_constraints = ["local shops"]
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("p.yaml", YAML), ("p.yml", YAML), ("p.json", ANNA.model_dump_json())),
        *(("p.toml", TOML), ("p.toml", f"\ufeff{TOML}")),
    ],
)
def test_a_profile_is_read_from_a_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_profile(tmp_path / name) == ANNA


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("p.txt", "name: x", "save it as .yaml"),
        ("p.yaml", "nmae: x", "did you mean 'name'"),
        ("p.yaml", "password: x", "a profile has name, role"),
        ("p.yaml", "name: [x]", "name must be text"),
        ("p.yaml", "goals: {a: b}", "goals must be a list"),
        ("p.yaml", "- name", "holds a list"),
        ("p.yaml", "a: b: c", "not valid YAML"),
        ("p.json", '{"name": ', "not valid JSON"),
        ("p.json", '{"name": "\\ud800"}', "a lone surrogate"),
        ("p.toml", "name = ", "p.toml cannot be read"),
        ("p.toml", "x" * 1_000_001, "larger than a megabyte"),
        ("p.yaml", "profile: text", "holds a str"),
    ],
)
def test_a_wrong_file_says_what_to_do(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(Misconfigured) as caught:
        read_profile(tmp_path / name)
    assert says in str(caught.value)
    assert caught.value.hint


def test_a_missing_file_and_a_folder_are_told(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    for name in ("none.yaml", "folder.yaml"):
        with pytest.raises(Misconfigured, match=f"cannot read .*{name}"):
            read_profile(tmp_path / name)
