"""Write the cases that Python and TypeScript fold alike, from real runs.

.venv/bin/python -m tests.web.make_cases
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from plansmith import Plan, Plansmith
from plansmith.errors import InputNeeded, ToolBusy, ToolFailed
from plansmith.plan import events as e
from plansmith.plan.capability import Effect
from plansmith.plan.data import Json
from plansmith.plan.diff import diff_plans
from plansmith.plan.event_body import moment
from plansmith.plan.fold import fold
from plansmith.plan.limits import Limits
from plansmith.plan.planning import Decision
from plansmith.plan.problem import problem
from plansmith.plan.run import Run, StepState
from plansmith.plan.run_options import Origin
from plansmith.testing import FakeTool, FakeTools, ScriptedModel

CASES = Path(__file__).parent / "cases"
START = datetime(2026, 1, 1, tzinfo=UTC)
PERSON = e.Actor(kind="person", name="ada")


class Ticking:
    """A clock that is a second later at every look: journals are the same on every machine."""

    def __init__(self) -> None:
        self._looks = 0

    def now(self) -> datetime:
        self._looks += 1
        return START + timedelta(seconds=self._looks)

    def monotonic(self) -> float:
        return float(self._looks)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


def step(name: str, tool: str = "look", **fields: Any) -> dict[str, Any]:
    return {"id": name, "tool": tool} | fields


def plan(*steps: dict[str, Any], **fields: Any) -> Plan:
    return Plan.model_validate({"goal": "a case", "steps": list(steps)} | fields)


LIMITS = Limits(first_wait_s=0.0, grace_s=0.0, data="show")


def smith(*tools: FakeTool, **more: Any) -> Plansmith:
    clock = Ticking()
    source = FakeTools(FakeTool("look", [lambda a: {"seen": dict(a), "list": [1, 2]}]), *tools)
    numbers = iter(range(1, 100))
    given: dict[str, Any] = {"limits": LIMITS} | more
    return Plansmith(
        tools=[source],
        clock=clock,
        ids=lambda: f"01980000-0000-7000-8000-{next(numbers):012d}",
        **given,
    )


def chained(run: str, bodies: Iterable[e.AnyBody]) -> list[e.Event]:
    """A journal of these bodies, a second each."""
    events: list[e.Event] = []
    for number, body in enumerate(bodies):
        at, last = START + timedelta(seconds=number), events[-1] if events else None
        events.append(e.next_event(body, run=run, by=PERSON, at=at, last=last))
    return events


Story = Callable[[], Awaitable[list[e.Event]]]


async def reads() -> list[e.Event]:
    """Two reads at once, a map, one behind a disabled step, and a reply; nobody is asked."""
    app = smith()
    run = await app.submit(
        plan(
            step("a"),
            step("b", inputs={"x": {"$from": "a", "$path": ["list", 1]}}),
            {"id": "m", "over": "{{a.list}}", "each": step("i", inputs={"v": "{{item}}"})},
            step("off", after=["a"], disabled=True),
            step("late", after=["off"]),
            {"id": "say", "instruction": "Tell {{b.seen}}"},
            locale="zh",
        )
    )
    await app.run(run.id)
    return list(await app.store.events(run.id))


async def approval() -> list[e.Event]:
    """A write that is edited, undone and approved; a question; a pause."""
    app = smith(FakeTool("mail", effect=Effect.FINAL))
    question = {"id": "q", "question": "Which?"}
    first = plan(step("m", "mail", inputs={"to": "bob"}), question)
    run = await app.submit(first, by="ada")
    longer = plan(step("m", "mail", inputs={"to": "eve"}), step("new"), question)
    await app.edit(run.id, longer, by="ada")
    await app.runs.editing.undo(run.id, by="ada")
    await app.decide(run.id, approve=first.hash, by="ada")
    await app.run(run.id)
    await app.pause(run.id, by="ada", reason="lunch")
    await app.resume(run.id, by="ada")
    await app.answer(run.id, "q", {"any": ["thing"]}, by="ada")
    await app.run(run.id)
    return list(await app.store.events(run.id))


async def failures() -> list[e.Event]:
    """A passing failure, a lasting one, and what was behind it."""
    app = smith(
        FakeTool("busy", [ToolBusy("later"), {"ok": True}]),
        FakeTool("broken", [ToolFailed("no")]),
        FakeTool("asks", [InputNeeded("May I?", options=["yes", "no"], state=1), "thanks"]),
    )
    run = await app.submit(
        plan(step("x", "busy"), step("y", "broken"), step("z", after=["y"]), step("w", "asks"))
    )
    await app.run(run.id)
    (asked,) = (await app.get(run.id)).questions
    await app.answer(run.id, asked, "yes", by="ada")
    await app.run(run.id)
    return list(await app.store.events(run.id))


async def repeated() -> list[e.Event]:
    """A run that takes results over from an earlier one, and is cancelled."""
    app = smith(FakeTool("broken", [ToolFailed("no")]))
    wanted = plan(step("a"), step("y", "broken"), {"id": "q", "question": "Go on?"})
    run = await app.run((await app.submit(wanted)).id)
    await app.answer(run.id, "q", "yes")
    await app.run(run.id)
    again = await app.retry(run.id, by="ada")
    await app.run(again.id)
    await app.cancel(again.id, by="ada")
    return list(await app.store.events(again.id))


async def rejected() -> list[e.Event]:
    """A plan that is discarded."""
    app = smith(FakeTool("mail", effect=Effect.WRITE))
    run = await app.submit(plan(step("m", "mail")))
    await app.decide(run.id, reject=True, by="ada")
    return list(await app.store.events(run.id))


async def planned() -> list[e.Event]:
    """A model plans, is asked for changes, fails, and plans again."""
    decision = {"decision": "plan", "reason": "tools", "query": "x", "answer": ""}
    one, two, three = (
        {"id": name, "kind": "tool", "tool": tool, "inputs": {}}
        for name, tool in (("a", "broken"), ("b", "look"), ("c", "look"))
    )
    draft, changed, mended = (
        {"goal": "g", "steps": each} for each in ([one], [one, two], [three, two])
    )
    model = ScriptedModel(decision, draft, changed, mended, *["said"] * 3)
    app = smith(FakeTool("broken", [ToolFailed("no")]), model=model)
    run = await app.plan("do it", by="ada")
    await app.request_changes(run.id, "one more", by="ada")
    run = await app.run(run.id)
    return list(await app.store.events(run.id))


async def made_up() -> list[e.Event]:
    """What real runs show only by chance: a crash in mid-effect, advice, all that ends a step."""
    wanted = plan(step("a"), step("b"), step("c"), step("d"))
    bodies: list[e.AnyBody] = [
        e.RunCreated(
            request="r", origin=Origin(kind="run", id="01980000-0000-7000-8000-000000000099")
        ),
        e.Triaged(decision=Decision.PLAN, tokens=3, cost="0.000125"),
        e.PlanProposed(plan=wanted, tokens=10, cost="0.1"),
        e.ReviewAsked(hash=wanted.hash),
        e.ChangesAsked(text="other"),
        e.PlanProposed(plan=wanted, origin="person", tokens=1, cost="0.2"),
        e.ReviewAsked(hash=wanted.hash),
        e.PlanApproved(hash=wanted.hash),
        e.RunStarted(hash=wanted.hash),
        e.StepStarted(step="a", inputs="h"),
        e.StepProgressed(step="a", text="half"),
        e.StepAdvised(step="a", advice="replan", reason="better"),
        e.StepUnknown(step="a", reason="died"),
        e.QuestionAsked(question="unknown:a", text="Did it?", step="a", kind="unknown"),
        e.QuestionAnswered(question="unknown:a", answer="yes"),
        e.StepDone(step="a", result="x", tokens=2, cost="1E-7"),
        e.StepSkipped(step="b", reason="no need"),
        e.StepReset(step="b", reason="after all"),
        e.StepStarted(step="c"),
        e.StepCancelled(step="c", reason="stop"),
        e.QuestionAsked(question="budget:1", text="More?", kind="limit"),
        e.QuestionWithdrawn(question="budget:1"),
        e.ReplanStarted(cause="again", kind="iteration"),
        e.PlanProposed(plan=plan(step("a"), step("e", after=["a"]))),
        e.RunStarted(hash=plan(step("a"), step("e", after=["a"])).hash),
        e.StepReused(step="e", result="y", run="other"),
        e.RunPaused(reason="wait"),
        e.RunRepaired(aside=2, lost=1, reason="broken"),
        e.RunResumed(),
        e.CancelAsked(reason="enough"),
        e.RequestAnswered(result="z"),
        e.RunFinished(status="partly_done", reason="cancelled"),
    ]
    return chained("made-up", bodies)


async def unplanned() -> list[e.Event]:
    """Planning that fails, and a plan by rules in its place, with a result of an earlier run."""
    wanted = plan(step("a"), step("b"))
    bodies: list[e.AnyBody] = [
        e.RunCreated(request="r"),
        e.Triaged(decision=Decision.PLAN),
        e.PlanningFailed(reason="no key", problems=(problem("PS015", "no key"),), tokens=4),
        e.PlanProposed(plan=wanted, origin="rules", acts=("b",)),
        e.RunStarted(hash=wanted.hash),
        e.StepStarted(step="a", inputs="h"),
        e.StepDone(step="a", result="x"),
        e.StepReused(step="b", result="y", run="other", done_at=START - timedelta(days=1)),
        e.ReplanStarted(cause="again", kind="person"),
        e.PlanningFailed(reason="no other plan", cost="0.2"),
        e.RunFinished(status="done"),
    ]
    return chained("unplanned", bodies)


async def ruled() -> list[e.Event]:
    """Steps that are skipped, repeated with a pause, tried again, or fail without harm."""
    app = smith(
        FakeTool("state", [{"state": "open"}, {"state": "sent"}]),
        FakeTool("broken", [ToolFailed("no")]),
        FakeTool("busy", [ToolFailed("later"), {"ok": True}]),
        FakeTool("odd", [lambda a: _odd(a["v"])]),
    )
    sent = {"equals": ["{{poll.state}}", "sent"]}
    run = await app.submit(
        plan(
            step("a"),
            step("few", when={"below": ["{{a.list[0]}}", 1]}),
            step("behind", inputs={"x": "{{few}}"}),
            step("stood_in", when={"empty": "{{a.list}}"}, otherwise={"value": 7}),
            step("poll", "state", repeat={"until": sent, "at_most": 3, "every": 30}),
            step("left", "broken", on_error={"value": []}),
            step("again", "busy", retry={"at_most": 2, "every": 60}),
            {
                "id": "m",
                "over": "{{a.list}}",
                "on_error": "collect",
                "each": step("i", "odd", inputs={"v": "{{item}}"}),
            },
            step("joined", inputs={"x": {"$first": ["{{few}}", "{{stood_in}}"]}}),
        )
    )
    await app.run(run.id)
    return list(await app.store.events(run.id))


def _odd(value: Json) -> Json:
    if value == 2:
        raise ToolFailed("even")
    return value


async def previewed() -> list[e.Event]:
    """Reads before the approval: one fails, one is given, a list; some calls are left out."""
    app = smith(FakeTool("broken", [ToolFailed("no"), [4]]), FakeTool("mail", effect=Effect.FINAL))
    mail = step("i", "mail", inputs={"to": "{{item}}"})
    run = await app.submit(
        plan(
            step("a"),
            step("b", "broken"),
            {"id": "m", "over": "{{a.list}}", "each": mail},
            step("n", "mail", inputs={"to": "{{b}}"}),
            step("late", inputs={"x": "{{n}}"}),
        ),
        by="ada",
    )
    await app.preview(run, by="ada")
    await app.preview(run, given={"a": {"list": [7]}}, by="ada")
    found = (await app.preview(run, fresh=True, by="ada")).preview
    assert found is not None
    await app.decide(run.id, approve=found.hash, leave_out=["m/1"], fresh=True, by="ada")
    await app.run(run.id)
    return list(await app.store.events(run.id))


async def pinned() -> list[e.Event]:
    """A result is given for a preview, and stays where the preview is approved, but not else."""
    app = smith(FakeTool("mail", effect=Effect.WRITE))
    wanted = plan(step("a"), step("m", "mail", inputs={"to": "{{a.list[0]}}"}))
    run = await app.preview(wanted, given={"a": {"list": [5]}}, by="ada")
    await app.decide(run.id, approve=wanted.hash, by="ada")
    await app.run(run.id)
    return list(await app.store.events(run.id))


STORIES: tuple[Story, ...] = (
    *(reads, approval, failures, repeated, rejected, planned, made_up, unplanned, ruled),
    *(previewed, pinned),
)


# What a run and a step tell as it is.
RUN_FIELDS = (
    *("id", "request", "locale", "decision", "reason", "revisions", "approved", "running_hash"),
    *("paused", "replans", "iterations", "rejections", "tokens", "cancel_asked", "answer_hash"),
    *("previewing", "reads_again"),
)
STEP_FIELDS = (
    *("attempts", "result_hash", "error", "error_kind", "progress", "tokens", "reused_from"),
    *("rule", "given_by"),
)


def state_json(run: Run) -> dict[str, Json]:
    """What the page's reducer holds of a run."""
    return {
        **{name: getattr(run, name) for name in RUN_FIELDS},
        "status": run.status.value,
        "phase": run.phase.value,
        "plan": run.plan.to_json() if run.plan else None,
        "problems": [each.shown_json() for each in run.problems],
        "estimate": run.estimate.shown_json() if run.estimate else None,
        "cost_usd": f"{run.money:f}",
        "steps": {name: _step_json(each) for name, each in run.steps.items()},
        "questions": {name: each.shown_json() for name, each in run.questions.items()},
        "created_at": _moment(run.created_at),
        "started_at": _moment(run.started_at),
        "updated_at": _moment(run.updated_at),
        "last": run.last.number if run.last else 0,
    }


