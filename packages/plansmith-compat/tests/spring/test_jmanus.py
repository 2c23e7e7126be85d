"""JManus: its planning tool, direct responses, and templates that stop with their caller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.members import NO_TRIAGE, Member, Script

from plansmith import Effect, Plan, Plansmith, RunStatus, tool
from plansmith.errors import Misconfigured, PlanInvalid, Refused, ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.limits import Limits
from plansmith.ports import Call, ChatModel, Delta, Prompt
from plansmith.testing import Answer, MemoryStore
from plansmith_compat.spring import (
    JManus,
    PlanningTool,
    PlanningToolInterface,
    PublishedTemplates,
    plan_from,
)
from plansmith_planner.dialect import dialect
from plansmith_planner.settings import PlannerSettings

INPUTS: dict[str, Json] = {"product": "bolts"}
LOOK, LOOKED = "[BROWSER_AGENT] look", "look for bolts"
TEMPLATE: dict[str, Any] = {
    "planType": "simple",
    "planTemplateId": "prices",
    "title": "Prices of <<product>>",
    "steps": [
        {"stepRequirement": "[BROWSER_AGENT] look for <<product>>"},
        {"stepRequirement": "[SLOW_AGENT] compare", "terminateColumns": "name, price"},
    ],
}


class Slow(Member):
    """An agent that works until it is let go or cancelled."""

    def __init__(self, *, free: bool = False) -> None:
        super().__init__("SLOW_AGENT")
        self.begun, self.free, self.cancelled = asyncio.Event(), asyncio.Event(), 0
        if free:
            self.free.set()

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


def browser(*results: Any, effect: Effect = Effect.READ) -> Member:
    return Member("BROWSER_AGENT", *results, effect=effect)


def manus(*agents: Any, **options: Any) -> JManus:
    team = agents or (browser(), Slow(free=True))
    given: dict[str, Any] = {"settings": NO_TRIAGE, **options}
    return JManus(Plansmith(agents=team, **given))


# The planning tool


def test_the_planning_tool_has_the_four_methods_of_its_interface_and_keeps_the_plan() -> None:
    tool: PlanningToolInterface = PlanningTool()
    assert isinstance(tool, PlanningToolInterface)
    assert not isinstance("a text", PlanningToolInterface)
    assert tool.get_current_plan() is None
    assert tool.get_current_plan_id() is None
    call = {"command": "create", "title": "Prices", "steps": [LOOK, "compare"]}
    result = tool.apply(json.dumps(call | {"terminateColumns": "name, price"}))
    assert result.getOutput().startswith("Plan created successfully")
    plan = tool.get_current_plan()
    assert plan is not None
    assert (plan.title, plan.getSteps()[1].getStepRequirement()) == ("Prices", "compare")
    assert [each.terminateColumns for each in plan.steps] == ["name, price"] * 2
    java = PlanningTool()
    assert "Plan created" in tool.get_function_tool_callback(java).call(call)
    java.setCurrentPlanId("plan-7")
    assert java.getCurrentPlanId() == "plan-7"
    assert java.getCurrentPlan() is not plan
    assert "look" in java.getCurrentToolStateString()


def test_the_callback_of_the_planning_tool_describes_every_parameter() -> None:
    callback = PlanningTool().getFunctionToolCallback()
    assert (callback.name, callback.return_direct) == ("planning", True)
    properties: Any = callback.input_schema["properties"]
    assert set(properties) == {"command", "title", "steps", "terminateColumns", "directResponse"}
    assert all(each["description"] for each in properties.values())
    assert callback.input_schema["required"] == ["command", "title", "steps"]
    assert callback.spec.name == "planning"


def test_the_planning_tool_refuses_what_is_no_call_of_create_and_keeps_its_plan() -> None:
    tool = PlanningTool()
    tool.createPlan("t", ["a"])
    wrong: list[tuple[Any, str]] = [("no json", "not JSON"), ("[1]", "not an object")]
    call = {"title": "Prices", "steps": [{"stepRequirement": "[A] look"}]}
    for word in ("delete", "update", "", None):
        wrong.append((call | {"command": word}, "Invalid command"))
        with pytest.raises(Refused, match="Invalid command"):
            plan_from(call | {"command": word})
    for arguments, why in wrong:
        with pytest.raises(Refused, match=why):
            tool.apply(arguments)
    assert tool.apply({"command": "create", "title": "t", "steps": []}).output.startswith("Req")
    plan = tool.get_current_plan()
    assert plan is not None
    assert plan.title == "t"
    assert len(plan_from(call).steps) == len(plan_from(call | {"command": "create"}).steps) == 1


async def test_the_plan_of_the_planning_tool_runs_agent_by_agent() -> None:
    looks, other = browser(), Member("DEFAULT_AGENT")
    jmanus = manus(looks, other)
    with pytest.raises(Refused, match="no plan"):
        await jmanus.submit()
    call = {"command": "create", "title": "t", "steps": [LOOK, "write it down"]}
    jmanus.planning_tool.apply(call)
    run = await jmanus.submit(by="ada")
    assert jmanus.planning_tool.get_current_plan_id() == run.id
    run = await jmanus.execute(run.id)
    assert (run.status, looks.tasks) == (RunStatus.DONE, ["look"])
    assert other.calls == [("write it down", {"s1": "BROWSER_AGENT: look"})]


async def test_a_step_that_names_its_tool_calls_it_with_its_parameters() -> None:
    @tool(effect="read")
    def look(at: str) -> str:
        """Look at a city."""
        return f"{at}: sunny"

    step = {"stepRequirement": "Look first", "toolToUse": "look", "toolParameters": {"at": "{{x}}"}}
    made = manus(tools=[look])
    run = await made.create(title="T", userRequest="Is it sunny?", steps=[step, LOOK])
    assert run.request == "Is it sunny?"
    run = await made.execute(run.id)
    assert run.steps["s1"].result == "{{x}}: sunny"
    assert run.steps["s2"].status.value == "done"


async def test_the_planning_function_is_offered_to_the_model_and_its_call_is_the_plan(
    scripted: Script,
) -> None:
    call = {
        "command": "create",
        "planningThinking": "",
        "title": "Prices",
        "steps": [{"stepRequirement": LOOK, "terminateColumns": "name, price"}],
        "directResponse": "",
    }
    assert set(dialect("jmanus").schema()["required"]) == call.keys()  # type: ignore[arg-type]
    looks, watched = browser(), Watched(scripted(Answer(call, tool="planning")))
    jmanus = JManus(model=watched, agents=[looks], settings=NO_TRIAGE)
    run = await jmanus.request("look for prices")
    [prompt] = watched.prompts
    [offered] = prompt.tools
    assert (offered.name, prompt.schema) == ("planning", None)
    assert '"stepRequirement"' in prompt.messages[0].text
    plan = jmanus.planning_tool.get_current_plan()
    assert plan is not None
    assert plan.steps[0].step_requirement == LOOK
    await jmanus.execute(run.id)
    assert looks.calls == [("look", {"terminate_columns": "name, price"})]
    with pytest.raises(Misconfigured, match="not both"):
        JManus(jmanus.smith, model=scripted())


# Direct responses and columns


async def test_a_direct_response_keeps_its_words_and_small_talk_is_answered(
    scripted: Script,
) -> None:
    jmanus = JManus(model=scripted(), settings=NO_TRIAGE)
    run = await jmanus.create(title="hi", steps=[], directResponse="Hello {{you}}!")
    assert (run.status, run.steps["s1"].result) == (RunStatus.DONE, "Hello {{you}}!")
    status: Any = await jmanus.status(run.id)
    assert status["directResponse"] == "Hello {{you}}!"
    triage = {"decision": "answer", "reason": "", "query": "", "answer": "Hello!"}
    jmanus = manus(model=scripted(triage), settings=PlannerSettings())
    run = await jmanus.request("hi")
    assert (run.status, run.report) == (RunStatus.ANSWERED, "Hello!")
    status = await jmanus.status(run.id)
    assert (status["steps"], status["summary"]) == ([], "Hello!")


async def test_a_direct_response_without_words_answers_the_request_itself(scripted: Script) -> None:
    jmanus = JManus(model=scripted(Answer("I am well.", expects="how are you")), settings=NO_TRIAGE)
    jmanus.planning_tool.apply({"title": "how are you", "directResponse": True})
    assert (await jmanus.submit()).steps["s1"].result == "I am well."
    for written in ({"directResponse": True, "title": "how are you"}, {"directResponse": "Hi."}):
        plan = plan_from({"steps": [], **written})
        again = dialect("jmanus").write(plan, None)
        assert again.lost == ()
        assert plan_from(again.value).steps == plan.steps  # type: ignore[arg-type]


def test_a_plan_without_steps_and_without_words_is_refused_with_what_to_do() -> None:
    for given in ({}, {"directResponse": True}, {"directResponse": "false", "title": "t"}):
        with pytest.raises(PlanInvalid, match="no plan of JManus"):
            plan_from({"steps": [], **given})
    with pytest.raises(PlanInvalid, match="does not say what to do"):
        plan_from({"title": "t", "steps": ["[BROWSER_AGENT]"]})


def test_columns_of_the_plan_hold_for_every_step_without_its_own() -> None:
    steps = ["[A] a", {"stepRequirement": "[A] b", "terminateColumns": "own"}]
    plan = plan_from({"title": "t", "steps": steps, "terminateColumns": "name, price"})
    written: Any = dialect("jmanus").write(plan, None).value
    assert [each["terminateColumns"] for each in written["steps"]] == ["name, price", "own"]


# Runs


async def test_stop_status_details_and_deletion_of_a_run() -> None:
    store = MemoryStore()
    jmanus = manus(browser("seen", ToolFailed("the page is gone")), store=store)
    kept = await jmanus.create(title="t", steps=["[BROWSER_AGENT] a"])
    run = await jmanus.create(title="t", steps=["[BROWSER_AGENT] a", "[BROWSER_AGENT] b"])
    before: Any = await jmanus.status(run.id)
    assert [each["status"] for each in before["steps"]] == ["not_started"] * 2
    with pytest.raises(Refused, match="is not over"):
        await jmanus.delete(run.id)
    await jmanus.execute(run.id)
    after: Any = await jmanus.status(run.id)
    assert [(each["status"], each["result"]) for each in after["steps"]] == [
        ("completed", "seen"),
        ("blocked", "the page is gone"),
    ]
    record: Any = await jmanus.details(run.id)
    kinds = [event["body"]["type"] for event in record]
    assert (kinds[0], kinds[-1]) == ("run_created", "run_finished")
    position = await store.wait_news(0)
    assert await jmanus.delete(run.id) is True
    assert [each.id for each in await jmanus.smith.runs.all()] == [kept.id]
    assert await store.wait_news(0) == position
    assert {each.run for each in await store.news()} == {kept.id}
    assert (await jmanus.stop(kept.id, by="ada")).status is RunStatus.CANCELLED
    assert {each.run for each in await store.news(position)} == {kept.id}


# Templates


async def test_templates_have_versions_and_places_and_run_with_parameters() -> None:
    looks, slow = browser(), Slow(free=True)
    templates = manus(looks, slow).templates
    first = await templates.save(TEMPLATE, by="ada")
    assert (first.name, first.version) == ("prices", 1)
    assert (await templates.save(TEMPLATE)).version == 1
    save = {"stepRequirement": "save", "agentName": "BROWSER_AGENT"}
    other = TEMPLATE | {"steps": [*TEMPLATE["steps"], save]}
    assert (await templates.save(other)).version == 2
    versions: Any = await templates.versions("prices")
    assert [each["version"] for each in versions] == [1, 2]
    assert await templates.parameters("prices@1") == ["product"]
    given: dict[str, Json] = {"product": "{{s1}} bolts"}
    run = await templates.run("prices@1", given)
    assert run.status is RunStatus.DONE
    assert run.plan == await templates.plan("prices@1", given)
    assert looks.calls == [("look for {{s1}} bolts", {})]
    assert slow.calls[0][1]["terminate_columns"] == "name, price"


async def test_a_template_for_an_unknown_agent_or_without_a_parameter_is_refused() -> None:
    templates = manus().templates
    with pytest.raises(PlanInvalid, match="NOBODY"):
        await templates.save(TEMPLATE | {"steps": ["[NOBODY] go"]})
    with pytest.raises(Refused, match="no name"):
        await templates.save({"title": "", "steps": [LOOK]})
    await templates.save(TEMPLATE)
    with pytest.raises(PlanInvalid, match="product"):
        await templates.run("prices", {})


async def test_templates_are_exported_and_imported() -> None:
    templates, other = manus().templates, manus().templates
    await templates.save(TEMPLATE)
    exported: Any = await templates.export()
    assert exported[0]["steps"] == TEMPLATE["steps"]
    assert await other.take_in(exported) == 1
    assert await other.get("prices") == exported[0]
    assert await other.delete("prices") == 1
    assert await other.export() == []


async def outer(store: Any, *agents: Any) -> tuple[JManus, PublishedTemplates]:
    """Makes a JManus whose tools are the published templates of another on the same store."""
    inner = manus(*agents, store=store)
    await inner.templates.save(TEMPLATE)
    published = await inner.templates.publish("prices")
    return JManus(Plansmith(tools=[published], store=store)), published


async def begin(jmanus: JManus) -> str:
    plan = Plan.model_validate({"steps": [{"id": "sub", "tool": "prices", "inputs": INPUTS}]})
    return (await jmanus.smith.submit(plan)).id


async def test_a_template_can_be_published_as_a_tool_for_other_plans() -> None:
    jmanus, published = await outer(MemoryStore())
    [spec] = await published.tools()
    assert (spec.name, spec.effect, spec.input_schema["required"]) == (
        *("prices", Effect.READ),
        ["product"],
    )
    run = await jmanus.execute(await begin(jmanus))
    results = {"s1": "BROWSER_AGENT: look for bolts", "s2": "slow: compare"}
    assert run.steps["sub"].result == results
    assert [each.status for each in await jmanus.smith.runs.all()] == [RunStatus.DONE] * 2


async def test_a_published_template_that_fails_fails_its_step() -> None:
    failing = browser(ToolFailed("the page is gone"))
    _, published = await outer(MemoryStore(), failing, Slow(free=True))
    with pytest.raises(ToolFailed, match="is failed"):
        await published.call("prices", INPUTS, Call("k"))
    with pytest.raises(ToolFailed, match="no published template"):
        await published.call("other", {}, Call("k"))


async def test_stopping_reaches_templates_that_run_templates() -> None:
    slow, store = Slow(), MemoryStore()
    _, published = await outer(store, browser(), slow)
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
    found = await jmanus.smith.runs.all()
    assert [each.status for each in found] == [RunStatus.CANCELLED] * 3
    assert slow.cancelled == 1


async def crashed(url: str, looks: Member, slow: Slow) -> str:
    """Begins a run whose template is cut off in the middle, and closes everything."""
    jmanus, published = await outer(url, looks, slow)
    run_id = await begin(jmanus)
    running = asyncio.ensure_future(jmanus.execute(run_id))
    await slow.begun.wait()
    for smith in (jmanus.smith, published._smith):
        await smith.close()
    await asyncio.gather(running, return_exceptions=True)
    return run_id


async def test_a_template_goes_on_after_a_restart_and_does_nothing_twice(tmp_path: Path) -> None:
    url, looks, slow = f"sqlite:///{tmp_path / 'runs.db'}", browser(), Slow()
    run_id = await crashed(url, looks, slow)
    slow.free.set()
    jmanus, published = await outer(url, looks, slow)
    assert (await jmanus.execute(run_id)).status is RunStatus.DONE
    assert looks.tasks == [LOOKED]
    assert slow.tasks == ["compare"] * 2  # it only reads, and was cut off
    assert len(await jmanus.smith.runs.all()) == 2
    for smith in (jmanus.smith, published._smith):
        await smith.close()


async def test_a_stop_after_a_crash_still_stops_the_template(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    run_id = await crashed(url, browser(), Slow())
    survivor = manus(store=url, limits=Limits(grace_s=0.01))  # nobody is left to wait for
    assert {each.status for each in await survivor.smith.runs.all()} == {RunStatus.RUNNING}
    await survivor.stop(run_id, by="ada")
    assert {each.status for each in await survivor.smith.runs.all()} == {RunStatus.CANCELLED}
    await survivor.smith.close()


async def test_a_template_that_changes_things_still_waits_for_the_persons_approval() -> None:
    writer = browser(effect=Effect.WRITE)
    jmanus, published = await outer(MemoryStore(), writer, Slow(free=True))
    run_id = await begin(jmanus)
    run = await jmanus.smith.get(run_id)
    assert run.plan is not None
    await jmanus.smith.decide(run_id, approve=run.plan.hash, by="ada")
    for _ in range(2):  # going on without a decision there changes nothing
        run = await jmanus.execute(run_id)
        assert (run.status, writer.tasks) == (RunStatus.ASKING, [])
        [question] = run.questions
        assert "waits for a person" in run.questions[question].text
        await jmanus.smith.answer(run_id, question, "go_on", by="ada")
    [inner] = [each for each in await published._smith.runs.all() if each.id != run_id]
    assert inner.plan is not None
    await published._smith.decide(inner.id, approve=inner.plan.hash, by="ada")
    run = await jmanus.execute(run_id)
    assert (run.status, writer.tasks) == (RunStatus.DONE, [LOOKED])


async def test_a_call_under_the_same_key_is_the_same_run_of_the_template() -> None:
    looks = browser()
    _, published = await outer(MemoryStore(), looks, Slow(free=True))
    calls = [published.call("prices", INPUTS, Call("k")) for _ in range(3)]
    first, *others = await asyncio.gather(*calls)
    assert others == [first, first]
    assert looks.tasks == [LOOKED]
    await published.call("prices", INPUTS, Call("other"))
    assert len(looks.calls) == 2
