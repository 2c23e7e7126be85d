"""The ports: what Plansmith asks of the outside world, as Protocols nobody inherits (floor 2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.data import Content, Json
from plansmith.plan.events import Event
from plansmith.plan.plan import Plan
from plansmith.plan.schedules import Fire, Schedule
from plansmith.plan.steps import ReplyStyle


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class ContextBlock:
    """Something a planner should know: data, never instructions."""

    title: str
    text: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class TriageBrief:
    """Decide whether a request is answered, planned, asked about or refused."""

    request: str


@dataclass(frozen=True, slots=True)
class PlanBrief:
    """Make a plan for a request out of these tools and agents.

    `problems` are what was wrong with the plan that the model made before.
    """

    request: str
    locale: str = "en"
    tools: tuple[ToolSpec, ...] = ()
    agents: tuple[AgentSpec, ...] = ()
    known: tuple[ContextBlock, ...] = ()
    now: str = ""
    previous: Plan | None = None
    feedback: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplyBrief:
    """Word a reply from results; these stand under the references of the instruction."""

    instruction: str
    results: Mapping[str, Json]
    style: ReplyStyle = "worded"
    locale: str = "en"


Brief = TriageBrief | PlanBrief | ReplyBrief


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is asked.

    The messages say everything. `brief` says the same as data, for what stands in for a large
    language model: a small model, rules, a demonstration.
    """

    messages: Sequence[Message]
    schema: Mapping[str, Json] | None = None
    tools: Sequence[ToolSpec] = ()
    max_tokens: int | None = None
    brief: Brief | None = None

    @property
    def text(self) -> str:
        """All messages as one text."""
        return "\n".join(message.text for message in self.messages)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a model call took; `cost` in US dollars, None when the price is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: Decimal | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of text, as it is written."""

    text: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """A piece of the arguments of a tool call, as they are written."""

    tool: str
    text: str


@dataclass(frozen=True, slots=True)
class ModelDone:
    """The end of an answer: always the last piece, exactly once."""

    usage: Usage
    model: str = ""


Delta = TextDelta | ArgumentsDelta | ModelDone


class ChatModel(Protocol):
    """A language model. Failures are `ModelFailed`, worth a retry if `ModelBusy`."""

    @property
    def name(self) -> str:
        """The model's name, for people and for prices."""
        ...

    def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """The answer piece by piece; in the form of the schema where the model can."""
        ...


Advice = Literal["replan", "finish"]


@dataclass(frozen=True, slots=True)
class Reply:
    """The person's answer to what a call asked with `InputNeeded`, and the state it left."""

    answer: Json
    state: Json = None


@dataclass(frozen=True, slots=True)
class Call:
    """The circumstances of one call of a tool or an agent, and what it may say meanwhile.

    `advise` is for a callee that found out more than its result: the plan should change, or its
    goal is met already. The reason is shown to the person and never given to a planner.
    """

    key: str
    attempt: int = 1
    progress: Callable[[str], None] = lambda _: None
    spend: Callable[[Usage], None] = lambda _: None
    advise: Callable[[Advice, str], None] = lambda _, __: None
    reply: Reply | None = None


class ToolSource(Protocol):
    """Somewhere tools come from. A call fails with `ToolFailed`, or `ToolBusy` if passing."""

    async def tools(self) -> Sequence[ToolSpec]:
        """The tools there are now."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """The tool's result."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A source or an agent that holds something open: a process, a connection."""

    async def close(self) -> None:
        """Let go of it; harmless when done twice."""
        ...


class Agent(Protocol):
    """Someone who takes a task in words. Fails like a tool."""

    @property
    def spec(self) -> AgentSpec:
        """The agent's card."""
        ...

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        """The task's result."""
        ...


class ContextSource(Protocol):
    """Somewhere background comes from: documents, a database's schema, a search."""

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        """What is worth knowing for a query, within a limit."""
        ...


class Ranker(Protocol):
    """Something that tells how well texts fit a query."""

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """One number a text, larger is better."""
        ...


class News(NamedTuple):
    """An event of a run, and its place among the events of all runs."""

    position: int
    run: str
    number: int


