"""The command line in Chinese: no English sentence of ours is left, whatever is typed."""

from __future__ import annotations

import io
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from tests.commands import Cli

from plansmith import read_plan
from plansmith_cli import parser as cli_parser
from plansmith_cli.command_table import COMMANDS
from plansmith_cli.main import load_command, main, parser_of
from plansmith_cli.ui.terminal import text_width
from plansmith_planner.language.characters import HAN

CHINESE = cli_parser.chinese_texts()

# Two words beside each other are a sentence of ours, unless they are one of these.
_ENGLISH = re.compile(r"[A-Za-z]{2,}(?:['’-][a-z]+)?(?:,? [a-z]{2,}){1,}")
_OTHERS = re.compile(
    r"plansmith(?: -C \S+)? [a-z]+[^，。；：）”]*"  # a command
    r"|\"[^\"]*\"|'[^']*'|`[^`]*`"  # what somebody wrote
    r"|(?:tool|files|tables|charts)\.\w+|usage: .*"
    r"|No such file or directory|file is not a database"  # what the system says
    r"|\b\w+ = .*|\w+ inputs\.\w+"  # arguments and results
    r"|csv-[a-z]+|\{[^}]*\}|\[[^]]*\]|--[a-z-]+ \S+"  # choices, and options with their values
)
PY = ("--tools", "tools.py")
LOOK = {"id": "kan", "tool": "look", "inputs": {"name": "甲"}, "title": "看一看"}
NOTE = {"id": "ji", "tool": "note", "inputs": {"text": "{{kan.name}}"}}
BROKEN = {"id": "huai", "tool": "broken", "inputs": {"name": "甲"}}
SAYS = {"id": "da", "say": "看到了 {{kan.name}}"}


