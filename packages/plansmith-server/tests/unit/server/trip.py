"""The journey of `tests/flow/looking_model.py` behind a server: its model and its tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.flow.looking_model import Desk, LookingModel, journey
from tests.unit.server.house import Tools

from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import Call
from plansmith.tools.functions import FunctionTools

FLIGHT = "AZ 123"


class TripTools(Tools):
    """`flights` and `trains` find something, `book` books it."""

    def __init__(self) -> None:
        super().__init__()
        desk = Desk()
        self.calls = desk.calls
        self._functions = FunctionTools(desk.tools())

    async def tools(self) -> Sequence[ToolSpec]:
        return await self._functions.tools()

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        return await self._functions.call(tool, arguments, call)


class TripModel(LookingModel):
    """Asks where to, finds a flight, books what was found, and takes the train if told to."""

    def __init__(self) -> None:
        super().__init__(journey, ask={"Plan a trip": "Where to?"})
