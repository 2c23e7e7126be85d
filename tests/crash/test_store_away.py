"""A store or its connection that goes away, and comes back: every run goes on by itself."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.contract.threads import entry, story
from tests.postgres import Server
from tests.servers.a2a_wire import Wire
from tests.unit.server.house import Tools, serving, tool_step
from tests.waiting import until

from plansmith import Plan, Run, RunStatus, tool
from plansmith.app import Plansmith
from plansmith.errors import JournalError, Misconfigured, StaleWriter, StoreAway
from plansmith.plan.timing import Timing
from plansmith.schedules.schedule import FireState
from plansmith.schedules.store import ScheduleStore
from plansmith.store.sqlite import SqliteStore
from plansmith.testing.contracts import journal
from plansmith.verify import verify
from plansmith_cli.doctor import diagnose
from plansmith_planner.threads.entries import MessageAdded
from plansmith_planner.threads.store import ThreadStore
from plansmith_postgres.store import PostgresStore

ROOT = Path(__file__).parents[2]
HOLDER = """
import sqlite3, sys
file = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
file.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
file.execute("ROLLBACK")
"""


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Another process keeps all writers out."""
    holder = await forked.create_subprocess_exec(
        *(sys.executable, "-c", HOLDER, str(path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"
    try:
        yield
    finally:
        await holder.communicate(b"\n")


class Payments:
    """A tool that pays, once it is let to."""

    def __init__(self) -> None:
        self.began, self.go = asyncio.Event(), asyncio.Event()
        self.paid: list[str] = []

    def tools(self) -> list[Any]:
        @tool(effect="write")
        async def pay(whom: str) -> str:
            """Pay."""
            self.paid.append(whom)
            self.began.set()
            await self.go.wait()
            return f"paid {whom}"

        return [pay]


PLAN = Plan.model_validate(
    {
        "goal": "pay both",
        "steps": [
            {"id": "a", "tool": "pay", "inputs": {"whom": "ann"}},
            {"id": "b", "tool": "pay", "inputs": {"whom": "bob"}, "after": ["a"]},
        ],
    }
)


async def begun(smith: Plansmith, payments: Payments) -> asyncio.Future[Run]:
    """An approved run whose first payment is being made."""
    run = await smith.submit(PLAN)
    await smith.decide(run.id, approve=PLAN.hash, by="ada")
    running = asyncio.ensure_future(smith.runs.run(run.id))
    await payments.began.wait()
    return running


async def test_a_run_whose_file_is_locked_beyond_the_time_limit_goes_on_and_loses_no_result(
    tmp_path: Path,
) -> None:
    payments = Payments()
    store = SqliteStore(tmp_path / "runs.db", timeout_s=0.02)
    messages: list[str] = []
    async with Plansmith(tools=payments.tools(), store=store, tell=messages.append) as smith:
        running = await begun(smith, payments)
        async with locked(tmp_path / "runs.db"):
            payments.go.set()
            await until(lambda: "locked" in smith.runs.journals.store_retry.trouble)
            assert "waiting for the store" in messages[0]
            # Who only asks is told at once, and not kept waiting.
            with pytest.raises(StoreAway, match="locked"):
                await smith.submit(PLAN)
            assert not running.done()
        run = await running
        assert (run.status, smith.runs.journals.store_retry.trouble) == (RunStatus.DONE, "")
        assert messages[1:] == ["the store is back"]
        assert payments.paid == ["ann", "bob"]
        await verify(store, run.id)


async def test_a_run_whose_file_is_moved_away_waits_for_it_and_writes_to_no_other_file(
    tmp_path: Path,
) -> None:
    payments = Payments()
    folder, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    store = SqliteStore(folder / "runs.db")
    async with Plansmith(tools=payments.tools(), store=store) as smith:
        running = await begun(smith, payments)
        folder.rename(elsewhere)
        payments.go.set()
        await until(lambda: "was moved or removed" in smith.runs.journals.store_retry.trouble)
        with pytest.raises(StoreAway, match="was moved or removed"):
            await smith.submit(PLAN)
        with pytest.raises(StoreAway, match="was moved or removed"):
            await smith.runs.all()
        assert not folder.exists()
        # Somebody who finds none there makes another one: it is not taken for ours.
        async with Plansmith(tools=payments.tools(), store=SqliteStore(folder / "runs.db")) as new:
            assert await new.runs.all() == []
        with pytest.raises(StoreAway, match="was replaced by another file"):
            await smith.submit(PLAN)
        shutil.rmtree(folder)
        elsewhere.rename(folder)
        run = await running
        assert run.status is RunStatus.DONE
        assert payments.paid == ["ann", "bob"]
        await verify(store, run.id)


async def test_a_store_that_is_closed_while_its_file_is_away_makes_no_new_one(
    tmp_path: Path,
) -> None:
    folder, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    tools = Payments().tools()
    async with Plansmith(tools=tools, store=SqliteStore(folder / "runs.db")) as smith:
        run = await smith.submit(PLAN)
        folder.rename(elsewhere)
    assert not folder.exists()
    async with Plansmith(tools=tools, store=SqliteStore(elsewhere / "runs.db")) as smith:
        assert (await smith.get(run.id)).plan == PLAN


async def test_a_run_whose_postgres_is_stopped_and_started_goes_on_and_loses_no_result(
    postgres_server: Server,
) -> None:
    payments = Payments()
    store = PostgresStore(postgres_server.new_database(), patience_s=0.1)
    async with Plansmith(tools=payments.tools(), store=store) as smith:
        running = await begun(smith, payments)
        # Words of other processes are waited for in the meantime: that comes back too.
        await asyncio.to_thread(postgres_server.stop)
        payments.go.set()
        await until(lambda: bool(smith.runs.journals.store_retry.trouble))
        with pytest.raises(StoreAway):
            await smith.submit(PLAN)
        await asyncio.to_thread(postgres_server.start)
        run = await running
        assert run.status is RunStatus.DONE
        assert payments.paid == ["ann", "bob"]
        await verify(store, run.id)


async def test_a_server_says_that_it_is_not_ready_and_its_runs_go_on_when_the_store_is_back(
    tmp_path: Path,
) -> None:
    tools = Tools()
    url = f"sqlite:///{tmp_path / 'runs.db'}?timeout=0.05"
    async with serving(tmp_path, tools=tools, settings={"store": url}) as house:
        run = await house.begin(tool_step("a", "slow"), tool_step("b", "mail", after=["a"]))
        await house.approve(run)
        await tools.began["slow"].wait()
        assert (await house.get("/readyz"))["status"] == "ok"
        async with locked(tmp_path / "runs.db"):
            refused = (await house.client.get("/readyz")).json()
            assert (refused["status"], refused["code"]) == (503, "not_ready")
            assert "locked" in refused["detail"]
            answer = await house.client.post(f"/v1/runs/{run['id']}/pause", json={})
            assert (answer.status_code, answer.json()["code"]) == (503, "store_away")
            tools.gate.set()
            await until(lambda: bool(house.server_state.smith.runs.journals.store_retry.trouble))
        await house.until(run["id"], "done")
        assert [name for name, _ in tools.calls] == ["slow", "mail"]
        assert (await house.get("/readyz"))["status"] == "ok"


async def test_a_server_that_starts_while_its_store_is_away_takes_up_its_runs_later(
    tmp_path: Path,
) -> None:
    tools = Tools()
    url = f"sqlite:///{tmp_path / 'runs.db'}?timeout=0.05"
    async with serving(tmp_path, tools=tools, settings={"store": url}) as house:
        run = await house.begin(tool_step("a", "slow"))
        await house.approve(run)
        await tools.began["slow"].wait()
    async with locked(tmp_path / "runs.db"):
        tools.gate.set()
        second = serving(tmp_path, tools=tools, settings={"store": url})
        house = await second.__aenter__()
        await until(lambda: bool(house.server_state.smith.runs.journals.store_retry.trouble))
    try:
        await house.until(run["id"], "done")
    finally:
        await second.__aexit__(None, None, None)


async def test_a_fire_whose_run_ends_while_the_store_is_away_is_done_once_when_it_is_back(
    tmp_path: Path,
) -> None:
    payments = Payments()
    store = SqliteStore(tmp_path / "runs.db", timeout_s=0.02)
    async with Plansmith(tools=payments.tools(), store=store) as smith:
        timing = Timing(every_minutes=60)
        made = await smith.schedules.create(
            timing=timing, plan=PLAN, approve=PLAN.hash, name="hourly", by="ada"
        )
        keeping = asyncio.ensure_future(smith.schedules.run_forever(look_s=0.05))
        await smith.schedules.fire_now(made.id)
        await payments.began.wait()
        async with locked(tmp_path / "runs.db"):
            payments.go.set()
            await until(lambda: bool(smith.runs.journals.store_retry.trouble))
            with pytest.raises(StoreAway):
                await smith.schedules.fire_now(made.id)
            assert not keeping.done()
        await smith.schedules.carried()
        [fire] = await ScheduleStore(store).fires(made.id, limit=9)
        assert fire.state is FireState.DONE
        assert payments.paid == ["ann", "bob"]
        keeping.cancel()


FULL = """
import asyncio, resource, sys
from plansmith import Plan, Plansmith, tool
from plansmith.plan.limits import Limits
from plansmith.store.sqlite import SqliteStore

whole = resource.getrlimit(resource.RLIMIT_FSIZE)
calls = []

@tool(effect="write")
def fill() -> str:
    "From now on nothing can be written."
    calls.append("fill")
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, whole[1]))
    return "x" * 300_000

@tool(effect="write")
def then(text: str) -> str:
    "Act."
    calls.append("then")
    return "done"

async def main():
    store = SqliteStore(sys.argv[1], timeout_s=0.05)
    smith = Plansmith(tools=[fill, then], store=store, limits=Limits(data="show"))
    steps = [{"id": "a", "tool": "fill"}, {"id": "b", "tool": "then", "inputs": {"text": "{{a}}"}}]
    plan = Plan.model_validate({"goal": "fill", "steps": steps})
    run = await smith.submit(plan)
    await smith.decide(run.id, approve=plan.hash, by="ada")
    running = asyncio.ensure_future(smith.runs.run(run.id))
    while not smith.runs.journals.store_retry.trouble:
        await asyncio.sleep(0.01)
    trouble = smith.runs.journals.store_retry.trouble
    resource.setrlimit(resource.RLIMIT_FSIZE, whole)
    run = await running
    print(run.status.value, calls, trouble)
    await smith.close()

asyncio.run(main())
"""


def test_a_run_whose_disk_is_full_for_a_while_goes_on_and_loses_no_result(tmp_path: Path) -> None:
    done = forked.run(
        [sys.executable, "-c", FULL, str(tmp_path / "runs.db")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.startswith("done ['fill', 'then']"), done.stdout + done.stderr


@pytest.fixture
def dsn(postgres_server: Server) -> str:
    return postgres_server.new_database()


def cut(server: Server, dsn: str) -> None:
    """End every session of a database."""
    name = dsn.rpartition("/")[2]
    server.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")


async def test_cut_sessions_are_opened_again(postgres_server: Server, dsn: str) -> None:
    store = PostgresStore(dsn)
    for number, event in enumerate(journal("a", 6)):
        await store.append([event])
        cut(postgres_server, dsn)
        assert len(await store.events("a")) == number + 1
        cut(postgres_server, dsn)
    assert await verify(store, "a") == 6
    await store.close()


async def test_a_follower_outlives_a_cut_session(postgres_server: Server, dsn: str) -> None:
    store, other = PostgresStore(dsn), PostgresStore(dsn)
    await other.append(journal("a", 1))
    await store.wait("a")
    waiting = asyncio.ensure_future(store.wait("a", after=1))
    await store.runs()
    cut(postgres_server, dsn)
    await other.append(journal("a", 2)[1:])
    await waiting
    assert len(await store.events("a")) == 2
    await store.close()
    await other.close()


@asynccontextmanager
async def wire_to(server: Server, dsn: str) -> AsyncIterator[tuple[Wire, PostgresStore]]:
    """A store behind a wire to the server; `b""` is in every question, whose answer may be lost."""
    wire = Wire(server.port)
    store = PostgresStore(dsn.replace(f":{server.port}/", f":{wire.port}/"))
    async with wire.open():
        yield wire, store
        await store.close()


async def test_a_write_whose_answer_was_lost_is_neither_lost_nor_done_twice(
    postgres_server: Server, dsn: str
) -> None:
    async with wire_to(postgres_server, dsn) as (wire, store):
        await store.append(journal("a", 1))
        await store.append(journal("other", 1))
        for number in range(1, 5):
            wire.swallow = [b""]
            stale = store.append(journal("other", 1))
            outcomes = await asyncio.gather(
                store.append(journal("a", number + 1)[number:], [number]),
                store.append(journal("other", 3)[2:]),
                stale,
                return_exceptions=True,
            )
            assert not wire.swallow
            assert outcomes[0] is None
            assert isinstance(outcomes[1], StaleWriter)
        assert await verify(store, "a") == 5


async def test_an_entry_of_a_thread_is_there_once_whichever_answer_of_the_server_was_lost(
    postgres_server: Server, dsn: str
) -> None:
    async with wire_to(postgres_server, dsn) as (wire, store):
        assert await ThreadStore(store).append_entries(story("trip")[:1])
        number, texts = 1, [""]
        while not wire.swallow:
            wire.swallow, wire.pass_first = [b""], number - 1
            number += 1
            message = MessageAdded(text=f"{number}")
            assert await ThreadStore(store).append_entries([entry("trip", number, message)])
            assert not await ThreadStore(store).append_entries([entry("trip", number, message)])
            texts.append(f"{number}")
        assert number > 5, "a transaction has several answers, each of which was lost"
        found = await ThreadStore(store).thread_entries("trip")
        assert [getattr(each.body, "text", "") for each in found] == texts


async def test_a_server_that_stays_away_is_a_named_error(postgres_server: Server) -> None:
    store = PostgresStore("postgresql://plansmith@127.0.0.1:1/nothing")
    for use in (store.append(journal("a", 1)), store.events("a")):
        with pytest.raises(JournalError, match="cannot be reached"):
            await use
    await store.close()
    missing = PostgresStore(postgres_server.dsn_of("no_such_database"))
    with pytest.raises((JournalError, Misconfigured), match="no_such_database"):
        await missing.runs()
    await missing.close()
    findings = await diagnose("postgresql://plansmith@127.0.0.1:1/nothing")
    assert [found.level for found in findings] == ["error"]


async def test_a_schema_of_another_version_is_refused(postgres_server: Server, dsn: str) -> None:
    assert [found.level for found in await diagnose(dsn)] == ["note"]
    store = PostgresStore(dsn)
    await store.append(journal("a", 2), ["kept"])
    await store.close()
    for version in (99, 12):
        change = f"UPDATE plansmith.migration SET number = {version}"
        postgres_server.sql(change, database=dsn)
        other = PostgresStore(dsn)
        with pytest.raises(Misconfigured, match=f"version {version}"):
            await other.runs()
        await other.close()
        assert [found.level for found in await diagnose(dsn)] == ["error"]


async def test_a_restarted_server_is_waited_for(postgres_server: Server, dsn: str) -> None:
    store = PostgresStore(dsn, patience_s=60)
    await store.append(journal("a", 2))
    await asyncio.to_thread(postgres_server.stop)
    appending = asyncio.ensure_future(store.append(journal("a", 3)[2:]))
    await asyncio.to_thread(postgres_server.start)
    await appending
    assert await verify(store, "a") == 3
    await store.close()
