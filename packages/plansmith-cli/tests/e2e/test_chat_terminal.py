"""A conversation before a person: `plansmith chat` on a real pseudo-terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.terminal import Person
from tests.unit.cli.travel_model import TOOLS, Travel

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
    (tmp_path / "travel.py").write_text(f"import asyncio\n{TOOLS}{SLOW}", encoding="utf-8")
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
        terminal.until("You answered “Rome” to the question: Where to?")
        terminal.reply("yes, please proceed", YOU, times=3)
        terminal.until("A message approves nothing")
        terminal.until("or say what to change:", times=3)
        assert traveller.booked == ""
        terminal.type("yes\n")
        terminal.reply("allow", "Plansmith asks for your consent", "what = Nightjet", "Your answer")
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
