from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.errors import Misconfigured, ToolFailed
from plansmith.ports import Call
from plansmith.testing import FakeClock
from plansmith.testing.contracts import ToolSourceContract
from plansmith_desk.calendar import CalendarTools
from plansmith_desk.calendar.moments import Moment, moment, plus, weekdays_between
from plansmith_desk.calendar.phrases import HOLIDAYS, read_phrase


class TestCalendarContract(ToolSourceContract):
    good_call = ("time.now", {})

    def make_source(self) -> CalendarTools:
        return CalendarTools()


async def use(tool: str, **words: Any) -> Any:
    clock = FakeClock(datetime(2026, 3, 1, 12, tzinfo=UTC))
    source = CalendarTools(zone="Europe/Oslo", clock=clock)
    return await source.call(f"time.{tool}", words, Call(key="k"))


async def test_now_is_the_clocks_time_in_a_zone() -> None:
    assert (await use("now"))["iso"] == "2026-03-01T13:00:00+01:00"
    there = await use("now", zone="Asia/Tokyo")
    assert (there["time"], there["weekday"], there["week"]) == ("21:00:00", "Sunday", "2026-W09")


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2026-06-01", "2026-06-01"),
        ("2026-06-01T12:00", "2026-06-01T12:00:00+02:00"),
        ("2026-06-01T12:00:00.25", "2026-06-01T12:00:00.250000+02:00"),
        ("2026-06-01T12:00Z", "2026-06-01T12:00:00+00:00"),
        ("20260601T1200-0300", "2026-06-01T12:00:00-03:00"),
    ],
)
async def test_iso_forms_are_read(text: str, iso: str) -> None:
    assert (await use("describe", time=text))["iso"] == iso


@pytest.mark.parametrize(
    "text",
    [
        *("someday", "2026", "2026-02-30", "2026-01-01T23:59:60", "01/02/2026"),
        *("", "9" * 500, "9999-12-31T23:59-12:00"),
        *("0001-01-01", "2026-06-01T25:00"),
    ],
)
async def test_what_is_no_time_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(ToolFailed) as refused:
        await use("describe", time=text)
    assert refused.value.hint


async def test_a_day_is_described() -> None:
    found = await use("describe", time="2024-12-31")
    assert found["weekday"] == "Tuesday"
    assert found["week"] == "2025-W01"
    assert (found["quarter"], found["day_of_year"], found["leap_year"]) == (4, 366, True)
    assert not found["summer_time"]


async def test_a_time_the_clocks_skip_is_moved_and_told() -> None:
    found = await use("describe", time="2026-03-29T02:30")
    assert found["iso"] == "2026-03-29T03:30:00+02:00"
    assert "02:30 does not exist in Europe/Oslo" in found["notes"][0]


async def test_a_time_that_comes_twice_is_the_first_and_told() -> None:
    found = await use("describe", time="2026-10-25T02:30")
    assert found["iso"] == "2026-10-25T02:30:00+02:00"
    assert "comes twice" in found["notes"][0]
    second = await use("describe", time="2026-10-25T02:30+01:00")
    assert second["utc"] == "2026-10-25T01:30:00Z"
    assert "notes" not in second


async def test_times_are_converted_between_zones() -> None:
    found = await use("convert", time="2026-01-15T09:00", zone="America/New_York", to="Asia/Tokyo")
    assert found["iso"] == "2026-01-15T23:00:00+09:00"
    assert (await use("convert", time="2026-06-01T12:00", to="+05:30"))["time"] == "15:30:00"
    day = await use("convert", time="2026-06-01", to="UTC")
    assert day["iso"] == "2026-05-31T22:00:00+00:00"
    assert "midnight" in day["notes"][0]


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("Europe/Olso", "Europe/Oslo"),
        ("USA", "several time zones.*New York, Chicago"),
        ("Mars/Base", "IANA"),
        ("Paris, Texas", "IANA"),
        ("../../etc/passwd", "IANA"),
        ("+99:00", "IANA"),
    ],
)
async def test_an_unknown_zone_is_refused_with_the_one_meant(zone: str, hint: str) -> None:
    with pytest.raises(ToolFailed, match=hint):
        await use("convert", time="2026-06-01T12:00", to=zone)


