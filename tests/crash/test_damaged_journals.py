"""Journals that do not fold or cannot be read: never written, shown as they stood, moved on."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from tests import forked
from tests.commands import Told, typed
from tests.crash.test_claims import owner_of
from tests.postgres import Server, store_url
from tests.unit.server.house import serving, tool_step

from plansmith import Plan, RunStatus, StepStatus, tool
from plansmith.app import Plansmith
from plansmith.errors import EventMisfit, JournalDamaged, Refused, RunBusy
from plansmith.plan import events as e
from plansmith.plan.events import verify_chain
from plansmith.plan.planning import Decision
from plansmith.report.build import load_report
from plansmith.report.markdown import to_markdown
from plansmith.runs.journals import delete_run
from plansmith.store.database_store import DatabaseStore
from plansmith.store.sqlite import SqliteStore
from plansmith.store.urls import open_store
from plansmith.testing.contracts import journal
from plansmith.verify import verify
from plansmith_cli.doctor import diagnose, missing_runs
from plansmith_postgres.store import PostgresStore

ADA = e.Actor(kind="person", name="ada")
SYSTEM = e.Actor(kind="system")
Store = DatabaseStore


class World:
    """A Plansmith whose one tool pays, and the list of what was paid."""

    def __init__(self, store: Store, *, receipt: str = "") -> None:
        self.paid: list[str] = []

        @tool(effect="write")
        def pay(whom: str) -> str:
            """Pay."""
            self.paid.append(whom)
            return f"paid {whom}{receipt}"

        self.store = store
        self.smith = Plansmith(tools=[pay], store=store)

    async def approved(self) -> str:
        """A run of two payments that a person approved."""
        steps = [
            {"id": "a", "tool": "pay", "inputs": {"whom": "ann"}},
            {"id": "b", "tool": "pay", "inputs": {"whom": "bob"}, "after": ["a"]},
        ]
        plan = Plan.model_validate({"goal": "pay both", "steps": steps})
        run = await self.smith.submit(plan)
        await self.smith.decide(run.id, approve=plan.hash, by="ada")
        return run.id

    async def force(self, run: str, *bodies: e.AnyBody, by: e.Actor = SYSTEM) -> None:
        """Write events past the journal, as an older release with a fault would have."""
        last = (await self.store.events(run))[-1]
        for body in bodies:
            event = e.next_event(body, run=run, by=by, at=last.at, last=last)
            await self.store.append([event])
            last = event


def opened(url: str) -> Store:
    store = open_store(url)
    assert isinstance(store, DatabaseStore)
    return store


@pytest.fixture(params=["sqlite", "postgres"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    made = World(opened(store_url(request.param, request)))
    yield made
    await made.smith.close()


async def test_an_event_that_does_not_fold_is_not_stored_and_the_journal_stays_usable(
    world: World,
) -> None:
    run = await world.approved()
    journal = await world.smith.runs.journals.load_verified(run)
    before, stood = list(journal.events), journal.run
    bad: list[tuple[e.AnyBody, ...]] = [
        (e.StepDone(step="nowhere", result="0" * 64),),
        (e.RunPaused(), e.QuestionWithdrawn(question="none")),
        (e.QuestionAsked(question="q", text="?", kind="request"),) * 2,
        (e.PlanApproved(hash="0" * 64),),
        (e.Triaged(decision=Decision.PLAN, cost="much"),),
    ]
    for bodies in bad:
        with pytest.raises(EventMisfit, match="nothing was stored"):
            await journal.append(*bodies)
        assert journal.run == stood
        assert list(await world.store.events(run)) == before
    await journal.append(e.RunPaused(reason="lunch"), by=ADA)
    assert (await world.smith.get(run)).status is RunStatus.PAUSED


async def test_a_run_that_does_not_fold_is_shown_as_it_stood_and_goes_on_after_a_repair(
    world: World,
) -> None:
    run = await world.approved()
    await world.force(run, e.RunStarted(hash="0" * 64), e.RunPaused())
    loaded = await world.smith.get(run)
    assert loaded.plan is not None
    assert "its hash is not the hash of the current plan" in loaded.damage
    assert f"plansmith store repair {run}" in loaded.damage
    assert [each.damage for each in await world.smith.runs.all()] == [loaded.damage]
    for action in (
        world.smith.runs.run(run),
        world.smith.pause(run),
        world.smith.cancel(run),
        world.smith.runs.resume_all(),
        verify(world.store, run),
    ):
        with pytest.raises(JournalDamaged, match="repair"):
            await action
    assert world.paid == []
    repaired = await world.smith.runs.journals.repair(run, by="ada")
    assert (repaired.damage, repaired.status) == ("", RunStatus.PAUSED)
    events = await world.store.events(run)
    assert [each.body.aside for each in events if isinstance(each.body, e.RunRepaired)] == [2]
    await verify(world.store, run)
    with pytest.raises(Refused, match="not damaged"):
        await world.smith.runs.journals.repair(run)
    await world.smith.resume(run, by="ada")
    assert (await world.smith.runs.run(run)).status is RunStatus.DONE
    assert world.paid == ["ann", "bob"]
    verify_chain(await world.store.events(run))


async def test_an_event_that_fails_half_way_leaves_nothing_in_what_is_shown(world: World) -> None:
    run = await world.approved()
    journal = await world.smith.runs.journals.load_verified(run)
    await journal.append(e.RunStarted(hash=journal.plan_hash), e.StepStarted(step="a"))
    stood = journal.run
    await world.force(run, e.StepFailed(step="a", error="no", cost="much"))
    loaded = (await world.smith.runs.journals.load_verified(run)).run
    assert "step_failed" in loaded.damage
    assert loaded.steps == stood.steps


async def test_a_call_that_was_made_is_not_made_again_because_its_record_was_set_aside(
    world: World,
) -> None:
    run = await world.approved()
    plan_hash = (await world.store.events(run))[1].body
    assert isinstance(plan_hash, e.PlanProposed)
    await world.force(run, e.RunStarted(hash=plan_hash.plan.hash))
    digest = await world.store.put("paid ann")
    await world.force(
        run,
        e.QuestionWithdrawn(question="nobody asked this"),
        e.StepStarted(step="a", inputs="0" * 64),
        e.StepDone(step="a", result=digest),
        e.StepStarted(step="b", inputs="0" * 64),
    )
    repaired = await world.smith.runs.journals.repair(run, by="ada")
    assert repaired.steps["a"].status is StepStatus.DONE
    await world.smith.resume(run, by="ada")
    after = await world.smith.runs.run(run)
    # How the second call ended nobody saw: a person is asked, and nobody is paid twice.
    assert list(after.questions) == ["unknown:b"]
    assert world.paid == []
    await world.smith.answer(run, "unknown:b", "done", by="ada")
    over = await world.smith.runs.run(run)
    assert (over.status, world.paid) == (RunStatus.DONE, [])
    told = to_markdown(await load_report(world.store, run))
    assert "ada repaired the damaged journal; 4 events were set aside" in told


async def test_a_repair_of_a_run_that_is_over_leaves_it_over(world: World) -> None:
    run = await world.approved()
    assert (await world.smith.runs.run(run)).status is RunStatus.DONE
    await world.force(run, e.RunPaused(), by=ADA)
    assert "the run is over" in (await world.smith.get(run)).damage
    repaired = await world.smith.runs.journals.repair(run, by="ada")
    assert (repaired.status, repaired.damage) == (RunStatus.DONE, "")
    assert (await world.store.events(run))[-1].body.type == "run_finished"


DAMAGES: dict[str, str] = {
    "altered": "UPDATE events SET body = zeroblob(40) WHERE position = {last}",
    "renamed": "UPDATE events SET type = 'run_paused' WHERE position = {last}",
    "missing": "DELETE FROM events WHERE position = {last}",
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_row_that_cannot_be_read_is_said_and_the_run_waits_for_a_person(
    damage: str, tmp_path: Path
) -> None:
    world = World(SqliteStore(tmp_path / "runs.db"))
    run = await world.approved()
    await world.smith.close()
    with closing(sqlite3.connect(tmp_path / "runs.db")) as file, file:
        [last] = file.execute("SELECT max(position) FROM events").fetchone()
        file.execute(DAMAGES[damage].format(last=last))
    findings = await diagnose(f"sqlite:///{tmp_path / 'runs.db'}")
    [finding] = [each for each in findings if each.subject == f"run {run}"]
    assert f"plansmith store repair {run}" in finding.hint
    world = World(SqliteStore(tmp_path / "runs.db"))
    loaded = await world.smith.get(run)
    assert loaded.damage
    assert not loaded.is_approved
    repaired = await world.smith.runs.journals.repair(run, by="ada")
    assert repaired.paused
    assert "1 events cannot be read" in repaired.reason
    # What could not be read was the approval: it is not taken for given.
    await world.smith.resume(run, by="ada")
    assert (await world.smith.runs.run(run)).status is RunStatus.REVIEWING
    assert world.paid == []
    await world.smith.close()
    levels = {each.level for each in await diagnose(f"sqlite:///{tmp_path / 'runs.db'}")}
    assert "error" not in levels


# What a hand or a disk does to a row; SQLite keeps whatever it is given.
ANYWHERE = {
    "a type that does not exist": "type = 'step_danced'",
    "a time beyond all calendars": "at = '9000000000000000000'",
    "a row cut short": "body = substr(body, 1, 1)",
    "an empty row": "type = '', at = '', by = '', hash = '', body = ''",
}
IN_A_FILE = {
    **ANYWHERE,
    "a type that is a number": "type = 99",
    "a time that is none": "at = 'noon'",
    "bytes in the place of text": "body = x'00ff'",
    "a byte that is no text": "body = CAST(x'7bff7d' AS TEXT)",
    "no time zone and no hash": "at = '2026-01-01T00:00:00', hash = 7",
}


def damage_file(path: Path, run: str, change: str) -> None:
    """Change the last row of a run by hand."""
    with closing(sqlite3.connect(path)) as file, file:
        last = "SELECT max(position) FROM events JOIN runs ON runs.id = run WHERE name = :run"
        file.execute(f"UPDATE events SET {change} WHERE position = ({last})", {"run": run})


@pytest.mark.parametrize(
    ("kind", "change"),
    [("file", change) for change in IN_A_FILE] + [("postgres", change) for change in ANYWHERE],
)
async def test_a_damaged_last_row_keeps_no_other_run_from_going_on(
    kind: str, change: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = store_url(kind, request)
    world = World(opened(url))
    damaged, other = [await world.approved() for _ in range(2)]
    last = len(await world.store.events(damaged))
    await world.smith.close()
    if kind == "postgres":
        known = f"SELECT id FROM plansmith.runs WHERE name = '{damaged}'"
        where = f"run = ({known}) AND number = {last}"
        statement = f"UPDATE plansmith.events SET {ANYWHERE[change]} WHERE {where}"
        request.getfixturevalue("postgres_server").sql(statement, database=url)
    else:
        damage_file(tmp_path / "runs.db", damaged, IN_A_FILE[change])
    world = World(opened(url))
    assert list(await world.store.open_runs()) == [damaged, other]
    with pytest.raises(JournalDamaged, match=f"plansmith store repair {damaged}"):
        await world.smith.runs.resume_all()
    listed = {run.id: bool(run.damage) for run in await world.smith.runs.all()}
    assert listed == {damaged: True, other: False}
    assert (await world.smith.runs.run(other)).status is RunStatus.DONE
    assert (await world.smith.runs.journals.repair(damaged, by="ada")).damage == ""
    await world.smith.close()


async def damaged(path: Path) -> str:
    """A run in that file that does not fold."""
    world = World(SqliteStore(path))
    run = await world.approved()
    await world.force(run, e.StepDone(step="nowhere", result="0" * 64))
    await world.smith.close()
    return run


def test_commands_list_show_verify_and_repair_a_damaged_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = asyncio.run(damaged(tmp_path / "runs.db"))
    home = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}

    def command(*words: str) -> Told:
        store = ("--store", "sqlite:///runs.db")
        return typed(*words, *store, folder=tmp_path, environment=home, capsys=capsys)

    assert "damaged" in command("runs")[1]
    code, out, err = command("show", run)
    assert code == 0
    assert "the plan has no step 'nowhere'" in out
    assert f"plansmith store repair {run}" in err
    assert json.loads(command("show", run, "--json")[1])["damage"]
    code, out, _ = command("store", "verify", run)
    assert (code, "repair" in out) == (1, True)
    assert f"plansmith store repair {run}" in command("store", "doctor")[1]
    code, _, err = command("go", run, "--no-input")
    assert code == 1
    assert "plansmith store repair" in err
    code, _, err = command("store", "repair", run)
    assert code == 0, err
    assert "goes on from event 4" in err
    assert command("store", "verify", run)[0] == 0


async def test_the_server_starts_beside_a_damaged_run_shows_and_repairs_it(tmp_path: Path) -> None:
    async with serving(tmp_path, store="sqlite") as house:
        made, other = [await house.begin(tool_step("a", "mail")) for _ in range(2)]
        smith = house.server_state.smith
        last = (await smith.store.events(made["id"]))[-1]
        body = e.StepDone(step="nowhere", result="0" * 64)
        misfit = e.next_event(body, run=made["id"], by=SYSTEM, at=last.at, last=last)
        await smith.store.append([misfit])
        # Approved behind the server's back: it stops before anybody runs it.
        await smith.decide(other["id"], approve=other["hash"], by="ada")
    async with serving(tmp_path, store="sqlite") as house:
        await house.until(other["id"], "done")
        assert (await house.get("/readyz"))["status"] == "ok"
        path = f"/v1/runs/{made['id']}"
        assert "nowhere" in (await house.get(path))["damage"]
        _, row = (await house.get("/v1/runs"))["items"]
        assert "nowhere" in row["damage"]
        assert len((await house.get(f"{path}/events"))["items"]) == last.number
        assert len(await house.get(f"{path}/plans")) == 1
        assert (await house.client.get(f"{path}/report")).status_code == 409
        refused = await house.post(f"{path}/decision", {"approve": made["hash"]}, 500)
        assert "repair" in refused["hint"]
        repaired = await house.post(f"{path}/repair")
        assert (repaired["damage"], repaired["status"]) == ("", "paused")
        assert (await house.get("/v1/runs"))["items"][1]["damage"] == ""


async def test_a_run_that_another_process_is_running_is_not_repaired_under_it(
    tmp_path: Path,
) -> None:
    world = World(SqliteStore(tmp_path / "runs.db"))
    run = await world.approved()
    await world.force(run, e.StepDone(step="nowhere", result="0" * 64))
    other = await forked.create_subprocess_exec(sys.executable, "-c", "input()", stdin=-1)
    assert isinstance(world.store, SqliteStore)
    await world.store.claim(run, owner_of(other.pid))
    with pytest.raises(RunBusy, match=str(other.pid)):
        await world.smith.runs.journals.repair(run, by="ada")
    other.kill()
    await other.wait()
    assert (await world.smith.runs.journals.repair(run, by="ada")).paused
    await world.smith.close()


async def waiting_without_results(path: Path) -> str:
    """A run that paid, asks, and whose results were all deleted by hand."""
    # Smaller ones would be in the rows of their events.
    world = World(SqliteStore(path), receipt=" by transfer" * 50)
    steps = [
        {"id": "a", "tool": "pay", "inputs": {"whom": "ann"}},
        {"id": "sure", "question": "Sure?", "after": ["a"]},
        {"id": "b", "tool": "pay", "inputs": {"whom": "bob"}, "after": ["sure"]},
    ]
    plan = Plan.model_validate({"goal": "pay both", "steps": steps})
    run = (await world.smith.submit(plan)).id
    await world.smith.decide(run, approve=plan.hash, by="ada")
    await world.smith.runs.run(run)
    assert world.paid == ["ann"]
    await world.smith.close()
    with closing(sqlite3.connect(path)) as file, file:
        assert file.execute("DELETE FROM contents").rowcount
    return run


async def test_a_run_whose_results_are_lost_is_repaired_and_asks_about_what_acted(
    tmp_path: Path,
) -> None:
    run = await waiting_without_results(tmp_path / "runs.db")
    world = World(SqliteStore(tmp_path / "runs.db"))
    await world.smith.answer(run, "sure", "yes", by="ada")
    with pytest.raises(JournalDamaged, match="no value is stored"):
        await world.smith.runs.run(run)
    with pytest.raises(JournalDamaged, match=f"plansmith store repair {run}"):
        await verify(world.store, run)
    repaired = await world.smith.runs.journals.repair(run, by="ada")
    assert (repaired.status, repaired.damage) == (RunStatus.PAUSED, "")
    assert "the result of 'a' cannot be read" in repaired.reason
    await world.smith.resume(run, by="ada")
    # It was paid: nobody pays again unasked.
    assert "unknown:a" in (await world.smith.runs.run(run)).questions
    assert world.paid == []
    await world.smith.answer(run, "unknown:a", "done", by="ada")
    # What was answered behind that point was set aside with it: it is asked again.
    assert list((await world.smith.runs.run(run)).questions) == ["sure"]
    assert world.paid == []
    await world.smith.answer(run, "sure", "yes", by="ada")
    assert (await world.smith.runs.run(run)).status is RunStatus.DONE
    assert world.paid == ["bob"]
    await verify(world.store, run)
    await world.smith.close()


async def test_a_run_whose_results_are_lost_can_be_cancelled_and_deleted(tmp_path: Path) -> None:
    run = await waiting_without_results(tmp_path / "runs.db")
    world = World(SqliteStore(tmp_path / "runs.db"))
    assert (await world.smith.cancel(run, by="ada")).status is RunStatus.CANCELLED
    assert world.paid == []
    with pytest.raises(Refused, match="is over"):
        await world.smith.runs.journals.repair(run, by="ada")
    await world.force(run, e.RunPaused())  # which does not fit after the end
    assert await delete_run(world.smith.runs.journals, run)
    await world.smith.close()


async def test_a_whole_run_that_was_deleted_by_hand_is_noticed_and_one_by_a_verb_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    store = SqliteStore(path)
    for run in ("a", "b", "c"):
        await store.append(journal(run, 3))
    assert await store.delete_run("c")
    assert await missing_runs(store) == []
    await store.close()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DELETE FROM events WHERE run = (SELECT id FROM runs WHERE name = 'b')")
        file.execute("DELETE FROM runs WHERE name = 'b'")
    errors = [each.message for each in await diagnose(f"sqlite:///{path}") if each.level == "error"]
    assert any("1 of 2 runs" in each for each in errors)


async def test_postgres_notices_a_missing_end_and_a_missing_run(postgres_server: Server) -> None:
    url = postgres_server.new_database()
    store = PostgresStore(url)
    for run in ("a", "b", "c"):
        await store.append(journal(run, 20))
    assert await store.delete_run("c")
    assert await missing_runs(store) == []
    postgres_server.sql("DELETE FROM plansmith.events WHERE run = 1 AND number = 20", database=url)
    with pytest.raises(JournalDamaged, match="the end of run a is missing"):
        await store.events("a")
    with pytest.raises(JournalDamaged, match="the end of run a is missing"):
        await store.events("a", after=19)
    assert (await store.intact_part("a")).last == 20
    postgres_server.sql(
        "DELETE FROM plansmith.events WHERE run = 2; DELETE FROM plansmith.runs WHERE id = 2",
        database=url,
    )
    assert ["1 of 2 runs" in each.message for each in await missing_runs(store)] == [True]
    await store.close()
