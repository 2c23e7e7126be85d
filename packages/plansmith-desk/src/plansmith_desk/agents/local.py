"""Local agents: a model with a prompt and tools that works on a task in this process."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from pydantic import BaseModel, Field, ValidationError

from plansmith import errors, ports
from plansmith.clock import SystemClock
from plansmith.plan.briefs import total
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.data import Json, json_text
from plansmith.plan.sentence import Sentence
from plansmith_desk.agents.toolbox import ALL, Choice, Toolbox, Unsure, cut_with_note
from plansmith_desk.tool_specs import record
from plansmith_desk.toolset import TEXT, Arguments, BuiltIn, Job, ToolSet, items
from plansmith_planner.context.fence import fence
from plansmith_planner.model_calls import CallingAnswer, places, read_calls, values_in

FINISH: Final = "finish"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_PLACE: Final = re.compile(r"<<([a-z_]+)>>")
_CALL: Final = re.compile(r'<call tool="([^"\n]{1,200})">((?:(?!<call ).)*?)</call>', re.DOTALL)
_LAST: Final = f"This is your last turn: call {FINISH} now, with what you have."
_REMINDER: Final = f"Answer with a tool call; {FINISH} ends the task with its result."


def render_prompt(name: str, *, folder: Path | None, **values: str) -> str:
    """Returns an agent's prompt with its placeholders filled in."""
    text = prompt_of(name, folder)
    if unknown := sorted(places(text) - values.keys()):
        what = Sentence(
            "the prompt '{name}' has unknown placeholders: {places}", name=name, places=unknown
        )
        raise errors.Misconfigured(what, hint=Sentence("known: {names}", names=sorted(values)))
    return _PLACE.sub(lambda place: values[place[1]], text)


