"""Shows on stderr how planning goes on and how a run does, and its steps as rows."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
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
from plansmith_cli.ui.terminal import fitted_to

if TYPE_CHECKING:
    from plansmith_cli.ui import render, tree
else:
    lazy_modules(globals(), render="plansmith_cli.ui.render", tree="plansmith_cli.ui.tree")

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
_MAX_LENGTH: Final = 200
_SHORTEST: Final = 40


class Row(NamedTuple):
    """The line of a step, and its status."""

    status: StepStatus
    text: str


def header(run: Run, *, now: datetime, locale: str) -> str:
    """Returns progress, such as `3/9 · 2 running · 1 waiting for you · $0.012 · 00:41`."""
    parts = (*_count_parts(run, locale), *_cost_parts(run, now))
    return " · ".join(in_language(part, locale) for part in parts)


def _count_parts(run: Run, locale: str) -> Iterator[str]:
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


def _cost_parts(run: Run, now: datetime) -> Iterator[str]:
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
    for branch in tree.branches(plan):
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
            parts_of_line = share, clip(safe(state.progress), _TITLE), waits, took
            return " ".join(filter(None, parts_of_line))
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

    def translated(text: str, most: int = _MAX_LENGTH) -> str:
        return clip(in_language(text, locale), most)

    match event.body:
        case e.StepProgressed(step=name, text=text):
            return f"{ICONS[StepStatus.RUNNING]} {name}: {clip(text, _MAX_LENGTH)}"
        case e.QuestionAsked(question=name, text=text):
            # Short enough for one line: the full text is shown where it is answered.
            return f"{ICONS[StepStatus.ASKING]} {name}: {translated(text, _SHORTEST)}"
        case e.ReplanStarted(cause=cause):
            return f"{status_word('replanning', locale)}: {translated(cause)}"
        case e.RunPaused(reason=reason):
            return ": ".join(filter(None, (status_word("paused", locale), translated(reason))))
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
    return f"{text}: {clip(in_language(str(why), locale), _MAX_LENGTH)}" if why else text


def is_stage(text: str) -> bool:
    """Whether a line tells a stage of planning."""
    return hasattr(text, "stage")


Detail = Literal["quiet", "normal", "verbose"]


class Lines:
    """Writes what happens as lines on stderr, with the time since the start; none with `-q`.

    Events come as JSON on stdout too if that is wanted.
    """

    def __init__(
        self,
        locale: str,
        stream: TextIO | None = None,
        *,
        detail: Detail = "normal",
        jsonl: bool = False,
    ) -> None:
        self._stream = stream or sys.stderr
        self._detail, self._jsonl = detail, jsonl
        self.restart(locale)

    def restart(self, locale: str) -> None:
        """Begins anew, for a run or a message in this language."""
        self._locale, self._start = locale, time.monotonic()

    def show(self, run: Run, event: e.Event) -> None:
        """Shows an event and the run after it."""
        if self._jsonl:
            print_line_json(event.shown_json())
        if text := line_of(run, event, self._locale):
            self._write(text)

    def say(self, text: str) -> None:
        """Shows a message; a stage of planning only where all are wanted."""
        if self._detail == "verbose" or not is_stage(text):
            self._write(text)

    def _write(self, text: str) -> None:
        if self._detail == "quiet":
            return
        message = safe(in_language(text, self._locale))
        line = f"[{self._passed()}] {message}"
        self._stream.writelines(f"{part}\n" for part in fitted_to(self._stream, [line]))
        self._stream.flush()

    def _passed(self) -> str:
        return elapsed(timedelta(seconds=time.monotonic() - self._start))

    @contextmanager
    def cleared(self) -> Generator[None]:
        """Leaves stderr to others inside the `with` block."""
        yield

    @contextmanager
    def moving(self) -> Generator[None]:
        """Shows on a terminal that planning goes on, also while a model says nothing."""
        yield

    def stop(self) -> None:
        """Stops drawing; leaves what was shown."""


def make_progress(locale: str, *, detail: Detail, jsonl: bool = False) -> Lines:
    """Makes what suits stderr: a block that is drawn anew, or lines."""
    draws = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if jsonl or detail == "quiet" or not draws:
        return Lines(locale, detail=detail, jsonl=jsonl)
    board: Lines = resolve_name("plansmith_cli.ui.live:Board")(locale, detail=detail)
    return board
