"""Tokens counted as OpenManus counts them: read and written, with a limit before each call."""

from __future__ import annotations

from collections.abc import AsyncIterator

from plansmith.adapters.models.tokens import count_prompt_tokens, count_tokens
from plansmith.adapters.models.wrappers import closing
from plansmith.errors import ModelFailed
from plansmith.planner.old_models import takes_prompt
from plansmith.ports import ArgumentsDelta, ChatModel, Delta, ModelDone, Prompt, TextDelta


class TokenLimitExceeded(ModelFailed):
    """The call would read more than all calls together may."""


class CountingModel:
    """Counts what the model behind reads and writes; past the limit it is not asked any more."""

    def __init__(self, model: ChatModel, *, max_input_tokens: int | None = None) -> None:
        self._model = takes_prompt(model)
        self.max_input_tokens = max_input_tokens
        self.total_input_tokens = 0
        self.total_completion_tokens = 0

    @property
    def name(self) -> str:
        """The name of the model behind."""
        return self._model.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """What the model behind says; `TokenLimitExceeded`, unasked, past the limit."""
        needed = count_prompt_tokens(prompt.messages, schema=prompt.schema, tools=prompt.tools)
        self._check(needed)
        said: list[str] = []
        pieces = self._model.stream(prompt)
        async with closing(pieces):
            async for delta in pieces:
                if isinstance(delta, (TextDelta, ArgumentsDelta)):
                    said.append(delta.text)
                if isinstance(delta, ModelDone):
                    # A provider that does not say what a call took is believed by our count.
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
