"""Maps a function over many rows in several processes that share what is loaded already."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")
_CHUNK: Final = 200
# What the processes call; they are forked, so nothing that it holds has to travel.
_shared: list[Callable[[Any], Any]] = []


def in_processes(function: Callable[[T], R], items: Iterable[T], jobs: int) -> list[R]:
    """Returns the results in the order of the items."""
    items = list(items)
    if jobs < 2 or "fork" not in multiprocessing.get_all_start_methods():
        return list(map(function, items))
    _shared.append(function)
    try:
        with multiprocessing.get_context("fork").Pool(jobs) as pool:
            return pool.map(_call, items, chunksize=min(_CHUNK, -(-len(items) // (4 * jobs)) or 1))
    finally:
        _shared.pop()


def _call(item: Any) -> Any:
    return _shared[-1](item)
