"""The plan as a graph: order, cycles, dependencies and durations.

Every function takes `Needs`, a map from each node to the nodes it waits for; `plan.needs`
makes it. Nothing here recurses, so a chain of 10,000 steps is no problem.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

from plansmith.errors import PlanInvalid
from plansmith.plan.plan import Plan, dependents
from plansmith.plan.problem import Problem, problem
from plansmith.plan.sentence import Sentence

Needs = Mapping[str, frozenset[str]]


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
            break
        seen.add(node)
    else:
        return list(graph)  # most plans are written in order, and each is sorted several times
    names, result = list(graph), list[str]()
    position = {node: index for index, node in enumerate(names)}
    waiting = {node: len(before) for node, before in graph.items()}
    reverse = dependents(graph)
    heap = [position[node] for node, count in waiting.items() if not count]
    while heap:
        node = names[heappop(heap)]
        result.append(node)
        for follower in reverse[node]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heappush(heap, position[follower])
    return result


def cycle_problems(graph: Needs) -> list[Problem]:
    """Returns the first cycle of a graph as a problem; none if it has no cycle."""
    ring = _ring(graph) if len(_sequence(graph)) < len(graph) else []
    if not ring:
        return []
    code, message = "PS305", Sentence("step '{step}' waits for itself", step=ring[0])
    hint = Sentence("remove the id from its own inputs and from its own `after`")
    if len(ring) > 1:
        path = " -> ".join([*(ring if len(ring) <= 8 else [*ring[:7], "…"]), ring[0]])
        about = {"count": len(ring), "ring": path}
        code, message = "PS301", Sentence("{count} steps wait for each other: {ring}", **about)
        hint = Sentence("remove one of these needs, from `after` or from a reference")
    return [problem(code, message, hint=hint, step=ring[0])]


def _ring(graph: Needs) -> list[str]:
    """Returns the nodes of a cycle: each waits for the next, and the last for the first."""
    try:
        TopologicalSorter({node: sorted(before) for node, before in graph.items()}).prepare()
    except CycleError as error:
        ring: list[str] = error.args[1][:0:-1]
        place = {node: index for index, node in enumerate(graph)}
        start = ring.index(min(ring, key=place.__getitem__))
        return ring[start:] + ring[:start]
    return []


def downstream(graph: Needs, starts: Iterable[str]) -> frozenset[str]:
    """Returns everything that directly or indirectly waits for any of the starts."""
    return _reach(dependents(graph), starts)


def steps_behind(plan: Plan, step: str) -> frozenset[str]:
    """Returns the steps of a plan that directly or indirectly wait for one of them."""
    return _reach(plan.needed_by, [step])


def upstream(graph: Needs, starts: Iterable[str]) -> frozenset[str]:
    """Returns everything that any of the starts directly or indirectly waits for."""
    return _reach(graph, starts)


def _reach(edges: Mapping[str, Collection[str]], starts: Iterable[str]) -> frozenset[str]:
    seen, todo = set[str](), list(starts)
    while todo:
        new = [each for each in edges[todo.pop()] if each not in seen]
        seen.update(new)
        todo += new
    return frozenset(seen)


def longest_paths(graph: Needs, durations: Mapping[str, float]) -> dict[str, float]:
    """Returns for each node how long the longest path from its start to the end takes.

    Needs that are not in the graph are ignored; a duration is 1 by default.
    """
    nodes = {*graph}
    inner = {node: before & nodes for node, before in graph.items()}
    paths = dict.fromkeys(graph, 0.0)
    for node in reversed(order(inner)):
        paths[node] += durations.get(node, 1.0)
        for need in inner[node]:
            paths[need] = max(paths[need], paths[node])
    return paths


def critical_path(graph: Needs, durations: Mapping[str, float]) -> tuple[list[str], float]:
    """Returns the longest path through the graph and its length; default duration is 1."""
    if not graph:
        return [], 0.0
    longest, followers = longest_paths(graph, durations), dependents(graph)
    path = [max((each for each in graph if not graph[each]), key=longest.__getitem__)]
    while after := followers[path[-1]]:
        path.append(max(after, key=longest.__getitem__))
    return path, longest[path[0]]
