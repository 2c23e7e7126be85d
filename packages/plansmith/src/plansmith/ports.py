"""The ports: Protocols for everything outside Plansmith."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast, runtime_checkable

from plansmith.errors import InputNeeded, ToolFailed
from plansmith.plan.briefs import (
    Brief,
    ContextBlock,
    Message,
    PlanBrief,
    ReplyBrief,
    TriageBrief,
    Usage,
)
from plansmith.store_ports import (
    Claim,
    Document,
    Finding,
    Heartbeat,
    IntactPart,
    JournalStore,
    News,
    Store,
)

if TYPE_CHECKING:
    from pathlib import Path

    from plansmith.plan.capability import AgentSpec, ToolSpec
    from plansmith.plan.data import Json
    from plansmith.plan.earlier import EarlierResult, UsableResults
    from plansmith.plan.planning import Planned, PlanRequest, Tell
    from plansmith.plan.preview import CallPreview
    from plansmith.plan.run_options import RunOptions

# Re-exported: what prompts have, and the ports of stores.
__all__ = [
    "Brief",
    "Claim",
    "ContextBlock",
    "Document",
    "Finding",
    "Heartbeat",
    "IntactPart",
    "JournalStore",
    "Message",
    "News",
    "PlanBrief",
    "ReplyBrief",
    "Store",
    "TriageBrief",
    "Usage",
]
# The key of the tenant whose work it is: heavy work is shared out among tenants.
TENANT: Final[ContextVar[str]] = ContextVar("plansmith_tenant", default="")


@dataclass(frozen=True, slots=True)
class Prompt:
    """The input of a model call.

    Attributes:
        messages: The whole prompt.
        schema: A JSON Schema that the answer should match.
        tools: Tools that the model may call.
        max_tokens: The length of the longest answer; None leaves it to the model.
        brief: The same content as data, for models that are not large language models.
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
class TextDelta:
    """A piece of text.

    Attributes:
        text: The piece; empty while a slow model works.
        progress: How far the model is.
    """

    text: str
    progress: str = ""


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """A piece of the arguments of a tool call.

    Attributes:
        tool: The name of the tool.
        text: The piece, a part of a JSON text.
    """

    tool: str
    text: str


@dataclass(frozen=True, slots=True)
class ModelDone:
    """The end of an answer: always the last piece, exactly once.

    Attributes:
        usage: The tokens that the call took.
        model: The name of the model that answered.
    """

    usage: Usage
    model: str = ""


Delta = TextDelta | ArgumentsDelta | ModelDone


