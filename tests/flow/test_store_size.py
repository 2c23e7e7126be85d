"""How much room a journal takes: bytes are counted, since they are the same on every machine."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from plansmith import Plan, Plansmith, tool

STEPS = 10
PLANS = 40


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


async def test_a_step_takes_little_more_room_in_a_store_than_what_it_was_given_and_returned(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    payload = 0
    async with Plansmith(tools=[work], store=f"sqlite:///{path}") as smith:
        await smith.run((await smith.submit(_plan("warm"))).id)
        before = pages(path)
        for number in range(PLANS):
            name = f"p{number:03}"
            run = await smith.run((await smith.submit(_plan(name))).id)
            for each in chain(name):
                result = run.steps[each["id"]].result
                payload += sum(len(json.dumps(it)) for it in (each, each["inputs"], result))
        beyond = (pages(path) - before - payload) / (PLANS * STEPS)
    assert beyond < 420, f"{beyond:.0f} bytes a step beyond what is worth storing"


def _plan(name: str) -> Plan:
    return Plan.model_validate({"goal": name, "steps": chain(name)})
