"""Lets a model judge what a message is for, where its form does not tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from plansmith.errors import UnreadableText
from plansmith.plan.briefs import MessageBrief
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.thread import Reading
from plansmith.ports import ChatModel, Clock, Message, Prompt, Usage
from plansmith.text import clip, visible
from plansmith_planner.context.fence import fence
from plansmith_planner.context.timeouts import Failed, with_timeout
from plansmith_planner.language.yes_or_no import is_yes
from plansmith_planner.model_calls import read_answer, render
from plansmith_planner.parse.read import read_json
from plansmith_planner.threads.reading import free_answer

if TYPE_CHECKING:
    from plansmith.plan.data import Json
    from plansmith_planner.threads.situation import Situation, Waiting

SCHEMA: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": ["answer", "change", "why", "request"]},
        "question": {"type": "string"},
        "option": {"type": "string"},
        "reason": {"type": "string"},
    },
    "required": ["kind", "question", "option", "reason"],
    "additionalProperties": False,
}
JUDGING_S: Final = 15.0
_LONGEST: Final = 2_000
_LONGEST_REASON: Final = 300


class Judged(NamedTuple):
    """What a model takes a message for, and what asking it took; None if it gave nothing usable."""

    reading: Reading | None
    usage: Usage = Usage()


async def judge(
    text: str,
    now: Situation,
    *,
    model: ChatModel,
    clock: Clock,
    locale: str,
    prompts: Path | None = None,
) -> Judged:
    """Asks a model what a message is for; one that takes too long gives nothing usable.

    The value of an answer is always the person's own words or a listed option, and nothing that
    guards a change is answered by judgement.
    """
    waiting = fence("what waits for the person", clip(_waiting(now), _LONGEST))
    message = fence("message", clip(visible(text), _LONGEST))
    asked = render("message", folder=prompts, locale=locale, waiting=waiting, message=message)
    prompt = Prompt([Message("user", asked)], schema=SCHEMA, brief=MessageBrief(visible(text)))
    # Whoever speaks next in the thread waits for this.
    answer = await with_timeout(read_answer(model.stream(prompt)), seconds=JUDGING_S, clock=clock)
    if isinstance(answer, Failed):
        return Judged(None)
    try:
        value = read_json(answer.text)
    except UnreadableText:
        return Judged(None, answer.usage)
    if not isinstance(value, dict):
        return Judged(None, answer.usage)
    return Judged(_reading(text, value, now), answer.usage)


def _waiting(now: Situation) -> str:
    lines: list[dict[str, Json]] = [_question(each) for each in now.questions]
    if now.planned is not None and now.planned.plan is not None:
        plan = now.planned.plan
        steps: list[Json] = [each.title or each.id for each in plan.steps[:20]]
        lines.append({"plan waiting for review": plan.goal, "steps": steps})
    if not lines and now.runs:
        lines.append({"last request": now.runs[0].request})
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in lines)


def _question(each: Waiting) -> dict[str, Json]:
    asked = each.question
    line: dict[str, Json] = {"question": asked.question, "asks": in_language(asked.text, "en")}
    if asked.options:
        line["options"] = [*asked.options]
    return line


def _reading(text: str, value: dict[str, Json], now: Situation) -> Reading | None:
    kind, reason = value.get("kind"), value.get("reason")
    said = clip(visible(reason), _LONGEST_REASON) if isinstance(reason, str) else ""
    match kind:
        case "answer":
            found = _answer(text, value, now)
        case "change" if now.planned is not None and not is_yes(text):
            found = Reading("change", run=now.planned.id)
        case "why" if now.runs:
            found = Reading("why", run=now.runs[0].id)
        case "request" | "change" | "why":
            found = Reading("request")
        case _:
            found = None
    return found._replace(judge="model", reason=said) if found is not None else None


def _answer(text: str, value: dict[str, Json], now: Situation) -> Reading | None:
    questions = now.questions
    named = [each for each in questions if each.question.question == value.get("question")]
    waiting = named[0] if named else questions[0] if len(questions) == 1 else None
    if waiting is None:
        return None
    option = value.get("option")
    picked = option if isinstance(option, str) and option in waiting.question.options else None
    found = free_answer(picked or text, waiting)
    if found is None or waiting.guards:
        # What changes something is decided by the person's own typed answer.
        run, name = waiting.run.id, waiting.question.question
        return Reading(
            "review",
            run,
            name,
            reason=Sentence(
                "something is changed after this question, so it takes the answer itself"
            ),
        )
    return found
