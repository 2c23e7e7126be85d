"""Every command and code block of the documentation runs; its promises name real tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from scripts.docs_reference import setting_rows
from scripts.docs_site import assemble
from tests import forked
from tests.servers.model_server import ModelServer, Reply

from plansmith import Plan, Problem, check_plan, try_read_plan
from plansmith.check.constraints import Constraint
from plansmith.check.lint import lint_plan
from plansmith.plan.problem import CODES
from plansmith_cli.config import Settings
from plansmith_cli.main import main
from plansmith_planner.autofix import autofix
from plansmith_planner.language.made_up import MADE_UP, made_up_values

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md"]
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# The test command would run itself; the others take long, change files or need a network.
NOT_RUN = (
    *("scripts/test", "scripts/check", "scripts/bench", "scripts/lock", "scripts/fix"),
    *("scripts/page", "scripts/docs", "scripts/screenshots"),
)
# What is killed, or starts a Python of its own.
STARTED = re.compile(r"plansmith serve|\.venv")


def blocks(*kinds: str) -> list[tuple[str, str]]:
    """Blocks of these kinds, each with its page and its place there."""
    return [
        (f"{page.relative_to(ROOT)}-{number}", text)
        for page in PAGES
        for number, (kind, text) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
        if kind in kinds
    ]


PYTHON, SHELL = blocks("python"), blocks("bash")
PROVIDED = 'Plansmith("openai:gpt-5"'
ALONE = [each for each in PYTHON if not (each[0].startswith("README") and PROVIDED in each[1])]


@pytest.mark.parametrize(("place", "code"), ALONE, ids=[place for place, _ in ALONE])
def test_the_python_of_the_documentation_runs(place: str, code: str) -> None:
    run(place, code)


def run(place: str, code: str) -> None:
    # Without the future import of this file: annotations are then what they are for a reader.
    exec(compile(code, place, "exec", dont_inherit=True), {"__name__": place})


FEW = {"below": ["{{have}}", 10]}
STEPS = [
    {"id": "have", "tool": "stock", "inputs": {"item": "bolt"}},
    {"id": "buy", "tool": "order", "inputs": {"item": "bolt", "count": 100}, "when": FEW},
    {"id": "answer", "say": "There were {{have}} bolts: {{buy}}."},
]


def test_the_program_of_the_readme_plans_with_a_providers_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "test")

    def agree(prompt: str) -> str:
        prompts.append(prompt)
        return "yes"

    monkeypatch.setattr("builtins.input", agree)
    [program] = [code for place, code in PYTHON if place.startswith("README") and PROVIDED in code]
    triage, plan = {"decision": "plan"}, {"goal": "Order bolts", "steps": STEPS}
    model = ModelServer(Reply(json.dumps(triage)), Reply(json.dumps(plan)))
    with model.in_thread() as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        run("README.md", program)
    assert "2. buy: [only if have is below 10] order(item=bolt, count=100)" in prompts[0]
    assert capsys.readouterr().out == "done There were 3 bolts: ordered 100 of bolt.\n"


@pytest.mark.parametrize(("place", "script"), SHELL, ids=[place for place, _ in SHELL])
def test_the_commands_of_the_documentation_run(place: str, script: str, tmp_path: Path) -> None:
    lines = [line for line in script.splitlines() if not line.startswith(NOT_RUN)]
    with commands(place, script, tmp_path):
        done = executed(lines, tmp_path)
    assert done.returncode == 0, f"{place}: {done.stderr}"


@contextmanager
def commands(place: str, script: str, folder: Path) -> Iterator[None]:
    """The folder scripts: once as a reader has it, then with a command that starts faster."""
    scripts = folder / "scripts"
    if place == "README.md-0" or STARTED.search(script) or sys.platform != "linux":
        scripts.symlink_to(ROOT / "scripts")
        yield
        return
    scripts.mkdir()
    with forked.command_for_scripts(scripts / "plansmith"):
        yield


def executed(lines: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        # No model of this machine: what the pages show works without one, and at once.
        env=os.environ
        | {
            "PATH": f"{sys.base_exec_prefix}/bin:{os.environ['PATH']}",  # python3, not a shim
            "NO_COLOR": "1",
            "XDG_DATA_HOME": str(folder / "data"),
            "PLANSMITH_MODELS": str(folder / "models"),
            "PLANSMITH_OFFLINE": "1",
        },
    )


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert "scripts/test" in [text.strip() for _, text in blocks("bash")]
    assert "scripts/test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


SECTION = re.compile(r"^## (PS\d{3}) ([\w-]+)\n\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SECTIONS = SECTION.findall((ROOT / "docs" / "problems.md").read_text(encoding="utf-8"))


def test_every_problem_code_has_its_section_and_no_other() -> None:
    assert [(code, name) for code, name, _ in SECTIONS] == [
        (code, about.name) for code, about in CODES.items()
    ]
    for code, _, text in SECTIONS:
        assert text.startswith(f"*{CODES[code].severity}.* {CODES[code].meaning}")


EXAMPLES = [(code, found.group(2)) for code, _, text in SECTIONS if (found := BLOCK.search(text))]


FORECAST = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1},
        "unit": {"enum": ["celsius", "fahrenheit"]},
    },
    "required": ["city"],
    "additionalProperties": False,
}
TEMPERATURE = {
    "type": "object",
    "properties": {"temperature": {"type": "number"}},
    "additionalProperties": False,
}
TOOLS: dict[str, dict[str, object]] = {
    "weather": {},
    "forecast": {"input_schema": FORECAST, "output_schema": TEMPERATURE, "effect": "read"},
    "send": {"effect": "final"},
    "erase": {"effect": "write"},
    "gossip": {"effect": "write"},
    "rumour": {"effect": "write"},
    "broken": {"input_schema": {"type": "float"}},
}
CONSTRAINTS = [
    Constraint(source="policy", forbid_tools=("erase",)),
    Constraint(forbid_tools=("rumour",)),
    Constraint(hard=False, forbid_tools=("gossip",)),
]


def problems_of(plan: Plan, code: str) -> list[Problem]:
    if code in ("PS205", "PS206", "PS207"):
        return autofix(plan, TOOLS).problems
    if code == MADE_UP:
        return made_up_values(plan, TOOLS, "Gossip about my last order")
    if code.startswith("PS4"):
        return lint_plan(plan, TOOLS, advice=code in ("PS402", "PS403"))
    return check_plan(
        plan,
        TOOLS,
        agents=["researcher"],
        templates=["weekly-report"],
        max_steps=3,
        constraints=CONSTRAINTS,
    )


@pytest.mark.parametrize(("code", "text"), EXAMPLES, ids=[code for code, _ in EXAMPLES])
def test_every_example_of_a_problem_has_that_problem(code: str, text: str) -> None:
    found = try_read_plan(text)
    if isinstance(found, Plan):
        found = problems_of(found, code)
    assert [problem.code for problem in found] == [code]


def prose(page: Path) -> str:
    """The text of a page without its code: a link in a program is no link of the page."""
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)", prose(page)):
            is_elsewhere = target.startswith("https://")
            assert is_elsewhere or (page.parent / target).exists(), f"{page.name}: {target}"


def anchors(page: Path) -> set[str]:
    """The headings of a page as links spell them."""
    found = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in found}


def test_every_link_to_a_heading_leads_to_one() -> None:
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(((?!https:)[^)#]*)#([^)]+)\)", prose(page)):
            linked = page.parent / target if target else page
            assert anchor in anchors(linked), f"{page.name}: {target}#{anchor}"


def test_the_list_of_how_to_pages_has_every_page() -> None:
    folder = ROOT / "docs" / "how-to"
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", prose(folder / "index.md")))
    assert listed == {page.name for page in folder.glob("*.md")} - {"index.md"}


def test_every_command_that_a_form_names_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    forms = (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")
    text = "".join(form.read_text(encoding="utf-8") for form in forms)
    commands = set(re.findall(r"`plansmith (\w+(?: [a-z]+)?)", text))
    assert commands >= {"report", "store verify", "store doctor"}
    for command in commands:
        with pytest.raises(SystemExit) as end:
            main([*command.split(), "--help"])
        assert end.value.code == 0
    assert "usage: plansmith" in capsys.readouterr().out


def test_the_places_of_good_first_issues_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    _, _, issues = text.partition("## Good first issues")
    places = re.findall(r"`([\w/]+\.py)`", issues)
    assert len(places) >= 5
    for place in places:
        assert (ROOT / place).exists() or any(ROOT.glob(f"packages/*/src/{place}")), place


# The documentation site: every page is in its menu; `mkdocs` checks its links


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assemble(folder)
    return folder


def in_menu(entries: object) -> set[str]:
    match entries:
        case str(page):
            return {page}
        case dict():
            return set().union(*map(in_menu, entries.values()))
        case list():
            return set().union(*map(in_menu, entries))
        case _:
            return set()


def test_the_menu_has_every_page_and_no_other(site: Path) -> None:
    menu = in_menu(yaml.safe_load((site / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    pages = {each.relative_to(site / "docs").as_posix() for each in (site / "docs").rglob("*.md")}
    assert menu == pages


@pytest.mark.parametrize(
    ("page", "has"),
    [
        ("api", "::: plansmith.Plansmith"),
        ("commands", "## approve"),
        ("settings", "## [run]"),
        ("http", "### POST /v1/runs\n"),
        ("events", "## plan_approved"),
    ],
)
def test_the_reference_is_made_from_the_code(site: Path, page: str, has: str) -> None:
    assert has in (site / "docs" / "reference" / f"{page}.md").read_text(encoding="utf-8")


def test_every_setting_is_explained() -> None:
    assert [key for key, _, _, about in setting_rows(Settings) if not about] == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_site_builds_without_a_warning() -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "docs", "check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "No issues found" in done.stderr


PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
PROMISED = PAGE.partition("## What is promised")[2].partition("## What is not promised")[0]


def test_every_test_that_the_page_on_security_names_exists() -> None:
    written = {
        name
        for path in [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("packages/*/tests/**/test_*.py")]
        for name in re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8"))
    }
    named = set(re.findall(r"`(test_\w+)`", PROMISED))
    assert named
    assert named - written == set()


def test_every_promise_of_the_page_on_security_names_a_test() -> None:
    promises = re.split(r"^- ", PROMISED, flags=re.MULTILINE)[1:]
    assert promises
    assert [each.splitlines()[0] for each in promises if "`test_" not in each] == []
