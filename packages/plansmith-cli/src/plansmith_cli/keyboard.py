"""Reads a line or an edited text from the person; plain lines from a pipe."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import shlex
import signal
import sys
import termios
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Final, Literal, NamedTuple

from plansmith.plan.sentence import Sentence
from plansmith_cli.ui.output import wrong
from plansmith_cli.ui.terminal import fitted_to

ALL: Final = frozenset({"all", "全部"})
_WORDS: Final[Mapping[Literal["yes", "no", "edit", "preview", "all"], frozenset[str]]] = {
    "yes": frozenset({"y", "yes", "是", "是的", "好", "好的"}),
    "no": frozenset({"n", "no", "否", "不"}),
    "edit": frozenset({"e", "edit", "编辑"}),
    "preview": frozenset({"p", "preview", "预览"}),
    "all": ALL,
}
_LEAVE_OUT: Final = re.compile(r"(?:leave out|去掉)((?:[\s,，、]*\d+)+)", re.IGNORECASE)
_CHANGE_ONE: Final = re.compile(r"(?:change|修改)\s*(\d+)\s+([^\s=]+=.*)", re.IGNORECASE)


# How often a wait for a line looks whether Ctrl-C was pressed.
_ALARM_S: Final = 0.05


class Choice(NamedTuple):
    """A person's decision on a plan; `later` is anything else that was typed, as `text`.

    `numbers` are those of calls that are left out, or of one that is changed.
    """

    kind: Literal["yes", "no", "edit", "preview", "all", "leave_out", "change", "changes", "later"]
    text: str = ""
    numbers: tuple[int, ...] = ()


def read_choice(typed: str, *, also: Collection[str] = ()) -> Choice:
    """Reads a decision; only an explicit yes approves. `also`: other kinds that are possible."""
    text = typed.strip()
    for kind, words in _WORDS.items():
        if text.lower() in words and kind in ("yes", "no", "edit", *also):
            return Choice(kind)
    if "leave_out" in also and (found := _LEAVE_OUT.fullmatch(text)):
        return Choice("leave_out", "", tuple(map(int, re.findall(r"\d+", found[1]))))
    if "change" in also and (found := _CHANGE_ONE.fullmatch(text)):
        return Choice("change", found[2], (int(found[1]),))
    first, _, rest = text.partition(" ")
    is_change = first.lower() in ("c", "changes") and rest.strip()
    return Choice("changes", rest.strip()) if is_change else Choice("later", text)


def agrees(prompt: str, *, asks: bool = True) -> bool:
    """Asks a person for a yes if one is there; only an explicit one counts."""
    return asks and is_at_terminal() and read_choice(ask_line(prompt) or "").kind == "yes"


def ask_line(prompt: str) -> str | None:
    """Reads a line from the terminal; None at the end of input; Ctrl-C raises.

    Drops what was typed before the question was shown: it cannot be its answer.
    """
    text = prompt.rstrip()
    *above, last = fitted_to(sys.stderr, [text])
    notice = "".join(f"{line}\n" for line in above)
    return read_message(last + prompt[len(text) :], notice=notice, drops=True)


@contextmanager
def interruptible() -> Generator[None]:
    """Makes Ctrl-C raise at once: the event loop's handler would wait for the line.

    A signal that comes after the prompt is shown, but before the read begins to wait, does not
    end the wait: the next alarm does.
    """
    pressed = False

    def interrupt(_: int, __: FrameType | None) -> None:
        nonlocal pressed
        if not pressed:  # once: what ends here must not be cut off
            pressed = True
            raise KeyboardInterrupt

    def wake(_: int, __: FrameType | None) -> None:
        """Ends a wait of the read, which then sees to other signals."""

    handlers = {signal.SIGINT: interrupt, signal.SIGALRM: wake}
    before = {each: signal.signal(each, handler) for each, handler in handlers.items()}
    signal.setitimer(signal.ITIMER_REAL, _ALARM_S, _ALARM_S)
    try:
        yield
    finally:
        pressed = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        for each, handler in before.items():
            signal.signal(each, handler)


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
        code = await process.wait()
        reason = Sentence("it ended with {code}", code=code) if code else ""
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        raise wrong(
            "{command} failed: {reason}",
            "set EDITOR to your editor",
            command=command[0],
            reason=reason,
        )


def is_at_terminal() -> bool:
    """Whether a person can be asked, and sees the question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def read_message(prompt: str, *, notice: str = "", drops: bool = False) -> str | None:
    """Reads a line from the person, who may edit it, or from a pipe; None at the end.

    Ctrl-C raises, from when the notice is shown. `drops` what was typed before.
    """
    if not is_at_terminal():
        return _readable(sys.stdin.readline)
    if drops:
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    edits = sys.stdout.isatty()  # Python edits lines only where it also writes them
    with interruptible():
        sys.stderr.write(notice if edits else notice + prompt)
        sys.stderr.flush()
        if not edits:
            return _readable(sys.stdin.readline)
        sys.stdout.flush()
        importlib.import_module("readline")  # has `input` edit
        try:
            return _readable(lambda: f"{input(prompt)}\n")
        except EOFError:
            return None


def _readable(read: Callable[[], str]) -> str | None:
    try:
        line = read()
    except UnicodeDecodeError:
        raise wrong("this line is not UTF-8 text", "write it as UTF-8") from None
    # What was no text comes as lone surrogates, which no store takes.
    return line.encode("utf-8", "replace").decode().rstrip("\r\n") if line else None
