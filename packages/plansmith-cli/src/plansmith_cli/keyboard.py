"""Reads a key or an edited line from the terminal; plain lines from a pipe."""

from __future__ import annotations

import os
import sys
import termios
import tty
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plansmith.errors import Misconfigured
from plansmith.files import replace_file
from plansmith.lazy import lazy_modules
from plansmith.plan.sentence import Sentence
from plansmith_cli.questions import drop_typed, interruptible

if TYPE_CHECKING:
    import readline
else:
    lazy_modules(globals(), readline="readline")


def read_key(prompt: str) -> str:
    """Shows a prompt, waits for a key and returns it, without showing it; Ctrl-C raises.

    Drops what was typed before. The end of input counts as `q`.
    """
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    try:
        # Before the prompt is shown: whoever sees it may press a key or Ctrl-C at once.
        with interruptible():
            tty.setcbreak(handle, termios.TCSAFLUSH)
            sys.stdout.write(prompt)
            sys.stdout.flush()
            typed = os.read(handle, 16)  # the rest of an arrow key's sequence goes with it
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)
    return typed.decode("utf-8", "replace") if typed not in (b"", b"\x04") else "q"


_KEPT: Final = 1000
Complete = Callable[[str], Iterable[str]]


class LineHistory:
    """The lines that were typed, in a file that only their person can read.

    A line that begins with a space is not kept, as in shells.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self) -> list[str]:
        """Returns the lines, oldest first; a file that grew too long is cut."""
        try:
            found = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
            if len(found) > 2 * _KEPT:
                replace_file(self._path, "".join(f"{each}\n" for each in found[-_KEPT:]))
        except OSError:
            return []
        return found[-_KEPT:]

    def add(self, line: str) -> str:
        """Keeps a line; returns it as it is kept, empty if it is not."""
        kept = " ".join(line.split())
        if line[:1].isspace() or not kept:
            return ""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        handle = os.open(self._path, flags, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(f"{kept}\n")
        return kept


class LineEditor:
    """Reads one line after the other from the person, or from a pipe."""

    def __init__(
        self, history: LineHistory, complete: Complete, *, warn: Callable[[str], None]
    ) -> None:
        self._history: LineHistory | None = history
        self._complete = complete
        self._warn = warn
        self._found: Sequence[str] = ()
        self.asks = sys.stdin.isatty() and sys.stderr.isatty()
        # Python edits lines only where it also writes them.
        self._edits = self.asks and sys.stdout.isatty()
        if self._edits:
            self._prepare()

    def read(self, prompt: str, *, notice: str = "", drops: bool = False) -> str | None:
        """Reads a line; None at the end; Ctrl-C raises, from when the notice is shown.

        `drops` what was typed before.
        """
        if not self.asks:
            return _readable(sys.stdin.readline)
        if drops:
            drop_typed()
        with interruptible():
            sys.stderr.write(notice)
            sys.stderr.flush()
            if not self._edits:
                sys.stderr.write(prompt)
                sys.stderr.flush()
                return _readable(sys.stdin.readline)
            sys.stdout.flush()
            try:
                line = _readable(lambda: f"{input(prompt)}\n")
            except EOFError:
                return None
        self._keep(line or "")
        return line

    def _prepare(self) -> None:
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.set_auto_history(False)  # answers to other prompts are not kept
        readline.set_completer_delims(" \t\n")
        readline.set_completer(self._completion)
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
        if not is_libedit:  # a pasted text of several lines is one message
            readline.parse_and_bind("set enable-bracketed-paste on")
        for line in self._history.lines() if self._history else ():
            readline.add_history(line)

    def _keep(self, line: str) -> None:
        if self._history is None:
            return
        try:
            kept = self._history.add(line)
        except OSError as error:
            self._warn(Sentence("what you type is not kept for later: {error}", error=error))
            self._history = None
            return
        if kept:
            readline.add_history(kept)

    def _completion(self, word: str, state: int) -> str | None:
        if state == 0:
            typed = readline.get_line_buffer()[: readline.get_endidx()]
            start = len(typed) - len(word)
            self._found = [each[start:] for each in self._complete(typed)]
        return self._found[state] if state < len(self._found) else None


def completions(typed: str, *, commands: Iterable[str], options: Iterable[str]) -> list[str]:
    """Returns lines that begin as typed: with a command, an option or the name of a file."""
    whole = [each for each in (*commands, *options) if each.isprintable()]
    lowered = typed.casefold()
    found = [each for each in whole if each.casefold().startswith(lowered)] if typed else whole
    before, _, word = typed.rpartition(" ")
    lead = f"{before} " if before or typed.startswith(" ") else ""
    return found + ([] if word.startswith("/") or not word else [lead + n for n in _files(word)])


def _files(word: str) -> list[str]:
    """Returns the files and folders whose names begin like this, from here."""
    folder, _, start = word.rpartition("/")
    place = Path(folder) if folder else Path()
    try:
        with os.scandir(place) as entries:
            names = sorted((each.name, each.is_dir()) for each in entries)
    except OSError:
        return []
    # A name with control characters would reach the terminal as it is.
    return [
        f"{folder}/{name}{'/' * is_folder}" if folder else f"{name}{'/' * is_folder}"
        for name, is_folder in names
        if name.startswith(start) and name.isprintable() and (start or not name.startswith("."))
    ]


def _readable(read: Callable[[], str]) -> str | None:
    """Reads a line as text; None at the end."""
    try:
        line = read()
    except UnicodeDecodeError:
        raise Misconfigured(
            Sentence("this line is not UTF-8 text"), hint=Sentence("write it as UTF-8")
        ) from None
    # What was no text comes as lone surrogates, which no store takes.
    return line.encode("utf-8", "replace").decode().rstrip("\r\n") if line else None
