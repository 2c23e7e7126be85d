"""The examples of the five systems' own documents, run here: what goes in and what comes out.

Names, arguments and shapes are those of the documents; longer texts are in our words.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.members import Member

from plansmith import Effect, Plansmith, RunStatus
from plansmith.plan.capability import Skill
from plansmith.testing import Answer, ScriptedModel
from plansmith_compat import valuecell as vc
from plansmith_compat.deerflow import DeerFlow, Goto, route_plan
from plansmith_compat.sage import LLMPlanner
from plansmith_compat.spring import HumanFeedbackNode, JManus, PlanExecutorNode, PlannerNode, keys
from plansmith_planner.dialect import dialect, recognise
from plansmith_planner.settings import PlannerSettings

Script = Callable[..., ScriptedModel]
NO_TRIAGE = PlannerSettings(triage=False)


# SAGE: the page on LLMPlanner


ARXIV: dict[str, dict[str, Any]] = {
    "arxiv_search": {
        "description": "Search arXiv papers",
        "input_schema": {
            "type": "object",
            "properties": {"query": {"type": "string"}, "max_results": {"type": "integer"}},
            "required": ["query"],
        },
    },
    "calculator": {
        "description": "Do arithmetic",
        "input_schema": {
            "type": "object",
            "properties": {"expr": {"type": "string"}},
            "required": ["expr"],
        },
    },
}
SEARCH: Any = {"query": "LLM agents survey", "max_results": 2}
STEPS: list[Any] = [
    {"type": "tool", "name": "arxiv_search", "arguments": SEARCH},
    {"type": "tool", "name": "calculator", "arguments": {"expr": "21*2+5"}},
    {"type": "reply", "text": "说出找到的两篇综述和计算结果"},
]
PROFILE = "You are ResearchAgent, acting as planner. Reply in zh."
QUERY = "在 arXiv 找 2 篇 LLM agents 综述，再计算 21*2+5，最后用中文总结"


class OpenAIGenerator:
    """A generator that always gives the same text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def execute(self, data: Any) -> tuple[Any, str]:
        return data[0], self.text


@pytest.mark.parametrize("written", ["{}", "```json\n{}\n```", "这是计划：\n{}\n希望有用。"])
def test_sage_the_example_of_its_page_gives_the_steps_it_shows(written: str) -> None:
    generator = OpenAIGenerator(written.replace("{}", json.dumps(STEPS, ensure_ascii=False)))
    planner = LLMPlanner(generator=generator, max_steps=4, enable_repair=True, topk_tools=6)
    assert planner.plan(PROFILE, QUERY, ARXIV) == STEPS
    assert planner.execute((PROFILE, QUERY, ARXIV)) == STEPS
    assert planner.execute({"profile_prompt": PROFILE, "query": QUERY, "tools": ARXIV}) == STEPS


# ValueCell: the examples its planner is given


WATCHES = Skill(name="Earnings watch", description="Monitors earnings and notifies")


class Desk:
    """A plan service over one research agent, asked turn by turn in one conversation."""

    def __init__(self, model: ScriptedModel) -> None:
        agent = Member("ResearchAgent", effect=Effect.WRITE, unattended=True, skills=(WATCHES,))
        smith = Plansmith(model=model, agents=[agent], settings=NO_TRIAGE)
        self.service = vc.PlanService(vc.RemoteConnections(smith))

    async def ask(self, query: str, target: str | None = None) -> vc.ExecutionPlan:
        meta = vc.UserInputMetadata(conversation_id="c1", user_id="ada")
        given = {"query": query, "target_agent_name": target, "meta": meta}
        return await self.service.start_planning_task(vc.UserInput.model_validate(given), "t1")


def asks(message: str, reason: str) -> dict[str, Any]:
    return {"tasks": [], "adequate": False, "reason": reason, "guidance_message": message}


def recurring(title: str, query: str, **config: Any) -> dict[str, Any]:
    schedule = {"interval_minutes": None, "daily_time": None} | config
    task = {"title": title, "query": query, "agent_name": "ResearchAgent"}
    return {
        "tasks": [task | {"pattern": "recurring", "schedule_config": schedule}],
        "adequate": True,
        "reason": "confirmed",
    }


