"""A model with a limit to its time: for a whole answer, and for the silence between pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import Final

from plansmith.adapters.models.streams import closing
from plansmith.errors import ModelBusy
from plansmith.planner.old_models import takes_prompt
from plansmith.ports import ChatModel, Clock, Delta, Prompt

_FOREVER: Final = 86_400.0


class TimedModel:
    """Passes calls on, and gives up with `ModelBusy` when an answer takes too long.

    Around a retrying model, `total_s` limits all its tries together; inside one, each try.
    The time a caller takes over a piece is no silence of the model.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        clock: Clock,
        silence_s: float | None = None,
        total_s: float | None = None,
    ) -> None:
        self._model = takes_prompt(model)
        self._clock = clock
        self._silence_s = silence_s
        self._total_s = total_s

    @property
    def name(self) -> str:
        """The name of the model behind."""
        return self._model.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """What the model behind says, in time."""
        pieces = self._model.stream(prompt)
        watch = _Watch(self._clock, self._silence_s, self._total_s, self.name)
        alarm = asyncio.ensure_future(watch.run())
        try:
            async with closing(pieces):
                while True:
                    with watch.listening():
                        delta = await anext(pieces, None)
                    if delta is None:
                        return
                    yield delta
        finally:
            alarm.cancel()


class _Watch:
    """Wakes whoever listens when time is up, the way `asyncio.timeout` does, by our clock."""

    def __init__(
        self, clock: Clock, silence_s: float | None, total_s: float | None, name: str
    ) -> None:
        self._clock = clock
        self._silence_s = silence_s
        self._total_s = total_s
        self._name = name
        self._start = self._last = clock.monotonic()
        self._listener: asyncio.Task[object] | None = None
        self._reason = ""

    @contextmanager
    def listening(self) -> Generator[None]:
        """The time in here is the model's."""
        task = asyncio.current_task()
        self._last = self._clock.monotonic()
        if task is None or self._is_over():
            raise ModelBusy(self._reason)
        self._listener, asked = task, task.cancelling()
        try:
            yield
        except asyncio.CancelledError:
            # Somebody else may have cancelled too; then that is what happened.
            if not self._is_over() or task.uncancel() > asked:
                raise
            raise ModelBusy(self._reason) from None
        finally:
            self._listener = None

    def _is_over(self) -> bool:
        return bool(self._reason)

    async def run(self) -> None:
        """Wait until time is up."""
        while True:
            left, reason = self._left()
            if left <= 0:
                break
            await self._clock.sleep(left)
        self._reason = reason
        if self._listener is not None:
            self._listener.cancel()

    def _left(self) -> tuple[float, str]:
        now = self._clock.monotonic()
        limits = [(_FOREVER, "")]
        if self._total_s is not None:
            left = self._start + self._total_s - now
            limits.append((left, f"{self._name} took longer than {self._total_s:g} s"))
        if self._silence_s is not None:
            since = self._last if self._listener is not None else now
            left = since + self._silence_s - now
            limits.append((left, f"{self._name} said nothing for {self._silence_s:g} s"))
        return min(limits)
