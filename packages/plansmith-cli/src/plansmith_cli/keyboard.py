"""Reads a key, a line or an edited text from the person; plain lines from a pipe."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from plansmith.files import replace_file
from plansmith.lazy import lazy_modules
from plansmith.plan.sentence import Sentence
from plansmith_cli.ui.output import wrong
from plansmith_cli.ui.terminal import fitted_to

if TYPE_CHECKING:
    import readline
else:
    lazy_modules(globals(), readline="readline")

_WORDS: Final[Mapping[Literal["yes", "no", "edit"], frozenset[str]]] = {
    "yes": frozenset({"y", "yes", "是", "是的", "好", "好的"}),
    "no": frozenset({"n", "no", "否", "不"}),
    "edit": frozenset({"e", "edit", "编辑"}),
}
_KEPT: Final = 1000


class Choice(NamedTuple):
    """A person's decision on a plan; `later` is anything else that was typed, as `text`."""

    kind: Literal["yes", "no", "edit", "changes", "later"]
    text: str = ""


def read_choice(typed: str) -> Choice:
    """Reads a decision; only an explicit yes approves."""
    text = typed.strip()
    for kind, words in _WORDS.items():
        if text.lower() in words:
            return Choice(kind)
    first, _, rest = text.partition(" ")
    is_change = first.lower() in ("c", "changes") and rest.strip()
    return Choice("changes", rest.strip()) if is_change else Choice("later", text)


def agrees(prompt: str) -> bool:
    """Asks for a yes; only an explicit one counts."""
    return read_choice(ask_line(prompt) or "").kind == "yes"


def ask_line(prompt: str) -> str | None:
    """Reads a line from the terminal; None at the end of input; Ctrl-C raises.

    Drops what was typed before the question was shown: it cannot be its answer.
    """
    termios.tcflush(sys.stdin, termios.TCIFLUSH)
    words = prompt.rstrip()
    shown = "\n".join(fitted_to(sys.stderr, [words])) + prompt[len(words) :]
    # Before the question is shown: the person may press Ctrl-C as soon as it is.
    with interruptible():
        sys.stderr.write(shown)
        sys.stderr.flush()
        line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


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


@contextmanager
def interruptible() -> Generator[None]:
    """Makes Ctrl-C raise at once: the event loop's handler would wait for the line.

    A signal that comes after the prompt is shown, but before the read begins to wait, does not
    end the wait: a thread sends it again until it is handled.
    """
    handled, thread = threading.Event(), threading.get_ident()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def interrupt(_: int, __: FrameType | None) -> None:
        if not handled.is_set():
            handled.set()
            raise KeyboardInterrupt

    def repeat() -> None:
        while number := os.read(reading, 1):
            while number[0] == signal.SIGINT and not handled.wait(0.05):
                signal.pthread_kill(thread, signal.SIGINT)

    repeater = threading.Thread(target=repeat, daemon=True)
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        repeater.start()
        try:
            yield
        finally:
            handled.set()
            signal.set_wakeup_fd(wakeup)
            os.close(writing)
            repeater.join()
            os.close(reading)
    finally:
        signal.signal(signal.SIGINT, before)


def editor_of(*, has_person: bool) -> str:
    """Returns the command of the person's editor."""
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not named and not has_person:
        # vi would wait for a terminal for ever.
        raise wrong(
            "there is no terminal to edit the plan in", "give the plan with --file, or set EDITOR"
        )
    return named or "vi"


async def open_in_editor(editor: str, path: str) -> None:
    """Opens a file in the editor, and waits until that is closed."""
    command = [*shlex.split(editor), path]
    try:
        process = await asyncio.create_subprocess_exec(*command)
    except OSError as error:
        raise wrong(
            "{command} cannot be started: {reason}",
            "set EDITOR to your editor",
            command=command[0],
            reason=error.strerror,
        ) from None
    if code := await process.wait():
        raise wrong(
            "{command} ended with {code}",
            "set EDITOR to your editor",
            command=command[0],
            code=code,
        )


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
        self,
        history: LineHistory,
        complete: Callable[[str], Iterable[str]],
        *,
        warn: Callable[[str], None],
    ) -> None:
        self._history: LineHistory | None = history
        self._complete = complete
        self._warn = warn
        self._found: Sequence[str] = ()
        self.asks = sys.stdin.isatty() and sys.stderr.isatty()
        # Python edits lines only where it also writes them.
        self._edits = self.asks and sys.stdout.isatty()
        if not self._edits:
            return
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.set_auto_history(False)  # answers to other prompts are not kept
        readline.set_completer_delims(" \t\n")
        readline.set_completer(self._completion)
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
        if not is_libedit:  # a pasted text of several lines is one message
            readline.parse_and_bind("set enable-bracketed-paste on")
        for line in history.lines():
            readline.add_history(line)

    def read(self, prompt: str, *, notice: str = "", drops: bool = False) -> str | None:
        """Reads a line; None at the end; Ctrl-C raises, from when the notice is shown.

        `drops` what was typed before.
        """
        if not self.asks:
            return _readable(sys.stdin.readline)
        if drops:
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
        with interruptible():
            sys.stderr.write(notice if self._edits else notice + prompt)
            sys.stderr.flush()
            if not self._edits:
                return _readable(sys.stdin.readline)
            sys.stdout.flush()
            try:
                line = _readable(lambda: f"{input(prompt)}\n")
            except EOFError:
                return None
        try:
            if self._history is not None and (kept := self._history.add(line or "")):
                readline.add_history(kept)
        except OSError as error:
            self._warn(Sentence("what you type is not kept for later: {error}", error=error))
            self._history = None
        return line

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
    if word.startswith("/") or not word:
        return found
    folder, slash, start = word.rpartition("/")
    try:
        with os.scandir(folder or ".") as entries:
            names = sorted((each.name, each.is_dir()) for each in entries)
    except OSError:
        return found
    # A name with control characters would reach the terminal as it is.
    return found + [
        f"{lead}{folder}{slash}{name}{'/' * is_folder}"
        for name, is_folder in names
        if name.startswith(start) and name.isprintable() and (start or not name.startswith("."))
    ]


def _readable(read: Callable[[], str]) -> str | None:
    try:
        line = read()
    except UnicodeDecodeError:
        raise wrong("this line is not UTF-8 text", "write it as UTF-8") from None
    # What was no text comes as lone surrogates, which no store takes.
    return line.encode("utf-8", "replace").decode().rstrip("\r\n") if line else None
