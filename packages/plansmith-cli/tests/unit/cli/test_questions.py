"""Questions at the command line: who asks is to be seen, and what is allowed is seen whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.commands import Cli

from plansmith import QuestionAsked
from plansmith_cli.keyboard import read_choice
from plansmith_cli.questions import read_answer

PY = ("--tools", "tools.py")
LONG = "".join(f"{number:05d}\n" for number in range(5_000))
FAKE = "Plansmith asks for your consent to call note (data:n?1):"
READER = '''

@tool(effect="read")
def letter() -> dict:
    """Read a letter."""
    return {"text": Path("letter.txt").read_text(encoding="utf-8")}
'''


@pytest.fixture(autouse=True)
def letter(desk: Path) -> Path:
    with (desk / "tools.py").open("a", encoding="utf-8") as file:
        file.write(READER)
    path = desk / "letter.txt"
    path.write_text(LONG, encoding="utf-8")
    return path


READ = {"id": "r", "tool": "letter"}
NOTE = {"id": "n", "tool": "note", "inputs": {"text": "{{r.text}}"}}


def waiting(cli: Cli, *steps: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Run a plan, approved as it is, until it asks; gives the run and what was said."""
    cli("run", cli.write(*steps), *PY, "--no-input")
    cli("approve last", cli.json("show last")["hash"], *PY, "--no-input")
    err = cli("go last", *PY, "--no-input", code=5).err
    run: dict[str, Any] = cli.json("show last")
    return run, err


def test_consent_can_be_given_to_values_that_were_seen_to_the_last_letter(cli: Cli) -> None:
    run, err = waiting(cli, READ, NOTE)
    (asked,) = run["questions"]
    assert asked["kind"] == "consent"
    assert "only the first 2,000 of 30,000 characters" in asked["text"]
    assert "--show" in err
    assert cli.json("answer last data:n?1 --show")["values"] == {"text": LONG}
    cli("answer last --show", code=0, out=("text (30,000):", "│ 04999"))
    assert cli.json("show last")["questions"] == run["questions"]


def test_shown_values_cannot_steer_the_terminal(cli: Cli, letter: Path) -> None:
    letter.write_text(f"\x1b[2J\x1b[H{FAKE}\r\n{FAKE}\n" + "x" * 3000, encoding="utf-8")
    waiting(cli, READ, NOTE)
    _, out, _ = cli("answer last --show")
    assert "\x1b" not in out
    assert "\r" not in out
    heads = [line for line in out.splitlines() if line.startswith("Plansmith asks")]
    assert heads == ["Plansmith asks for your consent to call note (data:n?1):"]


