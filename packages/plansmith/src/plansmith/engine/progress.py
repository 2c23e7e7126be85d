"""The executor's buffers: events to write next, wake-ups by ended calls, progress texts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from contextvars import Context, copy_context
from datetime import datetime, timedelta
from typing import Final, TypedDict, get_args

import msgspec

from plansmith.engine.budget import NOTHING_USED
from plansmith.engine.call import Callees
from plansmith.engine.outcome import Outcome, kept_text, named
from plansmith.engine.units import Unit
from plansmith.errors import InputNeeded, PlansmithError
from plansmith.plan.data import Content, Json, content_of
from plansmith.plan.events import (
    AnyBody,
    QuestionAsked,
    StepAdvised,
    StepDone,
    StepProgressed,
    StepStarted,
    StepWaits,
)
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import LONGEST_TIMEOUT_S, AskStep
from plansmith.ports import Advice, Call, Clock, Usage


class Ready(msgspec.Struct, eq=False, gc=False):
    """A call that is made once its start is written."""

    unit: Unit
    inputs: dict[str, Json]
    key: str
    attempt: int
    prefetched: str


class Batch(msgspec.Struct, eq=False, gc=False):
    """The events and values that the executor writes next."""

    bodies: list[AnyBody] = []
    values: list[Json | Content] = []

    def more(self, other: Batch) -> None:
        """Adds the content of another batch."""
        self.bodies += other.bodies
        self.values += other.values

    def drop_starts(self, steps: Container[str]) -> None:
        """Removes the start events of these steps."""
        self.bodies = [
            body
            for body in self.bodies
            if not (isinstance(body, StepStarted) and body.step in steps)
        ]

    @property
    def steps(self) -> set[str]:
        """Returns the steps that its events are about."""
        return {str(step) for body in self.bodies if (step := getattr(body, "step", None))}

    def forget(self, steps: Container[str]) -> None:
        """Removes all events of these steps: another process has ended them."""
        self.bodies = [
            body for body in self.bodies if (getattr(body, "step", "") or "") not in steps
        ]

    def cut(self, bodies: int, values: int) -> None:
        """Removes what was added after it had so many events and values."""
        del self.bodies[bodies:], self.values[values:]

    def start(self, ready: Ready, inputs: Content) -> None:
        """Adds the start of a call, with its inputs."""
        unit = ready.unit
        body = StepStarted(
            step=unit.name,
            attempt=ready.attempt,
            key=ready.key,
            inputs=inputs.digest,
            callee=unit.callee,
            item=unit.item if unit.parent is not None else "",
            prefetched=ready.prefetched,
        )
        self.bodies.append(body)
        self.values.append(inputs)

    def open(self, unit: Unit, *, key: str) -> None:
        """Adds the start of a map or plan step, which makes no call itself."""
        self.bodies.append(StepStarted(step=unit.name, key=key, item=unit.item))

    def done(self, unit: Unit, content: Content, usage: Usage) -> None:
        """Adds the result of a step."""
        size = len(content.text)
        if usage is NOTHING_USED:
            body = StepDone(step=unit.name, result=content.digest, size=size)
        else:
            spent = spending(usage)
            body = StepDone(step=unit.name, result=content.digest, size=size, **spent)
        self.bodies.append(body)
        self.values.append(content)

    def ask(self, unit: Unit, text: str, now: datetime) -> None:
        """Adds the question of an ask step; it expires after the step's time limit, if any."""
        step = unit.step
        options = step.options if isinstance(step, AskStep) else ()
        schema = step.answer_schema if isinstance(step, AskStep) else None
        limit = None if step.timeout_s is None else min(step.timeout_s, LONGEST_TIMEOUT_S)
        self.bodies.append(
            QuestionAsked(
                question=unit.name,
                text=text,
                options=options,
                answer_schema=schema,
                step=unit.name,
                expires_at=None if limit is None else now + timedelta(seconds=limit),
                kind="step",
            )
        )

    def ask_for(self, unit: Unit, need: InputNeeded, attempt: int) -> None:
        """Adds the question of a call, with its state for when the call is made again."""
        self.bodies.append(
            QuestionAsked(
                question=f"{unit.name}?{attempt}",
                text=need.message,
                options=tuple(need.options),
                answer_schema=need.schema,
                step=unit.name,
                state=content_of(need.state).digest,
                link=need.link,
                kind="call",
            )
        )
        self.values.append(need.state)


