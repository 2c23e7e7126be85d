"""What a test uses instead of the real thing: a clock, tools and a model that follow a script."""

from __future__ import annotations

import asyncio
import heapq
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from plansmith import ports
from plansmith.errors import ModelFailed, PlansmithError, ScriptMismatch, ToolFailed
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import Message


class FakeClock:
    """A clock that moves only with `advance`, which wakes sleepers in order of time.

    Examples:
        >>> from plansmith.testing import FakeClock
        >>> clock = FakeClock()
        >>> await clock.advance(3600)
        >>> clock.now().isoformat()
        '2026-01-01T01:00:00+00:00'
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []

    def now(self) -> datetime:
        """Returns the time in UTC."""
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Returns the seconds since the start."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Waits until the clock was advanced far enough."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.Event()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), woken))
        await woken.wait()

    @property
    def sleepers(self) -> int:
        """The number of tasks that wait for the clock."""
        return len(self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Moves the time forward; each woken task runs at its own time."""
        await settle()
        end = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            self._elapsed, _, woken = heapq.heappop(self._sleepers)
            woken.set()
            await settle()
        self._elapsed = end


async def settle(turns: int = 20) -> None:
    """Lets every task run that can."""
    for _ in range(turns):
        await asyncio.sleep(0)


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

    def __init__(self, *tools: FakeTool, clock: ports.Clock | None = None) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._clock = clock or FakeClock()
        self._turns: dict[str, int] = {}
        self.calls: list[Called] = []

    async def tools(self) -> Sequence[ToolSpec]:
        """Returns the tools."""
        return [tool.spec for tool in self._tools.values()]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: ports.Call) -> Json:
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


Expectation = str | Callable[[Sequence[Message]], bool]


@dataclass(frozen=True, slots=True)
class Answer:
    """One scripted answer of a `ScriptedModel`.

    Attributes:
        says: Text, a JSON value, or a failure to raise.
        expects: A text that the prompt must contain, or a function that must return True for it.
        tool: Makes the answer a call of this tool.
        chunk: How many characters a piece has.
        usage: The tokens that it is said to take.

    Examples:
        >>> from plansmith.testing import Answer
        >>> answer = Answer({"decision": "plan"}, expects="order bolts")
    """

    says: object
    expects: Expectation | None = None
    tool: str = ""
    chunk: int = 20
    usage: ports.Usage = field(default_factory=ports.Usage)

    @property
    def text(self) -> str:
        """The text that is streamed."""
        return self.says if isinstance(self.says, str) else json.dumps(self.says)

    def fits(self, messages: Sequence[Message]) -> bool:
        """Tells whether the prompt is the expected one."""
        if self.expects is None:
            return True
        if isinstance(self.expects, str):
            return any(self.expects in message.text for message in messages)
        return self.expects(messages)


class ScriptedModel:
    """Gives its answers in order. An unexpected call, or an answer left over, is an error.

    Examples:
        >>> from plansmith import Plansmith
        >>> from plansmith.testing import ScriptedModel
        >>> plan = {"goal": "Greet", "steps": [{"id": "hello", "question": "Who are you?"}]}
        >>> model = ScriptedModel({"decision": "plan"}, plan)
        >>> run = await Plansmith(model).plan("Greet me")
        >>> run.plan.goal
        'Greet'
        >>> model.finish()  # every answer was asked for
    """

    def __init__(self, *answers: object, name: str = "scripted") -> None:
        self._name = name
        self._answers = [each if isinstance(each, Answer) else Answer(each) for each in answers]
        self.prompts: list[list[Message]] = []

    @property
    def name(self) -> str:
        """The given name."""
        return self._name

    async def stream(self, prompt: ports.Prompt) -> AsyncIterator[ports.Delta]:
        """Yields the next answer in pieces."""
        self.prompts.append(list(prompt.messages))
        answer = self._next(prompt.messages)
        if isinstance(answer.says, ModelFailed):
            raise answer.says
        text = answer.text
        for start in range(0, len(text), answer.chunk):
            piece = text[start : start + answer.chunk]
            yield (
                ports.ArgumentsDelta(answer.tool, piece) if answer.tool else ports.TextDelta(piece)
            )
        yield ports.ModelDone(answer.usage, self._name)

    def _next(self, messages: Sequence[Message]) -> Answer:
        last = messages[-1].text[:200] if messages else ""
        if not self._answers:
            count = len(self.prompts)
            raise ScriptMismatch(f"call {count} of the scripted model has no answer: {last!r}")
        if not self._answers[0].fits(messages):
            wanted = self._answers[0].expects
            raise ScriptMismatch(f"the scripted model expected {wanted!r}, the prompt is {last!r}")
        return self._answers.pop(0)

    def finish(self) -> None:
        """Raises an error if answers were not used."""
        if self._answers:
            left = len(self._answers)
            raise ScriptMismatch(
                f"{left} scripted answers were never asked for, first: {self._answers[0].text!r}"
            )
