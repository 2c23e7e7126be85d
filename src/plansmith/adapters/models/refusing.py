"""A model that is not set up: it says what to set when it is asked, and not before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from plansmith.errors import ModelRefused
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import Delta, Message, TextDelta


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

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Json] | None = None,
        tools: Sequence[ToolSpec] = (),
    ) -> AsyncIterator[Delta]:
        """Refuse, and say what to set."""
        del messages, schema, tools
        if self._why:
            raise ModelRefused(self._why, hint=self._hint)
        yield TextDelta("")
