"""Attacks on the faces of the five systems: what no program, model or agent may get past."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from tests.growth import is_linear
from tests.members import Member
from tests.openmanus.test_flow import Worker, made
from tests.sage.test_planner import Generator
from tests.sage.test_runtime import EN, Tool, registry
from tests.test_conversations import GO, research
from tests.valuecell.test_planner import nobody

from plansmith import Plansmith
from plansmith.errors import Misconfigured, Refused, StaleDecision, ToolFailed
from plansmith.plan.run import Run
from plansmith.ports import ArgumentsDelta, Delta
from plansmith.testing import MemoryStore, ScriptedModel
from plansmith_compat import valuecell as vc
from plansmith_compat.deerflow import (
    DeerFlow,
    coordinator_node,
    human_feedback_node,
    nodes,
    planner_node,
    sanitize_tool_response,
)
from plansmith_compat.openmanus import AgentState, PlanningFlow
from plansmith_compat.sage import AgentRuntime, LLMPlanner
from plansmith_compat.sage.operators import RegistryTools
from plansmith_compat.spring import PlanExecutorNode, PlanningTool, deepresearch
from plansmith_planner.model_calls import read_calls

CALL = {"type": "tool", "name": "look", "arguments": {"at": "x"}}
REPLY = {"type": "reply", "text": "done"}
WIPE = {"id": "e", "kind": "tool", "tool": "wipe", "inputs": {"at": "x"}}


def worker() -> Worker:
    return Worker("manus", *["done"] * 9)


def runtime(*answers: Any, tools: Any, **options: Any) -> AgentRuntime:
    return AgentRuntime(EN, LLMPlanner(Generator(*answers)), registry(*tools), **options)


# Review functions that do not say True, and new plans


async def _no(run: Run) -> bool:
    del run
    await asyncio.sleep(0)
    return False


async def test_an_async_review_is_awaited_and_one_that_says_a_text_approves_nothing() -> None:
    wipe, agent, step = Tool("wipe", effect="write"), worker(), {**CALL, "name": "wipe"}
    assert (await runtime([step], tools=[wipe], review=_no).answer("wipe x")).status == "cancelled"
    with pytest.raises(Misconfigured, match="returned str"):
        await runtime([step], tools=[wipe], review=lambda _: "no").answer("wipe x")
    for review, message in ((_no, "Plan not approved: nothing was run."), (lambda _: "no", "str")):
        flow = PlanningFlow(agent, model=ScriptedModel(made("look", "book")), review=review)
        assert message in await flow.execute("book a train")
    assert (wipe.calls, agent.prompts) == ([], [])


@pytest.mark.parametrize(
    "steps",
    [
        [{"id": "m", "kind": "map", "over": ["a", "b"], "each": WIPE}],
        [{**CALL, "name": "wipe"}, REPLY],
    ],
    ids=["inside a map", "as a step"],
)
def test_a_new_plan_of_a_sage_runtime_that_writes_waits_for_a_decision(steps: Any) -> None:
    look, wipe = Tool("look", *[ToolFailed("gone")] * 4), Tool("wipe", effect="write")
    new = {"goal": "g", "steps": steps} if "kind" in steps[0] else steps
    result = runtime([CALL, REPLY], new, tools=[look, wipe], replans=1).step("look at x")
    assert (result.status, wipe.calls) == ("reviewing", [])


# Decisions in a state


@pytest.mark.parametrize("name", ["feedback", "feed_back"])
async def test_a_decision_in_the_state_of_deepresearch_covers_one_plan_only(name: str) -> None:
    node = deepresearch.HumanFeedbackNode()
    state: dict[str, Any] = {"feedback": None, "query": "q", name: True}
    state |= await node.apply(state)
    assert state["human_next_node"] == "research_team"
    state |= await node.apply(state)
    assert state["human_next_node"] == "WAIT_FOR_FEEDBACK"
    state["feedback"] = True
    assert (await node.apply(state))["human_next_node"] == "research_team"


# Models that write nonsense


BROKEN = [
    '{"has_enough_context": true, "steps": [{"title": 5}]}',
    '{"has_enough_context": true, "thought": null, "steps": [{"title": "a", "step_type": "x"}]}',
    '{"has_enough_context": false, "locale": 5, "steps": [{"title": "a"}]}',
    '{"has_enough_context": true, "title": ["x"], "steps": ["a", 5, null]}',
]


@pytest.mark.parametrize("text", [*BROKEN, "[" * 5000, '{"a":' * 3000])
def test_the_nodes_of_deerflow_survive_a_plan_of_wrong_types(text: str) -> None:
    config = {"configurable": {"model": ScriptedModel(text)}}
    found = planner_node({"messages": [], "locale": "en-US"}, config)
    state = {**found.update, "interrupt_feedback": "[ACCEPTED]"}
    if found.goto == "human_feedback":
        found = human_feedback_node(state, {})
    plan = found.update.get("current_plan")
    assert (found.goto, plan) == ("__end__", None) or plan.steps


@pytest.mark.parametrize("args", [None, "junk", 5])
@pytest.mark.parametrize("clarifies", [False, True])
def test_the_coordinator_of_deerflow_hands_over_a_call_with_unreadable_arguments(
    monkeypatch: pytest.MonkeyPatch, args: Any, clarifies: bool
) -> None:
    answer = SimpleNamespace(content="", tool_calls=[{"name": "handoff_to_planner", "args": args}])
    asked = SimpleNamespace(invoke=lambda _: answer)
    llm = SimpleNamespace(bind_tools=lambda _: asked)
    monkeypatch.setattr(nodes, "get_llm_by_type", lambda *_: llm)
    state = {"messages": [], "enable_clarification": clarifies, "max_clarification_rounds": None}
    assert coordinator_node(state).goto == "planner"


def test_a_deeply_nested_answer_of_a_tool_does_not_break_deerflow() -> None:
    assert sanitize_tool_response("[" * 100_000).startswith("[[[")


def test_the_time_to_tell_calls_in_one_answer_of_a_model_apart_grows_with_their_number() -> None:
    def told_apart(count: int) -> None:
        async def answer() -> AsyncIterator[Delta]:
            yield ArgumentsDelta("look", "{} " * count)

        calls = asyncio.run(read_calls(answer())).calls
        assert len(calls) == count

    assert is_linear(told_apart, 3_000)


@pytest.mark.parametrize("shape", ["", "spring"])
@pytest.mark.parametrize("text", ["[" * 4000, '{"steps":[' * 900 + "1" + "]}" * 900])
async def test_a_plan_nested_too_deep_is_a_failed_plan_in_any_dialect(
    shape: str, text: str
) -> None:
    run = await Plansmith(model=ScriptedModel(*[text] * 8)).plan("look", dialect=shape)
    assert (run.status, run.plan) == ("failed", None)
    assert "levels deep" in run.reason


async def test_a_plan_nested_too_deep_is_an_invalid_plan_for_the_nodes_of_spring() -> None:
    state = {"PLANNER_NODE_OUTPUT": "[" * 4000, "planner_content": "[" * 4000}
    assert (await PlanExecutorNode().apply(state))["PLAN_VALIDATION_STATUS"] is False
    assert "levels deep" in (await deepresearch.InformationNode().apply(state))["planner_error"]


def test_the_planning_tool_of_jmanus_keeps_no_plan_of_wrong_types() -> None:
    tool = PlanningTool()
    made = tool.apply({"command": "create", "title": ["t"], "steps": [["a"]]})
    assert made.output == "Required parameters missing"
    with pytest.raises(Refused, match="not JSON"):
        tool.apply("[" * 100_000)
    assert tool.get_current_plan() is None


# Plans that are changed behind an approval


class Finisher(Worker):
    """An agent that ends the flow after its first step, as OpenManus' Terminate does."""

    async def run(self, request: str) -> str:
        self.state = AgentState.FINISHED if not self.prompts else AgentState.IDLE
        return await super().run(request)


