"""Wraps a small model on a server and checks the numbers it writes against the results."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

from plansmith.adapters.models.local.answer_check import check_wording, source_text
from plansmith.adapters.models.wrappers import closing
from plansmith.ports import ChatModel, Delta, ModelDone, Prompt, TextDelta

_BILLIONS: Final = re.compile(r"(?<![\d.a-z])(\d+(?:\.\d+)?)b(?![a-z])", re.IGNORECASE)
_MILLIONS: Final = re.compile(r"(?<![\d.a-z])\d+m(?![a-z])", re.IGNORECASE)
_SMALL: Final = 5.0  # billions of weights, below which numbers are made up too often


def is_small(name: str) -> bool:
    """Whether a model's name says that it is small, such as `qwen3:1.7b`."""
    sizes = [float(each) for each in _BILLIONS.findall(name)]
    return bool(_MILLIONS.search(name)) if not sizes else max(sizes) < _SMALL


class FactCheckedModel:
    """Reads a text to its end and refuses it if it has facts that are not in the prompt.

    The caller then shows the plain results. Answers to a schema are not checked here.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self._model.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Yields empty pieces while it reads, then the whole text if it is correct."""
        held = prompt.schema is None and not prompt.tools
        text = ""
        pieces = self._model.stream(prompt)
        async with closing(pieces):
            async for delta in pieces:
                if held and isinstance(delta, TextDelta):
                    text += delta.text
                    yield TextDelta("")
                    continue
                if held and isinstance(delta, ModelDone):
                    check_wording(text, source_text(prompt))
                    yield TextDelta(text)
                yield delta
