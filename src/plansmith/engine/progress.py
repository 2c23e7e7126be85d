"""The executor's buffers: events to write next, wake-ups by ended calls, progress texts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypedDict, get_args

from plansmith.engine.call import Outcome, kept_text
from plansmith.engine.units import Unit
from plansmith.errors import InputNeeded, PlansmithError
from plansmith.plan.data import Content, Json, content_hash
from plansmith.plan.events import (
    AnyBody,
    QuestionAsked,
    StepAdvised,
    StepDone,
    StepProgressed,
    StepStarted,
)
from plansmith.plan.steps import LONGEST_TIMEOUT_S, AskStep
from plansmith.ports import Advice, Call, Clock, Usage


class Ready(NamedTuple):
    """A call that is made once its start is written."""

    unit: Unit
    inputs: dict[str, Json]
    call: Call


@dataclass(slots=True)
class Batch:
    """The events and values that the executor writes next."""

    bodies: list[AnyBody] = field(default_factory=list[AnyBody])
    values: list[Json | Content] = field(default_factory=list["Json | Content"])

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

    @contextmanager
    def whole(self) -> Generator[None]:
        """Undoes what was added inside the block if it raises."""
        bodies, values = len(self.bodies), len(self.values)
        try:
            yield
        except BaseException:
            del self.bodies[bodies:], self.values[values:]
            raise

    def start(
        self, unit: Unit, *, attempt: int, key: str, inputs: Content, prefetched: str = ""
    ) -> None:
        """Adds the start of a call, with its inputs."""
        started = StepStarted(
            step=unit.name,
            attempt=attempt,
            key=key,
            inputs=inputs.digest,
            callee=unit.callee,
            item=unit.item,
            prefetched=prefetched,
        )
        self.bodies.append(started)
        self.values.append(inputs)

    def open(self, unit: Unit, *, key: str) -> None:
        """Adds the start of a map or plan step, which makes no call itself."""
        self.bodies.append(StepStarted(step=unit.name, key=key, item=unit.item))

    def done(self, unit: Unit, content: Content, usage: Usage) -> None:
        """Adds the result of a step."""
        size = len(content.text)
        spent = spending(usage)
        self.bodies.append(StepDone(step=unit.name, result=content.digest, size=size, **spent))
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
                options=need.options,
                answer_schema=need.schema,
                step=unit.name,
                state=content_hash(need.state),
                link=need.link,
                kind="call",
            )
        )
        self.values.append(need.state)


class Spending(TypedDict):
    """What a call used, as fields of an event."""

    tokens: int
    cost: str


def spending(usage: Usage) -> Spending:
    """Returns the tokens and the cost that a call used; an unknown price is empty."""
    cost = "" if usage.cost is None else str(usage.cost)
    return {"tokens": usage.input_tokens + usage.output_tokens, "cost": cost}


FOLLOW_AFTER_S: Final = 0.2
_NO_OUTCOME: Final = ("", None)


class Wakeups:
    """Wakes the executor: ended calls, timers, and events that other processes wrote.

    `news` returns when another process has written.
    """

    def __init__(self, news: Callable[[], Awaitable[None]]) -> None:
        self._news = news
        self._queue: asyncio.Queue[tuple[str, Outcome | None]] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._follower: asyncio.Task[None] | None = None
        self.waits: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Binds it to the event loop that runs now."""
        self._loop = asyncio.get_running_loop()

    def put(self, name: str, outcome: Outcome) -> None:
        """Reports that a call has ended."""
        self._queue.put_nowait((name, outcome))

    def wake_now(self) -> None:
        """Wakes the executor."""
        self._queue.put_nowait(_NO_OUTCOME)

    def wake(self, seconds: float) -> None:
        """Wakes the executor in some seconds; may be called from any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(loop.call_later, seconds, self.wake_now)

    def later(self, waiting: Callable[[], Awaitable[None]], then: Callable[[], None]) -> None:
        """Calls `then` when a wait is over, and wakes the executor."""

        async def wait() -> None:
            await waiting()
            then()
            self.wake_now()

        task = asyncio.create_task(wait())
        self.waits.add(task)
        task.add_done_callback(self.waits.discard)

    async def wait(self) -> bool:
        """Waits for a wake-up; true if another process may have written.

        Other processes are followed only after a while, since that costs a task and a query.
        """
        loop = asyncio.get_running_loop()
        timer = loop.call_later(FOLLOW_AFTER_S, self._begin_to_follow)
        try:
            self._queue.put_nowait(await self._queue.get())
        finally:
            timer.cancel()
        return self._follower is not None

    def _begin_to_follow(self) -> None:
        self._follower = self._follower or asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        try:
            while True:
                await self._news()
                self.wake_now()
                # The executor's own writes wake this too: let it process them first.
                await asyncio.sleep(FOLLOW_AFTER_S)
        except PlansmithError:
            return  # the next append raises the store's error

    def ends(self) -> Iterator[tuple[str, Outcome]]:
        """Yields the calls that have ended since the last time."""
        while not self._queue.empty():
            name, outcome = self._queue.get_nowait()
            if outcome is not None:
                yield name, outcome

    def close(self) -> list[asyncio.Task[None]]:
        """Returns the tasks that still wait, to be cancelled."""
        follower = [self._follower] if self._follower else []
        return [*self.waits, *follower]


EVERY_S: Final = 0.5
_MAX_LENGTH: Final = 500
_ADVICE: Final[tuple[Advice, ...]] = get_args(Advice)


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
        self._advice: list[StepAdvised] = []
        self.advice: Advice | None = None

    def progress(self, step: str, text: str) -> None:
        """Takes the progress text of a step."""
        is_next = step not in self._progress
        self._progress[step] = kept_text(text)[:_MAX_LENGTH]
        now = self._clock.monotonic()
        due = max(now, self._due.get(step, -EVERY_S) + EVERY_S)
        if is_next or now == due:
            self._due[step] = due
            self._wake(due - now)

    def advise(self, step: str, advice: Advice, reason: str) -> None:
        """Takes a step's advice: that the plan should change, or that the goal is met."""
        if advice not in _ADVICE:
            raise ValueError(f"{advice!r} is no advice: use one of {', '.join(_ADVICE)}")
        text = kept_text(reason)[:_MAX_LENGTH]
        self._advice.append(StepAdvised(step=step, advice=advice, reason=text))
        self._wake(0)

    def take(self, running: Container[str]) -> list[StepProgressed | StepAdvised]:
        """Returns progress and advice since the last time, of steps that still run."""
        progress, self._progress = self._progress, {}
        advice, self._advice = self._advice, []
        for each in advice:
            self.advice = self.advice or each.advice
        events: list[StepProgressed | StepAdvised] = [*advice]
        events += [StepProgressed(step=name, text=text) for name, text in progress.items()]
        return [each for each in events if each.step in running]
