"""Adapts SAGE's generators to models: anything with `execute([query, messages])`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol, cast

from plansmith.errors import ModelFailed, PlansmithError
from plansmith.planner.old_models import takes_prompt
from plansmith.ports import ChatModel, Delta, Message, ModelDone, Prompt, TextDelta, Usage


class Generator(Protocol):
    """A generator of SAGE: gets a query and messages, returns the query and a text."""

    def execute(self, data: Any) -> Any:
        """Returns a pair of query and text, or the text alone."""
        ...


class GeneratorModel:
    """Adapts a generator to our model port; runs it in a thread, since it blocks.

    As in SAGE's own planner, the first message is the whole prompt, the second the query.
    """

    def __init__(self, generator: Generator, query: str) -> None:
        self._generator = generator
        self._query = query

    @property
    def name(self) -> str:
        """The class name of the generator."""
        return type(self._generator).__name__

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Yields the answer in one piece; turns any exception into `ModelFailed`."""
        given = [self._query, self._messages(prompt.messages)]
        try:
            answer = await asyncio.to_thread(self._generator.execute, given)
        except PlansmithError:
            raise
        except Exception as error:  # noqa: BLE001 - a generator may raise anything
            raise ModelFailed(f"the generator failed: {type(error).__name__}: {error}") from None
        yield TextDelta(_text(answer))
        yield ModelDone(Usage(), self.name)

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, str]]:
        system = [each.text for each in messages[:2] if each.role != "assistant"]
        rest = messages[2:]
        prompt = {"role": "system", "content": "\n\n".join(system)}
        query = {"role": "user", "content": self._query}
        return [prompt, query, *({"role": each.role, "content": each.text} for each in rest)]


def _text(answer: object) -> str:
    if isinstance(answer, (tuple, list)):
        parts = cast("Sequence[object]", answer)
        answer = parts[-1] if parts else ""
    return answer if isinstance(answer, str) else str(answer)


def model_of(generator: Generator | ChatModel, query: str) -> ChatModel:
    """Returns a model for a generator or a model."""
    if hasattr(generator, "stream"):
        return takes_prompt(cast("ChatModel", generator))
    given: Any = generator
    if not callable(getattr(given, "execute", None)):
        raise TypeError(
            "give a generator with execute([query, messages]), or a model with stream(…)"
        )
    return GeneratorModel(given, query)
