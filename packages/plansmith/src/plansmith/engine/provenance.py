"""Finds arguments that came from tools, and asks a person before a change is made with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from plansmith.engine.call import Callees
from plansmith.engine.given_values import given_values, permit_of, seen_of
from plansmith.engine.progress import Batch
from plansmith.engine.state import State
from plansmith.engine.units import Unit
from plansmith.plan.capability import is_freed
from plansmith.plan.data import Json, content_hash, content_of, json_text
from plansmith.plan.earlier import source_name
from plansmith.plan.events import AnyBody, QuestionAsked, StepFailed, StepReplied
from plansmith.plan.limits import Limits
from plansmith.plan.plan import Plan
from plansmith.plan.refs import RESERVED, Ref, find, is_earlier
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AskStep, MapStep
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
