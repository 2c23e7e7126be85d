from __future__ import annotations

import json
from datetime import UTC
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plansmith.adapters.stores import rows
from plansmith.errors import JournalDamaged, StaleWriter
from plansmith.plan.data import content_hash, content_of
from plansmith.plan.events import (
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


def stored(events: list[Event]) -> list[rows.Row]:
    return [rows.Row(*cells) for cells in rows.rows_of(events)]


@given(journals(), st.integers(-1, 45))
def test_every_event_comes_back_from_its_row(events: list[Event], after: int) -> None:
    behind = [row for row in stored(events) if row.number >= after]
    assert rows.read_journal(events[0].run, behind, after=after) == events[max(after, 0) :]


@given(journals())
def test_what_was_hashed_can_be_put_together_from_the_cells_by_hand(events: list[Event]) -> None:
    before = ""
    for row in stored(events):
        run = json.dumps(events[0].run, ensure_ascii=False)
        text = (
            f'{{"at":"{row.at}","before":"{before}","body":{row.body},"by":{row.by},'
            f'"number":{row.number},"run":{run}}}'
        )
        assert sha256(text.encode()).hexdigest() == row.hash
        assert json.loads(row.body)["type"] == row.type
        before = row.hash


@given(journals(), st.data())
def test_a_cell_altered_anywhere_is_found(events: list[Event], data: st.DataObject) -> None:
    whole = stored(events)
    place = data.draw(st.integers(0, len(whole) - 1))
    name = data.draw(st.sampled_from(["type", "at", "by", "hash", "body"]))
    cell: str = getattr(whole[place], name)
    spot = data.draw(st.integers(0, len(cell) - 1))
    letter = data.draw(st.characters() | st.just("\udcff"))
    assume(letter != cell[spot])
    changed = cell[:spot] + letter + cell[spot + 1 :]
    cells: dict[str, Any] = whole[place]._asdict() | {name: changed}
    whole[place] = rows.Row(**cells)
    with pytest.raises(JournalDamaged, match=f"event {place + 1} of run|event {place + 2} of run"):
        rows.read_journal(events[0].run, whole, after=0)


@pytest.mark.parametrize("taken", [0, 3, 15, 16, 38])
def test_a_missing_row_is_found(taken: int) -> None:
    whole = stored(journal("a", 40))
    del whole[taken]
    with pytest.raises(JournalDamaged, match=f"event {taken + 1} of run a is missing"):
        rows.read_journal("a", whole, after=0)


@pytest.mark.parametrize("cell", [None, b"{}", "", 7, "text", "\udcff", "[]"], ids=repr)
def test_a_cell_that_is_none_is_damage(cell: object) -> None:
    [row] = stored(journal("a", 1))
    for place in range(1, len(row)):
        cells: list[object] = list(row)
        cells[place] = cell
        with pytest.raises(JournalDamaged):
            rows.read_journal("a", [cells], after=0)
    with pytest.raises(JournalDamaged):
        rows.read_value(content_hash(1), cell)


def test_more_text_behind_a_body_is_damage() -> None:
    [row] = stored(journal("a", 1))
    with pytest.raises(JournalDamaged, match="altered"):
        rows.read_journal("a", [row._replace(body=row.body + " ")], after=0)


def test_events_that_do_not_follow_each_other_are_refused() -> None:
    a, b = journal("a", 3), journal("b", 3)
    for events in ([a[0], b[1]], [a[0], a[2]], [a[1], a[0]]):
        with pytest.raises(StaleWriter):
            rows.need_following(events)
    odd = next_event(a[1].body, run="a", by=a[0].by, at=a[0].at, last=a[0])
    forged = odd.replace(before="not hexadecimal", hash="0" * 64)
    with pytest.raises(JournalDamaged):
        rows.rows_of([forged])


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=400))
def test_a_value_is_read_from_its_text_and_no_other(text: str) -> None:
    digest, whole = content_of(text)
    assert rows.read_value(digest, whole.decode()) == text
    with pytest.raises(JournalDamaged, match="altered"):
        rows.read_value(digest, whole.decode() + " ")
