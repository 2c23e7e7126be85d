"""JManus: its planning tool, direct responses, and templates that stop with their caller."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.members import Member

import plansmith_planner
from plansmith import Effect, Plan, Plansmith, RunStatus, tool
from plansmith.errors import Misconfigured, PlanInvalid, Refused
from plansmith.formats.dialect import dialect
from plansmith.plan.data import Json
from plansmith.plan.limits import Limits
from plansmith.ports import Call, ChatModel, Delta, Prompt
from plansmith.testing import Answer, MemoryStore, ScriptedModel
from plansmith.testing.modelserver import ModelServer, Reply
from plansmith_cli.config import Settings
from plansmith_cli.teams import data
from plansmith_compat.spring import (
    DataAgent,
    JManus,
    PlanningTool,
    PlanningToolInterface,
    PublishedTemplates,
    keys,
    only_nl2sql,
    plan_from,
)
from plansmith_planner.settings import PlannerSettings

Script = Callable[..., ScriptedModel]
NO_TRIAGE = PlannerSettings(triage=False)
INPUTS: dict[str, Json] = {"product": "bolts"}
TEMPLATE = {
    "planTemplateId": "prices",
    "title": "Prices of <<product>>",
    "steps": [
        {"stepRequirement": "[BROWSER_AGENT] look for <<product>>"},
        {"stepRequirement": "[SLOW_AGENT] compare"},
    ],
}


class Browser(Member):
    """An agent of JManus."""

    def __init__(self, name: str = "BROWSER_AGENT", effect: Effect = Effect.READ) -> None:
        super().__init__(name, effect=effect)


class Slow(Browser):
    """An agent that works until it is let go or cancelled."""

    def __init__(self, effect: Effect = Effect.READ) -> None:
        super().__init__("SLOW_AGENT", effect)
        self.begun, self.free, self.cancelled = asyncio.Event(), asyncio.Event(), 0

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        self.calls.append((task, dict(inputs)))
        self.begun.set()
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return f"slow: {task}"


class Watched:
    """A model that keeps its prompts whole."""

    def __init__(self, model: ChatModel) -> None:
        self._model, self.name = model, model.name
        self.prompts: list[Prompt] = []

    def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        self.prompts.append(prompt)
        return self._model.stream(prompt)


def manus(*agents: Any, **options: Any) -> JManus:
    return JManus(Plansmith(agents=agents, settings=NO_TRIAGE, **options))


# The planning tool


def test_the_planning_tool_has_the_four_methods_of_its_interface_and_keeps_the_plan() -> None:
    held: PlanningToolInterface = PlanningTool()
    assert isinstance(held, PlanningToolInterface)
    assert not isinstance("a text", PlanningToolInterface)
    assert held.get_current_plan() is None
    assert held.get_current_plan_id() is None
    call = {"command": "create", "title": "Prices", "steps": ["[BROWSER_AGENT] look", "compare"]}
    said = held.apply(json.dumps(call | {"terminateColumns": "name, price"}))
    assert said.getOutput().startswith("Plan created successfully")
    plan = held.get_current_plan()
    assert plan is not None
    assert (plan.title, plan.getSteps()[1].getStepRequirement()) == ("Prices", "compare")
    assert [each.terminateColumns for each in plan.steps] == ["name, price"] * 2
    java = PlanningTool()
    again = held.get_function_tool_callback(java)
    assert "Plan created" in again.call(call)
    java.setCurrentPlanId("plan-7")
    assert java.getCurrentPlanId() == "plan-7"
    assert java.getCurrentPlan() is not plan
    assert "look" in java.getCurrentToolStateString()


def test_a_call_that_is_no_create_makes_no_plan() -> None:
    call = {"title": "Prices", "steps": [{"stepRequirement": "[A] look"}]}
    for command in ({}, {"command": "create"}):
        assert len(plan_from(call | command).steps) == 1
    for word in ("delete", "update", "", None):
        with pytest.raises(Refused, match="Invalid command"):
            plan_from(call | {"command": word})


async def test_a_step_that_names_its_tool_calls_it_with_its_parameters() -> None:
    @tool(effect="read")
    def look(at: str) -> str:
        """Look at a city."""
        return f"{at}: sunny"

    step = {"stepRequirement": "Look first", "toolToUse": "look", "toolParameters": {"at": "{{x}}"}}
    after = {"stepRequirement": "[desk] tell it"}
    made = manus(Browser("desk"), tools=[look])
    run = await made.create(title="T", userRequest="Is it sunny?", steps=[step, after])
    assert run.request == "Is it sunny?"
    run = await made.execute(run.id)
    assert run.steps["s1"].result == "{{x}}: sunny"
    assert run.steps["s2"].status.value == "done"


def test_the_callback_of_the_planning_tool_describes_every_parameter() -> None:
    callback = PlanningTool().getFunctionToolCallback()
    assert (callback.name, callback.return_direct) == ("planning", True)
    properties: Any = callback.input_schema["properties"]
    assert set(properties) == {"command", "title", "steps", "terminateColumns", "directResponse"}
    assert all(each["description"] for each in properties.values())
    assert callback.input_schema["required"] == ["command", "title", "steps"]
    assert callback.spec.name == "planning"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"command": "delete"}, "Invalid command: delete"),
        ("no json", "not JSON"),
        ("[1]", "not an object"),
    ],
)
def test_the_planning_tool_refuses_what_is_no_call_and_keeps_its_plan(
    arguments: Any, why: str
) -> None:
    tool = PlanningTool()
    tool.createPlan("t", ["a"])
    with pytest.raises(Refused, match=why):
        tool.apply(arguments)
    assert tool.apply({"command": "create", "title": "t", "steps": []}).output.startswith("Req")
    held = tool.get_current_plan()
    assert held is not None
    assert held.title == "t"


async def test_the_plan_of_the_planning_tool_runs() -> None:
    browser = Browser()
    jmanus = manus(browser)
    with pytest.raises(Refused, match="no plan"):
        await jmanus.submit()
    jmanus.planning_tool.apply(
        {"command": "create", "title": "t", "steps": ["[BROWSER_AGENT] look"]}
    )
    run = await jmanus.submit(by="ada")
    assert jmanus.planning_tool.get_current_plan_id() == run.id
    run = await jmanus.execute(run.id)
    assert (run.status, browser.tasks) == (RunStatus.DONE, ["look"])


async def test_the_planning_function_is_offered_to_the_model_and_its_call_is_the_plan(
    scripted: Script,
) -> None:
    call = {
        "command": "create",
        "planningThinking": "",
        "title": "Prices",
        "steps": [{"stepRequirement": "[BROWSER_AGENT] look", "terminateColumns": ""}],
        "directResponse": "",
    }
    model = scripted(Answer(call, tool="planning"))
    browser = Browser()
    watched = Watched(model)
    jmanus = JManus(model=watched, agents=[browser], settings=NO_TRIAGE)
    run = await jmanus.request("look for prices")
    [prompt] = watched.prompts
    [offered] = prompt.tools
    assert (offered.name, prompt.schema) == ("planning", None)
    held = jmanus.planning_tool.get_current_plan()
    assert held is not None
    assert held.steps[0].step_requirement == "[BROWSER_AGENT] look"
    await jmanus.execute(run.id)
    assert browser.tasks == ["look"]
    with pytest.raises(Misconfigured, match="not both"):
        JManus(jmanus.smith, model=model)


# Direct responses and columns


async def test_a_direct_response_keeps_its_words_and_asks_no_model(scripted: Script) -> None:
    jmanus = JManus(model=scripted(), settings=NO_TRIAGE)
    run = await jmanus.create(title="hi", steps=[], directResponse="Hello {{you}}!")
    assert (run.status, run.steps["s1"].result) == (RunStatus.DONE, "Hello {{you}}!")
    shown: Any = await jmanus.status(run.id)
    assert shown["directResponse"] == "Hello {{you}}!"


async def test_a_direct_response_without_words_answers_the_request_itself(
    scripted: Script,
) -> None:
    model = scripted(Answer("I am well.", expects="how are you"))
    jmanus = JManus(model=model, settings=NO_TRIAGE)
    jmanus.planning_tool.apply({"title": "how are you", "directResponse": True})
    run = await jmanus.submit()
    assert run.steps["s1"].result == "I am well."
    for written in ({"directResponse": True, "title": "how are you"}, {"directResponse": "Hi."}):
        plan = plan_from({"steps": [], **written})
        again = dialect("jmanus").write(plan, None)
        assert again.lost == ()
        assert plan_from(again.value).steps == plan.steps  # type: ignore[arg-type]


def test_a_direct_response_without_any_words_is_refused_and_not_asked_as_a_question_mark() -> None:
    for given in ({"directResponse": True}, {"directResponse": "false", "title": "t"}):
        with pytest.raises(PlanInvalid, match="no plan of JManus"):
            plan_from({"steps": [], **given})


def test_columns_of_the_plan_hold_for_every_step_without_its_own() -> None:
    steps = ["[A] a", {"stepRequirement": "[A] b", "terminateColumns": "own"}]
    plan = plan_from({"title": "t", "steps": steps, "terminateColumns": "name, price"})
    written: Any = dialect("jmanus").write(plan, None).value
    assert [each["terminateColumns"] for each in written["steps"]] == ["name, price", "own"]


# Templates as tools


async def outer(
    store: Any, *agents: Any, name: str = "prices", **options: Any
) -> tuple[JManus, PublishedTemplates]:
    """Makes a JManus whose tools are the published templates of another on the same store."""
    inner = manus(*agents, store=store, **options)
    await inner.templates.save(TEMPLATE)
    published = await inner.templates.publish(name)
    return JManus(Plansmith(tools=[published], store=store)), published


async def begin(jmanus: JManus) -> str:
    plan = Plan.model_validate({"steps": [{"id": "sub", "tool": "prices", "inputs": INPUTS}]})
    return (await jmanus.smith.submit(plan)).id


async def test_stopping_reaches_templates_that_run_templates() -> None:
    slow, store = Slow(), MemoryStore()
    _, published = await outer(store, Browser(), slow)
    middle = JManus(Plansmith(tools=[published], store=store))
    call = {"id": "sub", "tool": "prices", "inputs": INPUTS}
    await middle.smith.templates.save(Plan.model_validate({"steps": [call]}), "middle")
    jmanus = JManus(Plansmith(tools=[await middle.templates.publish("middle")], store=store))
    plan = Plan.model_validate({"steps": [{"id": "top", "tool": "middle"}]})
    run_id = (await jmanus.smith.submit(plan)).id
    running = asyncio.ensure_future(jmanus.execute(run_id))
    await slow.begun.wait()
    await asyncio.gather(*(jmanus.stop(run_id, by=who) for who in ("ada", "bob")))
    await running
    found = await jmanus.smith.runs()
    assert [each.status for each in found] == [RunStatus.CANCELLED] * 3
    assert slow.cancelled == 1


async def test_a_template_goes_on_after_a_restart_and_does_nothing_twice(tmp_path: Path) -> None:
    url, browser, slow = f"sqlite:///{tmp_path / 'runs.db'}", Browser(), Slow()
    jmanus, published = await outer(url, browser, slow)
    run_id = await begin(jmanus)
    running = asyncio.ensure_future(jmanus.execute(run_id))
    await slow.begun.wait()
    await jmanus.smith.close()
    await asyncio.gather(running, return_exceptions=True)
    await published._smith.close()
    slow.free.set()
    jmanus, published = await outer(url, browser, slow)
    run = await jmanus.execute(run_id)
    assert run.status is RunStatus.DONE
    assert browser.tasks == ["look for bolts"]
    assert slow.tasks == ["compare"] * 2  # it only reads, and was cut off
    assert len(await jmanus.smith.runs()) == 2
    await jmanus.smith.close()
    await published._smith.close()


async def test_a_stop_after_a_crash_still_stops_the_template(tmp_path: Path) -> None:
    url, slow = f"sqlite:///{tmp_path / 'runs.db'}", Slow()
    jmanus, published = await outer(url, Browser(), slow)
    run_id = await begin(jmanus)
    running = asyncio.ensure_future(jmanus.execute(run_id))
    await slow.begun.wait()
    for smith in (jmanus.smith, published._smith):
        await smith.close()
    await asyncio.gather(running, return_exceptions=True)
    survivor = manus(store=url, limits=Limits(grace_s=0.01))  # nobody is left to wait for
    assert {each.status for each in await survivor.smith.runs()} == {RunStatus.RUNNING}
    await survivor.stop(run_id, by="ada")
    assert {each.status for each in await survivor.smith.runs()} == {RunStatus.CANCELLED}
    await survivor.smith.close()


async def test_a_template_that_changes_things_still_waits_for_the_persons_approval() -> None:
    writer, slow = Browser(effect=Effect.WRITE), Slow()
    slow.free.set()
    store = MemoryStore()
    jmanus, published = await outer(store, writer, slow)
    run_id = await begin(jmanus)
    run = await jmanus.smith.get(run_id)
    assert run.plan is not None
    await jmanus.smith.decide(run_id, approve=run.plan.hash, by="ada")
    run = await jmanus.execute(run_id)
    assert (run.status, writer.tasks) == (RunStatus.ASKING, [])
    [question] = run.questions
    assert "waits for a person" in run.questions[question].text
    run = await jmanus.smith.answer(run_id, question, "go_on", by="ada")
    run = await jmanus.execute(run_id)
    assert (run.status, writer.tasks) == (RunStatus.ASKING, [])
    [inner] = [each for each in await published._smith.runs() if each.id != run_id]
    assert inner.plan is not None
    await published._smith.decide(inner.id, approve=inner.plan.hash, by="ada")
    [question] = run.questions
    await jmanus.smith.answer(run_id, question, "go_on", by="ada")
    run = await jmanus.execute(run_id)
    assert (run.status, writer.tasks) == (RunStatus.DONE, ["look for bolts"])


async def test_a_call_under_the_same_key_is_the_same_run_of_the_template() -> None:
    slow = Slow()
    slow.free.set()
    browser = Browser()
    _, published = await outer(MemoryStore(), browser, slow)
    calls = [published.call("prices", INPUTS, Call("k")) for _ in range(3)]
    first, *others = await asyncio.gather(*calls)
    assert others == [first, first]
    assert browser.tasks == ["look for bolts"]
    await published.call("prices", INPUTS, Call("other"))
    assert len(browser.calls) == 2


# Deleting


async def test_a_run_that_is_over_is_deleted_from_memory_too() -> None:
    store = MemoryStore()
    jmanus = manus(Browser(), store=store)
    kept = await jmanus.create(title="t", steps=["[BROWSER_AGENT] a"])
    run = await jmanus.create(title="t", steps=["[BROWSER_AGENT] b"])
    with pytest.raises(Refused, match="is not over"):
        await jmanus.delete(run.id)
    await jmanus.execute(run.id)
    position = await store.wait_news(0)
    assert await jmanus.delete(run.id) is True
    assert [each.id for each in await jmanus.smith.runs()] == [kept.id]
    assert await store.wait_news(0) == position
    assert {each.run for each in await store.news()} == {kept.id}
    await jmanus.execute(kept.id)
    assert {each.run for each in await store.news(position)} == {kept.id}


# NL2SQL on durable runs


async def test_a_question_is_planned_and_answered_by_a_model_over_a_real_socket(
    tmp_path: Path,
) -> None:
    database = f"sqlite:///{tmp_path / 'shop.db'}"
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE orders AS SELECT 'Oslo' AS city")
    shop.close()
    written: Json = {"sql": "SELECT city FROM orders", "reason": ""}
    settings = Settings.model_validate({"store": "memory", "planner": {"triage": False}})
    async with ModelServer(Reply(only_nl2sql("which cities?")), Reply(written)) as server:
        model = plansmith_planner.model("openai:gpt-5", base_url=server.url, api_key="any")
        agent = DataAgent(data(settings, database=database, model=model, folder=tmp_path))
        async with agent.smith:
            now = await agent.ask("which cities?")
    assert now[keys.SQL_EXECUTE_NODE_OUTPUT]["step_1"]["rows"] == [{"city": "Oslo"}]
