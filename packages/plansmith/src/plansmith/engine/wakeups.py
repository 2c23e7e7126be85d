"""What wakes the executor: calls that end or report progress, other processes, the time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container
from contextvars import Context, copy_context
from datetime import datetime
from typing import Final, get_args

from plansmith.engine.outcome import Outcome, kept_text
from plansmith.errors import PlansmithError
from plansmith.plan.events import StepAdvised, StepProgressed
from plansmith.ports import Advice, Clock

FOLLOW_AFTER_S: Final = 0.2
_PROGRESS_EVERY_S: Final = 0.5
_MAX_LENGTH: Final = 500


class Wakeups:
    """Wakes the executor: ended calls, timers, and events that other processes wrote.

    `news` returns when another process has written.
    """

    def __init__(self, news: Callable[[], Awaitable[None]], clock: Clock) -> None:
        self._news, self._clock = news, clock
        self._ended: list[tuple[str, Outcome]] = []
        self.is_awake = False
        self._waiter: asyncio.Future[None] | None = None
        # The task that waits for what other processes write.
        self.follower: asyncio.Task[None] | None = None
        self._follow_timer: asyncio.TimerHandle | None = None
        self._alarm: asyncio.Task[None] | None = None
        self._alarm_at: datetime | None = None

    def bind(self) -> None:
        """Binds it to the event loop that runs now."""
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._context: Context = copy_context()

    def call_ended(self, name: str, outcome: Outcome) -> None:
        """Reports that a call has ended."""
        self._ended.append((name, outcome))
        self.wake()

    def take_ended(self) -> list[tuple[str, Outcome]]:
        """Returns the calls that have ended since the last time, and forgets the last wake-up."""
        self.is_awake = False
        ended, self._ended = self._ended, []
        return ended

    def wake(self) -> None:
        """Wakes the executor."""
        self.is_awake = True
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():  # done if the execution was cancelled
            waiter.set_result(None)

    def wake_in(self, seconds: float) -> None:
        """Wakes the executor in some seconds; may be called from any thread."""
        loop = self._loop
        if not loop.is_closed():
            loop.call_soon_threadsafe(loop.call_later, seconds, self.wake)

    def set_alarm(self, at: datetime) -> None:
        """Wakes the executor at a time, instead of that of an earlier alarm."""

        async def wait() -> None:
            await self._clock.sleep(max(0.0, (at - self._clock.now()).total_seconds()))
            self._alarm_at = None
            self.wake()

        if at != self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm, self._alarm_at = asyncio.create_task(wait()), at

    def next_wakeup(self) -> asyncio.Future[None]:
        """Returns what is done at the next wake-up, if the executor is not awake.

        Other processes are followed only after a while, since that costs a task and a query.
        """
        self._waiter = self._loop.create_future()
        if self._follow_timer is None and self.follower is None:
            self._follow_later()
        return self._waiter

    def _follow_later(self) -> None:
        self._follow_timer = self._loop.call_later(
            FOLLOW_AFTER_S, self._follow_if_still_waiting, self._waiter
        )

    def _follow_if_still_waiting(self, waiter: asyncio.Future[None] | None) -> None:
        """Begins to follow other processes if the executor still waits for the same."""
        self._follow_timer = None
        if self._waiter is waiter:
            self._follow_others()
        elif self._waiter is not None:
            self._follow_later()

    def read_others_now(self) -> None:
        """Has the executor read at once what others have written."""
        self._follow_others()
        self.wake()

    def _follow_others(self) -> None:
        if self.follower is None:
            self.follower = self._loop.create_task(self._follow(), context=self._context)

    async def _follow(self) -> None:
        try:
            while True:
                await self._news()
                self.wake()
                # The executor's own writes wake this too: let it process them first.
                await asyncio.sleep(FOLLOW_AFTER_S)
        except PlansmithError:
            return  # the next append raises the store's error

    def close(self) -> list[asyncio.Task[None]]:
        """Cancels the tasks that still wait, and returns them."""
        if self._follow_timer is not None:
            self._follow_timer.cancel()
            self._follow_timer = None
        tasks = [each for each in (self._alarm, self.follower) if each is not None]
        for task in tasks:
            task.cancel()
        return tasks


class ProgressBuffer:
    """Buffers the progress and advice of running calls, from any thread.

    Of many progress texts in a short time only the last is kept. `wake_in` wakes the executor in
    some seconds, which then takes them.
    """

    def __init__(self, clock: Clock, wake_in: Callable[[float], None]) -> None:
        self._clock, self._wake_in = clock, wake_in
        self._progress: dict[str, str] = {}
        self._due: dict[str, float] = {}
        self._advised: list[StepAdvised] = []
        self.is_empty = True
        self.advice: Advice | None = None

    def progress(self, step: str, text: str) -> None:
        """Takes the progress text of a step."""
        is_next = step not in self._progress
        self._progress[step] = kept_text(text)[:_MAX_LENGTH]
        self.is_empty = False
        now = self._clock.monotonic()
        due = max(now, self._due.get(step, -_PROGRESS_EVERY_S) + _PROGRESS_EVERY_S)
        if is_next or now == due:
            self._due[step] = due
            self._wake_in(due - now)

    def advise(self, step: str, advice: Advice, reason: str) -> None:
        """Takes a step's advice: that the plan should change, or that the goal is met."""
        if advice not in get_args(Advice):
            raise ValueError(f"an advice is 'replan' or 'finish', not {advice!r}")
        text = kept_text(reason)[:_MAX_LENGTH]
        self._advised.append(StepAdvised(step=step, advice=advice, reason=text))
        self.is_empty = False
        self._wake_in(0)

    def take(self, running: Container[str]) -> list[StepProgressed | StepAdvised]:
        """Returns progress and advice since the last time, of steps that still run."""
        self.is_empty = True  # first: what comes from a thread meanwhile is taken next time
        progress, self._progress = self._progress, {}
        advised, self._advised = self._advised, []
        self.advice = self.advice or next((each.advice for each in advised), None)
        reports: list[StepProgressed | StepAdvised] = [*advised]
        reports += [StepProgressed(step=name, text=text) for name, text in progress.items()]
        return [each for each in reports if each.step in running]
