"""When something runs again: arithmetic, clock changes, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.errors import Misconfigured
from plansmith.plan.timing import (
    Timing,
    due,
    last_due,
    make_timing,
    next_fires,
    require_valid_timing,
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_intervals_count_from_the_anchor_whenever_one_looks() -> None:
    anchor, timing = at("2026-01-01T00:01:07Z"), Timing(every_minutes=90)
    for minutes in (0, 1, 89, 90, 91, 100_000):
        [first] = next_fires(timing, after=anchor + timedelta(minutes=minutes), anchor=anchor)
        assert (first - anchor) % timedelta(minutes=90) == timedelta(0)
        assert timedelta(0) < first - anchor - timedelta(minutes=minutes) <= timedelta(minutes=90)
    early = next_fires(timing, after=anchor - timedelta(days=1), anchor=anchor)
    assert early == [anchor + timedelta(minutes=90)]


# Zone, the night (UTC) and its wall-clock minutes that are skipped or come twice. Midnight in
# Santiago; half an hour on Lord Howe; two hours at Troll.
SKIPPED = [
    ("Europe/Oslo", "2026-03-28", "02:30", "2026-03-29T01:00:00+00:00"),
    ("America/New_York", "2026-03-07", "02:30", "2026-03-08T07:00:00+00:00"),
    ("Australia/Lord_Howe", "2026-10-03", "02:15", "2026-10-03T15:30:00+00:00"),
    ("Pacific/Chatham", "2026-09-26", "03:15", "2026-09-26T14:00:00+00:00"),
    ("America/Santiago", "2026-09-05", "00:30", "2026-09-06T04:00:00+00:00"),
    ("Antarctica/Troll", "2026-03-28", "02:30", "2026-03-29T01:00:00+00:00"),
]
REPEATED = [
    ("Europe/Oslo", "2026-10-24", "02:30", "2026-10-25T00:30:00+00:00"),
    ("America/New_York", "2026-10-31", "01:30", "2026-11-01T05:30:00+00:00"),
    ("Australia/Lord_Howe", "2026-04-04", "01:45", "2026-04-04T14:45:00+00:00"),
    ("Pacific/Chatham", "2026-04-04", "03:15", "2026-04-04T13:30:00+00:00"),
    ("America/Santiago", "2026-04-04", "23:30", "2026-04-05T02:30:00+00:00"),
    ("Antarctica/Troll", "2026-10-24", "01:30", "2026-10-24T23:30:00+00:00"),
]


@pytest.mark.parametrize(("zone", "day", "clock", "instant"), SKIPPED + REPEATED)
def test_on_the_nights_the_clocks_change_each_local_day_has_one_run(
    zone: str, day: str, clock: str, instant: str
) -> None:
    hour, minute = map(int, clock.split(":"))
    after = at(f"{day}T00:00:00").replace(tzinfo=ZoneInfo(zone)) - timedelta(days=2)
    for timing in (
        make_timing(daily_at=clock, timezone=zone),
        make_timing(cron=f"{minute} {hour} * * *", timezone=zone),
    ):
        times = next_fires(timing, after=after, count=6)
        assert at(instant) in times
        days = [each.astimezone(ZoneInfo(zone)).date() for each in times]
        assert all(two - one == timedelta(days=1) for one, two in pairwise(days))


@pytest.mark.parametrize(("zone", "day", "clock", "instant"), SKIPPED + REPEATED)
def test_where_any_hour_will_do_a_run_comes_each_time_the_clock_shows_the_minute(
    zone: str, day: str, clock: str, instant: str
) -> None:
    del clock, instant
    after = at(f"{day}T12:00:00+00:00") - timedelta(days=1)
    until = after + timedelta(days=3)
    local = ZoneInfo(zone)
    timing = make_timing(cron="*/15 * * * *", timezone=zone)
    times = list(due(timing, after=after, until=until, anchor=after))
    minutes = (after + timedelta(minutes=each) for each in range(1, 3 * 1440 + 1))
    assert times == [each for each in minutes if each.astimezone(local).minute % 15 == 0]


def test_a_run_every_second_hour_is_not_lost_where_the_clocks_change_by_half_an_hour() -> None:
    zone = ZoneInfo("Australia/Lord_Howe")
    timing = make_timing(cron="0 */2 * * *", timezone=zone.key)
    times = next_fires(timing, after=at("2026-04-04T12:00:00Z"), count=12)
    assert [each.astimezone(zone).hour for each in times] == [0, *range(2, 24, 2)]


def test_once_is_local_unless_it_says_where() -> None:
    local = make_timing(once_at="2026-12-01T09:00", timezone="Asia/Shanghai")
    there = make_timing(once_at="2026-12-01T09:00:00+01:00", timezone="Asia/Shanghai")
    now = at("2026-11-01T00:00:00Z")
    assert next_fires(local, after=now, count=3) == [at("2026-12-01T01:00:00Z")]
    assert next_fires(there, after=now, count=3) == [at("2026-12-01T08:00:00Z")]
    assert next_fires(there, after=at("2026-12-01T08:00:00Z")) == []
    gap = make_timing(once_at="2026-03-29T01:30", timezone="Europe/London")
    assert next_fires(gap, after=at("2026-01-01T00:00:00Z")) == [at("2026-03-29T01:00:00Z")]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"daily_at": "9:30"}, "HH:MM"),
        ({"daily_at": "24:00"}, "HH:MM"),
        ({"daily_at": "noonish"}, "HH:MM"),
        ({"every_minutes": 0}, "1 or more"),
        ({"every_minutes": 10**9}, "ten years"),
        ({"every_minutes": "5"}, "whole number"),
        ({"cron": "* * * *"}, "minute hour day"),
        ({"cron": "0 0 9 * * *"}, "6 fields, not five"),
        ({"cron": "61 * * * *"}, "bad minute"),
        ({"cron": "0 0 30 2 *"}, "bad day-of-month"),
        ({"cron": "0 9 * * MOONDAY"}, "bad day-of-week"),
        ({"once_at": "2026-13-01"}, "not a time"),
        ({"once_at": "tomorrow at nine"}, "not a time"),
        ({"daily_at": "09:30", "timezone": "Europe/Londn"}, "did you mean 'Europe/London'?"),
        ({"daily_at": "09:30", "timezone": "../etc/passwd"}, "no time zone"),
        ({"daily_at": "09:30", "cron": "0 9 * * *"}, "exactly one"),
        ({}, "exactly one"),
        ({"hourly": True}, "hourly is not known"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        make_timing(**fields)
    assert message in str(refused.value)
    assert refused.value.hint


def test_a_stored_timing_is_readable_where_its_zone_is_not_known() -> None:
    timing = Timing(daily_at="09:30", timezone="Mars/Olympus")
    assert Timing.model_validate(timing.to_json()) == timing
    with pytest.raises(Misconfigured, match="no time zone"):
        require_valid_timing(timing)


def test_timings_say_in_words_when_they_are() -> None:
    words = [str(Timing(every_minutes=each)) for each in (1, 5, 60, 120, 1440, 20160)]
    assert words == [
        *("every minute", "every 5 minutes", "every hour", "every 2 hours"),
        *("every day", "every 2 weeks"),
    ]
    assert str(Timing(daily_at="09:30", timezone="Europe/Oslo")) == "daily at 09:30 Europe/Oslo"
    assert str(Timing(cron="0 9 * * 1-5")) == "cron 0 9 * * 1-5 UTC"


ZONES = sorted({zone for zone, *_ in SKIPPED} | {"UTC", "Asia/Kathmandu", "Pacific/Apia"})
FIELD = {
    "minute": st.sampled_from(["0", "30", "*/15", "7,37", "*"]),
    "hour": st.sampled_from(["0", "1", "2", "*", "*/2", "1-3", "0,12,23"]),
    "day": st.sampled_from(["*", "1", "15", "L"]),
    "week": st.sampled_from(["*", "1-5", "0", "MON#1"]),
}
CRONS = st.tuples(*FIELD.values()).map(lambda each: f"{each[0]} {each[1]} {each[2]} * {each[3]}")
MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
WAYS = st.one_of(
    st.builds(lambda minutes: {"every_minutes": minutes}, st.integers(1, 100_000)),
    st.builds(
        lambda hour, minute: {"daily_at": f"{hour:02d}:{minute:02d}"},
        st.integers(0, 23),
        st.integers(0, 59),
    ),
    st.builds(lambda cron: {"cron": cron}, CRONS),
)


@given(WAYS, st.sampled_from(ZONES), MOMENTS, MOMENTS)
def test_fires_are_in_order_and_the_same_wherever_one_starts_to_look(
    way: dict[str, Any], zone: str, after: datetime, anchor: datetime
) -> None:
    timing = Timing.model_validate(way | {"timezone": zone})
    times = next_fires(timing, after=after, anchor=anchor, count=8)
    assert all(one < two for one, two in pairwise([after, *times]))
    for place, each in enumerate(times[:-1]):
        assert next_fires(timing, after=each, anchor=anchor) == [times[place + 1]]
    if times:
        just_before = times[0] - timedelta(microseconds=1)
        if just_before >= after:
            assert next_fires(timing, after=just_before, anchor=anchor) == [times[0]]
        assert last_due(timing, after=after, until=times[-1], anchor=anchor) == times[-1]


@given(CRONS, st.sampled_from(ZONES), MOMENTS)
def test_a_run_is_at_the_minute_it_names_unless_the_clocks_skip_that(
    cron: str, zone: str, after: datetime
) -> None:
    local = ZoneInfo(zone)
    for each in next_fires(Timing(cron=cron, timezone=zone), after=after, count=5):
        wall = each.astimezone(local)
        before = (each - timedelta(seconds=1)).astimezone(local)
        at_end_of_gap = wall.utcoffset() != before.utcoffset()
        fields = cron.split()
        if not at_end_of_gap and fields[0].isdigit():
            assert wall.minute == int(fields[0])
        if not at_end_of_gap and fields[1].isdigit():
            assert wall.hour == int(fields[1])
