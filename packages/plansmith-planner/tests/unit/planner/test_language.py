"""What words say before any model is asked: rules, times to do it again, and made-up values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.flow.smiths import Script, plan_of

from plansmith.check.constraints import constraint_problems
from plansmith.check.names import Catalogue
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Decision, Planned, PlanRequest
from plansmith.plan.run_options import Profile, RunOptions
from plansmith.testing import ScriptedModel
from plansmith.testing.fakes import FakeClock
from plansmith_planner.draft import salvage
from plansmith_planner.language.characters import CJK_RANGE, HAN
from plansmith_planner.language.constraints import asked_constraints, read_constraint
from plansmith_planner.language.made_up import made_up_values
from plansmith_planner.language.recurrence import Recurrence, recurrence, without_schedule_words
from plansmith_planner.pipeline import make_plan
from plansmith_planner.stages import PlannerDeps
from plansmith_planner.triage import triage

TOOLS = [
    ToolSpec(name="web_search", description="Search", effect=Effect.READ),
    ToolSpec(name="calculator", description="Calculate", effect=Effect.READ),
]
AGENTS = [AgentSpec(name="researcher", description="Finds things out", effect=Effect.READ)]
NAMES = ["web_search", "calculator", "researcher"]


def steps(count: int, tool: str = "web_search") -> dict[str, Any]:
    """Returns a plan with so many steps, each of which uses the one before it."""
    made = [{"id": f"a{n}", "tool": tool} for n in range(count - 1)]
    uses = " ".join(f"{{{{a{n}}}}}" for n in range(count - 1))
    return {"goal": "x", "steps": [*made, {"id": "r", "instruction": f"Say {uses}"}]}


async def planned(
    scripted: Script, text: str, *answers: Any, profile: Profile | None = None
) -> tuple[Planned, ScriptedModel]:
    model = scripted(*answers)
    deps = PlannerDeps(plan_model=model, clock=FakeClock(), tools=TOOLS, agents=AGENTS)
    return await make_plan(PlanRequest(text, RunOptions(profile=profile)), deps=deps), model


@pytest.mark.parametrize(
    ("text", "most"),
    [
        *(("at most 2 steps", 2), ("Use at most two steps.", 2), ("No more than one step", 1)),
        *(("a maximum of 3 steps in total", 3), ("2 steps or fewer", 2), ("最多两步", 2)),
        *(
            ("不超过 3 个步骤", 3),
            ("最多只能用一步", 1),
            ("三步以内", 3),
            ("不得超过十二个步骤", 12),
        ),
    ],
)
def test_a_constraint_on_the_number_of_steps_is_read_in_words_and_digits(
    text: str, most: int
) -> None:
    rule = read_constraint(text)
    assert (rule.max_steps, rule.max_calls, rule.hard) == (most, None, True)
    for rule_text in ("no more than one tool call", "最多一次工具调用"):
        assert read_constraint(rule_text).max_calls == 1


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("only use web_search", ("web_search",)),
        ("Use only the tools `web_search` and calculator", ("web_search", "calculator")),
        ("只能使用 web_search、calculator", ("web_search", "calculator")),
        ("仅用 web_search 工具", ("web_search",)),
        ("只用「web_search」和calculator", ("web_search", "calculator")),
    ],
)
def test_a_constraint_that_allows_only_some_tools_is_read(
    text: str, names: tuple[str, ...]
) -> None:
    assert read_constraint(text).only_tools == names


def test_a_long_list_of_names_that_is_no_constraint_is_read_at_once() -> None:
    # Where a joining word could also be part of a name, this takes 2**500 tries.
    assert asked_constraints("只用" + "a和" * 500 + "a b", NAMES) == []


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        ("What is the weather in Oslo? Use at most 2 steps.", {"max_steps": 2}),
        ("Compare the two banks in at most three steps", {"max_steps": 3}),
        ("查一下奥斯陆的天气，最多两步", {"max_steps": 2}),
        ("Look it up, no more than one tool call", {"max_calls": 1}),
        ("Find the price, but only use web_search", {"only_tools": ("web_search",)}),
        ("Find the price. Don't use calculator.", {"forbid_tools": ("calculator",)}),
        ("只用 web_search，查价格", {"only_tools": ("web_search",)}),
    ],
)
def test_a_constraint_in_a_request_is_found(request_: str, fields: dict[str, Any]) -> None:
    [rule] = asked_constraints(request_, NAMES)
    assert {name: getattr(rule, name) for name in fields} == fields
    assert rule.hard


@pytest.mark.parametrize(
    "request_",
    [
        "Find a house whose porch has at most two steps and a garden",
        "Only use official figures",
        "Don't use long words",
        'Translate "use at most 2 steps" into Norwegian',
        "The sign says: “最多两步”",
        "He walked up to 3 steps behind her",
    ],
)
def test_ordinary_words_of_a_request_are_no_constraint(request_: str) -> None:
    assert asked_constraints(request_, NAMES) == []


async def test_a_plan_with_more_steps_than_the_constraint_allows_is_repaired(
    scripted: Script,
) -> None:
    profile = Profile(hard_constraints=("at most 2 steps",))
    made, model = await planned(scripted, "Find x", steps(4), steps(2), profile=profile)
    assert not plan_of(made).degraded
    assert len(plan_of(made).steps) == 2
    assert "At most 2 steps" in model.prompts[0][1].text
    assert "more than 2" in model.prompts[1][-1].text


async def test_a_request_that_allows_two_steps_never_gets_more(scripted: Script) -> None:
    made, _ = await planned(scripted, "查一下 x，最多两步", steps(4), steps(4), steps(3))
    assert plan_of(made).degraded
    assert any(each.code == "PS502" for each in made.problems)
    assert made.draft is not None
    left = salvage(made.draft, made.problems, max_steps=6)
    assert left is not None
    assert len(left.steps) == 2


async def test_a_tool_beyond_the_only_ones_allowed_is_a_problem_and_repaired(
    scripted: Script,
) -> None:
    made, _ = await planned(
        scripted, "Find x; only use calculator", steps(2), steps(2, tool="calculator")
    )
    assert [step.to_json().get("tool") for step in plan_of(made).steps] == ["calculator", None]


def test_a_list_counts_as_many_calls_as_it_has_items() -> None:
    each = {"id": "e", "tool": "web_search", "inputs": {"q": "{{item}}"}}
    plan = Plan.model_validate(
        {"goal": "x", "steps": [{"id": "m", "over": ["a", "b", "c"], "each": each}]}
    )
    rules = [read_constraint("no more than 2 tool calls")]
    [found] = constraint_problems(plan, Catalogue.of(TOOLS), rules)
    assert found.code == "PS502"
    assert "3 calls" in found.message


@pytest.mark.parametrize("rule", ["Don't use clerk", "不要使用clerk", "read only"])
def test_a_constraint_against_a_tool_or_its_effect_holds_for_agents_too(rule: str) -> None:
    clerk = AgentSpec(name="Clerk", description="Files papers", effect=Effect.WRITE)
    each = {"id": "e", "agent": "Clerk", "task": "file {{item}}"}
    steps = [{"id": "a", "agent": "Clerk", "task": "x"}, {"id": "m", "over": ["p"], "each": each}]
    plan = Plan.model_validate({"goal": "x", "steps": steps})
    found = list(constraint_problems(plan, Catalogue.of(TOOLS), [read_constraint(rule)], [clerk]))
    assert [(each.code, each.step, each.path) for each in found] == [
        ("PS502", name, ("agent",)) for name in ("a", "e")
    ]


@pytest.mark.parametrize("rule", ["Only use web_search", "read only", "at most 2 calls"])
def test_a_constraint_on_calls_is_left_to_the_person_where_a_template_is_called(rule: str) -> None:
    steps = [{"id": "a", "tool": "web_search"}, {"id": "p", "template": "weekly"}]
    plan = Plan.model_validate({"goal": "x", "steps": steps})
    rules = [read_constraint(rule)]
    [found] = constraint_problems(plan, Catalogue.of(TOOLS), rules, templates=["weekly"])
    assert found.code == "PS503"


def test_only_use_of_something_that_is_no_tool_is_left_to_the_reviewer() -> None:
    plan = Plan.model_validate(steps(2))
    for text in ("Only use official sources", "Only use official"):
        [found] = constraint_problems(plan, Catalogue.of(TOOLS), [read_constraint(text)])
        assert found.code == "PS503"


UNDERSTOOD = [
    ("every weekday at 9 summarise the news", "cron 0 9 * * 1-5 UTC", "summarise the news"),
    ("every 15 minutes check the queue", "every 15 minutes", "check the queue"),
    ("check it every fifteen minutes and mail me", "every 15 minutes", "check it and mail me"),
    ("Check the weather daily at 07:15.", "daily at 07:15 UTC", "Check the weather."),
    ("on the first of each month send the invoice", "cron 0 9 1 * * UTC", "send the invoice"),
    ("Every Monday and Thursday at 10am, mail me", "cron 0 10 * * 1,4 UTC", "mail me"),
    ("weekly on Friday at 4:30 pm send the report", "cron 30 16 * * 5 UTC", "send the report"),
    ("at 9:30 every day, look at the logs", "daily at 09:30 UTC", "look at the logs"),
    ("every day at 9 in the evening back up", "daily at 21:00 UTC", "back up"),
    ("Monday to Friday at 8am check mail", "cron 0 8 * * 1-5 UTC", "check mail"),
    ("every weekend at 10 water the plants", "cron 0 10 * * 6,0 UTC", "water the plants"),
    ("ping the server once an hour", "every hour", "ping the server"),
    ("every half hour ping it", "every 30 minutes", "ping it"),
    ("on the last Friday of every month at 18:00 pay", "cron 0 18 * * 5L UTC", "pay"),
    ("on the last day of each month at noon pay", "cron 0 12 L * * UTC", "pay"),
    ("every month on the 1st at 8 do it", "cron 0 8 1 * * UTC", "do it"),
    ("every day at 9 and 17 look", "cron 0 9,17 * * * UTC", "look"),
    ("Every day at 9, what is the weather?", "daily at 09:00 UTC", "what is the weather?"),
    ("check the weather every day", "daily at 09:00 UTC", "check the weather"),
    ("每天早上九点给我发天气", "daily at 09:00 UTC", "给我发天气"),
    ("每隔5分钟检查一次服务器", "every 5 minutes", "检查一次服务器"),
    ("每周一、三、五下午三点半提醒我锻炼", "cron 30 15 * * 1,3,5 UTC", "提醒我锻炼"),
    ("每個星期日下午3點打電話", "cron 0 15 * * 0 UTC", "打電話"),
    ("每个工作日9:30总结新闻", "cron 30 9 * * 1-5 UTC", "总结新闻"),
    ("每周一到周五早上八点查邮件", "cron 0 8 * * 1-5 UTC", "查邮件"),
    ("每个月十五日中午12点交房租", "cron 0 12 15 * * UTC", "交房租"),
    ("每月最后一天晚上8点结账", "cron 0 20 L * * UTC", "结账"),
    ("每半小时看一次价格", "every 30 minutes", "看一次价格"),
    ("每两个小时看看", "every 2 hours", "看看"),
    ("北京时间每天早上7点15分播报天气", "daily at 07:15 Asia/Shanghai", "播报天气"),
    ("请每天晚上十点一刻备份数据库", "daily at 22:15 UTC", "请备份数据库"),
    ("每天晚上零点备份", "daily at 00:00 UTC", "备份"),
    ("每天9点和17点看看", "cron 0 9,17 * * * UTC", "看看"),
]


def read(text: str, **options: str) -> Recurrence:
    found = recurrence(text, **options)
    assert found is not None
    return found


@pytest.mark.parametrize(("text", "when", "rest"), UNDERSTOOD, ids=[each[0] for each in UNDERSTOOD])
def test_words_are_understood_and_taken_out(text: str, when: str, rest: str) -> None:
    found = read(text)
    assert (str(found.timing), found.rest, found.flaw) == (when, rest, "")


@pytest.mark.parametrize(
    "text",
    [
        *("what do people eat every day?", "how many trains run every hour in Oslo?"),
        *("Write the daily report", "Summarise what changed on weekdays"),
        *("meet Ada on Monday at 9", "what is the weather tomorrow at 9?"),
        *("Compare every file with every other file", "人们每天吃什么？", "每日新闻汇总"),
        *("工作日和周末的区别", ""),
    ],
)
def test_what_is_no_wish_to_do_it_again_is_left_alone(text: str) -> None:
    assert recurrence(text) is None


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("every 30 seconds look", "once a minute"),
        ("每30秒看看", "once a minute"),
        ("every day at 9 and 17:30 look", "differ in their minutes"),
        ("every day at 9 do a and every Friday at 5 do b", "more than one time"),
        ("every 3 days at 9 do x", "no time of day"),
        ("every day at 25:00 look", "no such time"),
        ("每天25点看", "no such time"),
        ("every day at 13pm look", "no such time"),
        ("on the 45th of each month at 9 look", "bad day-of-month"),
        ("每隔两天打扫", "not clear"),
    ],
)
def test_what_cannot_be_one_schedule_says_why_and_changes_nothing(text: str, flaw: str) -> None:
    found = read(text)
    assert (found.timing, found.rest) == (None, text)
    assert flaw in found.flaw


def test_what_was_not_said_is_told_as_assumed() -> None:
    assert read("every Monday check the shop").assumed == "at 09:00, since no time was said"
    exact = read("every Monday at 9 check the shop", timezone="Europe/Oslo")
    assert (exact.assumed, exact.timing and exact.timing.timezone) == ("", "Europe/Oslo")


def test_a_yes_in_the_words_is_taken_out() -> None:
    for text in ("every day at 9 look, I confirm", "每天9点看看，确认"):
        assert read(text).rest in ("look", "看看")


@given(st.text(max_size=60), st.sampled_from(["every day at 9", "每天早上九点", "every 5 minutes"]))
def test_any_text_can_be_read(noise: str, words: str) -> None:
    recurrence(noise)
    recurrence(f"{noise} {words} {noise}")


async def test_triage_plans_what_is_left_and_carries_the_wish() -> None:
    model = ScriptedModel(
        {"decision": "answer", "reason": "r", "query": "say hello", "answer": "Hi!"}
    )
    decided = await triage("every day at 9 say hello", model=model, timezone="Europe/Oslo")
    assert (decided.decision, decided.query) == (Decision.PLAN, "say hello")
    assert str(decided.schedule) == "daily at 09:00 Europe/Oslo"
    assert "every day" not in model.prompts[0][-1].text
    assert (await triage("say hello")).schedule is None
    only_when = await triage("every day at 9")
    assert (only_when.schedule, only_when.query) == (None, "every day at 9")


@pytest.mark.parametrize(
    ("task", "bare"),
    [
        ("Check the price of Tesla every hour", "Check the price of Tesla"),
        ("every day at 9:30 look at Apple", "look at Apple"),
        ("每天早上九点检查苹果股价", "检查苹果股价"),
        ("look at Apple", "look at Apple"),
    ],
)
def test_the_tasks_of_a_scheduled_plan_do_not_speak_of_its_schedule(task: str, bare: str) -> None:
    steps = [{"id": "a", "agent": "watcher", "task": task}]
    once, _ = without_schedule_words(Plan.model_validate({"steps": steps}))
    assert once.to_json()["steps"][0]["task"] == task  # type: ignore[index, call-overload]
    plan = Plan.model_validate({"steps": steps, "schedule": {"every_minutes": 60}})
    done, notes = without_schedule_words(plan)
    assert done.to_json()["steps"][0]["task"] == bare  # type: ignore[index, call-overload]
    assert [(each.code, each.path) for each in notes] == (
        [("PS013", ("task",))] if task != bare else []
    )
    assert without_schedule_words(done) == (done, [])


REFUND = ToolSpec(
    name="refund",
    description="Pay an order back",
    effect=Effect.FINAL,
    input_schema={
        "type": "object",
        "properties": {
            "order_id": {"type": "string"},
            "amount": {"type": "number"},
            "reason": {"enum": ["late", "broken1"]},
            "copies": {"type": "integer", "default": 2},
            "to_account": True,
        },
    },
)
LOOK = ToolSpec(name="look", effect=Effect.READ)


def made_up(request: str, tool: str = "refund", **inputs: Any) -> list[str]:
    plan = Plan.model_validate(
        {"goal": "g", "steps": [{"id": "r", "tool": tool, "inputs": inputs}]}
    )
    return [each.message for each in made_up_values(plan, [REFUND, LOOK], request)]


@pytest.mark.parametrize(
    "inputs",
    [
        {"order_id": "2026-11-15"},
        {"order_id": "2026-11-15T09:29:20+00:00"},
        {"order_id": "A-77"},
        {"amount": 99.5},
        {"to": ["mallory@example.com"]},
        {"note": "DE89370400440532013000"},
        {"to_account": "DE89370400440532013000"},
    ],
)
def test_a_value_in_no_source_is_told_as_made_up(inputs: dict[str, Any]) -> None:
    (message,) = made_up("Refund my last order", **inputs)
    assert message.endswith("is in nothing you wrote or that was looked up")


@pytest.mark.parametrize(
    "inputs",
    [
        {"order_id": "A-77", "amount": 1250},
        {"order_id": {"$from": "list", "$path": [0, "id"]}},
        {"reason": "broken1", "copies": 2, "text": "Dear Ann, here are your 3 things back."},
        {"path": "out/report2.csv", "quick": True, "date": "2026-11-16"},
    ],
)
def test_a_value_that_was_given_or_that_names_nothing_is_not_made_up(
    inputs: dict[str, Any],
) -> None:
    assert made_up("Refund order a77, all 1,250 of it", **inputs) == []


def test_a_made_up_value_is_found_inside_a_map() -> None:
    each = {"id": "e", "tool": "refund", "inputs": {"order_id": "A-77"}}
    plan = Plan.model_validate({"goal": "g", "steps": [{"id": "m", "over": [1], "each": each}]})
    assert [each.step for each in made_up_values(plan, [REFUND], "Refund all")] == ["m"]


def test_chinese_is_found_in_every_block_and_nothing_else_is() -> None:
    assert all(HAN.search(each) for each in "中㐀豈𠀀")
    assert not any(HAN.search(each) for each in "aéかハ한，。")
    assert "\u3040-\u30ff" in CJK_RANGE
