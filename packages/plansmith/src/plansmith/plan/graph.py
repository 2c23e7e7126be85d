"""The plan as a graph: order, cycles, dependencies and durations.

Every function takes `Needs`, a map from each node to the nodes it waits for; `needs(plan)`
makes it. Nothing here recurses, so a chain of 10,000 steps is no problem.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush

from plansmith.errors import PlanInvalid
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.sentence import Sentence

Needs = Mapping[str, frozenset[str]]


def needs(plan: Plan) -> dict[str, frozenset[str]]:
    """Returns what each step waits for; ids that are no step of the plan are left out."""
    return plan.needs.copy()


def dependents(graph: Needs) -> dict[str, list[str]]:
    """Returns which nodes wait for each node, in the graph's order."""
    reverse: dict[str, list[str]] = {node: [] for node in graph}
    for node, before in graph.items():
        for need in before:
            reverse[need].append(node)
    return reverse


def order(graph: Needs) -> list[str]:
    """Returns all nodes, each after the nodes it needs, otherwise in the graph's order."""
    result = _sequence(graph)
    if len(result) < len(graph):
        raise PlanInvalid(cycle_problems(graph))
    return result


def _sequence(graph: Needs) -> list[str]:
    """Returns the nodes in order, without those in a cycle and behind it."""
    seen: set[str] = set()
    for node, before in graph.items():
        if not before <= seen:
            return _sorted(graph)
        seen |= {node}
    return list(graph)  # most plans are written in order


def _sorted(graph: Needs) -> list[str]:
    position = {node: index for index, node in enumerate(graph)}
    names = list(graph)
    waiting = {node: len(before) for node, before in graph.items()}
    reverse = dependents(graph)
    heap = [position[node] for node, count in waiting.items() if not count]
    heapify(heap)
    result: list[str] = []
    while heap:
        node = names[heappop(heap)]
        result.append(node)
        for follower in reverse[node]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heappush(heap, position[follower])
    return result


def cycles(graph: Needs) -> list[list[str]]:
    """Returns one cycle for each group of nodes that wait for each other or for themselves."""
    rings: list[list[str]] = []
    for group in _knots(graph):
        members = set(group)
        start = next(node for node in graph if node in members)
        rings.append(_ring(graph, start, members))
    return rings


def cycle_problems(graph: Needs) -> list[Problem]:
    """Returns the cycles of a graph as problems."""
    if len(_sequence(graph)) == len(graph):
        return []
    return [_cycle_problem(ring) for ring in cycles(graph)]


def _cycle_problem(ring: list[str]) -> Problem:
    if len(ring) == 1:
        message = Sentence("step '{step}' waits for itself", step=ring[0])
        return problem(
            "PS305",
            message,
            hint=Sentence("remove the id from its own inputs and from its own `after`"),
            step=ring[0],
        )
    shown = ring if len(ring) <= 8 else [*ring[:7], "…"]
    return problem(
        "PS301",
        Sentence(
            "{count} steps wait for each other: {ring}",
            count=len(ring),
            ring=" -> ".join([*shown, ring[0]]),
        ),
        hint=Sentence("remove one of these needs, from `after` or from a reference"),
        step=ring[0],
    )


def _knots(graph: Needs) -> list[list[str]]:
    """Groups of nodes that can reach each other."""
    search = _Tarjan(graph)
    for root in graph:
        if root not in search.number:
            search.explore(root)
    return search.knots


class _Tarjan:
    """Tarjan's search for strongly connected groups, with a stack of its own."""

    def __init__(self, graph: Needs) -> None:
        self.graph = graph
        self.number: dict[str, int] = {}
        self.low: dict[str, int] = {}
        self.path: list[str] = []
        self.on_path: set[str] = set()
        self.work: list[tuple[str, Iterator[str]]] = []
        self.knots: list[list[str]] = []

    def explore(self, root: str) -> None:
        self._enter(root)
        while self.work:
            node, rest = self.work[-1]
            follower = next(rest, None)
            if follower is None:
                self._leave(node)
            elif follower not in self.number:
                self._enter(follower)
            elif follower in self.on_path:
                self.low[node] = min(self.low[node], self.number[follower])

    def _enter(self, node: str) -> None:
        self.number[node] = self.low[node] = len(self.number)
        self.path.append(node)
        self.on_path.add(node)
        self.work.append((node, iter(self.graph[node])))

    def _leave(self, node: str) -> None:
        self.work.pop()
        if self.work:
            parent = self.work[-1][0]
            self.low[parent] = min(self.low[parent], self.low[node])
        if self.low[node] == self.number[node]:
            group = [self.path.pop()]
            while group[-1] != node:
                group.append(self.path.pop())
            self.on_path.difference_update(group)
            if len(group) > 1 or node in self.graph[node]:
                self.knots.append(group)


def _ring(graph: Needs, start: str, members: set[str]) -> list[str]:
    """Returns the shortest path from a node along its needs back to itself."""
    came_from: dict[str, str] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for need in sorted(graph[node] & members):
            if need == start:
                ring = [node]
                while ring[-1] != start:
                    ring.append(came_from[ring[-1]])
                return ring[::-1]
            if need not in came_from:
                came_from[need] = node
                queue.append(need)
    return [start]


def downstream(graph: Needs, starts: Iterable[str]) -> frozenset[str]:
    """Returns everything that directly or indirectly waits for any of the starts."""
    return _reach(dependents(graph), starts)


def upstream(graph: Needs, starts: Iterable[str]) -> frozenset[str]:
    """Returns everything that any of the starts directly or indirectly waits for."""
    return _reach(graph, starts)


def _reach(edges: Mapping[str, Collection[str]], starts: Iterable[str]) -> frozenset[str]:
    seen: set[str] = set()
    todo = list(starts)
    while todo:
        for follower in edges[todo.pop()]:
            if follower not in seen:
                seen.add(follower)
                todo.append(follower)
    return frozenset(seen)


def levels(graph: Needs) -> list[list[str]]:
    """Groups nodes by the length of the longest path that leads to them."""
    depth: dict[str, int] = {}
    result: list[list[str]] = []
    for node in order(graph):
        depth[node] = max((depth[need] + 1 for need in graph[node]), default=0)
        if depth[node] == len(result):
            result.append([])
        result[depth[node]].append(node)
    return result


def tails(graph: Needs, durations: Mapping[str, float]) -> dict[str, float]:
    """Returns for each node how long the longest path from its start to the end takes."""
    return _tails(graph, durations, dependents(graph))


def _tails(
    graph: Needs, durations: Mapping[str, float], reverse: Mapping[str, list[str]]
) -> dict[str, float]:
    tail: dict[str, float] = {}
    lengths = {**dict.fromkeys(graph, 1.0), **durations}
    for node in reversed(order(graph)):
        behind = 0.0
        for follower in reverse[node]:
            if tail[follower] > behind:  # noqa: PLR1730 - a call for every edge
                behind = tail[follower]
        tail[node] = lengths[node] + behind
    return tail


def critical_path(graph: Needs, durations: Mapping[str, float]) -> tuple[list[str], float]:
    """Returns the longest path through the graph and its length; default duration is 1."""
    if not graph:
        return [], 0.0
    reverse = dependents(graph)
    tail = _tails(graph, durations, reverse)
    node = max((each for each in graph if not graph[each]), key=tail.__getitem__)
    total, path = tail[node], [node]
    while followers := reverse[node]:
        node, *others = followers
        if others:
            node = max(followers, key=tail.__getitem__)
        path.append(node)
    return path, total
