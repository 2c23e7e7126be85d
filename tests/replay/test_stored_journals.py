"""R5: every journal that an earlier release wrote is still read, verified, folded and reported."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

import pytest
from tests.replay.write_journal import journals, main

from plansmith.plan.data import Json, canonical_json
from plansmith.plan.events import EVENT_TYPES, Event, read_event, verify_chain
from plansmith.plan.fold import fold
from plansmith.report.build import make_report
from plansmith.report.html import to_html
from plansmith.report.markdown import to_markdown

HERE = Path(__file__).parent
STORED = sorted(HERE.glob("journal-*.jsonl"))


def read(path: Path) -> list[list[Event]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    events = [read_event(json.loads(line)) for line in lines]
    return [list(group) for _, group in groupby(events, key=lambda event: event.run)]


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_journal_is_read_verified_and_folded(path: Path) -> None:
    runs = read(path)
    assert len(runs) >= 4
    for events in runs:
        verify_chain(events)
        run = fold(events)
        assert run.status.over
        for middle in range(1, len(events)):
            assert fold(events[middle:], fold(events[:middle])) == run


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_journal_is_written_back_byte_for_byte(path: Path) -> None:
    texts = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    events = [event for run in read(path) for event in run]
    for text, event in zip(texts, events, strict=True):
        assert canonical_json(event.to_json()) == canonical_json(text)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_journal_can_be_reported_on(path: Path) -> None:
    for events in read(path):
        run = fold(events)
        results: dict[str, Json] = {name: name for name in run.steps if "/" not in name}
        report = make_report(run, run.status, results, events)
        assert to_markdown(report).startswith("# ")
        assert "</html>" in to_html(report)


def test_the_journal_of_this_release_has_every_kind_of_event(tmp_path: Path) -> None:
    made = [event for events in journals() for event in events]
    kinds = {each.type for each in EVENT_TYPES}
    assert {event.body.type for event in made} == kinds
    main(str(tmp_path / "new.jsonl"))
    with pytest.raises(FileExistsError):
        main(str(tmp_path / "new.jsonl"))
    assert [event for run in read(tmp_path / "new.jsonl") for event in run] == made


def test_there_is_a_journal_of_the_first_release() -> None:
    assert (HERE / "journal-0.1.jsonl") in STORED
