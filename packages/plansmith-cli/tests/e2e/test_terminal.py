"""The command line and its chat before a person: on a real pseudo-terminal, by what is shown."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.e2e.terminal import PLANSMITH, Person, Terminal
from tests.servers.model_server import ModelServer, Reply, Request
from tests.unit.cli.travel_model import TOOLS as TRAVEL_TOOLS
from tests.unit.cli.travel_model import Travel

from plansmith.plan.data import Json
from plansmith_cli.ui.terminal import text_width

PY = ("--tools", "tools.py")
TOOLS = '''
import asyncio
from pathlib import Path

from plansmith import tool


async def come(name: str) -> None:
    while not Path(name).exists():
        await asyncio.sleep(0.01)


@tool(effect="read")
async def look(name: str) -> dict:
    """Wait until a file is there."""
    await come(name)
    return {"name": name}


@tool(effect="write")
async def note(text: str, when: str = "") -> dict:
    """Write a line down."""
    if when:
        await come(when)
    with Path("notes.txt").open("a", encoding="utf-8") as file:
        file.write(text + "\\n")
    return {"written": text}
'''
WAITS = [
    {"id": "first", "tool": "look", "inputs": {"name": "here.txt"}},
    {"id": "wait", "tool": "look", "inputs": {"name": "go.txt"}, "after": ["first"]},
    {"id": "last", "tool": "look", "inputs": {"name": "{{wait.name}}"}},
]
NOTE = {"id": "n", "tool": "note", "inputs": {"text": "hello"}}


@pytest.fixture
def person(tmp_path: Path) -> Person:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    (tmp_path / "sales.csv").write_text(SALES, encoding="utf-8")
    (tmp_path / "here.txt").touch()
    own = tmp_path / ".config" / "plansmith"
    own.mkdir(parents=True)
    (own / "config.toml").write_text("[run]\ngrace_s = 0.2\nfirst_wait_s = 0.0\n")
    return Person(tmp_path)


def test_yes_runs_the_plan_and_enter_does_not(person: Person) -> None:
    plan = person.plan(NOTE)
    with person.types("run", plan, *PY) as terminal:
        text = terminal.until("Enter = not now:")
        assert 'text = "hello"' in text
        assert "Step `n` changes something: it calls `note`" in text
        terminal.type("\n")
        assert terminal.ended() == 5
        assert "plansmith approve" in terminal.screen.text
    assert person.notes == ""
    with person.types("go", *PY) as terminal:
        terminal.reply("sure", "Enter = not now:")
        terminal.until("“sure” is neither y nor n, and only y runs the plan.")
        terminal.until("Enter = not now:", times=2)  # what is typed before it is no answer
        terminal.type("yes\n")
        assert terminal.ended() == 0
        assert "✓ n  done" in terminal.screen.text
    assert person.notes == "hello\n"


def test_no_rejects_and_what_was_typed_too_early_is_no_answer(person: Person) -> None:
    with person.types("run", person.plan(NOTE), *PY) as terminal:
        terminal.type("y\n")
        terminal.reply("n", "Enter = not now:")
        assert terminal.ended() == 4
        assert "rejected: nothing was run" in terminal.screen.text
    assert person.notes == ""
    assert person.shown().status == "cancelled"


def test_a_question_is_asked_until_its_answer_fits(person: Person) -> None:
    question = {"id": "q", "question": "Which colour?", "options": ["red", "blue"]}
    use = {"id": "u", "tool": "note", "inputs": {"text": "{{q}}"}}
    with person.types("run", person.plan(question, use), *PY) as terminal:
        terminal.reply("y", "Enter = not now:")
        terminal.reply("green", "Which colour?", "2. blue", "Your answer")
        terminal.reply("2", "'green' is not one of red, blue\nYour answer")
        assert terminal.ended() == 0
        assert "2/2 · done" in terminal.screen.text
    assert person.notes == "blue\n"


def test_ctrl_c_detaches_and_resume_goes_on(person: Person) -> None:
    with person.types("run", person.plan(*WAITS), *PY) as terminal:
        terminal.until("1/3", "▶ wait  running")
        terminal.ctrl_c()
        terminal.until("Ctrl-C again cancels")
        assert terminal.ended() == 130
        assert "plansmith go" in terminal.screen.text
    assert person.shown().steps["first"].status == "done"
    person.lets_go_on()
    with person.types("go", "last", *PY, environment={"NO_COLOR": "1"}) as terminal:
        assert terminal.ended() == 0
        assert "3/3 · done" in terminal.screen.text
        assert not terminal.screen.coloured


def test_ctrl_c_waits_for_a_call_that_must_not_be_cut_off(person: Person) -> None:
    slow = {"id": "n", "tool": "note", "inputs": {"text": "hello", "when": "go.txt"}}
    after = {"id": "m", "tool": "note", "inputs": {"text": "more"}, "after": ["n"]}
    with person.types("run", person.plan(slow, after), *PY) as terminal:
        terminal.reply("y", "Enter = not now:")
        terminal.until("▶ n  running")
        terminal.ctrl_c()
        terminal.until("Stopping")
        person.lets_go_on()
        assert terminal.ended() == 130
    run = person.shown()
    assert (run.steps["n"].status, run.steps["m"].status) == ("done", "ready")
    assert (run.status, person.notes) == ("paused", "hello\n")
    with person.types("go", "last", *PY) as terminal:
        assert terminal.ended() == 0
    assert person.notes == "hello\nmore\n"


def test_ctrl_c_twice_cancels(person: Person) -> None:
    slow = {"id": "n", "tool": "note", "inputs": {"text": "hello", "when": "go.txt"}}
    with person.types("run", person.plan(slow), *PY) as terminal:
        terminal.reply("y", "Enter = not now:")
        terminal.until("▶ n  running")
        terminal.ctrl_c()
        terminal.until("Stopping")
        terminal.ctrl_c()
        assert terminal.ended() == 130
    assert person.shown().status == "cancelled"


def test_ctrl_c_at_a_prompt_decides_nothing(person: Person) -> None:
    with person.types("run", person.plan(NOTE), *PY) as terminal:
        terminal.until("Enter = not now:")
        terminal.ctrl_c()
        assert terminal.ended() == 130
        assert "plansmith go" in terminal.screen.text
    assert person.shown().status == "reviewing"
    with person.types("go", "last", *PY) as terminal:
        terminal.until("Enter = not now:")
        terminal.ctrl_c()
        assert terminal.ended() == 130
        assert "To go on:\n  plansmith go" in terminal.screen.text
    assert person.shown().status == "reviewing"


def test_watch_follows_what_another_terminal_runs_and_cancel_stops_it(person: Person) -> None:
    with person.types("run", person.plan(*WAITS), *PY) as running:
        running.until("▶ wait  running")
        with person.types("runs", "watch", "last") as watching:
            watching.until("▶ wait  running")
            with person.types("runs", "cancel", "last") as cancelling:
                assert cancelling.ended() == 0
            assert watching.ended() == 1
            assert "■ wait  cancelled" in watching.screen.text
        assert running.ended() == 1
    assert person.shown().status == "cancelled"


READS: dict[str, Any] = {
    "goal": "List the files",
    "steps": [
        {"id": "list", "kind": "tool", "tool": "files.list", "inputs": {"folder": "."}},
        {"id": "bad", "kind": "tool", "tool": "files.list", "inputs": {"folder": "none"}},
        {"id": "say", "kind": "reply", "instruction": "Name {{list.files}}."},
    ],
}
TRIAGE: dict[str, Any] = {"decision": "plan", "reason": "r", "query": "q", "answer": ""}


def test_ctrl_c_while_planning_keeps_the_request(person: Person) -> None:
    plan = READS | {"steps": [READS["steps"][0]]}
    talks = threading.Event()

    def answer(request: Request) -> Reply:
        if '"decision"' in json.dumps(request.json):
            return Reply(TRIAGE)
        return Reply(plan, ends="done" if talks.is_set() else "silent")

    with ModelServer(then=answer).in_thread() as url:
        model = {"PLANSMITH_MODEL": "openai:test", "PLANSMITH_BASE_URL": url, "OPENAI_API_KEY": "k"}
        with person.types("ask", "List the files", environment=model) as terminal:
            terminal.until("draft:")
            seen = len(terminal.raw)
            while terminal.raw.count("\r", seen) < 3:  # the line is drawn again and again
                terminal.read()
            terminal.ctrl_c()
            assert terminal.ended() == 130
            assert "draft:" not in terminal.screen.text
            assert "plansmith go last" in terminal.screen.text
        talks.set()
        with person.types("go", "last", environment=model) as terminal:
            assert terminal.ended() == 0
            assert "1/1 · done" in terminal.screen.text


def test_consent_to_a_file_shows_its_lines_again_when_they_change(person: Person) -> None:
    (person.folder / "in.md").write_text("new\n", encoding="utf-8")
    out = person.folder / "out.md"
    out.write_text("old\n", encoding="utf-8")
    read = {"id": "r", "tool": "files.read", "inputs": {"path": "in.md"}}
    inputs = {"path": "out.md", "text": "{{r.text}}", "overwrite": True}
    plan = person.plan(read, {"id": "w", "tool": "files.write", "inputs": inputs})
    with person.types("run", plan, "--no-preview") as terminal:
        terminal.reply("y", "Enter = not now:")
        terminal.until("- Replaces out.md (4 bytes) by 4 bytes:", "│-old", "Your answer")
        assert "\x1b[31m  │-old" in terminal.raw
        terminal.type("\n")
        assert terminal.ended() == 5
    with person.types("go", "last") as terminal:
        terminal.until("│-old", "Your answer")
        out.write_text("meanwhile\n", encoding="utf-8")
        terminal.type("y\n")
        terminal.until("│-meanwhile")
        terminal.until("Your answer", times=2)
        assert out.read_text() == "meanwhile\n"
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert out.read_text() == "new\n"


def test_the_items_of_a_list_are_allowed_together(person: Person) -> None:
    """One table, one yes: but what a value says is never taken for a line of ours, or a yes."""
    fake = "x\x1b[2J\u202e\nYour answer (y = allow): y"
    look = {"id": "r", "tool": "files.read", "inputs": {"path": "in.md"}}
    (person.folder / "in.md").write_text(fake, encoding="utf-8")
    each = {"tool": "note", "inputs": {"text": "{{item}} {{r.text}}"}}
    question = {"id": "q", "question": "Really?", "options": ["yes", "no"]}
    step = {"id": "t", "instruction": "{{q}}"}
    plan = person.plan(look, question, step, {"id": "all", "over": ["a", "b", "c"], "each": each})
    with person.types("run", plan, "--no-preview", *PY) as terminal:
        terminal.reply("y", "Enter = not now:")
        # Both are shown before the first is asked.
        terminal.until("in its step q (q):", "note 3 times (all):", "│ 3  c x\\u001b[2J\\u202e")
        terminal.reply("y", "Your answer (Enter = later):")
        terminal.until("y = allow, n = refuse")
        assert not person.notes
        terminal.type("是\n")
        assert terminal.ended() == 0
    assert "\x1b[2J" not in terminal.raw
    assert "\u202e" not in terminal.raw
    lines = terminal.screen.text.splitlines()
    assert [line for line in lines if line.startswith("Your answer (y = allow): y")] == []
    assert sorted(line[0] for line in person.notes.splitlines() if "x" in line) == ["a", "b", "c"]


def test_a_chinese_plan_is_asked_about_in_chinese(person: Person) -> None:
    plan = {"goal": "记下来", "locale": "zh-CN", "steps": [NOTE]}
    (person.folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    with person.types("run", "plan.json", *PY) as terminal:
        terminal.reply("是", "运行这个计划吗？", "回车 = 暂不：")
        assert terminal.ended() == 0
        assert "✓ n  完成" in terminal.screen.text


# What is left on the screen: the answer last, told once and rendered


SALES = "region,amount\nNorth,120.5\nSouth,80\nNorth,200.25\nWest,60\n"
ASKED = "What is the total amount by region in sales.csv?"
PLAN: Json = {
    "goal": ASKED,
    "steps": [
        {
            "id": "totals",
            "tool": "tables.sql",
            "inputs": {"query": "SELECT region, SUM(amount) AS total FROM sales GROUP BY region"},
        },
        {"id": "answer", "instruction": "Tell the totals {{totals.rows}}"},
    ],
}
SAID = "**Totals** by region [step:totals]:\n\n| region | total |\n|---|---|\n| North | 320.75 |\n"


def answering(request: Request) -> Reply:
    text = json.dumps(request.json)
    if '"decision"' in text:
        return Reply(TRIAGE)
    return Reply(SAID) if "what to say" in text else Reply(PLAN)


def asked(person: Person, *words: str, url: str, **more: str) -> Terminal:
    model = {"PLANSMITH_MODEL": "openai:test", "PLANSMITH_BASE_URL": url, "OPENAI_API_KEY": "k"}
    return person.types("ask", ASKED, *words, columns=80, environment=model | more)


def test_the_answer_is_last_rendered_and_a_report_shows_results_as_tables(person: Person) -> None:
    with (
        ModelServer(then=answering).in_thread() as url,
        asked(person, "--yes-read-only", url=url) as terminal,
    ):
        assert terminal.ended() == 0
        lines = [line for line in terminal.screen.text.splitlines() if line.strip()]
    text = "\n".join(lines)
    assert lines[-1].split() == ["North", "320.75"]  # nothing comes after it
    assert text.count("320.75") == 1
    assert "Totals by region:" in text
    for mark in ("**", "|---", "[step:", "what to say"):
        assert mark not in text
    assert all(text_width(line) <= 80 for line in lines)
    for language in ("C.UTF-8", "zh_CN.UTF-8"):
        environment = {"LANG": language}
        with person.types("report", "last", columns=80, environment=environment) as terminal:
            assert terminal.ended() == 0
            text = terminal.screen.text
        assert '"total"' not in text
        assert "## " not in text
    with person.types("report", "last", "--evidence", columns=80) as terminal:
        assert terminal.ended() == 0
        assert '"total": 320.75' in terminal.screen.text


# The tour


def test_enter_goes_on_with_the_tour_and_ctrl_c_ends_it(person: Person) -> None:
    with person.types("demo") as terminal:
        terminal.reply("", "1/3", "Enter goes on")
        text = terminal.until("2/3")
        assert "3/3" not in text
        terminal.until("Enter goes on", times=2)
        terminal.ctrl_c()
        assert terminal.ended() == 130
    assert not [each for each in person.folder.iterdir() if each.name.startswith("plansmith-demo")]


# Ctrl-C at a prompt, pressed the moment the prompt is seen


PROMPTS = 40
PROGRAM = f"""
import readline
from plansmith_cli.keyboard import interruptible
for number in range({PROMPTS}):
    try:
        with interruptible():
            input(f"prompt {{number}}> ")
    except KeyboardInterrupt:
        print(f"stopped {{number}}", flush=True)
