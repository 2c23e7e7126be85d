from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.strategies import plans

from plansmith.errors import PlanInvalid
from plansmith.plan.graph import (
    critical_path,
    cycles,
    downstream,
    levels,
    needs,
    order,
    upstream,
)
from plansmith.plan.plan import Plan

GRAPHS = st.integers(1, 12).flatmap(
    lambda size: st.lists(
        st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=25
    ).map(lambda edges: _graph(size, edges))
)


def _graph(size: int, edges: list[tuple[int, int]]) -> dict[str, frozenset[str]]:
    graph: dict[str, frozenset[str]] = {f"n{number}": frozenset() for number in range(size)}
    for node, need in edges:
        graph[f"n{node}"] |= {f"n{need}"}
    return graph


def _reaches_itself(graph: dict[str, frozenset[str]]) -> bool:
    return any(node in upstream(graph, [node]) for node in graph)


@given(plans(10))
def test_order_respects_every_need(plan: Plan) -> None:
    graph = needs(plan)
    ordered = order(graph)
    assert sorted(ordered) == sorted(graph)
    place = {node: index for index, node in enumerate(ordered)}
    assert all(place[need] < place[node] for node in graph for need in graph[node])


@given(GRAPHS)
def test_a_graph_has_an_order_exactly_when_it_has_no_ring(graph: dict[str, frozenset[str]]) -> None:
    rings = cycles(graph)
    assert bool(rings) == _reaches_itself(graph)
    for ring in rings:
        pairs = zip(ring, [*ring[1:], ring[0]], strict=True)
        assert all(need in graph[node] for node, need in pairs)
    if rings:
        with pytest.raises(PlanInvalid):
            order(graph)
    else:
        assert len(order(graph)) == len(graph)


@given(plans(10))
def test_levels_put_each_step_behind_its_needs(plan: Plan) -> None:
    graph = needs(plan)
    rows = levels(graph)
    depth = {node: index for index, row in enumerate(rows) for node in row}
    assert sorted(depth) == sorted(graph)
    for node, before in graph.items():
        assert depth[node] == max((depth[need] + 1 for need in before), default=0)


@given(plans(10))
def test_downstream_is_upstream_seen_from_the_other_end(plan: Plan) -> None:
    graph = needs(plan)
    for node in graph:
        assert downstream(graph, [node]) == {
            other for other in graph if node in upstream(graph, [other])
        }


@given(plans(10), st.data())
def test_the_critical_path_is_the_longest_way(plan: Plan, data: st.DataObject) -> None:
    graph = needs(plan)
    durations = {node: float(data.draw(st.integers(0, 9))) for node in graph}
    path, total = critical_path(graph, durations)
    assert total == sum(durations[node] for node in path)
    ends: dict[str, float] = {}
    for node in order(graph):
        ends[node] = durations[node] + max((ends[need] for need in graph[node]), default=0.0)
    assert total == max(ends.values(), default=0.0)
    assert all(need in graph[node] for need, node in pairwise(path))
