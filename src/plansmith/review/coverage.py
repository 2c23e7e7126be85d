"""Compares a changed plan, and today's tools, with what a person approved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.data import Record, content_hash
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, ToolStep
from plansmith.review.calls import PlanCalls, PlannedCall
from plansmith.review.policy import active_steps


class Coverage(NamedTuple):
    """Why a person has to look at a revision, and which approved calls it no longer makes."""

    reasons: tuple[str, ...]
    drops: tuple[str, ...] = ()


def coverage(
    approved: PlanCalls, revision: PlanCalls, *, happened: Collection[str] = ()
) -> Coverage:
    """Compare a revision with what a person approved last, by the calls that could act.

    A call is covered when the approved plan makes it too: the same callee with the same
    arguments, or the same references to steps that are defined the same, for each item of the
    same list, after the same questions and steps. `happened` are the keys of steps that are done:
    nobody has to wait for them again. A tool, an agent or a host that is new asks as well, also
    when it is only read from.
    """
    match = _Match(approved, revision, frozenset(happened))
    fresh = [*match.fresh()]
    gone = [call for calls in match.open.values() for call in calls]
    told = {call.callee for call, _ in fresh}
    names = sorted(revision.names - approved.names - told)
    hosts = sorted(revision.hosts - approved.hosts)
    reasons = [
        *(Sentence("coverage.new_name", name=name) for name in (*names, *hosts)),
        *match.unguarded,
        *(_new(call, instead, approved, revision) for call, instead in fresh),
        *(Sentence("coverage.gone", call=call.text) for call in gone),
    ]
    return Coverage(tuple(dict.fromkeys(reasons)), tuple(call.text for call in gone))


class _Match:
    """Pairs each acting call of a revision with an approved one that nothing else stands for."""

    def __init__(self, approved: PlanCalls, revision: PlanCalls, happened: frozenset[str]) -> None:
        self._approved, self._revision, self._happened = approved, revision, happened
        self.open: dict[str, list[PlannedCall]] = defaultdict(list)
        for call in approved.acting:
            self.open[call.key].append(call)
        self.unguarded: list[Sentence] = []
        self._fresh = [call for call in revision.acting if not self._is_covered(call)]

    def fresh(self) -> Iterator[tuple[PlannedCall, PlannedCall | None]]:
        """The calls nobody approved, each with the approved one whose place it takes, if any."""
        for call in self._fresh:
            same = [each for calls in self.open.values() for each in calls]
            instead = next((each for each in same if each.callee == call.callee), None)
            if instead is not None:
                self.open[instead.key].remove(instead)
            yield call, instead

    def _is_covered(self, call: PlannedCall) -> bool:
        known = self.open.get(call.key)
        if not known:
            return False
        # Of equal calls, the one whose questions all still stand.
        lost, index = min((len(self._lost(each, call)), at) for at, each in enumerate(known))
        pair = known.pop(index)
        if lost:
            self.unguarded += [
                Sentence("coverage.not_asked", question=text.fields["question"], call=call.text)
                if isinstance(text, Sentence) and text.code == "call.asks"
                else Sentence("coverage.not_waited", earlier=text, call=call.text)
                for text in self._lost(pair, call).values()
            ]
        return True

    def _lost(self, before: PlannedCall, after: PlannedCall) -> dict[str, str]:
        """What came before an approved call and would not come before it any more."""
        if self._approved.history(before.place) == self._revision.history(after.place):
            return {}
        stands = self._revision.before(after.place).keys() | self._happened
        return {
            key: text
            for key, text in self._approved.before(before.place).items()
            if key not in stands
        }


def _new(
    call: PlannedCall, instead: PlannedCall | None, approved: PlanCalls, revision: PlanCalls
) -> Sentence:
    if instead is None:
        return Sentence("coverage.new_call", call=call.text)
    if instead.text != call.text:
        return Sentence("coverage.changed", call=call.text, approved=instead.text)
    # The words are the same, so what they refer to is not.
    known = set(approved.texts.values())
    other = [text for text in revision.before(call.place).values() if text not in known]
    if other:
        return Sentence("coverage.other_values_from", call=call.text, sources=other)
    return Sentence("coverage.other_values", call=call.text)


# What an agent's card is shown and offered by says nothing about what it does.
_NOT_MEANT = {"enabled", "hidden"}


def definitions(
    plan: Plan,
    *,
    tools: Mapping[str, ToolSpec],
    agents: Mapping[str, AgentSpec],
    templates: Mapping[str, Plan],
) -> dict[str, str]:
    """The hash of the definition of each tool and agent that a plan calls, where it is known."""
    found: dict[str, Record | None] = {}
    for step in active_steps(plan, templates):
        match step:
            case ToolStep(tool=name):
                found[name] = tools.get(name)
            case AgentStep(agent=name):
                found[f"agent {name}"] = agents.get(name)
            case _:
                pass
    return {
        name: content_hash(spec.model_dump(mode="json", exclude=_NOT_MEANT))
        for name, spec in sorted(found.items())
        if spec is not None
    }


def redefined(approved: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Why an approval has to be given again; nothing when all is defined as it was then."""
    return tuple(
        Sentence("review.redefined", name=name)
        for name, digest in now.items()
        if approved.get(name, digest) != digest
    )
