"""Processes that live through stories with rules, and die with SIGKILL at a chosen append.

python -m tests.crash.rule_worker reads orders from stdin, one JSON object a line, makes a process
for each by a fork, and says how each ended. A fork saves the time to load everything again.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, cast

from tests import forked
from tests.crash.rule_stories import FAILING, STORIES, Shop, Story, order

from plansmith import Plansmith, Run, RunStatus
from plansmith.clock import SystemClock
from plansmith.plan.data import Content, Json
from plansmith.plan.events import Event
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import AwaitReview, Paused, next_move
from plansmith.plan.plan import Plan
from plansmith.ports import Delta, ModelDone, Prompt, TextDelta, Usage
from plansmith.store.sqlite import SqliteStore
from plansmith_planner.draft import draft_schema
from plansmith_planner.settings import PlannerSettings

ROOT = Path(__file__).parents[2]
LIMITS = Limits(first_wait_s=0, data="show", grace_s=0.0)
NEVER = 10**9
MOST_TURNS = 200
ADDED = order("added", 99)


@dataclass(frozen=True)
class Life:
    """What one process does: it lives through a story, and dies at an append (`-1`: never).

    `change`: before it goes on, a person `edit`s the plan, or everything is as it was. With
    `replans` a step fails, and a model makes another plan.
    """

    folder: str
    story: str
    dies_at: int = -1
    before: bool = False
    change: str = ""
    replans: bool = False


class DyingStore(SqliteStore):
    """Dies with SIGKILL before or after its Nth append."""

    left = NEVER
    before = False

    async def append(
        self, events: Sequence[Event], values: Sequence[Json | Content] = (), **told: Any
    ) -> None:
        self.left -= 1
        if self.left < 0 and self.before:
            os.kill(os.getpid(), signal.SIGKILL)
        await super().append(events, values, **told)
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


class LaterClock(SystemClock):
    """The machine's time, moved forward by what a file says: long pauses pass at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ahead = timedelta(seconds=float(path.read_text()) if path.exists() else 0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def go_to(self, when: datetime) -> None:
        self._ahead += when - self.now() + timedelta(seconds=1)
        self._path.write_text(str(self._ahead.total_seconds()))


class Replanner:
    """A model that always gives the same plan, whoever asks how often."""

    name = "replanner"

    def __init__(self, plan: Plan) -> None:
        self._text = json.dumps({"goal": "test", "steps": plan.to_json()["steps"]})

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        yield TextDelta(self._text)
        yield ModelDone(Usage(), self.name)