class Spent(TypedDict):
    """What a call used, as fields of an event; an unknown price is empty."""

    tokens: int
    cost: str


def spending(usage: Usage) -> Spent:
    """Returns what a call used, as fields of an event."""
    cost = "" if usage.cost is None else str(usage.cost)
    return {"tokens": usage.input_tokens + usage.output_tokens, "cost": cost}


FOLLOW_AFTER_S: Final = 0.2


class Wakeups:
    """Wakes the executor: ended calls, timers, and events that other processes wrote.

    `news` returns when another process has written.
    """

    def __init__(self, news: Callable[[], Awaitable[None]]) -> None:
        self._news = news
        self._ended: list[tuple[str, Outcome]] = []
        self.is_awake = False
        self._waiter: asyncio.Future[None] | None = None
        # The task that follows other processes: they may have written.
        self.follower: asyncio.Task[None] | None = None
        self._look: asyncio.TimerHandle | None = None
        self._seen: asyncio.Future[None] | None = None
        self.waits: set[asyncio.Task[None]] = set()
        self._alarms: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Binds it to the event loop that runs now."""
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._context: Context = copy_context()

    def put(self, name: str, outcome: Outcome) -> None:
        """Reports that a call has ended."""
        self._ended.append((name, outcome))
        self.wake_now()

    def wake_now(self) -> None:
        """Wakes the executor."""
        self.is_awake = True
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():  # done if the execution was cancelled
            waiter.set_result(None)

    def wake(self, seconds: float) -> None:
        """Wakes the executor in some seconds; may be called from any thread."""
        loop = self._loop
        if not loop.is_closed():
            loop.call_soon_threadsafe(loop.call_later, seconds, self.wake_now)

    def later(
        self,
        waiting: Callable[[], Awaitable[None]],
        then: Callable[[], None],
        *,
        holds: bool = True,
    ) -> None:
        """Calls `then` when a wait is over, and wakes the executor, which stays if it `holds`."""

        async def wait() -> None:
            await waiting()
            then()
            tasks.discard(task)  # before the executor looks whether to stay
            self.wake_now()

        task = asyncio.create_task(wait())
        tasks = self.waits if holds else self._alarms
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def next(self) -> asyncio.Future[None]:
        """Returns a future that is done at the next wake-up, if the executor is not awake.

        Other processes are followed only after a while, since that costs a task and a query.
        """
        if self._look is None and self.follower is None:
            self._look_later()
        self._waiter = self._loop.create_future()
        return self._waiter

    def _look_later(self) -> None:
        self._look = self._loop.call_later(FOLLOW_AFTER_S, self._look_whether_long)

    def _look_whether_long(self) -> None:
        """Begins to follow other processes if the wait is the one of the last look."""
        self._look, waiter = None, self._waiter
        if waiter is None:
            return
        if waiter is self._seen:
            self._begin_to_follow()
        else:
            self._look_later()
        self._seen = waiter

    def others_wrote(self) -> None:
        """Has the executor read at once what others have written."""
        if self.follower is None:
            self._begin_to_follow()
        self.wake_now()

    def _begin_to_follow(self) -> None:
        self.follower = self._loop.create_task(self._follow(), context=self._context)

    async def _follow(self) -> None:
        try:
            while True:
                await self._news()
                self.wake_now()
                # The executor's own writes wake this too: let it process them first.
                await asyncio.sleep(FOLLOW_AFTER_S)
        except PlansmithError:
            return  # the next append raises the store's error

    def ends(self) -> Sequence[tuple[str, Outcome]]:
        """Returns the calls that have ended since the last time."""
        self.is_awake = False
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> list[asyncio.Task[None]]:
        """Returns the tasks that still wait, to be cancelled."""
        if self._look is not None:
            self._look.cancel()
            self._look = None
        waits = [*self.waits, *self._alarms]
        return [*waits, self.follower] if self.follower else waits


EVERY_S: Final = 0.5
_MAX_LENGTH: Final = 500


class ProgressBuffer:
    """Buffers the progress and advice of running calls, from any thread.

    Of many progress texts in a short time only the last is kept. `wake` wakes the executor in
    some seconds, which then takes them.
    """

    def __init__(self, clock: Clock, wake: Callable[[float], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._progress: dict[str, str] = {}
        self._due: dict[str, float] = {}
        self.is_empty = True
        self._advice: list[StepAdvised] = []
        self.advice: Advice | None = None

    def progress(self, step: str, text: str) -> None:
        """Takes the progress text of a step."""
        is_next = step not in self._progress
        self._progress[step] = kept_text(text)[:_MAX_LENGTH]
        self.is_empty = False
        now = self._clock.monotonic()
        due = max(now, self._due.get(step, -EVERY_S) + EVERY_S)
        if is_next or now == due:
            self._due[step] = due
            self._wake(due - now)

    def advise(self, step: str, advice: Advice, reason: str) -> None:
        """Takes a step's advice: that the plan should change, or that the goal is met."""
        if advice not in get_args(Advice):
            raise ValueError(f"an advice is 'replan' or 'finish', not {advice!r}")
        text = kept_text(reason)[:_MAX_LENGTH]
        self._advice.append(StepAdvised(step=step, advice=advice, reason=text))
        self.is_empty = False
        self._wake(0)

    def take(self, running: Container[str]) -> list[StepProgressed | StepAdvised]:
        """Returns progress and advice since the last time, of steps that still run."""
        self.is_empty = True  # first: what comes from a thread meanwhile is taken next time
        progress, self._progress = self._progress, {}
        advice, self._advice = self._advice, []
        for each in advice:
            self.advice = self.advice or each.advice
        events: list[StepProgressed | StepAdvised] = [*advice]
        events += [StepProgressed(step=name, text=text) for name, text in progress.items()]
        return [each for each in events if each.step in running]


