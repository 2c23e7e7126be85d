"""An A2A agent on a real socket, built on the SDK's own server: it does what its task says.

    async with Desk().serving() as desk:
        agent = await connect("desk", desk.url)

As a process of its own, with its tasks and its deeds in a folder: `python -m tests.servers.a2a_desk
PORT FOLDER`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Part,
    Task,
    TaskState,
    TaskStatus,
)
from google.protobuf import json_format  # type: ignore[import-untyped]
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import Response
from tests.needs import free_port
from tests.servers.ticks import quick_ticks, running


def _data(value: Any) -> Part:
    part = Part(media_type="application/json")
    json_format.ParseDict(value, part.data)
    return part


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SIGN_IN = "Please sign in at https://login.example/start?for=desk."
# Tasks that end, or stop, with what is said: how, and what.
SAID: dict[str, tuple[Callable[..., Any], Callable[[str], list[Part]]]] = {
    "hello": (TaskUpdater.complete, lambda _: [Part(text="hello yourself")]),
    "ask": (TaskUpdater.requires_input, lambda rest: [Part(text=f"Which day for {rest}?")]),
    "choose": (
        TaskUpdater.requires_input,
        lambda rest: [Part(text="Which one?"), _data({"options": rest.split()})],
    ),
    "form": (
        TaskUpdater.requires_input,
        lambda _: [Part(text="How many?"), _data({"schema": NUMBER})],
    ),
    "auth": (TaskUpdater.requires_auth, lambda _: [Part(text=SIGN_IN)]),
    "fail": (TaskUpdater.failed, lambda rest: [Part(text=rest)]),
    "reject": (TaskUpdater.reject, lambda rest: [Part(text=rest)]),
}


class Executor(AgentExecutor):
    """Does what the first word of a task says; `deeds` are its effects on the world."""

    def __init__(self, folder: Path | None = None) -> None:
        self.deeds: list[str] = []
        self.gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.entered: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.said: list[dict[str, Any]] = []
        self._folder = folder

    def do(self, deed: str) -> None:
        self.deeds.append(deed)
        if self._folder:
            with (self._folder / "deeds").open("a") as file:
                file.write(deed + "\n")

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        self.said.append(json_format.MessageToDict(context.message or Message()))
        task, where = str(context.task_id), str(context.context_id)
        updater = TaskUpdater(event_queue, task, where)
        if context.current_task is None:
            self.do(f"begin {text}")
            if text.startswith("reply "):
                await event_queue.enqueue_event(updater.new_agent_message([Part(text=text[6:])]))
                return
            status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
            await event_queue.enqueue_event(Task(id=task, context_id=where, status=status))
            verb, _, rest = text.partition(" ")
            if verb in SAID:
                ends, parts = SAID[verb]
                await ends(updater, self.words(updater, *parts(rest)))
            else:
                await getattr(self, f"do_{verb}")(updater, rest)
            return
        self.do(f"answer {text}")
        await self.answered(updater, text)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.do("cancel")
        self.entered["cancel"].set()
        await TaskUpdater(event_queue, str(context.task_id), str(context.context_id)).cancel()

    def words(self, updater: TaskUpdater, *parts: Part) -> Message:
        return updater.new_agent_message(list(parts))

    async def do_echo(self, updater: TaskUpdater, rest: str) -> None:
        await updater.add_artifact([Part(text=rest)], name="echo")
        await updater.complete(self.words(updater, Part(text="there you are")))

    async def do_stream(self, updater: TaskUpdater, rest: str) -> None:
        """Say words one by one, each when its gate opens."""
        for number, word in enumerate(rest.split()):
            self.entered[word].set()
            await self.gates[word].wait()
            await updater.start_work(self.words(updater, Part(text=f"word {number}")))
            await updater.add_artifact([Part(text=word)], artifact_id="words", append=number > 0)
        await updater.complete()

    async def do_hold(self, updater: TaskUpdater, rest: str) -> None:
        await updater.start_work(self.words(updater, Part(text=f"holding {rest}")))
        self.entered[rest].set()
        await self.gates[rest].wait()
        self.do(f"done {rest}")
        await updater.add_artifact([Part(text=f"held {rest}")])
        await updater.complete()

    async def do_cancelled(self, updater: TaskUpdater, rest: str) -> None:
        await updater.cancel()

    async def do_crash(self, updater: TaskUpdater, rest: str) -> None:
        raise RuntimeError(rest)

    async def do_rich(self, updater: TaskUpdater, rest: str) -> None:
        """Give every kind of part there is."""
        cited = {"citations": [{"title": "A", "uri": "https://a.example"}, "https://b.example"]}
        parts = [
            Part(text="see the table"),
            _data({"rows": [1, 2.5, None]}),
            Part(raw=b"\x00\x01\xff", filename="x.bin", media_type="application/octet-stream"),
            Part(raw=b"a,b\n1,2\n", filename="t.csv", media_type="text/csv"),
            Part(raw=b"z" * int(rest or 0), filename="large.bin", media_type="image/png"),
            Part(url="https://files.example/r.pdf", filename="r.pdf", media_type="application/pdf"),
        ]
        await updater.add_artifact(parts, name="table", metadata=cited)
        await updater.complete()

    async def answered(self, updater: TaskUpdater, text: str) -> None:
        if text == "nothing":
            await updater.requires_input(self.words(updater, Part(text="Really, which day?")))
            return
        await updater.add_artifact([Part(text=f"booked {text}")])
        await updater.complete()


class FileTasks(InMemoryTaskStore):
    """The SDK's own store, with tasks in a file too, so that a killed server finds them again."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._path = folder / "tasks"
        self._kept: dict[str, Any] = {}
        if self._path.exists():
            self._kept = json.loads(self._path.read_text())

    async def get(self, task_id: str, context: Any) -> Task | None:
        found = await super().get(task_id, context)
        if found is None and task_id in self._kept:
            found = json_format.ParseDict(self._kept[task_id], Task())
        return found

    async def save(self, task: Task, context: Any) -> None:
        await super().save(task, context)
        self._kept[task.id] = json_format.MessageToDict(task)
        self._path.write_text(json.dumps(self._kept))


