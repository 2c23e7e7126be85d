"""Values that a person gives instead of those that consent is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from plansmith.engine.units import named_unit
from plansmith.errors import Refused
from plansmith.plan.second_person import stricter
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, ToolStep

if TYPE_CHECKING:
    from plansmith.plan.data import Json
    from plansmith.plan.events import QuestionAsked
    from plansmith.plan.run import Run
    from plansmith.plan.run_options import SecondPerson
    from plansmith.ports import PlanStore


def may_change_values(run: Run, asked: QuestionAsked, rule: SecondPerson = "never") -> bool:
    """Tells whether a person may give other values instead of those that consent is asked for.

    Not where somebody else has to agree to them; nor for a list: the plan has a place for it.
    """
    if asked.kind != "consent" or run.plan is None:
        return False
    unit = named_unit(run.plan, asked.step or "", run.templates)
    is_call = unit is not None and isinstance(unit.step, ToolStep | AgentStep)
    return is_call and stricter(run.options.second_person, rule) == "never"


async def changed_values(
    store: PlanStore, asked: QuestionAsked, changes: Mapping[str, Json]
) -> dict[str, Json]:
    """Returns the values a person saw, with those that the person changed."""
    if asked.kind != "consent":
        raise Refused(
            Sentence("these values cannot be changed here, only in the plan"),
            hint=Sentence("refuse, or change the plan"),
        )
    shown = await store.get(asked.values)
    return {**cast("dict[str, Json]", shown), **changes}


async def consent_values(store: PlanStore, asked: QuestionAsked) -> dict[str, Json] | None:
    """Returns the values of the call that a question asks consent for; None for other ones."""
    if asked.kind != "consent" or not asked.values:
        return None
    values = await store.get(asked.values)
    return values if isinstance(values, dict) else None
