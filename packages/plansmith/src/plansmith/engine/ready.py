"""The queue of steps that can start, longest remaining path first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from heapq import heappop, heappush

from plansmith.plan.graph import Needs, longest_paths


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
        self._queued: set[str] = set()
        self._entered = 0
        self._done: set[str] = set()

    def add(self, needs: Needs, durations: Mapping[str, float], done: Collection[str] = ()) -> None:
        """Adds nodes, which may need each other; `done` ones count as finished."""
        self._done.update(done)
        self._weight |= longest_paths(needs, durations)
        for node, before in needs.items():
            missing = before - self._done
            self._missing[node] = len(missing)
            for need in missing:
                self._followers.setdefault(need, []).append(node)
            if not missing:
                self.put_back(node)

    def finish(self, node: str) -> None:
        """Marks a node as done: nodes that waited only for it become ready."""
        if node in self._done:
            return
        self._done.add(node)
        for follower in self._followers.get(node, ()):
            self._missing[follower] -= 1
            self.put_back(follower)

    def take(self, is_blocked: Callable[[str], bool] | None = None) -> str | None:
        """Takes the ready node with the longest remaining path that is not blocked, if any."""
        blocked: list[tuple[float, int, str]] = []
        node = None
        while self.ready and node is None:
            entry = heappop(self.ready)
            if is_blocked is not None and is_blocked(entry[2]):
                blocked.append(entry)
            else:
                node = entry[2]
                self._queued.remove(node)
        for entry in blocked:
            heappush(self.ready, entry)
        return node

    def release(self, node: str) -> None:
        """Makes a node ready whatever it still needs."""
        self._missing[node] = 0
        self.put_back(node)

    def put_back(self, node: str) -> None:
        """Makes a node ready, unless it still needs something, is ready or is done."""
        if self._missing.get(node) or node in self._done or node in self._queued:
            return
        self._queued.add(node)
        self._entered += 1
        heappush(self.ready, (-self._weight[node], self._entered, node))
