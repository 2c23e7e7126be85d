"""Dates, times and zones as people say them, in English and Chinese."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.errors import ToolFailed
from plansmith.ports import Call
from plansmith.testing import FakeClock
from plansmith_desk.calendar import CalendarTools
from plansmith_desk.calendar.phrases import HOLIDAYS, read_phrase

TODAY = date(2026, 11, 16)  # a Monday


async def use(tool: str, **words: Any) -> Any:
    source = CalendarTools(clock=FakeClock(datetime(2026, 11, 16, 9, 12, tzinfo=UTC)))
    found = await source.call(f"time.{tool}", words, Call(key="k"))
    specs = {spec.name: spec for spec in await source.tools()}
    jsonschema_rs.validate(specs[f"time.{tool}"].output_schema or {}, found)
    return found


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("today", "2026-11-16"),
        ("yesterday", "2026-11-15"),
        ("in 3 days", "2026-11-19"),
        ("in two weeks", "2026-11-30"),
        ("next Friday", "2026-11-20"),
        ("last Friday", "2026-11-13"),
        ("24 December", "2026-12-24"),
        ("Dec. 24, 2027", "2027-12-24"),
        ("Thursday, 24 December 2026", "2026-12-24"),
        ("1 March next year", "2027-03-01"),
        ("15 November", "2027-11-15"),
        ("29 February", "2028-02-29"),
        ("the 5th", "2026-12-05"),
        ("24.12.", "2026-12-24"),
        ("2026/12/24", "2026-12-24"),
        ("12/24", "2026-12-24"),
        ("03/03", "2027-03-03"),
        ("New Year\N{RIGHT SINGLE QUOTATION MARK}s Day", "2027-01-01"),
        ("Black Friday", "2026-11-27"),
        ("Easter 2027", "2027-03-28"),
        ("Chinese New Year", "2027-02-06"),
        ("end of the month", "2026-11-30"),
        ("end of Feb 2028", "2028-02-29"),
        ("12月底", "2026-12-31"),
        ("一个月后", "2026-12-16"),
        ("半年后", "2027-05-16"),
        ("两个星期后", "2026-11-30"),
        ("周五", "2026-11-20"),
        ("下周五", "2026-11-27"),
        ("下下周一", "2026-11-30"),
        ("十二月二十四日", "2026-12-24"),
        ("下个月5号", "2026-12-05"),
        ("明年春节", "2027-02-06"),
    ],
)
async def test_a_spoken_date_is_read_from_the_day_that_is_today(text: str, day: str) -> None:
    assert (await use("describe", time=text))["iso"] == day
    found = await use("until", date=text)
    assert found["date"] == day
    assert found["days"] == (date.fromisoformat(day) - TODAY).days


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("tomorrow at 15:00", "2026-11-17T15:00:00+00:00"),
        ("3 pm", "2026-11-16T15:00:00+00:00"),
        ("24 December, noon", "2026-12-24T12:00:00+00:00"),
        ("明天下午3点半", "2026-11-17T15:30:00+00:00"),
        ("12月24日晚上八点", "2026-12-24T20:00:00+00:00"),
        ("now", "2026-11-16T09:12:00+00:00"),
    ],
)
async def test_a_spoken_time_of_day_is_read_too(text: str, time: str) -> None:
    assert (await use("describe", time=text))["iso"] == time


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("03/04", r"3 April or 4 March.*2027-04-03 or 2027-03-04"),
        ("30 February", "there is no day"),
        ("13月1日", "no such month"),
        ("tomorrow at 25:00", "no such time of day"),
        ("春节 2050", "not known here"),
        ("Christmas 0000", "not known here"),
        ("in 3 days and then some", "is not a time"),
    ],
)
async def test_a_date_that_is_none_or_could_be_two_is_refused(text: str, why: str) -> None:
    with pytest.raises(ToolFailed, match=why) as refused:
        await use("until", date=text)
    assert refused.value.hint


async def test_the_days_until_a_date_are_counted_on_the_calendar_of_the_zone() -> None:
    assert await use("until", date="24 December") == {
        "date": "2026-12-24",
        "weekday": "Thursday",
        "days": 38,
        "text": "Thursday, 24 December 2026: 38 days from today",
        "away": {"en": "38 days from today", "zh": "还有 38 天"},
    }
    assert (await use("until", date="yesterday"))["text"].endswith(": 1 day ago")
    # At noon in London the next day has begun in Auckland.
    late = CalendarTools(
        zone="Pacific/Auckland", clock=FakeClock(datetime(2026, 11, 16, 12, tzinfo=UTC))
    )
    found: Any = await late.call("time.until", {"date": "2026-11-17"}, Call(key="k"))
    assert found["days"] == 0


async def test_a_weekday_that_some_understand_otherwise_is_told() -> None:
    found = await use("until", date="next Friday")
    assert found["days"] == 4
    assert "2026-11-20; the one after it is 2026-11-27" in found["notes"][0]
    found = await use("until", date="Monday, 24 December")
    assert found["notes"] == ["2026-12-24 is a Thursday"]


@pytest.mark.parametrize(
    ("start", "end", "days"),
    [
        ("1 March", "24 December", 298),
        ("24 December", "3 January", 10),
        ("国庆节", "元旦", 92),
    ],
)
async def test_a_span_between_days_without_years_goes_forward(
    start: str, end: str, days: int
) -> None:
    assert (await use("difference", **{"from": start, "to": end}))["days"] == days


async def test_spoken_dates_are_added_to_and_converted() -> None:
    assert (await use("add", time="tomorrow", days=90))["iso"] == "2027-02-15"
    found = await use("convert", time="3pm", zone="New York", to="东京")
    assert found["iso"] == "2026-11-17T05:00:00+09:00"


@pytest.mark.parametrize(
    ("place", "zone", "clock"),
    [
        ("东京", "Asia/Tokyo", "18:12:00"),
        ("Beijing time", "Asia/Shanghai", "17:12:00"),
        ("Paris, France", "Europe/Paris", "10:12:00"),
        ("são paulo", "America/Sao_Paulo", "06:12:00"),
        ("India", "Asia/Kolkata", "14:42:00"),
        ("San Jose, Costa Rica", "America/Costa_Rica", "03:12:00"),
        ("Toronto, Ontario", "America/Toronto", "04:12:00"),
        ("美国纽约", "America/New_York", "04:12:00"),
        ("Ouagadougou", "Africa/Ouagadougou", "09:12:00"),
        ("local", "UTC", "09:12:00"),
    ],
)
async def test_the_time_of_a_city_or_country_is_told(place: str, zone: str, clock: str) -> None:
    clock_now = FakeClock(datetime(2026, 11, 16, 9, 12, tzinfo=UTC))
    source = CalendarTools(clock=clock_now)
    found: Any = await source.call("time.now", {"zone": place}, Call(key="k"))
    assert (found["zone"], found["time"]) == (zone, clock)


@given(st.text(max_size=30) | st.from_regex(r"[a-z0-9 ./:年月日号周下上个天后前-]{1,20}"))
def test_no_text_breaks_the_reader_of_spoken_dates(text: str) -> None:
    with suppress(ToolFailed):
        read_phrase(text, TODAY)


@given(st.dates(date(2025, 1, 1), date(2033, 12, 31)), st.sampled_from(sorted(HOLIDAYS)))
def test_a_holiday_is_today_or_within_the_thirteen_months_that_follow(
    today: date, name: str
) -> None:
    found = read_phrase(name, today)
    assert found is not None
    assert today <= found.day <= today + timedelta(days=396)
