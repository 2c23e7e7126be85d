"""Has a call made with the values that a person gave instead of those that consent is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from plansmith.engine.given_values import is_own_result, step_with_values
from plansmith.engine.units import named_unit
from plansmith.errors import Refused
from plansmith.plan.graph import needs
from plansmith.plan.plan import Plan
from plansmith.plan.second_person import stricter
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, ToolStep

if TYPE_CHECKING:
    from plansmith.engine.plan_levels import Known
    from plansmith.plan.data import Json
    from plansmith.plan.events import QuestionAsked
    from plansmith.plan.run import Run
    from plansmith.plan.run_options import SecondPerson
    from plansmith.ports import PlanStore


def may_change_values(run: Run, asked: QuestionAsked, rule: SecondPerson = "never") -> bool:
    """Tells whether a person may give other values instead of those that consent is asked for.

    Not where somebody else has to agree to them, unless the plan can show them; nor for a list: the
    plan has a place for it. Nor while another plan waits for its review: it would be approved, too.
    """
    if asked.asks != "consent" or run.plan is None or run.running_hash != run.plan.hash:
        return False
    if is_in_plan(run, asked):
        return True
    unit = named_unit(run.plan, asked.step or "", run.templates)
    is_call = unit is not None and isinstance(unit.step, ToolStep | AgentStep)
    return is_call and stricter(run.options.second_person, rule) == "never"


def is_in_plan(run: Run, asked: QuestionAsked) -> bool:
    """Tells whether the plan has a place for the values: it is not one of many calls."""
    step = run.plan.by_id.get(asked.step or "") if run.plan else None
    return asked.asks == "consent" and isinstance(step, ToolStep) and step.repeat is None


def with_values(
    run: Run,
    asked: QuestionAsked,
    *,
    shown: Mapping[str, Json],
    changes: Mapping[str, Json],
    known: Known,
) -> Plan:
    """Returns the plan with exactly the values that a person saw and changed, as they are.

    Nothing of them is a reference any more, so what is approved is what the tool gets.
    """
    if run.plan is None or not is_in_plan(run, asked):
        raise Refused(Sentence("answer.values_fixed"), hint=Sentence("answer.values_fixed_hint"))
    step = run.plan.by_id[asked.step or ""]
    before = sorted(needs(run.plan)[step.id])
    given = step_with_values(step, {**shown, **changes}, known)
    changed = given.replace(after=tuple(dict.fromkeys((*step.after, *before))))
    if changed.undo_with is not None and not is_own_result(changed.undo_with, step.id):
        changed = changed.replace(undo_with=None)  # it would take back what was never sent
    steps = tuple(changed if each.id == step.id else each for each in run.plan.steps)
    return run.plan.replace(steps=steps)


async def changed_values(
    store: PlanStore, asked: QuestionAsked, changes: Mapping[str, Json]
) -> dict[str, Json]:
    """Returns the values a person saw, with those that the person changed."""
    if asked.asks != "consent":
        raise Refused(Sentence("answer.values_fixed"), hint=Sentence("answer.values_fixed_hint"))
    shown = await store.get(asked.state)
    return {**cast("dict[str, Json]", shown), **changes}
