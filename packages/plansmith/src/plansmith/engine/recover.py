"""Decides about steps that were running when their process died: repeat them or ask a person."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import jsonschema_rs

from plansmith.check.schemas import BadSchema, validator
from plansmith.engine.call import Callees
from plansmith.engine.journal import Journal
from plansmith.engine.outcome import instead_of_result, on_error
from plansmith.engine.units import Known, Unit, levels, named_unit
from plansmith.errors import JournalDamaged, Refused
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_of, json_text
from plansmith.plan.events import (
    AnyBody,
    QuestionAsked,
    StepDone,
    StepFailed,
    StepReset,
    StepUnknown,
)
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence, joined
from plansmith.plan.steps import AnyStep, OnError, ReplyStep, ToolStep
from plansmith.ports import PlanStore, RepairStore

UNKNOWN_OPTIONS: Final = ("done", "not_done", "retry")
_SHOWN: Final = 500
_DIED: Final = Sentence("the process ended during the call")


def left_open(
    run: Run, templates: Mapping[str, Plan], callees: Callees
) -> tuple[list[AnyBody], set[str]]:
    """Returns how the steps go on that ran when a process died, and the open map and plan steps."""
    running = [name for name, step in run.steps.items() if step.status is StepStatus.RUNNING]
    if run.plan is None or not running:
        return [], set()
    units = {name: named_unit(run.plan, name, templates) for name in running}
    opened = {name for name, unit in units.items() if unit is not None and unit.is_group}
    return list(recover(run, units, callees, skip=opened)), opened


def recover(
    run: Run,
    units: Mapping[str, Unit | None],
    callees: Callees,
    *,
    skip: Collection[str] = (),
) -> Iterator[AnyBody]:
    """Yields events that repeat reads and keyed calls, and ask a person about all others.

    `skip` are running map and plan steps, which make no call themselves.
    """
    for name, step in run.steps.items():
        if step.status is not StepStatus.RUNNING or name in skip:
            continue
        unit = units[name]
        if unit is not None and callees.is_repeatable(unit):
            unsure = not callees.is_read(unit)
            yield StepFailed(step=name, error=_DIED, again=True, unsure=unsure, died=True)
        else:
            yield StepUnknown(step=name, reason=_DIED, died=True)
            yield unknown_question(name, _DIED, callee=unit.callee if unit else "")


def unknown_question(name: str, reason: str, *, callee: str = "") -> QuestionAsked:
    """Returns the question to a person how a step ended whose end was not recorded."""
    why = reason if len(reason) <= _SHOWN else f"{reason[:_SHOWN]}…"
    text = Sentence(
        "It is not known whether '{step}' took effect ({reason}). Did it?", step=name, reason=why
    )
    if callee and callee != name:  # a step's id alone says little to a person
        text = Sentence(
            "It is not known whether {callee} took effect in the step '{step}' ({reason}). Did it?",
            callee=callee,
            step=name,
            reason=why,
        )
    return QuestionAsked(
        question=f"unknown:{name}",
        text=text,
        options=UNKNOWN_OPTIONS,
        step=name,
        kind="unknown",
    )


_DONE: Final = "done"


class Settled(NamedTuple):
    """The events that follow from an answer, and values that they refer to besides the answer."""

    bodies: list[AnyBody]
    values: tuple[Json, ...] = ()


def settle_unknown(step: str, value: Json, *, run: Run, known: Known) -> Settled:
    """Returns what follows: the call is done, did not happen, or is made again.

    `{"done": result}` tells the result too; it has to, where something uses the result.
    """
    if isinstance(value, dict) and value.keys() == {_DONE}:
        result = value[_DONE]
        _check_result(step, result, run, known)
        digest, text = content_of(result)
        return Settled([StepDone(step=step, result=digest, size=len(text))], (result,))
    if value not in UNKNOWN_OPTIONS:
        shown = json_text(value)
        raise Refused(
            Sentence("'{value}' is not one of {names}", value=shown, names=[*UNKNOWN_OPTIONS])
        )
    if value == "retry":
        reason = Sentence("a person wants it tried again")
        return Settled([StepReset(step=step, reason=reason, same_call=True)])
    if value == "not_done":
        return _not_done(step, run, known)
    user = _user_of(step, run, known)
    if user:
        raise Refused(
            Sentence("the result of the step '{step}' is needed by '{user}'", step=step, user=user),
            hint=Sentence(
                "tell it with the answer, as JSON: {example}; or {none} if nobody knows it",
                example='{"done": …}',
                none='{"done": null}',
            ),
        )
    return Settled([StepDone(step=step, result=content_of(value).digest)])


def _check_result(name: str, result: Json, run: Run, known: Known) -> None:
    """Refuses a result that the tool cannot have given; null stands for one that nobody knows."""
    unit = named_unit(run.plan, name, known["templates"]) if run.plan else None
    tool = unit.step.tool if unit is not None and isinstance(unit.step, ToolStep) else ""
    schema = known["tools"][tool].output_schema if tool in known["tools"] else None
    if schema is None or result is None:
        return
    try:
        validator(schema).validate(result)
    except BadSchema:
        return  # a result of such a tool is not checked either
    except jsonschema_rs.ValidationError as error:
        raise Refused(
            Sentence("that is no result of {tool}: {error}", tool=tool, error=error.message),
            hint=Sentence(
                "tell it with the answer, as JSON: {example}; or {none} if nobody knows it",
                example='{"done": …}',
                none='{"done": null}',
            ),
        ) from None


def _user_of(name: str, run: Run, known: Known) -> str:
    """Returns a step that would use the result of this one, perhaps to take it back; or nothing."""
    unit = named_unit(run.plan, name, known["templates"]) if run.plan else None
    if unit is None or run.plan is None:
        return ""
    if any(unit.step.is_own(found) for found in unit.step.references):
        return name
    for level in levels(run.plan, name, known):
        if level is None:
            return ""
        for step in level.plan.steps:
            state = run.steps.get(f"{level.scope}{step.id}")
            is_over = state is not None and state.status in _OVER
            if not is_over and not step.disabled and _uses(step, level.part, level.plan):
                return f"{level.scope}{step.id}"
    return ""


_OVER: Final = frozenset(
    {StepStatus.DONE, StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELLED}
)


def _uses(step: AnyStep, part: str, plan: Plan) -> bool:
    """Tells whether a step needs the value of another; a reply may also tell that it is done."""
    if step.id == part or part not in plan.by_id:
        return False
    needs_parts = isinstance(step, ReplyStep)
    return any(
        found.ref is not None and found.ref.step == part and (found.ref.path or not needs_parts)
        for found in step.references
    )


def _not_done(name: str, run: Run, known: Known) -> Settled:
    """Returns that a call did not happen: it has failed, which the plan may pass over."""
    error = Sentence("a person says that it did not happen")
    unit = named_unit(run.plan, name, known["templates"]) if run.plan else None
    wanted: OnError = "fail"
    if run.plan is not None and unit is not None:
        around = named_unit(run.plan, name.rpartition("/")[0], known["templates"])
        whole = around.step if around is not None and around.step.kind == "map" else None
        wanted = on_error(unit.step, None if unit.is_round else whole)
    if unit is None or wanted == "fail":
        return Settled([StepFailed(step=name, error=error, kind="person")])
    instead = instead_of_result(unit.step, wanted, error, "tool")
    failed = StepFailed(step=name, error=error, kind="tool", passed=True)
    if instead is None:
        return Settled([failed])
    return Settled([failed.replace(result=content_of(instead.value).digest)], (instead.value,))


# Calls and how they ended really happened, whatever is wrong with the journal. A repair keeps
# them, so that no call is repeated only because its record was moved aside.
_FACTS: Final = (e.StepStarted, e.StepDone, e.StepFailed, e.StepUnknown)


async def repair(store: PlanStore, journal: Journal, *, by: e.Actor) -> None:
    """Moves damaged events aside; the run continues, paused, after its last good event."""
    lost = await _lost_results(store, journal) if journal.damage is None else ()
    if lost:
        _go_back(journal, lost)
    if journal.damage is None:
        raise Refused(
            Sentence("run.not_damaged", run=journal.id), hint=Sentence("run.verify_checks")
        )
    if not isinstance(store, RepairStore):
        raise Refused(Sentence("run.no_repair"), hint=Sentence("use SQLite or PostgreSQL"))
    good = len(journal.events)
    events: list[e.Event] = []
    if not journal.run.phase.over:
        facts = [
            (each.body, each.by)
            for each in journal.beyond
            if isinstance(each.body, _FACTS) and each.number not in lost
        ]
        events = journal.following((_repair_event(journal), by), *facts)
    await store.set_aside(journal.id, good, events)
    await journal.catch_up()


async def _lost_results(store: PlanStore, journal: Journal) -> Sequence[int]:
    """Returns the numbers of the events whose result is missing in the store or altered."""
    lost: list[int] = []
    for event in journal.events:
        if isinstance(event.body, e.StepDone):
            try:
                await store.get(event.body.result)
            except JournalDamaged:
                lost.append(event.number)
    return lost


def _go_back(journal: Journal, lost: Sequence[int]) -> None:
    """Goes back to before the first step whose result is lost; its call still counts as made."""
    if journal.run.status.over:
        hint = Sentence("run.results_lost")
        raise Refused(Sentence("run.over_for_good", run=journal.id), hint=hint)
    bodies = [event.body for event in journal.events]
    names = [body.step for n in lost if isinstance(body := bodies[n - 1], e.StepDone)]
    first = lost[0]
    while isinstance(bodies[first - 2], e.QuestionAnswered):
        first -= 1  # the question is asked again
    steps = [Sentence("ps.quoted", text=name) for name in dict.fromkeys(names)]
    journal.doubt(first, Sentence("the result of {steps} cannot be read", steps=steps))


def _repair_event(journal: Journal) -> e.AnyBody:
    good, read = len(journal.events), len(journal.beyond)
    lost = max(journal.last - good - read, 0)
    damage = journal.damage.message if journal.damage else ""
    reasons = [Sentence("repaired: {damage}", damage=damage)]
    reasons += (
        [
            Sentence(
                "{count} events cannot be read, so that steps which are "
                "waiting may have been called already: make sure of that "
                "before you go on",
                count=lost,
            )
        ]
        if lost
        else []
    )
    return e.RunRepaired(aside=read + lost, lost=lost, reason=joined(reasons))
