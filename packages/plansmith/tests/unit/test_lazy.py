"""Parts, modules and patterns that are made or loaded when they are first used."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from plansmith import Plan, Plansmith, tool
from plansmith.errors import Misconfigured
from plansmith.store.memory import MemoryStore


@tool(effect="read")
def look() -> str:
    return "seen"


LOOK = Plan.model_validate({"goal": "look", "steps": [{"id": "a", "tool": "look"}]})


class ClosingStore(MemoryStore):
    """A store that counts how often it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1


class ClosingTools:
    """A tool source that counts how often it is closed."""

    closed = 0

    async def tools(self) -> list[Any]:
        return []

    async def call(self, tool: str, arguments: Any, call: Any) -> Any:
        raise AssertionError(tool)

    async def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("shared", [False, True])
async def test_a_plansmith_closes_its_tools_once_and_its_store_unless_it_is_shared(
    used: bool, shared: bool
) -> None:
    store, source = ClosingStore(), ClosingTools()
    smith = Plansmith(store=store, tools=[look, source], shared_store=shared)
    if used:
        await smith.run((await smith.submit(LOOK)).id)
    await smith.close()
    assert (store.closed, source.closed) == (0 if shared else 1, 1)


def test_a_wrong_part_of_a_plansmith_is_refused_when_it_is_given_not_when_it_is_used() -> None:
    with pytest.raises(Misconfigured, match="no kind of store 'mysql'"):
        Plansmith(store="mysql://here")
    with pytest.raises(Misconfigured, match="two tools are called 'look'"):
        Plansmith(tools=[look, look])
    same = SimpleNamespace(spec=SimpleNamespace(name="ann"))
    with pytest.raises(Misconfigured, match="two agents are called 'ann'"):
        Plansmith(agents=cast("Any", [same, same]))


async def test_the_folder_of_a_plansmith_is_that_of_its_making(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    smith = Plansmith(tools=[look], folder=".")
    monkeypatch.chdir("/")
    assert (await smith.submit(LOOK)).folder == str(tmp_path)


def test_threads_that_use_a_plansmith_at_the_same_time_share_its_parts() -> None:
    smith, gate = Plansmith(tools=[look]), threading.Barrier(8)
    found: list[tuple[int, int, int]] = []

    def use() -> None:
        gate.wait()
        found.append((id(smith.schedules), id(smith.runs), id(smith.templates)))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 8
    assert len(set(found)) == 1
