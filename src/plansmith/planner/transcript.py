"""Transcript: what models were asked and what they said, word for word, for whoever audits."""

from __future__ import annotations

from collections.abc import AsyncIterator

from plansmith.errors import ModelFailed
from plansmith.plan.data import Json
from plansmith.ports import ArgumentsDelta, ChatModel, Delta, ModelDone, Prompt, TextDelta


class Transcript:
    """The exchanges of one planning, in order."""

    def __init__(self) -> None:
        self.exchanges: list[dict[str, Json]] = []

    def of(self, model: ChatModel) -> ChatModel:
        """The model, listened to."""
        return _Overheard(model, self.exchanges)


class _Overheard:
    def __init__(self, model: ChatModel, exchanges: list[dict[str, Json]]) -> None:
        self._model = model
        self._exchanges = exchanges

    @property
    def name(self) -> str:
        return self._model.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        exchange: dict[str, Json] = {
            "model": self.name,
            "prompt": [{"role": each.role, "text": each.text} for each in prompt.messages],
            "text": "",
        }
        self._exchanges.append(exchange)
        said: list[str] = []
        try:
            async for delta in self._model.stream(prompt):
                match delta:
                    case TextDelta(text) | ArgumentsDelta(_, text):
                        said.append(text)
                    case ModelDone(usage, model):
                        exchange["tokens"] = usage.input_tokens + usage.output_tokens
                        # A model that is chosen when it is first asked has its name only now.
                        exchange["model"] = model or self.name
                yield delta
        except ModelFailed as failure:
            exchange["failure"] = failure.message
            raise
        finally:
            exchange["text"] = "".join(said)
