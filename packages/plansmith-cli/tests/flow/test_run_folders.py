"""A run and a schedule act in the folder they were made in, and nowhere else."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Cli, Told
from tests.flow.plans import answered, approve, approved, plan
from tests.unit.server.house import serving, tool_step

from plansmith import Plan, RunStatus, ToolSpec, tool
from plansmith.app import Plansmith
from plansmith.errors import OtherFolder
from plansmith.plan import events as e
from plansmith.plan.timing import Timing
from plansmith.ports import Call
from plansmith.testing import FakeClock, ScriptedModel


@tool(effect="read")
def seen() -> str:
    """Look."""
    return "seen"


WRITE = {"id": "w", "tool": "files.write", "inputs": {"path": "x.txt", "text": "hello"}}
ASK = {"id": "q", "kind": "ask", "question": "Which?"}
PLAN = {"goal": "write", "steps": [WRITE]}


class Person:
    """Someone with two folders and one store."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
        self.a, self.b = tmp_path / "a", tmp_path / "b"
        for folder in (self.a, self.b):
            folder.mkdir()
            (folder / "plan.json").write_text(json.dumps(PLAN), encoding="utf-8")
        self.store = f"sqlite:///{tmp_path / 'runs.db'}"
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("PLANSMITH_STORE", self.store)
        monkeypatch.setenv("PLANSMITH_MODEL", "rules")
        monkeypatch.setenv("LANG", "en_US.UTF-8")
        monkeypatch.delenv("XDG_DATA_HOME", raising=False)
        self._monkeypatch, self._cli = monkeypatch, cli

    def types(self, folder: Path, *words: str, **expected: Any) -> Told:
        self._monkeypatch.chdir(folder)
        return self._cli(*words, **expected)

    def run_json(self, folder: Path) -> Any:
        return json.loads(self.types(folder, "show last --json").out)

    @property
    def written(self) -> list[str]:
        return sorted(str(each.parent.name) for each in self.a.parent.glob("*/x.txt"))


@pytest.fixture
def person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Person:
    return Person(tmp_path, monkeypatch, Cli(capsys))


def test_a_plan_reviewed_in_one_folder_writes_nothing_in_another(person: Person) -> None:
    person.types(person.a, "run plan.json --no-input", code=5, err=f"In the folder {person.a}")
    run = person.run_json(person.a)
    assert run["folder"] == str(person.a)
    for words in (
        ("approve", run["id"], run["hash"], "--go"),
        ("approve", run["id"], run["hash"]),
        ("go", run["id"], "--approve-plan", run["hash"]),
    ):
        refusal = (f"belongs to the folder {person.a}", f"cd {person.a}")
        person.types(person.b, *words, code=4, err=refusal)
    assert person.written == []
    person.types(person.a, "approve last", run["hash"], "--go", code=0)
    assert person.written == ["a"]


def test_a_folder_reached_by_a_link_is_the_same_and_one_that_was_moved_is_not(
    person: Person,
) -> None:
    person.types(person.a, "run", "plan.json", "--no-input")
    run = person.run_json(person.a)
    link = person.a.with_name("link")
    link.symlink_to(person.a)
    assert person.types(link, "approve", "last", run["hash"])[0] == 0
    link.unlink()
    moved = shutil.move(person.a, person.a.with_name("moved"))
    person.types(Path(moved), "go", run["id"], code=4, err="does not exist any more")
    assert person.written == []


def smith(folder: Path | str, store: str, **more: Any) -> Plansmith:
    calls: list[str] = more.pop("calls", [])

    @tool(effect="write")
    def note(text: str = "") -> str:
        """Write it down."""
        calls.append(str(folder))
        return text

    return Plansmith(folder=folder, store=store, tools=[note], **more)


