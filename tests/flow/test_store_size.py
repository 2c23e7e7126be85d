"""How much room a journal takes: bytes are counted, since they are the same on every machine."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from plansmith import Plan, Plansmith, tool

STEPS = 10
PLANS = 60


@tool(effect="read")
def work(step: str, needs: list[str]) -> str:
    """Does nothing."""
    del needs
    return step


def chain(name: str) -> list[dict[str, Any]]:
    return [
        {
            "id": f"s{place}",
            "tool": "work",
            "inputs": {
                "step": f"{name}.s{place}",
                "needs": [{"$from": f"s{place - 1}"}] if place else [],
            },
        }
        for place in range(STEPS)
    ]


def pages(path: Path) -> int:
    with closing(sqlite3.connect(path)) as file:
        [count] = file.execute("PRAGMA page_count").fetchone()
        [size] = file.execute("PRAGMA page_size").fetchone()
    return int(count) * int(size)


@pytest.mark.parametrize(("width", "most"), [(1, 370), (60, 360)])
async def test_a_step_takes_little_more_room_in_a_store_than_what_it_was_given_and_returned(
    tmp_path: Path, width: int, most: int
) -> None:
    path = tmp_path / "runs.db"

    async def payload_of(name: str) -> int:
        run = await smith.run((await smith.submit(_plan(name))).id)
        given = [(each, each["inputs"], run.steps[each["id"]].result) for each in chain(name)]
        return sum(len(json.dumps(each)) for some in given for each in some)

    async with Plansmith(tools=[work], store=f"sqlite:///{path}") as smith:
        await asyncio.gather(*(payload_of(f"w{number:03}") for number in range(min(width, 20))))
        before, payload = pages(path), 0
        for start in range(0, PLANS, width):
            names = [f"p{number:03}" for number in range(start, start + width)]
            payload += sum(await asyncio.gather(*map(payload_of, names)))
        beyond = (pages(path) - before - payload) / (PLANS * STEPS)
    assert beyond < most, f"{beyond:.0f} bytes a step beyond what is worth storing"


def _plan(name: str) -> Plan:
    return Plan.model_validate({"goal": name, "steps": chain(name)})
