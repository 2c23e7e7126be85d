"""Words: what calls say while they run, taken down for the next append."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final

from plansmith.plan.events import StepAdvised, StepProgressed
from plansmith.ports import Advice, Clock
from plansmith.runner.call import kept_text

EVERY_S: Final = 0.5
LONGEST: Final = 500


class Words:
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
