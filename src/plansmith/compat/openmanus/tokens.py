"""Counts tokens as OpenManus does: read and written, with a limit before each call."""

from __future__ import annotations

from collections.abc import AsyncIterator

from plansmith.adapters.models.tokens import count_prompt_tokens, count_tokens
from plansmith.adapters.models.wrappers import closing
from plansmith.errors import ModelFailed
from plansmith.planner.old_models import takes_prompt
from plansmith.ports import ArgumentsDelta, ChatModel, Delta, ModelDone, Prompt, TextDelta


class TokenLimitExceeded(ModelFailed):
    """The call would exceed the token limit of all calls together."""


class CountingModel:
    """Counts the tokens of a model's calls; refuses calls beyond the limit."""

    def __init__(self, model: ChatModel, *, max_input_tokens: int | None = None) -> None:
        self._model = takes_prompt(model)
        self.max_input_tokens = max_input_tokens
        self.total_input_tokens = 0
        self.total_completion_tokens = 0

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self._model.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Streams the wrapped model's answer; raises `TokenLimitExceeded` beyond the limit."""
        needed = count_prompt_tokens(prompt.messages, schema=prompt.schema, tools=prompt.tools)
        self._check(needed)
        said: list[str] = []
        pieces = self._model.stream(prompt)
        async with closing(pieces):
            async for delta in pieces:
                if isinstance(delta, (TextDelta, ArgumentsDelta)):
                    said.append(delta.text)
                if isinstance(delta, ModelDone):
                    # If the provider reports no usage, our own count is used.
                    self.total_input_tokens += delta.usage.input_tokens or needed
                    written = delta.usage.output_tokens or count_tokens("".join(said))
                    self.total_completion_tokens += written
                yield delta

    def _check(self, needed: int) -> None:
        most, so_far = self.max_input_tokens, self.total_input_tokens
        if most is not None and so_far + needed > most:
            raise TokenLimitExceeded(
                f"the call needs {needed} tokens, {so_far} of {most} are used up",
                hint="raise max_input_tokens, or give the model less",
            )
