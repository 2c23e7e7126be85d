from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Cli

from plansmith import plugins, read_plan
from plansmith.errors import PlanInvalid
from plansmith.plan.problem import CODES
from plansmith_cli.command_table import COMMANDS, DAILY, MORE
from plansmith_cli.commands import plans
from plansmith_cli.commands.help import problem_help
from plansmith_planner.language.characters import HAN

PLAN: dict[str, Any] = {
    "goal": "Compare",
    "steps": [
        {"id": "a", "tool": "weather", "inputs": {"city": "Oslo"}},
        {"id": "b", "tool": "weather", "inputs": {"city": "{{a.twin}}"}},
    ],
}


@pytest.fixture
def put(tmp_path: Path) -> Callable[[str, Any], str]:
    def make(name: str, value: Any) -> str:
        path = tmp_path / name
        text = value if isinstance(value, str) else json.dumps(value)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return make


Put = Callable[[str, Any], str]


def test_a_plan_is_shown_and_converted_and_means_the_same(put: Put, cli: Cli) -> None:
    path = put("plan.json", PLAN)
    cli("show", path, code=0, out='city = "Oslo"')
    yaml = put("plan.yaml", cli("convert", path, "--to", "yaml", code=0).out)
    again = put("again.json", cli("show", yaml, "--json", code=0).out)
    assert cli("diff", path, again)[:2] == (0, "the plans are equal\n")
    titled = {**PLAN, "steps": [PLAN["steps"][0] | {"title": "T"}, PLAN["steps"][1]]}
    different = '~ a title: + "T"\nboth would run the same\n'
    assert cli("diff", path, put("b.json", titled))[:2] == (0, different)


def test_a_good_plan_checks_with_0_and_a_bad_one_with_3(put: Put, cli: Cli) -> None:
    plan = put("plan.json", PLAN)
    tools = put("tools.json", {"weather": {"description": "d", "input_schema": {}}})
    good = f"no problems (checked against {tools})\n"
    assert cli("check", plan, "--tools", tools)[:2] == (0, good)
    cli("check", plan, "--tools", put("none.json", {}), code=3, out="PS101")
    result = cli.json("check", put("broken.json", "{"), code=3)
    assert (result["ok"], result["hash"], result["problems"][0]["code"]) == (False, None, "PS002")


@pytest.mark.parametrize("typed", ["PS405", "ps405", "405"])
def test_a_code_is_explained_with_what_to_do_and_an_example(typed: str, cli: Cli) -> None:
    text = cli("help", typed, code=0, out="    - {id: a, agent: researcher, task: find names}").out
    assert "Take a limited part of the list" in " ".join(text.split())


def test_every_code_is_explained_as_the_page_of_problem_codes_does() -> None:
    page = Path(__file__).parents[5].joinpath("docs", "problems.md").read_text(encoding="utf-8")
    prose = " ".join(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", page).split())
    assert problem_help().keys() == CODES.keys()
    for code, text in problem_help().items():
        before, _, after = text["en"].partition(": Such a plan is never")  # around its example
        assert before in prose, code
        assert after in prose, code
        assert text["example"] in page, code
        assert HAN.search(text["zh"])
        assert HAN.search(text["zh_meaning"]), code


def test_a_reader_that_leaves_early_is_no_error(put: Put) -> None:
    steps = [{"id": f"s{number}", "tool": "t"} for number in range(5_000)]
    path = put("big.json", {"steps": steps})
    command = f"{sys.executable} -m plansmith_cli show {path} | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Plan:")
    assert done.stderr == ""


def test_prompts_are_listed_shown_and_exported_to_be_changed(cli: Cli) -> None:
    names = [row["name"] for row in cli.json("config prompts list")]
    mine = cli.folder / "mine"
    cli("config prompts export mine", code=0)
    assert sorted(path.stem for path in mine.iterdir()) == names
    cli("config prompts export mine", code=2)
    (mine / "draft.md").write_text("mine alone\n", encoding="utf-8")
    (cli.folder / "plansmith.toml").write_text('[planner]\nprompts = "mine"\n', encoding="utf-8")
    cli("trust --yes", cli.json("trust", code=5)["hash"], code=0)
    assert cli("config prompts show draft")[:2] == (0, "mine alone\n")
    assert re.search(r"^draft +yours$", cli("config prompts list", code=0).out, re.MULTILINE)
    cli("config prompts show nope", code=2)


def test_a_failure_that_names_hostile_text_does_not_steer_the_terminal(cli: Cli) -> None:
    plan = cli.write({"id": "a", "tool": "no\x1b[31m\u202esuch"})
    told = cli("run", plan, "--no-input", err="no\\u001b[31m\\u202esuch")
    assert (told.code != 0, "\x1b" in told.err) == (True, False)


# Options, hashes and what is missing


LOOK = {"id": "a", "tool": "look", "inputs": {"name": "x"}}


