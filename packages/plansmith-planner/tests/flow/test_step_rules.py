"""Conditions, repeats, retries and what a failure means, from the plan to the end of its run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.flow.smiths import NO_TRIAGE, plan, plan_of, statuses

from plansmith import Effect, Plan, Plansmith, RunStatus
from plansmith.errors import OutcomeUnknown, ToolBusy, ToolFailed
from plansmith.plan.events import ReviewAsked, StepSkipped, StepWaits, verify_chain
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import goes_on
from plansmith.plan.run import Run
from plansmith.testing import FakeClock, FakeTool, FakeTools, MemoryStore, ScriptedModel
from plansmith_cli.replay import replay

NO_WAIT, ASKING = Limits(first_wait_s=0, data="show"), Limits(first_wait_s=0, data="ask")
LOW = {"below": ["{{stock.count}}", 10]}
STOCK = {"id": "stock", "tool": "stock"}
SHIPPED = {"equals": ["{{poll.state}}", "shipped"]}


def world(*tools: FakeTool, count: int = 7, clock: FakeClock | None = None) -> FakeTools:
    return FakeTools(
        FakeTool("stock", [{"count": count}]),
        FakeTool("order", [lambda given: {"id": "o1", **given}], effect=Effect.WRITE),
        FakeTool("poll", [{"state": "open"}, {"state": "open"}, {"state": "shipped"}]),
        FakeTool("double", [_double]),
        *tools,
        clock=clock,
    )


def _double(given: Any) -> Any:
    if given["x"] == 2:
        raise ToolFailed("two is not doubled")
    return given["x"] * 2


async def started(app: Plansmith, wanted: Plan) -> str:
    run = await app.submit(wanted, by="bob")
    if run.status is RunStatus.REVIEWING:
        await app.decide(run.id, approve=wanted.hash, by="ada")
    return run.id


def app_of(tools: FakeTools, **options: Any) -> Plansmith:
    options.setdefault("limits", NO_WAIT)
    return Plansmith(tools=[tools], **options)


def ordered(tools: FakeTools) -> list[Any]:
    return [each.arguments for each in tools.calls if each.tool == "order"]


async def ran(tools: FakeTools, *steps: dict[str, Any], **options: Any) -> Run:
    app = app_of(tools, **options)
    run = await app.run(await started(app, plan(*steps)))
    verify_chain(list(await app.store.events(run.id)))
    replayed = await replay(run.id, app)
    assert replayed.identical, replayed.to_json()
    return run


@pytest.mark.parametrize(("count", "made"), [(7, 1), (70, 0)])
async def test_a_step_runs_only_if_its_condition_holds(count: int, made: int) -> None:
    tools = world(count=count)
    order = {"id": "order", "tool": "order", "inputs": {"n": 10}, "when": LOW}
    tell = {"id": "tell", "instruction": "{{stock.count}}, {{order.id}}", "style": "exact"}
    run = await ran(tools, STOCK, order, tell)
    assert run.status is RunStatus.DONE
    assert len(ordered(tools)) == made
    order_id = "o1" if made else "('order' was skipped)"
    assert run.steps["tell"].result == f"{count}, {order_id}"
    if not made:
        assert run.steps["order"].rule == "when"
        assert run.steps["order"].error == "it runs only if stock.count is below 10"


async def test_what_needs_a_skipped_step_is_skipped_too_unless_another_value_takes_its_place() -> (
    None
):
    tools = world(count=70)
    run = await ran(
        tools,
        STOCK,
        {"id": "a", "tool": "order", "inputs": {"n": 1}, "when": LOW},
        {"id": "b", "tool": "order", "inputs": {"n": "{{a.n}}"}},
        {"id": "c", "tool": "order", "inputs": {"n": 3}, "after": ["b"]},
        {"id": "d", "tool": "order", "inputs": {"n": 4}},
        {"id": "e", "tool": "double", "inputs": {"x": 5}, "when": LOW, "otherwise": {"value": 30}},
        {"id": "f", "tool": "double", "inputs": {"x": "{{e}}"}},
        {"id": "few", "tool": "double", "inputs": {"x": 5}, "when": LOW},
        {"id": "many", "tool": "double", "inputs": {"x": 7}, "when": {"not": LOW}},
        {"id": "end", "tool": "double", "inputs": {"x": {"$first": ["{{few}}", "{{many}}"]}}},
    )
    found = [name for name, state in run.steps.items() if state.status == "skipped"]
    assert sorted(found) == ["a", "b", "c", "e", "few"]
    assert [run.steps[name].rule for name in "abce"] == ["when", "need", "need", "when"]
    assert ordered(tools) == [{"n": 4}]
    assert [run.steps[name].result for name in ("e", "f", "many", "end")] == [30, 60, 14, 28]


async def test_a_condition_that_cannot_be_decided_fails_the_step_before_any_effect() -> None:
    tools = world(FakeTool("odd", [{"count": "seven"}]))
    run = await ran(
        tools,
        {"id": "stock", "tool": "odd"},
        {"id": "order", "tool": "order", "inputs": {"n": 10}, "when": LOW},
    )
    assert run.status is RunStatus.PARTLY_DONE
    assert "cannot be decided" in run.steps["order"].error
    assert not ordered(tools)


async def test_each_round_of_a_repeated_step_has_a_key_of_its_own() -> None:
    tools = world()
    run = await ran(tools, {"id": "poll", "tool": "poll", "repeat": _until(5)})
    assert run.steps["poll"].result == {"state": "shipped"}
    assert [name for name in run.steps if "/" in name] == ["poll/1", "poll/2", "poll/3"]
    assert len({each.key for each in tools.calls}) == 3


def _until(most: int, **more: Any) -> dict[str, Any]:
    return {"until": SHIPPED, "at_most": most, **more}


async def test_a_repeat_that_never_comes_true_fails_after_its_last_round() -> None:
    tools = world()
    run = await ran(tools, {"id": "poll", "tool": "poll", "repeat": _until(2)})
    assert run.steps["poll"].status.value == "failed"
    assert "after 2 rounds" in run.steps["poll"].error
    assert len(tools.calls) == 2


async def test_a_run_between_two_rounds_waits_in_the_store_and_holds_nothing() -> None:
    clock, tools = FakeClock(), world()
    store = MemoryStore()
    app = app_of(tools, store=store, clock=clock)
    wanted = plan({"id": "poll", "tool": "poll", "repeat": _until(5, every=3600)})
    run = await app.runs.run(await started(app, wanted), parks=True)
    assert run.status is RunStatus.RUNNING
    assert run.wakes_at is not None
    assert (run.wakes_at - clock.now()).total_seconds() == 3600
    assert app.runs.execution.future_of(run.id) is None
    assert clock.sleepers == 0

    await clock.advance(1800)
    again = await app.runs.run(run.id, parks=True)
    assert len(tools.calls) == 1
    assert again.wakes_at == run.wakes_at
    await app.close()

    other = app_of(tools, store=store, clock=clock)
    assert goes_on(await other.get(run.id))
    waiting = asyncio.create_task(other.run(run.id))
    await clock.advance(1799)
    assert len(tools.calls) == 1
    await clock.advance(2)
    assert len(tools.calls) == 2
    await clock.advance(3600)
    assert (await waiting).status is RunStatus.DONE
    assert len(tools.calls) == 3
    events = [each.body for each in await store.events(run.id)]
    assert [each.seconds for each in events if isinstance(each, StepWaits)] == [3600, 3600]
    assert (await replay(run.id, other)).identical


async def test_a_waiting_run_can_be_cancelled_and_another_one_goes_on_meanwhile() -> None:
    clock, tools = FakeClock(), world()
    app = app_of(tools, clock=clock)
    side = {"id": "side", "tool": "stock"}
    wanted = plan({"id": "poll", "tool": "poll", "repeat": _until(5, every=3600)}, side)
    waiting = asyncio.create_task(app.run(await started(app, wanted)))
    await clock.advance(1)
    run = (await app.runs.all())[0]
    assert statuses(run)["side"] == "done"
    assert (await app.cancel(run.id, by="ada")).status is RunStatus.CANCELLED
    assert (await waiting).status is RunStatus.CANCELLED
    assert len([each for each in tools.calls if each.tool == "poll"]) == 1


async def test_good_results_of_a_map_stay_when_an_item_fails_and_errors_are_data() -> None:
    each = {"tool": "double", "inputs": {"x": "{{item}}"}}
    collected = {"id": "all", "over": [1, 2, 3], "each": each, "on_error": "collect"}
    bad = {"contains": ["{{item}}", "error"]}
    run = await ran(
        world(),
        collected,
        {
            "id": "bad",
            "over": "{{all}}",
            "on_error": "collect",
            "each": {"tool": "stock", "inputs": {"it": "{{item}}"}, "when": bad},
        },
    )
    error = {"error": {"kind": "tool", "message": "two is not doubled"}}
    assert run.status is RunStatus.DONE
    assert run.steps["all"].result == [2, error, 6]
    assert run.steps["bad/1"].status.value == "done"
    assert run.steps["bad/0"].rule == "error"  # a number contains nothing, which is told


async def test_an_item_of_a_map_that_fails_or_is_skipped_is_left_out_of_the_list() -> None:
    each = {"tool": "double", "inputs": {"x": "{{item}}"}, "on_error": "skip"}
    each["when"] = {"not_equals": ["{{item}}", 3]}
    run = await ran(world(), {"id": "all", "over": [1, 2, 3, 4], "each": each})
    assert run.steps["all"].result == [2, 8]


@pytest.mark.parametrize(
    ("on_error", "result"),
    [
        ({"value": -1}, -1),
        ("collect", {"error": {"kind": "tool", "message": "two is not doubled"}}),
        ("skip", None),
    ],
)
async def test_a_failure_that_the_plan_passes_over_lets_the_rest_go_on(
    on_error: Any, result: Any
) -> None:
    run = await ran(
        world(),
        {"id": "a", "tool": "double", "inputs": {"x": 2}, "on_error": on_error},
        {"id": "b", "tool": "stock"},
        {"id": "tell", "instruction": "{{a}} {{b.count}}", "style": "exact"},
    )
    assert run.status is RunStatus.DONE
    assert run.steps["a"].status.value == "skipped"
    assert run.steps["a"].rule == "error"
    assert run.steps["a"].result == result
    assert run.steps["tell"].status.value == "done"


async def test_a_run_whose_approved_change_was_passed_over_is_only_partly_done() -> None:
    broken = FakeTool("pay", [ToolFailed("no money")], effect=Effect.WRITE)
    run = await ran(
        world(broken),
        {"id": "a", "tool": "pay", "on_error": "skip"},
        {"id": "b", "tool": "order", "inputs": {"n": 1}, "after": ["a"]},
        {"id": "c", "tool": "stock"},
    )
    assert run.status is RunStatus.PARTLY_DONE
    assert run.steps["b"].rule == "error"
    assert "a, b" in run.reason


async def test_a_failed_read_is_tried_again_as_often_as_its_rule_says() -> None:
    outcomes: list[Any] = [ToolFailed("no")] * 3 + [{"ok": True}]
    flaky = FakeTool("flaky", outcomes)
    once = {"id": "a", "tool": "flaky", "retry": {"at_most": 3}}
    tools = world(flaky)
    run = await ran(tools, once)
    assert run.status is RunStatus.DONE
    assert len(tools.calls) == 4
    tools = world(FakeTool("flaky", [ToolFailed("no")]))
    run = await ran(tools, once)
    assert run.status is RunStatus.FAILED
    assert len(tools.calls) == 4


async def test_a_change_that_may_have_happened_is_never_retried_by_a_rule() -> None:
    tools = world(FakeTool("pay", [OutcomeUnknown("the line broke")], effect=Effect.WRITE))
    step = {"id": "a", "tool": "pay", "retry": {"at_most": 5}, "on_error": "skip"}
    run = await ran(tools, step)
    assert run.status is RunStatus.ASKING
    assert statuses(run) == {"a": "unknown"}
    assert len(tools.calls) == 1


@pytest.mark.parametrize(("asked", "waits"), [(40, 40), (1_000_000, 3600), (None, 0)])
async def test_a_busy_tool_says_how_long_to_wait_for_the_next_try(
    asked: float | None, waits: float
) -> None:
    for busy in (ToolBusy("later", retry_after=asked), OutcomeUnknown("503", retry_after=asked)):
        clock, tools = FakeClock(), world(FakeTool("busy", [busy, {"ok": True}]))
        app = app_of(tools, clock=clock)
        run = await app.runs.run(await started(app, plan({"id": "a", "tool": "busy"})), parks=True)
        if waits:
            assert run.wakes_at is not None
            assert (run.wakes_at - clock.now()).total_seconds() == waits
            assert len(tools.calls) == 1
            waiting = asyncio.create_task(app.run(run.id))
            await clock.advance(waits + 1)
            run = await waiting
        assert run.status is RunStatus.DONE
        assert len(tools.calls) == 2


async def test_a_person_who_refuses_is_no_failure_that_a_rule_passes_over() -> None:
    tools = world()
    app = app_of(tools, limits=ASKING)
    rules = {"on_error": {"value": {"id": "none"}}, "otherwise": {"value": {"id": "none"}}}
    wanted = plan(
        STOCK,
        {"id": "a", "tool": "order", "inputs": {"n": "{{stock.count}}"}, **rules},
        {"id": "b", "tool": "order", "inputs": {"n": 1}, "after": ["a"]},
    )
    run = await app.run(await started(app, wanted))
    run = await app.answer(run.id, next(iter(run.questions)), "refuse", by="ada")
    run = await app.run(run.id)
    assert statuses(run)["a"] == "failed"
    assert statuses(run)["b"] == "skipped"
    assert not ordered(tools)


async def test_a_condition_on_values_of_tools_needs_no_consent_for_a_change_as_approved() -> None:
    order = {"id": "order", "tool": "order", "inputs": {"n": 10}, "when": LOW}
    assert (await ran(world(), STOCK, order, limits=ASKING)).status is RunStatus.DONE


async def test_a_condition_on_an_answer_decides_instead_of_the_word_no() -> None:
    tools = world()
    app = app_of(tools)
    wanted = plan(
        {"id": "keep", "question": "Keep the order?", "options": ["yes", "no"]},
        {"id": "a", "tool": "order", "inputs": {"n": 1}, "when": {"equals": ["{{keep}}", "no"]}},
        {"id": "b", "tool": "order", "inputs": {"n": 2}, "when": {"equals": ["{{keep}}", "yes"]}},
    )
    run = await app.run(await started(app, wanted))
    run = await app.answer(run.id, "keep", "no", by="ada")
    run = await app.run(run.id)
    assert run.status is RunStatus.DONE
    assert [each.arguments["n"] for each in tools.calls] == [1]


async def test_a_skipped_question_holds_what_waits_for_it() -> None:
    tools = world(count=70)
    run = await ran(
        tools,
        STOCK,
        {"id": "sure", "question": "Sure?", "when": LOW},
        {"id": "order", "tool": "order", "inputs": {"n": 10}, "after": ["sure"]},
    )
    assert statuses(run)["order"] == "skipped"
    assert not ordered(tools)


async def test_a_new_plan_keeps_what_was_skipped_and_which_rounds_were_made(
    scripted: Callable[..., ScriptedModel],
) -> None:
    poll = {"id": "poll", "tool": "poll", "repeat": _until(5)}
    order = {"id": "order", "tool": "order", "inputs": {"n": 10}, "when": LOW}
    passed = {"id": "passed", "tool": "double", "inputs": {"x": 2}, "on_error": "skip"}
    last = {"id": "z", "tool": "double", "inputs": {"x": 2}, "after": ["poll"]}
    other = last | {"inputs": {"x": 3}}
    tools = world(count=70)
    model = scripted({"steps": [STOCK, poll, order, passed, other]})
    app = app_of(tools, model=model, settings=NO_TRIAGE)
    run = await app.run(await started(app, plan(STOCK, poll, order, passed, last)))
    assert run.status is RunStatus.DONE
    assert run.replans == 1
    assert Counter(each.tool for each in tools.calls) == {"stock": 1, "poll": 3, "double": 3}
    bodies = [each.body for each in await app.store.events(run.id)]
    assert [each.step for each in bodies if isinstance(each, StepSkipped)] == ["order"]


async def test_a_run_ends_when_its_waiting_round_is_skipped() -> None:
    clock, tools = FakeClock(), world()
    app = app_of(tools, clock=clock)
    poll = {"id": "poll", "tool": "poll", "repeat": _until(5, every=3600)}
    run = await app.runs.run(await started(app, plan(poll, STOCK)), parks=True)
    await app.runs.skip(run.id, "poll/2", by="ada")
    run = await app.runs.run(run.id, parks=True)
    assert run.status.over
    assert run.wakes_at is None


class RestlessClock(FakeClock):
    """A clock that counts who asks to be woken at once."""

    naps = 0

    async def sleep(self, seconds: float) -> None:
        self.naps += seconds <= 0
        await super().sleep(seconds)


async def test_a_round_whose_time_has_come_waits_for_room_without_keeping_the_executor_busy() -> (
    None
):
    clock = RestlessClock()
    tools = world(FakeTool("slow", [{"ok": True}], delay=600), clock=clock)
    app = Plansmith(tools=[tools], limits=Limits(first_wait_s=0, data="show", width=1), clock=clock)
    wanted = plan(
        {"id": "poll", "tool": "poll", "repeat": _until(5, every=60)},
        {"id": "slow", "tool": "slow", "timeout_s": 9000, "after": ["stock"]},
        STOCK,
    )
    waiting = asyncio.create_task(app.run(await started(app, wanted)))
    for _ in range(10):
        await clock.advance(30)
    assert clock.naps < 5
    for _ in range(20):
        await clock.advance(60)
    assert (await waiting).status is RunStatus.DONE


async def test_consent_to_a_repeated_change_tells_how_often_and_is_asked_once() -> None:
    tools = world(FakeTool("press", [{"n": 1}, {"n": 2}, {"n": 3}], effect=Effect.WRITE))
    app = app_of(tools, limits=ASKING)
    repeat = {"until": {"at_least": ["{{a.n}}", 3]}, "at_most": 5}
    step = {"id": "a", "tool": "press", "inputs": {"n": "{{stock.count}}"}, "repeat": repeat}
    submitted = await app.submit(plan(STOCK, step), by="bob")
    review = next(each.body for each in await app.store.events(submitted.id) if each.number == 3)
    assert "up to 5 times" in str(review)
    await app.decide(submitted.id, approve=plan(STOCK, step).hash, by="ada")
    run = await app.run(submitted.id)
    asked = next(iter(run.questions.values()))
    assert "up to 5 times" in asked.text
    assert asked.times == 5
    await app.answer(run.id, asked.question, "allow", by="ada")
    run = await app.run(run.id)
    assert run.status is RunStatus.DONE
    assert len([each for each in tools.calls if each.tool == "press"]) == 3


async def test_a_map_that_went_on_without_a_change_is_not_taken_over_as_done() -> None:
    fails = {"b": True}

    def send(given: Any) -> Any:
        if fails.get(given["to"]):
            raise ToolFailed("no such address")
        return given["to"]

    app = app_of(world(FakeTool("send", [send], effect=Effect.WRITE)))
    each = {"tool": "send", "inputs": {"to": "{{item}}"}}
    mails = {"id": "mails", "over": ["a", "b"], "each": each, "on_error": "collect"}
    run = await app.run(await started(app, plan(STOCK, mails)))
    assert run.status is RunStatus.PARTLY_DONE
    fails.clear()
    again = await app.retry(run.id, by="ada")
    assert again.status is RunStatus.REVIEWING
    assert again.steps["stock"].reused_from == run.id
    assert again.last is not None
    asked = again.last.body
    assert isinstance(asked, ReviewAsked)
    assert any("mails (1 of its 2 parts) was done" in each for each in asked.reasons)
    await app.decide(again.id, approve=asked.hash, by="ada")
    assert (await app.run(again.id)).steps["mails"].result == ["a", "b"]


async def lived(app: Plansmith, clock: FakeClock, run_id: str, *, approves: bool = False) -> Run:
    """A run until it is idle, and once more where it asks for a review."""
    running = asyncio.ensure_future(app.runs.run(run_id))
    while not running.done():
        await clock.advance(100)
    run = await running
    if approves and run.status is RunStatus.REVIEWING and run.plan is not None:
        await app.decide(run_id, approve=run.plan.hash, by="ada")
        return await lived(app, clock, run_id)
    return run


@pytest.mark.parametrize(("most", "polled"), [(2, 2), (5, 3)])
async def test_an_edit_tries_rounds_that_the_plan_gave_up_again_only_if_it_changes_them(
    most: int, polled: int
) -> None:
    clock, tools = FakeClock(), world()
    app = app_of(tools, clock=clock)
    gave_up = {"id": "poll", "tool": "poll", "repeat": _until(2), "on_error": "skip"}
    empty = {"id": "told", "tool": "order", "when": {"empty": "{{poll}}"}}
    empty["otherwise"] = {"value": "nothing"}
    sure = {"id": "sure", "question": "Go on?"}
    run_id = await started(app, plan(gave_up, empty, sure))
    run = await app.runs.run(run_id)
    assert run.steps["poll"].rule == "error"
    edited = gave_up | {"repeat": _until(most)}
    await app.edit(run_id, plan(edited, empty, sure, STOCK), by="ada")
    await app.answer(run_id, "sure", "yes", by="ada")
    run = await lived(app, clock, run_id, approves=True)
    assert run.steps["poll"].rule == ("error" if most == 2 else "")
    assert Counter(each.tool for each in tools.calls) == {"poll": polled, "stock": 1}


async def test_an_edit_of_the_rounds_themselves_begins_them_anew() -> None:
    clock, tools = FakeClock(), world()
    app = app_of(tools, clock=clock)
    poll = {"id": "poll", "tool": "poll", "repeat": _until(5, every=600)}
    run_id = await started(app, plan(poll))
    await app.runs.run(run_id, parks=True)
    await app.pause(run_id, by="ada")
    await app.edit(run_id, plan(poll | {"repeat": _until(9, every=60)}), by="ada")
    await app.resume(run_id, by="ada")
    run = await lived(app, clock, run_id)
    assert run.status is RunStatus.DONE
    assert "poll/3" not in run.steps


async def test_a_step_that_was_skipped_stays_skipped_when_the_run_is_continued() -> None:
    tools = world(count=70)
    app = app_of(tools)
    order = {"id": "order", "tool": "order", "when": LOW}
    bad = {"id": "bad", "tool": "double", "inputs": {"x": 2}, "after": ["stock"]}
    run = await app.run(await started(app, plan(STOCK, order, bad)))
    assert run.steps["order"].rule == "when"
    again = await app.retry(run.id, by="ada")
    if again.status is not RunStatus.RUNNING:
        await app.decide(again.id, approve=plan_of(again).hash, by="ada")
    assert (await app.run(again.id)).steps["order"].status == "skipped"
    assert Counter(each.tool for each in tools.calls) == {"stock": 1, "double": 2}


async def test_rounds_whose_approval_was_lost_go_on_where_they_were_and_outlast_a_replan() -> None:
    """A tool is defined anew between two rounds, in another process; later a step fails."""
    fail = FakeTool("fail", [ToolFailed("no")], effect=Effect.WRITE)
    press = FakeTool("press", [{"n": [1]}], effect=Effect.WRITE)
    clock, store, tools = FakeClock(), MemoryStore(), world(press, fail)

    def calls() -> Counter[str]:
        return Counter(each.tool for each in tools.calls)

    rounds = {"until": {"empty": "{{press.n}}"}, "at_most": 3, "every": 600}
    step = {"id": "press", "tool": "press", "repeat": rounds, "on_error": {"value": {}}}
    stock = STOCK | {"after": ["press"]}
    bad = {"id": "bad", "tool": "fail", "after": ["stock"]}
    first = app_of(tools, store=store, clock=clock)
    run_id = await started(first, plan(step, stock, bad))
    assert (await first.runs.run(run_id, parks=True)).wakes_at is not None
    await first.close()
    assert calls() == {"press": 1}

    press.input_schema = {"type": "object", "description": "It does something else now."}
    kept = [{**each, "kind": "tool", "inputs": {}} for each in (step, stock)]
    model = ScriptedModel({"goal": "g", "steps": kept})
    second = app_of(tools, store=store, clock=clock, model=model, settings=NO_TRIAGE)
    run = await lived(second, clock, run_id)
    assert run.status is RunStatus.REVIEWING
    assert calls() == {"press": 1}
    for _ in range(3):
        run = await lived(second, clock, run_id, approves=True)
    assert run.status.over
    assert run.replans == 1
    assert calls() == {"press": 3, "stock": 1, "fail": 1}
    assert run.steps["press"].rule == "error"