def prompt_of(name: str, folder: Path | None = None) -> str:
    """Returns the text of a prompt: from the user's folder if it is there, else ours."""
    if not _NAME.fullmatch(name):
        hint = Sentence("use 1 to 64 of a-z, 0-9, - and _, starting with a letter or digit")
        message = Sentence("'{name}' is not a valid name for a prompt", name=name)
        raise errors.Misconfigured(message, hint=hint)
    own = folder / f"{name}.md" if folder else None
    shipped = files("plansmith_desk.agents") / "prompts" / f"{name}.md"
    found = own if own is not None and own.is_file() else shipped
    if not found.is_file():
        where = folder or Sentence("a folder of prompts")
        hint = Sentence("put {name}.md in {where}", name=name, where=where)
        raise errors.Misconfigured(
            Sentence("there is no prompt called '{name}'", name=name), hint=hint
        )
    return found.read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class LocalLimits:
    """The limits of one task; None means no limit.

    `result_chars` is how much of one result its model sees, `history_chars` of all together.
    """

    turns: int = 20
    tokens: int | None = None
    money: Decimal | None = None
    repeats: int = 3
    result_chars: int = 20_000
    history_chars: int = 120_000


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalAgent:
    """An agent in this process. Its tools only read, unless its card declares an effect.

    `prompt` is the name of a file in `prompts`, or of one of ours. With `advises` the agent may
    advise to change the plan, or to finish because its goal is met; with `asks` it may ask the
    person, and begins its task again with the answer.
    """

    spec: AgentSpec
    model: ports.ChatModel
    prompt: str
    sources: Sequence[ports.ToolSource] = ()
    tools: Choice = ALL
    limits: LocalLimits = field(default_factory=LocalLimits)
    prompts: Path | None = None
    advises: bool = False
    asks: bool = False
    clock: ports.Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        # Report a missing prompt at the start, not in the middle of a run.
        prompt_of(self.prompt, self.prompts)

    async def work(self, task: str, inputs: Mapping[str, Json], call: ports.Call) -> Json:
        """Returns the task's result: text, findings, files, checked citations, and notes."""
        return await self.work_with((), task, inputs, call)

    async def work_with(
        self,
        own: Sequence[ports.ToolSource],
        task: str,
        inputs: Mapping[str, Json],
        call: ports.Call,
    ) -> dict[str, Json]:
        """Does a task like `work`, with additional tools for this task only."""
        bounds = {"repeats": self.limits.repeats, "result_chars": self.limits.result_chars}
        toolbox = Toolbox(self.spec.name, effect=self.spec.effect, call=call, **bounds)
        for source in self.sources:
            await toolbox.add_source(source, self.tools)
        person_tools = [BuiltIn(_ADVICE, _advise)] if self.advises else []
        person_tools += [BuiltIn(_ASKING, _ask)] if self.asks else []
        for source in (*own, ToolSet(person_tools)):
            await toolbox.add_source(source, ALL)
        prompt = render_prompt(
            self.prompt,
            folder=self.prompts,
            turns=str(self.limits.turns),
            today=self.clock.now().date().isoformat(),
        )
        history = [_Entry("system", prompt), _Entry("user", self._task_text(task, inputs, toolbox))]
        try:
            result, used = await self._turns(history, toolbox, call)
        except (errors.InputNeeded, Unsure):
            raise
        except errors.PlansmithError as error:
            if toolbox.changes:  # what was changed before stays in effect
                text = f"{error.message}; before that it called {', '.join(toolbox.changes)}"
                raise errors.OutcomeUnknown(text, hint=error.hint) from error
            kind = (
                errors.ToolBusy
                if isinstance(error, errors.ModelBusy | errors.ToolBusy)
                else errors.ToolFailed
            )
            raise kind(error.message, hint=error.hint) from error
        citations, notes = toolbox.evidence.check([each.model_dump() for each in result.citations])
        money = self.limits.money
        if money is not None and used.cost is None and used != ports.Usage():
            notes.append(f"the price of the model is unknown: the limit of ${money} is unchecked")
        return {
            "text": result.text,
            "findings": list[Json](result.findings),
            "files": [],
            "citations": [dict[str, Json](each) for each in citations],
            "notes": list[Json](notes),
        }

    def _task_text(self, task: str, inputs: Mapping[str, Json], toolbox: Toolbox) -> str:
        """Returns the task as text, with everything from outside fenced as data."""
        parts = [f"Your task:\n{task}"]
        if inputs:
            text = cut_with_note(json_text(dict(inputs), indent=1), self.limits.result_chars)
            parts.append(fence("inputs of the task", text))
        parts += [
            fence(f"answer of the person to: {question}", json.dumps(answer, ensure_ascii=False))
            for question, answer in toolbox.answers
        ]
        if toolbox.set_aside:
            names = ", ".join(sorted(toolbox.set_aside))
            parts.append(f"You may not use these, since they change things: {names}")
        return "\n\n".join(parts)

    async def _turns(
        self, history: list[_Entry], toolbox: Toolbox, call: ports.Call
    ) -> tuple[_Finish, ports.Usage]:
        """Lets the model speak and its tools answer until it is finished."""
        used, reminded = ports.Usage(), False
        for turn in range(1, self.limits.turns + 1):
            self._check_spent(used)
            call.progress(f"turn {turn} of {self.limits.turns}")
            if turn == self.limits.turns:
                history.append(_Entry("user", _LAST))
            messages = _messages(history, self.limits.history_chars)
            tools = [*toolbox.specs.values(), _ENDING]
            answer = await _answer(self.model, ports.Prompt(messages, tools=tools))
            call.spend(answer.usage)
            used = total(used, answer.usage)
            if reminded and answer.text and not answer.calls:
                return _Finish(text=answer.text), used  # after one reminder, a text is the result
            history.append(_Entry("assistant", _rendered(answer)))
            reminded = not answer.calls
            if reminded:
                history.append(_Entry("user", _REMINDER))
            for name, text in answer.calls:
                if name == FINISH:
                    try:
                        return _Finish.model_validate_json(text), used
                    except ValidationError as error:
                        history.append(_Entry("user", f"{FINISH} does not fit: {error}"))
            history += await _results(toolbox, [each for each in answer.calls if each[0] != FINISH])
        raise self._spent(Sentence("its {count} turns", count=self.limits.turns), "turns")

    def _check_spent(self, used: ports.Usage) -> None:
        tokens, money = self.limits.tokens, self.limits.money
        count = used.input_tokens + used.output_tokens
        if tokens is not None and count >= tokens:
            what = Sentence("its {count} tokens ({used} used)", count=tokens, used=count)
            raise self._spent(what, "tokens")
        if money is not None and (used.cost or 0) >= money:
            what = Sentence("its ${amount} (${used} used)", amount=money, used=used.cost)
            raise self._spent(what, "money")

    def _spent(self, what: str, limit: str) -> errors.ToolFailed:
        name = self.spec.name
        message = Sentence("{name} used up {what} before it was finished", name=name, what=what)
        return errors.ToolFailed(
            message, hint=Sentence("raise the agent's limit of {limit}", limit=limit)
        )