def test_a_shown_plan_file_has_its_hash_and_can_be_read_again(cli: Cli) -> None:
    text = cli("show", cli.write(LOOK), "--json")[1]
    stated = json.loads(text)
    assert stated["hash"] == cli.json("check plan.json", code=3)["hash"]
    assert read_plan(text).hash == stated["hash"]
    with pytest.raises(PlanInvalid, match="hash is not the hash of this plan"):
        read_plan(stated | {"steps": [LOOK | {"inputs": {"name": "y"}}]})


def test_a_mistyped_option_is_told_the_one_that_was_meant(cli: Cli) -> None:
    cli("ask x --yes-read-onyl", code=2, err="did you mean --yes-read-only?")


@pytest.mark.parametrize("option", ["--yes", "--yes-read", "--js"])
def test_the_beginning_of_an_option_is_no_option(cli: Cli, option: str) -> None:
    cli("run", cli.write(LOOK), "--no-input")
    cli("go last", option, code=2, err="unrecognized arguments")


# Plans in other dialects


CALL = {"type": "tool", "name": "look", "arguments": {"name": "x"}}
REFUSED: dict[str, Any] = {
    "tasks": [{"title": "Pay", "query": "pay", "agent_name": "desk", "pattern": "daily"}],
    "adequate": False,
    "reason": "no account",
}


def test_a_plan_in_a_dialect_is_checked_by_the_check_command(put: Put, cli: Cli) -> None:
    found = cli.json("check", put("plan.json", [CALL]), "--dialect", "sage", "--tools", "tools.py")
    assert (found["ok"], bool(found["hash"])) == (True, True)
    wrong = put("plan.json", [CALL | {"name": "lok"}, 5])
    cli("check", wrong, "--dialect", "sage", "--tools", "tools.py", code=3, out=("PS101", "PS014"))


def test_a_plan_in_a_dialect_is_run_by_the_run_command(put: Put, cli: Cli) -> None:
    name = put("plan.json", [CALL])
    words = ("--dialect", "sage", "--tools", "tools.py", "--yes-read-only", "--json")
    assert json.loads(cli("run", name, *words, code=0).out)["status"] == "done"


def test_a_plan_that_refuses_is_not_run_by_the_run_command(put: Put, cli: Cli) -> None:
    cli("run", put("plan.json", REFUSED), "--dialect", "valuecell", code=3, err="pattern")


def test_an_unknown_dialect_is_refused_by_the_command_line_with_the_list(cli: Cli) -> None:
    cli("check plan.json --dialect klingon", code=2, err="valuecell")


# Finding one's way: help, wrong names, completion, settings


def test_every_command_is_listed_once_under_its_subject() -> None:
    listed = [*DAILY, *(name for names in MORE.values() for name in names)]
    assert sorted(listed) == sorted(name for name in COMMANDS if " " not in name)
    assert len(listed) <= 30


def test_help_tells_the_commands_of_every_day_first_and_all_on_demand(cli: Cli) -> None:
    short, whole = cli("--help")[1], cli("help all")[1]
    assert short.index("  ask ") < short.index("more (plansmith help all")
    assert COMMANDS["store vacuum"].summary not in short
    assert all(entry.summary in whole for entry in COMMANDS.values())


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        *((("aks",), "ask"), (("aprove",), "approve"), (("runs", "puase"), "runs pause")),
        *((("doctor",), "store doctor"), (("stoer", "x"), "store")),
    ],
)
def test_a_mistyped_command_is_told_the_one_that_was_meant(
    cli: Cli, typed: tuple[str, ...], expected: str
) -> None:
    outcome = cli(*typed)
    assert outcome[0] == 2
    assert f"did you mean '{expected}'?" in outcome[2]


