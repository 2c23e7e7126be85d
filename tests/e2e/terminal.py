"""A terminal for tests: a command on a real pseudo-terminal, and the screen a person would see."""

from __future__ import annotations

import asyncio
import codecs
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests import forked

from plansmith import Plansmith, Run

PLANSMITH = (sys.executable, "-m", "plansmith_cli")
# Only against hanging for ever: nothing is judged by how long it takes.
PATIENCE_S = 60.0
_SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


class Screen:
    """What the terminal shows after some bytes: the part of VT100 that progress is drawn with."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.lines: list[list[str]] = [[]]
        self.row = self.column = 0
        self.coloured = False

    @property
    def text(self) -> str:
        """All that was ever shown and not drawn over, oldest line first."""
        return "\n".join("".join(line).rstrip() for line in self.lines)

    def feed(self, text: str) -> None:
        """Take in output."""
        position = 0
        while position < len(text):
            found = _SEQUENCE.match(text, position)
            if found:
                self._control(found[1], found[2])
                position = found.end()
            else:
                self._put(text[position])
                position += 1

    def _put(self, letter: str) -> None:
        if letter == "\r":
            self.column = 0
        elif letter == "\n":
            self._down(1)
        elif letter == "\b":
            self.column = max(self.column - 1, 0)
        elif letter >= " ":
            width = 2 if unicodedata.east_asian_width(letter) in "WF" else 1
            if self.column + width > self.columns:
                self.column = 0
                self._down(1)
            line = self.lines[self.row]
            line += [" "] * (self.column + width - len(line))
            line[self.column : self.column + width] = [letter, ""][:width]
            self.column += width

    def _down(self, count: int) -> None:
        self.row += count
        while len(self.lines) <= self.row:
            self.lines.append([])

    def _control(self, numbers: str, letter: str) -> None:
        first = numbers.split(";", maxsplit=1)[0]
        count = int(first) if first.isdigit() else 0
        match letter:
            case "A":
                self.row = max(self.row - max(count, 1), 0)
            case "B":
                self._down(max(count, 1))
            case "K":
                self.lines[self.row] = [] if count == 2 else self.lines[self.row][: self.column]
            case "J":
                del self.lines[self.row + 1 :]
            case "m":
                self.coloured |= any(3 <= int(each or 0) // 10 <= 4 for each in numbers.split(";"))
            case _:
                pass


class Terminal:
    """A command that believes a person sits before it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        columns: int = 100,
        rows: int = 30,
        is_forked: bool = True,
    ) -> None:
        self.screen = Screen(columns, rows)
        self.raw = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._master, slave = pty.openpty()
        self.resize(columns, rows)

        def take_terminal() -> None:
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = forked.Popen(
            list(command),
            cwd=folder,
            env={"TERM": "xterm-256color", **environment},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=None if is_forked else take_terminal,
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    def resize(self, columns: int, rows: int) -> None:
        """Drag the window."""
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)
        self.screen.columns, self.screen.rows = columns, rows

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def ctrl_c(self) -> None:
        """Press Ctrl-C."""
        self.type("\x03")

    def kill(self) -> None:
        """`kill -9`."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def until(self, *wanted: str, times: int = 1) -> str:
        """Read until all of this is on the screen, so many times; give the screen."""

        def holds() -> bool:
            return all(self.screen.text.count(each) >= times for each in wanted)

        return self._read_until(holds, wanted)

    def reply(self, typed: str, *wanted: str, times: int = 1) -> str:
        """Type a line once all of this is on the screen; give the screen as it was before."""
        text = self.until(*wanted, times=times)
        self.type(f"{typed}\n")
        return text

    def read(self) -> None:
        """Read what the command prints next."""
        before = len(self.raw)
        self._read_until(lambda: len(self.raw) > before, ("more",))

    def ended(self) -> int:
        """Read until the command is over; give its exit code."""
        self._read_until(lambda: False, ("the end",), to_the_end=True)
        return self.process.wait()

    def _read_until(
        self, holds: Callable[[], bool], wanted: Sequence[str], *, to_the_end: bool = False
    ) -> str:
        limit = time.monotonic() + PATIENCE_S
        while not holds():
            ready, _, _ = select.select([self._master], [], [], limit - time.monotonic())
            assert ready, f"waited for {wanted} and saw:\n{self.screen.text}"
            try:
                data = os.read(self._master, 65536)
            except OSError:  # how Linux says that the other side is closed
                data = b""
            if not data:
                assert to_the_end, f"waited for {wanted}; it ended with:\n{self.screen.text}"
                break
            text = self._decode(data)
            self.raw += text
            self.screen.feed(text)
        return self.screen.text


class Person:
    """Someone at a desk who types commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "LANG": "en_US.UTF-8",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "PLANSMITH_STORE": "sqlite:///.store/runs.db",
            "PLANSMITH_MODEL": "rules",
        }

    def types(
        self, *words: str, columns: int = 100, environment: Mapping[str, str] | None = None
    ) -> Terminal:
        return Terminal(
            [*PLANSMITH, *words],
            folder=self.folder,
            environment={**self.environment, **(environment or {})},
            columns=columns,
        )

    def plan(self, *steps: dict[str, Any]) -> str:
        plan = {"goal": "test", "steps": list(steps)}
        (self.folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        return "plan.json"

    def shown(self) -> Run:
        async def last() -> Run:
            store = f"sqlite:///{self.folder}/.store/runs.db"
            async with Plansmith(store=store) as smith:
                return await smith.get((await smith.store.runs())[-1])

        return asyncio.run(last())

    @property
    def notes(self) -> str:
        path = self.folder / "notes.txt"
        return path.read_text() if path.exists() else ""

    def lets_go_on(self) -> None:
        (self.folder / "go.txt").touch()
