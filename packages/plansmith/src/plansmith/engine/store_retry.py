"""Repeats store operations while the store does not answer, so that nothing is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from plansmith.errors import StoreAway
from plansmith.plan.sentence import Sentence
from plansmith.ports import Clock

_T = TypeVar("_T")
FIRST_S: Final = 0.1
LONGEST_S: Final = 5.0


class StoreRetry:
    """Repeats an operation, with growing waits, until the store answers."""

    def __init__(self, clock: Clock, tell: Callable[[str], None]) -> None:
        self._clock, self._tell = clock, tell
        self.trouble = ""

    async def until_done(
        self, action: Callable[[], Awaitable[_T]], away: StoreAway | None = None
    ) -> _T:
        """Returns the action's result once the store answers; until then `trouble` says why.

        `away` is the error of a first try that was made without this.
        """
        wait = FIRST_S
        while True:
            if away is not None:
                if not self.trouble:
                    self._tell(Sentence("waiting for the store: {why}", why=away))
                self.trouble = str(away)
                await self._clock.sleep(wait)
                wait = min(wait * 2, LONGEST_S)
            try:
                result = await action()
            except StoreAway as error:
                away = error
            else:
                self.answered()
                return result

    def answered(self) -> None:
        """Notes that the store answered again, if it was away."""
        if self.trouble:
            self._tell(Sentence("the store is back"))
            self.trouble = ""
