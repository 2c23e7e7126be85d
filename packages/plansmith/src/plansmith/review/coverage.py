"""Compares a changed plan, and the present tools, with what a person approved."""

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
    """Why a person must review a revision, and which approved calls it no longer makes."""

    reasons: tuple[str, ...]
    drops: tuple[str, ...] = ()


def coverage(
    approved: PlanCalls, revision: PlanCalls, *, happened: Collection[str] = ()
) -> Coverage:
    """Compares a revision with the plan approved last, by the calls that could change something.

    A call is covered if the approved plan makes it too: the same callee with the same arguments
    (or references to steps defined the same), for each item of the same list, after the same
    questions and steps. `happened` are the keys of finished steps, which need not come again. A
    new tool, agent or host needs a review as well, even for reading.
    """
    match = _Match(approved, revision, frozenset(happened))
    new_calls = [*match.new_calls()]
    dropped = [call for calls in match.open.values() for call in calls]
    listed = {call.callee for call, _ in new_calls}
    names = sorted(revision.names - approved.names - listed)
    hosts = sorted(revision.hosts - approved.hosts)
    reasons = [
        *(Sentence("{name} was not in the plan before", name=name) for name in (*names, *hosts)),
        *match.unguarded,
        *(_new_call_reason(call, instead, approved, revision) for call, instead in new_calls),
        *(
            Sentence("no longer calls {call}, which you approved", call=call.text)
            for call in dropped
        ),
    ]
    return Coverage(tuple(dict.fromkeys(reasons)), tuple(call.text for call in dropped))


class _Match:
    """Pairs each changing call of a revision with one approved call, each used once."""

    def __init__(self, approved: PlanCalls, revision: PlanCalls, happened: frozenset[str]) -> None:
        self._approved, self._revision, self._happened = approved, revision, happened
        self.open: dict[str, list[PlannedCall]] = defaultdict(list)
        for call in approved.acting:
            self.open[call.key].append(call)
        self.unguarded: list[Sentence] = []
        self._new_calls = [call for call in revision.acting if not self._is_covered(call)]

    def new_calls(self) -> Iterator[tuple[PlannedCall, PlannedCall | None]]:
        """Yields the calls that nobody approved, with the approved call that each replaces."""
        for call in self._new_calls:
            same = [each for calls in self.open.values() for each in calls]
            instead = next((each for each in same if each.callee == call.callee), None)
            if instead is not None:
                self.open[instead.key].remove(instead)
            yield call, instead

    def _is_covered(self, call: PlannedCall) -> bool:
        known = self.open.get(call.key)
        if not known:
            return False
        # Of equal calls, take the one that loses the fewest earlier questions and steps.
        missing, index = min(
            (len(self._missing_before(each, call)), at) for at, each in enumerate(known)
        )
        pair = known.pop(index)
        if missing:
            self.unguarded += [
                Sentence(
                    "no longer asks '{question}' before {call}",
                    question=text.fields["question"],
                    call=call.text,
                )
                if isinstance(text, Sentence) and text.key == "call.asks"
                else Sentence(
                    "no longer waits for {earlier} before {call}", earlier=text, call=call.text
                )
                for text in self._missing_before(pair, call).values()
            ]
        self.unguarded += [
            Sentence(
                "calls {call} only after {earlier}, which may be skipped",
                earlier=text,
                call=call.text,
            )
            for text in self._new_doubts(pair, call)
        ]
        return True

    def _new_doubts(self, before: PlannedCall, after: PlannedCall) -> list[str]:
        """Returns the new steps before a call that may be skipped, and the call with them."""
        if self._approved.history(before.place) == self._revision.history(after.place):
            return []
        known = self._approved.before(before.place).keys() | self._happened
        doubts = self._revision.before(after.place, uncertain=True)
        return [text for key, text in doubts.items() if key not in known]

    def _missing_before(self, before: PlannedCall, after: PlannedCall) -> dict[str, str]:
        """Returns the steps before an approved call that do not come before the new one."""
        if self._approved.history(before.place) == self._revision.history(after.place):
            return {}
        kept = self._revision.before(after.place).keys() | self._happened
        return {
            key: text
            for key, text in self._approved.before(before.place).items()
            if key not in kept
        }


def _new_call_reason(
    call: PlannedCall, instead: PlannedCall | None, approved: PlanCalls, revision: PlanCalls
) -> Sentence:
    if instead is None:
        return Sentence("calls {call}, which you have not approved", call=call.text)
    if instead.text != call.text:
        return Sentence(
            "calls {call} instead of {approved}, which you approved",
            call=call.text,
            approved=instead.text,
        )
    # The texts are the same, so their references point at something else.
    known = set(approved.texts.values())
    other = [text for text in revision.before(call.place).values() if text not in known]
    if other:
        return Sentence(
            "calls {call} with other values than you approved: {sources} is new",
            call=call.text,
            sources=other,
        )
    return Sentence("calls {call} with other values than you approved", call=call.text)


# Whether an agent is enabled or hidden says nothing about what it does.
_NOT_COMPARED = {"enabled", "hidden"}


def definitions(
    plan: Plan,
    *,
    tools: Mapping[str, ToolSpec],
    agents: Mapping[str, AgentSpec],
    templates: Mapping[str, Plan],
) -> dict[str, str]:
    """Returns the hash of the definition of each known tool and agent that a plan calls."""
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
        name: content_hash(spec.model_dump(mode="json", exclude=_NOT_COMPARED))
        for name, spec in sorted(found.items())
        if spec is not None
    }


def redefined(approved: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Returns a reason for each tool or agent that has changed since the approval."""
    return tuple(
        Sentence("review.redefined", name=name)
        for name, digest in now.items()
        if approved.get(name, digest) != digest
    )
