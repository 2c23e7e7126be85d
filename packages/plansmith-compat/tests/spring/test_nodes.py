"""Spring AI Alibaba's nodes: the state's keys, the rewritten query, repairs and deepresearch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.errors import Misconfigured
from plansmith.formats.dialect import dialect
from plansmith.testing import Answer, ScriptedModel
from plansmith_compat.spring import (
    ExecutionStep,
    HumanFeedbackDispatcher,
    HumanFeedbackNode,
    NL2SQLPlan,
    PlanExecutorDispatcher,
    PlanExecutorNode,
    PlannerNode,
    ToolParameters,
    deepresearch,
    keys,
)
from plansmith_compat.spring.dialects.nl2sql import PYTHON, REPORT, SQL

Script = Callable[..., ScriptedModel]
ASKED, REWRITTEN = "and by city?", "How do the orders of 2025 differ by city?"
GOOD = {
    "thought_process": "sum, then say it",
    "execution_plan": [
        {"step": 1, "tool_to_use": SQL, "tool_parameters": {"instruction": "sum orders"}},
        {
            "step": 2,
            "tool_to_use": REPORT,
            "tool_parameters": {"summary_and_recommendations": "say it"},
        },
    ],
}


# NL2SQL


def test_the_keys_of_the_state_have_the_values_of_the_original() -> None:
    for name in (
        *("BUSINESS_KNOWLEDGE", "SEMANTIC_MODEL", "EVIDENCE", "TABLE_RELATION_OUTPUT"),
        *("QUERY_REWRITE_NODE_OUTPUT", "QUERY_ENHANCE_NODE_OUTPUT", "SQL_EXECUTE_NODE_OUTPUT"),
        *("PLANNER_NODE", "PLAN_EXECUTOR_NODE", "HUMAN_FEEDBACK_NODE", "REPORT_GENERATOR_NODE"),
        *("PLANNER_NODE_OUTPUT", "PLAN_CURRENT_STEP", "PLAN_NEXT_NODE", "PLAN_VALIDATION_STATUS"),
        *("PLAN_VALIDATION_ERROR", "PLAN_REPAIR_COUNT", "HUMAN_REVIEW_ENABLED"),
        *("HUMAN_FEEDBACK_DATA", "IS_ONLY_NL2SQL"),
    ):
        assert getattr(keys, name) == name
    assert (keys.INPUT_KEY, keys.RESULT, keys.THREAD_ID) == ("input", "result", "threadId")
    assert keys.AGENT_ID == "agentId"


@pytest.mark.parametrize(
    ("knowledge", "model"),
    [
        ("BUSINESS_KNOWLEDGE", "SEMANTIC_MODEL"),
        ("EVIDENCE", "GENEGRATED_SEMANTIC_MODEL_PROMPT"),
    ],
)
async def test_business_knowledge_and_semantic_model_are_read_under_both_keys(
    scripted: Script, knowledge: str, model: str
) -> None:
    state = {"input": ASKED, knowledge: "paid orders count", model: "total is in cents"}
    planner = scripted(GOOD)
    await PlannerNode(planner).apply(state)
    told = planner.prompts[0][1].text
    for text in ("paid orders count", "total is in cents"):
        assert told.index("<data-") < told.index(text)


@pytest.mark.parametrize(
    "rewritten",
    [
        {keys.QUERY_REWRITE_NODE_OUTPUT: REWRITTEN},
        {keys.QUERY_ENHANCE_NODE_OUTPUT: {"canonical_query": REWRITTEN}},
        {keys.QUERY_ENHANCE_NODE_OUTPUT: {"canonicalQuery": REWRITTEN}},
    ],
)
async def test_the_rewritten_query_is_planned_and_the_asked_one_is_shown(
    scripted: Script, rewritten: dict[str, Any]
) -> None:
    planner = scripted(GOOD)
    await PlannerNode(planner).apply({keys.INPUT_KEY: ASKED} | rewritten)
    told = planner.prompts[0][1].text
    assert told.rindex(REWRITTEN) > told.index(ASKED)
    only = await PlannerNode(scripted()).apply({**rewritten, keys.IS_ONLY_NL2SQL: True})
    [step] = json.loads(only[keys.PLANNER_NODE_OUTPUT])["execution_plan"]
    assert step["tool_parameters"] == {"instruction": REWRITTEN}


async def test_a_rewriter_that_found_no_question_leaves_the_query_as_it_was_asked(
    scripted: Script,
) -> None:
    state = {keys.INPUT_KEY: ASKED, keys.QUERY_REWRITE_NODE_OUTPUT: keys.INTENT_UNCLEAR}
    planner = scripted(GOOD)
    await PlannerNode(planner).apply(state)
    assert keys.INTENT_UNCLEAR not in planner.prompts[0][1].text
    with pytest.raises(KeyError, match="input"):
        await PlannerNode(scripted()).apply({keys.IS_ONLY_NL2SQL: True})


async def graph(planner: PlannerNode, now: dict[str, Any]) -> int:
    """Goes round planner and executor as the graph does; returns how often it planned."""
    for rounds in range(1, 20):
        now |= await planner.apply(now)
        now |= await PlanExecutorNode().apply(now)
        if await PlanExecutorDispatcher().apply(now) != keys.PLANNER_NODE:
            return rounds
    raise AssertionError("the graph does not end")


async def test_a_model_that_never_plans_is_called_three_times_by_the_graph(
    scripted: Script,
) -> None:
    now: dict[str, Any] = {keys.INPUT_KEY: ASKED}
    answers = ["I sing", Answer('{"execution_plan": []}', expects="I sing"), "I dance"]
    model = scripted(*answers)
    assert await graph(PlannerNode(model), now) == 3
    assert len(model.prompts) == 3
    assert now[keys.PLAN_REPAIR_COUNT] == 3
    assert now[keys.PLAN_NEXT_NODE] == keys.END
    assert "no execution steps" in model.prompts[2][1].text


async def test_a_rejection_keeps_the_plan_and_the_words_over_a_failed_repair(
    scripted: Script,
) -> None:
    words = "leave out the smallest"
    now: dict[str, Any] = {keys.INPUT_KEY: ASKED, keys.PLANNER_NODE_OUTPUT: json.dumps(GOOD)}
    now[keys.HUMAN_FEEDBACK_DATA] = {"feedback": False, "feedback_content": words}
    now |= await HumanFeedbackNode().apply(now)
    assert (now[keys.HUMAN_NEXT_NODE], now[keys.PLANNER_NODE_OUTPUT]) == (keys.PLANNER_NODE, "")
    assert (now[keys.PLAN_VALIDATION_ERROR], now[keys.HUMAN_REVIEW_ENABLED]) == (words, True)
    assert (now[keys.PLAN_REPAIR_COUNT], now[keys.HUMAN_REJECTION_COUNT]) == (1, 1)
    model = scripted("I sing", Answer(GOOD, expects=words))
    assert await graph(PlannerNode(model), now) == 2
    assert "sum orders" in model.prompts[0][1].text
    assert now[keys.PLAN_NEXT_NODE] == keys.HUMAN_FEEDBACK_NODE


async def test_rejections_do_not_use_up_the_repairs_of_an_invalid_plan(scripted: Script) -> None:
    now: dict[str, Any] = {keys.INPUT_KEY: ASKED, keys.PLANNER_NODE_OUTPUT: json.dumps(GOOD)}
    for _ in range(3):
        now[keys.HUMAN_FEEDBACK_DATA] = {"feedback": False}
        now |= await HumanFeedbackNode().apply(now)
    assert now[keys.PLAN_REPAIR_COUNT] == 3
    assert await graph(PlannerNode(scripted("a", "b", "c")), now) == 3


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"tool_to_use": SQL, "tool_parameters": None}, "Tool parameters are missing in step 1"),
        ({"tool_to_use": SQL, "tool_parameters": {}}, "SQL generation node"),
        ({"toolToUse": PYTHON, "toolParameters": {}}, "Python generation node"),
        ({"tool_to_use": REPORT, "tool_parameters": {}}, "report node"),
    ],
)
async def test_the_executor_says_which_node_of_the_plan_lacks_what(
    step: dict[str, Any], said: str
) -> None:
    plan = json.dumps({"execution_plan": [{"step": 1, **step}]})
    updates = await PlanExecutorNode().apply({keys.PLANNER_NODE_OUTPUT: plan})
    first = updates[keys.PLAN_VALIDATION_ERROR].splitlines()[0]
    assert first.startswith("Validation failed")
    assert said in first


@pytest.mark.parametrize(("only", "node"), [(False, REPORT), (True, keys.END)])
async def test_behind_the_last_step_comes_the_report_unless_only_sql_is_wanted(
    only: bool, node: str
) -> None:
    state = {keys.PLANNER_NODE_OUTPUT: json.dumps(GOOD), keys.PLAN_CURRENT_STEP: 3}
    updates = await PlanExecutorNode().apply(state | {keys.IS_ONLY_NL2SQL: only})
    assert (updates[keys.PLAN_NEXT_NODE], updates[keys.PLAN_CURRENT_STEP]) == (node, 1)


VALID = {keys.PLAN_VALIDATION_STATUS: True}


@pytest.mark.parametrize(
    ("edge", "state", "node"),
    [
        (PlanExecutorDispatcher, {**VALID, keys.PLAN_NEXT_NODE: SQL}, SQL),
        (PlanExecutorDispatcher, VALID, keys.END),
        (PlanExecutorDispatcher, {keys.PLAN_REPAIR_COUNT: 2}, keys.PLANNER_NODE),
        (PlanExecutorDispatcher, {keys.PLAN_REPAIR_COUNT: 3}, keys.END),
        (
            PlanExecutorDispatcher,
            {keys.PLAN_REPAIR_COUNT: 3, keys.HUMAN_REJECTION_COUNT: 1},
            keys.PLANNER_NODE,
        ),
        (
            HumanFeedbackDispatcher,
            {keys.HUMAN_NEXT_NODE: keys.WAIT_FOR_FEEDBACK},
            keys.HUMAN_FEEDBACK_NODE,
        ),
        (HumanFeedbackDispatcher, {}, keys.END),
        (HumanFeedbackDispatcher, {keys.HUMAN_NEXT_NODE: SQL}, SQL),
    ],
)
async def test_the_edges_follow_status_repairs_and_feedback(
    edge: Any, state: dict[str, Any], node: str
) -> None:
    assert await edge().apply(state) == node


async def test_a_plan_as_an_object_has_java_names_and_writes_both_spellings() -> None:
    plan = NL2SQLPlan.from_json(
        {"thoughtProcess": "t", "executionPlan": [{"step": 1, "toolToUse": SQL}]}
    )
    [step] = plan.getExecutionPlan()
    assert (step.toolToUse, step.getToolToUse(), step.tool_to_use) == (SQL, SQL, SQL)
    step.setToolParameters(ToolParameters(instruction="sum"))
    assert step.getToolParameters().getInstruction() == "sum"
    assert plan.to_json(camel=True) == {
        "thoughtProcess": "t",
        "executionPlan": [
            {"step": 1, "toolToUse": SQL, "toolParameters": {"instruction": "sum"}},
        ],
    }
    assert dialect("spring").read(plan.to_json(camel=True)).plan is not None
    updates = await PlanExecutorNode().apply({keys.PLANNER_NODE_OUTPUT: plan})
    assert updates[keys.PLAN_NEXT_NODE] == SQL
    with pytest.raises(AttributeError, match="getColour"):
        step.getColour()
    with pytest.raises(Misconfigured, match="colour"):
        ExecutionStep.from_json({"colour": "red"})


def test_tools_of_the_program_keep_their_name_and_parameters_in_an_nl2sql_plan() -> None:
    given: Any = {
        "thought_process": "",
        "execution_plan": [
            {"step": 1, "tool_to_use": "mail", "tool_parameters": {"to": "{{s1}}", "cc": 1}},
            *GOOD["execution_plan"][:1],
        ],
    }
    given["execution_plan"][1] = given["execution_plan"][1] | {"step": 2}
    reading = dialect("spring").read(given)
    assert reading.plan is not None
    written = dialect("spring").write(reading.plan, None)
    assert written.value == given
    assert written.lost == ()


# deepresearch


def research(**fields: Any) -> dict[str, Any]:
    step = {
        "need_web_search": True,
        "title": "climate",
        "description": "find the climate of the city",
        "step_type": "research",
    }
    head = {"locale": "en", "has_enough_context": False, "thought": "t", "title": "Travel"}
    return head | {"steps": [step]} | fields


async def test_the_research_planner_reads_query_background_feedback_and_documents(
    scripted: Script,
) -> None:
    state = {
        "query": "where to travel",
        "optimize_queries": ["best cities to travel to"],
        "background_investigation_results": ["cities are warm", ""],
        "rag_content": "the travel handbook",
        "feedback_content": "look at prices too",
        "planner_content": json.dumps(research()),
    }
    model = scripted(research())
    updates = await deepresearch.PlannerNode(model).apply(state)
    system, user = model.prompts[0]
    assert "side by side" in system.text
    for text in (
        *("best cities", "cities are warm", "travel handbook", "prices too"),
        "find the climate",
    ):
        assert user.text.index("<data-") < user.text.index(text)
        assert text not in system.text
    assert json.loads(updates["planner_content"])["steps"][0]["title"] == "climate"
    assert updates["feedback_content"] == ""
    with pytest.raises(KeyError, match="query"):
        await deepresearch.PlannerNode(scripted()).apply({})


async def test_the_research_planner_streams_and_says_why_it_has_no_plan(scripted: Script) -> None:
    node = deepresearch.PlannerNode(scripted(research()))
    *texts, updates = [each async for each in node.stream({"query": "q"})]
    assert json.loads("".join(map(str, texts))) == research()
    assert isinstance(updates, dict)
    failed = await deepresearch.PlannerNode(scripted("I sing")).apply({"query": "q"})
    assert failed["planner_content"] == "I sing"
    assert "I sing" in failed["planner_error"]


@pytest.mark.parametrize(
    ("plan", "more", "node"),
    [
        (research(), {}, "human_feedback"),
        (research(), {"auto_accepted_plan": "true"}, "human_feedback"),
        (research(auto_accepted_plan=True), {}, "human_feedback"),
        (research(), {"auto_accepted_plan": True}, "research_team"),
        (research(has_enough_context=True), {}, "reporter"),
        ("I sing", {}, "planner"),
        ("I sing", {"plan_iterations": 1}, "END"),
        ("I sing", {"plan_iterations": 1, "max_plan_iterations": 2}, "planner"),
    ],
)
async def test_the_information_node_decides_where_a_research_plan_goes(
    plan: Any, more: dict[str, Any], node: str
) -> None:
    text = plan if isinstance(plan, str) else json.dumps(plan)
    updates = await deepresearch.InformationNode().apply({"planner_content": text} | more)
    assert updates["information_next_node"] == node
    assert await deepresearch.InformationDispatcher().apply(updates) == node
    if plan == "I sing":
        assert "no plan of" in updates["planner_error"]
    else:
        [step] = updates["current_plan"].steps
        assert (step.title, step.execution_status) == ("climate", None)
        assert updates["current_plan"].getSteps()[0].isNeedWebSearch() is True


async def told(**state: Any) -> dict[str, Any]:
    return await deepresearch.HumanFeedbackNode().apply(state)


async def test_research_feedback_approves_sends_back_or_ends() -> None:
    yes = await told(feedback=True)
    assert (yes["human_next_node"], yes["plan_iterations"]) == ("research_team", 1)
    no = await told(feedback=False, feedback_content="prices")
    assert (no["human_next_node"], no["feedback_content"]) == ("planner", "prices")
    old = await told(human_feedback={"feed_back": False, "feed_back_content": "prices"})
    assert (old["human_next_node"], old["feedback_content"]) == ("planner", "prices")
    assert (await told(terminate=True))["human_next_node"] == "END"
    assert (await told())["human_next_node"] == keys.WAIT_FOR_FEEDBACK


async def test_a_research_plan_at_the_limit_of_iterations_asks_and_is_never_taken() -> None:
    limit = {"plan_iterations": 3, "max_plan_iterations": 3}
    assert (await told(**limit))["human_next_node"] == keys.WAIT_FOR_FEEDBACK
    asked = await told(feedback=False, **limit)
    assert asked["human_next_node"] == keys.WAIT_FOR_FEEDBACK
    state = {**limit, **asked}
    on = await told(**state | {"human_feedback": {"decision": "go_on"}})
    assert on["human_next_node"] == "planner"
    stopped = await told(**state | {"human_feedback": {"decision": "stop"}})
    assert stopped["human_next_node"] == "END"
    yes = await told(**state | {"human_feedback": {"feedback": True}})
    assert yes["human_next_node"] == "research_team"


@given(st.lists(st.sampled_from([True, False, "true", 1, None, "approved"]), max_size=8))
def test_only_an_explicit_approval_ever_leads_to_the_research_team(words: list[Any]) -> None:
    async def go() -> None:
        now: dict[str, Any] = {"max_plan_iterations": 2}
        for word in words:
            now |= {"feedback": word}
            now |= await deepresearch.HumanFeedbackNode().apply(now)
            assert (now["human_next_node"] == "research_team") is (word is True)

    asyncio.run(go())


async def test_the_research_graph_repairs_a_plan_with_the_error_of_the_last(
    scripted: Script,
) -> None:
    model = scripted("I sing", Answer(research(), expects="I sing"))
    node, now = deepresearch.PlannerNode(model), {"query": "q", "max_plan_iterations": 2}
    for expected in ("planner", "human_feedback"):
        now |= await node.apply(now)
        now |= await deepresearch.InformationNode().apply(now)
        assert now["information_next_node"] == expected
