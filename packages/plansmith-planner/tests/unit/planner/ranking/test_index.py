from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from plansmith.plan.capability import ToolSpec
from plansmith_planner.ranking import index
from plansmith_planner.ranking.card import read_card
from plansmith_planner.ranking.index import IndexCache


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Mock:
    watched = Mock(side_effect=read_card)
    monkeypatch.setattr(index, "read_card", watched)
    return watched


def tools(*numbers: int) -> list[ToolSpec]:
    return [ToolSpec(name=f"tool_{at}", description=f"does {at}") for at in numbers]


def test_only_tools_that_changed_are_read(reader: Mock) -> None:
    shelf = IndexCache()
    first = shelf.index(tools(*range(20)), None)
    assert reader.call_count == 20
    second = shelf.index([*tools(*range(1, 20)), *tools(77)], None)
    assert reader.call_count == 21
    assert second is not first
    assert second.cards[-1].name == "tool_77"


def test_the_same_tools_in_another_order_are_not_read_again(reader: Mock) -> None:
    shelf = IndexCache()
    shelf.index(tools(1, 2, 3), None)
    index = shelf.index(tools(3, 2, 1), None)
    assert reader.call_count == 3
    assert [card.name for card in index.cards] == ["tool_3", "tool_2", "tool_1"]


def test_a_new_process_reads_the_cards_from_disk(tmp_path: Path, reader: Mock) -> None:
    one = IndexCache().index(tools(1, 2, 3), tmp_path)
    assert reader.call_count == 3
    other = IndexCache().index(tools(1, 2, 3), tmp_path)
    assert reader.call_count == 3
    assert [each.name for each in one.cards] == [each.name for each in other.cards]


def test_a_new_process_reads_only_what_changed_since(tmp_path: Path, reader: Mock) -> None:
    IndexCache().index(tools(1, 2, 3), tmp_path)
    IndexCache().index(tools(1, 2, 3, 4), tmp_path)
    assert reader.call_count == 4


def test_a_file_with_another_content_than_its_checksum_is_not_believed(
    tmp_path: Path, reader: Mock
) -> None:
    IndexCache().index(tools(1), tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.write_text(kept.read_text().replace("tool_1", "tool_9"))
    index = IndexCache().index(tools(1), tmp_path)
    assert [card.name for card in index.cards] == ["tool_1"]
    assert reader.call_count == 2


def test_old_indexes_are_given_up(reader: Mock) -> None:
    shelf = IndexCache()
    kept = [tools(*range(at * 10, at * 10 + 5)) for at in range(12)]
    first = [shelf.index(each, None) for each in kept]
    assert shelf.index(kept[-1], None) is first[-1]
    assert shelf.index(kept[0], None) is not first[0]
