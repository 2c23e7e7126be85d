"""Estimates the time, calls and cost of a plan, from how long calls took before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import msgspec

from plansmith.lazy import lazy_modules
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec, effect_of
from plansmith.plan.graph import critical_path
from plansmith.plan.plan import Plan
from plansmith.plan.planning import CallUsage, Estimate, Measured
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep
from plansmith.plan.summary import KEPT

if TYPE_CHECKING:
    import statistics
else:
    lazy_modules(globals(), statistics="statistics")

RUNS_READ: Final = 20  # the last runs, from which a new process learns how long calls take
_GUESS: Final[dict[str, CallUsage]] = {
    "tool": CallUsage(1.5, 0),
    "agent": CallUsage(25.0, 6000),
    "ask": CallUsage(0.0, 0),
    "plan": CallUsage(20.0, 2000),
    "reply": CallUsage(4.0, 1200),
}
# A reply that no model words: its text is ready, or rules show the results.
_FILLED_IN: Final = CallUsage(0.1, 0)
_ITEMS: Final = 5


def median_cost(seen: Sequence[CallUsage]) -> Measured:
    """Returns the median time and tokens of earlier calls."""
    return Measured(
        seconds=round(statistics.median([each.seconds for each in seen]), 4),
        tokens=int(statistics.median([each.tokens for each in seen])),
    )


class Workload:
    """The steps of a plan that run, what they call and their order; all an estimate needs."""

    def __init__(
        self, plan: Plan, tools: Mapping[str, ToolSpec], agents: Mapping[str, AgentSpec]
    ) -> None:
        active = [step for step in plan.steps if not step.disabled]
        by_rules = plan.degraded is not None
        self._calls = {step.id: _calls(step, by_rules=by_rules) for step in active}
        self.names = sorted({each.name for each in self._calls.values() if each.name})
        ids = {*self._calls}
        self._graph = {name: before & ids for name, before in plan.needs.items() if name in ids}
        inner = [step.inner for step in active]
        self._effects = {"read": 0, "write": 0, "final": 0, "ask": 0, "reply": 0}
        for step in inner:
            kind = step.kind
            # What a template does is not looked up here.
            effect = Effect.WRITE if kind == "plan" else effect_of(step, tools, agents)
            self._effects[kind if kind in ("ask", "reply") else effect] += 1
        # What the estimate assumes, whatever is measured.
        self._assumed: list[Sentence] = []
        has = plan.features
        if "map" in has and any(s.kind == "map" and not isinstance(s.over, list) for s in active):
            self._assumed.append(
                Sentence("{count} items assumed for each list that is not known yet", count=_ITEMS)
            )
        if "rules" in has:
            self._assumed += _of_rules(active, inner)

    def estimate(
        self, known: Mapping[str, Measured], price_per_million: Decimal | None
    ) -> Estimate:
        seconds: dict[str, float] = {}
        tokens = 0
        for step, call in self._calls.items():
            each = known.get(call.name) or call.guess
            seconds[step] = each.seconds * call.rounds + call.pauses_s
            tokens += each.tokens * call.times
        path, longest = critical_path(self._graph, seconds)
        named = [each.name for each in self._calls.values() if each.name]
        basis = [*self._assumed]
        if named or not self._calls:
            measured = sum(name in known for name in named)
            basis.insert(0, Sentence("estimate.measured", count=measured, total=len(named)))
        price = None
        if price_per_million is None:
            basis.append(Sentence("estimate.no_price"))
        else:
            price = (Decimal(tokens) * price_per_million / 1_000_000).quantize(Decimal("0.0001"))
        if self._effects["ask"]:
            basis.append(Sentence("waiting for your answers is not counted"))
        return Estimate(
            seconds=round(longest, 1),
            tokens=tokens,
            cost_usd=None if price is None else str(price),
            effects=dict(self._effects),
            critical_path=tuple(path),
            basis=tuple(basis),
            measured=dict(known),
        )


def _of_rules(active: Sequence[AnyStep], inner: Sequence[AnyStep]) -> Iterator[Sentence]:
    if maybe := sum(step.when is not None for step in active):
        yield Sentence(
            "{count} of {total} steps run only if their condition holds; they are counted",
            count=maybe,
            total=len(active),
        )
    if any(step.repeat is not None for step in (*active, *inner)):
        yield Sentence("repeated steps are counted with all their rounds")


class _Calls(msgspec.Struct, frozen=True, gc=False):
    """What a step calls, how often, and how often one after the other."""

    name: str
    guess: CallUsage
    times: int = 1
    rounds: int = 1
    pauses_s: float = 0.0


def _calls(step: AnyStep, *, by_rules: bool) -> _Calls:
    inner = step.inner
    if step.kind == "reply" and (by_rules or step.style == "exact"):
        return _Calls("", _FILLED_IN)
    repeat, kind = inner.repeat, inner.kind
    rounds, pauses = (repeat.at_most, repeat.every) if repeat else (1, 0.0)
    pauses *= rounds - 1
    name, guess = inner.callee or kind, _GUESS[kind]
    if step.kind != "map":
        return _Calls(name, guess, rounds, rounds, pauses)
    whole, between = (step.repeat.at_most, step.repeat.every) if step.repeat else (1, 0.0)
    items = len(step.over) if isinstance(step.over, list) else _ITEMS
    turns = -(-items // step.width)
    waits = turns * pauses * whole + between * (whole - 1)
    return _Calls(name, guess, items * rounds * whole, turns * rounds * whole, waits)


class CallTimings:
    """The time and tokens of the last calls of every tool and agent."""

    def __init__(self, measured: Mapping[str, Measured] | None = None) -> None:
        self._costs: dict[str, deque[CallUsage]] = {}
        self._medians: dict[str, Measured] = {}
        for name, each in (measured or {}).items():
            self.learn({name: [CallUsage(each.seconds, each.tokens)]})

    def measured(self, names: Iterable[str]) -> dict[str, Measured]:
        """Returns the median cost of each of these tools and agents that was called before."""
        known = [name for name in names if name in self._costs]
        for name in known:
            if name not in self._medians:
                self._medians[name] = median_cost(self._costs[name])
        return {name: self._medians[name] for name in known}

    def learn(self, calls: Mapping[str, Sequence[CallUsage]]) -> None:
        """Adds the calls of a run."""
        for name, costs in calls.items():
            known = self._costs.setdefault(name, deque(maxlen=KEPT))
            known.extend(costs)
            self._medians.pop(name, None)