@pytest.mark.parametrize(
    ("start", "amounts", "iso"),
    [
        ("2026-01-31", {"months": 1}, "2026-02-28"),
        ("2026-03-31", {"months": -1}, "2026-02-28"),
        ("2026-06-01", {"weeks": 1, "days": -1}, "2026-06-07"),
        ("2026-06-05", {"weekdays": 1}, "2026-06-08"),
        ("2026-06-06", {"weekdays": -1}, "2026-06-05"),
        ("2026-06-05", {"weekdays": 10}, "2026-06-19"),
        ("2026-06-01", {"hours": 3}, "2026-06-01T03:00:00+02:00"),
        ("2026-03-28T12:00", {"days": 1}, "2026-03-29T12:00:00+02:00"),
        ("2026-03-28T12:00", {"hours": 24}, "2026-03-29T13:00:00+02:00"),
        ("2026-03-28T02:30", {"days": 1}, "2026-03-29T03:30:00+02:00"),
        ("2026-10-25T02:30", {"hours": 1}, "2026-10-25T02:30:00+01:00"),
        ("2026-01-01T00:00Z", {"seconds": -1}, "2025-12-31T23:59:59+00:00"),
    ],
)
async def test_time_is_added_by_calendar_and_by_clock(
    start: str, amounts: dict[str, int], iso: str
) -> None:
    assert (await use("add", time=start, **amounts))["iso"] == iso


async def test_amounts_out_of_range_are_refused() -> None:
    many: Any = {"years": 9999}, {"days": -4_000_000}, {"seconds": 10**12}, {}, {"days": 10**9}
    for amounts in many:
        with pytest.raises(ToolFailed):
            await use("add", time="2026-06-05", **amounts)


async def test_the_difference_is_said_in_every_way() -> None:
    found = await use("difference", **{"from": "2026-01-31", "to": "2026-03-01"})
    assert (found["days"], found["text"], found["weekdays"]) == (29, "1 month, 1 day", 20)
    over = await use("difference", **{"from": "2026-03-28T12:00", "to": "2026-03-29T12:00"})
    assert (over["seconds"], over["text"]) == (82_800, "1 day")
    days = await use("difference", **{"from": "2026-03-28", "to": "2026-03-30"})
    assert (days["days"], days["seconds"]) == (2, 172_800)
    back = await use("difference", **{"from": "2026-06-02T10:00Z", "to": "2026-06-01T09:00Z"})
    assert (back["negative"], back["seconds"]) == (True, -90_000)
    times = {"from": "2026-10-25T02:50+02:00", "to": "2026-10-25T02:10+01:00"}
    fold = await use("difference", **times)
    assert (fold["seconds"], fold["text"]) == (1200, "20 minutes")


def test_a_wrong_zone_in_the_settings_is_told_at_the_start() -> None:
    with pytest.raises(Misconfigured, match="Europe/Oslo"):
        CalendarTools(zone="oslo")


DAYS = st.dates(date(1900, 1, 1), date(2100, 12, 31))


@given(DAYS, st.integers(-3000, 3000))
def test_weekdays_added_are_the_weekdays_between(start: date, count: int) -> None:
    there = plus(moment(str(start), "UTC"), {"weekdays": count}).at.date()
    if start.weekday() < 5:
        assert weekdays_between(start, there) == count
    if count:
        assert there.weekday() < 5


