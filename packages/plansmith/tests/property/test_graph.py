from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.strategies import plans

from plansmith.errors import PlanInvalid
from plansmith.plan.graph import cycle_problems, order, upstream
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
    graph = plan.needs
    ordered = order(graph)
    assert sorted(ordered) == sorted(graph)
    place = {node: index for index, node in enumerate(ordered)}
    assert all(place[need] < place[node] for node in graph for need in graph[node])


@given(GRAPHS)
def test_a_graph_has_an_order_exactly_when_it_has_no_ring(graph: dict[str, frozenset[str]]) -> None:
    found = cycle_problems(graph)
    assert bool(found) == _reaches_itself(graph)
    if found:
        assert found[0].step in upstream(graph, [str(found[0].step)])
        with pytest.raises(PlanInvalid):
            order(graph)
    else:
        assert len(order(graph)) == len(graph)
