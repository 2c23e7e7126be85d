"""`plansmith chat` over a pipe, `ask --thread` and `plansmith threads`."""

from __future__ import annotations

import getpass
import io
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Cli
from tests.servers.model_server import Reply
from tests.unit.cli.travel_model import TOOLS, Travel

from plansmith.plan.sentence import in_language
from plansmith_cli.commands.chat import COMMANDS, HELP
from plansmith_cli.main import main

PY = ("--tools", "travel.py")
Pipe = Callable[..., tuple[int, str, str]]


@pytest.fixture
def travel(desk: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Travel]:
    """A model that reads its prompts, and tools to travel with."""
    (desk / "travel.py").write_text(TOOLS, encoding="utf-8")
    found = Travel()
    with found.server.in_thread() as url:
        monkeypatch.setenv("PLANSMITH_MODEL", "openai:test")
        monkeypatch.setenv("PLANSMITH_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        yield found


@pytest.fixture
def pipe(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Pipe:
    """Pipes lines into a chat; gives exit code, stdout and stderr."""

    def run(*lines: str, flags: tuple[str, ...] = ()) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return cli("chat", *flags)

    return run


def turns(out: str) -> list[dict[str, Any]]:
    """Every line of the output must be JSON."""
    return [json.loads(line) for line in out.splitlines()]


def booked(folder: Path) -> str:
    path = folder / "booked.txt"
    return path.read_text() if path.exists() else ""


def test_a_chat_over_a_pipe_is_the_story_up_to_what_only_a_person_decides(
    travel: Travel, pipe: Pipe, desk: Path
) -> None:
    lines = ("Plan a trip", "Rome", "Now book it", "cheaper, please", "why Rome?", "yes, go ahead")
    code, out, err = pipe(*lines, flags=("--json", *PY))
    answers = turns(out)
    kinds = ["request", "answer", "request", "change", "why", "review"]
    assert [each["kind"] for each in answers] == kinds
    assert [each["exit"] for each in answers] == [5, 0, 5, 5, 0, 5]
    assert answers[0]["run"]["questions"][0]["text"] == "Where to?"
    assert "You could take AZ 123." in answers[1]["run"]["report"]
    first = answers[1]["run"]["id"]
    assert f"run:{first}/find" in json.dumps(answers[2]["run"]["plan"])
    assert [each["id"] for each in answers[3]["run"]["plan"]["steps"]] == ["train", "book"]
    assert "It comes from the step train (trains), whose result has" in answers[4]["text"]
    assert "A message approves nothing" in answers[5]["text"]
    assert answers[5]["run"]["status"] == "reviewing"
    assert len({each["thread"] for each in answers}) == 1
    assert (code, booked(desk)) == (5, "")
    assert f"plansmith chat --thread {answers[0]['thread']}" in err


def test_no_line_of_a_pipe_approves_a_plan(travel: Travel, pipe: Pipe, desk: Path) -> None:
    yes = ("y", "yes", "好", "approve", "/plan", "y", "/go", "yes", "allow")
    code, _, err = pipe("Find a flight to Rome", "Now book it", *yes, flags=PY)
    assert booked(desk) == ""
    assert code != 0
    assert "plansmith approve" in err


def test_what_a_message_was_taken_for_is_told_and_undo_takes_it_back(
    travel: Travel, pipe: Pipe
) -> None:
    _, out, err = pipe("Plan a trip", "Rome", "/undo", "/thread", flags=PY)
    assert "Taken as the answer “Rome” to “Where to?” (a short reply to the question); /undo" in err
    assert "The message was taken back." in out
    assert "→ taken back · answer" in out
    assert err.count("Where to?") >= 3  # it is asked again


def test_ctrl_c_before_a_message_of_a_chat_is_read_takes_it_back(
    travel: Travel, pipe: Pipe
) -> None:
    def press_ctrl_c() -> Reply:
        os.kill(os.getpid(), signal.SIGINT)
        return Reply("", ends="silent")

    travel.judge = press_ctrl_c
    _, out, _ = pipe("Plan a trip", "Find hotels in Rome", "Rome", "/thread", flags=("--json", *PY))
    first, stopped, answer, thread = turns(out)
    assert (stopped["exit"], "taken back" in stopped["text"]) == (130, True)
    assert (answer["kind"], answer["run"]["id"]) == ("answer", first["run"]["id"])
    assert "→ taken back · not read yet" in thread["text"]


class Hands:
    """Types lines; before each, does what is to be done meanwhile."""

    def __init__(self, *lines: str | Callable[[], object]) -> None:
        self._lines = [*lines]

    def isatty(self) -> bool:
        return False

    def readline(self) -> str:
        while self._lines:
            line = self._lines.pop(0)
            if isinstance(line, str):
                return f"{line}\n"
            meanwhile = threading.Thread(target=line)
            meanwhile.start()
            meanwhile.join()
        return ""


def test_a_chat_shows_what_was_said_in_its_thread_meanwhile(
    travel: Travel, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other() -> None:
        assert main(["ask", "--thread", "last", "why Rome?"]) == 0

    monkeypatch.setattr("sys.stdin", Hands("Find a flight to Rome", other, "why AZ?"))
    out = cli("chat", *PY, code=0, err=f"{getpass.getuser()}: why Rome?").out
    assert out.count("Your request says so") == 1  # what the other one was told, once


def test_what_goes_wrong_in_a_chat_ends_no_chat_and_the_last_line_counts(
    travel: Travel, pipe: Pipe
) -> None:
    lines = ("/nothing", "x" * 100_001, "/undo 99", f"/undo {'9' * 5000}", "Plan a trip", "/thread")
    code, out, err = pipe(*lines, flags=("--json", *PY))
    answers = turns(out)
    assert [each["exit"] for each in answers] == [2, 4, 4, 2, 5, 0]
    assert answers[0]["error"]["hint"] == "/help lists the commands"
    assert "Traceback" not in err
    assert code == 0


def test_ask_follows_up_a_run_that_was_alone_by_thread_last(travel: Travel, cli: Cli) -> None:
    alone = cli.json("ask", "Plan a trip", *PY, code=5)
    assert (alone["thread"], "turn" in alone) == ("", False)
    _, out, err = cli("ask --thread last Rome", *PY, "--json", code=0)
    result = json.loads(out)
    assert (result["status"], result["id"]) == ("done", alone["id"])
    assert (result["thread"], result["turn"]["kind"]) == (alone["id"], "answer")
    assert f"plansmith threads undo {alone['id']} {result['turn']['message']}" in err
    cli("ask --thread", alone["id"][:13], "why Rome?", code=0, out="You answered “Rome”")
    cli("show", alone["id"], out=f"In the conversation {alone['id']}")
    cli("ask --thread last", "Now book it", *PY, code=5)
    assert booked(cli.folder) == ""
    turn = cli.json("ask --thread last", "ok, do it", *PY, code=5)["turn"]
    assert (turn["kind"], booked(cli.folder)) == ("review", "")


def test_threads_are_listed_shown_undone_and_deleted(travel: Travel, pipe: Pipe, cli: Cli) -> None:
    assert "there are no conversations" in cli("threads")[2]
    pipe("Plan a trip", "Rome", flags=PY)
    [row] = cli.json("threads list")
    assert (row["title"], row["messages"]) == ("Plan a trip", 2)
    assert row["id"][:8] in cli("threads")[1]
    result = cli.json("threads show", row["id"][:8], code=None)
    assert [each["said"] for each in result["messages"]] == ["Plan a trip", "Rome"]
    assert result["messages"][1]["judge"] == "rules"
    assert "Rome\n      → answer" in cli("threads show last")[1]
    answer = str(result["messages"][1]["message"])
    assert cli("threads undo last", answer, *PY)[:2] == (0, "The message was taken back.\n")
    assert cli("threads undo last", answer, *PY)[0] == 4
    cli("threads undo last", "the last one", code=2, err="the last one is not a whole number")
    assert cli("threads delete", row["id"])[0] == 4  # nobody was asked
    cli("threads delete", row["id"], "--yes", "--json", code=4, err="is not over")
    cli("runs cancel", result["runs"][-1])
    cli("runs cancel", cli.json("threads show last")["runs"][-1])
    assert cli.json("threads delete", row["id"], "--yes")["deleted"] == row["id"]
    assert cli.json("runs") == []


def test_a_hostile_message_and_title_reach_no_terminal_as_they_are(
    travel: Travel, pipe: Pipe, cli: Cli
) -> None:
    hostile = "Plan a trip \x1b]0;owned\x07\x1b[2J\u202e"
    pipe(hostile, "/thread", flags=PY)
    outputs = [*pipe("/thread", "/plan", flags=("--thread", "last", *PY))[1:]]
    outputs += [*cli("threads")[1:], *cli("threads show last")[1:]]
    assert any("Plan a trip" in each for each in outputs)
    assert not any(letter in each for each in outputs for letter in ("\x1b", "\x07", "\u202e"))
    assert cli.json("threads list")[0]["title"].startswith("Plan a trip")


def test_two_turns_without_any_model(pipe: Pipe, desk: Path) -> None:
    (desk / "may.txt").write_text("three invoices", encoding="utf-8")
    which = "Which files here mention invoices?"
    flags = ("--model", "rules", "--yes-read-only", "--json")
    code, out, _ = pipe(which, "why?", which, flags=flags)
    first, why, second = turns(out)
    assert code == first["exit"] == second["exit"] == 0
    assert "may.txt" in first["run"]["report"]
    assert why["kind"] == "why"
    assert first["thread"] == second["thread"]
    assert first["run"]["id"] != second["run"]["id"]


def test_help_of_a_chat_names_every_command_in_both_languages() -> None:
    for locale in ("en", "zh"):
        text = in_language(HELP, locale)
        assert all(f"\n{name} " in text for name in COMMANDS if name != "/help")
