"""The questions of a run: shown with their values and what the calls would do, asked, answered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self, cast

from plansmith import QuestionAsked, Refused, Run
from plansmith.check.schemas import BadSchema, validator
from plansmith.engine.consent import allow_seen
from plansmith.errors import StaleDecision
from plansmith.plan.data import Json, canonical_hash
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.plan.preview import PreviewedCall
from plansmith.plan.sentence import Sentence
from plansmith.runs.decisions import changed_values, consent_values
from plansmith.text import clip, safe
from plansmith_cli.keyboard import ALL, ask_line, read_choice
from plansmith_cli.previews import (
    Values,
    callee_of,
    calls_lines,
    difference_lines,
    origin_line,
    quoted,
    step_of,
)
from plansmith_cli.session import Session, has_no_plan, is_unusable
from plansmith_cli.ui.output import error_text, own, own_text
from plansmith_cli.ui.render import text_lines

Group = tuple[QuestionAsked, ...]


def read_answer(asked: QuestionAsked, typed: str) -> Json:
    """Reads an answer: an option by its text or number, JSON if the question asks for it."""
    text = typed.strip()
    is_result = asked.kind == "unknown" and text.startswith("{")  # of a call that is done
    if asked.options and not is_result:
        return _option(asked, text)
    if not is_result:
        try:
            if asked.answer_schema is None or validator(asked.answer_schema).is_valid(text):
                return text
        except BadSchema:
            pass
    try:
        return cast("Json", json.loads(text))
    except ValueError:
        return text


def _option(asked: QuestionAsked, text: str) -> str:
    """Returns the option that a text means: itself, by its number, or the only yes or no."""
    options, kind = asked.options, read_choice(text).kind
    numbers = {str(number): each for number, each in enumerate(options, start=1)}
    if text in options or kind not in ("yes", "no"):
        return text if text in options else numbers.get(text, text)
    if asked.kind in ("consent", "limit", "unknown"):
        return options[0] if kind == "yes" else options[1]  # of our own: yes comes first
    alike = [each for each in options if read_choice(each).kind == kind]
    return alike[0] if len(alike) == 1 else text


async def answer_seen(session: Session, run: Run, asked: QuestionAsked, value: Json) -> Run:
    """Gives an answer to exactly the question that this run showed."""
    seen = run.question_hash(asked.question)
    return await session.smith.answer(run.id, asked.question, value, by=session.by, of=seen)


def question_groups(questions: Iterable[QuestionAsked]) -> list[Group]:
    """Returns questions, those together that ask consent to one call for items of one list."""
    groups: dict[tuple[str, str], Group] = {}
    for each in questions:
        key = (step_of(each.step), each.callee) if each.kind == "consent" else (each.question, "")
        groups[key] = (*groups.get(key, ()), each)
    return list(groups.values())


def group_name(group: Group) -> str:
    """Returns how a command names a group: one question by its own name, several by their step."""
    return group[0].question if len(group) == 1 else step_of(group[0].step)


def head_line(group: Group, run: Run) -> str:
    """Returns the line that says who asks: Plansmith, the plan, a tool or an agent."""
    asked = group[0]
    who: dict[str, Any] = {
        "callee": clip(safe(asked.callee or callee_of(run.plan, asked.step)), 80),
        "step": safe(asked.step or ""),
        "name": safe(group_name(group)),
        "count": len(group),
    }
    if len(group) > 1:
        return own_text(
            "Plansmith asks for your consent to call {callee} {count} times ({name}):", **who
        )
    heads = {
        "step": Sentence("The plan asks, in its step {step} ({name}):", **who),
        "call": Sentence("The tool or agent {callee} asks, in the step {step} ({name}):", **who),
        "request": Sentence("The planner asks about your request ({name}):", **who),
        "consent": Sentence("Plansmith asks for your consent to call {callee} ({name}):", **who),
    }
    return own(heads.get(asked.kind) or Sentence("Plansmith asks ({name}):", **who))


def question_lines(asked: QuestionAsked, run: Run) -> Iterator[str]:
    """Yields who asks, the text of a question, and its options."""
    yield head_line((asked,), run)
    yield from (f"  {line}" for line in quoted(text_lines(clip(own(asked.text), 4000))))
    yield from _option_lines(asked)


def _option_lines(asked: QuestionAsked) -> Iterator[str]:
    for number, option in enumerate(asked.options, start=1):
        yield from (f"  {line}" for line in quoted(text_lines(f"{number}. {clip(option)}")))


@dataclass(slots=True)
class Asked:
    """Questions of a group as a person sees them, with their values and what the calls would do."""

    session: Session
    run: Run
    group: Group
    calls: list[PreviewedCall]  # that consent is asked for

    @classmethod
    async def look(cls, session: Session, run: Run, group: Group) -> Self:
        """Reads the values of questions, and what the calls would do with them."""
        calls, runs = list[PreviewedCall](), session.smith.runs
        for each in group:
            if (values := await consent_values(runs.store, each)) is not None:
                shown, step = await runs.shown_with(each), each.step or ""
                call = PreviewedCall(step=step, callee=each.callee, inputs=values, shown=shown)
                calls.append(call)
        return cls(session, run, group, calls)

    @property
    def is_consent(self) -> bool:
        return bool(self.calls)

    @property
    def hash(self) -> str:
        """A short hash of all that is shown; an answer can name it."""
        return canonical_hash([self.run.question_hash(each.question) for each in self.group])[:16]

    def require_hash(self, digest: str) -> None:
        """Refuses an answer to something else than what a person was shown with this hash."""
        if digest != self.hash:
            other = Sentence(
                "the question '{name}', or the plan that it is about, is not the one you saw",
                name=group_name(self.group),
            )
            raise StaleDecision(other, hint=Sentence("look at it again, then decide"))

    def lines(self, *, whole: bool = False) -> Iterator[str]:
        """Yields the question; for consent what is lost first, then the values of all calls."""
        first, is_alone = self.group[0], len(self.group) == 1
        if not self.is_consent:
            yield from question_lines(first, self.run)
            return
        yield head_line(self.group, self.run)
        yield origin_line(self.run, first.sources, first.times)
        yield from (f"  {line}" for line in calls_lines(self.calls, whole=whole))
        preview = self.run.preview
        known = {each.step: each for each in preview.calls} if preview is not None else {}
        for number, each in enumerate(self.calls, start=1):
            lines = difference_lines(known.get(each.step, each), each)
            place = f" {number}." if not is_alone else ""
            title = own_text("Not as the preview showed it (- then, + now):")
            yield from (f"  {line}" for line in (f"{title}{place}", *lines)) if lines else ()
        yield from _option_lines(first) if is_alone else ()

    async def answer(self, value: Json) -> Run:
        """Gives one answer to every question: a permit each, for its own values alone."""
        answered = self.run
        for asked in self.group:
            answered = await answer_seen(self.session, self.run, asked, value)
        return answered

    async def change(self, changes: Values) -> Run:
        """Has the call made with a person's values, and with no others."""
        asked = self.group[0]
        own_values = await changed_values(self.session.smith.store, asked, changes)
        shown = await self.session.smith.runs.look(self.run.id, asked.step or "", own_values)
        value = allow_seen(shown.hash if shown is not None else "", own_values)
        return await answer_seen(self.session, self.run, asked, value)

    async def ask(self) -> bool:
        """Asks for an answer until one is taken; False if the question stays open."""
        session = self.session
        prompt = own_text("Your answer (Enter = later): ")
        if self.is_consent:
            prompt = own_text(
                "Your answer (y = allow, n = refuse, all = see every value whole, Enter = later): "
            )
        while typed := (ask_line(prompt) or "").strip():
            if typed in ALL and self.is_consent:
                session.say(*self.lines(whole=True))
                continue
            try:
                await self.answer(read_answer(self.group[0], typed))
            except Refused as error:
                session.say(safe(error_text(error, session.locale)))
            else:
                return True
        return False


