"""Consent to files that change meanwhile, that are large, and that nobody may read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.e2e.test_server_files import asking, desk, work, write
from tests.flow.plans import approve, plan
from tests.flow.test_given_values import LOOK, Bank
from tests.flow.test_values_under_attack import ONE
from tests.unit.server.house import House, tool_step

from plansmith.app import Plansmith
from plansmith.errors import Refused
from plansmith.testing import MemoryStore
from plansmith_cli.questions import Asked
from plansmith_desk.builtin import builtin_sources

__all__ = ["desk", "work"]  # fixtures
READ = tool_step("read", "files.read", inputs={"path": "in.md"})

OVER = ("done", "partly_done", "failed")


async def allowed(house: House, run: str, whole: Any, *, perhaps: bool = False) -> Any:
    """Allows a call as it was seen, and waits for the end; `perhaps` it is refused."""
    answer = {"question": whole["question"], "answer": "allow", "seen": whole["seen"]}
    reply = await house.client.post(f"/v1/runs/{run}/answers", json=answer)
    assert perhaps or reply.status_code == 200
    return await house.until(run, "asking", *OVER) if reply.status_code == 200 else None


@pytest.mark.parametrize(
    ("tool", "inputs"),
    [
        ("files.delete", {"path": "{{read.text}}"}),
        ("files.write", {"path": "{{read.text}}", "text": "new", "overwrite": True}),
    ],
)
async def test_a_large_file_that_would_be_lost_is_not_said_to_stay(
    desk: House, work: Path, tool: str, inputs: dict[str, Any]
) -> None:
    (work / "in.md").write_text("big.bin")
    (work / "big.bin").write_bytes(b"b" * 11_000_000)
    run, whole = await asking(desk, READ, tool_step("x", tool, inputs=inputs))
    await allowed(desk, run, whole)
    assert not whole["now"].get("fails")


@pytest.mark.parametrize("tool", ["files.move", "files.copy"])
async def test_a_move_into_a_new_folder_is_shown_where_it_goes(
    desk: House, work: Path, tool: str
) -> None:
    (work / "in.md").write_text("a.md")
    (work / "a.md").write_text("A")
    inputs = {"path": "{{read.text}}", "to": "box/"}
    run, whole = await asking(desk, READ, tool_step("m", tool, inputs=inputs))
    over = await allowed(desk, run, whole)
    assert over["steps"]["m"]["result"]["path"] in [each["path"] for each in whole["now"]["files"]]


# The files before, the call, what changes after it was shown, and what must not be there then.
CHANGED: dict[str, tuple[dict[str, str], str, dict[str, Any], tuple[str, str], tuple[str, str]]] = {
    "a large file in its way": (
        {"in.md": "a.bin", "a.bin": "a" * 11_000_000, "out.bin": "o" * 11_000_000},
        "files.move",
        {"path": "{{read.text}}", "to": "out.bin", "overwrite": True},
        ("out.bin", "precious" * 2_000_000),
        ("out.bin", "aa"),
    ),
    "a folder in its way": (
        {"in.md": "box", "box/a.md": "A"},
        "files.move",
        {"path": "{{read.text}}", "to": "kept"},
        ("kept/b.md", "B"),  # now it would become kept/box
        ("kept/box/a.md", "A"),
    ),
    "what is copied": (
        {"in.md": "a.md", "a.md": "harmless", "out.md": "old"},
        "files.copy",
        {"path": "{{read.text}}", "to": "out.md", "overwrite": True},
        ("a.md", "evil"),
        ("out.md", "evil"),
    ),
    "what is exported": (
        {"in.md": "rows.csv", "rows.csv": "to,sum\nalice,10\n", "out.csv": "old\n"},
        "tables.export",
        {"table": "{{read.text}}", "path": "out.csv", "overwrite": True},
        ("rows.csv", "to,sum\nmallory,9999\n"),
        ("out.csv", "mallory"),
    ),
}


def write_below(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize("name", CHANGED)
async def test_what_changed_after_it_was_shown_is_neither_lost_nor_written(
    desk: House, work: Path, name: str
) -> None:
    files, tool, inputs, (changed, text), (target, bad) = CHANGED[name]
    write_below(work, files)
    run, whole = await asking(desk, READ, tool_step("x", tool, inputs=inputs))
    assert not whole["now"].get("fails")
    write_below(work, {changed: text})
    await allowed(desk, run, whole, perhaps=True)
    assert not (work / target).exists() or bad not in (work / target).read_text()


RETRIED = {
    "a folder": ({"in.md": "box", "box/a.md": "A"}, ("kept/b.md", "B"), ("kept/box/a.md", "A")),
    "a file": ({"in.md": "a.md", "a.md": "A", "kept": "old"}, ("kept", "precious"), ("kept", "A")),
}


@pytest.mark.parametrize("name", RETRIED)
async def test_a_refusal_because_something_changed_is_not_retried_into_a_change(
    desk: House, work: Path, name: str
) -> None:
    files, (changed, text), (target, bad) = RETRIED[name]
    write_below(work, files)
    inputs = {"path": "{{read.text}}", "to": "kept", "overwrite": name == "a file"}
    move = tool_step("m", "files.move", inputs=inputs)
    run, whole = await asking(desk, READ, move | {"retry": {"at_most": 1, "every": 0}})
    await desk.post(f"/v1/runs/{run}/pause")
    answer = {"question": whole["question"], "answer": "allow", "seen": whole["seen"]}
    await desk.post(f"/v1/runs/{run}/answers", answer)
    write_below(work, {changed: text})  # so the first try is not made
    await desk.post(f"/v1/runs/{run}/resume")
    await desk.until(run, "asking", *OVER)
    assert not (work / target).exists() or bad not in (work / target).read_text()


async def test_with_own_values_in_the_plan_a_file_that_changed_is_not_overwritten(
    tmp_path: Path,
) -> None:
    (tmp_path / "in.md").write_text("new")
    (tmp_path / "out.md").write_text("old")
    app = Plansmith(tools=builtin_sources(tmp_path), store=MemoryStore(), folder=tmp_path)
    save = write("save", "out.md", "{{read.text}}", overwrite=True)
    run = await app.submit(plan(READ, save), by="ann")
    await approve(app, run, by="ann")
    run = await app.run(run.id)
    [asked] = run.questions.values()
    session = cast("Any", SimpleNamespace(smith=app, by="ann"))
    try:
        await Asked(session, run, (asked,), []).change({"text": "own"})
        (tmp_path / "out.md").write_text("precious")  # before another process goes on with it
        await app.run(run.id)
    except Refused:
        pass
    assert (tmp_path / "out.md").read_text() == "precious"


async def test_a_token_to_look_cannot_read_any_file_with_values_of_its_own(
    desk: House, work: Path
) -> None:
    (work / "mine.txt").write_text("private words")
    save = write("save", "out.md", "{{read.text}}", overwrite=True)
    run, whole = await asking(desk, READ, save)
    body = {"question": whole["question"], "change": {"path": "mine.txt"}}
    async with desk.with_token("helper", "look") as client:
        reply = await client.post(f"/v1/runs/{run}/preview", json=body)
    assert "private words" not in reply.text


@pytest.mark.parametrize("answer", [{}, {"answer": None}, {"answer": ""}, {"you_decide": True}])
async def test_nothing_is_no_permission(desk: House, work: Path, answer: dict[str, Any]) -> None:
    sure = {"id": "sure", "question": "Really write it?"}
    save = write("save", "x.md", "text") | {"after": ["sure"]}
    run, whole = await asking(desk, sure, save)
    body = {"question": whole["question"], **answer}
    reply = await desk.client.post(f"/v1/runs/{run}/answers", json=body)
    if reply.status_code == 200:
        await desk.until(run, "asking", *OVER)
    assert not (work / "x.md").exists()


async def test_own_values_at_the_command_line_resume_nothing() -> None:
    bank = Bank()
    run = await bank.begin(LOOK, ONE)
    [asked] = run.questions.values()
    await bank.enter().pause(run.id, by="ann", reason="wait for the bank")
    app = bank.enter()
    session = cast("Any", SimpleNamespace(smith=app, by="bob"))
    await Asked(session, await app.get(run.id), (asked,), []).change({"to": "bob"})
    await bank.enter().run(run.id)
    assert bank.paid == []


@pytest.mark.parametrize("is_paused", [True, False])
async def test_own_values_over_http_neither_resume_a_run_nor_turn_a_refusal(
    desk: House, work: Path, is_paused: bool
) -> None:
    run, whole = await asking(desk, READ, write("save", "out.md", "{{read.text}}"))
    own = {"question": whole["question"], "change": {"text": "own"}}
    if is_paused:
        await desk.post(f"/v1/runs/{run}/pause")
    else:
        own |= {"answer": "refuse"}
    reply = await desk.client.post(f"/v1/runs/{run}/answers", json=own)
    if is_paused or reply.status_code == 200:
        await desk.until(run, "paused", *OVER)
    assert not (work / "out.md").exists()
