from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plansmith.errors import JournalDamaged
from plansmith.plan.data import Json, content_hash, content_of
from plansmith.plan.events import (
    Actor,
    AnyBody,
    Event,
    RunCreated,
    RunResumed,
    StepDone,
    StepFailed,
    StepProgressed,
    StepStarted,
    next_event,
)
from plansmith.store import rows
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
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ODD = [EPOCH, EPOCH + timedelta(microseconds=1), EPOCH - timedelta(microseconds=1)]
MOMENTS = st.datetimes(timezones=st.just(UTC)) | st.sampled_from(ODD)


class Row(NamedTuple):
    """The cells of a stored event, as they are read."""

    number: Any
    at: Any
    by: Any
    type: Any
    hash: Any
    body: Any


@st.composite
def journals(draw: st.DrawFn) -> list[Event]:
    run, name = draw(TEXT), draw(TEXT)
    events: list[Event] = []
    for _ in range(draw(st.integers(1, 20))):
        text = draw(TEXT)
        shapes: list[Json] = [text, {"x": text}, [text, text]]
        content = content_of(draw(st.sampled_from(shapes)))
        digest, size = content.digest, len(content.text)
        key = draw(st.sampled_from([f"{run}/{text}/{digest[:16]}", text]))
        bodies: list[AnyBody] = [
            RunCreated(request=text),
            RunResumed(),
            StepProgressed(step="a", text=text),
            StepStarted(step=text, key=key, inputs=digest, callee=draw(TEXT)),
            StepStarted(step=text, key=key, inputs=digest, item=text, prefetched=text),
            StepDone(step=text, result=digest, size=size, cost=draw(TEXT)),
            StepDone(step=text, result=digest, tokens=7),
            StepFailed(step=text, error=text, unsure=True),
        ]
        by = Actor(kind=draw(st.sampled_from(["person", "model", "system"])), name=name)
        body = draw(st.sampled_from(bodies))
        last = events[-1] if events else None
        at = last.at if last and draw(st.booleans()) else draw(MOMENTS)
        events.append(next_event(body, run=run, by=by, at=at, last=last))
    return events


def stored(events: list[Event]) -> list[Row]:
    return [Row(*cells) for cells in rows.rows_of(events)]


def read(run: str, found: Sequence[Sequence[Any]], *, after: int = 0) -> list[Event]:
    """Reads rows as a store gives them: from a number on, each with that of the last one."""
    last = found[-1][0]
    asked = [[last, *cells] for cells in found if cells[0] >= after]
    return rows.read_journal(run, asked, after=after)


@given(journals(), st.integers(0, 25))
def test_every_event_comes_back_from_its_row(events: list[Event], after: int) -> None:
    assert read(events[0].run, stored(events), after=after) == events[after:]


@given(journals())
def test_what_was_hashed_can_be_put_together_from_the_cells_by_hand(events: list[Event]) -> None:
    before = ""
    for row in stored(events):
        run = json.dumps(events[0].run, ensure_ascii=False)
        text = (
            f'{{"at":"{row.at}","before":"{before}","body":{row.body},"by":{row.by},'
            f'"number":{row.number},"run":{run}}}'
        )
        assert row.hash == sha256(text.encode()).hexdigest()
        assert json.loads(row.body)["type"] == row.type
        before = row.hash


@given(journals(), st.data())
def test_a_cell_altered_anywhere_is_found(events: list[Event], data: st.DataObject) -> None:
    whole = stored(events)
    place = data.draw(st.integers(0, len(whole) - 1))
    name = data.draw(st.sampled_from(["type", "at", "by", "hash", "body"]))
    cell: Any = getattr(whole[place], name)
    changed = data.draw(_others(cell))
    assume(changed != cell)
    whole[place] = whole[place]._replace(**{name: changed})
    with pytest.raises(JournalDamaged, match=f"event {place + 1} of run|event {place + 2} of run"):
        read(events[0].run, whole)


def _others(cell: Any) -> st.SearchStrategy[Any]:
    """Cells of the same kind that differ in one place."""
    letters = st.characters() | st.just("\udcff")
    return st.tuples(st.integers(0, len(cell) - 1), letters).map(
        lambda made: cell[: made[0]] + made[1] + cell[made[0] + 1 :]
    )


@pytest.mark.parametrize("taken", [0, 3, 15, 16, 38])
def test_a_missing_row_is_found(taken: int) -> None:
    whole = stored(journal("a", 40))
    del whole[taken]
    with pytest.raises(JournalDamaged, match=f"event {taken + 1} of run a is missing"):
        read("a", whole)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=400))
def test_a_value_is_read_from_its_text_and_no_other(text: str) -> None:
    digest, whole = content_of(text)
    assert rows.read_value(digest, whole.decode()) == text
    with pytest.raises(JournalDamaged, match="altered"):
        rows.read_value(digest, whole.decode() + " ")
