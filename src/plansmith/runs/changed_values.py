"""Makes the plan in which a call is made with the values that a person gave instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import jsonschema_rs

from plansmith.errors import Refused
from plansmith.plan.graph import needs
from plansmith.plan.plan import Plan
from plansmith.plan.refs import find, literal, secret_names
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import ToolStep
from plansmith.planner.check.schemas import BadSchema, validator

if TYPE_CHECKING:
    from plansmith.engine.plan_levels import Known
    from plansmith.plan.data import Json
    from plansmith.plan.events import QuestionAsked
    from plansmith.plan.run import Run


def may_change_values(run: Run, asked: QuestionAsked) -> bool:
    """Tells whether a person may give other values instead of those that consent is asked for.

    Not for one of many calls: the plan has no place for the values of a single one.
    """
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
    step = run.plan.by_id[asked.step or ""] if run.plan and may_change_values(run, asked) else None
    if run.plan is None or not isinstance(step, ToolStep):
        raise Refused(Sentence("answer.values_fixed"), hint=Sentence("answer.values_fixed_hint"))
    values = {**shown, **changes}
    _check(step.tool, values, known)
    inputs = {
        name: step.inputs[name] if _is_kept(step, name, changes) else _literal(value)
        for name, value in values.items()
    }
    before = sorted(needs(run.plan)[step.id])
    changed = step.replace(inputs=inputs, after=tuple(dict.fromkeys((*step.after, *before))))
    steps = tuple(changed if each.id == step.id else each for each in run.plan.steps)
    return run.plan.replace(steps=steps)


def _is_kept(step: ToolStep, name: str, changes: Mapping[str, Json]) -> bool:
    """Tells whether an argument stays as the plan wrote it: it names no step, nobody changed it."""
    return name in step.inputs and name not in changes and not any(find(step.inputs[name]))


def _literal(value: Json) -> Json:
    # In a plan such a text would be filled in; in data or an answer it must not be.
    if secret_names(value):
        raise Refused(Sentence("answer.values_secret"), hint=Sentence("answer.values_fixed_hint"))
    return literal(value)


def _check(tool: str, values: Mapping[str, Json], known: Known) -> None:
    spec = known["tools"].get(tool)
    if spec is None:
        return  # the check of the plan tells that there is no such tool
    try:
        validator(spec.input_schema).validate(dict(values))
    except BadSchema:
        return
    except jsonschema_rs.ValidationError as error:
        place = ".".join(map(str, error.instance_path))
        raise Refused(
            Sentence("answer.values_misfit", place=place or tool, error=error.message)
        ) from None
