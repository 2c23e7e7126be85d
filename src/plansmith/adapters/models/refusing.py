"""A model that is not set up: it says what to set when it is asked, and not before."""

from __future__ import annotations

from collections.abc import AsyncIterator

from plansmith.errors import ModelRefused
from plansmith.ports import Delta, Prompt, TextDelta


class RefusingModel:
    """Stands where a model would, so that a missing key breaks no start."""

    def __init__(self, name: str, *, why: str, hint: str) -> None:
        self._name = name
        self._why = why
        self._hint = hint

    @property
    def name(self) -> str:
        """The name of the model that is missing."""
        return self._name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Refuse, and say what to set."""
        del prompt
        if self._why:
            raise ModelRefused(self._why, hint=self._hint)
        yield TextDelta("")
