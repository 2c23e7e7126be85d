"""A preview shows what would change; one approval covers exactly that, and nothing else happens."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from plansmith import CallPreview, Limits, Plan, Plansmith, Refused, Run, RunStatus, read_plan, tool
from plansmith.errors import EventMisfit, StaleDecision
from plansmith.plan import events as e
from plansmith.plan.data import content_of, json_text, parse_json
from plansmith.plan.ids import root_of
from plansmith.plan.preview import PreviewedCall
from plansmith.plan.run_options import RunOptions
from plansmith.plan.timing import make_timing
from plansmith.review.settings import ReviewPolicy
from plansmith.runs.intake import NewRun
from plansmith.testing import MemoryStore

MAIL = {"to": "{{item.mail}}", "body": "Hi {{item.name}}"}
PEOPLE = {"id": "people", "tool": "people", "inputs": {}}
EACH = {"id": "each", "over": {"$from": "people"}, "each": {"tool": "send", "inputs": MAIL}}
STOCK = {"id": "stock", "tool": "stock", "inputs": {}}
ORDER = {"id": "order", "tool": "order", "inputs": {"count": {"$from": "stock"}}}
BOSS = {"tool": "send", "inputs": {"to": "boss", "body": "{{order.number}}"}}
LAST = {"id": "last", "tool": "send", "inputs": {"to": "all", "body": "done"}, "after": ["order"]}


class Office:
    """A world with people and a stock, entered by one process after the other."""

    def __init__(self, **options: Any) -> None:
        self.names, self.stock, self.note = ["ann", "bob", "cy"], 3, ""
        self.sent: list[tuple[str, str]] = []
        self.ordered: list[int] = []
        self.reads = 0
        self.fails = False
        self.store, self.options = MemoryStore(), options

    def smith(self, **more: Any) -> Plansmith:
        @tool(effect="read")
        def people() -> list[dict[str, str]]:
            self.reads += 1
            if self.fails:
                raise OSError("no network")
            return [{"name": each, "mail": f"{each}@example.org"} for each in self.names]

        @tool(effect="read")
        def stock() -> int:
            self.reads += 1
            return self.stock

        @tool(effect="final", preview=lambda to, body: f"To: {to}\n{body}{self.note}")
        def send(to: str, body: str) -> str:
            self.sent.append((to, body))
            return "sent"

        @tool(effect="write")
        def order(count: int) -> dict[str, int]:
            self.ordered.append(count)
            return {"number": 7}

        tools: list[Any] = [people, stock, send, order]
        return Plansmith(tools=tools, store=self.store, **{**self.options, **more})

    @property
    def is_unchanged(self) -> bool:
        return not self.sent and not self.ordered


def plan_of(*steps: dict[str, Any]) -> Plan:
    plan = read_plan({"goal": "Write to all", "steps": list(steps)})
    assert isinstance(plan, Plan)
    return plan


WHOLE = plan_of(PEOPLE, EACH, STOCK, ORDER, {"id": "boss", **BOSS}, LAST)


async def seen(office: Office, plan: Plan = WHOLE, **options: Any) -> Run:
    run = await office.smith().preview(plan, by="ann", **options)
    assert run.preview is not None
    assert office.is_unchanged
    return run


async def approved(office: Office, run: Run, **details: Any) -> Run:
    assert run.preview is not None
    await office.smith().decide(run.id, approve=run.preview.hash, by="ann", **details)
    return await office.smith().run(run.id)


def only_call(run: Run) -> PreviewedCall:
    assert run.preview is not None
    assert len(run.preview.calls) == 1
    return run.preview.calls[0]


def calls(run: Run) -> dict[str, Any]:
    return {each.step: each.inputs for each in run.preview.calls} if run.preview else {}


async def test_one_yes_makes_exactly_the_calls_that_were_shown() -> None:
    office = Office()
    run = await seen(office, plan_of(PEOPLE, EACH, STOCK, ORDER, LAST))
    assert calls(run) == {
        "order": {"count": 3},
        "last": {"to": "all", "body": "done"},
        **{
            f"each/{place}": {"to": f"{name}@example.org", "body": f"Hi {name}"}
            for place, name in enumerate(office.names)
        },
    }
    shown = {each.step: each.shown for each in run.preview.calls} if run.preview else {}
    assert shown["each/1"] == CallPreview(text="To: bob@example.org\nHi bob")
    office.names, office.stock = ["mallory"], 9_999
    run = await approved(office, run)
    assert (run.status, run.questions, office.ordered) == (RunStatus.DONE, {}, [3])
    assert {to for to, _ in office.sent} == {
        "all",
        *(f"{n}@example.org" for n in ("ann", "bob", "cy")),
    }
    assert office.reads == 2


async def test_what_uses_the_result_of_a_change_is_open_and_asked_about_later() -> None:
    office = Office()
    run = await seen(office)
    assert run.preview is not None
    assert [(each.step, each.waits_for) for each in run.preview.open] == [("boss", ("order",))]
    run = await approved(office, run)
    assert [each.step for each in run.questions.values()] == ["boss"]
    assert ("boss", "7") not in office.sent


async def test_what_differs_when_it_is_read_again_is_asked_alone_and_as_a_difference() -> None:
    office = Office()
    run = await seen(office)
    # Another order, one gone, one new, and a new number.
    office.names, office.stock = ["cy", "dora", "ann"], 5
    run = await approved(office, run, fresh=True)
    texts = {each.step: each.text for each in run.questions.values()}
    assert {to for to, _ in office.sent} == {"ann@example.org", "cy@example.org"}
    assert not office.ordered
    assert "count = 5 (you saw 3)" in texts["order"]
    assert [text for text in texts.values() if "dora@example.org" in text] != []
    assert len(texts) == 2


async def test_a_tool_that_would_do_something_else_is_asked_about_before_it_acts() -> None:
    office = Office()
    run = await seen(office, plan_of(PEOPLE, EACH))
    office.note = " (and a surprise)"
    run = await approved(office, run)
    assert office.is_unchanged
    assert len(run.questions) == 3
    assert all("surprise" in each.text for each in run.questions.values())
    for name in run.questions:
        await office.smith().answer(run.id, name, "allow", by="ann")
    run = await office.smith().run(run.id)
    assert (run.status, len(office.sent)) == (RunStatus.DONE, 3)


async def test_items_are_left_out_and_changed_in_the_one_approval() -> None:
    office = Office()
    run = await seen(office, plan_of(PEOPLE, EACH))
    change = {"each/2": {"body": "Dear Cy"}}
    run = await approved(office, run, leave_out=["each/0"], change=change)
    assert run.status is RunStatus.DONE
    assert sorted(office.sent) == [("bob@example.org", "Hi bob"), ("cy@example.org", "Dear Cy")]
    assert run.steps["each/0"].rule == "left_out"
    assert "Left out when it was approved: each/0" in run.report
    assert "left out: each/0; with values of their own: each/2" in run.report


@pytest.mark.parametrize(
    "details",
    [
        {"leave_out": ["each/9"]},
        {"change": {"each/0": {"cc": "mallory"}}},
        {"change": {"each/0": {"to": 5}}},
        {"change": {"people": {}}},
        {"change": {"each/0": {"body": {"$secret": "token"}}}},
    ],
)
async def test_details_that_nobody_saw_or_that_do_not_fit_are_refused(details: Any) -> None:
    office = Office()
    run = await seen(office, plan_of(PEOPLE, EACH))
    with pytest.raises(Refused):
        await approved(office, run, **details)
    assert not (await office.smith().get(run.id)).is_approved


async def test_the_hash_of_the_plan_approves_no_values_and_reads_anew() -> None:
    office = Office()
    run = await seen(office, plan_of(STOCK, ORDER), given={"stock": 1_000})
    assert calls(run) == {"order": {"count": 1_000}}
    assert run.plan is not None
    await office.smith().decide(run.id, approve=run.plan.hash, by="ann")
    run = await office.smith().run(run.id)
    assert office.is_unchanged
    assert ["count = 3" in each.text for each in run.questions.values()] == [True]


async def test_what_if_shows_what_would_follow_and_the_report_says_who_gave_it() -> None:
    office = Office()
    run = await seen(office, plan_of(STOCK, ORDER))
    assert calls(run) == {"order": {"count": 3}}
    run = await office.smith().preview(run, given={"stock": 8}, by="ann")
    assert calls(run) == {"order": {"count": 8}}
    run = await approved(office, run)
    assert office.ordered == [8]
    assert run.steps["stock"].given_by == "ann"
    assert office.reads == 1


async def test_one_step_runs_alone_and_a_fresh_preview_forgets_what_was_given() -> None:
    office = Office()
    run = await seen(office, given={"stock": 8}, only=["stock"])
    assert (office.reads, calls(run)) == (0, {})
    run = await office.smith().preview(run, only=["order"], by="ann")
    assert (office.reads, calls(run)) == (0, {"order": {"count": 8}})
    run = await office.smith().preview(run, only=["order"], fresh=True, by="ann")
    assert (office.reads, calls(run)) == (1, {"order": {"count": 3}})
    run = await approved(office, run)
    assert office.ordered == [3]
    asked = {root_of(each.step or "") for each in run.questions.values()}
    assert asked == {"each", "boss", "last"}


@pytest.mark.parametrize("given", [{"order": {"number": 1}}, {"nothing": 1}])
async def test_no_result_is_given_for_a_change_or_an_unknown_step(given: Any) -> None:
    with pytest.raises(Refused):
        await seen(Office(), plan_of(STOCK, ORDER), given=given)


async def test_a_plan_changed_after_the_look_is_looked_at_again() -> None:
    office = Office()
    run = await seen(office, plan_of(PEOPLE, EACH))
    assert run.preview is not None
    old = run.preview.hash
    other = {**EACH, "each": {"tool": "send", "inputs": {**MAIL, "body": "pay me"}}}
    run = await office.smith().edit(run.id, plan_of(PEOPLE, other), by="bob")
    assert run.preview is None
    with pytest.raises(StaleDecision):
        await office.smith().decide(run.id, approve=old, by="ann")
    run = await office.smith().preview(run, by="ann")
    run = await approved(office, run)
    assert {body for _, body in office.sent} == {"pay me"}


async def test_a_read_that_failed_is_tried_again_by_the_next_preview_and_by_the_run() -> None:
    office = Office()
    office.fails = True
    run = await seen(office, plan_of(PEOPLE, EACH, STOCK, ORDER))
    assert [*calls(run)] == ["order"]
    assert run.preview is not None
    assert [each.step for each in run.preview.open] == ["each"]
    office.fails = False
    again = await office.smith().preview(run, by="ann")
    assert len(calls(again)) == 4
    assert (await approved(office, again)).status is RunStatus.DONE


async def test_nothing_is_read_unasked_where_a_person_wants_to_see_the_plan_first() -> None:
    program = e.Actor(kind="program", name="agent")
    for office in (Office(), Office(policy=ReviewPolicy(ask="always"))):
        smith = office.smith()
        run = await smith.submit(plan_of(STOCK, ORDER), by="ann")
        if not office.options:
            run = await _in_review_mode(office)
        assert not await smith.runs.reads_are_free(run)
        with pytest.raises((Refused, EventMisfit)):
            await smith.runs.preview(run.id, by=program)
        assert office.reads == 0
        await smith.preview(run, by="ann")  # an explicit word
        assert office.reads == 1


async def _in_review_mode(office: Office) -> Run:
    smith = office.smith()
    new = NewRun("order", plan_of(STOCK, ORDER), by="ann", options=RunOptions(mode="review"))
    journal = await smith.runs.create(new)
    return await smith.get(journal.id)


async def test_the_journal_takes_no_call_before_the_approval_and_no_value_nobody_saw() -> None:
    office = Office()
    run = await seen(office, plan_of(STOCK, ORDER))
    smith = office.smith()
    inputs = content_of({"count": 3})
    start = e.StepStarted(step="order", inputs=inputs.digest, callee="order", basis="consent")
    journal = await smith.runs.journals.load_verified(run.id)
    with pytest.raises(EventMisfit, match="before the approval"):
        await journal.append(start, values=[inputs])
    assert run.preview is not None
    await smith.decide(run.id, approve=run.preview.hash, by="ann")
    journal = await smith.runs.journals.load_verified(run.id)
    await journal.append(e.RunStarted(hash=journal.plan_hash))
    other = content_of({"count": 4})
    for wrong in (start.replace(inputs=other.digest), start.replace(basis="")):
        with pytest.raises(EventMisfit, match="nobody agreed"):
            await journal.append(wrong, values=[other, inputs])
    await journal.append(start, values=[inputs])


async def test_a_list_longer_than_the_limit_is_allowed_as_it_was_seen() -> None:
    office = Office()
    office.names = [f"p{number}" for number in range(300)]
    run = await seen(office, plan_of(PEOPLE, EACH))
    assert len(calls(run)) == 300
    run = await approved(office, run)
    assert (run.status, len(office.sent), run.questions) == (RunStatus.DONE, 300, {})


async def test_a_denied_value_is_shown_as_a_failure() -> None:
    office = Office(limits=Limits(data="deny"))
    run = await seen(office, plan_of(STOCK, ORDER))
    only = only_call(run)
    assert only.shown is not None
    assert "may not reach order" in only.shown.fails


async def test_a_schedule_sends_only_what_its_bounds_allow() -> None:
    office = Office()
    smith, weekly = office.smith(), make_timing(cron="0 9 * * MON", timezone="UTC")
    plan = plan_of(PEOPLE, EACH)
    with pytest.raises(Refused, match="cannot run unattended"):
        await smith.schedules.create(timing=weekly, plan=plan, approve=plan.hash, by="ann")
    only: dict[str, Any] = {"to": ["ann@example.org", "bob@example.org"]}
    made = await smith.schedules.create(
        timing=weekly,
        plan=plan,
        approve=plan.hash,
        by="ann",
        bounds={"send": {"most": 2, "only": only}},
    )
    fire = await smith.schedules.fire_now(made.name)
    await smith.schedules.carried()
    run = await smith.get(fire.run)
    assert [to for to, _ in office.sent] == only["to"]
    assert ["cy@example.org" in each.text for each in run.questions.values()] == [True]
    with pytest.raises(Refused):  # bounds are part of what was approved
        await smith.schedules.change(made.name, bounds={"send": {"most": 500}}, by="ann")


@pytest.mark.parametrize("data", ["ask", "show"])
async def test_bounds_hold_for_calls_whose_values_are_in_the_plan_too(data: Any) -> None:
    office = Office(limits=Limits(data=data))
    office.names = [f"p{number}" for number in range(30)]
    smith, weekly = office.smith(), make_timing(cron="0 9 * * MON", timezone="UTC")
    plan = plan_of(PEOPLE, {**EACH, "each": {"tool": "send", "inputs": {"to": "a", "body": "b"}}})
    made = await smith.schedules.create(
        timing=weekly, plan=plan, approve=plan.hash, by="ann", bounds={"send": {"most": 2}}
    )
    fire = await smith.schedules.fire_now(made.name)
    await smith.schedules.carried()
    run = await smith.get(fire.run)
    assert (len(office.sent), len(run.questions)) == (2, 28)
    assert all("beyond the bounds" in each.text for each in run.questions.values())


async def test_a_program_decides_on_the_changes_themselves() -> None:
    office = Office()
    plan = plan_of(PEOPLE, EACH)
    run = await office.smith().do(
        plan, approve_changes=lambda preview: all("@" in str(each.inputs) for each in preview.calls)
    )
    assert (run.status, len(office.sent)) == (RunStatus.DONE, 3)
    run = await office.smith().do(plan, approve_changes=lambda preview: len(preview.calls) < 3)
    assert (run.status, len(office.sent)) == (RunStatus.CANCELLED, 3)


async def test_numbers_of_a_preview_keep_the_digits_they_were_written_with() -> None:
    paid: list[str] = []

    @tool(effect="read")
    def due() -> float:
        return 1.5

    @tool(effect="write")
    def pay(to: str, amount: Any) -> None:
        paid.append(f"{to} {json_text(amount)}")

    inputs = {"to": "ann", "amount": "{{d}}"}
    steps = [{"id": "d", "tool": "due"}, {"id": "a", "tool": "pay", "inputs": inputs}]
    async with Plansmith(tools=[due, pay]) as smith:
        run = await smith.preview(read_plan({"steps": steps}), given={"d": parse_json(b"55.00")})
        assert run.preview is not None
        assert json_text(run.preview.calls[0].inputs) == '{"to": "ann", "amount": 55.00}'
        changed = {"a": {"to": "bob"}}
        await smith.decide(run.id, approve=run.preview.hash, change=changed, by="ann")
        assert (await smith.run(run.id)).status is RunStatus.DONE
    assert paid == ["bob 55.00"]


async def test_calls_that_touch_the_same_are_checked_until_the_first_of_them_acts() -> None:
    lines: list[str] = ["old"]

    def show(text: str) -> CallPreview:
        return CallPreview(text="\n".join([*lines, text]), touches=("list",))

    @tool(effect="write", preview=show)
    def add(text: str) -> str:
        lines.append(text)
        return text

    smith = Plansmith(tools=[add])
    steps = [{"id": each, "tool": "add", "inputs": {"text": each}} for each in "abc"]
    plan = plan_of(*steps)
    run = await smith.do(plan, approve_changes=lambda _: True)
    assert (run.status, sorted(lines)) == (RunStatus.DONE, ["a", "b", "c", "old"])

    def change(_: object) -> bool:
        lines.append("changed")
        return True

    run = await smith.do(plan, approve_changes=change)
    assert (len(run.questions), len(lines)) == (3, 5)
    for name in run.questions:
        await smith.answer(run.id, name, "allow", by="ann")
    run = await smith.run(run.id)
    assert (run.status, len(lines)) == (RunStatus.DONE, 8)


async def test_a_call_that_was_shown_to_fail_is_not_made() -> None:
    made: list[str] = []

    @tool(effect="write", preview=lambda text: CallPreview(fails=f"no room for {text}"))
    def add(text: str) -> str:
        made.append(text)
        return text

    plan = plan_of({"id": "a", "tool": "add", "inputs": {"text": "x"}})
    run = await Plansmith(tools=[add]).do(plan, approve_changes=lambda _: True)
    assert (run.status, made) == (RunStatus.FAILED, [])
    assert "no room for x" in run.report


async def test_a_preview_that_changes_its_arguments_changes_no_call() -> None:
    sent: list[Any] = []

    def show(mail: dict[str, str]) -> str:
        mail["to"] = "mallory"
        return "a mail"

    @tool(effect="read")
    def draft() -> dict[str, str]:
        return {"to": "ann"}

    @tool(effect="write", preview=show)
    def send(mail: dict[str, Any]) -> None:
        sent.append(mail)

    inputs = {"mail": "{{d}}"}
    steps = [{"id": each, "tool": "send", "inputs": inputs} for each in "ab"]
    smith = Plansmith(tools=[draft, send])
    run = await smith.preview(plan_of({"id": "d", "tool": "draft"}, *steps), by="ann")
    assert run.result("d") == {"to": "ann"}
    assert calls(run) == {each: {"mail": {"to": "ann"}} for each in "ab"}
    assert run.preview is not None
    await smith.decide(run.id, approve=run.preview.hash, by="ann")
    assert (await smith.run(run.id)).status is RunStatus.DONE
    assert sent == [{"to": "ann"}, {"to": "ann"}]


def _leave(text: str) -> str:
    raise SystemExit(text)


@pytest.mark.parametrize("show", [_leave, lambda text: f"{text}\ud800"])
async def test_a_preview_that_ends_or_is_no_text_is_a_failure_of_its_call_alone(show: Any) -> None:
    @tool(effect="write", preview=show)
    def add(text: str) -> str:
        raise AssertionError(text)

    run = await Plansmith(tools=[add]).preview(
        plan_of({"id": "a", "tool": "add", "inputs": {"text": "x"}})
    )
    only = only_call(run)
    assert only.shown is not None
    assert only.shown.fails != ""


async def test_a_change_that_the_preview_did_not_show_is_asked_about_whatever_its_values() -> None:
    office = Office()
    office.names = ["ann"]
    same = {"tool": "send", "inputs": {"to": "list", "body": "the same for all"}}
    run = await seen(office, plan_of(PEOPLE, {**EACH, "each": same}))
    office.names = ["ann", "bob"]
    run = await approved(office, run, fresh=True)
    assert (len(office.sent), len(run.questions)) == (1, 1)
    assert "beyond the bounds of the approval" in next(iter(run.questions.values())).text


async def test_a_preview_of_a_changed_plan_repeats_nothing_and_takes_no_result_that_is_in_use() -> (
    None
):
    office = Office()
    ask = {"id": "ask", "question": "Go on?", "after": ["order"]}
    run = await approved(office, await seen(office, plan_of(STOCK, ORDER, ask)))
    assert (run.status, office.ordered) == (RunStatus.ASKING, [3])
    smith = office.smith()
    run = await smith.edit(run.id, plan_of(STOCK, ORDER, ask, LAST), by="ann")
    with pytest.raises(Refused):
        await smith.preview(run, given={"stock": 9}, by="ann")
    run = await smith.preview(run, by="ann")
    assert [*calls(run)] == ["last"]
    await approved(office, run)
    assert (office.ordered, office.sent) == ([3], [("all", "done")])


async def test_rounds_that_failed_in_a_preview_are_read_again() -> None:
    office = Office()
    until = {"until": {"equals": [{"$from": "stock"}, 7]}, "at_most": 2}
    plan = plan_of({**STOCK, "repeat": until}, ORDER)
    assert calls(await seen(office, plan)) == {}
    run = await seen(office, plan)
    office.stock = 7
    assert calls(await office.smith().preview(run, by="ann")) == {"order": {"count": 7}}
    assert office.reads == 5


async def test_two_previews_at_once_and_an_approval_meanwhile_end() -> None:
    office = Office()
    smith = office.smith()
    run = await smith.submit(plan_of(PEOPLE, EACH, STOCK, ORDER), by="ann")
    async with asyncio.timeout(20):
        await asyncio.gather(*(smith.preview(run, by="ann") for _ in range(2)))
        again = asyncio.create_task(smith.preview(run, given={"stock": 4}, by="ann"))
        await asyncio.sleep(0)
        assert run.plan is not None
        await smith.decide(run.id, approve=run.plan.hash, by="ann")
        run = await smith.run(run.id)
        await asyncio.gather(again, return_exceptions=True)
    assert (run.status, office.ordered) == (RunStatus.ASKING, [])


async def test_nobody_has_agreed_to_a_given_result_without_an_approval() -> None:
    office = Office()
    run = await seen(office, plan_of(STOCK), given={"stock": 9})
    run = await office.smith().run(run.id)
    assert run.result("stock") == 3
