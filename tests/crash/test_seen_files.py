"""What a person saw of a file counts in every try of a call, also after kill -9."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests import forked
from tests.e2e.test_server_files import write
from tests.flow.plans import change_step, plan
from tests.unit.server.house import tool_step

from plansmith import Plansmith, Run, RunStatus
from plansmith.plan.limits import Limits
from plansmith.store.sqlite import SqliteStore
from plansmith.testing import MemoryStore
from plansmith_desk.builtin import builtin_sources
from plansmith_desk.files.changes import FILE_WRITERS, PreviewedTools, preview

READ = tool_step("read", "files.read", inputs={"path": "in.md"})


def smith(folder: Path, store: Any) -> Plansmith:
    return Plansmith(tools=builtin_sources(folder), store=store, limits=Limits(first_wait_s=0))


async def test_consent_given_after_a_failed_attempt_is_checked_too(tmp_path: Path) -> None:
    for name, text in {"in.md": "out.md", "in2.md": "two.md", "two.md": "old"}.items():
        (tmp_path / name).write_text(text)
    app = smith(tmp_path, MemoryStore())
    inputs = {"path": "late.md", "to": "{{read.text}}", "overwrite": True}
    move = {"id": "move", "tool": "files.move", "inputs": inputs}
    run = await app.submit(plan(READ, move | {"retry": {"at_most": 5, "every": 30}}), by="ann")
    assert run.plan is not None
    await app.decide(run.id, approve=run.plan.hash, by="ann")
    run = await app.run(run.id)
    await app.answer(run.id, next(iter(run.questions)), "allow", by="ann")
    run = await app.runs.run(run.id, parks=True)  # late.md is not there: it is tried again later
    (tmp_path / "late.md").write_text("thing")
    await app.pause(run.id, by="ann")
    assert run.plan is not None
    changed = change_step(run.plan, "read", inputs={"path": "in2.md"})
    run = await app.edit(run.id, changed, by="ann")
    assert run.plan is not None
    await app.decide(run.id, approve=run.plan.hash, by="ann")
    await app.resume(run.id, by="ann")
    run = await app.runs.run(run.id, parks=True)
    [asked] = run.questions.values()  # another file, another consent, another look
    values = await app.store.get(asked.values)
    seen = await preview(tmp_path, FILE_WRITERS["files.move"], values)  # type: ignore[arg-type]
    assert seen is not None
    await app.answer(run.id, asked.question, {"allow": seen.seen}, by="ann")
    (tmp_path / "two.md").write_text("precious")
    run = await app.runs.run(run.id, parks=True)
    assert (tmp_path / "two.md").read_text() == "precious"
    await require_asked_again(app, run, "move", tmp_path / "two.md", "thing")


async def test_kill_9_between_the_recorded_start_and_the_call(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "in.md").write_text("new")
    (work / "out.md").write_text("old")
    store = SqliteStore(tmp_path / "runs.db")
    app = smith(work, store)
    save = write("save", "out.md", "{{read.text}}", overwrite=True)
    run = await app.submit(plan(READ, save), by="ann")
    assert run.plan is not None
    await app.decide(run.id, approve=run.plan.hash, by="ann")
    run = await app.run(run.id)
    [asked] = run.questions.values()
    values: Any = await store.get(asked.values)
    seen = await preview(work, FILE_WRITERS["files.write"], values)
    assert seen is not None
    await app.answer(run.id, asked.question, {"allow": seen.seen}, by="ann")
    await app.close()
    killed = await forked.create_subprocess_exec(
        *(sys.executable, "-m", "tests.crash.test_seen_files", str(tmp_path), run.id)
    )
    assert await killed.wait() == -signal.SIGKILL
    assert (work / "out.md").read_text() == "old"
    (work / "out.md").write_text("precious")
    again = smith(work, SqliteStore(tmp_path / "runs.db"))
    run = await again.run(run.id)
    assert (work / "out.md").read_text() == "precious"
    await require_asked_again(again, run, "save", work / "out.md", "new")
    await again.close()


async def require_asked_again(app: Plansmith, run: Run, step: str, file: Path, text: str) -> None:
    """Requires that nothing is written before a person has seen what would be lost now."""
    [asked] = run.questions.values()
    assert (run.status, asked.step, asked.kind) == (RunStatus.ASKING, step, "consent")
    assert str(len("precious")) in asked.text
    done = await app.answer(run.id, asked.question, "allow", by="ann")
    done = await app.run(run.id)
    assert done.status is RunStatus.DONE
    assert file.read_text() == text  # noqa: ASYNC240


async def die(folder: Path, run_id: str) -> None:
    async def call(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    PreviewedTools.call = call  # type: ignore[method-assign, assignment]
    await smith(folder / "work", SqliteStore(folder / "runs.db")).run(run_id)


if __name__ == "__main__":
    asyncio.run(die(Path(sys.argv[1]), sys.argv[2]))