class Household:
    """A person, a shop and a process; the person decides by what the shop's books say."""

    def __init__(self, life: Life) -> None:
        folder = Path(life.folder)
        self.life, self.story = life, STORIES[life.story]
        self.shop, self.clock = Shop(folder / "shop.txt"), LaterClock(folder / "ahead.txt")
        self.store = DyingStore(folder / "store.db", synchronous="normal", now=self.clock.now)
        model = Replanner(self.story.plan(ADDED)) if life.replans else None
        self.app = Plansmith(
            model=model,
            tools=[self.shop],
            store=self.store,
            clock=self.clock,
            limits=LIMITS,
            settings=PlannerSettings(triage=False),
        )

    async def prepare(self) -> None:
        """Saves the templates, which is no part of the story."""
        for name, steps in self.story.templates.items():
            given = self.story.parameters
            await self.app.templates.save(Story(steps).plan(), name, parameters=given)

    async def live(self) -> None:
        """Goes on with what there is, to the end of the run and of what takes it back."""
        self.store.before = self.life.before
        if self.life.dies_at >= 0:
            self.store.left = self.life.dies_at
        first = await self._first_run()
        if self.life.change == "edit":
            await self._edit(first)
        run = await self._lived(first)
        if any(step.undo_with for step in _steps(run, self.story)):
            undo = f"{run.id}-undo1"
            if undo not in await self.store.runs():
                await self.app.runs.undo_plan(run.id, by="ada")
            await self._lived(undo)
        await self.app.close()

    async def _first_run(self) -> str:
        found = [each for each in await self.store.runs() if "-undo" not in each]
        if found:
            return found[0]
        more = [FAILING] if self.life.replans else []
        return (await self.app.submit(self.story.plan(*more), by="bob")).id

    async def _edit(self, run_id: str) -> None:
        run = await self.app.get(run_id)
        if run.status.over or run.plan is None or "added" in run.plan.by_id:
            return
        if run.phase is RunStatus.RUNNING and not run.paused:
            await self.app.pause(run_id, by="ada")
        added = Story([ADDED]).plan().steps
        edited = run.plan.replace(steps=(*run.plan.steps, *added))
        await self.app.edit(run_id, edited, by="ada")

    async def _lived(self, run_id: str) -> Run:
        """Decides, answers and lets time pass until a run is over."""
        for _ in range(MOST_TURNS):
            run = await self.app.get(run_id)
            if run.status.over:
                return run
            if run.questions:
                asked = next(iter(run.questions.values()))
                answer = await self._answer(run, asked.question, asked.step or "")
                await self.app.answer(run_id, asked.question, answer, by="ada")
            match next_move(await self.app.get(run_id)):
                case AwaitReview(hash=plan_hash):
                    await self.app.decide(run_id, approve=plan_hash, by="ada")
                case Paused():
                    await self.app.resume(run_id, by="ada")
                case _ if run.wakes_at is not None and run.wakes_at > self.clock.now():
                    self.clock.go_to(run.wakes_at)
                case _:
                    pass
            await self.app.runs.run(run_id, parks=True)
        raise AssertionError(f"run {run_id} does not end")

    async def _answer(self, run: Run, question: str, step: str) -> Json:
        if not question.startswith("unknown:"):
            return self.story.answers[question]
        given = cast("Mapping[str, Json]", await self.store.get(run.steps[step].inputs))
        if not self.shop.happened(run.steps[step].callee, given):
            return "retry"
        return {"done": {"id": f"o{given.get('x')}"}}


def _steps(run: Run, story: Story) -> list[Any]:
    templates = [Story(steps).plan() for steps in story.templates.values()]
    plans = [*([run.plan] if run.plan else []), *templates]
    return [
        inner
        for plan in plans
        for step in plan.steps
        for inner in ((step.each,) if step.kind == "map" else (step,))
    ]


async def _main(life: Life) -> None:
    household = Household(life)
    if not (Path(life.folder) / "store.db").exists():
        await household.prepare()
    await household.live()


def fork(life: Life, *, loaded: Path | None = None) -> int:
    """Lives a life in a process of its own; returns its exit code, negative for a signal.

    `loaded`: where it writes which modules it has loaded.
    """
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        asyncio.run(_main(life))
        if loaded is not None:
            loaded.write_text("\n".join(name for name in sys.modules if name != "__main__"))
        code = 0
    except BaseException:  # noqa: BLE001 - a fork must not return into its parent's code
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


class Worker(AbstractContextManager["Worker"]):
    """The process that makes the others, seen from a test."""

    def __init__(self) -> None:
        self._process = forked.Popen(
            [sys.executable, "-m", "tests.crash.rule_worker"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def live(self, life: Life) -> int:
        """Has a process live a life; returns its exit code."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{json.dumps(asdict(life))}\n")
        stdin.flush()
        return int(stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def load_modules() -> None:
    """Loads what a life loads on its way, so that no process has to do it again."""
    with TemporaryDirectory() as folder:
        loaded = Path(folder) / "modules.txt"
        fork(Life(folder, next(iter(STORIES)), replans=True), loaded=loaded)
        names = loaded.read_text().split()
    for name in names:
        with suppress(ImportError):
            import_module(name)
    draft_schema()


if __name__ == "__main__":
    load_modules()
    for line in sys.stdin:
        sys.stdout.write(f"{fork(Life(**json.loads(line)))}\n")
        sys.stdout.flush()
