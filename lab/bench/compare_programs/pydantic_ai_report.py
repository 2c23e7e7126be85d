"""Reads three sources at once, asks a person, and writes one file: with pydantic-ai and DBOS."""

import asyncio
import sys

import world
from dbos import DBOS, DBOSClient, SetWorkflowID
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.durable_exec.dbos import DBOSDurability
from scripted_model import SCRIPTED

STORE = "sqlite:///runs.db"


@DBOS.step()
async def read(source: str) -> str:
    return await asyncio.to_thread(world.read, source)


@DBOS.step()
async def write(text: str) -> str:
    return await asyncio.to_thread(world.write, text)


@DBOS.step()
async def notify(question: str) -> None:
    await asyncio.to_thread(world.notify, question)


agent = Agent(
    SCRIPTED,  # in real life "openai:gpt-5", with instructions
    name="report",
    tools=[read, Tool(write, requires_approval=True)],
    output_type=[str, DeferredToolRequests],
    capabilities=[DBOSDurability()],
)


@DBOS.workflow()
async def report() -> None:
    result = await agent.run("Write a report of alpha, beta and gamma")
    if isinstance(result.output, DeferredToolRequests):
        await notify(f"Make {[call.args for call in result.output.approvals]}?")
        word = await DBOS.recv_async("answer", timeout_seconds=86_400)
        allowed = {call.tool_call_id: word == "yes" for call in result.output.approvals}
        await agent.run(
            message_history=result.all_messages(),
            deferred_tool_results=DeferredToolResults(approvals=allowed),
        )


async def main() -> None:
    DBOS(config={"name": "report", "system_database_url": STORE})
    DBOS.launch()  # takes up what a crash left
    with SetWorkflowID("report"):
        handle = await DBOS.start_workflow_async(report)
    await handle.get_result()


if sys.argv[1] == "answer":
    DBOSClient(system_database_url=STORE).send("report", sys.argv[2], "answer")
else:
    asyncio.run(main())
