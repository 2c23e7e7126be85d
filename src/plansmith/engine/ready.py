"""The queue of steps that can start, longest remaining path first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from heapq import heappop, heappush

from plansmith.plan.graph import Needs, dependents, tails


class ReadyQueue:
    """Returns steps as soon as all they need is done.

    Steps (nodes) may be added while others run. The node with the longest remaining path comes
    first, so that the critical path never waits for a side branch.
    """

    def __init__(self, graph: Needs, *, durations: Mapping[str, float] | None = None) -> None:
        self._weight: dict[str, float] = {}
        self._missing: dict[str, int] = {}
        self._followers: dict[str, list[str]] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._queued: set[str] = set()
        self._entered = 0
        self._done: set[str] = set()
        self.add(graph, durations=durations)

    def add(
        self,
        graph: Needs,
        *,
        durations: Mapping[str, float] | None = None,
        done: Collection[str] = (),
    ) -> None:
        """Adds nodes, which may need each other; `done` ones count as finished."""
        self._done |= set(done)
        inner = {node: before & graph.keys() for node, before in graph.items()}
        self._weight |= tails(inner, durations or {})
        for node, followers in dependents(inner).items():
            self._followers.setdefault(node, []).extend(followers)
        for node, before in graph.items():
            self._missing[node] = len(before - self._done)
            for need in before:
                # `before - graph.keys()` would go through all keys for every node.
                if need not in graph:
                    self._followers.setdefault(need, []).append(node)
            if not self._missing[node] and node not in self._done:
                self._push(node)

    def finish(self, node: str) -> None:
        """Marks a node as done: nodes that waited only for it become ready."""
        if node in self._done:
            return
        self._done.add(node)
        for follower in self._followers.get(node, ()):
            self._missing[follower] -= 1
            if not self._missing[follower]:
                self._push(follower)

    def take(self, free: int, is_blocked: Callable[[str], bool] = lambda _: False) -> list[str]:
        """Takes the ready node with the longest remaining path, if `free` allows one."""
        back: list[tuple[float, int, str]] = []
        taken: list[str] = []
        while self._heap and free > 0 and not taken:
            entry = heappop(self._heap)
            (back.append(entry) if is_blocked(entry[2]) else taken.append(entry[2]))
        self._queued.difference_update(taken)
        for entry in back:
            heappush(self._heap, entry)
        return taken

    def put_back(self, node: str) -> None:
        """Makes a taken node ready again, unless it still needs something."""
        if not self._missing.get(node) and node not in self._done:
            self._push(node)

    def _push(self, node: str) -> None:
        if node in self._queued:
            return
        self._queued.add(node)
        self._entered += 1
        heappush(self._heap, (-self._weight.get(node, 0.0), self._entered, node))
