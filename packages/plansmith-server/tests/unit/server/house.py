"""A server on a real socket for tests, with scripted models, tools that wait, and tenants."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx
from tests.flow.looking_model import Desk, LookingModel, journey
from tests.servers.ticks import quick_ticks

from plansmith import ports
from plansmith.errors import Misconfigured, ModelRefused, ToolFailed
from plansmith.plan.briefs import MessageBrief
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import Call, ChatModel, Delta, Prompt, TextDelta
from plansmith.tools.functions import FunctionTools
from plansmith_cli.config import Settings
from plansmith_cli.server_wiring import ServerWiring
from plansmith_desk.model.answer_rules import Task
from plansmith_desk.model.rules import keyword
from plansmith_desk.model.wording import worded
from plansmith_server.ops.logs import Log
from plansmith_server.serve import bind, make_server, make_state
from plansmith_server.settings import Serve
from plansmith_server.state import ServerState
from plansmith_server.team.auth import Auth
from plansmith_server.team.tenant_book import Tenant, TenantBook
from plansmith_server.team.tokens import Member, TokenFile

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
EFFECTS = {"weather": Effect.READ, "slow": Effect.READ, "fail": Effect.READ, "mail": Effect.FINAL}


quick_ticks()


class Tools:
    """`weather` and `mail` answer at once, `slow` when its gate opens, `fail` never does."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.calls: list[tuple[str, Mapping[str, Json]]] = []
        self.began: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def tools(self) -> Sequence[ToolSpec]:
        return [
            ToolSpec(name=name, description=f"{name} of a city", input_schema=CITY, effect=effect)
            for name, effect in EFFECTS.items()
        ]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        self.calls.append((tool, dict(arguments)))
        self.began[tool].set()
        if tool == "slow":
            call.progress("half way")
            await self.gate.wait()
        if tool == "fail":
            raise ToolFailed("it rains")
        return {"tool": tool, **arguments}


class Silent:
    """A model that is asked and never answers."""

    name = "silent"

    def __init__(self) -> None:
        self.began = asyncio.Event()

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        self.began.set()
        await asyncio.Event().wait()
        yield TextDelta("")


def tool_step(name: str, tool: str = "weather", **more: Any) -> dict[str, Any]:
    inputs = more.pop("inputs", {"city": "Oslo"})
    return {"id": name, "kind": "tool", "tool": tool, "inputs": inputs, **more}


def plan(*steps: dict[str, Any], goal: str = "a goal") -> dict[str, Any]:
    return {"goal": goal, "steps": list(steps)}


@dataclass
class ApiClient:
    """Somebody who speaks to the API; every answer has to have the status that is expected."""

    client: httpx.AsyncClient

    async def call(
        self, method: str, path: str, body: Any = None, status: int = 200, **more: Any
    ) -> Any:
        if method not in ("GET", "DELETE"):
            more["json"] = {} if body is None else body
        answer = await self.client.request(method, path, **more)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def get(self, path: str, status: int = 200, **more: Any) -> Any:
        return await self.call("GET", path, status=status, **more)

    async def post(self, path: str, body: Any = None, status: int = 200, **more: Any) -> Any:
        return await self.call("POST", path, body, status, **more)

    async def begin(self, *steps: dict[str, Any], **more: Any) -> Any:
        """A run of a ready plan."""
        return await self.post("/v1/runs", {"plan": plan(*steps), **more}, 202)

    async def approve(self, run: Any, status: int = 200) -> Any:
        body = {"approve": run["hash"]}
        return await self.post(f"/v1/runs/{run['id']}/decision", body, status)


