"""Values that a person gives instead of those that consent is asked for; they are sent as given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import jsonschema_rs

from plansmith.check.schemas import BadSchema, validator
from plansmith.engine.plan_levels import Known
from plansmith.engine.state import State
from plansmith.engine.units import Unit, named_unit, resolved
from plansmith.errors import Refused
from plansmith.plan.data import Json, content_hash, plain_numbers
from plansmith.plan.events import QuestionAsked, StepReplied
from plansmith.plan.refs import escape_text, fill, find, literal, secret_names
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep, ToolStep, Undo

CHANGE: Final = "change"  # how the journal calls an answer that allows a call with other values
_OF_AGENTS: Final[dict[str, Any]] = {
    "properties": {"task": {"type": "string", "pattern": r"\S"}, "inputs": {"type": "object"}},
    "required": ["task", "inputs"],
    "additionalProperties": False,
}


def given_values(answer: Json) -> dict[str, Json] | None:
    """Returns the values of an answer that allows a call with these instead: `{"allow": {…}}`.

    It may tell with `seen` what the files were like that the call writes.
    """
    match answer:
        case {"allow": dict() as values, **rest} if not rest:
            return values
        case {"allow": dict() as values, "seen": str(), **rest} if not rest:
            return values
        case _:
            return None


def seen_of(answer: Json) -> str:
    """Returns the hash of the files that a person saw who allowed a call; empty if none."""
    match answer:
        case {"allow": str(seen)} | {"allow": dict(), "seen": str(seen)}:
            return seen
        case _:
            return ""


def allow_seen(seen: str, values: Mapping[str, Json] | None = None) -> Json:
    """Returns the answer that allows a call to files as they were seen, perhaps with own values."""
    if values is None:
        return {"allow": seen} if seen else "allow"
    return {"allow": dict(values), "seen": seen} if seen else {"allow": dict(values)}


def step_with_values(step: AnyStep, values: Mapping[str, Json], known: Known) -> AnyStep:
    """Returns the step of a call with exactly these values; refuses values that cannot be sent."""
    if not isinstance(step, ToolStep | AgentStep):
        # The parts of a changed list would be found neither by an undo nor by a new plan.
        raise Refused(
            Sentence("these values cannot be changed here, only in the plan"),
            hint=Sentence("refuse, or change the plan"),
        )
    _check(step, values, known)
    if _names_secrets(step, values):
        raise Refused(
            Sentence("these values hold the name of a secret, which only the plan itself may use"),
            hint=Sentence("refuse, or change the plan"),
        )
    return _filled(step, values)


def allowed_values(
    run: Run, asked: QuestionAsked, values: Mapping[str, Json], known: Known, seen: str = ""
) -> StepReplied:
    """Returns the permit to make a call with a person's values, and with nothing else."""
    name = asked.step or ""
    unit = named_unit(run.plan, name, known["templates"]) if run.plan is not None else None
    if unit is None:
        raise Refused(
            Sentence("these values cannot be changed here, only in the plan"),
            hint=Sentence("refuse, or change the plan"),
        )
    step_with_values(unit.step, values, known)
    return StepReplied(
        step=name,
        answer=allow_seen(seen, values),
        state=content_hash(dict(values)),
        permit=True,
        instead_of=asked.state,
    )


def permit_of(unit: Unit, state: State) -> StepReplied | None:
    """Returns a person's consent to a unit's call, perhaps to another one than it makes now."""
    # Agreeing to a repeated call is agreeing to each of its rounds.
    return state.allowed.get(unit.parent if unit.parent and unit.is_round else unit.name)


def is_own_result(undo: Undo, step: str) -> bool:
    """Tells whether an undo uses nothing of other steps: so it fits whatever values were sent."""
    return all(each.ref is not None and each.ref.step == step for each in find(dict(undo.inputs)))


def as_allowed(unit: Unit, inputs: dict[str, Json], state: State) -> tuple[Unit, dict[str, Json]]:
    """Returns a unit and its inputs as a person allowed them; a permit for others does not count.

    The unit itself is changed, because the secrets that its step names are put in once more.
    """
    permit = permit_of(unit, state)
    values = given_values(permit.answer) if permit is not None else None
    if permit is None or values is None or permit.instead_of != content_hash(inputs):
        return unit, inputs
    if _names_secrets(unit.step, values):
        return unit, inputs  # another step than the one that was asked about: it asks again
    given = unit.with_step(_filled(unit.step, values))
    return given, resolved(given, state.results)


def _filled(step: AnyStep, values: Mapping[str, Json]) -> AnyStep:
    """Returns a step in which nothing of a person's values is a reference any more."""
    if isinstance(step, AgentStep):
        task, inputs = escape_text(str(values["task"])), literal(values["inputs"])
        return step.replace(task=task, inputs=inputs)
    assert isinstance(step, ToolStep)  # noqa: S101
    inputs = {
        name: step.inputs[name] if _is_kept(step, name, value) else literal(value)
        for name, value in values.items()
    }
    return step.replace(inputs=inputs)


def _names_secrets(step: AnyStep, values: Mapping[str, Json]) -> bool:
    """Tells whether values name secrets that would be filled in; only the plan's own may be."""
    return any(
        secret_names(value) for name, value in values.items() if not _is_kept(step, name, value)
    )


def _is_kept(step: AnyStep, name: str, value: Json) -> bool:
    """Tells whether an argument stays as the plan wrote it: it names no step, nobody changed it."""
    if not isinstance(step, ToolStep) or name not in step.inputs or any(find(step.inputs[name])):
        return False
    # By their hashes, since 1 and true are equal.
    return content_hash(fill(step.inputs[name], {})) == content_hash(value)


def _check(step: ToolStep | AgentStep, values: Mapping[str, Json], known: Known) -> None:
    spec = known["tools"].get(step.tool) if isinstance(step, ToolStep) else None
    if spec is None and isinstance(step, ToolStep):
        return  # the check of the plan, or the call, tells that there is no such tool
    try:
        validator(spec.input_schema if spec else _OF_AGENTS).validate(plain_numbers(dict(values)))
    except BadSchema:
        return
    except jsonschema_rs.ValidationError as error:
        place = ".".join(map(str, error.instance_path)) or Unit("", step).callee
        misfit = Sentence("{place}: {error}", place=place, error=error.message)
        raise Refused(misfit) from None
