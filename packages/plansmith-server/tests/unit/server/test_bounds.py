"""All that a server keeps for a client has a bound, a tenant each: the table in docs/server.md."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from a2a.server.context import ServerCallContext
from a2a.types import Task, TaskState, TaskStatus
from starlette.responses import Response
from tests.flow.test_journals import Counting
from tests.unit.server.house import House, plan, serving, tool_step

from plansmith.errors import ToolBusy
from plansmith.plan.events import Event
from plansmith.ports import TENANT, News
from plansmith.testing.contracts import journal
from plansmith_desk.sandbox.subprocesses import ProcessLimits, Subprocesses
from plansmith_server import app as server_app
from plansmith_server import news as server_news
from plansmith_server.app import Idempotency
from plansmith_server.errors import HttpProblem
from plansmith_server.middleware import GateRules, RateLimiter
from plansmith_server.news import EventReader
from plansmith_server.protocols import a2a, mcp
from plansmith_server.protocols.programs import program

PAGE = (Path(__file__).parents[5] / "docs" / "server.md").read_text()


def test_the_page_names_every_bound() -> None:
    table = PAGE.partition("## What is kept for a client")[2].partition("\n## ")[0]
    bounds = (server_app.MAX_BYTES, server_news.MAX_BYTES, a2a.MAX_BYTES)
    assert [table.count(f"{each // 1_000_000} MB") >= 1 for each in bounds] == [True] * 3
    rules = GateRules(frozenset())
    for count in (mcp.MAX_SESSIONS, rules.max_body // 10**6, rules.max_file // 10**6):
        assert f"{count} " in table


class Handler:
    """A request that can be made; `made` tells how often it was."""

    def __init__(self, size: int = 0) -> None:
        self.size, self.made = size, 0

    async def __call__(self) -> Response:
        self.made += 1
        return Response(b"x" * self.size)


async def test_answers_kept_for_a_flood_of_keys_are_bounded_and_push_nobody_else_out() -> None:
    kept = Idempotency(lambda: 0.0)
    mine = Handler(10)
    await kept.once("k", "mine /v1/runs", b"", mine)
    for number in range(60):
        await kept.once(str(number), "flood /v1/runs", b"", Handler(900_000))
        assert kept.size <= server_app.MAX_BYTES
    for number in range(12_000):
        await kept.once(f"small {number}", "flood /v1/runs", b"", Handler())
    assert kept.size <= server_app.MAX_BYTES
    again = await kept.once("k", "mine /v1/runs", b"", mine)
    assert (mine.made, again.headers["idempotency-replayed"]) == (1, "true")
    # Another token with the same name is somebody else.
    await kept.once("k", "other /v1/runs", b"", mine)
    assert mine.made == 2


async def test_a_request_with_a_large_answer_is_not_made_twice_and_keys_last_a_day() -> None:
    kept, large = Idempotency(lambda: 0.0), Handler(4_000_000)
    await kept.once("k", "mine /v1/runs", b"", large)
    with pytest.raises(HttpProblem) as refused:
        await kept.once("k", "mine /v1/runs", b"", large)
    assert (refused.value.status, large.made) == (409, 1)
    assert kept.size < 10_000
    with pytest.raises(HttpProblem, match="200"):
        await kept.once("k" * 201, "mine /v1/runs", b"", large)
    now = 0.0
    daily, small = Idempotency(lambda: now), Handler(1)
    await daily.once("k", "mine /v1/runs", b"1", small)
    now = 25 * 3600.0  # a key is forgotten after a day
    await daily.once("k", "mine /v1/runs", b"2", small)
    assert small.made == 2


async def test_keys_are_of_a_token_not_of_its_name_and_a_viewer_has_none(house: House) -> None:
    key = {"Idempotency-Key": "k"}
    body = {"plan": plan(tool_step("a", "mail"))}
    made = set[str]()
    for _ in range(2):  # the second time the name is given again
        async with house.with_token("ci", "propose", "look") as ci:
            made.add((await ci.post("/v1/runs", json=body, headers=key)).json()["id"])
    assert len(made) == 2
    async with house.with_token("viewer", "look") as viewer:
        for _ in range(2):
            answer = await viewer.post("/v1/plans/check", json=body, headers=key)
            assert "idempotency-replayed" not in answer.headers


async def _batches(reader: EventReader, news: Sequence[News]) -> list[Event]:
    found = list[Event]()
    for start in range(0, len(news), 100):
        found += (await reader.read(news[start : start + 100])).values()
    return found


@pytest.mark.parametrize("room", [server_news.MAX_BYTES, 2_000_000])
async def test_followers_read_each_event_once_and_keep_a_bounded_part(
    monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(server_news, "MAX_BYTES", room)
    store, count = Counting(), 5_000
    events = journal("a", count)
    await store.append(events)
    reader, news = EventReader(store), await store.news(0, limit=count)
    assert await _batches(reader, news) == events
    # As many as fit are kept at a time, and a second follower beside the first reads no more.
    parts = 1 if room > 10_000_000 else 4
    assert store.read <= parts * count
    await asyncio.gather(*(reader.read(news[-50:]) for _ in range(50)))
    assert store.read <= parts * count
    text = reader.text(events[-1], news[-1].position, "en")
    assert reader.text(events[-1], news[-1].position, "en") is text
    await store.delete_run("a")
    assert await EventReader(store).read(news[:3]) == {}


async def test_tasks_of_a2a_are_bounded_and_the_oldest_are_forgotten(house: House) -> None:
    tasks = a2a.RunTasks(house.server_state)
    context = ServerCallContext(state={"plansmith_caller": program("A2A", "helper")})
    saved = [
        Task(
            id=f"t{number}",
            context_id="x" * 900_000,
            status=TaskStatus(state=TaskState.TASK_STATE_WORKING),
        )
        for number in range(40)
    ]
    for each in saved:
        await tasks.save(each, context)
    assert tasks.size <= a2a.MAX_BYTES


async def test_sessions_of_mcp_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "MAX_SESSIONS", 2)
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        },
    }
    accepts = {"Accept": "application/json, text/event-stream"}
    async with serving(tmp_path) as house, house.with_token("m", "mcp") as client:
        answers = [await client.post("/mcp", json=hello, headers=accepts) for _ in range(3)]
    assert [each.status_code for each in answers] == [200, 200, 503]


def test_a_tenant_that_uses_all_its_child_processes_leaves_the_others_theirs() -> None:
    pool = Subprocesses()
    limits = ProcessLimits(seconds=0, memory_bytes=1)

    def taken(share: str) -> Iterator[None]:
        TENANT.set(share)
        with pool._take_child(limits, None):  # pyright: ignore[reportPrivateUsage]
            yield

    def take(share: str) -> Iterator[None]:
        held = taken(share)
        contextvars.copy_context().run(next, held)
        return held

    held = [take("acme") for _ in range(4)]
    with pytest.raises(ToolBusy):
        take("acme")
    held.append(take("zeta"))
    for each in held:
        each.close()  # type: ignore[attr-defined]
    pool.close()


def test_rates_of_more_clients_than_are_kept_forget_the_oldest() -> None:
    rates = RateLimiter(per_second=1, burst=1, now=lambda: 0.0)
    assert rates.take("first") == 0
    for number in range(10_000):
        rates.take(str(number))
    assert rates.take("first") == 0  # forgotten, so that it has all its requests again
    assert rates.take("9999") > 0