@dataclass
class House(ApiClient):
    """A server that runs, and a client that knows its token."""

    server_state: ServerState
    keys: Auth
    url: str
    token: str
    tools: Tools
    log: io.StringIO
    tokens: TokenFile

    def new_token(self, name: str, *scopes: str, lasts: timedelta | None = None) -> str:
        """The secret of a new token of these scopes; one of that name before it is revoked."""
        with contextlib.suppress(Misconfigured):
            self.tokens.revoke(name)
        now = self.server_state.smith.runs.journals.clock.now()
        return self.tokens.create(name, scopes, by="ann", now=now, lasts=lasts)[1]

    def with_token(self, name: str, *scopes: str) -> httpx.AsyncClient:
        """A client with a new token of these scopes."""
        headers = {"Authorization": f"Bearer {self.new_token(name, *scopes)}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=120, verify=False)

    @contextlib.asynccontextmanager
    async def browser(self, link: str = "") -> AsyncIterator[httpx.AsyncClient]:
        """A browser that followed a one-time link: that of the server, or another one."""
        async with httpx.AsyncClient(base_url=self.url, timeout=120, verify=False) as web:
            answer = await web.get(f"/?token={link or self.keys.link_token}")
            web.headers.update(page_header(answer.headers["location"]))
            yield web

    async def finish(self, *steps: dict[str, Any], **more: Any) -> Any:
        """A run of a ready plan that was approved, once it is done."""
        run = await self.begin(*steps, **more)
        await self.approve(run)
        return await self.until(run["id"], "done")

    async def until(self, run_id: str, *statuses: str) -> Any:
        """The run once it has one of the statuses, by its events and not by the clock."""
        after = 0
        while True:
            run = await self.get(f"/v1/runs/{run_id}")
            if run["status"] in statuses:
                return run
            after = run["last"]
            async with asyncio.timeout(120):
                await self.server_state.smith.store.wait(run_id, after=after)

    async def stream(self, **query: Any) -> AsyncIterator[dict[str, Any]]:
        """Server-sent events, parsed."""
        params = {key: value for key, value in query.items() if key != "headers"}
        async with self.client.stream(
            "GET", "/v1/events", params=params, headers=query.get("headers")
        ) as response:
            assert response.status_code == 200
            event: dict[str, Any] = {}
            async for line in response.aiter_lines():
                if not line:
                    if "data" in event:
                        yield event
                    event = {}
                    continue
                name, _, value = line.partition(": ")
                event[name] = json.loads(value) if name == "data" else value


def page_header(text: str) -> dict[str, str]:
    """What the page of a log-in sends with every request, by the address at which it began."""
    return {"X-Plansmith-Page": text.partition("#login=")[2][:64]}


class SearchModel:
    """Answers any call: with a plan that searches files, or with what the search found."""

    name = "search"

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        match prompt.brief:
            case ports.TriageBrief(request):
                given = {"decision": "plan", "reason": "", "query": request, "answer": ""}
                yield TextDelta(json.dumps(given))
            case ports.PlanBrief(previous=None) as brief:
                yield TextDelta(json.dumps({"goal": brief.request, "steps": steps(brief)}))
            case ports.PlanBrief() | MessageBrief() | None:
                raise ModelRefused("it can only search")
            case ports.ReplyBrief() as brief:
                yield TextDelta(worded(Task.of(brief)._replace(writes=False), ""))
        yield ports.ModelDone(ports.Usage(), self.name)


def steps(brief: ports.PlanBrief) -> list[Json]:
    inputs: Json = {"text": keyword(brief.request) or "plan", "folder": "."}
    answer: Json = {"id": "answer", "kind": "reply", "instruction": "{{search}}", "after": ["list"]}
    listed: Json = {"id": "list", "tool": "files.list", "inputs": {"folder": "."}}
    return [listed, {"id": "search", "tool": "files.search", "inputs": inputs}, answer]


@contextlib.asynccontextmanager
async def serving(
    folder: Path,
    *,
    model: ChatModel | None = None,
    store: str = "memory",
    tools: Tools | None = None,
    settings: Mapping[str, Any] | None = None,
    settings_tools: bool = False,
    **more: Any,
) -> AsyncIterator[House]:
    """A server for one test; the same folder has the same token and, if not in memory, runs."""
    url = store if store == "memory" else f"sqlite:///{folder / 'runs.db'}"
    engine = ""
    if shared := os.environ.get("PLANSMITH_TEST_ENGINE_STORE"):
        # The same stories with a queue: tests/e2e/test_server_and_commands.py runs them so.
        place = token_hex(8) if store == "memory" else sha256(str(folder).encode()).hexdigest()[:16]
        url, engine = f"{shared}?schema=plansmith_{place}", "dbos"
    tools = tools or Tools()
    log = io.StringIO()
    given: dict[str, Any] = {} if settings_tools else {"tools": [tools]}
    server_state = make_state(
        ServerWiring(Settings.model_validate({"store": url, **(settings or {})})),
        log=Log(log),
        by="ann",
        engine=engine,
        model=model or SearchModel(),
        **given,
    )
    rules = {"per_second": 100_000.0, "burst": 100_000, **more}
    own: dict[str, Any] = {
        name: rules.pop(name) for name in ("head_s", "connections") if name in rules
    }
    own |= {"engine": engine, "executes": 8} if engine else {}
    serve = Serve(token_file=folder / "token", rules=rules, tenants=folder, **own)
    sock = bind(serve)
    server, keys = make_server(server_state, serve, sock)
    port = sock.getsockname()[1]
    task = asyncio.create_task(server.serve(sockets=[sock]))
    token = (folder / "token").read_text().strip()
    base = f"http://127.0.0.1:{port}"
    client = httpx.AsyncClient(
        base_url=base,
        headers={"Authorization": f"Bearer {token}"},
        timeout=120,
        verify=False,
        # Shorter than the server's: a test that took long asks over no connection it just closed.
        limits=httpx.Limits(keepalive_expiry=1),
    )
    try:
        while not server.started:
            assert not task.done(), task.result()
            await asyncio.sleep(0)
        tokens = TokenFile(folder / "tokens.json")
        yield House(client, server_state, keys, base, token, tools, log, tokens)
    finally:
        await client.aclose()
        server.should_exit = True
        await task
        sock.close()


# A trip: the journey of tests/flow/looking_model.py behind a server


FLIGHT = "AZ 123"


class TripTools(Tools):
    """`flights` and `trains` find something, `book` books it."""

    def __init__(self) -> None:
        super().__init__()
        desk = Desk()
        self.calls = desk.calls
        self._functions = FunctionTools(desk.tools())

    async def tools(self) -> Sequence[ToolSpec]:
        return await self._functions.tools()

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        return await self._functions.call(tool, arguments, call)


class TripModel(LookingModel):
    """Asks where to, finds a flight, books what was found, and takes the train if told to."""

    def __init__(self) -> None:
        super().__init__(journey, ask={"Plan a trip": "Where to?"})


# Tenants: each with tools, a marker of its own, and clients by role


TOOLS = """
from pathlib import Path
from plansmith import tool

HERE = Path(__file__).parent

@tool(effect="read")
def look(name: str) -> str:
    "Looks something up."
    return f"MARK saw {name}"

@tool(effect="write")
def note(text: str) -> str:
    "Writes a note."
    with (HERE / "notes.txt").open("a") as file:
        file.write(text + "\\n")
    return "written"
"""


def tenant(folder: Path, name: str, settings: str = "") -> Tenant:
    """Creates a tenant with two tools; `look` returns the name of the tenant."""
    made = TenantBook(folder).create(name)
    (made.home / "tools.py").write_text(TOOLS.replace("MARK", f"mark-of-{name}"))
    made.config.write_text(f'tools = ["tools.py"]\n{settings}')
    return made


def note(name: str, text: str = "hello") -> dict[str, Any]:
    """A step that writes a note."""
    return {"id": name, "kind": "tool", "tool": "note", "inputs": {"text": text}}


def look(name: str) -> dict[str, Any]:
    """A step that only reads."""
    return {"id": name, "kind": "tool", "tool": "look", "inputs": {"name": "x"}}


def notes(tenant: Tenant) -> list[str]:
    """What the tool `note` wrote."""
    path = tenant.home / "notes.txt"
    return path.read_text().splitlines() if path.exists() else []


class Client(ApiClient):
    """A user of a tenant."""

    async def until(self, run_id: str, *statuses: str) -> Any:
        """The run once it has one of the statuses, by its stream and not by the clock."""
        async with self.client.stream("GET", "/v1/events", params={"run": run_id}) as stream:
            async for line in stream.aiter_lines():
                if not line.startswith("data:"):
                    continue
                run = await self.get(f"/v1/runs/{run_id}")
                if run["status"] in statuses:
                    return run
        raise AssertionError(f"the stream of {run_id} ended")


def secret(house: House, member: Member, *scopes: str, name: str = "") -> str:
    """The secret of a new token of a user."""
    now = house.server_state.smith.runs.journals.clock.now()
    name = name or f"{member.user}-{member.tenant}-{member.role or '-'.join(scopes)}"
    return house.tokens.create(name, scopes, by="root", now=now, lasts=None, member=member)[1]


@contextlib.asynccontextmanager
async def user(
    house: House, tenant: Tenant | None, name: str, role: str = "admin", token: str = ""
) -> AsyncIterator[Client]:
    """A user of a tenant with a token of a role."""
    member = Member(user=name, tenant=tenant.key if tenant else "", role=role)
    headers = {"Authorization": f"Bearer {secret(house, member, name=token)}"}
    async with httpx.AsyncClient(
        base_url=house.url, headers=headers, timeout=120, verify=False
    ) as web:
        yield Client(web)


@contextlib.asynccontextmanager
async def browser(
    house: House, tenant: Tenant | None, name: str, role: str = "admin"
) -> AsyncIterator[Client]:
    """A user of a tenant who followed a one-time link."""
    member = Member(user=name, tenant=tenant.key if tenant else "", role=role)
    now = house.server_state.smith.runs.journals.clock.now()
    link = house.tokens.new_link(by="root", now=now, member=member)
    async with house.browser(link) as web:
        yield Client(web)
