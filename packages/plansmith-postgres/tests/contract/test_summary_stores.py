"""What every store does with the statuses and summaries of runs."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tests.contract.durable_stores import AnyStore

from plansmith import Plan, RunStatus, tool
from plansmith.app import Plansmith
from plansmith.plan.events import next_event
from plansmith.plan.planning import PlanningFigures
from plansmith.plan.run import Run
from plansmith.plan.summary import ModelUse, RunSummary
from plansmith.ports import Call, Usage
from plansmith.store.memory import MemoryStore
from plansmith.testing.contracts import journal


@tool(effect="read")
def look(x: int = 0) -> int:
    """See."""
    return x


@tool(effect="write")
def note(text: str = "") -> str:
    """Write."""
    return text


def smith_on(store: AnyStore) -> Plansmith:
    return Plansmith(tools=[look, note], store=store)


def plan_of(goal: str, name: str = "look") -> Plan:
    return Plan.model_validate({"goal": goal, "steps": [{"id": "a", "tool": name}]})


async def done(smith: Plansmith, goal: str) -> Run:
    return await smith.run((await smith.submit(plan_of(goal))).id)


async def waiting(smith: Plansmith, goal: str) -> Run:
    return await smith.submit(plan_of(goal, "note"))


async def ids(smith: Plansmith, **asked: Any) -> list[str]:
    return [each.run for each in await smith.runs.lists.newest(**{"limit": 100, **asked})]


async def test_runs_are_listed_newest_first_by_status_and_page(store: AnyStore) -> None:
    smith = smith_on(store)
    runs = [await (waiting if n % 3 else done)(smith, f"g{n}") for n in range(9)]
    newest = [run.id for run in reversed(runs)]
    assert await ids(smith) == newest
    over = [run.id for run in reversed(runs) if run.status is RunStatus.DONE]
    assert await ids(smith, statuses=["done"]) == over
    assert await ids(smith, statuses=["done", "reviewing"]) == newest
    assert await ids(smith, statuses=["failed"]) == []
    assert await ids(smith, statuses=["no such status"]) == []
    pages = [await ids(smith, limit=4)]
    while pages[-1]:
        pages.append(await ids(smith, limit=4, before=pages[-1][-1]))
    assert [len(page) for page in pages] == [4, 4, 1, 0]
    assert [each for page in pages for each in page] == newest
    assert await smith.runs.lists.status_counts() == {"done": 3, "reviewing": 6}


async def test_a_page_of_runs_goes_on_behind_a_run_that_was_removed(store: AnyStore) -> None:
    if isinstance(store, MemoryStore):
        return  # it removes none
    smith = smith_on(store)
    runs = [(await waiting(smith, f"g{n}")).id for n in range(4)]
    assert await store.delete_run(runs[2])
    assert await ids(smith, before=runs[2]) == [runs[1], runs[0]]
    assert await ids(smith, before="0") == []
    assert await ids(smith, before="z") == [runs[3], runs[1], runs[0]]
    assert (await smith.runs.lists.sums()).days[str(day_of(await smith.get(runs[0])))].runs == 3


def day_of(run: Run) -> object:
    return run.created_at and run.created_at.date()


async def test_a_text_is_found_in_the_request_of_a_run(store: AnyStore) -> None:
    smith = smith_on(store)
    await waiting(smith, "one more")
    for goal, *texts in (
        ("Straße in 北京", "STRASSE", "北京"),
        ('say "hi" \\ there', '"HI" \\'),
        ("two\nlines\tand a tab", "lines\tand"),
        ("a % and _ b", "% and _"),
        ("emoji 🎈 here", "🎈"),
    ):
        found = (await done(smith, goal)).id
        for text in (*texts, found.upper()):
            assert await ids(smith, text=text) == [found]
            assert await ids(smith, text=text, statuses=["reviewing"]) == []
    assert await ids(smith, text="created") == [], "the names of stored fields are no text of a run"


async def test_a_summary_comes_back_as_it_was_stored(store: AnyStore) -> None:
    [first, *_] = events = journal("a", 3)
    told = RunSummary(
        run="a",
        number=3,
        status=RunStatus.REVIEWING,
        request="天气?",
        goal="",
        folder="/x",
        locale="zh",
        reason="because",
        created_at=first.at,
        updated_at=events[-1].at,
        questions=("q", '"'),
        tokens=2**40,
        money=Decimal("0.0000001"),
        working=True,
        figures=PlanningFigures(parsed=True, seconds={"draft": 0.25}),
        models={"m": ModelUse(2, 30)},
    )
    await store.append(events, status="reviewing", summary=told)
    [found] = await store.headlines(limit=5)
    assert (found.run, found.last, found.status, found.summary) == ("a", 3, "reviewing", told)
    [total] = await store.day_totals()
    assert total == (first.at.date().isoformat(), "1E-7", 1, 2**40)
    [planned] = await store.planned()
    assert planned == (told.figures, told.models)
    assert await store.unsummed() == []


async def test_a_run_that_claims_more_tokens_than_a_database_counts_is_done_and_summed_up(
    store: AnyStore,
) -> None:
    @tool(effect="read")
    def boast(call: Call) -> str:
        """Claim a lot."""
        call.spend(Usage(input_tokens=2**70))
        return "ok"

    smith = Plansmith(tools=[boast], store=store)
    for _ in range(3):
        run = await smith.run((await smith.submit(plan_of("g", "boast"))).id)
        assert run.status is RunStatus.DONE
    [day] = (await smith.runs.lists.sums()).days.values()
    assert day.runs == 3
    assert day.tokens > 2**50


async def test_a_status_that_no_writer_told_is_read_from_the_journal(store: AnyStore) -> None:
    """Whoever appends without a journal tells no status: the store knows that it does not know."""
    smith = smith_on(store)
    over, opened = await done(smith, "over"), await waiting(smith, "open")
    copies = {"over": "x" + over.id, "open": "y" + opened.id}
    for old, name in ((over.id, copies["over"]), (opened.id, copies["open"])):
        last = None
        for event in await store.events(old):
            last = next_event(event.body, run=name, by=event.by, at=event.at, last=last)
            await store.append([last])
    assert list(await store.open_runs()) == [opened.id, copies["open"]]
    counts = {"done": 2, "reviewing": 2}
    assert await smith.runs.lists.status_counts() == counts
    assert await ids(smith, statuses=["done"]) == [copies["over"], over.id]
    assert (await smith.runs.lists.sums()).statuses == counts
    headlines = await store.headlines(limit=9)
    assert all(each.summary is not None for each in headlines), "they were stored by the way"


async def test_a_summary_of_an_earlier_event_never_replaces_a_later_one(
    store: AnyStore,
) -> None:
    smith = smith_on(store)
    run = await waiting(smith, "g")
    [before] = await store.headlines(limit=1)
    assert before.summary is not None
    await smith.decide(run.id, reject=True, by="ada")
    [after] = await store.headlines(limit=1)
    await store.keep_summaries([(before.last, before.summary)])
    assert await store.headlines(limit=1) == [after]


async def test_the_ids_beside_runs_are_their_neighbours(store: AnyStore) -> None:
    for name in ("a1", "a2", "b1", "c"):
        await store.append(journal(name, 1))
    assert {"a1", "b1"} <= set(await store.beside(["a2"])) <= {"a1", "a2", "b1"}
    assert set(await store.beside(["a1", "c"])) - {"a1", "c"} == {"a2", "b1"}
