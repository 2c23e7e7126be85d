"""What follows when a person says what became of a call whose end nobody saw."""

from __future__ import annotations

from typing import Final, NamedTuple

import jsonschema_rs

from plansmith.check.schemas import BadSchema, validator
from plansmith.engine.failing import instead_of_result, on_error
from plansmith.engine.plan_levels import Known, levels
from plansmith.engine.recover import UNKNOWN_OPTIONS
from plansmith.engine.units import named_unit
from plansmith.errors import Refused
from plansmith.plan.data import Json, content_of, json_text
from plansmith.plan.events import AnyBody, StepDone, StepFailed, StepReset
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep, OnError, ReplyStep, ToolStep

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
