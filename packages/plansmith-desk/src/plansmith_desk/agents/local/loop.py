"""Runs one task of a local agent with pydantic-ai, over Plansmith's models and tools."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from pydantic import BaseModel, Field
from pydantic_ai import Agent as LibraryAgent
from pydantic_ai import RunContext, ToolOutput
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_ai.usage import UsageLimits
from pydantic_core import SchemaValidator, core_schema

from plansmith.errors import (
    InputNeeded,
    ModelBusy,
    OutcomeUnknown,
    PlansmithError,
    ToolBusy,
    ToolFailed,
)
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json, json_text
from plansmith.ports import (
    ArgumentsDelta,
    Call,
    ChatModel,
    Delta,
    Message,
    ModelDone,
    Prompt,
    TextDelta,
    Usage,
)
from plansmith_desk.agents.local.limits import Allowance, LocalLimits
from plansmith_desk.agents.local.toolbox import Toolbox, Unsure, cut_with_note
from plansmith_planner.context.fence import fence

FINISH: Final = "finish"
_CALL: Final = re.compile(r'<call tool="([^"\n]{1,200})">((?:(?!<call ).)*?)</call>', re.DOTALL)
_LAST: Final = f"This is your last turn: call {FINISH} now, with what you have."


class Answer(NamedTuple):
    """What a model answered: text, and tool calls with their arguments as JSON text."""

    text: str
    calls: list[tuple[str, str]]
    usage: Usage


def port_model(
    chat: ChatModel,
    specs: Sequence[ToolSpec],
    *,
    before: Callable[[], int],
    after: Callable[[Usage], None],
    history_chars: int,
) -> FunctionModel:
    """Adapts a chat model to pydantic-ai; `before` returns the turns left after this one."""
    known = {spec.name: spec for spec in specs}

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        left = before()
        prompt = _rendered(messages, history_chars)
        if left == 0:
            prompt.append(Message("user", _LAST))
        offered = [*info.function_tools, *info.output_tools]
        tools = [known.get(each.name) or _spec(each) for each in offered]
        reply = await _collected(chat.stream(Prompt(_joined(prompt), tools=tools)))
        after(reply.usage)
        return ModelResponse(parts=_parts(reply, messages))

    return FunctionModel(answer, model_name=chat.name)


def _spec(tool: ToolDefinition) -> ToolSpec:
    return ToolSpec(
        name=tool.name,
        description=tool.description or "",
        input_schema=tool.parameters_json_schema,
        effect=Effect.READ,
        open_world=False,
    )


async def _collected(stream: AsyncIterator[Delta]) -> Answer:
    texts: list[str] = []
    calls: list[tuple[str, list[str]]] = []
    usage = Usage()
    async with aclosing(cast("AsyncGenerator[Delta]", stream)) as deltas:
        async for delta in deltas:
            match delta:
                case TextDelta(text):
                    texts.append(text)
                case ArgumentsDelta(tool, text):
                    if not calls or calls[-1][0] != tool:
                        calls.append((tool, []))
                    calls[-1][1].append(text)
                case ModelDone(usage=usage):
                    pass
    made = [(tool, text) for tool, pieces in calls for text in _values("".join(pieces))]
    return Answer("".join(texts).strip(), made, usage)


def _values(text: str) -> list[str]:
    """Splits a text of several JSON values that follow each other without a separator."""
    found: list[str] = []
    decoder, at = json.JSONDecoder(), 0
    try:
        while at < len(text.rstrip()):
            start = at + len(text[at:]) - len(text[at:].lstrip())
            _, at = decoder.raw_decode(text, start)
            found.append(text[start:at])
    except ValueError:
        return [text]
    return found or ["{}"]


def _parts(reply: Answer, messages: Sequence[ModelMessage]) -> list[ModelResponsePart]:
    calls, text = reply.calls, reply.text
    if not calls:
        calls = [(found[1], found[2].strip()) for found in _CALL.finditer(text)]
        text = _CALL.sub("", text).strip()
    if not calls and text and _was_reminded(messages):
        # After one reminder to call a tool, a text is taken as the result.
        calls, text = [(FINISH, json.dumps({"text": text}))], ""
    parts: list[ModelResponsePart] = [TextPart(text)] if text else []
    return [*parts, *(ToolCallPart(name, given) for name, given in calls)] or [TextPart("")]


def _was_reminded(messages: Sequence[ModelMessage]) -> bool:
    last = next((each for each in reversed(messages) if isinstance(each, ModelResponse)), None)
    return last is not None and not any(isinstance(part, ToolCallPart) for part in last.parts)


def _rendered(messages: Sequence[ModelMessage], history_chars: int) -> list[Message]:
    """Renders all messages as text; drops the oldest results if the history is too long."""
    left = history_chars
    rendered: list[Message] = []
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            rendered.append(Message("assistant", "\n".join(map(_of_response, message.parts))))
            continue
        for part in reversed(message.parts):
            text = _of_request(part)
            if isinstance(part, ToolReturnPart):
                left -= len(text)
                if left < 0:
                    text = f"(The result of {part.tool_name} is left out here to save room.)"
            first = isinstance(part, SystemPromptPart)
            rendered.append(Message("system" if first else "user", text))
    return rendered[::-1]


def _of_response(part: Any) -> str:
    if isinstance(part, ToolCallPart):
        return f'<call tool="{part.tool_name}">\n{part.args_as_json_str()}\n</call>'
    return str(getattr(part, "content", ""))


def _of_request(part: Any) -> str:
    if isinstance(part, ToolReturnPart):
        return part.model_response_str()
    return str(part.content)


def _joined(messages: Sequence[Message]) -> list[Message]:
    """Joins neighbouring messages of the same role: some servers require alternating roles."""
    joined: list[Message] = []
    for message in messages:
        if joined and joined[-1].role == message.role:
            last = joined.pop()
            joined.append(Message(last.role, f"{last.text}\n\n{message.text}"))
        else:
            joined.append(message)
    return joined


_OBJECT: Final = SchemaValidator(
    core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema())
)


class Cited(BaseModel):
    """A citation: the source, and the words quoted from it."""

    title: str = Field(default="", description="What the source is called.")
    url: str = Field(default="", description="Its address, exactly as a tool returned it.")
    path: str = Field(default="", description="Its path, exactly as a tool returned it.")
    quote: str = Field(default="", description="Words of the source, exactly as they stand there.")


class Finish(BaseModel):
    """The result of the task."""

    text: str = Field(min_length=1, description="The whole result, for a reader who sees only it.")
    findings: list[str] = Field(default=[], description="Each thing found out, one sentence each.")
    citations: list[Cited] = Field(default=[], description="What the findings rest on.")


@dataclass(frozen=True, slots=True)
class Assignment:
    """One task with everything that is needed to do it."""

    name: str
    model: ChatModel
    prompt: str
    limits: LocalLimits
    toolbox: Toolbox
    task: str
    inputs: Mapping[str, Json]
    call: Call


class ToolboxAdapter(AbstractToolset[None]):
    """Offers a toolbox as a pydantic-ai toolset."""

    def __init__(self, toolbox: Toolbox, most_retries: int) -> None:
        self._toolbox = toolbox
        self._most_retries = most_retries

    @property
    def id(self) -> str | None:
        """The toolset's name, for messages of the library."""
        return "toolbox"

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        """Returns the tools that may be called."""
        del ctx
        return {
            spec.name: ToolsetTool[None](
                toolset=self,
                tool_def=ToolDefinition(
                    name=spec.name,
                    description=spec.description,
                    parameters_json_schema=spec.input_schema,
                    sequential=spec.effect is not Effect.READ,
                ),
                max_retries=self._most_retries,
                args_validator=_OBJECT,
            )
            for spec in self._toolbox.specs
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> str:
        """Calls a tool."""
        del ctx, tool
        return await self._toolbox.use(name, tool_args)


async def carry_out(assignment: Assignment) -> dict[str, Json]:
    """Returns the result of a task; any other end raises a failure or a question."""
    allowance = Allowance(assignment.name, assignment.limits)
    try:
        result = await _run(assignment, allowance)
    except (InputNeeded, Unsure):
        raise
    except (PlansmithError, AgentRunError) as error:
        raise _failure(assignment, error) from error
    cited = [each.model_dump() for each in result.citations]
    citations, notes = assignment.toolbox.evidence.check(cited)
    return {
        "text": result.text,
        "findings": list[Json](result.findings),
        "files": [],
        "citations": [dict[str, Json](each) for each in citations],
        "notes": [*notes, *allowance.notes],
    }


async def _run(assignment: Assignment, allowance: Allowance) -> Finish:
    limits, call = assignment.limits, assignment.call

    def before() -> int:
        allowance.take_turn()
        call.progress(f"turn {allowance.turns} of {limits.turns}")
        return allowance.turns_left

    def after(usage: Usage) -> None:
        call.spend(usage)
        allowance.spend(usage)

    model = port_model(
        assignment.model,
        assignment.toolbox.specs,
        before=before,
        after=after,
        history_chars=limits.history_chars,
    )
    # Retries are bounded by the turns: a limit of the library's own would end a task early.
    agent = LibraryAgent[None, Finish](
        model,
        output_type=ToolOutput(Finish, name=FINISH, description="End the task with its result."),
        system_prompt=assignment.prompt,
        toolsets=[ToolboxAdapter(assignment.toolbox, limits.turns)],
        retries=limits.turns,
        deps_type=type(None),
        name=assignment.name,
    )
    done = await agent.run(_task_text(assignment), usage_limits=UsageLimits(request_limit=None))
    return done.output


def _task_text(assignment: Assignment) -> str:
    """Returns the task as text, with everything from outside fenced as data."""
    parts = [f"Your task:\n{assignment.task}"]
    if assignment.inputs:
        text = json_text(dict(assignment.inputs), indent=1)
        shown = cut_with_note(text, assignment.limits.result_chars)
        parts.append(fence("inputs of the task", shown))
    parts += [
        fence(f"answer of the person to: {asked}", json.dumps(answer, ensure_ascii=False))
        for asked, answer in assignment.toolbox.answers
    ]
    if assignment.toolbox.set_aside:
        names = ", ".join(assignment.toolbox.set_aside)
        parts.append(f"You may not use these, since they change things: {names}")
    return "\n\n".join(parts)


def _failure(assignment: Assignment, error: Exception) -> ToolFailed:
    """Makes a failure that lists the changes made before it, since they stay in effect."""
    changes = assignment.toolbox.changes
    hint = error.hint if isinstance(error, PlansmithError) else ""
    message = error.message if isinstance(error, PlansmithError) else f"{assignment.name}: {error}"
    if changes:
        text = f"{message}; before that it called {', '.join(changes)}"
        return OutcomeUnknown(text, hint=hint)
    passing = isinstance(error, (ModelBusy, ToolBusy))
    return ToolBusy(message, hint=hint) if passing else ToolFailed(message, hint=hint)