def flow_that_ends(agent: Worker, *verdicts: bool, **options: Any) -> PlanningFlow:
    votes = [*verdicts]
    model = ScriptedModel(made("look", "book"), "in short")
    return PlanningFlow(agent, model=model, plan_id="p", review=lambda _: votes.pop(0), **options)


@pytest.mark.parametrize("by_command", [True, False], ids=["by command", "in plans"])
async def test_a_plan_of_openmanus_that_was_changed_after_its_approval_is_reviewed_again(
    by_command: bool,
) -> None:
    agent = Finisher("manus", *["done"] * 9)
    flow = flow_that_ends(agent, True, False)
    await flow.execute("book a train")
    if by_command:
        await flow.planning_tool.execute(
            command="update", plan_id="p", steps=["look", "wipe the disk"]
        )
    else:
        flow.planning_tool.plans["p"]["steps"][1] = "wipe the disk"
    assert "not approved" in await flow.execute("")
    assert len(agent.prompts) == 1


async def test_a_step_of_openmanus_that_is_done_is_not_done_again_after_an_update() -> None:
    agent = Finisher("manus", *["done"] * 9)
    flow = flow_that_ends(agent, True, True)
    await flow.execute("book a train")
    await flow.planning_tool.execute(command="update", plan_id="p", steps=["look", "pay", "book"])
    assert "Plan completed" in await flow.execute("")
    assert [each.count("step 0,") for each in agent.prompts] == [1, 0, 0]


# Texts that look like references


TEXTS = ['say {{"hi"}}', '{{""}}', "{{s1}} $from s1", '{"$from": "s1"}', "{{ nothing }}"]


async def test_braces_in_a_step_of_openmanus_reach_the_agent_as_written() -> None:
    agent = worker()
    flow = PlanningFlow(agent, model=ScriptedModel("in short"), plan_id="p")
    await flow.planning_tool.execute(command="create", plan_id="p", title="T", steps=TEXTS)
    assert "Plan completed" in await flow.execute("")
    for place, text in enumerate(TEXTS):
        assert f"marked [→] above: {text}\n" in agent.prompts[place]


