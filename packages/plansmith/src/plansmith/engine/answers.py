"""Decides who may answer a run's question, and what an answer does to the step that waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import jsonschema_rs

from plansmith import plugins
from plansmith.check.schemas import BadSchema, validator
from plansmith.engine.budget import settle_limit
from plansmith.engine.provenance import (
    allow_seen,
    allowed_values,
    given_values,
    is_allowed,
    seen_of,
    settle_data,
)
from plansmith.engine.recover import Settled, settle_unknown
from plansmith.engine.units import Known, levels
from plansmith.errors import Refused
from plansmith.plan.capability import Effect
from plansmith.plan.data import Json, content_hash, content_of
from plansmith.plan.events import (
    AnyBody,
    QuestionAnswered,
    QuestionAsked,
    StepDone,
    StepFailed,
    StepReplied,
    StepSkipped,
)
from plansmith.plan.fold import FOR_PROGRAMS
from plansmith.plan.graph import downstream, needs
from plansmith.plan.plan import Plan
from plansmith.plan.refs import value_text
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep, PlanStep
from plansmith.review.policy import active_steps, effects

ONLY_PERSONS: Final = Sentence(
    "A person has to decide this: on the page of plansmith serve, or with plansmith go"
)
_YES_OR_NO: Final[Mapping[str, bool]] = {"yes": True, "no": False}
NOT_BEGUN: Final = frozenset({StepStatus.WAITING, StepStatus.READY})


def answerable(run: Run, known: Known) -> dict[str, QuestionAsked]:
    """Returns the open questions that a program may answer, by name."""
    return {
        name: each for name, each in run.questions.items() if not why_only_persons(run, each, known)
    }


def why_only_persons(run: Run, asked: QuestionAsked, known: Known) -> str:
    """Says why a program may not answer a question; empty if it may."""
    if asked.kind not in FOR_PROGRAMS:
        return Sentence(
            "it asks for a permission, a decision or something that only a person knows"
        )
    acting = sorted(guarded(run.plan, asked.step, known)) if run.plan and asked.step else []
    return (
        Sentence("its answer decides about {names}, which changes something", names=[*acting])
        if acting
        else ""
    )


def guarded(plan: Plan, step: str, known: Known) -> set[str]:
    """Returns the steps that change something and wait for this step's question, at every level."""
    found: set[str] = set()
    for level in levels(plan, step, known):
        if level is None:
            return {step}  # the plan around it is not known
        after = downstream(needs(level.plan), [level.part]) - {level.part}
        acting = {name for name in after if _acts(level.plan.by_id[name], known)}
        found |= {f"{level.scope}{name}" for name in acting}
    return found


def refuses(run: Run, asked: QuestionAsked, value: Json, known: Known) -> bool:
    """Tells whether an answer is a no to a step that changes something and waits for it.

    An answer that such a step uses as a value is not a permission: `pay(tip={{q}})`. What is
    neither a yes nor a no is asked again, unless another step uses it.
    """
    if not permits(run, asked, known):
        return False
    listed = (asked.answer_schema or {}).get("enum")
    options = asked.options or (listed if isinstance(listed, list) else ())
    agreed = agrees(value, asked.text, [each for each in options if isinstance(each, str)])
    if agreed is not None or is_used(run, asked, known):
        return agreed is False
    if value in options:
        return True  # there is no clearer one: when in doubt, it counts as a no
    hint = Sentence("answer yes to go on, or no to leave out what waits for it")
    raise Refused(
        Sentence("'{answer}' is neither a clear yes nor a clear no", answer=value_text(value)),
        hint=hint,
    )


def agrees(value: Json, question: str, options: Sequence[str]) -> bool | None:
    """Tells whether an answer agrees to go on; None if that is not clear.

    Other words than yes and no are read by whatever package reads language, if one is installed.
    """
    if isinstance(value, bool) or value is None:
        return value
    if not isinstance(value, str):
        return True  # a number or the like, to whoever asked for one
    said = value.strip().casefold()
    if said in _YES_OR_NO:
        return _YES_OR_NO[said]
    if "answers" not in plugins.names("planners"):
        return None
    read: Callable[[str, str, Sequence[str]], bool | None] = plugins.load("planners", "answers")
    return read(value, question, options)


def is_used(run: Run, asked: QuestionAsked, known: Known) -> bool:
    """Tells whether a step uses the answer, if only to tell it."""
    if run.plan is None or asked.step is None:
        return False
    around = [level for level in levels(run.plan, asked.step, known) if level is not None]
    return any(
        level.part in used for level in around for used in _data_sources(level.plan).values()
    )