class RunningCalls:
    """Makes calls; `ended` gets the outcome of each, unless it is cancelled."""

    def __init__(
        self,
        callees: Callees,
        results: Mapping[str, Json],
        *,
        call_of: Callable[[Ready], Call],
        ended: Callable[[str, Outcome], None],
    ) -> None:
        self._callees = callees
        self._ended = ended
        self._results = results
        self._call_of = call_of
        self._is_cancelled = False
        self.running: dict[str, asyncio.Task[None]] = {}

    def launch(self, started: Iterable[Ready]) -> None:
        """Makes calls whose starts are written."""
        for ready in started:
            name = ready.unit.name
            self.running[name] = asyncio.create_task(self._work(ready), name=name)

    async def _work(self, ready: Ready) -> None:
        unit, call = ready.unit, self._call_of(ready)
        try:
            outcome = await self._callees.call(unit, ready.inputs, call, self._results)
        except asyncio.CancelledError:
            if self._is_cancelled:
                raise
            # The callee cancelled itself: record an end, since the run waits for one.
            within = Sentence("the call was cancelled from within")
            outcome = self._callees.lost(unit, within, again=True)
        except Exception as error:  # noqa: BLE001 - the run would wait for the end for ever
            outcome = self._callees.lost(unit, named(error), again=True)
        self._ended(unit.name, outcome)

    async def cancel(self, grace_s: float) -> None:
        """Cancels all calls, and waits for them a little; functions in threads are given up."""
        self._is_cancelled = True
        for task in self.running.values():
            task.cancel()
        if self.running:
            await asyncio.wait(self.running.values(), timeout=grace_s)


class StepTimers:
    """Knows until when steps wait, by name: `times` is empty in most runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.times: dict[str, datetime] = {}
        # The steps whose wait is in the journal, whether or not it is over.
        self.written: set[str] = set()

    def know(self, name: str, until: datetime) -> None:
        """Takes a time from the journal."""
        self.times[name] = until
        self.written.add(name)

    def wait(self, name: str, seconds: float, batch: Batch) -> None:
        """Lets a step wait from now on, and writes that."""
        self.know(name, self._clock.now() + timedelta(seconds=seconds))
        batch.bodies.append(StepWaits(step=name, seconds=seconds))

    def forget_past(self) -> None:
        """Forgets the times that are over.

        A step whose time is over may have to wait for something else, which wakes the executor.
        """
        now = self._clock.now()
        self.times = {name: until for name, until in self.times.items() if until > now}

    def forget(self, ended: Container[str]) -> None:
        """Forgets the times of steps that have ended: a person may have skipped a waiting one."""
        self.times = {name: until for name, until in self.times.items() if name not in ended}

    def holds(self, name: str) -> bool:
        """Tells whether a step still has to wait."""
        return name in self.times

    @property
    def next(self) -> datetime | None:
        """The earliest time for which a step waits."""
        return min(self.times.values(), default=None)

    @property
    def seconds_left(self) -> float:
        """How long it is until the earliest of them."""
        return max(0.0, (min(self.times.values()) - self._clock.now()).total_seconds())
