"""Tools with scripted results, failures and delays, for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plansmith.errors import PlansmithError, ToolFailed
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import Call, Clock
from plansmith.testing.clock import FakeClock

Outcome = Json | PlansmithError | Callable[[Mapping[str, Json]], Json]


@dataclass
class FakeTool:
    """A tool that returns its outcomes in turn, then repeats the last one.

    Attributes:
        name: The name in plans.
        outcomes: Results, errors to raise, or functions of the arguments.
        effect: What a call is said to do.
        delay: Seconds that a call takes on the clock of its `FakeTools`.
        search: Whether it counts as a search.
        input_schema: The JSON Schema of its arguments.
        output_schema: The JSON Schema of its results.

    Examples:
        >>> from plansmith.errors import ToolFailed
        >>> from plansmith.testing import FakeTool
        >>> tool = FakeTool("stock", [3, ToolFailed("the shop is closed")])
    """

    name: str
    outcomes: Sequence[Outcome] = (None,)
    effect: Effect = Effect.READ
    delay: float = 0.0
    search: bool = False
    input_schema: dict[str, Any] = field(default_factory=dict[str, Any])
    output_schema: dict[str, Any] | None = None

    @property
    def spec(self) -> ToolSpec:
        """The tool as a planner sees it."""
        return ToolSpec(
            name=self.name,
            description=f"the fake tool {self.name}",
            input_schema=self.input_schema or {"type": "object"},
            output_schema=self.output_schema,
            effect=self.effect,
            search=self.search,
        )


@dataclass(frozen=True)
class Called:
    """A call that a fake tool received."""

    tool: str
    arguments: Mapping[str, Json]
    key: str


class FakeTools:
    """A tool source that records its calls; delays use the given clock.

    Examples:
        >>> from plansmith import Plansmith, read_plan
        >>> from plansmith.testing import FakeTool, FakeTools
        >>> tools = FakeTools(FakeTool("stock", [3]))
        >>> plan = read_plan({"steps": [{"id": "have", "tool": "stock"}]})
        >>> run = await Plansmith(tools=[tools]).do(plan)
        >>> run.result("have"), [each.tool for each in tools.calls]
        (3, ['stock'])
    """

    def __init__(self, *tools: FakeTool, clock: Clock | None = None) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._clock = clock or FakeClock()
        self._turns: dict[str, int] = {}
        self.calls: list[Called] = []

    async def tools(self) -> Sequence[ToolSpec]:
        """Returns the tools."""
        return [tool.spec for tool in self._tools.values()]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Returns or raises the tool's next outcome."""
        fake = self._tools.get(tool)
        if fake is None:
            raise ToolFailed(f"there is no tool called {tool!r}")
        turn = self._turns.get(tool, 0)
        self._turns[tool] = turn + 1
        self.calls.append(Called(tool, dict(arguments), call.key))
        if fake.delay:
            await self._clock.sleep(fake.delay)
        outcome = fake.outcomes[min(turn, len(fake.outcomes) - 1)]
        if isinstance(outcome, PlansmithError):
            raise outcome
        return outcome(arguments) if callable(outcome) else outcome