"""


def test_no_ctrl_c_at_a_prompt_is_lost_however_soon_it_comes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM]
    with Terminal(command, folder=tmp_path, environment={}, rows=4 * PROMPTS) as terminal:
        for number in range(PROMPTS):
            terminal.until(f"prompt {number}>")
            terminal.ctrl_c()
            terminal.until(f"stopped {number}")
        assert terminal.ended() == 0


# Schedules


def listed(person: Person) -> Any:
    """The schedules, as another command tells them."""
    done = forked.run(
        [*PLANSMITH, "schedule", "list", "--json"],
        cwd=person.folder,
        env=person.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


WORDS = "every weekday at 9 list the files here"


def test_a_yes_keeps_it_and_anything_else_does_not(person: Person) -> None:
    with person.types("ask", WORDS) as screen:
        text = screen.until("Keep it as a schedule?")
        assert "cron 0 9 * * 1-5 UTC; next:" in text
        assert text.count(" 09:00 UTC") == 3
        screen.type("sure\n")
        assert screen.ended() == 5
    assert listed(person) == []
    with person.types("ask", WORDS) as screen:
        screen.reply("y", "Keep it as a schedule?")
        screen.until("kept as the schedule")
        assert screen.ended() == 0
    [kept] = listed(person)
    assert (kept["name"], kept["state"]) == ("list the files here", "active")
    assert len(kept["approved"]) == 64


def test_keep_goes_on_until_it_is_told_to_stop(person: Person) -> None:
    with person.types("schedule", "keep") as screen:
        screen.until("firing schedules")
        screen.ctrl_c()
        assert screen.ended() == 0
    with person.types("schedule", "keep") as screen:
        screen.until("firing schedules")
        screen.process.send_signal(signal.SIGTERM)
        assert screen.ended() == 0


SLOW = '''

@tool(effect="read")
async def wait(name: str) -> dict:
    """Wait until a file is there."""
    while not Path(name).exists():
        await asyncio.sleep(0.01)
    return {"name": name}
'''
YOU = "you>"


class Traveller(Person):
    """Someone at a desk who plans a journey in a conversation."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self.environment |= {
            "PLANSMITH_MODEL": "openai:test",
            "PLANSMITH_BASE_URL": url,
            "OPENAI_API_KEY": "k",
        }

    @property
    def booked(self) -> str:
        path = self.folder / "booked.txt"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def traveller(tmp_path: Path) -> Iterator[Traveller]:
    (tmp_path / "travel.py").write_text(f"import asyncio\n{TRAVEL_TOOLS}{SLOW}", encoding="utf-8")
    own = tmp_path / ".config" / "plansmith"
    own.mkdir(parents=True)
    (own / "config.toml").write_text("[run]\ngrace_s = 0.2\nfirst_wait_s = 0.0\n")
    with Travel().server.in_thread() as url:
        yield Traveller(tmp_path, url)


