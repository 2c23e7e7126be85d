"""A model that is not asked what it cannot take in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from plansmith.adapters.models.streams import closing
from plansmith.adapters.models.tokens import count_prompt_tokens
from plansmith.errors import PromptTooLong
from plansmith.planner.old_models import takes_prompt
from plansmith.ports import ChatModel, Delta, Prompt


class LimitedModel:
    """Refuses prompts that leave less than `reserve_tokens` of the context for the answer."""

    def __init__(
        self,
        model: ChatModel,
        *,
        context_tokens: int,
        reserve_tokens: int = 4096,
        count: Callable[..., int] = count_prompt_tokens,
    ) -> None:
        self._model = takes_prompt(model)
        self._context_tokens = context_tokens
        self._reserve_tokens = reserve_tokens
        self._count = count

    @property
    def name(self) -> str:
        """The name of the model behind."""
        return self._model.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """What the model behind says, if the prompt fits; else `PromptTooLong`, unasked."""
        needed = self._count(prompt.messages, schema=prompt.schema, tools=prompt.tools)
        room = self._context_tokens - self._reserve_tokens
        if needed > room:
            raise PromptTooLong(
                f"the prompt has about {needed} tokens, and {self.name} has room for {room} "
                f"({self._context_tokens} less {self._reserve_tokens} for the answer)",
                hint="give it fewer tools, documents or messages, choose a model with a larger "
                "context, or correct context_tokens",
            )
        pieces = self._model.stream(prompt)
        async with closing(pieces):
            async for delta in pieces:
                yield delta