@pytest.mark.parametrize("query", ["What was Tesla's revenue?", "Go on", "daily at 9: {{x}}"])
async def test_valuecell_a_request_to_a_named_agent_passes_through(
    scripted: Script, query: str
) -> None:
    plan = await Desk(scripted()).ask(query, "ResearchAgent")
    [task] = plan.tasks
    assert (task.query, task.agent_name) == (query, "ResearchAgent")
    assert (task.pattern, plan.guidance_message) == (vc.TaskPattern.ONCE, None)


HOURLY = "Check Tesla stock price for significant changes"
DAILY = "Monitor Apple's quarterly earnings"


@pytest.mark.parametrize(
    ("turns", "task"),
    [
        (
            [
                (DAILY, asks("Once, or again and again? If so, how often?", "no schedule")),
                ("Recurring, check daily at 9 AM", asks("Please confirm: daily at 09:00", "")),
                ("Yes, confirmed", recurring("Apple earnings", DAILY, daily_time="09:00")),
            ],
            (DAILY, vc.ScheduleConfig(daily_time="09:00")),
        ),
        (
            [
                (f"{HOURLY} every hour", asks("Please confirm: every 60 minutes", "confirm")),
                ("Yes, proceed, go ahead", recurring("Tesla", HOURLY, interval_minutes=60)),
            ],
            (HOURLY, vc.ScheduleConfig(interval_minutes=60)),
        ),
    ],
    ids=["daily", "hourly"],
)
async def test_valuecell_recurring_intent_is_clarified_confirmed_and_then_set(
    scripted: Script, turns: list[tuple[str, dict[str, Any]]], task: tuple[str, vc.ScheduleConfig]
) -> None:
    before = ["", *(answer.get("guidance_message", "") for _, answer in turns)]
    answers = [Answer(each, expects=seen) for (_, each), seen in zip(turns, before, strict=False)]
    desk = Desk(scripted(*answers))
    *first, last = [await desk.ask(words) for words, _ in turns]
    assert [(each.tasks, each.guidance_message) for each in first] == [
        ([], answer["guidance_message"]) for _, answer in turns[:-1]
    ]
    [made] = last.tasks
    assert (made.query, made.schedule_config) == task
    assert made.pattern is vc.TaskPattern.RECURRING


# DeerFlow and deer-go: the example of the planner's prompt, the README, the page on the planner


def step(title: str, kind: str = "research", **fields: Any) -> dict[str, Any]:
    search = kind == "research"
    return {
        "title": title,
        "description": f"{title}.",
        "step_type": kind,
        "need_search": search,
    } | (fields)


def research(*steps: dict[str, Any], enough: bool = False, title: str = "AI") -> dict[str, Any]:
    head = {"locale": "en-US", "has_enough_context": enough, "thought": "what is asked"}
    return head | {"title": title, "steps": list(steps)}


MARKET = research(
    step("Current AI Market Analysis"),
    step("Emerging Trends and Future Outlook"),
    step("Cross-validate and Synthesize Findings", "analysis"),
    title="AI Market Research Plan",
)
TRENDS = research(
    step("Research Multimodal AI Models", need_web_search=True, execution_res=None),
    step("Analyze AGI Progress", need_web_search=True, execution_res=None),
    step("Generate Comparison Charts", "processing", need_web_search=False, execution_res=None),
    enough=True,
    title="AI Trends Research 2025",
)
HAND_OVER = {"decision": "plan", "reason": "", "query": "research it", "answer": ""}


def deerflow(model: ScriptedModel) -> tuple[DeerFlow, list[Member]]:
    team = [Member("researcher"), Member("coder")]
    return DeerFlow(model=model, agents=team), team


async def test_deerflow_the_plan_of_its_prompt_is_reviewed_and_run(scripted: Script) -> None:
    flow, [researcher, coder] = deerflow(scripted(HAND_OVER, MARKET, "The market grows."))
    state = await flow.start("current trends of the AI market")
    assert state.goto is Goto.HUMAN_FEEDBACK
    state = await flow.feedback(state.run_id, "[ACCEPTED]")
    assert [len(each.tasks) for each in (researcher, coder)] == [2, 1]
    assert "The market grows." in state.final_report


