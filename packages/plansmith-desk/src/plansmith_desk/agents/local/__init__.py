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
from plansmith.errors import Misconfigured
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.ports import Call, ChatModel, Clock, ToolSource
from plansmith.tools.toolset import TEXT, Arguments, BuiltIn, Job, ToolSet, fields, items
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
        spoken = [BuiltIn(_ADVICE, _advise)] if self.advises else []
        spoken += [BuiltIn(_ASKING, _ask)] if self.asks else []
        for source in (*own, ToolSet(spoken)):
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


def _advise(given: Arguments, job: Job) -> Json:
    job.call.advise(given["advice"], given["reason"])
    return "It was handed on."


def _ask(given: Arguments, job: Job) -> Json:
    """Ends the task with a question, or returns the answer to it."""
    return job.call.ask(given["question"], options=given.get("options", []))


_REASON: Final = {**TEXT, "minLength": 1, "maxLength": 500}
_QUESTION: Final = {**TEXT, "minLength": 1, "maxLength": 1000}
_ADVICE: Final = ToolSpec(
    name="advise",
    description="Tell the person who reads the plan that it does not fit what you found (replan), "
    "or that its goal is met already (finish), and why. Your task goes on.",
    input_schema=fields(
        {"advice": {**TEXT, "enum": ["replan", "finish"]}, "reason": _REASON}, "advice", "reason"
    ),
    effect=Effect.READ,
    open_world=False,
)
_ASKING: Final = ToolSpec(
    name=ASK_PERSON,
    description="Ask the person something that only they can know or decide, and that your task "
    "cannot do without. Your task begins again with the answer.",
    input_schema=fields({"question": _QUESTION, "options": items(_QUESTION, most=20)}, "question"),
    effect=Effect.READ,
    open_world=False,
)


def _loop() -> Any:
    """Imports the module that needs pydantic-ai; done when an agent first works."""
    try:
        return import_module("plansmith_desk.agents.local.loop")
    except ImportError as error:
        hint = Sentence("install plansmith with the extra models")
        raise Misconfigured(
            Sentence("local agents need more packages: {error}", error=error), hint=hint
        ) from None
