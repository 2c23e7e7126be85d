"""Finds arguments that came from tools, and asks a person before a change is made with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from plansmith.engine.call import Callees
from plansmith.engine.outcome import Failed
from plansmith.engine.state import UnitStates
from plansmith.engine.units import Unit
from plansmith.plan.capability import is_freed
from plansmith.plan.data import Json, content_hash, content_of, json_text
from plansmith.plan.earlier import source_name
from plansmith.plan.events import QuestionAsked, StepReplied
from plansmith.plan.ids import question_name
from plansmith.plan.limits import Limits
from plansmith.plan.plan import Plan
from plansmith.plan.question_options import CONSENT
from plansmith.plan.refs import RESERVED, Ref, find, is_earlier, value_line
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AskStep, MapStep
from plansmith.review.policy import with_surroundings

_SHOWN: Final = 2000


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
    # Kinds and callees of steps that never ask: reads, and calls whose values are only shown.
    _free: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def needed(
        self, unit: Unit, inputs: dict[str, Json], permit: StepReplied | None, state: UnitStates
    ) -> QuestionAsked | Failed | None:
        """Returns the question before values from tools reach a change; or that they may not."""
        call, step = (unit.step.kind, unit.callee), unit.step
        if call in self._free:
            return None
        if step.kind != "map" and (self.limits.data == "show" or self.callees.is_read(unit)):
            self._free.add(call)
            return None
        if permit is not None and permit.state == content_hash(dict(inputs)):
            return None
        before = state.state_of(unit.name)
        number = max(before.attempts, before.asked) + 1
        if isinstance(step, MapStep):
            return self._about_items(unit, step, inputs["over"], state, number)
        if is_freed(unit.callee, self.callees.effect(unit), self.limits.data_free):
            return None
        sources = data_sources(unit, state)
        if not sources:
            return None
        if self.limits.data == "deny":
            return Failed(
                Sentence(
                    "values from {sources} may not reach {callee}",
                    sources=[*map(source_name, sources)],
                    callee=unit.callee,
                )
            )
        return _about_values(unit, inputs, sources, number)

    def _about_items(
        self, unit: Unit, step: MapStep, items: Json, state: UnitStates, number: int
    ) -> QuestionAsked | None:
        """Returns a question about a list from tools that is longer than the limit."""
        most = step.most or self.most_items
        if not isinstance(items, list) or isinstance(step.over, list) or len(items) <= most:
            return None
        refs = [found.ref for found in find(step.over) if found.ref is not None]
        sources = data_sources(unit, state, refs=refs)
        whole = Plan(steps=(step.model_copy(update={"over": items}),))
        every = with_surroundings(whole, self.templates) if sources else ()
        acting = [each for each in every if not self.callees.is_read(Unit("", each.step))]
        if not acting:
            return None
        callees = [*dict.fromkeys(each.step.callee for each in acting)]
        times = sum(each.times for each in acting)
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
    unit: Unit, inputs: Mapping[str, Json], sources: list[str], number: int
) -> QuestionAsked:
    """Returns the question that shows the values a call would send, and where they come from."""
    # The names come from a tool, too, where its whole result is what is sent.
    names = {each: each if each.isidentifier() else _quoted(each) for each in sorted(inputs)}
    values = [
        Sentence("{name} = {value}", name=shown, value=_quoted(inputs[name]))
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
    return _question(unit, dict(inputs), number, text, sources, times)


def _question(
    unit: Unit, inputs: dict[str, Json], number: int, text: str, sources: list[str], times: int
) -> QuestionAsked:
    return QuestionAsked(
        question=question_name("consent", unit.name, number),
        text=text,
        options=CONSENT,
        step=unit.name,
        state=content_hash(inputs),
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
