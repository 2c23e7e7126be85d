"""Tools that are only described, in a file: they can be planned with and not called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plansmith.errors import ToolFailed
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import Call


class DescribedTools:
    """Specs without anything behind them, so that plans can be made where they cannot run."""

    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        self._specs = list(specs)

    async def tools(self) -> Sequence[ToolSpec]:
        """The specs."""
        return self._specs

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Always a failure: nothing is there to be called."""
        del arguments, call
        raise ToolFailed(f"{tool} is only described, and cannot be called here")