async def test_deerflow_the_plan_of_the_page_has_enough_context_and_open_steps(
    scripted: Script,
) -> None:
    assert recognise(json.loads(json.dumps(TRENDS))) == "deerflow"
    assert route_plan(TRENDS, max_plan_iterations=3).goto is Goto.RESEARCH_TEAM
    flow, team = deerflow(scripted(HAND_OVER, TRENDS, "Done."))
    state = await flow.start("What are the latest AI trends in 2025?")
    assert (state.goto, [len(each.tasks) for each in team]) == (Goto.END, [2, 1])


# Spring AI Alibaba: the pages on the planner node, review and plan templates


SALES: dict[str, Any] = {
    "thought_process": "按省份汇总 orders 表的销售额",
    "execution_plan": [
        {
            "step": 1,
            "tool_to_use": "SQL_GENERATE_NODE",
            "tool_parameters": {"instruction": "按省份汇总销售额，降序，取前 10"},
        },
        {
            "step": 2,
            "tool_to_use": "REPORT_GENERATOR_NODE",
            "tool_parameters": {"summary_and_recommendations": "写出各省排名，标出前三"},
        },
    ],
}


async def test_spring_the_plan_of_its_page_goes_through_the_nodes(scripted: Script) -> None:
    state: dict[str, Any] = {keys.INPUT_KEY: "各省销售额排名", keys.HUMAN_REVIEW_ENABLED: True}
    state |= await PlannerNode(model=scripted(SALES)).apply(state)
    assert json.loads(state[keys.PLANNER_NODE_OUTPUT]) == SALES
    state |= await PlanExecutorNode().apply(state)
    assert state[keys.PLAN_NEXT_NODE] == keys.HUMAN_FEEDBACK_NODE
    state[keys.HUMAN_FEEDBACK_DATA] = {"feedback": True, "feedback_content": ""}
    state |= await HumanFeedbackNode().apply(state)
    nodes: list[str] = []
    for current in (1, 2, 3):
        state |= {keys.PLAN_CURRENT_STEP: current}
        state |= await PlanExecutorNode().apply(state)
        nodes.append(state[keys.PLAN_NEXT_NODE])
    assert nodes == ["SQL_GENERATE_NODE", "REPORT_GENERATOR_NODE", "REPORT_GENERATOR_NODE"]


STOCK: dict[str, Any] = {
    "planType": "simple",
    "currentPlanId": "planTemplate-1754276365157",
    "rootPlanId": "planTemplate-1754276365157",
    "title": "Retrieve and save stock information",
    "userRequest": "查询阿里巴巴最近一周的股票，写成 markdown 文件",
    "directResponse": False,
    "steps": [
        {"stepRequirement": "[BROWSER_AGENT] Search the stock", "terminateColumns": "Status"},
        {"stepRequirement": "[DEFAULT_AGENT] Save what was found", "terminateColumns": "Status"},
    ],
    "planId": "planTemplate-1754276365157",
}


async def test_spring_a_stored_plan_of_jmanus_runs_agent_by_agent() -> None:
    workers = [Member("BROWSER_AGENT"), Member("DEFAULT_AGENT")]
    jmanus = JManus(Plansmith(agents=workers))
    run = await jmanus.execute((await jmanus.create(**STOCK)).id)
    assert run.status is RunStatus.DONE
    status: Any = await jmanus.status(run.id)
    assert [each["status"] for each in status["steps"]] == ["completed", "completed"]
    assert workers[1].tasks == ["Save what was found"]
    assert {each.code for each in dialect("jmanus").read(STOCK).problems} == {"PS013"}


async def test_spring_the_default_template_of_jmanus_takes_the_users_words() -> None:
    template = {
        "title": "Default input",
        "planTemplateId": "default-plan-id-001000222",
        "steps": [{"stepRequirement": "<<userRequirement>>", "agentName": "ConfigurableDynaAgent"}],
    }
    worker = Member("ConfigurableDynaAgent")
    jmanus = JManus(Plansmith(agents=[worker]))
    saved = await jmanus.templates.save(template)
    assert await jmanus.templates.parameters(saved.name) == ["userRequirement"]
    run = await jmanus.templates.run(saved.name, {"userRequirement": "book a table"})
    assert (run.status, worker.tasks) == (RunStatus.DONE, ["book a table"])
