"""Polls until a supplier is ready, at most five times, and orders if stock is low: Plansmith."""

import asyncio
import sys

import world

from plansmith import Plansmith, read_plan, tool

poll = tool(world.poll, effect="read")
stock = tool(world.stock, effect="read")
order = tool(world.order, effect="write")

PLAN = read_plan("""
goal: Order ten if stock is low
steps:
  - {id: ready, tool: poll, repeat: {until: {equals: ["{{ready}}", true]}, at_most: 5, every: 0.2}}
  - {id: stock, tool: stock, after: [ready]}
  - {id: order, tool: order, inputs: {count: 10}, when: {below: ["{{stock}}", 10]}}
""")


async def main(verb: str, word: str = "") -> None:
    async with Plansmith(tools=[poll, stock, order], store="sqlite:///runs.db") as smith:
        if verb == "start":
            run = await smith.do(PLAN, approve=lambda _: True)
        else:
            [run] = await smith.runs.all()
            if verb == "answer":
                [question] = run.questions
                await smith.answer(run.id, question, word, by="ada")
            run = await smith.run(run.id)
        for asked in run.questions.values():
            world.notify(str(asked.text), str(asked.kind))


asyncio.run(main(*sys.argv[1:]))
