"""Progress on stderr: one live block on a terminal, timestamped lines anywhere else."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, Protocol, TextIO

from plansmith.cli.board import ICONS, header
from plansmith.cli.output import print_line_json
from plansmith.cli.words import Words
from plansmith.plan import events as e
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import in_language
from plansmith.text import clip, safe
from plansmith.wiring import load

_TICK_S: Final = 0.25
_LONGEST: Final = 200
_SHORTEST: Final = 40


class View(Protocol):
    """Whoever shows a run as it goes on."""

    def show(self, run: Run, event: e.Event) -> None:
        """One event has happened, and the run stands so."""
        ...

    def say(self, text: str) -> None:
        """A line of our own."""
        ...

    def tick(self) -> None:
        """Time has passed."""
        ...

    def stop(self) -> None:
        """Leave the stream to others; what was shown stays."""
        ...


class Lines:
    """One line a thing that happened, with the time since the start."""

    def __init__(self, words: Words, stream: TextIO | None = None) -> None:
        self._words = words
        self._stream = stream or sys.stderr
        self._start = time.monotonic()

    def show(self, run: Run, event: e.Event) -> None:
        """Tell of a step, or of the run, in a line."""
        text = line_of(run, event, self._words)
        if text:
            self.say(text)

    def say(self, text: str) -> None:
        """A line."""
        passed = int(time.monotonic() - self._start)
        self._stream.write(f"[{passed // 60:02d}:{passed % 60:02d}] {safe(text)}\n")
        self._stream.flush()

    def tick(self) -> None:
        """Nothing changes with time."""

    def stop(self) -> None:
        """Nothing is held."""


def line_of(run: Run, event: e.Event, words: Words) -> str:
    """What a line says of an event; nothing for those that only accompany others."""
    locale = words["locale"]
    match event.body:
        case e.StepProgressed(step=name, text=text):
            return f"{ICONS[StepStatus.RUNNING]} {name}: {clip(text, _LONGEST)}"
        case e.QuestionAsked(question=name, text=text):
            # Short enough to stay on its line: what it says stands quoted where it is answered.
            return (
                f"{ICONS[StepStatus.ASKING]} {name}: {clip(in_language(text, locale), _SHORTEST)}"
            )
        case e.ReplanStarted(cause=cause):
            return f"{words['replanning']}: {clip(in_language(cause, locale), _LONGEST)}"
        case e.RunPaused(reason=reason):
            why = clip(in_language(reason, locale), _LONGEST)
            return f"{words['paused']}: {why}" if why else words["paused"]
        case e.RunFinished():
            return header(run, now=event.at, words=words)
        case _:
            return _step_line(run, event, words)


def _step_line(run: Run, event: e.Event, words: Words) -> str:
    name = getattr(event.body, "step", None)
    if not isinstance(name, str) or name not in run.steps:
        return ""
    state = run.steps[name]
    why = getattr(event.body, "error", "") or getattr(event.body, "reason", "")
    told = f"{ICONS[state.status]} {name} {words[state.status.value]}"
    if state.program:
        told += f" ({words['by_program'].format(name=state.program)})"
    return f"{told}: {clip(in_language(str(why), words['locale']), _LONGEST)}" if why else told


class JsonLines:
    """Events as lines of JSON on stdout, and the same words as ever on stderr."""

    def __init__(self, inner: View) -> None:
        self._inner = inner

    def show(self, run: Run, event: e.Event) -> None:
        """Print the event, and tell of it."""
        print_line_json(event.shown_json())
        self._inner.show(run, event)

    def say(self, text: str) -> None:
        """A line of our own."""
        self._inner.say(text)

    def tick(self) -> None:
        """Time has passed."""
        self._inner.tick()

    def stop(self) -> None:
        """Leave the stream."""
        self._inner.stop()


def make_view(words: Words, *, jsonl: bool = False) -> View:
    """The view for where stderr leads."""
    if jsonl:
        return JsonLines(Lines(words))
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return Lines(words)
    block: View = load("plansmith.cli.live:Block")(words)
    return block


@asynccontextmanager
async def ticking(view: View) -> AsyncGenerator[None]:
    """Keep a view's clock going as long as it is looked at."""

    async def tick() -> None:
        while True:
            view.tick()
            await asyncio.sleep(_TICK_S)

    task = asyncio.create_task(tick())
    try:
        yield
    finally:
        task.cancel()
        view.stop()
