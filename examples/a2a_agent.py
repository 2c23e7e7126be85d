"""Gives a step of a plan to an agent that runs elsewhere and speaks A2A.

Run it: `python a2a_agent.py`. It serves a small agent with the A2A SDK on this machine, and then
calls it. `connect` vouches for the agent; if a person has to approve it, use an `AgentRegistry`.
"""

import asyncio
import socket

import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from starlette.applications import Starlette

from plansmith import Effect, Plansmith, read_plan
from plansmith_connect.a2a.agent import connect


class Translator(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        word = {"Translate tea": "茶"}.get(context.get_user_input(), "?")
        updater = TaskUpdater(event_queue, str(context.task_id), str(context.context_id))
        await event_queue.enqueue_event(updater.new_agent_message([Part(text=word)]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def serve(address: str) -> Starlette:
    rpc = AgentInterface(protocol_binding="JSONRPC", protocol_version="1.0", url=f"{address}/rpc")
    card = AgentCard(
        name="Translator",
        description="Translates words to Chinese.",
        version="1",
        supported_interfaces=[rpc],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="word", name="Word", description="One word", tags=["words"])],
    )
    handler = DefaultRequestHandler(Translator(), InMemoryTaskStore(), card)
    routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")]
    return Starlette(routes=routes)


async def call(address: str) -> None:
    agent = await connect("translator", address, effect=Effect.READ)
    print(agent.spec.name, "-", agent.spec.description)
    steps = [{"id": "word", "agent": "a2a.translator", "task": "Translate tea"}]
    async with Plansmith(agents=[agent]) as smith:
        run = await smith.do(read_plan({"goal": "Tea in Chinese", "steps": steps}))
    print(run.status, run.result("word"))


async def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:  # any port that is free
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(serve(address), log_level="warning"))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        await call(address)
        server.should_exit = True
        await serving


asyncio.run(main())

# Prints:
# a2a.translator - Translates words to Chinese.
# done {'text': '茶', 'message': '茶', 'data': [], 'files': [], 'citations': [], 'notes': []}