def _moment(at: datetime | None) -> str | None:
    return moment(at) if at else None


def _step_json(state: StepState) -> dict[str, Json]:
    return {
        **{name: getattr(state, name) for name in STEP_FIELDS},
        "status": state.status.value,
        "started_at": _moment(state.started_at),
        "finished_at": _moment(state.finished_at),
        "wakes_at": _moment(state.wakes_at),
    }


def case(name: str, events: Iterable[e.Event]) -> dict[str, Json]:
    """A journal, the state after each event, and how its plans differ."""
    known = list(events)
    states: dict[str, Json] = {
        str(event.number): state_json(fold(known[: event.number])) for event in known
    }
    plans = [each.body.plan for each in known if isinstance(each.body, e.PlanProposed)]
    diffs: list[Json] = [
        {
            "before": before.to_json(),
            "after": after.to_json(),
            "diff": diff_plans(before, after).to_json(),
        }
        for before in plans
        for after in plans
    ]
    return {
        "name": name,
        "events": [each.shown_json() for each in known],
        "states": states,
        "diffs": diffs,
    }


async def main() -> None:
    CASES.mkdir(exist_ok=True)
    for story in STORIES:
        name = getattr(story, "__name__", "")
        text = json.dumps(case(name, await story()), ensure_ascii=False, sort_keys=True, indent=1)
        (CASES / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
