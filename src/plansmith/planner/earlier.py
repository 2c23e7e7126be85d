"""The results of earlier runs that the plans of one request may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from plansmith.errors import JournalDamaged
from plansmith.plan.data import Json
from plansmith.plan.earlier import FROM_EARLIER, USE, Earlier, EarlierResult, uses_of
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import RESERVED
from plansmith.plan.rename import point_elsewhere
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import StepFields
from plansmith.text import clip, visible

_REQUEST: Final = 80
# Returns the results that a plan for a message (its number) of a thread (its id) may use.
EarlierResults = Callable[[str, int | None], Awaitable[Sequence[EarlierResult]]]


async def no_earlier_results(_: str, __: int | None) -> Sequence[EarlierResult]:
    """Says that a plan may use nothing of earlier runs."""
    return ()


@dataclass(frozen=True, slots=True)
class UsableResults:
    """The results that the plans of one request may use; `load` reads a value by its hash."""

    load: Callable[[str], Awaitable[Json]]
    results: Mapping[str, EarlierResult] = field(default_factory=dict[str, EarlierResult])

    @property
    def names(self) -> Mapping[str, str]:
        """The references of results by their names."""
        return {each.name: each.ref for each in self.results.values() if each.name}

    def named(self, plan: Plan) -> Plan:
        """Returns the plan with names of results written out; its own steps win over them."""
        if not self.results:
            return plan
        names = self.names
        known = {*plan.by_id, *(step.each.id for step in plan.steps if step.kind == "map")}
        written = {name for step in plan.steps for name in (*_sources(step), *step.after)}
        meant = {name: names[name] for name in written - known - RESERVED if name in names}
        return point_elsewhere(plan, meant) if meant else plan

    async def used_by(self, plan: Plan) -> Earlier:
        """Returns the results with the values of those that a plan uses."""
        values: dict[str, Json] = {}
        for ref in uses_of(plan):
            known = self.results.get(ref)
            if known is None:
                continue
            try:
                values[ref] = await self.load(known.hash)
            except JournalDamaged:
                continue  # the check says that it is gone
        return Earlier(self.results, values)

    def notes(self, plan: Plan) -> Iterator[Problem]:
        """Yields a note for each use of an earlier result, for whoever reviews the plan."""
        for step in plan.steps:
            seen: set[str] = set()
            for found in step.references:
                ref = found.ref.step if found.ref is not None else ""
                if ref in self.results and ref not in seen:
                    seen.add(ref)
                    result = self.results[ref]
                    request = clip(visible(" ".join(result.request.split())), _REQUEST)
                    about = {"step": result.step, "request": request or result.run}
                    text = Sentence(USE, **about)
                    hint = Sentence("hint.earlier_data")
                    yield problem(FROM_EARLIER, text, hint=hint, step=step.id, path=found.where)


def _sources(step: StepFields) -> list[str]:
    return [found.ref.step for found in step.references if found.ref is not None]