quick_ticks()


class Desk:
    """The agent and its server; `public` is the address that its card names."""

    def __init__(
        self,
        *,
        binding: str = "JSONRPC",
        version: str = "1.0",
        streaming: bool = True,
        folder: Path | None = None,
        port: int = 0,
        public: str = "",
        **card: Any,
    ) -> None:
        self.executor = Executor(folder)
        self.port = port or free_port()
        self.url = public or f"http://127.0.0.1:{self.port}"
        self.headers: list[dict[str, str]] = []
        path = "/rpc" if binding == "JSONRPC" else "/rest"
        offered = AgentInterface(
            protocol_binding=binding, protocol_version=version, url=f"{self.url}{path}"
        )
        skill = AgentSkill(
            id="book", name="Book", description="books", tags=["desk"], examples=["book a day"]
        )
        self.card = AgentCard(
            name="The Desk",
            description="Books things.",
            version="1",
            supported_interfaces=[offered],
            capabilities=AgentCapabilities(streaming=streaming),
            default_input_modes=card.pop("modes", ["text/plain", "application/json"]),
            default_output_modes=["text/plain"],
            skills=[skill],
            **card,
        )
        store = FileTasks(folder) if folder else InMemoryTaskStore()
        handler = DefaultRequestHandler(self.executor, store, self.card)
        legacy = version.startswith("0.")
        self._app = Starlette(
            routes=[
                *create_agent_card_routes(self.card, card_modifier=self._card_now),
                *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=legacy),
                *create_rest_routes(handler, path_prefix="/rest", enable_v0_3_compat=legacy),
            ],
            middleware=[Middleware(BaseHTTPMiddleware, dispatch=self._note)],
        )

    async def _card_now(self, card: AgentCard) -> AgentCard:
        return self.card

    async def _note(self, request: Request, call_next: Any) -> Response:
        self.headers.append(dict(request.headers))
        response: Response = await call_next(request)
        return response

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Desk]:
        async with running(self._app, self.port):
            try:
                yield self
            finally:
                for gate in self.executor.gates.values():
                    gate.set()

    @contextlib.contextmanager
    def in_thread(self) -> Iterator[str]:
        """The same, for synchronous code; the address."""
        up, stop = threading.Event(), asyncio.Event()
        loop = asyncio.new_event_loop()

        async def serve() -> None:
            async with self.serving():
                up.set()
                await stop.wait()

        thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
        thread.start()
        up.wait()
        try:
            yield self.url
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()
            loop.close()


if __name__ == "__main__":
    own = Desk(port=int(sys.argv[1]), folder=Path(sys.argv[2]))

    async def main() -> None:
        async with own.serving():
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            await asyncio.Event().wait()

    asyncio.run(main())
