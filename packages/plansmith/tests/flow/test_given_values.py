"""Values that a person gives for one call of many: exactly they are sent, once, or nothing is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import pytest
from tests.flow.plans import approved, change_step, plan

from plansmith import AgentSpec, Effect, RunStatus, StepStatus, tool
from plansmith.app import Plansmith
from plansmith.errors import Refused
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.limits import Limits
from plansmith.plan.run import Run
from plansmith.ports import Call
from plansmith.report.build import load_report
from plansmith.report.markdown import to_markdown
from plansmith.review.settings import ReviewPolicy
from plansmith.secrets import SecretBox
from plansmith.testing import FakeTool, FakeTools, MemoryStore
from plansmith_cli.replay import replay

SCHEMA = {
    "properties": {"to": {"type": "string"}, "sum": {"type": "integer"}, "key": {"type": "string"}},
    "required": ["to"],
    "additionalProperties": False,
}
BILLS: list[Any] = [{"to": "alice", "sum": 10}, {"to": "mallory", "sum": 9_999}]
LOOK = {"id": "look", "tool": "look", "inputs": {"at": "bills"}}
PAY = {"tool": "pay", "inputs": {"to": "{{item.to}}", "sum": "{{item.sum}}"}}
ALL = {"id": "all", "over": "{{look.bills}}", "each": PAY}


class Trip:
    """An agent that books, after a question of its own."""

    spec = AgentSpec(name="trip", description="Books", effect=Effect.WRITE)

    def __init__(self) -> None:
        self.work_done: list[tuple[str, Json]] = []

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        day = call.ask("Which day?")
        self.work_done.append((task, dict(inputs)))
        return f"booked for {day}"


def _looked_at(given: Mapping[str, Json]) -> Json:
    return {"bills": BILLS, "at": given["at"]}


class Bank:
    """One store and one world, entered by one process after the other."""

    def __init__(self, *more: FakeTool, rule: Any = "never", pays: Any = "paid") -> None:
        self.store, self.trip, self.rule = MemoryStore(), Trip(), rule
        pay = FakeTool("pay", [pays], effect=Effect.WRITE, input_schema=SCHEMA)
        self.tools = FakeTools(pay, FakeTool("look", [_looked_at]), *more)

    def enter(self) -> Plansmith:
        return Plansmith(
            tools=[self.tools],
            agents=[self.trip],
            store=self.store,
            limits=Limits(first_wait_s=0),
            templates={"payments": plan(LOOK, ALL)},
            policy=ReviewPolicy(second_person=self.rule),
            secrets=SecretBox(
                {"key": {"env": "BANK_KEY", "tools": ("pay",)}},
                environment={"BANK_KEY": "s3cret-value"},
            ),
        )

    async def begin(self, *steps: dict[str, Any], by: str = "ann") -> Run:
        return await approved(self.enter(), plan(*steps), by)

    async def say(self, run: Run, name: str, value: Json, by: str = "bob") -> Run:
        """Answers in one process, which then dies, and goes on in another."""
        await self.enter().answer(run.id, name, value, by=by)
        return await self.enter().run(run.id)

    @property
    def paid(self) -> list[dict[str, Json]]:
        return [dict(each.arguments) for each in self.tools.calls if each.tool == "pay"]


@pytest.mark.parametrize(
    ("step", "name"),
    [(ALL, "all"), ({"id": "p", "template": "payments"}, "p/all")],
    ids=["map", "map in a template"],
)
async def test_one_call_of_many_is_made_with_a_persons_values_and_the_others_as_shown(
    step: dict[str, Any], name: str
) -> None:
    bank = Bank()
    run = await bank.begin(LOOK, step)
    assert [*run.questions] == [f"data:{name}/0?1", f"data:{name}/1?1"]
    given: dict[str, Json] = {"to": "{{look.bills}} ${x} bob", "sum": 5}
    run = await bank.say(run, f"data:{name}/1?1", {"allow": given})
    assert (run.status, bank.paid) == (RunStatus.ASKING, [given])
    with pytest.raises(Refused, match="no open question"):
        await bank.say(run, f"data:{name}/1?1", {"allow": given})
    run = await bank.say(run, f"data:{name}/0?1", "allow")
    assert (run.status, bank.paid) == (RunStatus.DONE, [given, BILLS[0]])
    events = await bank.store.events(run.id)
    [permit] = [each for each in events if getattr(each.body, "instead_of", "")]
    assert isinstance(permit.body, e.StepReplied)
    assert (permit.by.name, permit.body.answer) == ("bob", {"allow": given})
    assert permit.body.state.startswith(run.steps[f"{name}/1"].call_mark)
    report = to_markdown(await load_report(bank.store, run.id))
    assert "bob allowed pay to be called with values of their own" in report
    assert (await replay(run.id, bank.enter())).identical


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"to": "bob", "sum": "5"}, "sum: "),
        ({"sum": 5}, "pay: "),
        ({"to": "bob", "more": 1}, "no value 'more' was shown"),
        ({"to": "${secret:key}"}, "secret"),
    ],
)
async def test_values_that_cannot_be_sent_are_refused_and_the_question_stays(
    value: dict[str, Json], why: str
) -> None:
    bank = Bank()
    run = await bank.begin(LOOK, ALL)
    with pytest.raises(Refused, match=why):
        await bank.say(run, "data:all/1?1", {"allow": value})
    without_tools = Plansmith(store=bank.store)
    own: Json = {"to": "bob", "too": "eve"}
    with pytest.raises(Refused, match="did you mean 'to'"):
        await without_tools.answer(run.id, "data:all/1?1", {"allow": own}, by="bob")
    run = await bank.enter().run(run.id)
    assert (len(run.questions), bank.paid) == (2, [])


async def test_a_list_is_changed_in_the_plan_and_not_in_an_answer() -> None:
    bank = Bank()
    run = await bank.begin(LOOK, ALL | {"most": 1})
    with pytest.raises(Refused, match="only in the plan"):
        await bank.say(run, "data:all?1", {"allow": {"over": [BILLS[0]]}})


async def test_a_secret_that_the_plan_names_is_still_put_in_beside_a_persons_value() -> None:
    bank = Bank()
    keyed = {"tool": "pay", "inputs": {"to": "{{item.to}}", "key": "${secret:key}"}}
    run = await bank.begin(LOOK, ALL | {"each": keyed})
    await bank.enter().answer(run.id, "data:all/0?1", "refuse", by="bob")
    await bank.say(run, "data:all/1?1", {"allow": {"to": "bob", "key": "${secret:key}"}})
    assert bank.paid == [{"to": "bob", "key": "s3cret-value"}]


async def test_values_for_a_call_that_has_changed_meanwhile_are_not_sent() -> None:
    bank = Bank()
    once = {"id": "one", "over": ["x"], "each": {"tool": "pay", "inputs": {"to": "{{look.at}}"}}}
    run = await bank.begin(LOOK, once)
    app = bank.enter()
    await app.answer(run.id, "data:one/0?1", {"allow": {"to": "bob"}}, by="bob")
    assert run.plan is not None
    run = await app.edit(run.id, change_step(run.plan, "look", inputs={"at": "home"}), by="bob")
    if run.plan is not None and run.status is RunStatus.REVIEWING:
        await app.decide(run.id, approve=run.plan.hash, by="bob")
    run = await bank.enter().run(run.id)
    assert (run.status, bank.paid) == (RunStatus.ASKING, [])
    [asked] = run.questions.values()
    assert await bank.store.get(asked.values) == {"to": "home"}


async def test_a_call_that_died_is_made_again_with_the_same_values_and_the_same_key() -> None:
    def dies(_: Any) -> Any:
        raise OSError("the line went dead")

    bank = Bank(pays=dies)
    run = await bank.begin(LOOK, ALL)
    await bank.enter().answer(run.id, "data:all/0?1", "refuse", by="bob")
    run = await bank.say(run, "data:all/1?1", {"allow": {"to": "bob"}})
    assert run.steps["all/1"].status is StepStatus.UNKNOWN
    await bank.say(run, "unknown:all/1", "retry")
    assert bank.paid == [{"to": "bob"}] * 2
    assert len({each.key for each in bank.tools.calls if each.tool == "pay"}) == 1


async def test_each_round_of_a_repeated_call_is_made_with_a_persons_values() -> None:
    turns = iter(["no", "no", "yes"])
    bank = Bank(pays=lambda _: next(turns))
    until = {"equals": [{"$from": "again"}, "yes"]}
    again = {"id": "again", "tool": "pay", "inputs": {"to": "{{look.at}}"}}
    run = await bank.begin(LOOK, again | {"repeat": {"until": until, "at_most": 5}})
    assert run.questions["data:again?1"].times == 5
    run = await bank.say(run, "data:again?1", {"allow": {"to": "bob"}})
    assert (run.status, bank.paid) == (RunStatus.DONE, [{"to": "bob"}] * 3)


async def test_an_agent_gets_a_persons_task_also_after_a_question_of_its_own() -> None:
    bank = Bank()
    book = {"id": "book", "agent": "trip", "task": "Go to {{look.at}}", "inputs": {"a": "b"}}
    run = await bank.begin(LOOK, book)
    for task in ("", 3):
        with pytest.raises(Refused, match="task: "):
            await bank.say(run, "data:book?1", {"allow": {"task": task, "inputs": {}}})
    given: dict[str, Json] = {"task": "Go to {{Rome}}", "inputs": {"$from": "look"}}
    run = await bank.say(run, "data:book?1", {"allow": given})
    assert [*run.questions] == ["book?1"]
    run = await bank.say(run, "book?1", "Monday")
    assert (run.status, run.steps["book"].result) == (RunStatus.DONE, "booked for Monday")
    assert bank.trip.work_done == [(given["task"], given["inputs"])]


async def test_values_that_a_second_person_has_to_agree_to_are_not_taken() -> None:
    bank = Bank(rule="changes")
    run = await bank.begin(LOOK, ALL)
    with pytest.raises(Refused, match="Another user has to agree"):
        await bank.say(run, "data:all/1?1", {"allow": {"to": "bob"}})
    assert bank.paid == []


class Gate:
    """Counts how many calls are made at once, and lets none end before all that may have begun."""

    def __init__(self, width: int) -> None:
        self.width, self.now, self.most, self.full = width, 0, 0, asyncio.Event()

    async def __call__(self, given: Mapping[str, Json]) -> Json:
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now == self.width:
            self.full.set()
        await self.full.wait()
        self.now -= 1
        return given["to"]


@pytest.mark.parametrize(("width", "together"), [(4, 12), (1, 1)])
async def test_items_ask_together_and_run_as_many_at_once_as_the_plan_says(
    width: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A map of width 1 is done one after the other: there the next item is not even asked about."""
    gate = Gate(width)
    bills: list[Any] = [{"to": f"p{number}", "sum": number} for number in range(12)]
    monkeypatch.setattr("tests.flow.test_given_values.BILLS", bills)

    @tool(effect="write")
    async def pay(to: str, sum: int) -> Json:  # noqa: A002 - as in the plan
        return await gate({"to": to, "sum": sum})

    store = MemoryStore()

    def enter() -> Plansmith:
        return Plansmith(tools=[FakeTools(FakeTool("look", [_looked_at])), pay], store=store)

    run = await approved(enter(), plan(LOOK, ALL | {"width": width}))
    assert len(run.questions) == together
    while run.questions:
        # Killed between an answer and the next, and between the last one and the calls.
        for name in [*run.questions]:
            of = run.question_hash(name)
            assert not enter().runs.execution.future_of(run.id)
            await enter().answer(run.id, name, "allow", by="bob", of=of)
        run = await enter().run(run.id)
    assert (run.status, run.result("all")) == (RunStatus.DONE, [each["to"] for each in bills])
    assert gate.most == width
    events = await store.events(run.id)
    permits = [each for each in events if isinstance(each.body, e.StepReplied)]
    assert {each.by.name for each in permits} == {"bob"}
    assert len({each.body.state for each in permits if isinstance(each.body, e.StepReplied)}) == 12


async def test_nothing_of_a_tool_passes_for_our_own_words() -> None:
    """Nothing is left of a tool outside of quotes: no text, no name, no end of a value cut off."""
    found: Json = {"no = 1. From you": 'x". From you', "of": [{"k": "A" * 3000}], "t": "B" * 3000}
    tools = FakeTools(FakeTool("look", [found]), FakeTool("pay", ["paid"], effect=Effect.WRITE))
    step = {"id": "pay", "tool": "pay", "inputs": {"$from": "look"}}
    run = await Plansmith(tools=[tools]).do(plan(LOOK, step), approve=lambda _: True)
    [asked] = run.questions.values()
    left = re.sub(r'"(\\.|[^"\\])*"', "", asked.text)
    cut = "… (only the first 2,000 of {} characters)"
    values = f" = , of = {cut.format('3,011')}, t = {cut.format('3,000')}"
    assert left == f"pay would be called with {values}. This comes from look."
