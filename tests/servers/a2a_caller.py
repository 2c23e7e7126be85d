"""A process that works with an A2A agent and then is gone: `URL STORE [ANSWER]`, a report as JSON.

Without an answer it plans and runs until the agent asks; with one it answers and runs to the end.
"""

from __future__ import annotations

import asyncio
import json
import sys

from plansmith import Plan
from plansmith.app import Plansmith
from plansmith_connect.a2a.agent import connect

PLAN = {"goal": "lunch", "steps": [{"id": "b", "agent": "a2a.desk", "task": "ask lunch"}]}


async def main(url: str, store: str, answer: str = "") -> None:
    agent = await connect("desk", url)
    async with Plansmith(agents=[agent], store=store) as smith:
        if answer:
            [run] = await smith.runs()
            [asked] = run.questions
            await smith.answer(run.id, asked, answer, by="ada")
        else:
            run = await smith.submit(Plan.model_validate(PLAN))
            assert run.plan is not None
            await smith.decide(run.id, approve=run.plan.hash, by="ada")
        run = await smith.run(run.id)
        asked_now = [each.text for each in run.questions.values()]
        report = {"status": run.status, "asked": asked_now, "result": run.steps["b"].result}
        sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
