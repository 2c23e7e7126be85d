"""Reserves items, keeps the good ones, and releases them if confirming fails: with Plansmith."""

import asyncio
import json
import sys
from collections.abc import Sequence

import world

from plansmith import Limits, Plansmith, Run, ToolFailed, read_plan, tool


@tool(effect="write")
def reserve(item: str) -> str:
    """Reserve an item."""
    try:
        return world.reserve(item)
    except world.Unavailable as error:
        raise ToolFailed(str(error)) from error


@tool(effect="write")
def confirm(reservations: Sequence[str]) -> str:
    """Confirm reservations."""
    try:
        return world.confirm(reservations)
    except world.Unavailable as error:
        raise ToolFailed(str(error)) from error


release = tool(world.release, effect="write")

PLAN = read_plan("""
goal: Reserve what there is, and confirm it
steps:
  - id: reserve
    over: [bolt, nut, pin, rod, cap]
    each:
      id: each
      tool: reserve
      inputs: {item: "{{item}}"}
      on_error: skip
      undo_with: {tool: release, inputs: {reservation: "{{each}}"}}
  - {id: confirm, tool: confirm, inputs: {reservations: "{{reserve}}"}}
""")


async def finished(smith: Plansmith, run: Run) -> Run:
    if run.status == "reviewing" and run.plan:
        await smith.decide(run.id, approve=run.plan.hash, by="ada")
    return await smith.run(run.id)


async def main(verb: str, word: str = "") -> None:
    limits, store = Limits(data="show"), "sqlite:///runs.db"
    async with Plansmith(tools=[reserve, confirm, release], store=store, limits=limits) as smith:
        if verb == "start":
            run = await smith.submit(PLAN)
        else:
            *_, run = await smith.runs.all()
        if verb == "answer":
            [question] = run.questions
            answer = json.loads(word) if word.startswith("{") else word
            await smith.answer(run.id, question, answer, by="ada")
        run = await finished(smith, run)
        if run.origin.kind != "undo" and run.steps["confirm"].status == "failed":
            run = await finished(smith, await smith.runs.undo_effects(run.id))
        for asked in run.questions.values():
            world.notify(str(asked.text), str(asked.kind))


asyncio.run(main(*sys.argv[1:]))
