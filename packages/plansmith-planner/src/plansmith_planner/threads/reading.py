"""What waits in a thread when a message comes, and what the message is for.

It is an answer, a change, a why, an approval or a request.

Rules read what is beyond doubt; a model judges the rest, or the form of the message if there is no
model. No message decides on a plan, and nothing that guards a change is answered by judgement.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from plansmith.check.schemas import why_misfit
from plansmith.engine.journal import Journal
from plansmith.errors import UnreadableText
from plansmith.plan.briefs import MessageBrief
from plansmith.plan.data import Json
from plansmith.plan.events import Actor, QuestionAsked
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.sentence import Sentence, in_language
from plansmith.ports import ChatModel, Clock, Message, Prompt, Usage
from plansmith.runs.decisions import guarded, only_asks_to_go_on
from plansmith.runs.service import RunService
from plansmith.text import clip, visible
from plansmith_planner.context.fence import fence
from plansmith_planner.context.timeouts import Failed, with_timeout
from plansmith_planner.language import messages as m
from plansmith_planner.language.yes_or_no import EDGE, is_yes, says_no, yes_or_no
from plansmith_planner.model_calls import read_answer, render, text_fields
from plansmith_planner.parse.read import read_json
from plansmith_planner.threads.entries import MessageRead, ThreadState
from plansmith_planner.threads.memory import MAX_RUNS

SCHEMA: Final = text_fields(
    kind=("answer", "change", "why", "request"), question=(), option=(), reason=()
)
JUDGING_S: Final = 15.0
_MAX_LENGTH: Final = 2_000
# What the system itself asks before an effect or beyond a limit: no message answers that.
ASKED_BY_PLANS: Final = frozenset({"step", "call", "request"})


class Waiting(NamedTuple):
    """An open question of a run; `guards`: something is changed once it is answered.

    `permits`: it only asks whether to go on with that. A question that is asked again under its
    name is another one, with another `key`.
    """

    run: Run
    question: QuestionAsked
    guards: bool = False
    permits: bool = False
    key: str = ""

    @property
    def name(self) -> str:
        return self.question.question


@dataclass(frozen=True, slots=True)
class Situation:
    """The runs of a thread, newest first, and what waits for its person, newest first.

    `decisions` are questions that are answered by name only: for consent, about what happened,
    beyond a limit.
    """

    runs: Sequence[Run] = ()
    questions: Sequence[Waiting] = ()
    decisions: Sequence[Waiting] = ()

    @property
    def asked(self) -> tuple[str, ...]:
        return tuple(each.key for each in self.questions)

    def seen_with(self, asked: Collection[str]) -> Situation:
        """Returns what a message meets that was said when only these questions were open.

        A question that was asked later is answered by name only: the message was not meant for it.
        """
        known = [each for each in self.questions if each.key in asked]
        later = [each for each in self.questions if each.key not in asked]
        return replace(self, questions=known, decisions=[*self.decisions, *later])

    @property
    def review(self) -> Run | None:
        """The newest run whose plan waits for a decision."""
        return next((run for run in self.runs if run.phase is RunStatus.REVIEWING), None)

    @property
    def waits_once(self) -> bool:
        """Whether exactly one thing waits, so that nothing else can be meant."""
        return len(self.questions) + len(self.decisions) + (self.review is not None) == 1

    @property
    def planned(self) -> Run | None:
        """The newest run with a plan that can still be changed."""
        open_ = (run for run in self.runs if run.plan is not None and not run.status.over)
        return self.review or next(open_, None)


async def situation_of(thread: ThreadState, runs: RunService, *, by: Actor) -> Situation:
    """Reads the runs of a thread for whoever speaks; those that cannot be read are left out."""
    found: list[Run] = []
    questions: list[Waiting] = []
    decisions: list[Waiting] = []
    for name in reversed(thread.runs[-MAX_RUNS:]):
        journal = await runs.journals.load_or_none(name)
        if journal is None or journal.run.damage:
            continue
        run = journal.run
        found.append(run)
        if run.status.over or not run.questions:
            continue
        known = await runs.registry.capabilities(run.plan, run.templates)
        for asked in reversed([*run.questions.values()]):
            guards = bool(run.plan and asked.step and guarded(run.plan, asked.step, known))
            # A program answers nothing after which something is changed.
            by_message = asked.kind in ASKED_BY_PLANS and (by.kind == "person" or not guards)
            key = open_question(journal, asked.question)
            waiting = Waiting(run, asked, guards, only_asks_to_go_on(run, asked, known), key)
            (questions if by_message else decisions).append(waiting)
    return Situation(found, questions, decisions)


def open_question(journal: Journal, question: str) -> str:
    """Returns the key of a question of a run, by the event that asked it; empty if none is open."""
    for each in reversed(journal.events) if question in journal.run.questions else ():
        if isinstance(each.body, QuestionAsked) and each.body.question == question:
            return f"{journal.id}/{each.number}"
    return ""


def read_by_rules(text: str, now: Situation) -> MessageRead | None:
    """Returns what a message is beyond doubt; None if that is a matter of judgement."""
    fits = [(each, free_answer(text, each, words=False)) for each in now.questions]
    exact = [(each, found) for each, found in fits if found]
    if is_yes(text) or (m.is_rejection(text) and (now.review or now.decisions)):
        # A mere yes or no answers the one thing that waits, and never decides on a plan.
        if len(exact) == 1 and now.waits_once:
            return exact[0][1]
        if now.review is not None:
            return MessageRead("review", run=now.review.id)
        if now.decisions or exact:
            first = [*now.decisions, *now.questions][0]
            return MessageRead("review", first.run.id, first.name)
        return None if now.questions else MessageRead("request")
    decided = [each for each in now.decisions if _option(each.question, text) is not None]
    acts = next((each for each, _ in exact if each.guards), None)
    if acts is not None and len(exact) + len(decided) > 1:
        return _needs_own_answer(acts)  # it fits several questions
    if exact or decided:
        return exact[0][1] if exact else MessageRead("review", decided[0].run.id, decided[0].name)
    waits = now.questions or now.planned is not None or (now.runs and m.is_why(text))
    return None if waits else MessageRead("request")


def _needs_own_answer(waiting: Waiting) -> MessageRead:
    reason = Sentence("something is changed after this question, so it takes the answer itself")
    return MessageRead("review", waiting.run.id, waiting.name, reason=reason)


def guess(text: str, now: Situation) -> tuple[MessageRead, bool]:
    """Decides by the form of a message; true with it if no model needs to look at it."""
    if now.runs and m.is_why(text):
        return MessageRead("why", run=now.runs[0].id), True
    short = len(text) <= 200 and not m.asks(text)
    open_ = [each for each in now.questions if not each.question.options]
    forms = [(each, each.question.answer_schema) for each in open_]
    free = next((each for each, form in forms if not why_misfit(form, "some words")), None)
    found = free_answer(text, free) if free is not None and short and not m.orders(text) else None
    if free is not None and found is not None:
        if free.guards and not (now.waits_once and _allows(free, text)):
            return _needs_own_answer(free), not now.waits_once
        reason = Sentence("a short reply to the question")
        return found.replace(reason=reason), len(now.questions) == 1
    if now.review is not None and free is None and short and m.asks_for_change(text):
        reading = MessageRead(
            "change", run=now.review.id, reason=Sentence("it asks for another plan")
        )
        return reading, not m.orders(text)
    if not now.questions and now.planned is None:
        return MessageRead("request"), True
    return MessageRead(
        "request", reason=Sentence("it does not read like an answer or a change")
    ), False


def in_turn(text: str, now: Situation) -> MessageRead:
    """Reads a message as the answer to what the newest run that asks something asked first.

    The words of a decision do not answer another question, and no message decides.
    """
    asking = {each.run.id for each in (*now.questions, *now.decisions)}
    newest = next((run.id for run in now.runs if run.id in asking), "")
    asked = [each for each in now.questions if each.run.id == newest]
    held = [each for each in now.decisions if each.run.id == newest]
    if held and (not asked or any(_option(each.question, text) is not None for each in held)):
        return MessageRead("review", newest, held[-1].name)
    if not asked:
        return MessageRead("request")
    if asked[-1].guards and not (now.waits_once and _allows(asked[-1], text)):
        return _needs_own_answer(asked[-1])
    return free_answer(text, asked[-1]) or MessageRead("answer", newest, asked[-1].name, text)


def free_answer(text: str, waiting: Waiting, *, words: bool = True) -> MessageRead | None:
    """Returns a message as the answer to a question; None if it must be typed.

    Without `words` it is an option or a value of the question's type, and no free words.
    """
    value = _value(waiting.question, text, words=words)
    return None if value is None else MessageRead("answer", waiting.run.id, waiting.name, value)


def _allows(waiting: Waiting, text: str) -> bool:
    """Tells whether words may answer: a question whether to go on takes a plain yes or no."""
    if not waiting.permits or waiting.question.options:
        return True
    value = _value(waiting.question, text, words=True)
    return is_yes(text) or says_no(value) or isinstance(value, bool)


def _value(asked: QuestionAsked, text: str, *, words: bool) -> Json:
    answer, schema = text.strip(), asked.answer_schema
    option = _option(asked, text)
    if option is not None or (words and asked.options):
        return option
    if schema is None:
        return answer if words else None
    if why_misfit(schema, "some words"):  # else any words fit, and that needs judgement
        number: Json = None
        plain = answer.replace(",", "") if re.fullmatch(r"[\d,.]+", answer) else answer
        with suppress(ValueError):
            number = json.loads(plain) if len(plain) <= 300 else None
        numeric = isinstance(number, int | float) and math.isfinite(number)
        for each in (number if numeric else None, yes_or_no(answer), answer):
            if each is not None and not why_misfit(schema, each):
                return each
    return answer if words and not why_misfit(schema, answer) else None


def _option(asked: QuestionAsked, text: str) -> str | None:
    words = text.strip(EDGE).casefold()
    for option in asked.options:
        if words == option.strip(EDGE).casefold():
            return option
    number = m.option_number(words)
    digits = any(any(map(str.isdigit, option)) for option in asked.options)
    return asked.options[number - 1] if not digits and 0 < number <= len(asked.options) else None


async def judge(
    text: str,
    now: Situation,
    *,
    model: ChatModel,
    clock: Clock,
    locale: str,
    prompts: Path | None = None,
) -> tuple[MessageRead | None, Usage]:
    """Asks a model what a message is for; None if it takes too long or says nothing usable.

    The value of an answer is always the person's own words or a listed option.
    """
    waiting = fence("what waits for the person", clip(_waiting(now), _MAX_LENGTH))
    message = fence("message", clip(visible(text), _MAX_LENGTH))
    asked = render("message", folder=prompts, locale=locale, waiting=waiting, message=message)
    prompt = Prompt([Message("user", asked)], schema=SCHEMA, brief=MessageBrief(visible(text)))
    # Whoever speaks next in the thread waits for this.
    answer = await with_timeout(read_answer(model.stream(prompt)), seconds=JUDGING_S, clock=clock)
    if isinstance(answer, Failed):
        return None, Usage()
    try:
        value = read_json(answer.text)
    except UnreadableText:
        value = None
    return _judged(text, value, now) if isinstance(value, dict) else None, answer.usage


def _waiting(now: Situation) -> str:
    lines: list[dict[str, Json]] = []
    for each in now.questions:
        lines.append({"question": each.name, "asks": in_language(each.question.text, "en")})
        if each.question.options:
            lines[-1]["options"] = [*each.question.options]
    if now.planned is not None and now.planned.plan is not None:
        plan = now.planned.plan
        steps: list[Json] = [each.title or each.id for each in plan.steps[:20]]
        lines.append({"plan waiting for review": plan.goal, "steps": steps})
    if not lines and now.runs:
        lines.append({"last request": now.runs[0].request})
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in lines)


def _judged(text: str, value: dict[str, Json], now: Situation) -> MessageRead | None:
    match value.get("kind"):
        case "answer":
            named = [each for each in now.questions if each.name == value.get("question")]
            known = named[:1] or (now.questions if len(now.questions) == 1 else [])
            if not known:
                return None
            option = value.get("option")
            is_option = isinstance(option, str) and option in known[0].question.options
            found = free_answer(str(option) if is_option else text, known[0])
            # What changes something is decided by the person's own typed answer.
            if known[0].guards or found is None:
                found = _needs_own_answer(known[0])
        case "change" if now.planned is not None and not is_yes(text):
            found = MessageRead("change", run=now.planned.id)
        case "why" if now.runs:
            found = MessageRead("why", run=now.runs[0].id)
        case "request" | "change" | "why":
            found = MessageRead("request")
        case _:
            return None
    reason = value.get("reason")
    model_reason = clip(visible(reason), 300) if isinstance(reason, str) else ""
    return found.replace(judge="model", reason=model_reason)


def not_by_message(reading: MessageRead, now: Situation) -> Sentence:
    """Says how to decide what no message decides."""
    if not reading.question:
        return Sentence(
            "A message approves nothing and rejects nothing. Look at the "
            "plan and decide: on the page, or with plansmith go {run}.",
            run=reading.run,
        )
    waiting = [*now.decisions, *now.questions]
    asked = next((each.question for each in waiting if each.name == reading.question), None)
    return Sentence(
        "This question takes its own answer, not a message: "
        "{question} Answer it on the page, or with plansmith go {run}.",
        question=asked.text if asked else reading.question,
        run=reading.run,
    )