class ChatModel(Protocol):
    """A language model; it raises `ModelBusy` if another try may help, else `ModelFailed`."""

    @property
    def name(self) -> str:
        """The model's name, for people and for prices."""
        ...

    def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Streams the answer piece by piece; follows the schema if the model can.

        Args:
            prompt: The messages, and a schema and tools for the answer.

        Raises:
            ModelBusy: The call failed; another try may help.
            ModelFailed: There is no usable answer.
        """
        ...


Advice = Literal["replan", "finish"]
MAX_QUESTIONS: Final = 20  # of one call
_ASKED: Final = "plansmith call asked"


@dataclass(frozen=True, slots=True)
class Reply:
    """The person's answer to a call's `InputNeeded`.

    Attributes:
        answer: The answer.
        state: The `state` of that `InputNeeded`.
    """

    answer: Json
    state: Json = None


@dataclass(slots=True)
class Call:
    """What a tool or agent is told about a call, and how it reports back.

    Attributes:
        key: The same for every attempt; pass it to a service as an idempotency key.
        attempt: The number of this attempt.
        is_stopped: Tells whether the call was cancelled.
        progress: Shows a line while the call works.
        spend: Reports the tokens of a model call.
        advise: Reports that the plan should change, or that its goal is met. The person sees the
            reason; a planner never does.
        reply: The answer to an `InputNeeded`.
        seen: The hash of the files that a person saw when consenting to the call.
        request: What the person asked for, in their words.

    Examples:
        >>> from plansmith import Call, tool
        >>> @tool(effect="read")
        ... def trip(call: Call) -> str:
        ...     call.progress("looking for trips")
        ...     return f"a trip to {call.ask('Which city?')}"
    """

    key: str
    attempt: int = 1
    # False if only this try ends, as by its time limit: the call may be made again.
    is_stopped: Callable[[], bool] = lambda: False
    progress: Callable[[str], None] = lambda _: None
    spend: Callable[[Usage], None] = lambda _: None
    advise: Callable[[Advice, str], None] = lambda _, __: None
    reply: Reply | None = None
    seen: str = ""
    request: str = ""
    _asked: list[str] = field(default_factory=list[str], init=False, repr=False, compare=False)

    def ask(
        self, question: str, *, options: Sequence[str] = (), schema: dict[str, Any] | None = None
    ) -> Json:
        """Returns the person's answer.

        If there is none yet, ends the call; it is made again once the person has answered.

        Args:
            question: What the person is asked.
            options: Answers to choose from.
            schema: A JSON Schema that the answer must match.

        Raises:
            InputNeeded: There is no answer yet; let it pass.
            ToolFailed: The call asks more than 20 questions.

        Examples:
            >>> @tool(effect="read")
            ... def visit(call: Call) -> str:
            ...     return f"on {call.ask('Which day?', options=['Monday', 'Friday'])}"
        """
        # Whatever stands before a question is done again then: ask first, act afterwards.
        # By its hash: secrets are hidden in a state that is stored, and it would be another text.
        mark = sha256(str(question).encode(errors="surrogatepass")).hexdigest()
        answers = self._answers()
        # One that is asked twice has two answers: the person may mean only the first by "yes".
        known = [answer for asked, answer in answers if asked == mark]
        place = self._asked.count(mark)
        self._asked.append(mark)
        if place < len(known):
            return known[place]
        if len(answers) >= MAX_QUESTIONS:
            raise ToolFailed(f"it asks more than {MAX_QUESTIONS} questions")
        kept: Json = [[*each] for each in answers]
        state: Json = {"kind": _ASKED, "question": mark, "answers": kept}
        raise InputNeeded(question, options=options, schema=schema, state=state)

    def _answers(self) -> list[tuple[str, Json]]:
        """Returns the hashes of the questions of this call so far, with their answers."""
        state = self.reply.state if self.reply else None
        if self.reply is None or not isinstance(state, dict) or state.get("kind") != _ASKED:
            return []
        earlier = cast("list[tuple[str, Json]]", state.get("answers"))
        newest = str(state.get("question")), self.reply.answer
        return [*((asked, answer) for asked, answer in earlier), newest]


class ToolSource(Protocol):
    """A source of tools; a call raises `ToolBusy` if another try may help, else `ToolFailed`."""

    async def tools(self) -> Sequence[ToolSpec]:
        """Returns the tools that are available now."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Calls a tool and returns its result.

        Args:
            tool: The name of one of its tools.
            arguments: Arguments that match the tool's schema.
            call: The key of the call, and how to report back.

        Raises:
            ToolBusy: Nothing was changed, and another try may help.
            ToolFailed: Nothing was changed. After any other exception the outcome is unknown.
        """
        ...


class ToolMaker(Protocol):
    """Makes the tools that a package brings: what it names in the group `plansmith.tools`."""

    def __call__(
        self, folder: Path, *, zone: str, clock: Clock, **more: Any
    ) -> Sequence[ToolSource]:
        """Returns tools that work in a folder; `zone` is the person's time zone.

        Built-in tools also get their settings, in `more`.
        """
        ...


@runtime_checkable
class RehearsingSource(Protocol):
    """A tool source that can say what is wrong with a call, without making it."""

    async def rehearse(self, tool: str, inputs: Mapping[str, Json]) -> str:
        """Returns what would go wrong and what to do, in one sentence; empty if nothing.

        Args:
            tool: The name of one of its tools.
            inputs: The arguments of the call.
        """
        ...


@runtime_checkable
class PreviewingSource(Protocol):
    """A tool source that can say what a call would do, without doing anything."""

    async def preview(self, tool: str, inputs: Mapping[str, Json]) -> CallPreview | None:
        """Returns what a call would do; None if that is not known.

        It gives the same again as long as the call would do the same.

        Args:
            tool: The name of one of its tools.
            inputs: The arguments of the call; secrets are not filled in.
        """
        ...


@runtime_checkable
class YieldingSource(Protocol):
    """A tool source whose tools others have named: it gives up names that are taken."""

    def leave_out(self, tool: str) -> None:
        """Notes that a tool is not offered, because another source has one of its name.

        Args:
            tool: The name of the tool.
        """
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
        """Carries out the task and returns its result.

        Args:
            task: What to do, in words.
            inputs: Values that the plan passes with the task; they are data, not instructions.
            call: The key of the call, and how to report back.

        Raises:
            ToolFailed: Nothing was changed. After any other exception the outcome is unknown.
        """
        ...


@runtime_checkable
class TimeLimited(Agent, Protocol):
    """An agent with a time limit of its own, for steps that have none."""

    timeout_s: float | None


class ContextSource(Protocol):
    """A source of background: documents, a database's schema, a search."""

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        """Returns what is useful for a query.

        Args:
            query: The request.
            token_limit: How many tokens all blocks may have together.
        """
        ...


