"""Counts tokens as OpenManus does: read and written, with a limit before each call."""

from __future__ import annotations

from collections.abc import AsyncIterator

from plansmith.errors import ModelFailed, ModelRefused
from plansmith.ports import ArgumentsDelta, ChatModel, Delta, ModelDone, Prompt, TextDelta
from plansmith_compat.openmanus.tools import OpenManusError
from plansmith_planner.model_planner import RULES
from plansmith_planner.models.tokens import count_prompt_tokens, count_tokens
from plansmith_planner.models.wrappers import closing


class TokenLimitExceeded(OpenManusError, ModelFailed):
    """The call would exceed the token limit of all calls together."""


class CountingModel:
    """Counts the tokens of a model's calls; refuses calls beyond the limit."""

    def __init__(self, model: ChatModel, *, max_input_tokens: int | None = None) -> None:
        self._model = model
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
        if not self.check_token_limit(needed):
            raise self._exceeded(needed)
        said: list[str] = []
        pieces = self._model.stream(prompt)
        async with closing(pieces):
            async for delta in pieces:
                if self._model.name == RULES:
                    # They match words with tools, and the steps here are for agents.
                    hint = "give llm=… or model=…"
                    raise ModelRefused("there is no language model", hint=hint)
                if isinstance(delta, (TextDelta, ArgumentsDelta)):
                    said.append(delta.text)
                if isinstance(delta, ModelDone):
                    # If the provider reports no usage, our own count is used.
                    read = delta.usage.input_tokens or needed
                    written = delta.usage.output_tokens or count_tokens("".join(said))
                    self.update_token_count(read, written)
                yield delta

    def update_token_count(self, input_tokens: int, completion_tokens: int = 0) -> None:
        """Adds the tokens of a call."""
        self.total_input_tokens += input_tokens
        self.total_completion_tokens += completion_tokens

    def check_token_limit(self, input_tokens: int) -> bool:
        """Tells whether a call with so many tokens is within the limit."""
        most = self.max_input_tokens
        return most is None or self.total_input_tokens + input_tokens <= most

    def get_limit_error_message(self, input_tokens: int) -> str:
        """Says that a call with so many tokens is beyond the limit."""
        if self.check_token_limit(input_tokens):
            return "Token limit exceeded"
        numbers = f"Current: {self.total_input_tokens}, Needed: {input_tokens}"
        return f"Request may exceed input token limit ({numbers}, Max: {self.max_input_tokens})"

    def _exceeded(self, needed: int) -> TokenLimitExceeded:
        used = f"{self.total_input_tokens} of {self.max_input_tokens} are used up"
        hint = f"{used}: raise max_input_tokens, or give the model less"
        return TokenLimitExceeded(self.get_limit_error_message(needed), hint=hint)
