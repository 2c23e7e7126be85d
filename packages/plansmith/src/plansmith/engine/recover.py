"""Decides about steps that were running when their process died: repeat them or ask a person."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from plansmith.engine.call import Callees
from plansmith.engine.units import Unit, named_unit
from plansmith.plan.events import AnyBody, QuestionAsked, StepFailed, StepUnknown
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence

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