class Ranker(Protocol):
    """Scores how well texts fit a query."""

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Returns one number per text; larger is better.

        Args:
            query: The request.
            texts: The texts to compare with it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Available:
    """What a new plan may use.

    Attributes:
        tools: The tools.
        agents: The cards of the agents.
        templates: The names of the templates.
        sources: The source of each tool, by the name of the tool.
        usable: The results of earlier runs that the plan may use.
    """

    tools: Sequence[ToolSpec] = ()
    agents: Sequence[AgentSpec] = ()
    templates: Sequence[str] = ()
    sources: Mapping[str, ToolSource] = field(default_factory=dict[str, "ToolSource"])
    usable: UsableResults | None = None


class Planner(Protocol):
    """Makes the plan for a request, or revises `request.previous` as `request.feedback` says."""

    @property
    def name(self) -> str:
        """The name of the model that plans, or `rules`."""
        ...

    async def make(self, request: PlanRequest, available: Available, *, tell: Tell) -> Planned:
        """Returns a checked plan, an answer, a question, or why there is none.

        Args:
            request: What a person wants, with the conversation before it.
            available: What the plan may use.
            tell: Called with each stage of planning, for a person to read.
        """
        ...


class ReplyWriter(Protocol):
    """Writes the text of replies."""

    async def write(self, brief: ReplyBrief, history: Sequence[Message], call: Call) -> str:
        """Returns the text of one reply, which may be empty.

        Args:
            brief: What to say, and the results to say it with.
            history: The conversation before the request.
            call: Reports progress and tokens.

        Raises:
            ModelFailed: There is no usable text; the results are then shown as they are.
        """
        ...


class Conversations(Protocol):
    """Remembers the conversations that requests belong to.

    Args of methods:
        thread: The id of the conversation.
        message: The number of the message in it.
    """

    async def before(self, thread: str, message: int | None) -> Sequence[Message]:
        """Returns the conversation before a message."""
        ...

    async def results(self, thread: str, message: int | None) -> Sequence[EarlierResult]:
        """Returns the results of earlier runs that a plan for a message may use."""
        ...

    async def join(self, run: str, options: RunOptions) -> None:
        """Adds a run to the conversation of the run that it repeats or continues.

        Args:
            run: The id of the run.
            options: Its options, which name the conversation.
        """
        ...


class Secrets(Protocol):
    """Secrets by name; their values are used only for calls.

    Args of methods:
        name: The name of the secret.
        tool: The full name of the tool.
    """

    def flaw(self, name: str, tool: str) -> str:
        """Returns why a tool cannot get a secret; empty if it can."""
        ...

    def reveal(self, name: str, tool: str) -> str:
        """Returns the value of a secret.

        Raises:
            Misconfigured: This tool has no such secret.
        """
        ...

    def hide(self, value: Json) -> Json:
        """Returns a value without any secret that was revealed.

        Args:
            value: What a tool returned or said.
        """
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
        """Waits.

        Args:
            seconds: How long.
        """
        ...


@runtime_checkable
class BootClock(Clock, Protocol):
    """A clock that counts the time in which the machine slept."""

    def since_boot(self) -> float:
        """Returns seconds since the machine started."""
        ...
