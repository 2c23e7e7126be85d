"""Local agents: a model with a prompt and tools that works on a task in this process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from plansmith.clock import SystemClock
from plansmith.errors import Misconfigured, ToolFailed
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.ports import Advice, Call, ChatModel, Clock, ToolSource
from plansmith_desk.agents.local.limits import LocalLimits
from plansmith_desk.agents.local.toolbox import Choice, Toolbox
from plansmith_planner.model_calls import places

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_PLACE: Final = re.compile(r"<<([a-z_]+)>>")


def render_prompt(name: str, *, folder: Path | None, **values: str) -> str:
    """Returns an agent's prompt with its placeholders filled in."""
    text = prompt_of(name, folder)
    unknown = sorted(places(text) - values.keys())
    if unknown:
        raise Misconfigured(
            Sentence(
                "the prompt '{name}' has unknown placeholders: {places}", name=name, places=unknown
            ),
            hint=Sentence("known: {names}", names=sorted(values)),
        )
    return _PLACE.sub(lambda place: values[place[1]], text)


def prompt_of(name: str, folder: Path | None = None) -> str:
    """Returns the text of a prompt: from the user's folder if it is there, else ours."""
    if not _NAME.fullmatch(name):
        hint = Sentence("use 1 to 64 of a-z, 0-9, - and _, starting with a letter or digit")
        raise Misconfigured(
            Sentence("'{name}' is not a valid name for a prompt", name=name), hint=hint
        )
    own = folder / f"{name}.md" if folder else None
    if own is not None and own.is_file():
        return own.read_text(encoding="utf-8")
    shipped = files("plansmith_desk.agents") / "prompts" / f"{name}.md"
    if not shipped.is_file():
        where = folder or Sentence("a folder of prompts")
        raise Misconfigured(
            Sentence("there is no prompt called '{name}'", name=name),
            hint=Sentence("put {name}.md in {where}", name=name, where=where),
        )
    return shipped.read_text(encoding="utf-8")


_ALL: Final = Choice(("*",))
ASK_PERSON: Final = "ask_person"


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalAgent:
    """An agent in this process. Its tools only read, unless its card declares an effect.

    `prompt` is the name of a file in `prompts`, or of one of ours. With `advises` the agent may
    advise to change the plan, or to finish because its goal is met; with `asks` it may ask the
    person, and begins its task again with the answer.
    """

    spec: AgentSpec
    model: ChatModel
    prompt: str
    sources: Sequence[ToolSource] = ()
    tools: Choice = _ALL
    limits: LocalLimits = field(default_factory=LocalLimits)
    prompts: Path | None = None
    advises: bool = False
    asks: bool = False
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        # Report a missing prompt at the start, not in the middle of a run.
        prompt_of(self.prompt, self.prompts)

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        """Returns the task's result: text, findings, files, checked citations, and notes."""
        return await self.work_with((), task, inputs, call)

    async def work_with(
        self, own: Sequence[ToolSource], task: str, inputs: Mapping[str, Json], call: Call
    ) -> dict[str, Json]:
        """Does a task like `work`, with additional tools for this task only."""
        toolbox = Toolbox(self.spec.name, effect=self.spec.effect, limits=self.limits, call=call)
        for source in self.sources:
            await toolbox.add_source(source, self.tools)
        advice: list[ToolSource] = [AdviceTool()] if self.advises else []
        questions: list[ToolSource] = [AskTool()] if self.asks else []
        for source in (*own, *advice, *questions):
            await toolbox.add_source(source, _ALL)
        loop = await asyncio.to_thread(_loop)
        prompt = render_prompt(
            self.prompt,
            folder=self.prompts,
            turns=str(self.limits.turns),
            today=self.clock.now().date().isoformat(),
        )
        assignment = loop.Assignment(
            name=self.spec.name,
            model=self.model,
            prompt=prompt,
            limits=self.limits,
            toolbox=toolbox,
            task=task,
            inputs=inputs,
            call=call,
        )
        result: dict[str, Json] = await loop.carry_out(assignment)
        return result


class AdviceTool:
    """A tool with which an agent advises to change the plan, or says that its goal is met."""

    async def tools(self) -> Sequence[ToolSpec]:
        """Returns the one tool."""
        text = {"type": "string", "minLength": 1, "maxLength": 500}
        kinds = {"type": "string", "enum": ["replan", "finish"]}
        schema = {
            "type": "object",
            "properties": {"advice": kinds, "reason": text},
            "required": ["advice", "reason"],
            "additionalProperties": False,
        }
        about = (
            "Tell the person who reads the plan that it does not fit what you found (replan), or "
            "that its goal is met already (finish), and why. Your task goes on."
        )
        return [
            ToolSpec(
                name="advise",
                description=about,
                input_schema=schema,
                effect=Effect.READ,
                open_world=False,
            )
        ]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Passes the advice on."""
        advice: Advice | None = _ADVICE.get(str(arguments.get("advice")))
        if tool != "advise" or advice is None:
            raise ToolFailed(Sentence("the advice is either replan or finish"))
        call.advise(advice, str(arguments.get("reason")))
        return "It was handed on."


class AskTool:
    """A tool with which an agent asks the person."""

    async def tools(self) -> Sequence[ToolSpec]:
        """Returns the one tool."""
        text = {"type": "string", "minLength": 1, "maxLength": 1000}
        options = {"type": "array", "items": text, "maxItems": 20}
        schema = {
            "type": "object",
            "properties": {"question": text, "options": options},
            "required": ["question"],
            "additionalProperties": False,
        }
        about = (
            "Ask the person something that only they can know or decide, and that your task cannot "
            "do without. Your task begins again with the answer."
        )
        return [
            ToolSpec(
                name=ASK_PERSON,
                description=about,
                input_schema=schema,
                effect=Effect.READ,
                open_world=False,
            )
        ]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Ends the task with a question, or returns the answer to it."""
        if tool != ASK_PERSON:
            raise ToolFailed(Sentence("unknown.tool", name=tool))
        options = arguments.get("options")
        texts = [str(each) for each in options] if isinstance(options, list) else []
        return call.ask(str(arguments.get("question")), options=texts)


_ADVICE: Final[Mapping[str, Advice]] = {"replan": "replan", "finish": "finish"}


def _loop() -> Any:
    """Imports the module that needs pydantic-ai; done when an agent first works."""
    try:
        return import_module("plansmith_desk.agents.local.loop")
    except ImportError as error:
        hint = Sentence("install plansmith with the extra models")
        raise Misconfigured(
            Sentence("local agents need more packages: {error}", error=error), hint=hint
        ) from None