async def ask_all(session: Session, run: Run, questions: Iterable[QuestionAsked]) -> bool:
    """Shows all questions, then asks for their answers; returns False if one stays open."""
    groups = [await Asked.look(session, run, group) for group in question_groups(questions)]
    for each in groups:
        session.say(*each.lines())
    for each in groups:
        if len(groups) > 1:
            session.say("", head_line(each.group, run))
        if not await each.ask():
            return False
    return True


def next_commands(run: Run, session: Session) -> Iterator[str]:
    """Yields the commands that continue a run: decisions for scripts, and last what goes on."""
    if run.damage:
        yield session.command("store", "repair", run.id)
        return
    if has_no_plan(run):
        yield session.command("runs", "retry", run.id)
    if run.status.over or (run.plan is None and not run.questions):
        return
    if is_unusable(run):
        yield session.command_for(run, "runs", "edit", run.id)
        return
    move = next_move(run)
    if isinstance(move, AwaitReview):
        digest = run.previewed.approval if run.previewed is not None else move.hash
        yield session.command_for(run, "approve", run.id, digest)
    for group in question_groups(run.questions.values()):
        name = group_name(group)
        if group[0].kind == "consent":
            yield session.command_for(run, "answer", run.id, name, "--show")
        yield session.command_for(run, "answer", run.id, name, "ANSWER")
    yield session.command_for(run, "go", run.id)


async def waiting_lines(run: Run, session: Session, *, asks: bool = True) -> list[str]:
    """Returns what the run waits for, and the commands to continue it.

    `asks`: with the questions, which were not shown yet.
    """
    *decisions, go_on = [*next_commands(run, session)] or [""]
    if not go_on:
        return []
    lines = [own_text("The run waits for you:" if decisions else "To go on:")]
    for group in question_groups(run.questions.values()) if asks else ():
        lines += (await Asked.look(session, run, group)).lines()
    lines.append(f"  {safe(go_on)}")
    if decisions:
        lines.append(own_text("Or, in a script:"))
    return [*lines, *(f"  {safe(each)}" for each in decisions)]
