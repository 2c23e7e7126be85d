"""Finds arguments that came from tools, and asks a person before a change is made with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import jsonschema_rs

from plansmith.check.schemas import BadSchema, validator
from plansmith.engine.call import Callees
from plansmith.engine.progress import Batch
from plansmith.engine.state import State
from plansmith.engine.units import Known, Unit, named_unit, resolved
from plansmith.errors import Refused
from plansmith.plan.capability import is_freed
from plansmith.plan.data import Json, content_hash, content_of, json_text, plain_numbers
from plansmith.plan.earlier import source_name
from plansmith.plan.events import (
    AnyBody,
    QuestionAsked,
    StepFailed,
    StepReplied,
)
from plansmith.plan.limits import Limits
from plansmith.plan.plan import Plan
from plansmith.plan.refs import (
    RESERVED,
    Ref,
    escape_text,
    fill,
    find,
    is_earlier,
    literal,
    secret_names,
)
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep, AskStep, MapStep, ToolStep, Undo
from plansmith.review.policy import active_steps
from plansmith.review.render import value_line

ALLOW: Final = "allow"
DATA_OPTIONS: Final = (ALLOW, "refuse")
_SHOWN: Final = 2000


def data_sources(
    unit: Unit,
    units: Mapping[str, Unit],
    answered_by: Callable[[str], str],
    *,
    refs: Iterable[Ref] | None = None,
) -> list[str]:
    """Returns the steps whose output reaches a unit's inputs, without answers of a person.

    A result of an earlier run counts like a tool's output, whatever it was there. `answered_by`
    returns the program that answered an ask step: such an answer counts like a tool's output too.
    `refs` are the references to follow, by default all of the unit's.
    """
    found: dict[str, None] = {}
    for ref in unit.step.refs() if refs is None else refs:
        if ref.step in RESERVED:
            parent = units.get(unit.parent or "")
            found |= dict.fromkeys(data_sources(parent, units, answered_by) if parent else [])
            continue
        if is_earlier(ref.step):
            found[ref.step] = None
            continue
        name = f"{unit.scope}{ref.step}"
        source = units.get(name)
        if source is None or not isinstance(source.step, AskStep):
            found[name] = None
        elif program := answered_by(name):
            found[f"{name}, answered by the program {program!r}"] = None
    return list(found)


def data_question(
    unit: Unit, inputs: Mapping[str, Json], sources: list[str], attempt: int
) -> QuestionAsked:
    """Returns the question that shows the values a call would send, and where they come from."""
    shown = [
        Sentence("{name} = {value}", name=name, value=_cut_text(v))
        for name, v in sorted(inputs.items())
    ]
    fields = {"callee": unit.callee, "values": shown, "sources": [*map(source_name, sources)]}
    text = Sentence("{callee} would be called with {values}. This comes from {sources}.", **fields)
    times = unit.step.repeat.at_most if unit.step.repeat is not None else 0
    if times:
        text = Sentence(
            "{callee} would be called up to {most} times with {values}. This comes from {sources}.",
            most=times,
            **fields,
        )
    return QuestionAsked(
        question=f"data:{unit.name}?{attempt}",
        text=text,
        options=DATA_OPTIONS,
        step=unit.name,
        state=content_hash(inputs),
        kind="consent",
        callee=unit.callee,
        sources=tuple(sources),
        times=times,
        values=content_of(dict(inputs)).digest,
    )


def is_allowed(answer: Json) -> bool:
    """Tells whether an answer gives consent.

    It is `allow`, `{"allow": HASH}` of the files seen, or `{"allow": VALUES}` to use instead.
    """
    match answer:
        case {"allow": str(), **rest}:
            return not rest
        case _:
            return answer == ALLOW or given_values(answer) is not None


def seen_files(unit: Unit, state: State) -> str:
    """Returns the hash of the files that a person saw who consented to a call; empty if none.

    A repeated call changes them itself: they count for its first round alone.
    """
    is_later = unit.is_round and not unit.name.endswith("/1")
    permit = None if is_later else permit_of(unit, state)
    return seen_of(permit.answer) if permit is not None and permit.permit else ""


def settle_data(asked: QuestionAsked, value: Json) -> list[AnyBody]:
    """Returns the events that follow from the answer to a question about values from tools."""
    assert asked.step is not None  # noqa: S101
    if is_allowed(value):
        return [StepReplied(step=asked.step, answer=value, state=asked.state, permit=True)]
    error = Sentence("a person refused these values")
    return [StepFailed(step=asked.step, error=error, kind="refused")]


def _cut_text(value: Json) -> str:
    text = value if isinstance(value, str) else json_text(value)
    if len(text) <= _SHOWN:
        return text
    return Sentence(
        "{text}… (only the first {shown} of {size} characters)",
        text=text[:_SHOWN],
        shown=_SHOWN,
        size=len(text),
    )


def _items_text(*, rounds: int, **told: Any) -> Sentence:
    if rounds == 1:
        return Sentence(
            "{callees} would be called {count} times, once for each item "
            "of {list}. At most {most} go without asking. Allow all "
            "{count}?",
            **told,
        )
    return Sentence(
        "{callees} would be called {count} times in each of up to "
        "{rounds} rounds, once for each item of {list}. At most "
        "{most} go without asking. Allow all?",
        rounds=rounds,
        **told,
    )


@dataclass(frozen=True, slots=True)
class Consent:
    """Decides by the settings whether a person must agree before a step uses values from tools."""

    callees: Callees
    limits: Limits
    templates: Mapping[str, Plan]
    most_items: int
    answered_by: Callable[[str], str]
    # Kinds and callees of steps that never ask.
    free: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def asks_first(self, unit: Unit, inputs: dict[str, Json], state: State, batch: Batch) -> bool:
        """Asks a person before values from tools reach a step that changes something."""
        if not self.may_be_needed(unit):
            self.free.add((unit.step.kind, unit.callee))
            return False
        need = self.needed(unit, inputs, state)
        if need is None:
            return False
        if isinstance(need, str):
            state.fail(unit, need, batch)
        else:
            batch.bodies.append(need)
            batch.values.append(inputs)
            state.ask_first(unit, batch)
        return True

    def may_be_needed(self, unit: Unit) -> bool:
        """Tells whether a unit could need consent: not a read, nor a call with values as shown."""
        if unit.step.kind == "map":
            return True
        return self.limits.data != "show" and not self.callees.is_read(unit)

    def needed(
        self, unit: Unit, inputs: Mapping[str, Json], state: State
    ) -> QuestionAsked | str | None:
        """Returns the question to ask before a unit starts, or why it may not start, or None."""
        allowed = permit_of(unit, state)
        if allowed is not None and allowed.state == content_hash(dict(inputs)):
            return None
        attempt = max(state.attempts.get(unit.name, 0), state.asked.get(unit.name, 0)) + 1
        if isinstance(unit.step, MapStep):
            return self._about_items(unit, unit.step, inputs["over"], state.units, attempt)
        if is_freed(unit.callee, self.callees.effect(unit), self.limits.data_free):
            return None
        sources = data_sources(unit, state.units, self.answered_by)
        if sources and self.limits.data == "deny":
            return Sentence(
                "values from {sources} may not reach {callee}",
                sources=[*map(source_name, sources)],
                callee=unit.callee,
            )
        return data_question(unit, inputs, sources, attempt) if sources else None

    def _about_items(
        self, unit: Unit, step: MapStep, items: Json, units: Mapping[str, Unit], attempt: int
    ) -> QuestionAsked | None:
        """Returns a question about a list from tools that is longer than the limit."""
        most = step.most or self.most_items
        if not isinstance(items, list) or isinstance(step.over, list) or len(items) <= most:
            return None
        sources = self._list_sources(unit, units)
        if not sources:
            return None
        callees = [*dict.fromkeys(self._acting(step))]
        if not callees:
            return None
        rounds = step.repeat.at_most if step.repeat is not None else 1
        return QuestionAsked(
            question=f"data:{unit.name}?{attempt}",
            text=_items_text(
                callees=callees,
                count=len(items),
                list=value_line(step.over),
                most=most,
                rounds=rounds,
            ),
            options=DATA_OPTIONS,
            step=unit.name,
            state=content_hash({"over": items}),
            kind="consent",
            callee=", ".join(callees),
            sources=tuple(sources),
            times=len(items) * rounds,
            values=content_of({"over": items}).digest,
        )

    def _acting(self, step: MapStep) -> Iterator[str]:
        """Yields what the inner step calls that could change something, at every depth."""
        for inner in active_steps(Plan(steps=(step,)), self.templates):
            unit = Unit(inner.id, inner)
            if not self.callees.is_read(unit):
                yield unit.callee

    def _list_sources(self, unit: Unit, units: Mapping[str, Unit]) -> list[str]:
        """Returns the tools and programs that made a map step's list; none if a person did."""
        assert isinstance(unit.step, MapStep)  # noqa: S101
        refs = [found.ref for found in find(unit.step.over) if found.ref is not None]
        return data_sources(unit, units, self.answered_by, refs=refs)


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
    _check_given(step, values, known)
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


def _check_given(step: ToolStep | AgentStep, values: Mapping[str, Json], known: Known) -> None:
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
