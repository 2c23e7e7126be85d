"""What a person's answer about values from tools allows, and the call as it was allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from plansmith.engine.outcome import misfit
from plansmith.engine.units import Unit, named_unit, resolved
from plansmith.errors import Refused
from plansmith.plan.data import Json, content_hash
from plansmith.plan.events import AnyBody, QuestionAsked, StepFailed, StepReplied
from plansmith.plan.question_options import ALLOW
from plansmith.plan.refs import escape_text, fill, find, literal, secret_names
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep, ToolStep
from plansmith.review.policy import Environment

_OF_AGENTS: Final[dict[str, Any]] = {
    "properties": {"task": {"type": "string", "pattern": r"\S"}, "inputs": {"type": "object"}},
    "required": ["task", "inputs"],
    "additionalProperties": False,
}


class Allowed(NamedTuple):
    """An answer that allows a call: to files as they were `seen`, perhaps with other `values`."""

    seen: str = ""
    values: dict[str, Json] | None = None


def read_consent(answer: Json) -> Allowed | None:
    """Returns what an answer allows; None if it gives no consent.

    It is `allow`, `{"allow": HASH}` of the files seen, or `{"allow": VALUES}` to use instead, which
    may tell with `seen` what the files were like that the call writes.
    """
    match answer:
        case "allow":
            return Allowed()
        case {"allow": str(seen), **rest} if not rest:
            return Allowed(seen)
        case {"allow": dict(values), "seen": str(seen), **rest} if not rest:
            return Allowed(seen, values)
        case {"allow": dict(values), **rest} if not rest:
            return Allowed("", values)
        case _:
            return None


def given_values(answer: Json) -> dict[str, Json] | None:
    """Returns the values of an answer that allows a call with these instead."""
    found = read_consent(answer)
    return found.values if found is not None else None


def allow_seen(seen: str, values: Mapping[str, Json] | None = None) -> Json:
    """Returns the answer that allows a call to files as they were seen, perhaps with own values."""
    if values is None:
        return {"allow": seen} if seen else ALLOW
    return {"allow": dict(values), "seen": seen} if seen else {"allow": dict(values)}


def after_consent(asked: QuestionAsked, value: Json, run: Run, environment: Environment) -> AnyBody:
    """Returns what follows from the answer to a question about values from tools."""
    assert asked.step is not None  # noqa: S101
    allowed = read_consent(value)
    if allowed is None:
        error = Sentence("a person refused these values")
        return StepFailed(step=asked.step, error=error, kind="refused")
    seen, values = allowed
    if values is None or content_hash(values) == asked.state:  # the values that were shown
        return StepReplied(step=asked.step, answer=allow_seen(seen), state=asked.state, permit=True)
    unit = named_unit(run.plan, asked.step, environment.templates) if run.plan is not None else None
    _require_valid(unit.step if unit is not None else None, values, environment)
    return StepReplied(
        step=asked.step,
        answer=allow_seen(seen, values),
        state=content_hash(dict(values)),
        permit=True,
        instead_of=asked.state,
    )


def _require_valid(step: AnyStep | None, values: dict[str, Json], environment: Environment) -> None:
    """Refuses a person's own values that cannot be sent instead."""
    hint = Sentence("refuse, or change the plan")
    if not isinstance(step, ToolStep | AgentStep):
        # The parts of a changed list would be found neither by an undo nor by a new plan.
        raise Refused(Sentence("these values cannot be changed here, only in the plan"), hint=hint)
    spec = environment.tools.get(step.tool) if isinstance(step, ToolStep) else None
    # A tool that is not there is reported when the plan is checked, or the call made.
    schema = spec.input_schema if spec is not None else _OF_AGENTS
    if (spec is not None or isinstance(step, AgentStep)) and (why := misfit(schema, dict(values))):
        raise Refused(f"{Unit('', step).callee}: {why}")
    if _names_secrets(step, values):
        raise Refused(
            Sentence("these values hold the name of a secret, which only the plan itself may use"),
            hint=hint,
        )


def as_allowed(
    unit: Unit, inputs: dict[str, Json], permit: StepReplied, results: Mapping[str, Json]
) -> tuple[Unit, dict[str, Json], str]:
    """Returns a unit and its inputs as a person allowed them, and the hash of the files seen.

    A permit for other inputs does not count. A repeated call changes the files itself: they count
    for its first round alone. The unit itself is changed, because the secrets that its step names
    are put in once more.
    """
    step, allowed = unit.step, read_consent(permit.answer) or Allowed()
    is_later, values = unit.is_round and not unit.name.endswith("/1"), allowed.values
    seen = "" if is_later or not permit.permit else allowed.seen
    if values is None or permit.instead_of != content_hash(inputs) or _names_secrets(step, values):
        # Perhaps it is another step than the one that was asked about: then it asks again.
        return unit, inputs, seen
    # Nothing of a person's values is a reference any more.
    if isinstance(step, AgentStep):
        task, more = escape_text(str(values["task"])), literal(values["inputs"])
        changed = unit.with_step(step.replace(task=task, inputs=more))
    else:
        assert isinstance(step, ToolStep)  # noqa: S101
        filled = {
            name: step.inputs[name] if _is_kept(step, name, value) else literal(value)
            for name, value in values.items()
        }
        changed = unit.with_step(step.replace(inputs=filled))
    return changed, resolved(changed, results), seen


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