class _Entry(NamedTuple):
    """A part of the conversation; `tool` is the one whose result it is."""

    role: Literal["system", "user", "assistant"]
    text: str
    tool: str = ""


def _messages(history: Sequence[_Entry], room: int) -> list[ports.Message]:
    """Joins neighbours of one role, as some servers require; old results without room go."""
    messages: list[ports.Message] = []
    for role, text, tool in reversed(history):
        if tool:
            room -= len(text)
        left_out = f"(The result of {tool} is left out here to save room.)"
        content = text if room >= 0 or not tool else left_out
        if messages and messages[-1].role == role:
            content = f"{content}\n\n{messages.pop().text}"
        messages.append(ports.Message(role, content))
    return messages[::-1]


async def _answer(model: ports.ChatModel, prompt: ports.Prompt) -> CallingAnswer:
    """Reads one answer; a model that cannot make calls may write them into its text."""
    text, calls, usage = await read_calls(model.stream(prompt))
    if not calls:
        written = _CALL.findall(text)
        calls = [(tool, value) for tool, values in written for value in values_in(values)]
        text = _CALL.sub("", text)
    return CallingAnswer(text.strip(), calls, usage)


def _rendered(answer: CallingAnswer) -> str:
    """Returns an answer as a text for the conversation, with its calls in it."""
    calls = (f'<call tool="{name}">\n{given}\n</call>' for name, given in answer.calls)
    return "\n".join([*([answer.text] if answer.text else []), *calls])


async def _results(toolbox: Toolbox, calls: Sequence[tuple[str, str]]) -> list[_Entry]:
    """Makes the calls of one answer: at once if all only read, else one after another."""
    known = [toolbox.specs[name] for name, _ in calls if name in toolbox.specs]
    if any(spec.effect is not Effect.READ for spec in known):
        return [await _result(toolbox, *each) for each in calls]
    tasks = [asyncio.create_task(_result(toolbox, *each)) for each in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def _result(toolbox: Toolbox, name: str, text: str) -> _Entry:
    if name not in toolbox.specs:
        known = ", ".join(f"'{each}'" for each in sorted([*toolbox.specs, FINISH]))
        return _Entry("user", f"Unknown tool name: '{name}'. Available tools: {known}")
    try:
        given: Any = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        return _Entry("user", f"The arguments of {name} are not a JSON object.")
    return _Entry("user", await toolbox.use(name, cast("dict[str, Json]", given)), name)


class _Cited(BaseModel):
    """A citation: the source, and the words quoted from it."""

    title: str = Field(default="", description="What the source is called.")
    url: str = Field(default="", description="Its address, exactly as a tool returned it.")
    path: str = Field(default="", description="Its path, exactly as a tool returned it.")
    quote: str = Field(default="", description="Words of the source, exactly as they stand there.")


class _Finish(BaseModel):
    """The result of the task."""

    text: str = Field(min_length=1, description="The whole result, for a reader who sees only it.")
    findings: list[str] = Field(default=[], description="Each thing found out, one sentence each.")
    citations: list[_Cited] = Field(default=[], description="What the findings rest on.")


def _advise(given: Arguments, job: Job) -> Json:
    job.call.advise(given["advice"], given["reason"])
    return "It was handed on."


def _ask(given: Arguments, job: Job) -> Json:
    """Ends the task with a question, or returns the answer to it."""
    return job.call.ask(given["question"], options=given.get("options", []))


def _spec(name: str, description: str, takes: dict[str, Any]) -> ToolSpec:
    about: dict[str, Any] = {"description": description, "input_schema": takes}
    return ToolSpec(name=name, effect=Effect.READ, open_world=False, **about)


_ENDING: Final = _spec(FINISH, "End the task with its result.", _Finish.model_json_schema())
_REASON: Final = {**TEXT, "minLength": 1, "maxLength": 500}
_QUESTION: Final = {**TEXT, "minLength": 1, "maxLength": 1000}
_ADVICE: Final = _spec(
    "advise",
    "Tell the person who reads the plan that it does not fit what you found (replan), or that its "
    "goal is met already (finish), and why. Your task goes on.",
    record({"advice": {**TEXT, "enum": ["replan", "finish"]}, "reason": _REASON}),
)
_ASKING: Final = _spec(
    "ask_person",
    "Ask the person something that only they can know or decide, and that your task cannot do "
    "without. Your task begins again with the answer.",
    record({"question": _QUESTION}, options=items(_QUESTION, most=20)),
)
