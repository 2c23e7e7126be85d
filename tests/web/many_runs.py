"""Fills the store of a stage with many runs, best before its server starts.

    python -m tests.web.many_runs FOLDER RUNS WAITING

The last WAITING of them wait for the approval of their plan; the others are over.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.web.stage import Stage

from plansmith.app import Plansmith
from plansmith.plan.plan import Plan

CITIES = ("Oslo", "Rome", "Bergen", "Lima", "Kyoto")


def _plan(number: int) -> Plan:
    city = CITIES[number % len(CITIES)]
    note = {"path": f"{city}.md", "text": f"Trip {number}"}
    steps = [
        {"id": "look", "tool": "weather.forecast", "inputs": {"city": city}},
        {"id": "note", "tool": "notes.write", "inputs": note, "after": ["look"]},
    ]
    return Plan.model_validate({"goal": f"Trip {number} to {city}", "steps": steps})


async def _made(smith: Plansmith, number: int, *, waits: bool) -> None:
    run = await smith.submit(_plan(number), by="ada")
    assert run.plan is not None
    if waits:
        return
    if number % 20:
        await smith.decide(run.id, reject=True, by="ada")
        return
    await smith.decide(run.id, approve=run.plan.hash, by="ada")
    await smith.run(run.id)


async def fill(folder: Path, runs: int, waiting: int) -> None:
    """Make the runs, some at a time."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    smith = Plansmith(tools=[Stage(folder)], store=f"sqlite:///{folder / 'runs.db'}", folder=work)
    for start in range(0, runs, 50):
        some = range(start, min(runs, start + 50))
        await asyncio.gather(
            *(_made(smith, number, waits=number >= runs - waiting) for number in some)
        )
    await smith.close()


if __name__ == "__main__":
    asyncio.run(fill(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