@pytest.mark.parametrize("value", [*TEXTS[:2], TEXTS[4], {"$literal": 5}, {"$from": "no"}])
def test_braces_in_an_argument_of_sage_reach_the_tool_as_written(value: Any) -> None:
    look = Tool("look")
    step = {**CALL, "arguments": {"at": value}}
    runtime([step, REPLY], "done", tools=[look]).step("look")
    assert look.calls == [{"at": value}]


# Planning agents of a program


class PlanningStub:
    """A planning agent that answers the same each time."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.calls = answer, 0

    def run(self, *_: Any, **__: Any) -> Any:
        self.calls += 1
        return self.answer

    continue_run = run


async def valuecell_plan(agent: Any) -> vc.ExecutionPlan:
    planner = vc.ExecutionPlanner(vc.RemoteConnections(Plansmith(agents=[])), agent=agent)
    return await planner.create_plan(vc.UserInput(query="look"), nobody, "t1")


async def test_a_planning_agent_of_valuecell_that_pauses_for_ever_is_given_up() -> None:
    paused = SimpleNamespace(is_paused=True, tools=[], tools_requiring_user_input=[])
    agent = PlanningStub(paused)
    plan = await asyncio.wait_for(valuecell_plan(agent), timeout=30)
    assert "it paused more than" in (plan.guidance_message or "")
    assert (plan.tasks, agent.calls) == ([], 13)


async def test_a_planning_agent_of_valuecell_without_tasks_and_reason_gives_guidance() -> None:
    empty = vc.PlannerResponse(adequate=True, reason="")
    plan = await valuecell_plan(PlanningStub(SimpleNamespace(is_paused=False, content=empty)))
    assert (plan.tasks, plan.guidance_message) == ([], "Planner gave no tasks.")


# What programs raise and return in SAGE


@pytest.mark.parametrize("error", [StopIteration(), GeneratorExit(), KeyboardInterrupt()])
def test_a_tool_of_sage_whose_error_no_coroutine_can_carry_fails_its_step(error: Any) -> None:
    result = runtime([CALL, REPLY], tools=[Tool("look", error)]).step("look")
    assert result.status == "failed"
    assert f"the function raised {error!r}" in result


def test_a_generator_of_sage_that_has_no_more_answers_fails_the_planning() -> None:
    planner = LLMPlanner(Mock(spec=["execute"], **{"execute.side_effect": []}))
    assert "StopIteration" in AgentRuntime(EN, planner, registry()).step("look").error


def _circle() -> dict[str, Any]:
    step: dict[str, Any] = {**CALL}
    step["arguments"] = step
    return step


@pytest.mark.parametrize(
    "entry",
    [_circle(), {"type": "reply", "text": "\ud800"}, {"type": "reply", "text": b"\xff"}],
    ids=["circle", "surrogate", "bytes"],
)
def test_an_entry_of_a_planner_of_sage_that_is_no_data_drops_only_itself(entry: Any) -> None:
    look = Tool("look")
    planner: Any = SimpleNamespace(plan=lambda **_: [entry, CALL])
    result = AgentRuntime(EN, planner, registry(look)).step("look")
    assert (result.status, look.calls) == ("done", [{"at": "x"}])


async def test_the_acceptance_of_a_deerflow_plan_does_not_count_for_one_nobody_here_saw() -> None:
    member, store = Member("researcher"), MemoryStore()
    given: dict[str, Any] = {"agents": [member], "store": store}
    here = DeerFlow(model=ScriptedModel(GO, research("old")), **given)
    there = DeerFlow(model=ScriptedModel(research("new"), "the report"), **given)
    run_id = (await here.start("the market")).run_id
    await there.feedback(run_id, "[EDIT_PLAN] something else")
    state = await here.feedback(run_id, "[ACCEPTED]")
    assert (state.goto, member.tasks) == ("human_feedback", [])
    assert state.plan is not None
    assert state.plan.steps[0].description == "new"
    await there.feedback(run_id, "[ACCEPTED]")
    assert member.tasks == ["new"]


async def test_a_decision_on_a_plan_of_a_sage_runtime_does_not_count_for_another_one() -> None:
    look, wipe = Tool("look", *[ToolFailed("gone")] * 4), Tool("wipe", effect="write")
    store = MemoryStore()
    new = [{**CALL, "name": "wipe", "arguments": {"at": "a"}}, REPLY]
    asks = runtime([CALL, REPLY], new, tools=[look, wipe], replans=1, store=store)
    run = await asks.answer("look at x")
    edited = Plansmith(tools=[RegistryTools(asks.tools)], store=store, shared_store=True)
    plan = (await edited.get(run.run_id)).plan
    assert plan is not None
    other = plan.steps[0].replace(inputs={"at": "everything"})
    await edited.edit(run.run_id, plan.replace(steps=(other, *plan.steps[1:])))
    with pytest.raises(StaleDecision, match="another plan"):
        await asks.adecide(approve=True)
    assert wipe.calls == []
