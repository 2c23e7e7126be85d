"""From a request to a checked plan, through every stage, as the source systems do it too."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.flow.smiths import Script, approved, plan_of, smith

from plansmith import AgentSpec, Effect, Plan, Plansmith, RunStatus, ToolSpec, tool
from plansmith.clock import SystemClock
from plansmith.errors import Misconfigured, ModelBusy, ModelRefused
from plansmith.plan.planning import Decision, Planned, PlanRequest
from plansmith.plan.run_options import RunOptions
from plansmith.ports import Message, Usage
from plansmith.review.settings import ReviewPolicy
from plansmith.testing import Answer, FakeClock, MemoryStore, ScriptedModel
from plansmith.tools.functions import FunctionTools
from plansmith_planner.context.background import Background
from plansmith_planner.pipeline import make_plan
from plansmith_planner.settings import PlannerSettings
from plansmith_planner.stages import PlannerDeps

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = [
    ToolSpec(
        name="get_weather",
        description="The weather in a city",
        input_schema=CITY,
        effect=Effect.READ,
    ),
    ToolSpec(name="send_mail", description="Send an e-mail", effect=Effect.FINAL),
    ToolSpec(
        name="查询天气", description="查询某个城市的天气", input_schema=CITY, effect=Effect.READ
    ),
]
GOOD: dict[str, Any] = {
    "goal": "Weather in Oslo",
    "enough_context": True,
    "steps": [
        {"id": "now", "kind": "tool", "tool": "get_weather", "inputs": {"city": "Oslo"}},
        {"id": "say", "kind": "reply", "instruction": "Tell {{now.text}}"},
    ],
}


def step(**fields: Any) -> dict[str, Any]:
    return {"id": "now", "kind": "tool", "tool": "get_weather", "inputs": {"city": "Oslo"}} | fields


def draft_of(*steps: dict[str, Any]) -> dict[str, Any]:
    return GOOD | {"steps": [*steps, {"id": "say", "kind": "reply", "instruction": "Tell {{now}}"}]}


async def run(
    model: ScriptedModel,
    text: str = "How is the weather in Oslo?",
    *,
    settings: dict[str, Any] | None = None,
    triage: ScriptedModel | None = None,
    tell: Callable[[str], None] = lambda _: None,
    previous: Plan | None = None,
    feedback: str = "",
    **fields: Any,
) -> Planned:
    deps = PlannerDeps(
        plan_model=model,
        triage_model=triage,
        clock=FakeClock(),
        tools=fields.pop("tools", TOOLS),
        agents=fields.pop("agents", ()),
        settings=PlannerSettings(**(settings or {})),
    )
    asked = PlanRequest(text, RunOptions(**fields), previous=previous, feedback=feedback)
    return await make_plan(asked, deps=deps, tell=tell)


def errors(planned: Planned) -> list[str]:
    return [each.code for each in planned.problems if each.severity == "error"]


async def test_a_request_becomes_a_checked_plan_with_an_estimate(scripted: Script) -> None:
    lines: list[str] = []
    planned = await run(scripted(Answer(GOOD, usage=Usage(900, 100))), tell=lines.append)
    assert plan_of(planned).goal == "Weather in Oslo"
    assert errors(planned) == []
    assert planned.draft is None
    stages = list(dict.fromkeys(line.split(":")[0] for line in lines))
    assert stages == ["triage", "context", "shortlist", "draft", "parse", "check"]
    figures = planned.figures
    assert (figures.parsed, figures.parsed_at_once, figures.repairs) == (True, True, 0)
    assert (figures.usage.input_tokens, figures.usage.output_tokens) == (900, 100)
    assert set(figures.seconds) >= {"triage", "context", "shortlist", "draft", "parse", "check"}


async def test_the_progress_of_planning_is_told_in_the_language_of_the_request(
    scripted: Script,
) -> None:
    lines: list[str] = []
    await run(scripted(Answer("no plan at all"), GOOD), "奥斯陆的天气怎么样？", tell=lines.append)
    stages = list(dict.fromkeys(line.split("：")[0] for line in lines))
    assert stages == ["判断", "背景", "候选工具", "起草", "读取草稿", "修正", "检查"]
    assert not [line for line in lines if re.search(r"[a-z]{4,}", line.replace("scripted", ""))]


async def test_small_talk_never_reaches_the_planning_model(scripted: Script) -> None:
    triage = scripted({"decision": "answer", "answer": "Hello!", "reason": "", "query": ""})
    planned = await run(scripted(), "hi", triage=triage)
    assert (planned.decision, planned.answer, planned.plan) == (Decision.ANSWER, "Hello!", None)


@pytest.mark.parametrize(("role", "text"), [("tool", "hi"), ("user", None), ("user", "\ud800")])
async def test_a_history_that_no_journal_can_keep_is_refused(role: Any, text: Any) -> None:
    app = Plansmith(model=ScriptedModel(), store=(store := MemoryStore()))
    with pytest.raises(Misconfigured, match="the option history"):
        await app.plan("Say hello", history=[Message(role, text)])
    assert await store.runs() == []


async def test_a_yes_that_agrees_to_an_action_is_planned_and_not_only_answered(
    scripted: Script,
) -> None:
    sent = {"decision": "answer", "reason": "agreed", "query": "Send it to Ann", "answer": "Sent!"}
    history = (Message("assistant", "Shall I send the mail to Ann?"),)
    planned = await run(scripted(GOOD), "yes", triage=scripted(sent), history=history)
    assert planned.decision is Decision.PLAN


async def test_the_enriched_query_is_what_is_planned(scripted: Script) -> None:
    triage = scripted({"decision": "plan", "query": "Weather in Bergen, Norway", "reason": "r"})
    model = scripted(Answer(GOOD, expects="Weather in Bergen, Norway"))
    assert (await run(model, "and Bergen?", triage=triage)).reason == "r"


async def test_only_the_broken_step_is_asked_for_again(scripted: Script) -> None:
    bad = draft_of(step(), step(id="mail", tool="no_such_thing_at_all", inputs={}))
    mended = {"steps": [step(id="mail", tool="send_mail", inputs={"body": "{{now}}"})]}
    model = scripted(
        Answer(bad, usage=Usage(10, 10)), Answer(mended, expects='["mail"]', usage=Usage(5, 5))
    )
    planned = await run(model)
    assert [each.id for each in plan_of(planned).steps] == ["now", "mail", "say"]
    assert plan_of(planned).by_id["mail"].to_json()["tool"] == "send_mail"
    assert planned.figures.repairs == 1
    assert planned.figures.usage.input_tokens == 15
    repair = model.prompts[1]
    assert repair[: len(model.prompts[0])] == model.prompts[0]
    assert "PS101" in repair[-1].text
    assert "get_weather" in repair[1].text


async def test_a_text_without_a_plan_is_asked_for_whole(scripted: Script) -> None:
    planned = await run(scripted("Sorry, what?", Answer(GOOD, expects="whole plan")))
    assert not plan_of(planned).degraded
    assert (planned.figures.parsed_at_once, planned.figures.repairs) == (False, 1)


@pytest.mark.parametrize(
    ("locale", "expected"), [("en", "(no plan is available)"), ("zh-CN", "（计划不可用）")]
)
async def test_with_nothing_to_say_the_stand_in_says_so(
    locale: str, expected: str, scripted: Script
) -> None:
    planned = await run(scripted("", "", ""), locale=locale)
    assert plan_of(planned).steps[0].to_json()["instruction"] == expected


async def test_the_stand_in_keeps_the_first_2000_characters_as_plain_text(scripted: Script) -> None:
    words = "I can not plan {{this}}. " * 200
    [reply] = plan_of(await run(scripted(words, words, words))).steps
    assert list(reply.input_refs()) == []
    assert len(str(reply.to_json()["instruction"]).replace('{{"{{"}}', "{{")) <= 2000


async def test_without_a_fallback_a_broken_plan_is_only_a_draft(scripted: Script) -> None:
    bad = draft_of(step(tool="no_such_thing_at_all"))
    planned = await run(scripted(bad), settings={"fallback": "none", "repairs": 0})
    assert planned.plan is None
    assert planned.draft is not None
    assert "now" in planned.draft.by_id
    assert errors(planned) == ["PS101"]


async def test_an_answer_that_breaks_off_is_asked_for_again(scripted: Script) -> None:
    planned = await run(scripted(ModelBusy("cut"), ModelBusy("cut"), GOOD))
    assert not plan_of(planned).degraded


@pytest.mark.parametrize(("ask", "mode"), [("writes", "review"), ("always", "")])
async def test_no_read_is_made_before_the_approval_where_the_plan_is_seen_first(
    scripted: Script, ask: Any, mode: str
) -> None:
    model = scripted({"goal": "look", "steps": [{"id": "a", "tool": "look"}]})
    app, tools = smith(model=model, policy=ReviewPolicy(ask=ask))
    run = await app.plan("look", mode=mode)
    assert (run.status, tools.calls) == (RunStatus.REVIEWING, [])
    assert (await approved(app, run)).status is RunStatus.DONE
    assert len(tools.calls) == 1


async def test_missing_arguments_become_questions_and_wrong_types_are_mended(
    scripted: Script,
) -> None:
    planned = await run(scripted(draft_of(step(inputs={"days": "3"}))))
    assert [each.kind for each in plan_of(planned).steps].count("ask") == 1
    assert plan_of(planned).by_id["now"].to_json()["inputs"]["days"] == 3  # type: ignore[index,call-overload]
    assert {"PS205", "PS207"} <= {each.code for each in planned.problems}


async def test_hidden_and_passthrough_agents_are_neither_offered_nor_accepted(
    scripted: Script,
) -> None:
    agents = [
        AgentSpec(name="desk", description="answers weather questions"),
        AgentSpec(name="ghost", description="weather", hidden=True),
        AgentSpec(name="direct", description="weather", passthrough=True),
    ]
    sneaky = draft_of(
        {"id": "now", "agent": "ghost", "task": "look"}, {"id": "b", "agent": "direct", "task": "x"}
    )
    model = scripted(sneaky)
    planned = await run(model, agents=agents, settings={"repairs": 0, "fallback": "none"})
    offered = model.prompts[0][1].text
    assert '"desk"' in offered
    assert '"ghost"' not in offered
    assert '"direct"' not in offered
    assert errors(planned).count("PS102") == 2


@given(st.text() | st.sampled_from(["{", "[]", "[[", '{"steps": 5}', '{"steps": [5]}', "null"]))
async def test_no_answer_of_a_model_makes_planning_raise_or_lose_the_request(text: str) -> None:
    deps = PlannerDeps(
        plan_model=ScriptedModel(text, text, text, name="wild"), clock=SystemClock(), tools=TOOLS
    )
    planned = await make_plan(PlanRequest("How is it in Oslo?"), deps=deps)
    assert plan_of(planned).steps or planned.problems


@tool(effect="read")
def weather(city: str = "") -> str:
    """The weather in a city."""
    return f"sun in {city}"


@tool(effect="read")
def harvest(field: str = "") -> str:
    """Count potatoes."""
    return f"none in {field}"


@tool(effect="read")
def tavily_search(query: str) -> str:
    """Find pages."""
    return f"Found about {query}: it rains."


def plan_with(name: str) -> dict[str, object]:
    steps = [{"id": "a", "tool": name}, {"id": "r", "instruction": "Say {{a}}"}]
    return {"goal": "x", "steps": steps}


def offering(model: ScriptedModel, other: Any = harvest, **planner: object) -> Plansmith:
    settings = PlannerSettings.model_validate({"triage": False, **planner})
    return Plansmith(model=model, tools=[weather, other], settings=settings, clock=FakeClock())


class Backwards:
    """Ranks potatoes first, whatever is asked."""

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        del query
        return [100.0 if "potatoes" in text else 0.0 for text in texts]


async def test_a_tool_outside_a_strict_shortlist_is_a_problem_and_repaired(
    scripted: Script,
) -> None:
    model = scripted(plan_with("harvest"), plan_with("weather"))
    run = await offering(model, top_k=1, strict_shortlist=True).plan("the weather in Oslo")
    assert plan_of(run).steps[0].to_json()["tool"] == "weather"
    assert "'harvest' was not offered for this request" in model.prompts[1][-1].text


async def test_a_tool_outside_the_shortlist_is_accepted_unless_it_is_strict(
    scripted: Script,
) -> None:
    run = await offering(scripted(plan_with("harvest")), top_k=1).plan("the weather in Oslo")
    assert plan_of(run).steps[0].to_json()["tool"] == "harvest"


async def test_a_ranker_that_is_given_ranks_by_meaning(scripted: Script) -> None:
    model = scripted(plan_with("harvest"))
    smith = Plansmith(
        model=model,
        tools=[weather, harvest],
        ranker=Backwards(),
        settings=PlannerSettings(triage=False, top_k=1, strict_shortlist=True),
    )
    assert not plan_of(await smith.plan("Erdäpfel zählen")).degraded
    assert '"harvest"' in model.prompts[0][1].text
    assert '"weather"' not in model.prompts[0][1].text


@pytest.mark.parametrize("own", [False, True])
async def test_one_background_search_is_made_and_noted_in_the_plan(
    scripted: Script, own: bool
) -> None:
    clock = FakeClock()
    search = Background([FunctionTools([tavily_search])], clock)
    model = scripted(plan_with("weather"))
    smith = Plansmith(
        model=model,
        tools=[weather, tavily_search],
        context=[search] if own else [],  # as that of a team, beside a tool found by its name
        settings=PlannerSettings(triage=False, background_search=True),
        clock=clock,
    )
    run = await smith.plan("the weather in Oslo")
    assert "Found about the weather in Oslo: it rains." in model.prompts[0][1].text
    notes = [each for each in run.problems if each.code == "PS018"]
    assert len(notes) == 1
    assert "tavily_search" in notes[0].message


# What the source systems do when they plan: each test says which system its fact is from.


async def test_openmanus_the_default_plan_also_follows_a_model_error_and_is_degraded(
    scripted: Script,
) -> None:
    planned = await run(scripted(ModelRefused("down")), settings={"fallback": "three_steps"})
    assert plan_of(planned).goal == "Plan for: How is the weather in Oslo?"
    assert plan_of(planned).degraded


async def test_spring_at_most_two_repairs_each_with_the_error_of_the_last(scripted: Script) -> None:
    first, second = (draft_of(step(tool=name)) for name in ("first_wrong_one", "second_wrong_one"))
    model = scripted(first, second, second)
    planned = await run(model)
    assert planned.figures.repairs == 2
    assert "first_wrong_one" in model.prompts[1][-1].text
    assert "second_wrong_one" in model.prompts[2][-1].text
    assert plan_of(planned).degraded
