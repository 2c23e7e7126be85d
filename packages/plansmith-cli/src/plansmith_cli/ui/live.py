"""Shows the progress of a run as a block that is redrawn on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from plansmith.plan.events import Event
from plansmith.plan.run import Run, StepStatus
from plansmith_cli.ui.output import use_colour
from plansmith_cli.ui.progress import View, header, rows

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


class LiveBlock(View):
    """Shows a run as a tree of steps with their states and times."""

    def __init__(
        self,
        locale: str,
        stream: TextIO | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._locale = locale
        self._now = now
        self._run: Run | None = None
        self._message = ""
        target = stream or sys.stderr
        self._console = Console(file=target, no_color=not use_colour(target), highlight=False)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            get_renderable=self._draw,
        )

    def show(self, run: Run, event: Event) -> None:
        """Stores the run; the next tick draws it."""
        del event
        first, self._run = self._run is None, run
        if first:
            self._live.start(refresh=True)

    def say(self, text: str) -> None:
        """Shows a message under the block."""
        self._message = text
        self.tick()

    def tick(self) -> None:
        """Redraws the block."""
        if self._live.is_started:
            self._live.refresh()

    def stop(self) -> None:
        """Draws the block for the last time and leaves it on the screen."""
        if self._live.is_started:
            self._live.refresh()
            self._live.stop()

    def _draw(self) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        if self._run is None:
            return text
        now, most = self._now(), max(self._console.size.height - _OTHER_LINES, 2)
        text.append(header(self._run, now=now, locale=self._locale), style="bold")
        for row in rows(self._run, now=now, locale=self._locale, most=most):
            style = _STYLES.get(row.status, "") if row.status else "dim"
            text.append(f"\n{row.text}", style=style)
        if self._message:
            text.append(f"\n{self._message}", style="bold")
        return text
