"""The model that is found when one is first needed: nothing is looked for before that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from plansmith.adapters.models.choosing import Choice
from plansmith.adapters.models.streams import closing
from plansmith.ports import ChatModel, Delta, Prompt


class AutoModel:
    """Chooses once, says once what was chosen and why, and is that model from then on."""

    def __init__(
        self,
        choose: Callable[[], Awaitable[Choice]],
        make: Callable[[Choice], ChatModel],
        *,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._choose = choose
        self._make = make
        self._tell = tell
        self._model: ChatModel | None = None
        self._choosing = asyncio.Lock()

    @property
    def name(self) -> str:
        """The chosen model's name; `auto` until there is one."""
        return self._model.name if self._model is not None else "auto"

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """The answer of the chosen model."""
        model = await self._found()
        pieces = model.stream(prompt)
        async with closing(pieces):
            async for delta in pieces:
                yield delta

    async def _found(self) -> ChatModel:
        async with self._choosing:
            if self._model is None:
                choice = await self._choose()
                self._model = self._make(choice)
                self._tell(choice.shown)
            return self._model