def test_an_installed_package_adds_a_command(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site"
    (package / "greet-1.dist-info").mkdir(parents=True)
    entry = "[plansmith.commands]\ngreet = greeting:COMMAND\n"
    (package / "greet-1.dist-info" / "entry_points.txt").write_text(entry, encoding="utf-8")
    (package / "greeting.py").write_text(GREETING, encoding="utf-8")
    monkeypatch.syspath_prepend(str(package))
    plugins._found.cache_clear()
    try:
        assert cli("greet Ada")[1] == "Hello Ada\n"
        assert "say hello" in cli("help all")[1]
        assert "greet" not in cli("--help")[1]
        assert cli("greet")[0] == 2
    finally:
        plugins._found.cache_clear()


GREETING = """
from plansmith_cli.command_table import Command


def configure(parser):
    parser.add_argument("name")


def main(args):
    print("Hello", args.name)
    return 0


COMMAND = Command(configure, main, "say hello")
"""


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_shell_completes_commands_and_their_options(cli: Cli, shell: str) -> None:
    script = cli("completion", shell)[1]
    program = f"""
complete() {{ :; }}; autoload() {{ :; }}; bashcompinit() {{ :; }}
plansmith() {{ {sys.executable} -m plansmith_cli "$@"; }}
{script}
COMP_WORDS=(plansmith -C x appr); COMP_CWORD=3; _plansmith; echo "${{COMPREPLY[@]}}"
COMP_WORDS=(plansmith approve --js); COMP_CWORD=2; _plansmith; echo "${{COMPREPLY[@]}}"
COMP_WORDS=(plansmith store do); COMP_CWORD=2; _plansmith; echo "${{COMPREPLY[@]}}"
COMP_WORDS=(plansmith store doctor --sa); COMP_CWORD=3; _plansmith; echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:4] == ["approve", "--json", "doctor", "--sample"]


def test_config_shows_what_is_set_and_by_whom_but_no_secret(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANSMITH_STORE", "postgresql://ada:hidden@127.0.0.1/plans")
    text = cli("config")[1]
    assert "store" in text
    assert "(environment)" in text
    assert "hidden" not in text
    rows = cli.json("config run")
    assert {each["name"].partition(".")[0] for each in rows} == {"run"}
    wrong = cli("config no.such")
    assert wrong[0] != 0
    assert "there is no setting 'no.such'" in wrong[2]


BUSY = """
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from plansmith_cli import main as command_line

ThreadPoolExecutor().submit(Event().wait)  # as the embedded model while it reads


def interrupted() -> int:
    print("detached")
    return 130


command_line.main = interrupted
command_line.program()
"""


def test_a_command_that_was_interrupted_ends_though_a_thread_is_busy() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BUSY], capture_output=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (130, b"detached\n")


# `--json` prints one JSON document whatever happens: refusals, wrong usage, crashes


NOT_UTF_8 = "\udcff"  # as such a byte of the command line reaches a program


def error_of(out: str) -> dict[str, Any]:
    (key, error) = json.loads(out).popitem()
    assert key == "error"
    assert error.keys() >= {"code", "message", "hint", "exit"}
    found: dict[str, Any] = error
    return found


@pytest.mark.parametrize("name", [*COMMANDS, "no-such-command"])
def test_wrong_usage_of_every_command_is_told_as_json(name: str, cli: Cli) -> None:
    _, out, err = cli(
        *name.split(), "--json", "--no-such-flag", "a", "b", "c", "d", NOT_UTF_8, code=2
    )
    error = error_of(out)
    assert (error["code"], error["exit"]) == ("usage", 2)
    assert error["message"].partition(":")[2] or "no command" in error["message"]
    assert err


REFUSALS: dict[str, list[str]] = {
    "run": ["nowhere.json"],
    "approve": ["last", "HASH"],
    "store verify": ["last"],
    "ask": [" "],
    "chat": ["--thread", "last"],
    "agents": ["show", "nothing"],
    "schedule": ["show", "nothing"],
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_is_told_as_json(name: str, cli: Cli) -> None:
    code, out, _ = cli(*name.split(), *REFUSALS[name], "--json")
    error = error_of(out)
    assert code == error["exit"] != 0
    assert error["message"]


def test_a_plan_that_is_not_usable_is_told_with_its_problems(cli: Cli) -> None:
    code, out, _ = cli("run", cli.write(LOOK | {"after": ["a"]}), "--tools", "tools.py", "--json")
    error = error_of(out)
    assert (code, error["code"], error["problems"][0]["code"]) == (3, "invalid", "PS305")


def test_what_waits_for_a_person_is_the_run_itself(cli: Cli) -> None:
    note = {"id": "n", "tool": "note", "inputs": {"text": "x"}}
    cli("run", cli.write(note), "--tools", "tools.py", "--no-input")
    assert cli.json("approve last --no-input", code=5)["status"] == "reviewing"


def test_a_crash_is_told_as_json_and_whole_on_stderr(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(_: argparse.Namespace) -> int:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(plans, "CHECK", plans.CHECK._replace(main=crash))
    code, out, err = cli("check", cli.write(LOOK), "--json")
    error = error_of(out)
    assert (code, error["exit"], error["kind"]) == (1, 1, "Crash")
    assert "a mistake" in error["message"]
    assert "Traceback" in err
    assert cli("check", cli.write(LOOK))[:2] == (1, "")


def test_text_after_two_dashes_is_no_wish_for_json(cli: Cli) -> None:
    assert cli("show -- --json")[:2] == (2, "")


@pytest.mark.parametrize("words", ["runs", "show last", "threads", "schedule", "store verify"])
def test_a_store_whose_name_is_mistyped_is_not_made(cli: Cli, words: str) -> None:
    cli(words, "--store", "sqlite:///run.db", code=2, err="there is no store run.db")
    assert not Path("run.db").exists()


def test_a_noun_alone_lists_and_an_option_before_the_command_is_told_its_place(cli: Cli) -> None:
    for noun in ("tools", "model", "templates", "schedule"):
        assert cli(noun) == cli(noun, "list")
    assert "options follow the command" in cli("--lang zh runs")[2]