def permits(run: Run, asked: QuestionAsked, known: Known) -> bool:
    """Tells whether a question only asks to go on: what acts waits, and uses no answer."""
    if run.plan is None or asked.step is None or asked.kind != "step":
        return False
    if not guarded(run.plan, asked.step, known):
        return False
    around = [level for level in levels(run.plan, asked.step, known) if level is not None]
    return not any(
        _acts(level.plan.by_id[name], known)
        for level in around
        for name in downstream(_data_sources(level.plan), [level.part])
    )


def behind(run: Run, step: str) -> tuple[str, ...]:
    """Returns the steps of the plan that need this step and have not started."""
    if run.plan is None or step not in run.plan.by_id:
        return ()
    after = downstream(needs(run.plan), [step])
    return tuple(
        name for name, state in run.steps.items() if name in after and state.status in NOT_BEGUN
    )


def _data_sources(plan: Plan) -> dict[str, frozenset[str]]:
    """Returns the steps whose results each step uses; mere order (`after`) does not count.

    A condition uses them too: the plan says what each answer means.
    """
    return {
        step.id: frozenset(
            found.ref.step
            for found in step.references
            if found.ref is not None and found.ref.step in plan.by_id and not step.is_own(found)
        )
        for step in plan.steps
    }


def _acts(step: AnyStep, known: Known) -> bool:
    """Tells whether a step or a part of it changes something; an unknown template does."""
    for inner in active_steps(Plan(steps=(step,)), known["templates"]):
        if isinstance(inner, PlanStep) and inner.template not in known["templates"]:
            return True
        calls = effects(inner, tools=known["tools"], agents=known["agents"])
        if any(effect is not Effect.READ for _, effect in calls):
            return True
    return False


def settle(asked: QuestionAsked, value: Json, *, run: Run, known: Known) -> Settled:
    """Returns what follows from an answer; refuses one that does not fit the question.

    A no to a step that changes something skips that step; it is not used as a result.
    """
    if asked.kind == "unknown" and asked.step is not None:
        return settle_unknown(asked.step, value, run=run, known=known)
    return Settled(_settled(asked, value, run, known))


def _settled(asked: QuestionAsked, value: Json, run: Run, known: Known) -> list[AnyBody]:
    if asked.limit:
        return settle_limit(asked.limit, value)
    if asked.step is None:
        return []
    values = given_values(value) if asked.kind == "consent" else None
    if values is not None and content_hash(values) != asked.state:
        return [allowed_values(run, asked, values, known, seen_of(value))]
    # With the values that were shown.
    value = value if values is None else allow_seen(seen_of(value))
    if asked.kind == "consent" and is_allowed(value):
        return settle_data(asked, value)
    _check_answer(asked, value)
    if asked.kind == "consent":
        return settle_data(asked, value)
    if asked.state:
        return [StepReplied(step=asked.step, answer=value, state=asked.state)]
    if refuses(run, asked, value, known):
        return _settle_no(run, asked.step, value)
    content = content_of(value)
    return [StepDone(step=asked.step, result=content.digest, size=len(content.text))]


def expired(run: Run, now: datetime) -> Iterator[list[AnyBody]]:
    """Yields the events that close each expired question as unanswered; no option is assumed."""
    for asked in run.questions.values():
        if asked.expires_at is not None and asked.expires_at <= now:
            closed: list[AnyBody] = [QuestionAnswered(question=asked.question, no_answer=True)]
            if asked.step is not None:
                error = Sentence("nobody answered in time")
                closed.append(StepFailed(step=asked.step, error=error, kind="person"))
            yield closed


def _settle_no(run: Run, step: str, value: Json) -> list[AnyBody]:
    """Returns the events that skip the question's step and all steps that wait for it."""
    left = [
        StepSkipped(step=step, reason=Sentence("the answer was {answer}", answer=value_text(value)))
    ]
    denied = Sentence("{step} was denied", step=step)
    return [*left, *(StepSkipped(step=name, reason=denied) for name in behind(run, step))]


def _check_answer(asked: QuestionAsked, value: Json) -> None:
    if asked.answer_schema is not None:
        try:
            validator(asked.answer_schema).validate(value)
        except BadSchema as error:
            raise Refused(
                Sentence("the question has an invalid answer schema: {error}", error=error)
            ) from None
        except jsonschema_rs.ValidationError as error:
            raise Refused(
                Sentence("the answer does not fit the question: {why}", why=error.message)
            ) from None
    elif asked.options and value not in asked.options:
        raise Refused(
            Sentence("'{value}' is not one of {names}", value=value, names=[*asked.options])
        )
