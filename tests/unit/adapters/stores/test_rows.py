from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.adapters.stores import rows
from plansmith.errors import JournalDamaged, StaleWriter
from plansmith.plan.data import content_hash, content_of
from plansmith.plan.events import (
    EVENT_TYPES,
    Actor,
    AnyBody,
    Event,
    RunCreated,
    StepDone,
    StepProgressed,
    next_event,
)
from plansmith.testing.contracts import journal

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200) | st.sampled_from(
    [
        "",
        "\n",
        "\x00",
        "\x01",
        "a" * 64,
        "0" * 80,
        "0" * 128,
        '{"hash":"\x00"}',
        content_hash(1) * 3,
    ]
)
MOMENTS = st.datetimes(timezones=st.just(UTC))


@st.composite
def journals(draw: st.DrawFn) -> list[Event]:
    run, name = draw(TEXT), draw(TEXT)
    events: list[Event] = []
    for _ in range(draw(st.integers(1, 40))):
        text = draw(TEXT)
        bodies: list[AnyBody] = [
            RunCreated(request=text),
            StepProgressed(step="a", text=text),
            StepDone(step=text, result=content_hash(text)),
        ]
        by = Actor(kind=draw(st.sampled_from(["person", "model", "system"])), name=name)
        body = draw(st.sampled_from(bodies))
        last = events[-1] if events else None
        events.append(next_event(body, run=run, by=by, at=draw(MOMENTS), last=last))
    return events


def stored(events: list[Event]) -> list[tuple[int, bytes]]:
    return [(entry.number, entry.data) for entry in rows.entries_of(events)]


@given(journals(), st.integers(-1, 45))
def test_every_event_comes_back_from_its_row(events: list[Event], after: int) -> None:
    behind = [row for row in stored(events) if row[0] >= rows.journal_start(after)]
    assert rows.read_journal(events[0].run, behind, after=after) == events[max(after, 0) :]


@given(journals(), st.data())
def test_a_row_altered_anywhere_is_found(events: list[Event], data: st.DataObject) -> None:
    whole = stored(events)
    place = data.draw(st.integers(0, len(whole) - 1))
    number, row = whole[place]
    spot = data.draw(st.integers(0, len(row) - 1))
    other = bytes([row[spot] ^ data.draw(st.integers(1, 255))])
    whole[place] = (number, row[:spot] + other + row[spot + 1 :])
    with suppress(JournalDamaged):
        # Some bits of a deflated text mean nothing, such as the padding of its last byte.
        assert rows.read_journal(events[0].run, whole, after=0) == events


@pytest.mark.parametrize("taken", [0, 3, 15, 16, 38])
def test_a_missing_row_is_found(taken: int) -> None:
    whole = stored(journal("a", 40))
    del whole[taken]
    with pytest.raises(JournalDamaged, match=f"event {taken + 1} of run a is missing"):
        rows.read_journal("a", whole, after=0)


@pytest.mark.parametrize("row", [None, b"", b"\x00" * 12, b"\x01" * 13, "text", b"\x00" * 80])
def test_a_row_that_is_none_is_damage(row: object) -> None:
    with pytest.raises(JournalDamaged):
        rows.read_journal("a", [(1, row)], after=0)
    with pytest.raises(JournalDamaged):
        rows.read_value(content_hash(1), row)


def test_more_bytes_behind_a_row_are_damage() -> None:
    (number, row), *_ = stored(journal("a", 1))
    with pytest.raises(JournalDamaged, match="altered"):
        rows.read_journal("a", [(number, row + b"\x00")], after=0)


def test_every_type_of_event_has_a_code_of_one_byte() -> None:
    names = {str(kind.model_fields["type"].default) for kind in EVENT_TYPES}
    assert names <= set(rows._CODES), "append the new types to _TYPES"


def test_a_type_without_a_code_goes_by_its_name() -> None:
    row = b"\x00" * 4 + b"\x00" * 8 + rows._type_bytes("step_danced") + b"rest"
    header = rows.header_of(1, row)
    assert header.type == "step_danced"
    assert row[header.end :] == b"rest"
    assert header.at == datetime(1970, 1, 1, tzinfo=UTC)


def test_events_that_do_not_follow_each_other_are_refused() -> None:
    a, b = journal("a", 3), journal("b", 3)
    for events in ([a[0], b[1]], [a[0], a[2]], [a[1], a[0]]):
        with pytest.raises(StaleWriter):
            rows.entries_of(events)
    odd = next_event(a[1].body, run="a", by=a[0].by, at=a[0].at, last=a[0])
    forged = odd.model_copy(update={"before": "not hexadecimal", "hash": "0" * 64})
    with pytest.raises(JournalDamaged):
        rows.entries_of([forged])


def test_a_stored_step_is_small() -> None:
    events = journal("a", 1)
    bodies: list[AnyBody] = [StepDone(step="step-12", result=content_hash(1), size=17)]
    events.append(next_event(bodies[0], run="a", by=events[0].by, at=events[0].at, last=events[0]))
    assert len(stored(events)[1][1]) <= 75


@given(st.text(max_size=400))
def test_a_value_is_never_stored_longer_than_its_text(text: str) -> None:
    digest, whole = content_of(text)
    assert len(rows.squeezed(whole)) <= len(whole)
    assert rows.read_value(digest, rows.squeezed(whole)) == text
