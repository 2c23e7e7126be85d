"""What the executor writes next and what wakes it: batched events, ended calls, progress texts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

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
    """A call that may be made once its intent is durable."""

    unit: Unit
    inputs: dict[str, Json]
    call: Call


@dataclass(slots=True)
class Batch:
    """What a conductor writes next."""

    bodies: list[AnyBody] = field(default_factory=list[AnyBody])
    values: list[Json | Content] = field(default_factory=list["Json | Content"])

    def more(self, other: Batch) -> None:
        """Write what is in another batch, too."""
        self.bodies += other.bodies
        self.values += other.values

    def drop_starts(self, steps: Container[str]) -> None:
        """Do not start these steps after all."""
        self.bodies = [
            body
            for body in self.bodies
            if not (isinstance(body, StepStarted) and body.step in steps)
        ]

    @property
    def steps(self) -> set[str]:
        """The steps it speaks of."""
        return {str(step) for body in self.bodies if (step := getattr(body, "step", None))}

    def forget(self, steps: Container[str]) -> None:
        """Say nothing of these steps: somebody else has ended them meanwhile."""
        self.bodies = [
            body for body in self.bodies if (getattr(body, "step", "") or "") not in steps
        ]

    @contextmanager
    def whole(self) -> Generator[None]:
        """What is added here is added as a whole, or not at all if that fails half-way."""
        bodies, values = len(self.bodies), len(self.values)
        try:
            yield
        except BaseException:
            del self.bodies[bodies:], self.values[values:]
            raise

    def start(
        self, unit: Unit, *, attempt: int, key: str, inputs: Content, prefetched: str = ""
    ) -> None:
        """A call is intended; its inputs are kept for whoever looks later."""
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
        """A map or plan step begins with its parts; it calls nothing itself."""
        self.bodies.append(StepStarted(step=unit.name, key=key, item=unit.item))

    def done(self, unit: Unit, content: Content, usage: Usage) -> None:
        """A step has a result."""
        told = {"step": unit.name, "result": content.digest, "size": len(content.text)}
        self.bodies.append(StepDone.model_validate(told | spending(usage)))
        self.values.append(content)

    def ask(self, unit: Unit, text: str, now: datetime) -> None:
        """A step asks the person; with a time limit the question ends unanswered after it."""
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
        """A call asks the person; what it leaves behind is kept for when it is made again."""
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


def spending(usage: Usage) -> dict[str, Json]:
    """What a call took, as events keep it; an unknown price stays out."""
    cost = "" if usage.cost is None else str(usage.cost)
    return {"tokens": usage.input_tokens + usage.output_tokens, "cost": cost}


FOLLOW_AFTER_S: Final = 0.2
_NOTHING: Final = ("", None)


class Wakeups:
    """Outcomes in the order they came. `news` returns when another process has written."""

    def __init__(self, news: Callable[[], Awaitable[None]]) -> None:
        self._news = news
        self._queue: asyncio.Queue[tuple[str, Outcome | None]] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._follower: asyncio.Task[None] | None = None
        self.waits: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """From now on it belongs to the loop that runs here."""
        self._loop = asyncio.get_running_loop()

    def put(self, name: str, outcome: Outcome) -> None:
        """A call has ended."""
        self._queue.put_nowait((name, outcome))

    def knock(self) -> None:
        """Have the conductor look again."""
        self._queue.put_nowait(_NOTHING)

    def wake(self, seconds: float) -> None:
        """Knock later; calls in threads of their own come through here too."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(loop.call_later, seconds, self.knock)

    def later(self, waiting: Callable[[], Awaitable[None]], then: Callable[[], None]) -> None:
        """Do something when a wait is over, and knock."""

        async def wait() -> None:
            await waiting()
            then()
            self.knock()

        task = asyncio.create_task(wait())
        self.waits.add(task)
        task.add_done_callback(self.waits.discard)

    async def wait(self) -> bool:
        """Wait for a knock; true when it may have come from another process.

        Others are listened to only once something takes long: that costs a task and a query.
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
                self.knock()
                # What the loop wrote itself wakes this too: let it take that in first.
                await asyncio.sleep(FOLLOW_AFTER_S)
        except PlansmithError:
            return  # the store is in trouble: the next append says so

    def ends(self) -> Iterator[tuple[str, Outcome]]:
        """The calls that have ended since."""
        while not self._queue.empty():
            name, outcome = self._queue.get_nowait()
            if outcome is not None:
                yield name, outcome

    def close(self) -> list[asyncio.Task[None]]:
        """Stop waiting; the tasks that are left."""
        follower = [self._follower] if self._follower else []
        return [*self.waits, *follower]


EVERY_S: Final = 0.5
LONGEST: Final = 500


class ProgressBuffer:
    """Progress and advice of running calls, which may speak from threads of their own.

    Of many words of progress in a short time only the last is kept. `wake` has them taken, now
    or in some seconds.
    """

    def __init__(self, clock: Clock, wake: Callable[[float], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._progress: dict[str, str] = {}
        self._heard: dict[str, float] = {}
        self._advice: list[StepAdvised] = []
        self.advice: Advice | None = None

    def progress(self, step: str, text: str) -> None:
        """A step says how far it is."""
        is_next = step not in self._progress
        self._progress[step] = kept_text(text)[:LONGEST]
        now = self._clock.monotonic()
        due = max(now, self._heard.get(step, -EVERY_S) + EVERY_S)
        if is_next or now == due:
            self._heard[step] = due
            self._wake(due - now)

    def advise(self, step: str, advice: Advice, reason: str) -> None:
        """A step says that the plan should change, or that its goal is met."""
        said = kept_text(reason)[:LONGEST]
        self._advice.append(StepAdvised(step=step, advice=advice, reason=said))
        self._wake(0)

    def take(self, running: Container[str]) -> list[StepProgressed | StepAdvised]:
        """What was said since the last time, by steps that still run."""
        progress, self._progress = self._progress, {}
        advice, self._advice = self._advice, []
        for each in advice:
            self.advice = self.advice or each.advice
        said: list[StepProgressed | StepAdvised] = [*advice]
        said += [StepProgressed(step=name, text=text) for name, text in progress.items()]
        return [each for each in said if each.step in running]
