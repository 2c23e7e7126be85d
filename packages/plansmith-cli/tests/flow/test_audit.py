"""The audit export: who did what, in order, verifiable, harmless in a spreadsheet."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from plansmith import Plan, tool
from plansmith.app import Plansmith
from plansmith.plan.events import Actor
from plansmith.testing import FakeClock
from plansmith_cli.main import main
from plansmith_server.team.audit import AuditQuery, altered, audit_lines, audited

START = datetime(2026, 1, 1, 8, tzinfo=UTC)
BOB = Actor(kind="person", name="bob (token desk)", user="bob")
EVIL = Actor(kind="program", name="=HYPERLINK(1)", user="-2+3")


def smith(path: Path) -> tuple[Plansmith, FakeClock]:
    @tool(effect="write")
    def note(text: str) -> str:
        """Note."""
        return text

    clock = FakeClock(START)
    return Plansmith(store=f"sqlite:///{path / 'runs.db'}", tools=[note], clock=clock), clock


def plan(text: str) -> Plan:
    step = {"id": "n", "tool": "note", "inputs": {"text": text}}
    return Plan.model_validate({"goal": "note", "steps": [step]})


async def story(path: Path) -> list[str]:
    """Two runs whose events are mixed; the second is of a program with a hostile name."""
    app, clock = smith(path)
    async with app:
        first = await app.submit(plan("a"), by="ann")
        await clock.advance(3600)
        second = await app.submit(plan("b"), by=EVIL)
        await clock.advance(3600)
        await app.decide(first.id, approve=plan("a").hash, by=BOB)
        await app.run(first.id)
        await app.decide(second.id, reject=True, by="ann")
        return [first.id, second.id]


async def exported(path: Path, form: Any, query: AuditQuery | None = None) -> list[str]:
    app, _ = smith(path)
    async with app:
        return [line async for line in audit_lines(app.store, query or AuditQuery(), form)]


async def test_an_export_tells_who_did_what_in_order_and_each_line_fits_its_hash(
    tmp_path: Path,
) -> None:
    first, second = await story(tmp_path)
    lines = await exported(tmp_path, "jsonl")
    rows = [json.loads(each) for each in lines]
    entries = [(each["user"], each["action"], each["event"]["run"]) for each in rows]
    assert entries == [
        ("ann", "run_created", first),
        ("ann", "plan_proposed", first),
        ("-2+3", "run_created", second),
        ("-2+3", "plan_proposed", second),
        ("bob", "plan_approved", first),
        ("ann", "plan_rejected", second),
        ("ann", "run_finished", second),
    ]
    assert [*altered(iter(lines))] == []
    forged = lines[4].replace('"user":"bob"', '"user":"eve"')
    assert [number for number, _ in altered(iter([*lines[:4], forged, "no json"]))] == [5, 6]


async def test_an_export_can_be_of_one_user_and_of_some_time(tmp_path: Path) -> None:
    await story(tmp_path)
    app, _ = smith(tmp_path)
    async with app:
        of_bob = [each async for each in audited(app.store, AuditQuery(user="BOB"))]
        assert [each.body.type for each in of_bob] == ["plan_approved"]
        hour = timedelta(hours=1)
        some = AuditQuery(since=START + hour, until=START + 2 * hour)
        assert {each.by.name async for each in audited(app.store, some)} == {EVIL.name}
        whole = [each async for each in audited(app.store, AuditQuery(everything=True))]
        assert "step_started" in {each.body.type for each in whole}


async def test_no_cell_of_a_csv_export_is_taken_for_a_formula(tmp_path: Path) -> None:
    await story(tmp_path)
    text = "".join(await exported(tmp_path, "csv"))
    rows = [*csv.reader(io.StringIO(text))]
    assert rows[0][:3] == ["at", "user", "kind"]
    cells = [cell for row in rows for cell in row]
    assert "'=HYPERLINK(1)" in cells
    assert "'-2+3" in cells
    assert not [each for each in cells if each[:1] in ("=", "+", "-", "@")]


def test_the_command_exports_and_checks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.chdir(tmp_path)
    asyncio.run(story(tmp_path))
    store = ["--store", f"sqlite:///{tmp_path / 'runs.db'}"]
    assert main(["store", "audit", "--user", "ann", *store]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) == 4
    (tmp_path / "audit.jsonl").write_text(text)
    assert main(["store", "audit", "--check", "audit.jsonl"]) == 0
    (tmp_path / "audit.jsonl").write_text(text.replace("note", "nota"))
    assert main(["store", "audit", "--check", "audit.jsonl"]) == 1
    assert main(["store", "audit", "--since", "yesterday", *store]) == 2
    assert main(["store", "audit", "--format", "csv", *store]) == 0
    (tmp_path / "audit.csv").write_text(capsys.readouterr().out)
    assert main(["store", "audit", "--check", "audit.csv"]) == 2
    assert "audit.csv is not an export as jsonl" in capsys.readouterr().err
