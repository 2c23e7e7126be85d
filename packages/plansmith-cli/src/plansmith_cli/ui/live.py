"""What rich draws on a terminal: a run as a block of steps, and Markdown without its marks."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Final

from rich.console import Console
from rich.live import Live
from rich.markdown import CodeBlock, Heading, Markdown
from rich.text import Text

from plansmith.plan.events import Event
from plansmith.plan.run import Run, StepStatus
from plansmith_cli.ui.output import use_colour
from plansmith_cli.ui.progress import View, header, rows

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


class LiveBlock(View):
    """Shows a run as a tree of steps with their states and times, redrawn in place."""

    def __init__(self, locale: str) -> None:
        self._locale = locale
        self._run: Run | None = None
        self._message = ""
        self._console = Console(
            file=sys.stderr, no_color=not use_colour(sys.stderr), highlight=False
        )
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            get_renderable=self._draw,
        )

    def show(self, run: Run, event: Event) -> None:
        del event
        first, self._run = self._run is None, run
        if first:
            self._live.start(refresh=True)

    def say(self, text: str) -> None:
        self._message = text
        self.tick()

    def tick(self) -> None:
        if self._live.is_started:
            self._live.refresh()

    def stop(self) -> None:
        self.tick()
        if self._live.is_started:
            self._live.stop()

    def _draw(self) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        if self._run is None:
            return text
        now = datetime.now(UTC)
        text.append(header(self._run, now=now, locale=self._locale), style="bold")
        if self._message:
            text.append(f"\n{self._message}", style="bold")
        for row in rows(self._run, now=now, locale=self._locale):
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
