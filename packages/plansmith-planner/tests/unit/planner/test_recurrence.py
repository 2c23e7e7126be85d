"""When to do it again, understood from words in English and Chinese, and taken out of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith import Plan
from plansmith.plan.planning import Decision
from plansmith.testing import ScriptedModel
from plansmith_planner.language.recurrence import Recurrence, recurrence, without_schedule_words
from plansmith_planner.triage import triage

UNDERSTOOD = [
    ("every weekday at 9 summarise the news", "cron 0 9 * * 1-5 UTC", "summarise the news"),
    ("every 15 minutes check the queue", "every 15 minutes", "check the queue"),
    (
        "check the queue every fifteen minutes and mail me",
        "every 15 minutes",
        "check the queue and mail me",
    ),
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
    (
        "on the last Friday of every month at 18:00 do the books",
        "cron 0 18 * * 5L UTC",
        "do the books",
    ),
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
    found = read("every Monday check the shop")
    assert found.assumed == "at 09:00, since no time was said"
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
    plain = await triage("say hello")
    assert plain.schedule is None
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
