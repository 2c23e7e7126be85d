"""One look and one yes, on a real terminal: what a person sees, leaves out and changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.terminal import Person
from tests.e2e.test_terminal import TOOLS as NOTES

PROMPT = "Enter = not now:"
PY = ("--tools", "tools.py")
TOOLS = '''

@tool(effect="read", free=False)
def price() -> int:
    """What it costs; asking costs, too."""
    return 5
'''
LOOK = {"id": "r", "tool": "look", "inputs": {"name": "here.txt"}}
NOTE = {"id": "n", "tool": "note", "inputs": {"text": "one {{r.name}}"}}
EACH = {
    "id": "all",
    "over": ["a", "b", "c"],
    "each": {"tool": "note", "inputs": {"text": "{{item}}"}},
}


@pytest.fixture
def person(tmp_path: Path) -> Person:
    (tmp_path / "tools.py").write_text(NOTES + TOOLS, encoding="utf-8")
    (tmp_path / "here.txt").touch()
    return Person(tmp_path)


def test_a_first_request_shows_the_change_itself_and_one_yes_makes_it(person: Person) -> None:
    (person.folder / "list.md").write_text("tea\n", encoding="utf-8")
    with person.types("ask", "Append 'milk' to list.md") as terminal:
        text = terminal.reply("y", "~ Changes list.md (4 bytes now):", "│+milk", PROMPT)
        assert text.index("│+milk") < text.index("hash ") < text.index(PROMPT)
        assert terminal.ended() == 0
        assert "Your answer" not in terminal.screen.text
    assert (person.folder / "list.md").read_text(encoding="utf-8").split() == ["tea", "milk"]


def test_some_calls_are_left_out_and_one_is_changed(person: Person) -> None:
    with person.types("run", person.plan(LOOK, NOTE, EACH), *PY) as terminal:
        terminal.reply("leave out 2 4 9", "1. note (n)", "2-4. note (all)", PROMPT)
        terminal.until("- left out: 2. note (all/0)", "there is no number 9 here")
        terminal.reply("change 3 text=B {{r}}", PROMPT, times=2)
        terminal.until("│-b", "│+B {{r}}")
        terminal.reply("change 1 txt=B", PROMPT, times=3)
        terminal.reply("y", PROMPT, times=4)  # what was not shown cannot be changed
        terminal.until("no value 'txt' was shown")
        terminal.reply("leave out 2, 4", PROMPT, times=5)
        terminal.reply("change 3 text=B {{r}}", PROMPT, times=6)
        terminal.reply("all", PROMPT, times=7)
        terminal.until("text (12):")
        terminal.reply("y", PROMPT, times=8)
        assert terminal.ended() == 0
        assert "Your answer" not in terminal.screen.text
    assert sorted(person.notes.splitlines()) == ["B {{r}}", "one here.txt"]


def test_what_costs_is_read_at_a_key(person: Person) -> None:
    price = {"id": "c", "tool": "price"}
    pay = {"id": "n", "tool": "note", "inputs": {"text": "pay {{c}}"}}
    with person.types("run", person.plan(price, pay), *PY) as terminal:
        terminal.reply("p", "p = see first what would change (calls price)", PROMPT)
        terminal.until("Reading, which changes nothing: price", "│ text = pay 5")
        text = terminal.reply("y", PROMPT, times=2)
        assert text.count("With the data of now") == 1
        assert terminal.ended() == 0
    assert person.notes == "pay 5\n"


def test_kill_9_between_preview_approval_and_run_loses_and_repeats_nothing(person: Person) -> None:
    wait = {"id": "w", "tool": "look", "inputs": {"name": "go.txt"}, "after": ["n"]}
    last = {"id": "z", "tool": "note", "inputs": {"text": "two {{r.name}}"}, "after": ["w"]}
    with person.types("run", person.plan(LOOK, NOTE, wait, last), *PY) as terminal:
        seen = terminal.until("│ text = one here.txt", "│ text = two here.txt", PROMPT)
        terminal.kill()
    (person.folder / "here.txt").unlink()  # what was read is not read again
    with person.types("go", *PY) as terminal:
        text = terminal.until(PROMPT)
        assert text[text.index("With the") :] == seen[seen.index("With the") :]
        terminal.type("y\n")
        terminal.until("▶ w  running")
        terminal.kill()
    assert person.notes == "one here.txt\n"
    person.lets_go_on()
    with person.types("go", *PY) as terminal:
        assert terminal.ended() == 0
        assert "Your answer" not in terminal.screen.text
    assert person.notes == "one here.txt\ntwo here.txt\n"
