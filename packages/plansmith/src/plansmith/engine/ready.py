"""The queue of steps that can start, longest remaining path first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from heapq import heappop, heappush
from typing import Final

from plansmith.engine.forms import StepForm
from plansmith.engine.units import Unit, plan_units
from plansmith.plan.graph import Needs, dependents, order
from plansmith.plan.plan import Plan


class ReadyGraph:
    """A graph of needs with what the queue computes from it once; never changed."""

    __slots__ = ("_callees", "backwards", "counts", "followers", "is_closed", "needs", "roots")

    def __init__(self, needs: Needs, callees: Mapping[str, str]) -> None:
        self.needs = needs
        self._callees = callees
        names = frozenset(needs)
        inner = {node: before & names for node, before in needs.items()}
        self.followers = dependents(inner)
        self.backwards = order(inner)[::-1]
        self.counts = dict(zip(needs, map(len, needs.values()), strict=True))
        self.roots = [node for node, before in needs.items() if not before]
        # Nothing outside of it is needed.
        self.is_closed = inner == needs

    def tails(self, durations: Mapping[str, float]) -> dict[str, float]:
        """Returns for each node how long the longest path from its start to the end takes.

        `durations` are those of the callees; 1 where none is known.
        """
        tails: dict[str, float] = {}
        lengths = {callee: durations.get(callee, 1.0) for callee in {*self._callees.values()}}
        for node in self.backwards:
            longest = 0.0
            for follower in self.followers[node]:
                if tails[follower] > longest:  # noqa: PLR1730 - a call for every edge
                    longest = tails[follower]
            tails[node] = longest + lengths[self._callees[node]]
        return tails


class ReadyQueue:
    """Returns steps as soon as all they need is done.

    Steps (nodes) may be added while others run. The node with the longest remaining path comes
    first, so that the critical path never waits for a side branch.
    """

    def __init__(self) -> None:
        self._weight: dict[str, float] = {}
        self._missing: dict[str, int] = {}
        self._followers: dict[str, list[str]] = {}
        self.ready: list[tuple[float, int, str]] = []
        # A dict, since a set costs a call for every node that enters or leaves.
        self._queued: dict[str, None] = {}
        self._entered = 0
        self._done: set[str] = set()

    def add(
        self, graph: ReadyGraph, *, durations: Mapping[str, float], done: Collection[str] = ()
    ) -> None:
        """Adds nodes, which may need each other; `done` ones count as finished."""
        self._done.update(done)
        self._weight |= graph.tails(durations)
        self._missing |= graph.counts
        if not self._done and not self._followers and graph.is_closed:
            self._followers = dict(graph.followers)
            for node in graph.roots:
                self._push(node)
        else:
            self._join(graph)

    def _join(self, graph: ReadyGraph) -> None:
        for node, followers in graph.followers.items():
            known = self._followers.get(node)
            # A new list, since the present one may be that of a graph.
            self._followers[node] = [*known, *followers] if known else followers
        for node, before in graph.needs.items():
            self._wait_for(node, before, graph.needs)
            if not self._missing[node] and node not in self._done:
                self._push(node)

    def _wait_for(self, node: str, before: Collection[str], added: Needs) -> None:
        for need in before:
            if need in self._done:
                self._missing[node] -= 1
            elif need not in added:
                self._followers[need] = [*self._followers.get(need, ()), node]

    def add_ready(self, node: str, duration: float) -> None:
        """Adds a node that needs nothing more, and that nothing waits for yet."""
        self._weight[node] = duration
        self._missing[node] = 0
        self._push(node)

    def are_done(self, nodes: frozenset[str]) -> bool:
        """Tells whether all these nodes are done."""
        return nodes <= self._done

    def finish(self, node: str) -> None:
        """Marks a node as done: nodes that waited only for it become ready."""
        if node in self._done:
            return
        self._done |= {node}
        if node not in self._followers:
            return
        for follower in self._followers[node]:
            self._missing[follower] -= 1
            if not self._missing[follower]:
                self._push(follower)

    def take(self, is_blocked: Callable[[str], bool] | None = None) -> str | None:
        """Takes the ready node with the longest remaining path that is not blocked, if any."""
        if is_blocked is None:
            if not self.ready:
                return None
            found = heappop(self.ready)[2]
            del self._queued[found]
            return found
        back: list[tuple[float, int, str]] = []
        taken = None
        while self.ready and taken is None:
            entry = heappop(self.ready)
            if is_blocked(entry[2]):
                back.append(entry)
            else:
                taken = entry[2]
                del self._queued[taken]
        for entry in back:
            heappush(self.ready, entry)
        return taken

    def release(self, node: str) -> None:
        """Makes a node ready whatever it still needs."""
        self._missing[node] = 0
        if node not in self._done:
            self._push(node)

    def put_back(self, node: str) -> None:
        """Makes a taken node ready again, unless it still needs something."""
        if not self._missing.get(node) and node not in self._done:
            self._push(node)

    def _push(self, node: str) -> None:
        if node in self._queued:
            return
        self._queued[node] = None
        self._entered += 1
        heappush(self.ready, (-self._weight[node], self._entered, node))


_MOST: Final = 256


class PlanForm:
    """The inputs of a plan's active steps in the form to fill, and what each step waits for."""

    __slots__ = ("_plan", "_units", "graph", "steps")

    def __init__(self, plan: Plan) -> None:
        self.steps = {step.id: StepForm(step) for step in plan.steps if not step.disabled}
        self._plan, self._units = plan, plan_units(plan, self.steps)
        units = self._units
        self.graph = ReadyGraph(
            {name: unit.needs() for name, unit in units.items()},
            {name: unit.callee for name, unit in units.items()},
        )

    def units_of(self, plan: Plan) -> Mapping[str, Unit]:
        """Returns the units of a plan with this form: those that were made with it, or new ones."""
        return self._units if plan is self._plan else plan_units(plan, self.steps)


class PlanForms:
    """Keeps the forms of plans that run more than once, by the hash of the plan.

    A form is a snapshot, and kept only if the plan still has the hash that was approved: what
    somebody changes in a plan in place reaches no other run. The hash does not tell the order in
    which a plan lists its steps, but steps start in that order.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], PlanForm | None] = {}

    def of(self, plan: Plan, digest: str) -> PlanForm:
        """Returns the form of the plan with this hash."""
        name = (digest, *[step.id for step in plan.steps])
        kept = self._kept.get(name)
        if kept is not None:
            return kept
        made = PlanForm(plan)
        if name in self._kept:  # the second run of it: now it pays to check the hash
            self._kept[name] = made if plan.hash == digest else None
        elif len(self._kept) < _MOST:
            self._kept[name] = None
        else:
            self._kept = {name: None}
        return made