class JournalStore(Protocol):
    """As much of a store as one run needs."""

    async def append(self, events: Sequence[Event], values: Sequence[Json | Content] = ()) -> None:
        """Keep events that follow the last one of their run, and values, all or none.

        Events that do not follow are refused with `StaleWriter`.
        """
        ...

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        """The events of a run behind a number; none for an unknown run."""
        ...

    async def wait(self, run: str, *, after: int = 0) -> None:
        """Return when the run has an event behind the number, whoever wrote it."""
        ...

    async def get(self, digest: str) -> Json:
        """The value of a content hash; `JournalDamaged` when it is not there."""
        ...


class PlanStore(JournalStore, Protocol):
    """Where journals and results are kept."""

    async def runs(self) -> Sequence[str]:
        """The ids of all runs, oldest first."""
        ...

    async def open_runs(self) -> Sequence[str]:
        """The ids of the runs that are not over, oldest first."""
        ...

    async def news(self, after: int = 0, *, limit: int = 1000) -> Sequence[News]:
        """The events of all runs behind a position, in the order they became durable."""
        ...

    async def wait_news(self, after: int) -> int:
        """Return the newest position when it is behind the given one, whoever wrote."""
        ...

    async def put(self, value: Json) -> str:
        """Keep a value once, and return its content hash."""
        ...

    async def close(self) -> None:
        """Let go of what the store holds open; harmless when done twice."""
        ...


class Sound(NamedTuple):
    """What can be trusted of a journal: its events up to the first damage, and what that is.

    `last` is the number of the last event that was ever written, whether it can be read or not.
    """

    events: Sequence[Event]
    last: int
    damage: str = ""


@runtime_checkable
class RepairStore(Protocol):
    """A store that can read the good part of a damaged journal, and go on from there."""

    async def sound(self, run: str) -> Sound:
        """The events of a run up to the first that is missing or altered."""
        ...

    async def set_aside(self, run: str, after: int, events: Sequence[Event]) -> int:
        """Keep what comes behind a number apart, and go on with these events; all or none.

        Returns how many rows were put apart; `StaleWriter` when the event before has changed.
        """
        ...

    async def aside(self, run: str) -> Sequence[tuple[int, bytes]]:
        """What was set aside of a run: numbers and rows, oldest first."""
        ...


@runtime_checkable
class OwnerStore(Protocol):
    """A store that knows which process runs a run; no part of the journal."""

    async def claim(self, run: str, owner: str, *, instead_of: str = "") -> str:
        """Own a run that nobody owns, or that exactly this other one does; who owns it now."""
        ...

    async def release(self, run: str, owner: str) -> None:
        """Own a run no more; harmless when another one does."""
        ...

    async def owner(self, run: str) -> str:
        """Who owns a run, or nobody."""
        ...

    async def owners(self) -> Sequence[tuple[str, str]]:
        """Every run that is owned, and who owns it."""
        ...


class ScheduleStore(Protocol):
    """A store that also keeps schedules; of two who write the same version, one wins."""

    async def put_schedule(self, schedule: Schedule) -> bool:
        """Keep the next version of a schedule; false when another one came first."""
        ...

    async def schedules(self) -> Sequence[Schedule]:
        """All schedules, removed ones too, oldest first."""
        ...

    async def put_fire(self, fire: Fire) -> bool:
        """Keep a fire, or its next version; false when another one came first."""
        ...

    async def fires(self, schedule: str, *, limit: int) -> Sequence[Fire]:
        """The newest fires of a schedule, newest first."""
        ...

    async def open_fires(self) -> Sequence[Fire]:
        """The fires of all schedules of which something may still come, oldest first."""
        ...


class Secrets(Protocol):
    """What is known of secrets; only a call that is about to be made sees a value."""

    def flaw(self, name: str, tool: str) -> str:
        """Why a tool cannot be given a secret, or nothing."""
        ...

    def reveal(self, name: str, tool: str) -> str:
        """The value; `Misconfigured` when there is none for this tool."""
        ...

    def hide(self, value: Json) -> Json:
        """A value without any secret that was revealed."""
        ...


class Clock(Protocol):
    """The time, and waiting for it to pass."""

    def now(self) -> datetime:
        """The time in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; never steps back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
