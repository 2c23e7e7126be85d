"""Was it made? A peer acts first and then fails in every way: a write is made once and asked about.

Only a failed connect proves that a call was not made. What the peer says decides nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_peer import McpPeer, Respond, answer, http, sends
from tests.servers.a2a_wire import Liar, Talk
from tests.servers.kit import approved, limits, raw, servers, use

from plansmith import Effect, Plan, RunStatus, StepStatus
from plansmith.app import Plansmith
from plansmith.errors import InputNeeded, OutcomeUnknown, ToolBusy
from plansmith.plan.limits import Limits
from plansmith.plan.run import Run
from plansmith.report.build import load_report
from plansmith.report.markdown import to_markdown
from plansmith.tools.functions import tool
from plansmith_connect.a2a.agent import connect
from plansmith_connect.approvals import Approvals
from plansmith_connect.mcp.servers import McpServers
from plansmith_connect.mcp.settings import ServerSettings

LIMITS = Limits(first_wait_s=0, tries=3, max_replans=0, data="show")
TRIES = 3
READ, KEYED, WRITE = "read", "keyed", "write"
STATUSES = (400, 401, 403, 404, 408, 409, 425, 429, 500, 502, 503, 504)
CLAIMS: dict[str, Any] = {
    "a status": {"code": -32603, "message": "busy", "data": {"http": 503, "sent": True}},
    "not sent": {"code": -32603, "message": "no", "data": {"http": 502, "sent": False}},
    "an ended session": {"code": -32600, "message": "Session terminated"},
    "no such method": {"code": -32601, "message": "Method not found"},
    "bad arguments": {"code": -32602, "message": "Invalid params"},
    "other headers": {"code": -32020, "message": "Header mismatch"},
    "a closed connection": {"code": -32000, "message": "Connection closed"},
    "pages without pages": {"code": -32042, "message": "open", "data": {"elicitations": []}},
    "an unsupported version": {"code": -32004, "message": "unsupported"},
    "an unknown task": {"code": -32001, "message": "Task not found"},
}


def says(status: int, kind: str, claim: Any = None) -> Respond:
    async def respond(number: Any, writer: asyncio.StreamWriter) -> None:
        body = answer(number, error=claim) if claim else b"the upstream died"
        if kind == "text/event-stream":
            body = b"data: " + body + b"\r\n\r\n"
        writer.write(http(status, body, kind))

    return respond


async def silence(_: Any, writer: asyncio.StreamWriter) -> None:
    del writer
    await asyncio.Event().wait()


def seconds_for(respond: Respond, shortest: float) -> float:
    """How long a call may take: only a peer that says nothing is given up."""
    return shortest if respond is silence else 60


def ways() -> Iterator[Any]:
    """Every way in which a peer over HTTP fails after it has acted."""
    for status, kind in zip(STATUSES, cycle(("text/html", "application/json")), strict=False):
        yield pytest.param(says(status, kind), id=f"{status} {kind}")
    for status in (400, 404, 503):
        claims = {**CLAIMS["an ended session"], "data": {"http": 503, "sent": False}}
        yield pytest.param(says(status, "application/json", claims), id=f"{status} and a claim")
    for kind in ("text/plain", "application/octet-stream", "application/json"):
        yield pytest.param(says(200, kind), id=f"200 {kind} without a reply")
    for name, claim in CLAIMS.items():
        yield pytest.param(says(200, "application/json", claim), id=name)
    claim = CLAIMS["not sent"]
    yield pytest.param(says(200, "text/event-stream", claim), id="a claim in a stream")
    start = b"HTTP/1.1 200 OK\r\ncontent-type: "
    yield pytest.param(sends(start + b"text/event-stream\r\n\r\n: hi\n\n"), id="a cut stream")
    long = b"application/json\r\ncontent-length: 900\r\n\r\n{"
    yield pytest.param(sends(start + long), id="a cut answer")
    yield pytest.param(sends(b""), id="closed")
    yield pytest.param(sends(b"HTTP/1.1 302 X\r\nlocation: /away\r\n\r\n"), id="a redirect")
    yield pytest.param(sends(b"HTTP/1.1 202 X\r\ncontent-length: 0\r\n\r\n"), id="accepted")
    yield pytest.param(silence, id="silence")


async def run_of(app: Plansmith, *steps: dict[str, Any]) -> Run:
    run = await app.submit(Plan.model_validate({"goal": "pay", "steps": list(steps)}))
    if run.plan is not None and run.status is RunStatus.REVIEWING:
        await app.decide(run.id, approve=run.plan.hash, by="ada")
    return await app.run(run.id)


async def is_asked_about(app: Plansmith, run: Run) -> None:
    """The person is asked, and nothing they read says that it did not happen."""
    assert run.status is RunStatus.ASKING
    assert run.steps["s"].status in (StepStatus.UNKNOWN, StepStatus.ASKING)
    [question] = run.questions.values()
    assert "not known whether" in question.text or "is unknown" in question.text
    assert "not called" not in question.text
    await app.cancel(run.id, by="ada")
    report = to_markdown(await load_report(app.store, run.id))
    assert "It is not known whether s took effect." in report
    assert "Nothing could be done" not in report


RULES: dict[str, Any] = {"retry": {"at_most": 2}, "on_error": "skip"}


async def is_made_once(app: Plansmith, made: Counter[str], step: dict[str, Any]) -> None:
    """Also where the plan says to try again and to go on without it."""
    for count, rules in enumerate(({}, RULES), start=1):
        run = await run_of(app, {"id": "s", **step, **rules})
        assert made[WRITE] == count
        await is_asked_about(app, run)


# MCP over HTTP


ANNOTATIONS: dict[str, Any] = {
    READ: {"readOnlyHint": True},
    KEYED: {"idempotentHint": True, "destructiveHint": False},
    WRITE: {},
}


@asynccontextmanager
async def over_http(
    respond: Respond,
) -> AsyncGenerator[tuple[Plansmith, McpServers, asyncio.Server, Counter[str]]]:
    peer = McpPeer(respond, ANNOTATIONS)
    bounds = limits(call_s=seconds_for(respond, 0.8), stop_s=0.1)
    async with peer.open() as (url, server):
        settings = ServerSettings(url=url, protocol="legacy", trusted=True, limits=bounds)
        async with McpServers({"peer": settings}, approvals=Approvals()) as source:
            await approved(source)
            yield Plansmith(tools=[source], limits=LIMITS), source, server, peer.made


@pytest.mark.parametrize("respond", [*ways()])
async def test_an_mcp_call_over_http_that_fails_after_it_acted(respond: Respond) -> None:
    async with over_http(respond) as (app, _, _, made):
        await is_made_once(app, made, {"tool": "peer.write"})
        run = await run_of(app, {"id": "s", "tool": "peer.read"})
        assert (run.status, made[READ]) in [(RunStatus.FAILED, 1), (RunStatus.FAILED, TRIES)]
        run = await run_of(app, {"id": "s", "tool": "peer.keyed"})
        assert made[KEYED] == TRIES
        await is_asked_about(app, run)


@pytest.mark.parametrize("name", [READ, KEYED, WRITE])
async def test_an_mcp_call_that_finds_no_server_was_not_made(name: str) -> None:
    async with over_http(silence) as (_, source, server, _):
        server.close()
        with pytest.raises(ToolBusy, match="was not called: ConnectError"):
            await use(source, f"peer.{name}")
    async with over_http(silence) as (app, _, server, _):
        server.close()
        run = await run_of(app, {"id": "s", "tool": f"peer.{name}"})
        assert run.status is RunStatus.FAILED
        assert run.steps["s"].attempts == TRIES


async def test_what_an_mcp_server_wants_its_client_to_wait_is_known() -> None:
    busy = sends(http(429, b"", "text/plain", "retry-after: 40\r\n"))
    async with over_http(busy) as (_, source, _, _):
        with pytest.raises(OutcomeUnknown) as caught:
            await use(source, "peer.read")
        assert (caught.value.again, caught.value.retry_after) == (True, 40.0)


# MCP over pipes: the peer can say anything, and ask anything


PAGE = {"mode": "url", "message": "Pay", "elicitationId": "1"}
LARGE = {"type": "object", "properties": {"a": {"type": "string", "title": "x" * 16_000}}}
ABROAD = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/s.json"}}}
QUESTIONS: dict[str, Any] = {
    "a bad link": {**PAGE, "url": "javascript:alert(1)"},
    "a form that is too large": {"message": "Day?", "requestedSchema": LARGE},
    "a form with a schema from elsewhere": {"message": "Day?", "requestedSchema": ABROAD},
}


def asks(params: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 77, "method": "elicitation/create", "params": params}


def pipes() -> Iterator[Any]:
    for name, claim in CLAIMS.items():
        yield pytest.param("", {"jsonrpc": "2.0", "id": "ID", "error": claim}, id=name)
    for name, params in QUESTIONS.items():
        yield pytest.param("", asks(params), id=name)
        given = {"d": {"method": "elicitation/create", "params": {"mode": "form", **params}}}
        result = {"resultType": "input_required", "requestState": "1", "inputRequests": given}
        modern = {"jsonrpc": "2.0", "id": "ID", "result": result}
        yield pytest.param("modern", modern, id=f"{name}, given back")
    linked = {
        "code": -32042,
        "message": "open",
        "data": {"elicitations": [QUESTIONS["a bad link"]]},
    }
    yield pytest.param("", {"jsonrpc": "2.0", "id": "ID", "error": linked}, id="a page")
    failed = {"content": [{"type": "text", "text": "it broke"}], "isError": True}
    for name, answered in {"an error": failed, "nonsense": {"content": 7}, "nothing": {}}.items():
        yield pytest.param("", {"jsonrpc": "2.0", "id": "ID", "result": answered}, id=name)
    yield pytest.param("", None, id="silence")
    yield pytest.param("", "die", id="its process ends")


@pytest.mark.parametrize(("mode", "sends"), [*pipes()])
async def test_an_mcp_call_over_pipes_that_fails_after_it_acted(
    mode: str, sends: Any, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    settings = raw(
        mode,
        bounds=limits(call_s=0.3),
        env={"RECORD": str(record)},
        protocol="auto" if mode else "legacy",
    )
    async with await approved(servers(raw=settings)) as source:
        app = Plansmith(tools=[source], limits=LIMITS)
        step = {"id": "s", "tool": "raw.act", "inputs": {"sends": sends}}
        run = await run_of(app, {**step, **RULES})
        assert record.read_text().count("acted") == 1
        await is_asked_about(app, run)


async def test_a_tool_that_changes_between_its_question_and_the_answer_is_asked_about(
    tmp_path: Path,
) -> None:
    record = tmp_path / "record"
    form = {"type": "object", "properties": {"day": {"type": "string"}}}
    async with await approved(servers(raw=raw(env={"RECORD": str(record)}))) as source:
        app = Plansmith(tools=[source], limits=LIMITS)
        sends = asks({"message": "Day?", "requestedSchema": form})
        step = {"id": "s", "tool": "raw.act", "inputs": {"sends": sends}}
        run = await run_of(app, {**step, **RULES})
        [question] = run.questions
        source.revoke("raw.act")
        await app.answer(run.id, question, {"day": "mon"}, by="ada")
        run = await app.run(run.id)
        assert record.read_text().count("acted") == 1
        await is_asked_about(app, run)


# Agents over A2A


@pytest.mark.parametrize("respond", [*ways()])
async def test_work_over_a2a_that_fails_after_the_agent_acted(respond: Respond) -> None:
    made: Counter[str] = Counter()
    effect = WRITE

    async def act(talk: Talk) -> None:
        made[effect] += talk.method == "SendMessage"
        await respond(talk.body["id"], talk.writer)

    waits = {"answer_s": seconds_for(respond, 0.2), "request_s": seconds_for(respond, 0.5)}
    bounds = {"lost_s": 0.02, "poll_s": 0.02, **waits}
    async with Liar(act).open() as liar:
        app = Plansmith(agents=[await connect("peer", liar.url, limits=bounds)], limits=LIMITS)
        await is_made_once(app, made, {"agent": "a2a.peer", "task": "pay"})
        effect = READ
        reader = await connect("peer", liar.url, limits=bounds, effect="read")
        app = Plansmith(agents=[reader], limits=LIMITS)
        run = await run_of(app, {"id": "s", "agent": "a2a.peer", "task": "look"})
        assert (run.status, made[READ]) in [(RunStatus.FAILED, 1), (RunStatus.FAILED, TRIES)]


async def test_work_over_a2a_that_finds_no_agent_was_not_made() -> None:
    async def act(talk: Talk) -> None:
        raise AssertionError(talk.method)

    liar = Liar(act)
    async with liar.open():
        agent = await connect("peer", liar.url)
    app = Plansmith(agents=[agent], limits=LIMITS)
    run = await run_of(app, {"id": "s", "agent": "a2a.peer", "task": "pay"})
    assert run.status is RunStatus.FAILED
    assert run.steps["s"].attempts == TRIES


# Functions


@pytest.mark.parametrize("effect", list(Effect))
async def test_a_function_that_acts_and_then_asks_what_nobody_can_answer(effect: Effect) -> None:
    made: Counter[str] = Counter()

    @tool(effect=effect)
    def pay() -> str:
        made[WRITE] += 1
        raise InputNeeded("Which?", schema={"type": "no such type"})

    app = Plansmith(tools=[pay], limits=LIMITS)
    if effect is not Effect.READ:
        await is_made_once(app, made, {"tool": "pay"})
    else:
        assert (await run_of(app, {"id": "s", "tool": "pay"})).status is RunStatus.FAILED
