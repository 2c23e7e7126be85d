"""What rich draws on a terminal: a run as a block of steps, and Markdown without its marks."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Final

from rich.console import Console
from rich.live import Live
from rich.markdown import CodeBlock, Heading, Markdown
from rich.text import Text

from plansmith.plan.events import Event
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence, in_language
from plansmith.text import safe
from plansmith_cli.ui.output import use_colour
from plansmith_cli.ui.progress import ICONS, Detail, Lines, header, is_stage, rows

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderResult

_STYLES: Final = {
    StepStatus.RUNNING: "cyan",
    StepStatus.ASKING: "yellow",
    StepStatus.DONE: "green",
    StepStatus.FAILED: "red",
    StepStatus.UNKNOWN: "yellow",
    StepStatus.CANCELLED: "magenta",
}


# The header, the message line, and free lines above the cursor.
_OTHER_LINES: Final = 4
_URGENCY: Final = [*ICONS]
_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND: Final = 10


class Board(Lines):
    """Shows a run as a tree of steps with their states and times, redrawn in place.

    While a plan is made it is one moving line, which goes away in the end.
    """

    def __init__(self, locale: str, *, detail: Detail) -> None:
        super().__init__(locale, detail=detail)
        self._live: Live | None = None

    def restart(self, locale: str) -> None:
        super().restart(locale)
        self._run: Run | None = None
        self._message: str = Sentence("planning")

    def _begin(self, *, stays: bool) -> None:
        # In a thread of its own: the event loop may be busy with the very work that is shown.
        self._live = Live(
            console=Console(file=sys.stderr, no_color=not use_colour(sys.stderr), highlight=False),
            refresh_per_second=_FRAMES_A_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
            transient=not stays,
            get_renderable=self._draw,
        )
        self._live.start(refresh=True)

    def show(self, run: Run, event: Event) -> None:
        del event
        first, self._run = self._run is None, run
        if first:
            self._message = ""
            self._begin(stays=True)

    def say(self, text: str) -> None:
        if self._run is None and (self._detail == "verbose" or not is_stage(text)):
            with self.cleared():
                self._write(text)
        else:
            self._message = text
            if self._live is not None:  # at once: the thread may wait for its turn for seconds
                self._live.refresh()

    @contextmanager
    def cleared(self) -> Generator[None]:
        is_moving = self._live is not None and self._run is None
        self.stop()
        yield
        if is_moving:
            self._begin(stays=False)

    @contextmanager
    def moving(self) -> Generator[None]:
        if self._detail != "normal" or self._live is not None:
            yield
            return
        self.restart(self._locale)
        self._begin(stays=False)
        try:
            yield
        finally:
            self.stop()

    def stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        message = safe(in_language(self._message, self._locale))
        if self._run is None:
            frame = _FRAMES[int(time.monotonic() * _FRAMES_A_SECOND) % len(_FRAMES)]
            return text.append(f"{frame} {self._passed()} {message}")
        now = datetime.now(UTC)
        text.append(header(self._run, now=now, locale=self._locale), style="bold")
        if message:
            text.append(f"\n{message}", style="bold")
        found, most = (
            [*rows(self._run, now=now, locale=self._locale)],
            shutil.get_terminal_size().lines,
        )
        if len(found) > most - _OTHER_LINES:
            # What does not fit is cut off, but not what runs now.
            found.sort(key=lambda row: _URGENCY.index(row.status))
        for row in found:
            text.append(f"\n{row.text}", style=_STYLES.get(row.status, ""))
        return text


class _LeftHeading(Heading):
    """A heading that is bold and begins at the left, of any level."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.text.plain, style="bold")


class _PlainBlock(CodeBlock):
    """A block of text as it is, two columns in, without colours of a programming language."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.text.plain.rstrip().split("\n"):
            yield Text(f"  {line}", overflow="fold")


class _TerminalMarkdown(Markdown):
    elements: ClassVar = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _PlainBlock,
        "code_block": _PlainBlock,
    }

    def __init__(self, text: str) -> None:
        super().__init__(text, hyperlinks=False)
        # Where our Markdown begins a line, it means one.
        for token in self.parsed:
            for child in token.children or ():
                if child.type == "softbreak":
                    child.type = "hardbreak"


def rendered(text: str, *, colour: bool) -> str:
    """Returns a Markdown text as lines for the terminal, as wide as that is."""
    console = Console(no_color=not colour, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(_TerminalMarkdown(text))
    lines = [line.rstrip() for line in captured.get().split("\n")]
    single = (line for before, line in pairwise(["", *lines]) if line or before)
    return "\n".join(single).strip("\n") + "\n"
