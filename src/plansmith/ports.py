"""The ports: Protocols for everything outside Plansmith, which nobody inherits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from plansmith.plan.asking import answer_to, answers_in
from plansmith.plan.briefs import Brief, ContextBlock, PlanBrief, ReplyBrief, TriageBrief

if TYPE_CHECKING:
    from plansmith.plan.capability import AgentSpec, ToolSpec
    from plansmith.plan.data import Content, Json
    from plansmith.plan.events import Event
    from plansmith.plan.schedules import Fire, Schedule
    from plansmith.plan.summary import DayTotal, Headline, PlanningFacts, RunSummary

# Re-exported, since prompts have these.
__all__ = ["Brief", "ContextBlock", "PlanBrief", "ReplyBrief", "TriageBrief"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """The input of a model call; its messages are complete.

    `brief` has the same content as data, for small models, rules and the demonstration.
    """

    messages: Sequence[Message]
    schema: Mapping[str, Json] | None = None
    tools: Sequence[ToolSpec] = ()
    max_tokens: int | None = None
    brief: Brief | None = None

    @property
    def text(self) -> str:
        """Returns all messages as one text."""
        return "\n".join(message.text for message in self.messages)


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of a model call; `cost` in US dollars, None if the price is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: Decimal | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of text, or none while a slow model works; then `progress` may say how far it is."""

    text: str
    progress: str = ""


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """A piece of the arguments of a tool call."""

    tool: str
    text: str


@dataclass(frozen=True, slots=True)
class ModelDone:
    """The end of an answer: always the last piece, exactly once."""

    usage: Usage
    model: str = ""


Delta = TextDelta | ArgumentsDelta | ModelDone


class ChatModel(Protocol):
    """A language model; it fails with `ModelFailed`, or with `ModelBusy` if a retry may help."""

    @property
    def name(self) -> str:
        """The model's name, for people and for prices."""
        ...

    def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Streams the answer piece by piece; follows the schema if the model can."""
        ...


Advice = Literal["replan", "finish"]


@dataclass(frozen=True, slots=True)
class Reply:
    """The person's answer to a call's `InputNeeded`, and the state that the call left."""

    answer: Json
    state: Json = None


@dataclass(frozen=True, slots=True)
class Call:
    """What a tool or agent gets with a call, and its ways to report back.

    `advise` reports that the plan should change, or that its goal is met already. The reason is
    shown to the person and never given to a planner. `reply` is the answer to an `InputNeeded`;
    `ask` raises one and returns its answer. `seen` is the hash of the files that the person saw
    who consented to the call.

    Examples:
        >>> from plansmith import tool
        >>> from plansmith.ports import Call
        >>> @tool(effect="read")
        ... def trip(call: Call) -> str:
        ...     call.progress("looking for trips")
        ...     return f"a trip to {call.ask('Which city?')}"
    """

    key: str
    attempt: int = 1
    is_stopped: Callable[[], bool] = lambda: False  # else a cancelled call may be made again
    progress: Callable[[str], None] = lambda _: None
    spend: Callable[[Usage], None] = lambda _: None
    advise: Callable[[Advice, str], None] = lambda _, __: None
    reply: Reply | None = None
    seen: str = ""
    _asked: list[str] = field(default_factory=list[str], init=False, repr=False, compare=False)

    def ask(
        self, question: str, *, options: Sequence[str] = (), schema: dict[str, Any] | None = None
    ) -> Json:
        """Returns the person's answer; without one the call ends, and is made again with it."""
        # Whatever stands before a question is done again then: ask first, act afterwards.
        known = answers_in(self.reply.state, self.reply.answer) if self.reply else []
        return answer_to(question, known, before=self._asked, options=options, schema=schema)


class ToolSource(Protocol):
    """A source of tools; calls fail with `ToolFailed`, or `ToolBusy` if a retry may help."""

    async def tools(self) -> Sequence[ToolSpec]:
        """Returns the tools that are available now."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Calls a tool and returns its result."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A source or an agent that holds a process or a connection open."""

    async def close(self) -> None:
        """Closes it; may be called twice."""
        ...


class Agent(Protocol):
    """Carries out a task given in words; fails like a tool."""

    @property
    def spec(self) -> AgentSpec:
        """The agent's card."""
        ...

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        """Carries out the task and returns its result."""
        ...


class ContextSource(Protocol):
    """A source of background: documents, a database's schema, a search."""

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        """Returns what is useful for a query, within a token limit."""
        ...


