"""A model that is asked again when it was busy."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable

from plansmith.adapters.models.streams import closing
from plansmith.errors import ModelBusy
from plansmith.planner.old_models import takes_prompt
from plansmith.ports import ChatModel, Clock, Delta, Prompt, TextDelta


class RetryingModel:
    """Tries again on `ModelBusy`, with growing waits, while nothing has been said yet.

    A wait is a random part of `first_wait_s`, doubled with each try up to `longest_wait_s`, or
    the provider's own wish when that is longer. Once there was a piece of the answer, another
    try would say it twice: the failure goes to the caller.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        clock: Clock,
        tries: int = 3,
        first_wait_s: float = 1.0,
        longest_wait_s: float = 60.0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._model = takes_prompt(model)
        self._clock = clock
        self._tries = tries
        self._first_wait_s = first_wait_s
        self._longest_wait_s = longest_wait_s
        self._chance = chance

    @property
    def name(self) -> str:
        """The name of the model behind."""
        return self._model.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """What the model behind says, at the first try that says anything."""
        for number in range(1, self._tries + 1):
            said = False
            pieces = self._model.stream(prompt)
            try:
                async with closing(pieces):
                    async for delta in pieces:
                        said = said or delta != TextDelta("")
                        yield delta
            except ModelBusy as busy:
                if said or number == self._tries:
                    raise
                wait = self._wait(number, busy.retry_after)
            else:
                return
            await self._clock.sleep(wait)

    def _wait(self, number: int, wish: float | None) -> float:
        longest = min(self._longest_wait_s, self._first_wait_s * 2.0 ** (number - 1))
        return max(self._chance() * longest, min(wish or 0.0, self._longest_wait_s))
