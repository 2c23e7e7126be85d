"""Shows on stderr how planning goes on and how a run does, and its steps as rows."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import sys
import threading
import time
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TextIO

from plansmith.lazy import lazy_modules
from plansmith.plan import events as e
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.plan.sentence import Sentence, in_language
from plansmith.text import clip, safe
from plansmith_cli.ui.output import print_line_json, status_word
from plansmith_cli.ui.terminal import clip_width, fitted_to

if TYPE_CHECKING:
    from plansmith.review import draw, render
else:
    lazy_modules(globals(), draw="plansmith.review.draw", render="plansmith.review.render")

ICONS: Final = {
    StepStatus.ASKING: "?",
    StepStatus.UNKNOWN: "!",
    StepStatus.RUNNING: "▶",
    StepStatus.FAILED: "✗",
    StepStatus.READY: "○",
    StepStatus.CANCELLED: "■",
    StepStatus.DONE: "✓",
    StepStatus.WAITING: "·",
    StepStatus.SKIPPED: "↷",
}
_TITLE: Final = 60
_LONGEST: Final = 200
_SHORTEST: Final = 40


class Row(NamedTuple):
    """The line of a step, and its status."""

    status: StepStatus
    text: str


def header(run: Run, *, now: datetime, locale: str) -> str:
    """Returns progress, such as `3/9 · 2 running · 1 waiting for you · $0.012 · 00:41`."""
    parts = (*_counted(run, locale), *_spent(run, now))
    return " · ".join(in_language(part, locale) for part in parts)


def _counted(run: Run, locale: str) -> Iterator[str]:
    steps = run.plan.steps if run.plan else ()
    states = [run.steps[step.id].status for step in steps if not step.disabled]
    if states:
        yield f"{states.count(StepStatus.DONE)}/{len(states)}"
    if run.status not in (RunStatus.RUNNING, RunStatus.ASKING):
        yield status_word(run.status, locale)
    if running := states.count(StepStatus.RUNNING):
        yield Sentence("{count} running", count=running)
    if failed := states.count(StepStatus.FAILED):
        yield Sentence("{count} failed", count=failed)
    if run.questions:
        yield Sentence("{count} waiting for you", count=len(run.questions))


def _spent(run: Run, now: datetime) -> Iterator[str]:
    if run.money:
        yield f"${run.money:.3f}"
    elif run.tokens:
        yield Sentence("{count} tokens", count=f"{run.tokens:,}")
    if begun := run.started_at or run.created_at:
        yield elapsed(((run.updated_at or now) if run.status.over else now) - begun)


def elapsed(span: timedelta) -> str:
    """Formats a duration as minutes and seconds."""
    seconds = max(0, int(span.total_seconds()))
    hours = f"{seconds // 3600}:" if seconds >= 3600 else ""
    return f"{hours}{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def rows(run: Run, *, now: datetime, locale: str) -> Iterator[Row]:
    """Yields the steps as a tree."""
    plan = run.plan or Plan()
    for branch in draw.branches(plan):
        name, step, state = branch.step, plan.by_id[branch.step], run.steps[branch.step]
        parts = (
            f"{ICONS[state.status]} {safe(name)}  {status_word(state.status, locale)}",
            _detail(run, name, now, locale),
            clip(safe(step.title) or render.action(step, locale), _TITLE),
        )
        yield Row(state.status, branch.lead + "  ".join(filter(None, parts)))


def _detail(run: Run, name: str, now: datetime, locale: str) -> str:
    state = run.steps[name]
    parts = [step for each, step in run.steps.items() if each.startswith(f"{name}/")]
    took = elapsed((state.finished_at or now) - state.started_at) if state.started_at else ""
    # Until when the step, or its next round, waits.
    at = max((each.wakes_at for each in (state, *parts) if each.wakes_at is not None), default=now)
    until = Sentence("waits until {time}", time=f"{at.astimezone():%H:%M:%S}")
    waits = in_language(until, locale) if at > now else ""
    match state.status:
        case StepStatus.RUNNING:
            done = sum(each.status is StepStatus.DONE for each in parts)
            share = f"{done}/{len(parts)}" if parts else ""
            shown = share, clip(safe(state.progress), _TITLE), waits, took
            return " ".join(filter(None, shown))
        case StepStatus.DONE:
            return took
        case StepStatus.WAITING | StepStatus.READY:
            return waits
        case StepStatus.SKIPPED if not state.rule:
            return ""
        case _:
            return clip(safe(in_language(state.error, locale)), 120) if state.error else ""


def line_of(run: Run, event: e.Event, locale: str) -> str:
    """Returns the line of an event; empty for events that need none."""

    def told(text: str, most: int = _LONGEST) -> str:
        return clip(in_language(text, locale), most)

    match event.body:
        case e.StepProgressed(step=name, text=text):
            return f"{ICONS[StepStatus.RUNNING]} {name}: {clip(text, _LONGEST)}"
        case e.QuestionAsked(question=name, text=text):
            # Short enough for one line: the full text is shown where it is answered.
            return f"{ICONS[StepStatus.ASKING]} {name}: {told(text, _SHORTEST)}"
        case e.ReplanStarted(cause=cause):
            return f"{status_word('replanning', locale)}: {told(cause)}"
        case e.RunPaused(reason=reason):
            return ": ".join(filter(None, (status_word("paused", locale), told(reason))))
        case e.RunFinished():
            return header(run, now=event.at, locale=locale)
        case _:
            return _step_line(run, event, locale)


def _step_line(run: Run, event: e.Event, locale: str) -> str:
    name = getattr(event.body, "step", None)
    if not isinstance(name, str) or name not in run.steps:
        return ""
    state = run.steps[name]
    text = f"{ICONS[state.status]} {name} {status_word(state.status, locale)}"
    if state.program:
        by = Sentence("answered by the program {name}", name=state.program)
        text += f" ({in_language(by, locale)})"
    why = getattr(event.body, "error", "") or getattr(event.body, "reason", "")
    return f"{text}: {clip(in_language(str(why), locale), _LONGEST)}" if why else text


def is_stage(text: str) -> bool:
    """Whether a line tells a stage of planning, or a read while it goes on."""
    return hasattr(text, "stage") or getattr(text, "key", "") == "planning.early_read"


class View:
    """Shows a run while it is executed; this one shows nothing, for `-q`."""

    def show(self, run: Run, event: e.Event) -> None:
        """Shows an event and the run after it."""

    def say(self, text: str) -> None:
        """Shows a message."""

    def tick(self) -> None:
        """Updates the times."""

    def stop(self) -> None:
        """Stops drawing; leaves what was shown."""


class Lines(View):
    """Writes one line per event, with the time since the start; as JSON on stdout too if wanted."""

    def __init__(
        self, locale: str, stream: TextIO | None = None, *, jsonl: bool = False, quiet: bool = False
    ) -> None:
        self._locale = locale
        self._stream = stream or sys.stderr
        self._jsonl, self._quiet = jsonl, quiet
        self.restart()

    def restart(self) -> None:
        self._start = time.monotonic()

    def show(self, run: Run, event: e.Event) -> None:
        if self._jsonl:
            print_line_json(event.shown_json())
        if text := line_of(run, event, self._locale):
            self.say(text)

    def say(self, text: str) -> None:
        if self._quiet:
            return
        passed = int(time.monotonic() - self._start)
        shown = safe(in_language(text, self._locale))
        line = f"[{passed // 60:02d}:{passed % 60:02d}] {shown}"
        self._stream.writelines(f"{part}\n" for part in fitted_to(self._stream, [line]))
        self._stream.flush()


def make_view(locale: str, *, jsonl: bool = False, quiet: bool = False) -> View:
    """Makes the view that suits stderr: JSON lines, plain lines, a live block, or nothing."""
    if quiet and not jsonl:
        return View()
    if jsonl or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return Lines(locale, jsonl=jsonl, quiet=quiet)
    block: View = resolve_name("plansmith_cli.ui.live:LiveBlock")(locale)
    return block


@asynccontextmanager
async def ticking(view: View) -> AsyncGenerator[None]:
    """Updates the times of a view four times a second inside the `with` block."""

    async def tick() -> None:
        while True:
            view.tick()
            await asyncio.sleep(0.25)

    task = asyncio.create_task(tick())
    try:
        yield
    finally:
        task.cancel()
        view.stop()


Detail = Literal["quiet", "normal", "verbose"]
_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_S: Final = 0.1


class PlanningProgress(Lines):
    """Tells what the planner does: each stage with -v, else one moving line on a terminal."""

    def __init__(
        self, locale: str, stream: TextIO | None = None, *, detail: Detail = "normal"
    ) -> None:
        super().__init__(locale, stream)
        self._detail: Detail = detail
        self._lock = threading.RLock()
        self._text = in_language(Sentence("planning"), locale)
        self._is_moving = False
        self._frame, self._begun = _FRAMES[0], 0.0

    def say(self, text: str) -> None:
        """Writes a line; a stage of planning only where it is wanted, else into the moving line."""
        if is_stage(text) and self._detail != "verbose":
            self._text = text
            # At once: loading a model may keep the drawing thread from its next turn for seconds.
            self._draw()
        elif self._detail != "quiet":
            with self.cleared():
                super().say(text)

    @contextmanager
    def cleared(self) -> Generator[None]:
        with self._lock:
            if self._is_moving:
                self._stream.write("\r\x1b[K")
                self._stream.flush()
            yield

    @contextmanager
    def moving(self) -> Generator[None]:
        """Shows on a terminal that work goes on, also while a model says nothing."""
        terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        if self._detail != "normal" or self._is_moving or not terminal:
            yield
            return
        # A thread: the event loop may be busy with the very work that is shown.
        ended = threading.Event()
        drawing = threading.Thread(target=self._draw_until, args=(ended,), daemon=True)
        self._is_moving, self._text = True, in_language(Sentence("planning"), self._locale)
        self._begun = time.monotonic()
        drawing.start()
        try:
            yield
        finally:
            ended.set()
            drawing.join()
            with self.cleared():
                self._is_moving = False

    def _draw_until(self, ended: threading.Event) -> None:
        for self._frame in itertools.cycle(_FRAMES):
            self._draw()
            if ended.wait(_FRAME_S):
                return

    def _draw(self) -> None:
        with self._lock:
            if not self._is_moving:
                return
            passed = int(time.monotonic() - self._begun)
            width = shutil.get_terminal_size().columns - 1
            line = f"{self._frame} {passed // 60:02d}:{passed % 60:02d} {safe(self._text)}"
            self._stream.write(f"\r\x1b[K{clip_width(line, width)}")
            self._stream.flush()