class Ranker(Protocol):
    """Scores how well texts fit a query."""

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Returns one number per text; larger is better."""
        ...


class News(NamedTuple):
    """An event of a run, and its position among the events of all runs."""

    position: int
    run: str
    number: int


class JournalStore(Protocol):
    """The part of a store that one run needs."""

    async def append(
        self,
        events: Sequence[Event],
        values: Sequence[Json | Content] = (),
        *,
        status: str = "",
        summary: RunSummary | None = None,
    ) -> None:
        """Stores events that follow the last one of their run, and values, all or none.

        Raises `StaleWriter` for events that do not follow. `status` is the status of the run after
        them, or empty if the writer does not know it; `summary` sums it up.
        """
        ...

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        """Returns the events of a run after a number; none for an unknown run."""
        ...

    async def wait(self, run: str, *, after: int = 0) -> None:
        """Returns when the run has an event after the number, whoever wrote it."""
        ...

    async def get(self, digest: str) -> Json:
        """Returns the value with a content hash; raises `JournalDamaged` if it is missing."""
        ...


class PlanStore(JournalStore, Protocol):
    """Stores journals and results."""

    async def runs(self) -> Sequence[str]:
        """Returns the ids of all runs, oldest first."""
        ...

    async def open_runs(self) -> Sequence[str]:
        """Returns the ids of the runs that have not ended, oldest first."""
        ...

    async def news(self, after: int = 0, *, limit: int = 1000) -> Sequence[News]:
        """Returns the events of all runs after a position, in the order they became durable."""
        ...

    async def wait_news(self, after: int) -> int:
        """Waits for an event after the position, whoever writes it; returns the newest position."""
        ...

    async def put(self, value: Json) -> str:
        """Stores a value once, and returns its content hash."""
        ...

    async def close(self) -> None:
        """Closes the store; may be called twice."""
        ...


@runtime_checkable
class SummaryStore(Protocol):
    """A store that lists and counts runs without reading their journals."""

    async def headlines(
        self, *, statuses: Collection[str] = (), before: str = "", text: str = "", limit: int
    ) -> Sequence[Headline]:
        """Returns runs, newest first: with these statuses, older than `before`, with a text.

        The text is casefolded; a run of which the store does not know whether it has it is in.
        """
        ...

    async def unsummed(self, *, limit: int) -> Sequence[Headline]:
        """Returns the open runs with no summary of their last event, and some of the others."""
        ...

    async def status_counts(self) -> Mapping[str, int]:
        """Returns how many runs have each status."""
        ...

    async def day_totals(self) -> Sequence[DayTotal]:
        """Returns the sums of all summaries, by the day when the run was created."""
        ...

    async def planned(self) -> Sequence[PlanningFacts]:
        """Returns how the runs were planned that a planner made a plan for."""
        ...

    async def keep_summaries(self, summaries: Sequence[tuple[int, RunSummary]]) -> None:
        """Stores summaries and statuses of runs whose last event still has the given number."""
        ...

    async def beside(self, runs: Sequence[str]) -> Sequence[str]:
        """Returns the ids that come right before and after each of these when sorted."""
        ...


class Sound(NamedTuple):
    """The trustworthy part of a journal: its events up to the first damage, and the damage.

    `last` is the number of the last event that was written, even if it cannot be read.
    """

    events: Sequence[Event]
    last: int
    damage: str = ""


@runtime_checkable
class RepairStore(Protocol):
    """A store that can read and continue the good part of a damaged journal."""

    async def sound(self, run: str) -> Sound:
        """Returns the events of a run up to the first that is missing or altered."""
        ...

    async def set_aside(self, run: str, after: int, events: Sequence[Event]) -> int:
        """Moves the rows after a number away, and appends these events; all or none.

        Returns the number of moved rows; raises `StaleWriter` if the event before has changed.
        """
        ...

    async def aside(self, run: str) -> Sequence[tuple[int, bytes]]:
        """Returns the rows that were set aside, with their numbers, oldest first."""
        ...


class ScheduleStore(Protocol):
    """A store for schedules; if two write the same version, one wins."""

    async def put_schedule(self, schedule: Schedule) -> bool:
        """Stores the next version of a schedule; false if another one came first."""
        ...

    async def schedules(self) -> Sequence[Schedule]:
        """Returns all schedules, also removed ones, oldest first."""
        ...

    async def put_fire(self, fire: Fire) -> bool:
        """Stores a fire or its next version; false if another one came first."""
        ...

    async def fires(self, schedule: str, *, limit: int) -> Sequence[Fire]:
        """Returns the newest fires of a schedule, newest first."""
        ...

    async def open_fires(self) -> Sequence[Fire]:
        """Returns the open fires of all schedules, oldest first."""
        ...


class Secrets(Protocol):
    """Secrets by name; their values are used only for calls."""

    def flaw(self, name: str, tool: str) -> str:
        """Returns why a tool cannot get a secret; empty if it can."""
        ...

    def reveal(self, name: str, tool: str) -> str:
        """Returns the value; raises `Misconfigured` if this tool has no such secret."""
        ...

    def hide(self, value: Json) -> Json:
        """Returns a value without any secret that was revealed."""
        ...


class Clock(Protocol):
    """Tells the time, and waits."""

    def now(self) -> datetime:
        """Returns the time in UTC."""
        ...

    def monotonic(self) -> float:
        """Returns seconds since some moment; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        ...