CHAT = ("chat", "--tools", "travel.py")


def test_the_five_turns_of_a_conversation(traveller: Traveller) -> None:
    with traveller.types(*CHAT, "Plan a trip") as terminal:
        terminal.reply("Rome", "The planner asks about your request", "Where to?", YOU)
        terminal.until("Taken as the answer “Rome” to “Where to?”", "✓ find  done")
        terminal.until("You could take AZ 123.")
        terminal.reply("Now book it", YOU, times=2)
        text = terminal.until("or say what to change:")
        assert "find" in text
        terminal.type("cheaper, please\n")
        terminal.until("Taken as: change of the plan")
        terminal.reply("why Rome?", "or say what to change:", times=2)
        terminal.until("It comes from the step train (trains), whose result has")
        terminal.reply("yes, please proceed", YOU, times=3)
        terminal.until("A message approves nothing")
        terminal.until("or say what to change:", times=3)
        assert traveller.booked == ""
        terminal.reply("yes", "what = Nightjet")  # seen: it is not asked about again
        terminal.until("✓ book  done")
        terminal.reply("/quit", YOU, times=4)
        assert terminal.ended() == 0
        assert "plansmith chat --thread" in terminal.screen.text
    assert traveller.booked == "Nightjet\n"


def test_a_conversation_is_left_and_taken_up_again(traveller: Traveller) -> None:
    with traveller.types(*CHAT) as terminal:
        terminal.reply("Plan a trip", "Say what you want", YOU)
        terminal.until("Where to?")
        terminal.until(YOU, times=2)
        terminal.type("\x04")
        assert terminal.ended() == 0
    with traveller.types(*CHAT, "--thread", "last") as terminal:
        text = terminal.until("Where to?", YOU)
        assert "Plan a trip" in text
        assert "→ request" in text
        terminal.type("Rime\x7f\x7f\x7fome\n")  # edited
        text = terminal.until(f"You could take AZ 123.\n{YOU}")
        assert "Everything was done." not in text
        terminal.type("/report\n")
        terminal.until("Everything was done.", f"written by the model\n{YOU}")
        terminal.ctrl_c()
        terminal.until("Ctrl-C again or Ctrl-D leaves")
        terminal.ctrl_c()
        assert terminal.ended() == 130


def test_ctrl_c_and_kill_in_a_conversation_stop_the_run_which_stays(traveller: Traveller) -> None:
    with traveller.types(*CHAT, "Wait for Rome") as terminal:
        terminal.until("▶ wait  running")
        terminal.ctrl_c()
        terminal.reply("/go", "Stopped. The run", "/go goes on", YOU)
        terminal.until("▶ wait  running", times=2)
        terminal.kill()
    with traveller.types(*CHAT, "--thread", "last") as terminal:
        terminal.reply("/go", "has not ended: /go goes on", YOU)
        terminal.until("▶ wait  running")
        traveller.lets_go_on()
        terminal.reply("/plan", "1/1 · done", f"written by the model\n{YOU}")
        terminal.until("wait = ", f"refers to it)\n{YOU}")
        terminal.ctrl_c()
        terminal.until("Ctrl-C again or Ctrl-D leaves")
        terminal.ctrl_c()
        assert terminal.ended() == 130
    assert traveller.shown().status == "done"
