"""The time of an event as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from plansmith.plan.event_body import moment, moment_text


class _OtherTime(datetime):
    """As libraries for tests make them."""


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=8))])))
def test_the_text_of_a_time_is_the_same_on_the_fast_way(at: datetime) -> None:
    other = _OtherTime.fromtimestamp(0, UTC).replace(microsecond=at.microsecond)
    for each in (at, at.replace(microsecond=0), other):
        assert moment_text(each) == moment(each).encode()
