"""Loop: one task of a local agent, carried out by pydantic-ai's agent over Plansmith's ports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, Field
from pydantic_ai import Agent as LibraryAgent
from pydantic_ai import RunContext, ToolOutput
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_ai.usage import UsageLimits
from pydantic_core import SchemaValidator, core_schema

from plansmith.adapters.agents.local_desk import Desk, Unsure
from plansmith.adapters.agents.local_guard import Allowance, LocalLimits
from plansmith.adapters.agents.local_model import FINISH, port_model
from plansmith.errors import (
    InputNeeded,
    ModelBusy,
    OutcomeUnknown,
    PlansmithError,
    ToolBusy,
    ToolFailed,
)
from plansmith.plan.capability import Effect
from plansmith.plan.data import Json
from plansmith.planner.briefing.fence import fence
from plansmith.ports import Call, ChatModel, Usage

_OBJECT: Final = SchemaValidator(
    core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema())
)


class Cited(BaseModel):
    """A source: where something is said, and the words that say it."""

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
class Errand:
    """One task with all that is needed for it."""

    name: str
    model: ChatModel
    prompt: str
    limits: LocalLimits
    desk: Desk
    task: str
    inputs: Mapping[str, Json]
    call: Call


class DeskToolset(AbstractToolset[None]):
    """The tools of a desk as a toolset."""

    def __init__(self, desk: Desk, most_retries: int) -> None:
        self._desk = desk
        self._most_retries = most_retries

    @property
    def id(self) -> str | None:
        """The toolset's name, for messages of the library."""
        return "desk"

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        """The tools that may be called."""
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
            for spec in self._desk.specs
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> str:
        """Call one of them."""
        del ctx, tool
        return await self._desk.use(name, tool_args)


async def carry_out(errand: Errand) -> dict[str, Json]:
    """The result of a task; every other end is a failure, or a question."""
    allowance = Allowance(errand.name, errand.limits)
    try:
        result = await _run(errand, allowance)
    except InputNeeded:
        raise
    except Unsure as unsure:
        # To the runner a call without an end: where things were changed, it asks the person.
        raise TimeoutError(str(unsure)) from unsure
    except (PlansmithError, AgentRunError) as error:
        raise _failure(errand, error) from error
    cited = [each.model_dump() for each in result.citations]
    citations, notes = errand.desk.evidence.check(cited)
    return {
        "text": result.text,
        "findings": list[Json](result.findings),
        "files": [],
        "citations": [dict[str, Json](each) for each in citations],
        "notes": [*notes, *allowance.notes],
    }


async def _run(errand: Errand, allowance: Allowance) -> Finish:
    limits, call = errand.limits, errand.call

    def before() -> int:
        allowance.take_turn()
        call.progress(f"turn {allowance.turns} of {limits.turns}")
        return allowance.turns_left

    def after(usage: Usage) -> None:
        call.spend(usage)
        allowance.spend(usage)

    model = port_model(
        errand.model,
        errand.desk.specs,
        before=before,
        after=after,
        history_chars=limits.history_chars,
    )
    # Retries are bounded by the turns: a limit of the library's own would end a task early.
    agent = LibraryAgent[None, Finish](
        model,
        output_type=ToolOutput(Finish, name=FINISH, description="End the task with its result."),
        system_prompt=errand.prompt,
        toolsets=[DeskToolset(errand.desk, limits.turns)],
        retries=limits.turns,
        deps_type=type(None),
        name=errand.name,
    )
    done = await agent.run(_told(errand), usage_limits=UsageLimits(request_limit=None))
    return done.output


def _told(errand: Errand) -> str:
    """The task in words, and everything from outside as data."""
    told = [f"Your task:\n{errand.task}"]
    if errand.inputs:
        text = json.dumps(dict(errand.inputs), ensure_ascii=False, indent=1)
        most = errand.limits.result_chars
        more = f"\n[… {len(text) - most:,} more characters left out …]" if len(text) > most else ""
        told.append(fence("inputs of the task", text[:most] + more))
    told += [fence(f"answer of the person to: {asked}", answer) for asked, answer in _said(errand)]
    if errand.desk.set_aside:
        names = ", ".join(errand.desk.set_aside)
        told.append(f"You may not use these, since they change things: {names}")
    return "\n\n".join(told)


def _said(errand: Errand) -> Sequence[tuple[str, str]]:
    reply = errand.call.reply
    if reply is None:
        return ()
    asked = reply.state.get("question", "") if isinstance(reply.state, dict) else ""
    return ((str(asked), json.dumps(reply.answer, ensure_ascii=False)),)


def _failure(errand: Errand, error: Exception) -> ToolFailed:
    """A failure that says what was changed before it; then nobody knows how far it came."""
    changes = errand.desk.changes
    hint = error.hint if isinstance(error, PlansmithError) else ""
    message = error.message if isinstance(error, PlansmithError) else f"{errand.name}: {error}"
    if changes:
        told = f"{message}; before that it called {', '.join(changes)}"
        return OutcomeUnknown(told, hint=hint)
    passing = isinstance(error, (ModelBusy, ToolBusy))
    return ToolBusy(message, hint=hint) if passing else ToolFailed(message, hint=hint)
