"""The question before values from tools reach a change, and what a person's answer allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from plansmith.check.schemas import why_misfit
from plansmith.engine.call import Callees
from plansmith.engine.outcome import Failed
from plansmith.engine.state import UnitStates
from plansmith.engine.units import Unit, named_unit, resolved
from plansmith.errors import Refused
from plansmith.plan.capability import Capabilities, is_freed
from plansmith.plan.data import Json, canonical_hash, content_of, json_text
from plansmith.plan.earlier import source_name
from plansmith.plan.events import AnyBody, QuestionAsked, StepFailed, StepReplied
from plansmith.plan.ids import question_name
from plansmith.plan.limits import Limits
from plansmith.plan.plan import Plan
from plansmith.plan.preview import CallPreview, PreviewedCall
from plansmith.plan.question_options import ALLOW, CONSENT_OPTIONS
from plansmith.plan.refs import (
    RESERVED,
    Ref,
    escape_text,
    fill,
    find_refs,
    is_earlier,
    literal,
    secret_names,
    value_line,
)
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep, AskStep, MapStep, ToolStep
from plansmith.review.policy import walk_active_steps

_SHOWN: Final = 2000
_AGENT_INPUTS: Final[dict[str, Any]] = {
    "properties": {"task": {"type": "string", "pattern": r"\S"}, "inputs": {"type": "object"}},
    "required": ["task", "inputs"],
    "additionalProperties": False,
}


def data_sources(unit: Unit, state: UnitStates, *, refs: Iterable[Ref] | None = None) -> list[str]:
    """Returns the steps whose output reaches a unit's inputs, without answers of a person.

    A result of an earlier run counts like a tool's output, whatever it was there, and so does the
    answer of a program to an ask step. `refs` are the references to follow, by default all of the
    unit's.
    """
    units, sources = state.units, dict[str, None]()
    for ref in unit.step.input_refs() if refs is None else refs:
        name = f"{unit.scope}{ref.step}"
        if ref.step in RESERVED:
            parent = units.get(unit.parent or "")
            sources |= dict.fromkeys(data_sources(parent, state) if parent else [])
        elif is_earlier(ref.step):
            sources[ref.step] = None
        elif name not in units or not isinstance(units[name].step, AskStep):
            sources[name] = None
        elif program := state.state_of(name).program:
            sources[f"{name}, answered by the program {program!r}"] = None
    return list(sources)


@dataclass(frozen=True, slots=True)
class ConsentRules:
    """Decides by the settings whether a person must agree before a step uses values from tools."""

    callees: Callees
    limits: Limits
    templates: Mapping[str, Plan]
    most_items: int
    # What a person saw in the preview that was approved, by step or part.
    seen: Mapping[str, PreviewedCall] = field(default_factory=dict[str, PreviewedCall])
    # Kinds and callees of steps that never ask: reads, and calls whose values are only shown.
    _free: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def needed(
        self, unit: Unit, inputs: dict[str, Json], permit: StepReplied | None, state: UnitStates
    ) -> QuestionAsked | Failed | None:
        """Returns the question before values from tools reach a change; or that they may not."""
        call, step = (unit.step.kind, unit.callee), unit.step
        if call in self._free:
            return None
        is_bounded = unit.callee in state.bounds
        is_shown = self.limits.data == "show" and not is_bounded
        if step.kind != "map" and (is_shown or self.callees.is_read(unit)):
            self._free.add(call)
            return None
        if permit is not None and permit.state == canonical_hash(dict(inputs)):
            return None
        before = state.state_of(unit.name)
        number = max(before.attempts, before.consents_asked) + 1
        if isinstance(step, MapStep):
            return self._about_items(unit, step, inputs["over"], state, number)
        sources = data_sources(unit, state)
        # Whoever approved a preview has agreed to what it showed, and to nothing else.
        is_asked = sources or is_bounded or (self.seen and self.callees.effect(unit).rank)
        if not is_asked or self._is_allowed(unit, inputs, state):
            return None
        if sources and self.limits.data == "deny":
            return Failed(
                Sentence(
                    "values from {sources} may not reach {callee}",
                    sources=[*map(source_name, sources)],
                    callee=unit.callee,
                )
            )
        return _about_values(unit, inputs, sources, number, self.seen.get(unit.name))

    def _is_allowed(self, unit: Unit, inputs: Mapping[str, Json], state: UnitStates) -> bool:
        """Tells whether the settings, or bounds of the approval, allow a call whatever it gets."""
        if is_freed(unit.callee, self.callees.effect(unit), self.limits.data_free):
            return True
        if unit.callee not in state.bounds:
            return False
        rounds = unit.step.repeat.at_most - 1 if unit.step.repeat is not None else 0
        return state.bounds[unit.callee].allows(inputs, state.calls_of(unit.callee) + rounds)

    def about_change(
        self, unit: Unit, inputs: dict[str, Json], shown: CallPreview, state: UnitStates
    ) -> QuestionAsked:
        """Returns the question whether a call may do something else than a person saw."""
        before = self.seen[unit.name].shown if unit.name in self.seen else None
        text = Sentence(
            "{callee} would do something else than you saw. You saw {before}. Now: {now}.",
            callee=unit.callee,
            before=_quoted(_in_short(before)),
            now=_quoted(_in_short(shown)),
        )
        of = state.state_of(unit.name)
        number = max(of.attempts, of.consents_asked) + 1
        return _question(unit, inputs, number, text, data_sources(unit, state), 0)

    def _about_items(
        self, unit: Unit, step: MapStep, items: Json, state: UnitStates, number: int
    ) -> QuestionAsked | None:
        """Returns a question about a list from tools that is longer than the limit."""
        most = step.most or self.most_items
        if not isinstance(items, list) or isinstance(step.over, list) or len(items) <= most:
            return None
        refs = [found.ref for found in find_refs(step.over) if found.ref is not None]
        sources = data_sources(unit, state, refs=refs)
        whole = Plan(steps=(step.model_copy(update={"over": items}),))
        every = walk_active_steps(whole, self.templates) if sources else ()
        acting = [each for each in every if not self.callees.is_read(Unit("", each.step))]
        if not acting:
            return None
        callees = [*dict.fromkeys(each.step.callee for each in acting)]
        times = sum(each.times for each in acting)
        if all(callee in state.bounds for callee in callees):
            return None  # what is beyond the bound is asked about when it comes
        text = Sentence(
            "{callees} would be called up to {times} times, for {count} items of {list}. "
            "At most {most} go without asking. Allow all?",
            callees=callees,
            times=times,
            count=len(items),
            list=value_line(step.over),
            most=most,
        )
        asked = _question(unit, {"over": items}, number, text, sources, times)
        return asked.replace(callee=", ".join(callees))


def _about_values(
    unit: Unit,
    inputs: Mapping[str, Json],
    sources: list[str],
    number: int,
    before: PreviewedCall | None,
) -> QuestionAsked:
    """Returns the question that shows the values a call would send, and where they come from."""
    # The names come from a tool, too, where its whole result is what is sent.
    names = {each: each if each.isidentifier() else _quoted(each) for each in sorted(inputs)}
    values = [
        Sentence("{name} = {value}", name=shown, value=_quoted(inputs[name]))
        if before is None or before.inputs.get(name) == inputs[name]
        else Sentence(
            "{name} = {value} (you saw {before})",
            name=shown,
            value=_quoted(inputs[name]),
            before=_quoted(before.inputs.get(name)),
        )
        for name, shown in names.items()
    ]
    fields = {"callee": unit.callee, "values": values, "sources": [*map(source_name, sources)]}
    text = Sentence("{callee} would be called with {values}. This comes from {sources}.", **fields)
    times = unit.step.repeat.at_most if unit.step.repeat is not None else 0
    if times:
        text = Sentence(
            "{callee} would be called up to {most} times with {values}. This comes from {sources}.",
            most=times,
            **fields,
        )
    if not sources:  # all of it is in the plan
        text = Sentence(
            "{callee} would be called with {values}. This is beyond the bounds of the approval.",
            **fields,
        )
    return _question(unit, dict(inputs), number, text, sources, times)


def _in_short(shown: CallPreview | None) -> Json:
    """Returns what a preview tells a person, without what only the call itself compares."""
    return shown.replace(seen="", touches=(), done=False).to_json() if shown is not None else None


def _question(
    unit: Unit, inputs: dict[str, Json], number: int, text: str, sources: list[str], times: int
) -> QuestionAsked:
    return QuestionAsked(
        question=question_name("consent", unit.name, number),
        text=text,
        options=CONSENT_OPTIONS,
        step=unit.name,
        state=canonical_hash(inputs),
        kind="consent",
        callee=unit.callee,
        sources=tuple(sources),
        times=times,
        values=content_of(inputs).digest,
    )


def _quoted(value: Json) -> str:
    """Returns a value as JSON: in its quotes, a text of a tool cannot pass for our own words."""
    text = json_text(value)
    whole = value if isinstance(value, str) else text
    if len(whole) <= _SHOWN:
        return text
    return Sentence(
        "{text}… (only the first {shown} of {size} characters)",
        text=json_text(whole[:_SHOWN]),  # a part of JSON would leave its last quotes open
        shown=_SHOWN,
        size=len(whole),
    )


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


def after_consent(
    asked: QuestionAsked, value: Json, run: Run, capabilities: Capabilities
) -> AnyBody:
    """Returns what follows from the answer to a question about values from tools."""
    assert asked.step is not None  # noqa: S101
    allowed = read_consent(value)
    if allowed is None:
        error = Sentence("a person refused these values")
        return StepFailed(step=asked.step, error=error, kind="refused")
    seen, values = allowed
    if values is None or canonical_hash(values) == asked.state:  # the values that were shown
        seen = seen or asked.seen
        return StepReplied(
            step=asked.step,
            answer=allow_seen(seen),
            state=asked.state,
            permit=True,
            touches=asked.touches,
        )
    unit = (
        named_unit(run.plan, asked.step, capabilities.templates) if run.plan is not None else None
    )
    require_valid(unit.step if unit is not None else None, values, capabilities)
    return StepReplied(
        step=asked.step,
        answer=allow_seen(seen, values),
        state=canonical_hash(dict(values)),
        permit=True,
        instead_of=asked.state,
    )


def require_valid(
    step: AnyStep | None, values: dict[str, Json], capabilities: Capabilities
) -> None:
    """Refuses a person's own values that cannot be sent instead."""
    hint = Sentence("refuse, or change the plan")
    if not isinstance(step, ToolStep | AgentStep):
        # The parts of a changed list would be found neither by an undo nor by a new plan.
        raise Refused(Sentence("these values cannot be changed here, only in the plan"), hint=hint)
    spec = capabilities.tools.get(step.tool) if isinstance(step, ToolStep) else None
    # A tool that is not there is reported when the plan is checked, or the call made.
    schema = spec.input_schema if spec is not None else _AGENT_INPUTS
    if (spec is not None or isinstance(step, AgentStep)) and (
        why := why_misfit(schema, dict(values))
    ):
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
    is_later = unit.is_round and not unit.name.endswith("/1")
    values = allowed.values
    seen = "" if is_later or not permit.permit else allowed.seen
    if (
        values is None
        or permit.instead_of != canonical_hash(inputs)
        or _names_secrets(step, values)
    ):
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
    if (
        not isinstance(step, ToolStep)
        or name not in step.inputs
        or any(find_refs(step.inputs[name]))
    ):
        return False
    # By their hashes, since 1 and true are equal.
    return canonical_hash(fill(step.inputs[name], {})) == canonical_hash(value)
