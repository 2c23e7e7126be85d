"""Wraps an agent: a model judges its result and has the task done again if it falls short."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, ValidationError

from plansmith.clock import SystemClock
from plansmith.errors import Misconfigured, ModelFailed, UnreadableText
from plansmith.plan.capability import AgentSpec, Effect
from plansmith.plan.data import Json, Record, StrictInt
from plansmith.plan.sentence import Sentence
from plansmith.ports import Agent, Call, ChatModel, Clock, Closing, Message, Prompt
from plansmith_desk.agents.local import prompt_of
from plansmith_planner.context.fence import fence
from plansmith_planner.context.timeouts import Failed, with_timeout
from plansmith_planner.context.token_budget import clipped, rough_count
from plansmith_planner.model_calls import read_answer
from plansmith_planner.parse.read import read_json

PROMPT: Final = "reflect"
ENOUGH: Final = 7
FIRST_TRY: Final = "first_try"
_TOKENS: Final = 6_000
_AGAIN: Final = (
    f"This is the second try. The input {FIRST_TRY} has the result of the first one and what it "
    "lacks: hand over the whole result, with what was missing."
)


class Verdict(Record):
    """A model's judgement of a result: a score from 0 to 10, and what is missing."""

    score: StrictInt = Field(ge=0, le=10)
    missing: tuple[Annotated[str, Field(max_length=500)], ...] = Field(max_length=10)

    @property
    def enough(self) -> bool:
        """Whether no second try is needed, or nothing is named that it could improve."""
        return self.score >= ENOUGH or not any(each.strip() for each in self.missing)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reflecting:
    """Wraps an agent with a model that judges its results.

    If the judging fails, the first result stands; a second result that fails or scores lower is
    dropped. `seconds` limits both tries together, so that the step does not time out before the
    first result is returned.
    """

    agent: Agent
    model: ChatModel
    prompts: Path | None = None
    seconds: float = 240.0
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        prompt_of(PROMPT, self.prompts)
        if self.agent.spec.effect is not Effect.READ:
            hint = Sentence("only an agent with the effect read can be asked to do a task twice")
            message = Sentence("{name} changes things", name=self.agent.spec.name)
            raise Misconfigured(message, hint=hint)

    @property
    def spec(self) -> AgentSpec:
        return self.agent.spec

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        start = self.clock.monotonic()
        first = await self.agent.work(task, inputs, call)
        verdict = await self._judge(task, first, call)
        if verdict is None or verdict.enough:
            return first
        missing = "; ".join(verdict.missing)
        call.progress(f"done again, since this is missing: {missing}")
        first_try: Json = {"result": _slim(first), "missing": list[Json](verdict.missing)}
        more = {**inputs, FIRST_TRY: first_try}
        again = replace(call, key=f"{call.key}-again", reply=None)
        left = self.seconds - (self.clock.monotonic() - start)
        work = self.agent.work(f"{task}\n\n{_AGAIN}", more, again)
        second = await with_timeout(work, seconds=max(left, 0.0), clock=self.clock)
        if isinstance(second, Failed):
            return _with_note(first, f"a second try failed: {second.reason}")
        other = await self._judge(task, second, call)
        if other is None or other.score < verdict.score:
            return _with_note(first, f"a second try was no better; missing: {missing}")
        return _with_note(second, f"done twice; at first this was missing: {missing}")

    async def _judge(self, task: str, result: Json, call: Call) -> Verdict | None:
        text = json.dumps(_slim(result), ensure_ascii=False, indent=1)
        excerpt = clipped(text, tokens=_TOKENS, count=rough_count)
        messages = [
            Message("system", prompt_of(PROMPT, self.prompts)),
            Message("user", f"{fence('task', task)}\n\n{fence('result', excerpt)}"),
        ]
        try:
            prompt = Prompt(messages, schema=Verdict.model_json_schema())
            answer = await read_answer(self.model.stream(prompt))
            call.spend(answer.usage)
            return Verdict.model_validate(read_json(answer.text))
        except (ModelFailed, UnreadableText, ValidationError) as error:
            why = "it is unreadable" if isinstance(error, ValidationError) else str(error)
            call.progress(f"the result was not judged: {why}")
            return None

    async def close(self) -> None:
        if isinstance(self.agent, Closing):
            await self.agent.close()


def _slim(result: Json) -> Json:
    """Returns a result for the judging model: files by name, without their content."""
    if not isinstance(result, dict) or not isinstance(files := result.get("files"), list):
        return result
    names: list[Json] = [each.get("name") if isinstance(each, dict) else each for each in files]
    return {**result, "files": names}


def _with_note(result: Json, note: str) -> Json:
    if not isinstance(result, dict):
        return result
    notes = result.get("notes")
    return {**result, "notes": [*(notes if isinstance(notes, list) else []), note]}
