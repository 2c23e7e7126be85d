"""Decides about calls that were running when their process died."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plansmith.engine.call import Callees
from plansmith.engine.units import named_unit
from plansmith.plan import events as e
from plansmith.plan.ids import question_name
from plansmith.plan.plan import Plan
from plansmith.plan.question_options import UNKNOWN
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence

_SHOWN: Final = 500
_DIED: Final = Sentence("the process ended during the call")


def settle_after_crash(
    run: Run, templates: Mapping[str, Plan], callees: Callees
) -> list[e.AnyBody]:
    """Returns the events that settle the calls left running by a dead process.

    Reads and keyed calls are repeated, and a person is asked about all others. Map and plan steps,
    which make no call themselves, stay open.
    """
    if run.plan is None:
        return []
    bodies: list[e.AnyBody] = []
    for name, step in run.steps.items():
        if step.status is not StepStatus.RUNNING:
            continue
        unit = named_unit(run.plan, name, templates)
        if unit is not None and unit.is_group:
            continue
        if unit is not None and callees.is_repeatable(unit):
            unsure = not callees.is_read(unit)
            again = e.StepFailed(step=name, error=_DIED, again=True, unsure=unsure, died=True)
            bodies.append(again)
        else:
            asked = unknown_question(name, _DIED, callee=unit.callee if unit else "")
            bodies += [e.StepUnknown(step=name, reason=_DIED, died=True), asked]
    return bodies


def unended_prefetches(run: Run) -> list[e.PrefetchEnded]:
    """Returns the end of each early read whose process died."""
    error = Sentence("it is not known how it ended")
    return [
        e.PrefetchEnded(key=key, error=error)
        for key, each in run.prefetches.items()
        if not each.over
    ]


def unknown_question(name: str, reason: str, *, callee: str = "") -> e.QuestionAsked:
    """Returns the question to a person how a step ended whose end was not recorded."""
    why = reason if len(reason) <= _SHOWN else f"{reason[:_SHOWN]}…"
    text = Sentence(
        "It is not known whether {callee} took effect in the step '{step}' ({reason}). Did it?",
        callee=callee or name,
        step=name,
        reason=why,
    )
    question = question_name("unknown", name)
    return e.QuestionAsked(question=question, text=text, options=UNKNOWN, step=name, kind="unknown")