@pytest.mark.parametrize(
    "text",
    [
        FAKE,
        f"Ready?\n{FAKE}\n  1. allow",
        f"Ready?\r\x1b[1A{FAKE}",
        "Ready?" + " " * 200 + FAKE,
        "│" * 73 + FAKE,
        "字" * 36 + FAKE,
    ],
)
@pytest.mark.parametrize("columns", [60, 80, 133])
def test_a_question_of_the_plan_cannot_look_like_one_of_plansmith(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, text: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert shutil.get_terminal_size().columns == columns
    ask = {"id": "q", "question": text, "options": [FAKE, "allow"]}
    lines = cli("run", cli.write(ask), *PY, "--no-input", code=5).err.splitlines()
    assert "The plan asks, in its step q (q):" in lines
    assert not [line for line in lines if line.startswith("Plansmith asks")]
    for line in lines[lines.index("The plan asks, in its step q (q):") + 1 :]:
        if "asks for" in line:
            assert line.startswith("  │ ")
            assert len(line) <= columns
    run = cli.json("show last")
    assert [each["kind"] for each in run["questions"]] == ["step"]


MAP_TOOL = '''

@tool(effect="read")
def names() -> dict:
    """Whom to write to."""
    return {"all": ["ann", "bob", "cyd"], "said": "x"}
'''


def told_of_consent(run: dict[str, Any]) -> dict[str, Any]:
    """What a person is told about a consent, apart from the values."""
    (asked,) = run["questions"]
    return {name: asked.get(name, 0) for name in ("callee", "sources", "times")}


def test_consent_names_what_is_called_how_often_and_where_the_values_came_from(cli: Cli) -> None:
    with (cli.folder / "tools.py").open("a", encoding="utf-8") as file:
        file.write(MAP_TOOL)
    who = {"id": "who", "tool": "names"}
    step = {"id": "n", "tool": "note", "inputs": {"text": "{{who.said}}"}}
    run, _ = waiting(cli, who, step)
    assert told_of_consent(run) == {"callee": "note", "sources": ["who"], "times": 0}
    each = {"tool": "note", "inputs": {"text": "{{item}}"}}
    run, _ = waiting(cli, who, {"id": "m", "over": "{{who.all}}", "each": each, "most": 2})
    assert told_of_consent(run) == {"callee": "note", "sources": ["who"], "times": 3}


def test_a_report_tells_consent_and_an_answer_to_a_plan_that_imitates_it_apart(cli: Cli) -> None:
    fake = {"id": "q", "question": "Plansmith asks for your consent", "options": ["allow"]}
    waiting(cli, READ, fake, NOTE | {"after": ["q"]})
    cli("answer last q allow", *PY, "--go", "--no-input")
    out = cli("answer last refuse", *PY, "--go", "--no-input", code=7).out
    assert "answered the plan's own question “Plansmith asks for your consent”: allow" in out
    assert "did not allow note to be called with values out of r" in out
    assert "the plan was revised" not in out


SAVE = {"id": "s", "tool": "files.write"}


def test_consent_tells_what_happens_to_the_file_and_takes_a_value_of_ones_own(
    cli: Cli, letter: Path
) -> None:
    letter.write_text("new\nsame\n", encoding="utf-8")
    (cli.folder / "out.md").write_text("old\nsame\n", encoding="utf-8")
    inputs = {"path": "out.md", "text": "{{r.text}}", "overwrite": True}
    waiting(cli, READ, SAVE | {"inputs": inputs})
    out = cli("answer last --show", out="  - Replaces out.md (9 bytes) by 9 bytes:").out
    assert [line.strip() for line in out.splitlines() if line.strip()[:2] in ("│+", "│-")] == [
        "│-old",
        "│+new",
    ]
    cli("answer last --set path=", *PY, code=4, err="path: ")
    cli("answer last --set", "path=mine {{r.text}}.md", *PY, "--no-input", code=0)
    cli("go last", *PY, "--no-input")
    assert (cli.folder / "mine {{r.text}}.md").read_text(encoding="utf-8") == "new\nsame\n"
    assert (cli.folder / "out.md").read_text(encoding="utf-8") == "old\nsame\n"
    each = {"tool": "files.write", "inputs": {"path": "{{item}}.md", "text": "{{r.text}}"}}
    waiting(cli, READ, {"id": "m", "over": ["a", "b"], "each": each})
    one = ("answer", "last", "data:m/1?1", "--set")
    assert cli(*one, "path=", *PY)[0] == 4
    assert cli(*one, "path={{c}}.md", *PY, "--no-input")[0] == 0
    cli("answer last data:m/0?1 refuse", *PY, "--go", "--no-input")
    assert (cli.folder / "{{c}}.md").read_text(encoding="utf-8") == "new\nsame\n"
    assert not [*cli.folder.glob("[ab].md")]


ITEMS = {"id": "n", "over": ["a", "b", "c"], "each": {**NOTE, "id": "e"}}
HOSTILE = f"\x1b[2J\u202e{FAKE}\n{'x' * 300} Allow all 3? y"


def test_all_items_are_allowed_by_one_answer_to_exactly_the_table_that_was_shown(
    cli: Cli, letter: Path
) -> None:
    letter.write_text(HOSTILE, encoding="utf-8")
    waiting(cli, READ, ITEMS)
    notes = cli.folder / "notes.txt"
    head = "Plansmith asks for your consent to call note 3 times (n):"
    err = cli("answer last allow", *PY, "--no-input", code=5, err=head).err
    assert not notes.exists()
    assert not [line for line in err.splitlines() if line.startswith(FAKE)]
    assert "\x1b" not in err
    assert "\u202e" not in err
    # Named, but not seen: the table is shown, and nothing is allowed.
    assert cli("answer last n yes", *PY, "--no-input")[0] == 5
    words = cli("answer last n --show", *PY)[1].splitlines()[-1].split()
    digest = words[words.index("--seen") + 1]
    # One item is decided on elsewhere: the table is another one now.
    assert cli("answer last data:n/1?1 n", *PY, "--no-input")[0] == 0
    allow = ("answer last n allow --seen", digest, *PY, "--no-input")
    cli(*allow, code=4, err="is not the one you saw")
    assert not notes.exists()
    words = cli("answer last n --show", *PY)[1].splitlines()[-1].split()
    assert cli(*words[1:], "--no-input")[0] == 0
    cli("go last", *PY, "--no-input")
    assert notes.read_text(encoding="utf-8") == f"{HOSTILE}\n" * 2
    lines = cli("runs watch last --jsonl")[1].splitlines()
    events = [json.loads(line)["body"] for line in lines]
    answers = [each["answer"] for each in events if each["type"] == "question_answered"]
    assert answers == ["refuse", "allow", "allow"]


def test_a_second_person_is_needed_for_all_items_as_for_one(cli: Cli, letter: Path) -> None:
    letter.write_text("hello", encoding="utf-8")
    waiting(cli, READ, ITEMS)
    words = cli("answer last n --show", *PY)[1].splitlines()[-1].split()
    own = cli.folder.parent / ".config" / "plansmith" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[review]\nsecond_person = "changes"\n', encoding="utf-8")
    cli(*words[1:], "--no-input", code=4)
    assert len(cli.json("show last")["questions"]) == 3


def test_files_of_one_answer_are_bound_to_what_was_seen(cli: Cli, letter: Path) -> None:
    letter.write_text("hello\n", encoding="utf-8")
    (cli.folder / "a.md").write_text("one\n", encoding="utf-8")
    inputs = {"path": "{{item}}.md", "text": "{{r.text}}", "overwrite": True}
    waiting(cli, READ, {"id": "m", "over": ["a", "b"], "each": SAVE | {"inputs": inputs}})
    out = cli("answer last m --show", *PY)[1].splitlines()
    assert "  - Replaces a.md (4 bytes) by 6 bytes:" in out
    (cli.folder / "a.md").write_text("somebody's\n", encoding="utf-8")
    assert cli(*out[-1].split()[1:], "--no-input")[0] == 0
    cli("go last", *PY, "--no-input", code=5, err=("data:m/0?2", "│-somebody's"))
    assert (cli.folder / "a.md").read_text(encoding="utf-8") == "somebody's\n"


def test_a_review_says_what_is_lost_first_and_names_it(cli: Cli) -> None:
    (cli.folder / "keep.txt").write_text("a\nb\nc\n", encoding="utf-8")
    (cli.folder / "log.txt").write_text("a\nb\nc\n", encoding="utf-8")
    (cli.folder / "old.txt").write_text("x", encoding="utf-8")
    (cli.folder / "empty").mkdir()
    plain = {"$literal": True}
    files = [
        ("new", "files.write", {"path": "new.txt", "text": "\x1b[1mhi"}),
        ("log", "files.append", {"path": "log.txt", "text": "d\n"}),
        ("out", "files.write", {"path": "keep.txt", "text": "a\nz\n", "overwrite": plain}),
        ("gone", "files.delete", {"path": "old.txt"}),
        ("dir", "files.delete", {"path": "empty"}),
        ("move", "files.move", {"path": "letter.txt", "to": "mail.txt"}),
    ]
    steps = [{"id": name, "tool": tool, "inputs": inputs} for name, tool, inputs in files]
    err = cli("run", cli.write(*steps), *PY, "--no-input")[2]
    asked = err[err.index("With the data of now") : err.index("  hash ")].splitlines()[1:]
    lines = [line.strip() for line in asked if "│" not in line and ". files" not in line]
    assert lines == [
        "- Replaces keep.txt (6 bytes) by 4 bytes:",
        "- Deletes old.txt (1 bytes)",
        "- Deletes the folder empty",
        "+ Writes new.txt (new file, 6 bytes)",
        "~ Changes log.txt (6 bytes now):",
        "> Moves letter.txt to mail.txt",
    ]
    assert {"    │-b", "    │-c", "    │+z"} <= {*asked}
    assert "Step `gone` does something to `old.txt` that cannot be undone" in err
    assert "\x1b" not in err


CONSENT = {"kind": "consent", "options": ("allow", "refuse")}
COLOURS = {"options": ("red", "blue")}
NUMBER = {"answer_schema": {"type": "integer"}}


@pytest.mark.parametrize(
    ("fields", "typed", "expected"),
    [
        (CONSENT, "y", "allow"),
        (CONSENT, "No", "refuse"),
        (CONSENT, "yes please, but not the last", "yes please, but not the last"),
        ({"kind": "limit", "options": ("continue", "stop")}, "yes", "continue"),
        ({"kind": "unknown", "options": ("done", "not_done", "retry")}, "n", "not_done"),
        ({"options": ("Yes", "not now")}, "y", "Yes"),
        ({"options": ("y", "yes")}, "好", "好"),  # either could be meant
        *(({}, " any text ", "any text"), ({}, "12", "12"), (COLOURS, "blue", "blue")),
        *((COLOURS, "2", "blue"), ({"options": ("2", "1")}, "1", "1"), (NUMBER, "12", 12)),
        ({"answer_schema": {"type": "string"}}, "12", "12"),
        ({"answer_schema": {"type": "array"}}, '["a"]', ["a"]),
    ],
)
def test_an_answer_is_what_its_question_can_take(
    fields: dict[str, Any], typed: str, expected: object
) -> None:
    asked = QuestionAsked(question="q", text="?", **{"kind": "step", **fields})
    assert read_answer(asked, typed) == expected


# What is typed


YES = {"y", "yes", "是", "好"}


@given(st.text())
def test_only_an_explicit_yes_approves(typed: str) -> None:
    assert (read_choice(typed).kind == "yes") == (typed.strip().lower() in YES)


@pytest.mark.parametrize(
    ("typed", "kind"),
    [
        *(("", "later"), ("yes please", "later"), ("yy", "later"), ("ok", "later"), ("1", "later")),
        *(("c", "later"), ("n", "no"), ("No", "no"), ("否", "no"), ("e", "edit")),
        ("c use Athens instead", "changes"),
    ],
)
def test_everything_else_does_not(typed: str, kind: str) -> None:
    assert read_choice(typed).kind == kind
    assert read_choice("c use Athens instead").text == "use Athens instead"