def english(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if _ENGLISH.search(_OTHERS.sub(" ", line)):
            yield line


Typed = Callable[..., int]


@pytest.fixture
def types(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Typed]:
    """Types a command in Chinese; at the end, everything that was English is shown."""
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    found: list[str] = []

    def run(*words: str) -> int:
        code, out, err = cli(*words)
        found.extend(f"{' '.join(words[:2])}: {line}" for line in english(out + err))
        return code

    yield run
    assert not found, "\n".join(found)


def test_the_words_of_a_sentence_are_found_and_names_are_not() -> None:
    assert [*english("Takes about 2 s, price unknown")]
    assert [*english("错误：there is no run “x”")]
    assert not [*english("工具 tables.sql · plansmith approve last 0af3 --tools tools.py")]


def test_a_request_is_planned_reviewed_run_and_reported_in_chinese(
    types: Typed, desk: Path
) -> None:
    (desk / "五月.txt").write_text("两张发票\n", encoding="utf-8")
    asked = "哪些文件提到了发票？"
    assert types("plan", asked, "--model", "rules") == 0
    assert types("ask", asked, "--model", "rules", "--no-input") == 5
    assert types("show last") == 0
    assert types("approve last") == 5
    assert types("ask", asked, "--model", "rules", "--yes-read-only", "-v") == 0
    for words in (("report", "last"), ("show", "last"), ("runs",), ("show", "last", "--graph")):
        assert types(*words) == 0
    assert types("ask", "写一首关于春天的诗", "--model", "rules", "--no-input") != 0


def test_a_chinese_request_is_answered_in_chinese_whatever_the_environment_says(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    for asked, code in (("每天早上九点列出这里的文件", 5), ("写一首关于春天的诗", 3)):
        ended, out, err = cli("ask", asked, "--model", "rules", "--no-input")
        assert (ended, [*english(out + err)]) == (code, []), out + err
    assert "is not a whole number" in cli("runs --limit x")[2]  # that was no request


def test_a_plan_is_run_asked_about_and_continued_in_chinese(types: Typed, cli: Cli) -> None:
    plan = cli.write(LOOK, NOTE, SAYS, goal="记下来")
    assert types("run", plan, *PY, "--no-input") == 5
    digest = cli.json("show last")["hash"]
    assert types("approve last", digest, *PY, "--go", "--no-input") == 5  # asks for consent
    assert types("show last") == 0
    assert types("answer last --show", *PY) == 0
    assert types("answer last allow", *PY, "--go") == 0
    assert types("report last --evidence") == 0
    assert types("run", cli.write(LOOK, BROKEN, goal="会失败", name="b.json"), *PY) != 0
    assert types("runs") == 0
    changed = cli.write(LOOK | {"inputs": {"name": "乙"}}, goal="记下来", name="c.json")
    for words in (("check", plan, *PY), ("diff", plan, changed), ("show", changed)):
        assert types(*words) == 0


def test_what_goes_wrong_is_told_in_chinese(types: Typed, cli: Cli) -> None:
    cli.write({"id": "x", "tol": "look"}, name="broken.json")
    types_of_fields = "goal: 5\nsteps: [{id: a, tool: look, timeout_s: -5, style: new, retry: 7}]"
    (cli.folder / "types.yaml").write_text(types_of_fields, encoding="utf-8")
    (cli.folder / "text.db").write_text("no database", encoding="utf-8")
    cli("run", cli.write(LOOK, SAYS), *PY)
    for words in (
        ("shwo", "last"),
        ("show", "0000ffff"),
        ("run", "missing.yaml"),
        ("check", "broken.json"),
        ("check", "types.yaml"),
        ("run", "last", *PY),
        *(("answer", "last", "yes"), ("ask", " "), ("runs", "--limit", "x"), ("trust", "nowhere")),
        *(("tokens", "create", "x", "--scope", "fly"), ("tenants", "create", "Acme!")),
        ("store", "restore", "text.db", "--yes"),
        *(("store", "doctor", "--store", "sqlite:///text.db"), ("agents", "show", "x")),
        *(("model", "pull", "--offline"), ("serve", "--host", "0.0.0.0")),
        *(("ask", "看一看", "--model", "x"), ("tools", "show", "x")),
    ):
        assert types(*words) != 0, words


def test_every_text_of_the_help_has_its_chinese_and_nothing_else_is_in_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    monkeypatch.setenv("COLUMNS", "80")
    asked: set[str] = set()
    monkeypatch.setattr(cli_parser, "chinese_texts", lambda: _Asked(CHINESE, asked))
    assert main(["--help"]) == 0
    assert main(["help", "all"]) == 0
    text = capsys.readouterr().out
    for name in COMMANDS:
        text += parser_of(name, load_command(name)).format_help()
    wide = [line for line in text.splitlines() if text_width(line) > 80 and HAN.search(line)]
    assert "\n".join(wide) == ""
    assert asked - CHINESE.keys() == set()
    assert CHINESE.keys() - asked == set()


class _Asked(dict[str, str]):
    """The table, and what was looked up in it."""

    def __init__(self, texts: Mapping[str, str], asked: set[str]) -> None:
        super().__init__(texts)
        self._asked = asked

    def get(self, key: str, default: str = "") -> str:  # type: ignore[override]
        self._asked.add(key)
        return super().get(key, default)


def test_schedules_and_templates_and_codes_are_told_in_chinese(types: Typed, cli: Cli) -> None:
    plan = cli.write(LOOK, SAYS, goal="看一看")
    digest = read_plan(Path(plan).read_text(encoding="utf-8")).hash
    add = ("schedule", "add", "--plan", plan, "--name", "ri", "--daily", "09:00", *PY)
    assert types(*add) == 5
    assert types(*add, "--approve-plan", digest) == 0
    done: list[tuple[str, ...]] = [
        ("show", "ri"),
        ("run-now", "ri", *PY),
        ("history", "ri"),
        ("pause", "ri"),
        ("list",),
        ("keep", "--once", *PY),
        ("remove", "ri"),
    ]
    for words in done:
        assert types("schedule", *words) == 0, words
    assert types("schedule next --every soon") == 2
    assert types("run", plan, *PY) == 0
    saved = ("save", "last", "cheng", "--param", "name=kan.inputs.name", *PY)
    for action in (("list",), saved, ("show", "cheng"), ("list",), ("suggest", "烤面包")):
        assert types("templates", *action) == 0, action
    assert types("templates use cheng", *PY) == 0
    assert types("templates remove cheng") == 0
    assert types("templates save last") == 2
    assert types("help 405") == 0
    assert types("help problems") == 0


def test_the_commands_of_operators_are_told_in_chinese(types: Typed, cli: Cli) -> None:
    assert types("run", cli.write(LOOK, SAYS, goal="看一看"), *PY) == 0
    assert types("run", cli.write(LOOK, BROKEN, goal="会失败", name="b.json"), *PY) != 0
    assert types("run", cli.write(LOOK, NOTE, goal="记下来", name="n.json"), *PY, "--no-input") == 5
    Path("plansmith.toml").write_text(
        '[run]\ndata = "show"\n[models.plan]\nmodel = "rules"\n', encoding="utf-8"
    )
    assert types("trust") == 5
    digest = cli.json("trust", code=5)["hash"]
    assert types("trust --yes 0") != 0
    for words in (
        *(("trust", "--yes", digest), ("trust", "--list")),
        *(("tokens", "create", "ci", "--scope", "look,propose"), ("tokens", "list")),
        *(("tenants", "create", "acme"), ("tenants", "remove", "acme")),
        *(("store", "verify", "--all"), ("store", "doctor", "--sample", "1")),
        *(("store", "prune", "--older-than", "90d", "--yes"), ("store", "backup", "../copy.db")),
        *(("store", "restore", "../copy.db", "--yes"), ("config", "prompts", "list")),
        *(("model", "list"), ("config", "--all")),
    ):
        assert types(*words) == 0, words


def test_a_damaged_run_and_a_failed_tool_are_told_in_chinese(
    types: Typed, cli: Cli, desk: Path
) -> None:
    reading = {"id": "du", "tool": "files.read", "inputs": {"path": "没有.txt"}}
    assert types("run", cli.write(reading, goal="读文件"), "--model", "rules") != 0
    assert types("report last") == 0
    assert types("ask", "1/0 是多少", "--model", "rules") == 0
    with closing(sqlite3.connect(desk.parent / "store" / "runs.db")) as store, store:
        store.execute("DELETE FROM events WHERE number = 2 AND run = (SELECT max(run) FROM events)")
    assert types("store verify --all") == 1
    assert types("store doctor") == 1
    assert types("show last") == 0
    assert types("report last") != 0


def test_the_report_in_a_chat_is_in_the_language_of_the_person(
    types: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("唱一首歌\n/report\n"))
    types("chat --model rules")
