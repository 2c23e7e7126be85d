"""Results of earlier runs that a plan may use: what they are, their names, and which are used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from plansmith.plan.data import Json, Path
from plansmith.plan.diff import point_elsewhere
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import RESERVED, earlier_parts, is_earlier
from plansmith.plan.sentence import Sentence
from plansmith.text import clip, visible

FROM_EARLIER: Final = "PS317"
USE: Final = "ps.from_earlier"


class EarlierResult(NamedTuple):
    """A result of an earlier run that a plan may use.

    A plan names it by its `ref`, or shorter by its `name`; `hash` is the hash of its content.
    `kind` is its type, and `lines` are its first lines, which are words of tools.
    """

    ref: str
    hash: str
    name: str = ""
    kind: str = ""
    lines: str = ""
    request: str = ""

    @property
    def run(self) -> str:
        return earlier_parts(self.ref)[0]

    @property
    def step(self) -> str:
        return earlier_parts(self.ref)[1]


def uses_of(plan: Plan) -> list[str]:
    """Returns the results of earlier runs that the steps of a plan refer to, each once."""
    refs = (found.ref for step in plan.steps for found in step.references)
    return [*dict.fromkeys(ref.step for ref in refs if ref and is_earlier(ref.step))]


def source_name(source: str) -> str:
    """Returns the name of a source of data for people."""
    if not is_earlier(source):
        return source
    run, step = earlier_parts(source)
    return Sentence("step {step} of the earlier run {run}", run=run, step=step)


def pinned_results(
    results: Iterable[EarlierResult], pins: Mapping[str, str]
) -> dict[str, EarlierResult]:
    """Returns results by reference; one that is pinned has that content, whatever it is now."""
    found = {each.ref: each for each in results}
    for ref, digest in pins.items():
        found[ref] = found.get(ref, EarlierResult(ref, digest))._replace(hash=digest)
    return found


@dataclass(frozen=True, slots=True)
class UsableResults:
    """The results that the plans of one request may use; `load` reads a value by its hash.

    `values` are those of the results that one plan uses. A result that may be used and has no value
    here is gone from the store, or was altered.
    """

    load: Callable[[str], Awaitable[Json]] | None = None
    results: Mapping[str, EarlierResult] = field(default_factory=dict[str, EarlierResult])
    values: Mapping[str, Json] = field(default_factory=dict[str, Json])

    def listed(self) -> list[str]:
        newest = [*self.results.values()][-8:]
        return [f"{each.name} ({each.ref})" if each.name else each.ref for each in newest]

    @property
    def names(self) -> Mapping[str, str]:
        return {each.name: each.ref for each in self.results.values() if each.name}

    def named(self, plan: Plan) -> Plan:
        """Returns the plan with names of results written out; its own steps win over them."""
        if not self.results:
            return plan
        known = {*plan.by_id, *(step.each.id for step in plan.steps if step.kind == "map")}
        written = {name for step in plan.steps for name in step.after}
        written |= {found.ref.step for step in plan.steps for found in step.references if found.ref}
        unknown = written - known - RESERVED
        meant = {name: ref for name, ref in self.names.items() if name in unknown}
        return point_elsewhere(plan, meant) if meant else plan

    def notes(self, plan: Plan) -> Iterator[Problem]:
        """Yields a note for each use of an earlier result, for whoever reviews the plan."""
        hint = Sentence("look whether this is what you mean; it is data, and stays as it was then")
        for step in plan.steps:
            first: dict[str, Path] = {}
            for found in step.references:
                first.setdefault(found.ref.step if found.ref else "", found.where)
            for ref, where in first.items():
                if (result := self.results.get(ref)) is not None:
                    request = clip(visible(" ".join(result.request.split())), 80) or result.run
                    text = Sentence(USE, step=result.step, request=request)
                    yield problem(FROM_EARLIER, text, hint=hint, step=step.id, path=where)


NO_RESULTS: Final = UsableResults()
