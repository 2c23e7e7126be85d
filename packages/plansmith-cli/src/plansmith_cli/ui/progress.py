"""Shows the progress of a run on stderr, and its steps as rows."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from plansmith.lazy import lazy_modules
from plansmith.plan import events as e
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus, StepState, StepStatus
from plansmith.plan.sentence import Sentence, in_language
from plansmith.text import clip, safe
from plansmith_cli.ui.output import print_line_json
from plansmith_cli.ui.width import fitted_to
from plansmith_cli.ui.words import status_word

if TYPE_CHECKING:
    from plansmith.review import draw, render
else:
    lazy_modules(globals(), draw="plansmith.review.draw", render="plansmith.review.render")

ICONS: Final = {
    StepStatus.WAITING: "·",
    StepStatus.READY: "○",
    StepStatus.RUNNING: "▶",
    StepStatus.ASKING: "?",
    StepStatus.DONE: "✓",
    StepStatus.FAILED: "✗",
    StepStatus.SKIPPED: "↷",
    StepStatus.CANCELLED: "■",
    StepStatus.UNKNOWN: "!",
}
_TITLE: Final = 60
_ERROR: Final = 120
# When not all rows fit, the last of these are left out first.
_URGENCY: Final = (
    *(StepStatus.ASKING, StepStatus.UNKNOWN, StepStatus.RUNNING, StepStatus.FAILED),
    *(StepStatus.READY, StepStatus.CANCELLED, StepStatus.DONE, StepStatus.WAITING),
    StepStatus.SKIPPED,
)


class Row(NamedTuple):
    """The line of a step, and its status; None for the line that counts left-out rows."""

    status: StepStatus | None
    text: str


def header(run: Run, *, now: datetime, locale: str) -> str:
    """Returns progress, such as `3/9 · 2 running · 1 waiting for you · $0.012 · 00:41`."""
    return " · ".join(_parts(run, now, locale))


def _parts(run: Run, now: datetime, locale: str) -> Iterator[str]:
    states = [run.steps[name].status for name in _active(run.plan)] if run.plan else []
    if states:
        yield f"{states.count(StepStatus.DONE)}/{len(states)}"
    if run.status not in (RunStatus.RUNNING, RunStatus.ASKING):
        yield status_word(run.status, locale)
    if running := states.count(StepStatus.RUNNING):
        yield in_language(Sentence("{count} running", count=running), locale)
    if failed := states.count(StepStatus.FAILED):
        yield in_language(Sentence("{count} failed", count=failed), locale)
    if run.questions:
        yield in_language(Sentence("{count} waiting for you", count=len(run.questions)), locale)
    yield from _spent(run, now, locale)


def _spent(run: Run, now: datetime, locale: str) -> Iterator[str]:
    if run.money:
        yield f"${run.money:.3f}"
    elif run.tokens:
        yield in_language(Sentence("{count} tokens", count=f"{run.tokens:,}"), locale)
    begun = run.started_at or run.created_at
    if begun is not None:
        yield elapsed(((run.updated_at or now) if run.status.over else now) - begun)


def _active(plan: Plan) -> list[str]:
    return [step.id for step in plan.steps if not step.disabled]


def elapsed(span: timedelta) -> str:
    """Formats a duration as minutes and seconds."""
    seconds = max(0, int(span.total_seconds()))
    hours = f"{seconds // 3600}:" if seconds >= 3600 else ""
    return f"{hours}{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def rows(run: Run, *, now: datetime, locale: str, most: int | None = None) -> list[Row]:
    """Returns the steps as a tree; if there are more than `most`, the most urgent ones."""
    if run.plan is None:
        return []
    found = [
        Row(run.steps[each.step].status, f"{each.lead}{_text(run, each.step, now, locale)}")
        for each in draw.branches(run.plan)
    ]
    if most is None or len(found) <= most:
        return found
    keep = max(most - 1, 1)
    ranked = sorted(
        range(len(found)), key=lambda index: _URGENCY.index(found[index].status or _URGENCY[-2])
    )
    shown = [found[index] for index in sorted(ranked[:keep])]
    more = Sentence("… and {count} more", count=len(found) - len(shown))
    return [*shown, Row(None, in_language(more, locale))]


def _text(run: Run, name: str, now: datetime, locale: str) -> str:
    state = run.steps[name]
    step = run.plan.by_id[name] if run.plan else None
    about = clip(safe(step.title) or render.action(step, locale), _TITLE) if step else ""
    state_text = f"{ICONS[state.status]} {safe(name)}  {status_word(state.status, locale)}"
    return "  ".join(part for part in (state_text, _detail(run, name, now, locale), about) if part)


def _detail(run: Run, name: str, now: datetime, locale: str) -> str:
    """Returns more than the status: parts done, time, last progress text or error."""
    state = run.steps[name]
    match state.status:
        case StepStatus.RUNNING:
            shown = _share(run, name), _waits(run, name, now, locale), _time(state, now)
            return " ".join(part for part in shown if part)
        case StepStatus.DONE:
            return _time(state, now)
        case StepStatus.WAITING | StepStatus.READY:
            return _waits(run, name, now, locale)
        case StepStatus.SKIPPED if not state.rule:
            return ""
        case _ if state.error:
            return clip(safe(in_language(state.error, locale)), _ERROR)
        case _:
            return ""


def _waits(run: Run, name: str, now: datetime, locale: str) -> str:
    """Says until when a step, or its next round, waits."""
    times = [
        step.wakes_at
        for each, step in run.steps.items()
        if step.wakes_at is not None and (each == name or each.startswith(f"{name}/"))
    ]
    at = max(times, default=now)
    until = Sentence("waits until {time}", time=f"{at.astimezone():%H:%M:%S}")
    return in_language(until, locale) if at > now else ""


def _share(run: Run, name: str) -> str:
    parts = [step.status for each, step in run.steps.items() if each.startswith(f"{name}/")]
    share = f"{parts.count(StepStatus.DONE)}/{len(parts)}" if parts else ""
    progress = clip(safe(run.steps[name].progress), _TITLE)
    return " ".join(part for part in (share, progress) if part)


def _time(state: StepState, now: datetime) -> str:
    if state.started_at is None:
        return ""
    return elapsed((state.finished_at or now) - state.started_at)


_TICK_S: Final = 0.25
_LONGEST: Final = 200
_SHORTEST: Final = 40


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
    """Writes one line per event, with the time since the start."""

    def __init__(self, locale: str, stream: TextIO | None = None) -> None:
        self._locale = locale
        self._stream = stream or sys.stderr
        self.restart()

    def restart(self) -> None:
        """Counts the time from now on."""
        self._start = time.monotonic()

    def show(self, run: Run, event: e.Event) -> None:
        """Writes the line of an event, if it has one."""
        text = line_of(run, event, self._locale)
        if text:
            self.say(text)

    def say(self, text: str) -> None:
        """Writes a line."""
        passed = int(time.monotonic() - self._start)
        shown = safe(in_language(text, self._locale))
        line = f"[{passed // 60:02d}:{passed % 60:02d}] {shown}"
        self._stream.writelines(f"{part}\n" for part in fitted_to(self._stream, [line]))
        self._stream.flush()


def is_stage(text: str) -> bool:
    """Whether a line tells a stage of planning, or a read while it goes on."""
    return hasattr(text, "stage") or getattr(text, "key", "") == "planning.early_read"


def line_of(run: Run, event: e.Event, locale: str) -> str:
    """Returns the line of an event; empty for events that need none."""
    match event.body:
        case e.StepProgressed(step=name, text=text):
            return f"{ICONS[StepStatus.RUNNING]} {name}: {clip(text, _LONGEST)}"
        case e.QuestionAsked(question=name, text=text):
            # Short enough for one line: the full text is shown where it is answered.
            return (
                f"{ICONS[StepStatus.ASKING]} {name}: {clip(in_language(text, locale), _SHORTEST)}"
            )
        case e.ReplanStarted(cause=cause):
            return (
                f"{status_word('replanning', locale)}: {clip(in_language(cause, locale), _LONGEST)}"
            )
        case e.RunPaused(reason=reason):
            why = clip(in_language(reason, locale), _LONGEST)
            return ": ".join(filter(None, (status_word("paused", locale), why)))
        case e.RunFinished():
            return header(run, now=event.at, locale=locale)
        case _:
            return _step_line(run, event, locale)


def _step_line(run: Run, event: e.Event, locale: str) -> str:
    name = getattr(event.body, "step", None)
    if not isinstance(name, str) or name not in run.steps:
        return ""
    state = run.steps[name]
    why = getattr(event.body, "error", "") or getattr(event.body, "reason", "")
    text = f"{ICONS[state.status]} {name} {status_word(state.status, locale)}"
    if state.program:
        by = in_language(Sentence("answered by the program {name}", name=state.program), locale)
        text += f" ({by})"
    return f"{text}: {clip(in_language(str(why), locale), _LONGEST)}" if why else text


class JsonLines(Lines):
    """Prints events as lines of JSON on stdout, and the usual lines on stderr unless `quiet`."""

    def __init__(self, locale: str, *, quiet: bool) -> None:
        super().__init__(locale)
        self._quiet = quiet

    def show(self, run: Run, event: e.Event) -> None:
        """Prints the event as JSON and shows it."""
        print_line_json(event.shown_json())
        super().show(run, event)

    def say(self, text: str) -> None:
        """Writes a line."""
        if not self._quiet:
            super().say(text)


def make_view(locale: str, *, jsonl: bool = False, quiet: bool = False) -> View:
    """Makes the view that suits stderr: JSON lines, plain lines, a live block, or nothing."""
    if jsonl:
        return JsonLines(locale, quiet=quiet)
    if quiet:
        return View()
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return Lines(locale)
    block: View = resolve_name("plansmith_cli.ui.live:LiveBlock")(locale)
    return block


@asynccontextmanager
async def ticking(view: View) -> AsyncGenerator[None]:
    """Updates the times of a view four times a second inside the `with` block."""

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
