"""deepresearch's nodes and runs, and the three plan formats of Spring AI Alibaba."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.members import Member, Script
from tests.spring.test_jmanus import TEMPLATE
from tests.spring.test_nl2sql import GOOD, drafted, step

from plansmith import Plansmith, RunStatus
from plansmith.errors import ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.limits import Limits
from plansmith.ports import Call
from plansmith.report.build import load_report
from plansmith.report.markdown import to_markdown
from plansmith.testing import Answer
from plansmith_cli.teams import CALLS_AT_ONCE
from plansmith_compat.spring import HumanFeedbackNode, deepresearch, keys
from plansmith_compat.spring.dialects import shape_for, shape_of
from plansmith_planner.dialect import dialect, recognise
from plansmith_planner.settings import PlannerSettings
from plansmith_server.report_page import to_html


def research(*kinds: str, **fields: Any) -> dict[str, Any]:
    steps = [
        {
            "need_web_search": kind == "research",
            "title": f"t{place}",
            "description": f"find {place}",
            "step_type": kind,
        }
        for place, kind in enumerate(kinds or ("research",), start=1)
    ]
    head = {"locale": "en", "has_enough_context": False, "thought": "t", "title": "Travel"}
    return head | {"steps": steps} | fields


# The nodes


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
    for text in ("best cities", "cities are warm", "travel handbook", "prices too", "find 1"):
        assert user.text.index("<data-") < user.text.index(text)
        assert text not in system.text
    assert json.loads(updates["planner_content"])["steps"][0]["title"] == "t1"
    assert updates["feedback_content"] == ""
    with pytest.raises(KeyError, match="query"):
        await deepresearch.PlannerNode(scripted()).apply({})


async def test_the_research_planner_streams_and_its_error_goes_into_the_next_plan(
    scripted: Script,
) -> None:
    node = deepresearch.PlannerNode(scripted(research()))
    *texts, updates = [each async for each in node.stream({"query": "q"})]
    assert json.loads("".join(map(str, texts))) == research()
    assert isinstance(updates, dict)
    model = scripted("I sing", Answer(research(), expects="I sing"))
    node, now = deepresearch.PlannerNode(model), {"query": "q", "max_plan_iterations": 2}
    for expected in ("planner", "human_feedback"):
        now |= await node.apply(now)
        assert ("I sing" in str(now["planner_error"])) is (expected == "planner")
        now |= await deepresearch.InformationNode().apply(now)
        assert now["information_next_node"] == expected


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
        [step] = updates["current_plan"].getSteps()
        assert (step.title, step.execution_status, step.isNeedWebSearch()) == ("t1", None, True)


async def decide(**state: Any) -> dict[str, Any]:
    return await deepresearch.HumanFeedbackNode().apply(state)


async def test_research_feedback_approves_sends_back_or_ends() -> None:
    yes = await decide(feedback=True)
    assert (yes["human_next_node"], yes["plan_iterations"]) == ("research_team", 1)
    old = {"human_feedback": {"feed_back": False, "feed_back_content": "prices"}}
    for feedback in ({"feedback": False, "feedback_content": "prices"}, old):
        no = await decide(**feedback)
        assert (no["human_next_node"], no["feedback_content"]) == ("planner", "prices")
    assert (await decide(terminate=True))["human_next_node"] == "END"


async def test_a_research_plan_at_the_limit_of_iterations_asks_and_is_never_taken() -> None:
    limit = {"plan_iterations": 3, "max_plan_iterations": 3}
    asked = limit | await decide(feedback=False, **limit)
    assert asked["human_next_node"] == keys.WAIT_FOR_FEEDBACK
    answers: Any = ({"decision": "go_on"}, {"decision": "stop"}, {"feedback": True}, {})
    nodes = [
        (await decide(**asked | {"human_feedback": each}))["human_next_node"] for each in answers
    ]
    assert nodes == ["planner", "END", "research_team", keys.WAIT_FOR_FEEDBACK]


@pytest.mark.parametrize(
    ("node", "goes_on"),
    [
        (HumanFeedbackNode, keys.PLAN_EXECUTOR_NODE),
        (deepresearch.HumanFeedbackNode, "research_team"),
    ],
)
@given(words=st.lists(st.sampled_from([True, False, "true", 1, None, "not approved"]), max_size=8))
def test_only_an_explicit_approval_ever_runs_a_plan(
    node: Any, goes_on: str, words: list[Any]
) -> None:
    async def go() -> None:
        now: dict[str, Any] = {"max_plan_iterations": 2}
        for word in words:
            now |= {"feedback": word, keys.HUMAN_FEEDBACK_DATA: {"feedback": word}}
            now |= await node().apply(now)
            assert (now["human_next_node"] == goes_on) is (word is True)

    asyncio.run(go())


# Runs


class Crowd(Member):
    """A member that counts how many of it work at once."""

    now = most = 0

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(20):
            await asyncio.sleep(0)
        self.now -= 1
        return await super().work(task, inputs, call)


async def test_up_to_four_researchers_work_in_parallel_on_a_plan_in_its_own_shape(
    scripted: Script,
) -> None:
    draft = research(*["research"] * 6, "processing", has_enough_context=True)
    model, team = scripted(draft, "Done."), [Crowd("researcher"), Crowd("coder")]
    assert CALLS_AT_ONCE["researcher"] == CALLS_AT_ONCE["coder"] == 4
    given: dict[str, Any] = {"settings": PlannerSettings(triage=False)}
    smith = Plansmith(model=model, agents=team, limits=Limits(per_tool=CALLS_AT_ONCE), **given)
    run = await smith.run((await smith.plan("what is new", dialect="deepresearch")).id)
    assert "side by side" in model.prompts[0][0].text
    assert (run.status, team[0].most, len(team[1].calls[0][1])) == (RunStatus.DONE, 4, 6)
    assert run.plan is not None
    value: Any = dialect("deepresearch").write(run.plan, run).value
    assert [each["executionStatus"] for each in value["steps"]] == ["completed"] * 7
    report = await load_report(smith.store, run.id)
    assert to_markdown(report) == run.report
    assert "researcher: find 1" in run.report
    assert to_html(report).startswith("<!doctype html>")


async def test_a_research_run_is_written_with_statuses_and_results() -> None:
    members = [Member("researcher", "found", ToolFailed("gone")), Member("coder")]
    value: Any = research("research", "research", "processing")
    for each in value["steps"]:
        each |= {"executionRes": None, "executionStatus": ""}
    plan = dialect("spring").read(value).plan
    assert plan is not None
    smith = Plansmith(agents=members)
    run = await smith.run((await smith.submit(plan)).id)
    written: Any = dialect("spring").write(plan, run).value
    statuses = [(each["executionStatus"], each["executionRes"]) for each in written["steps"]]
    assert statuses == [("completed", "found"), ("error", None), ("skipped", None)]


# The formats


STORED = research(hasEnoughContext=False)


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (GOOD, "nl2sql"),
        (GOOD["execution_plan"], "nl2sql"),
        ({"thoughtProcess": "t", "executionPlan": [step("1")]}, "nl2sql"),
        (TEMPLATE, "jmanus"),
        (STORED, "deepresearch"),
    ],
)
def test_the_three_shapes_are_recognised_read_and_written_back(value: Any, shape: str) -> None:
    assert recognise(value) == "spring"
    assert shape_of(value) == shape
    first = dialect("spring").read(value)
    assert first.plan is not None
    assert shape_for(first.plan) == shape
    written = dialect("spring").write(first.plan, None)
    assert written.lost == ()
    assert dialect("spring").read(written.value).plan == first.plan


def test_sloppy_nl2sql_plans_are_read_with_notes() -> None:
    sloppy = drafted(
        step("2", "python_generate_node", description="compare"),
        step("1", "sql", instruction="sum", sql_query="SELECT 1"),
        step("3", "REPORT_GENERATOR_NODE", summaryAndRecommendations="say"),
    )
    found = dialect("spring").read(sloppy)
    assert found.plan is not None
    agents = [each.to_json().get("agent") for each in found.plan.steps]
    assert agents == ["sql_writer", "coder", None]
    assert found.plan.steps[0].to_json()["inputs"] == {"sql_query": "SELECT 1"}
    assert {each.code for each in found.problems} == {"PS013"}
    assert any("order of their numbers" in each.message for each in found.problems)


def test_tools_of_the_program_keep_their_name_and_parameters_in_an_nl2sql_plan() -> None:
    given: Any = drafted(step(1, "mail", to="{{s1}}", cc=1), step(2))
    reading = dialect("spring").read(given)
    assert reading.plan is not None
    written = dialect("spring").write(reading.plan, None)
    assert (written.value, written.lost) == (given, ())
