"""Consent: what a person is asked right before something acts on what came out of tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from plansmith.plan.data import Json, content_hash
from plansmith.plan.events import QuestionAsked
from plansmith.plan.plan import Plan
from plansmith.plan.refs import find
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MapStep
from plansmith.review.policy import active_steps
from plansmith.review.render import value_line
from plansmith.runner.call import Callees
from plansmith.runner.labels import DATA_OPTIONS, data_question, data_sources
from plansmith.runner.limits import RunLimits
from plansmith.runner.state import State
from plansmith.runner.units import Unit


@dataclass(frozen=True, slots=True)
class Consent:
    """Knows what the person's settings let happen without a word."""

    callees: Callees
    limits: RunLimits
    templates: Mapping[str, Plan]
    most_items: int
    answered_by: Callable[[str], str]

    def needed(
        self, unit: Unit, inputs: Mapping[str, Json], state: State
    ) -> QuestionAsked | str | None:
        """The question to ask before a unit begins, why it may not begin at all, or nothing."""
        allowed = state.allowed.get(unit.name)
        if allowed is not None and allowed == content_hash(dict(inputs)):
            return None
        attempt = state.attempts[unit.name] + 1
        if isinstance(unit.step, MapStep):
            return self._about_items(unit, unit.step, inputs["over"], state.units, attempt)
        free = any(fnmatchcase(unit.callee, each) for each in self.limits.data_free)
        if self.limits.data == "show" or free or self.callees.is_read(unit):
            return None
        sources = data_sources(unit, state.units, self.answered_by)
        if sources and self.limits.data == "deny":
            return Sentence("step.data_denied", sources=[*sources], callee=unit.callee)
        return data_question(unit, inputs, sources, attempt) if sources else None

    def _about_items(
        self, unit: Unit, step: MapStep, items: Json, units: Mapping[str, Unit], attempt: int
    ) -> QuestionAsked | None:
        """Ask about a list out of tools that is longer than what may be acted on unasked."""
        most = step.most or self.most_items
        if not isinstance(items, list) or isinstance(step.over, list) or len(items) <= most:
            return None
        sources = self._found_out(unit, units)
        if not sources:
            return None
        callees = [*dict.fromkeys(self._acting(step))]
        if not callees:
            return None
        return QuestionAsked(
            question=f"data:{unit.name}?{attempt}",
            text=Sentence(
                "question.items",
                callees=callees,
                count=len(items),
                list=value_line(step.over),
                most=most,
            ),
            options=DATA_OPTIONS,
            step=unit.name,
            state=content_hash({"over": items}),
            kind="consent",
            callee=", ".join(callees),
            sources=tuple(sources),
            times=len(items),
        )

    def _acting(self, step: MapStep) -> Iterator[str]:
        """What the inner step calls that could change something, at every depth."""
        for inner in active_steps(Plan(steps=(step,)), self.templates):
            unit = Unit(inner.id, inner)
            if not self.callees.is_read(unit):
                yield unit.callee

    def _found_out(self, unit: Unit, units: Mapping[str, Unit]) -> list[str]:
        """The tools and programs a map step's list came out of; none if from plan or person."""
        assert isinstance(unit.step, MapStep)  # noqa: S101
        refs = [found.ref for found in find(unit.step.over) if found.ref is not None]
        return data_sources(unit, units, self.answered_by, refs=refs)