@given(
    st.datetimes().map(lambda any_time: any_time.replace(year=1990 + any_time.year % 45, day=1)),
    st.sampled_from(["Europe/Oslo", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    st.integers(-100_000, 100_000),
)
def test_hours_are_added_on_the_clock_that_never_changes(
    wall: datetime, zone: str, hours: int
) -> None:
    start = moment(wall.isoformat(), zone)
    there = plus(start, {"hours": hours})
    passed = there.at.astimezone(UTC) - start.at.astimezone(UTC)
    assert passed == timedelta(hours=hours)
    assert isinstance(there, Moment)


TODAY = date(2026, 11, 16)  # a Monday


async def ask(tool: str, **words: Any) -> Any:
    source = CalendarTools(clock=FakeClock(datetime(2026, 11, 16, 9, 12, tzinfo=UTC)))
    found = await source.call(f"time.{tool}", words, Call(key="k"))
    specs = {spec.name: spec for spec in await source.tools()}
    jsonschema_rs.validate(specs[f"time.{tool}"].output_schema or {}, found)
    return found


@pytest.mark.parametrize(
    ("text", "day"),
    [
        *(("today", "2026-11-16"), ("yesterday", "2026-11-15"), ("in 3 days", "2026-11-19")),
        *(("in two weeks", "2026-11-30"), ("next Friday", "2026-11-20")),
        *(("last Friday", "2026-11-13"), ("24 December", "2026-12-24")),
        *(("Dec. 24, 2027", "2027-12-24"), ("Thursday, 24 December 2026", "2026-12-24")),
        *(("1 March next year", "2027-03-01"), ("15 November", "2027-11-15")),
        *(("29 February", "2028-02-29"), ("the 5th", "2026-12-05"), ("24.12.", "2026-12-24")),
        *(("2026/12/24", "2026-12-24"), ("12/24", "2026-12-24"), ("03/03", "2027-03-03")),
        ("New Year\N{RIGHT SINGLE QUOTATION MARK}s Day", "2027-01-01"),
        *(("Black Friday", "2026-11-27"), ("Easter 2027", "2027-03-28")),
        *(("Chinese New Year", "2027-02-06"), ("end of the month", "2026-11-30")),
        *(("end of Feb 2028", "2028-02-29"), ("12月底", "2026-12-31"), ("一个月后", "2026-12-16")),
        *(("半年后", "2027-05-16"), ("两个星期后", "2026-11-30"), ("周五", "2026-11-20")),
        *(("下周五", "2026-11-27"), ("下下周一", "2026-11-30"), ("十二月二十四日", "2026-12-24")),
        *(("下个月5号", "2026-12-05"), ("明年春节", "2027-02-06")),
    ],
)
async def test_a_spoken_date_is_read_from_the_day_that_is_today(text: str, day: str) -> None:
    assert (await ask("describe", time=text))["iso"] == day
    found = await ask("until", date=text)
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
        ("明晚8点", "2026-11-17T20:00:00+00:00"),
        ("明早八点一刻", "2026-11-17T08:15:00+00:00"),
        ("明天中午1点", "2026-11-17T13:00:00+00:00"),
        ("凌晨12点半", "2026-11-16T00:30:00+00:00"),
        ("今晚12点", "2026-11-17T00:00:00+00:00"),
        ("周五24点", "2026-11-21T00:00:00+00:00"),
        ("0:30 am", "2026-11-16T00:30:00+00:00"),
        ("now", "2026-11-16T09:12:00+00:00"),
    ],
)
async def test_a_spoken_time_of_day_is_read_too(text: str, time: str) -> None:
    assert (await ask("describe", time=text))["iso"] == time


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("03/04", r"3 April or 4 March.*2027-04-03 or 2027-03-04"),
        ("30 February", "there is no day"),
        ("13月1日", "no such month"),
        ("tomorrow at 25:00", "no such time of day"),
        ("春节 2050", "not known here"),
        ("9999年12月31日24点", "outside the years"),
        ("Christmas 0000", "not known here"),
        ("in 3 days and then some", "is not a time"),
    ],
)
async def test_a_date_that_is_none_or_could_be_two_is_refused(text: str, why: str) -> None:
    with pytest.raises(ToolFailed, match=why) as refused:
        await ask("until", date=text)
    assert refused.value.hint


async def test_the_days_until_a_date_are_counted_on_the_calendar_of_the_zone() -> None:
    assert await ask("until", date="24 December") == {
        "date": "2026-12-24",
        "weekday": "Thursday",
        "days": 38,
        "text": "Thursday, 24 December 2026: 38 days from today",
        "away": {"en": "38 days from today", "zh": "还有 38 天"},
    }
    assert (await ask("until", date="yesterday"))["text"].endswith(": 1 day ago")
    # At noon in London the next day has begun in Auckland.
    late = CalendarTools(
        zone="Pacific/Auckland", clock=FakeClock(datetime(2026, 11, 16, 12, tzinfo=UTC))
    )
    found: Any = await late.call("time.until", {"date": "2026-11-17"}, Call(key="k"))
    assert found["days"] == 0


async def test_a_weekday_that_some_understand_otherwise_is_told() -> None:
    found = await ask("until", date="next Friday")
    assert found["days"] == 4
    assert "2026-11-20; the one after it is 2026-11-27" in found["notes"][0]
    found = await ask("until", date="Monday, 24 December")
    assert found["notes"] == ["2026-12-24 is a Thursday"]


@pytest.mark.parametrize(
    ("start", "end", "days"),
    [("1 March", "24 December", 298), ("24 December", "3 January", 10), ("国庆节", "元旦", 92)],
)
async def test_a_span_between_days_without_years_goes_forward(
    start: str, end: str, days: int
) -> None:
    assert (await ask("difference", **{"from": start, "to": end}))["days"] == days


async def test_spoken_dates_are_added_to_and_converted() -> None:
    assert (await ask("add", time="tomorrow", days=90))["iso"] == "2027-02-15"
    found = await ask("convert", time="3pm", zone="New York", to="东京")
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
    found = await ask("now", zone=place)
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
