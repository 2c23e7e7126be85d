"""A journal that is written to a file is read back, verified, folded and reported the same."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

import pytest
from tests.replay.write_journal import journals, main

from plansmith.plan.data import Json
from plansmith.plan.events import EVENT_TYPES, Event, read_event, verify_chain
from plansmith.plan.fold import fold
from plansmith.report.build import make_report
from plansmith.report.html import to_html
from plansmith.report.markdown import to_markdown


def read(path: Path) -> list[list[Event]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    events = [read_event(json.loads(line)) for line in lines]
    return [list(group) for _, group in groupby(events, key=lambda event: event.run)]


def test_a_written_journal_has_every_kind_of_event_and_is_read_back_the_same(
    tmp_path: Path,
) -> None:
    made = [event for events in journals() for event in events]
    assert {event.body.type for event in made} == {each.type for each in EVENT_TYPES}
    main(str(tmp_path / "new.jsonl"))
    with pytest.raises(FileExistsError):
        main(str(tmp_path / "new.jsonl"))
    assert [event for run in read(tmp_path / "new.jsonl") for event in run] == made


def test_a_journal_is_folded_in_one_go_or_in_two_and_can_be_reported_on() -> None:
    for given in journals():
        events = list(given)
        verify_chain(events)
        run = fold(events)
        assert run.status.over
        for middle in range(1, len(events)):
            assert fold(events[middle:], fold(events[:middle])) == run
        results: dict[str, Json] = {name: name for name in run.steps if "/" not in name}
        report = make_report(run, run.status, results, events)
        assert to_markdown(report).startswith("# ")
        assert "</html>" in to_html(report)
