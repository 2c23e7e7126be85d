"""Consent to files that change meanwhile, that are large, and that nobody may read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.e2e.test_server_files import asking, folder_of, write
from tests.flow.test_given_values import LOOK, Bank, plan
from tests.flow.test_values_under_attack import ONE
from tests.unit.server.house import House, tool_step

from plansmith.app import Plansmith
from plansmith.errors import Refused
from plansmith.plan.data import Json
from plansmith.testing import MemoryStore
from plansmith_cli.questions import Asked
from plansmith_desk.builtin import builtin_sources
from plansmith_desk.files.changes import FILE_WRITERS, preview

READ = tool_step("read", "files.read", inputs={"path": "in.md"})

OVER = ("done", "partly_done", "failed")


async def allowed(house: House, run: str, whole: Any, *, perhaps: bool = False) -> Any:
    """Allows a call as it was seen, and waits for the end; `perhaps` it is refused."""
    answer = {"question": whole["question"], "answer": "allow", "seen": whole["seen"]}
    reply = await house.client.post(f"/v1/runs/{run}/answers", json=answer)
    assert perhaps or reply.status_code == 200
    return await house.until(run, *OVER) if reply.status_code == 200 else None


async def test_a_large_file_that_would_be_deleted_is_not_said_to_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with folder_of(tmp_path, monkeypatch) as house:
        (tmp_path / "work" / "in.md").write_text("big.bin")
        (tmp_path / "work" / "big.bin").write_bytes(b"b" * 11_000_000)
        delete = tool_step("x", "files.delete", inputs={"path": "{{read.text}}"})
        run, whole = await asking(house, READ, delete)
        said = whole["would_fail"]
        await allowed(house, run, whole)
        assert not said or (tmp_path / "work" / "big.bin").exists(), said


async def test_a_large_file_that_changed_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with folder_of(tmp_path, monkeypatch) as house:
        work = tmp_path / "work"
        (work / "in.md").write_text("a.bin")
        (work / "a.bin").write_bytes(b"a" * 11_000_000)
        (work / "out.bin").write_bytes(b"o" * 11_000_000)
        inputs = {"path": "{{read.text}}", "to": "out.bin", "overwrite": True}
        run, whole = await asking(house, READ, tool_step("m", "files.move", inputs=inputs))
        (work / "out.bin").write_bytes(b"precious" * 2_000_000)
        await allowed(house, run, whole, perhaps=True)
        assert (work / "out.bin").read_bytes().startswith(b"precious")


async def test_a_large_file_that_would_be_replaced_is_not_said_to_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with folder_of(tmp_path, monkeypatch) as house:
        (tmp_path / "work" / "in.md").write_text("new")
        (tmp_path / "work" / "out.md").write_bytes(b"b" * 11_000_000)
        inputs = {"path": "out.md", "text": "{{read.text}}", "overwrite": True}
        run, whole = await asking(house, READ, tool_step("w", "files.write", inputs=inputs))
        said = whole["would_fail"]
        await allowed(house, run, whole)
        assert not said or (tmp_path / "work" / "out.md").stat().st_size == 11_000_000, said


@pytest.mark.parametrize("tool", ["files.move", "files.copy"])
async def test_a_move_into_a_new_folder_is_shown_where_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    async with folder_of(tmp_path, monkeypatch) as house:
        work = tmp_path / "work"
        (work / "in.md").write_text("a.md")
        (work / "a.md").write_text("A")
        inputs = {"path": "{{read.text}}", "to": "box/"}
        run, whole = await asking(house, READ, tool_step("m", tool, inputs=inputs))
        over = await allowed(house, run, whole)
        assert over["steps"]["m"]["result"]["path"] in [each["path"] for each in whole["files"]]


async def test_a_folder_goes_where_it_was_to_go_when_it_was_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with folder_of(tmp_path, monkeypatch) as house:
        work = tmp_path / "work"
        (work / "in.md").write_text("box")
        (work / "box").mkdir()
        (work / "box" / "a.md").write_text("A")
        inputs = {"path": "{{read.text}}", "to": "kept"}
        run, whole = await asking(house, READ, tool_step("m", "files.move", inputs=inputs))
        (work / "kept").mkdir()  # now it would become kept/box
        await allowed(house, run, whole, perhaps=True)
        assert not (work / "kept" / "box").exists()


async def test_a_folder_whose_move_is_tried_again_goes_where_it_was_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with folder_of(tmp_path, monkeypatch) as house:
        work = tmp_path / "work"
        (work / "in.md").write_text("box")
        (work / "box").mkdir()
        move = tool_step("m", "files.move", inputs={"path": "{{read.text}}", "to": "kept"})
        run, whole = await asking(house, READ, move | {"retry": {"at_most": 1, "every": 0}})
        await house.post(f"/v1/runs/{run}/pause")
        answer = {"question": whole["question"], "answer": "allow", "seen": whole["seen"]}
        await house.post(f"/v1/runs/{run}/answers", answer)
        (work / "kept").mkdir()  # now it would become kept/box; the first try is refused
        await house.post(f"/v1/runs/{run}/resume")
        await house.until(run, *OVER)
        assert not (work / "kept" / "box").exists()


async def test_a_copy_writes_what_was_shown_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with folder_of(tmp_path, monkeypatch) as house:
        work = tmp_path / "work"
        for name, text in {"in.md": "a.md", "a.md": "harmless", "out.md": "old"}.items():
            (work / name).write_text(text)
        inputs = {"path": "{{read.text}}", "to": "out.md", "overwrite": True}
        run, whole = await asking(house, READ, tool_step("copy", "files.copy", inputs=inputs))
        assert whole["files"][0]["after"] == "harmless"
        (work / "a.md").write_text("evil")
        await allowed(house, run, whole, perhaps=True)
        assert (work / "out.md").read_text() in ("old", "harmless")


async def test_an_export_writes_what_was_shown_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with folder_of(tmp_path, monkeypatch) as house:
        work = tmp_path / "work"
        (work / "in.md").write_text("rows.csv")
        (work / "rows.csv").write_text("to,sum\nalice,10\n")
        (work / "out.csv").write_text("old\n")
        inputs = {"table": "{{read.text}}", "path": "out.csv", "overwrite": True}
        run, whole = await asking(house, READ, tool_step("x", "tables.export", inputs=inputs))
        assert "alice" in whole["files"][0]["after"], whole["would_fail"]
        (work / "rows.csv").write_text("to,sum\nmallory,9999\n")
        await allowed(house, run, whole, perhaps=True)
        assert "mallory" not in (work / "out.csv").read_text()


async def test_with_own_values_in_the_plan_a_file_that_changed_is_not_overwritten(
    tmp_path: Path,
) -> None:
    (tmp_path / "in.md").write_text("new")
    (tmp_path / "out.md").write_text("old")
    app = Plansmith(tools=builtin_sources(tmp_path), store=MemoryStore())
    save = write("save", "out.md", "{{read.text}}", overwrite=True)
    run = await app.submit(plan(READ, save), by="ann")
    assert run.plan is not None
    await app.decide(run.id, approve=run.plan.hash, by="ann")
    run = await app.run(run.id)
    [asked] = run.questions.values()
    own: dict[str, Json] = {"path": "out.md", "text": "own", "overwrite": True}
    seen = await preview(tmp_path, FILE_WRITERS["files.write"], own)  # as the terminal shows it
    session = cast("Any", SimpleNamespace(smith=app, by="ann"))
    try:
        await Asked(session, run, (asked,), [], []).change({"text": "own"}, seen)
        (tmp_path / "out.md").write_text("precious")  # before another process goes on with it
        await app.run(run.id)
    except Refused:
        pass
    assert (tmp_path / "out.md").read_text() == "precious"


async def test_a_token_to_look_cannot_read_any_file_with_values_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with folder_of(tmp_path, monkeypatch) as house:
        work = tmp_path / "work"
        (work / "in.md").write_text("new")
        (work / "mine.txt").write_text("private words")
        save = write("save", "out.md", "{{read.text}}", overwrite=True)
        run, whole = await asking(house, READ, save)
        body = {"question": whole["question"], "change": {"path": "mine.txt"}}
        async with house.with_token("helper", "look") as client:
            reply = await client.post(f"/v1/runs/{run}/preview", json=body)
        assert "private words" not in reply.text


@pytest.mark.parametrize("said", [{}, {"answer": None}, {"answer": ""}, {"you_decide": True}])
async def test_nothing_is_no_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any]
) -> None:
    async with folder_of(tmp_path, monkeypatch) as house:
        sure = {"id": "sure", "question": "Really write it?"}
        save = write("save", "x.md", "text") | {"after": ["sure"]}
        run, whole = await asking(house, sure, save)
        body = {"question": whole["question"], **said}
        reply = await house.client.post(f"/v1/runs/{run}/answers", json=body)
        if reply.status_code == 200:
            await house.until(run, "asking", *OVER)
        assert not (tmp_path / "work" / "x.md").exists()


async def test_own_values_at_the_command_line_resume_nothing() -> None:
    bank = Bank()
    run = await bank.begin(LOOK, ONE)
    [asked] = run.questions.values()
    await bank.enter().pause(run.id, by="ann", reason="wait for the bank")
    app = bank.enter()
    session = cast("Any", SimpleNamespace(smith=app, by="bob"))
    await Asked(session, await app.get(run.id), (asked,), [], []).change({"to": "bob"})
    await bank.enter().run(run.id)
    assert bank.paid == []


async def test_own_values_over_http_resume_nothing(tmp_path: Any, monkeypatch: Any) -> None:
    async with folder_of(tmp_path, monkeypatch) as house:
        work = tmp_path / "work"
        (work / "in.md").write_text("new")
        run, whole = await asking(house, READ, write("save", "out.md", "{{read.text}}"))
        await house.post(f"/v1/runs/{run}/pause")
        own = {"question": whole["question"], "change": {"text": "own"}}
        await house.client.post(f"/v1/runs/{run}/answers", json=own)
        await house.until(run, "paused", *OVER)
        assert not (work / "out.md").exists()


async def test_refuse_with_change_over_http(tmp_path: Path, monkeypatch: Any) -> None:
    async with folder_of(tmp_path, monkeypatch) as house:
        work = tmp_path / "work"
        (work / "in.md").write_text("new")
        run, whole = await asking(house, READ, write("save", "out.md", "{{read.text}}"))
        body = {"question": whole["question"], "answer": "refuse", "change": {"text": "own"}}
        reply = await house.client.post(f"/v1/runs/{run}/answers", json=body)
        if reply.status_code == 200:
            await house.until(run, *OVER)
        assert not (work / "out.md").exists()