NOTE = plan({"id": "n", "tool": "note"})
ASKING = plan(ASK, {"id": "n", "tool": "note", "after": ["q"]})
Verb = Callable[[Plansmith, str], Any]
VERBS: dict[str, Verb] = {
    "approve": lambda s, run: s.decide(run, approve=ASKING.hash),
    "edit": lambda s, run: s.edit(run, NOTE),
    "answer": lambda s, run: s.answer(run, "q", "x"),
    "run": lambda s, run: s.run(run),
    "resume": lambda s, run: s.resume(run),
    "retry": lambda s, run: s.retry(run),
    "changes": lambda s, run: s.request_changes(run, "other"),
    "skip": lambda s, run: s.runs.skip(run, "n"),
    "schedule": lambda s, run: s.schedules.create(run=run, timing=Timing(every_minutes=5)),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_no_verb_acts_for_a_run_of_another_folder(tmp_path: Path, verb: str) -> None:
    store = f"sqlite:///{tmp_path / 'r.db'}"
    async with smith(tmp_path / "a", store) as a:
        run = await approved(a, ASKING)
        assert run.status is RunStatus.ASKING
        before = len(await a.store.events(run.id))
        async with smith(tmp_path / "b", store, model=ScriptedModel([])) as b:
            with pytest.raises(OtherFolder, match="belongs to the folder"):
                await VERBS[verb](b, run.id)
            assert await b.runs.resume_all() == []
            assert (await b.get(run.id)).folder == str(tmp_path / "a")  # looking is free
        assert len(await a.store.events(run.id)) == before


async def test_a_schedule_fires_only_in_the_folder_it_was_approved_in(tmp_path: Path) -> None:
    store, clock, calls = f"sqlite:///{tmp_path / 'r.db'}", FakeClock(START), list[str]()
    given: dict[str, Any] = {"clock": clock, "calls": calls}
    async with (
        smith(tmp_path / "a", store, **given) as a,
        smith(tmp_path / "b", store, **given) as b,
    ):
        made = await a.schedules.create(
            plan=NOTE, timing=Timing(every_minutes=60), approve=NOTE.hash, name="notes"
        )
        assert made.folder == str(tmp_path / "a")
        await clock.advance(3600)
        assert await b.schedules.tick() == []
        with pytest.raises(OtherFolder, match="schedule notes belongs to the folder"):
            await b.schedules.fire_now("notes")
        for verb in (
            b.schedules.change("notes", max_failures=9),
            b.schedules.backfill("notes", since=START, until=START + timedelta(minutes=1)),
        ):
            with pytest.raises(OtherFolder):
                await verb
        assert calls == []
        [fire] = await a.schedules.tick()
        await a.schedules.carried()
        assert calls == [str(tmp_path / "a")]
        assert (await a.get(fire.run)).folder == str(tmp_path / "a")
        # A fire that its folder began and left behind is not taken over from elsewhere, either.
        await clock.advance(3600)
        await a.schedules.tick()
        await a.close()
        await clock.advance(3000)
        assert await b.schedules.tick() == []
        assert calls.count(str(tmp_path / "b")) == 0
        assert (await b.schedules.pause("notes")).paused  # stopping is free
        with pytest.raises(OtherFolder):
            await b.schedules.resume("notes")


START = datetime(2026, 1, 1, 8, tzinfo=UTC)


async def test_a_server_leaves_runs_of_another_folder_alone_and_answers_409(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    async with serving(tmp_path, store="sqlite") as first:
        waiting = await first.begin(tool_step("m", "mail"))
        going = await first.begin(tool_step("s", "slow"))
        await first.approve(going)
        async with asyncio.timeout(120):
            await first.tools.began["slow"].wait()
        assert waiting["folder"] == str(tmp_path / "a")
    monkeypatch.chdir(tmp_path / "b")
    async with serving(tmp_path, store="sqlite") as second:
        second.tools.gate.set()
        problem = await second.post(
            f"/v1/runs/{waiting['id']}/decision", {"approve": waiting["hash"]}, 409
        )
        assert problem["code"] == "other_folder"
        assert str(tmp_path / "a") in problem["detail"]
        rows = (await second.get("/v1/runs"))["items"]
        assert {row["folder"] for row in rows} == {str(tmp_path / "a")}
        second.server_state.background.go_on(going["id"])
        await second.server_state.background.close()  # whatever it would do is done or stopped
        assert (await second.get(f"/v1/runs/{going['id']}"))["status"] == "running"
        assert second.tools.calls == []
    monkeypatch.chdir(tmp_path / "a")
    async with serving(tmp_path, store="sqlite") as again:
        again.tools.gate.set()
        assert (await again.until(going["id"], "done"))["status"] == "done"


class Changing:
    """A tool whose definition somebody changes."""

    def __init__(self) -> None:
        self.spec = ToolSpec(name="pay", description="Pay ten", effect="read")  # type: ignore[arg-type]
        self.calls = 0

    async def tools(self) -> list[ToolSpec]:
        return [self.spec, ToolSpec(name="other")]

    async def call(self, tool: str, arguments: Any, call: Call) -> Any:
        del tool, arguments, call
        self.calls += 1
        return {}


PAY = {"id": "p", "tool": "pay", "inputs": {}}
INNER = plan(PAY)
OUTER = plan({"id": "o", "tool": "other"}, {"id": "m", "over": [1], "each": {"template": "inner"}})


@pytest.mark.parametrize("restart", [False, True])
async def test_a_tool_that_changed_after_the_approval_is_put_to_review_again(
    tmp_path: Path, *, restart: bool
) -> None:
    """Also where it is called inside a template inside a map, and in another process."""
    source, store = Changing(), f"sqlite:///{tmp_path / 'r.db'}"

    def make() -> Plansmith:
        return Plansmith(store=store, tools=[source], templates={"inner": INNER})

    first = make()
    run = await first.submit(OUTER)
    await approve(first, run)
    source.spec = source.spec.replace(description="Pay ten thousand")
    second = first
    if restart:
        await first.close()
        second = make()
    run = await second.runs.run(run.id)
    assert (run.status, source.calls) == (RunStatus.REVIEWING, 0)
    assert not run.is_approved
    asked = [each.body for each in await second.store.events(run.id)][-1]
    assert isinstance(asked, e.ReviewAsked)
    assert asked.reasons == ("pay is defined in another way than when you approved this plan",)
    await approve(second, run)
    assert (await second.run(run.id)).status is RunStatus.DONE
    await second.close()


async def test_an_approval_is_for_the_tools_of_the_templates_that_were_shown(
    tmp_path: Path,
) -> None:
    """Whatever the program that takes the approval down gives under the same name by then."""
    source, store = Changing(), f"sqlite:///{tmp_path / 'r.db'}"
    harmless = plan({"id": "say", "instruction": "hi"})
    first = Plansmith(store=store, tools=[source], templates={"inner": INNER})
    run = await first.submit(OUTER)
    await first.close()
    second = Plansmith(store=store, tools=[source], templates={"inner": harmless})
    run = await approve(second, run)
    assert list(run.approved_tools) == ["other", "pay"]
    source.spec = source.spec.replace(description="Pay ten thousand")
    run = await second.runs.run(run.id)
    assert (run.status, source.calls) == (RunStatus.REVIEWING, 0)
    await second.close()


async def test_a_scheduled_plan_waits_when_what_it_calls_was_redefined(tmp_path: Path) -> None:
    source, clock = Changing(), FakeClock(START)
    paying, store = plan(PAY), f"sqlite:///{tmp_path / 'r.db'}"
    async with Plansmith(store=store, tools=[source], clock=clock) as own:
        timing = Timing(every_minutes=60)
        await own.schedules.create(plan=paying, timing=timing, approve=paying.hash)
        source.spec = source.spec.replace(open_world=False, description="Pay everything")
        await clock.advance(3600)
        [fire] = await own.schedules.tick()
        await own.schedules.carried()
        run = await own.get(fire.run)
        assert (run.status, source.calls) == (RunStatus.REVIEWING, 0)
        asked = [each.body for each in await own.store.events(run.id)][-1]
        assert isinstance(asked, e.ReviewAsked)
        assert "pay is defined in another way" in asked.reasons[0]


async def test_an_approved_run_cut_off_in_the_middle_asks_again_after_a_redefinition(
    tmp_path: Path,
) -> None:
    source, store = Changing(), f"sqlite:///{tmp_path / 'r.db'}"
    wanted = plan(ASK, PAY | {"after": ["q"]}, {"id": "o", "tool": "other"})
    async with Plansmith(store=store, tools=[source]) as first:
        run = await approved(first, wanted)
        assert run.status is RunStatus.ASKING
    source.spec = source.spec.replace(input_schema={"type": "object", "properties": {}})
    async with Plansmith(store=store, tools=[source]) as second:
        again = await answered(second, run, "q", "yes")
        assert again.status is RunStatus.REVIEWING
        before = source.calls
        await approve(second, again)
        assert (await second.run(run.id)).status is RunStatus.DONE
        assert source.calls == before + 1


async def test_runs_of_no_folder_go_on_anywhere_and_repeats_keep_theirs(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'r.db'}"
    async with smith("", store) as nowhere, smith(tmp_path / "a", store) as a:
        free = await nowhere.submit(NOTE)
        assert free.folder == ""
        assert (await a.decide(free.id, approve=NOTE.hash)).is_approved
        mine = await a.submit(NOTE)
        await a.cancel(mine.id)
        assert (await a.rerun(mine.id)).folder == str(tmp_path / "a")
        assert (await nowhere.rerun(mine.id)).folder == str(tmp_path / "a")


async def test_a_request_of_another_folder_keeps_no_run_of_this_one_from_going_on(
    tmp_path: Path,
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    store = f"sqlite:///{tmp_path / 'r.db'}"
    there = Plansmith(store=store, model=ScriptedModel(), folder=tmp_path / "a")
    journal = there.runs.journals.new()
    created = e.RunCreated(request="look around", folder=str(tmp_path / "a"))
    await journal.append(created, by=e.actor("ann"))
    await there.close()
    here = Plansmith(store=store, model=ScriptedModel(), folder=tmp_path / "b", tools=[seen])
    mine = await here.submit(Plan.model_validate({"steps": [{"id": "s", "tool": "seen"}]}))
    await (await here.runs.journals.load_verified(mine.id)).append(
        e.RunStarted(hash=mine.plan.hash if mine.plan else "")
    )
    assert [run.status for run in await here.runs.resume_all()] == [RunStatus.DONE]
    assert (await here.get(journal.id)).plan is None
    await here.close()


async def test_stopping_a_run_is_possible_from_anywhere(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'r.db'}"
    async with smith(tmp_path / "a", store) as a, smith(tmp_path / "b", store) as b:
        first, second = await a.submit(NOTE), await a.submit(NOTE)
        assert (await b.decide(first.id, reject=True)).status is RunStatus.CANCELLED
        assert (await b.cancel(second.id)).status is RunStatus.CANCELLED
