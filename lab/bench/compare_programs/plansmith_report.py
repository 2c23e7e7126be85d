"""Reads three sources at once, asks a person, and writes one file: with Plansmith."""

import asyncio
import sys

import world

from plansmith import Plansmith, read_plan, tool

read = tool(world.read, effect="read")
write = tool(world.write, effect="write")

PLAN = read_plan("""
goal: Write a report of three sources
steps:
  - {id: alpha, tool: read, inputs: {source: alpha}}
  - {id: beta, tool: read, inputs: {source: beta}}
  - {id: gamma, tool: read, inputs: {source: gamma}}
  - {id: report, tool: write, inputs: {text: "{{alpha}}, {{beta}}, {{gamma}}"}}
""")


async def main(verb: str, word: str = "") -> None:
    async with Plansmith(tools=[read, write], store="sqlite:///runs.db") as smith:
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
