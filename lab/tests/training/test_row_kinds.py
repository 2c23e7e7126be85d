"""Rows about papers, several tables, alike files, deeds outside and files together."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from lab.tests.training.folders import write_world
from lab.training.rows.answers_papers import VALIDATION_PAPERS
from lab.training.rows.assemble import RowMaker, check_queries, table_ways
from lab.training.rows.check import Checker
from lab.training.rows.deeds import impossible_deed, written_draft
from lab.training.rows.file_sets import FileSetAsker
from lab.training.rows.papers import PaperAsker
from lab.training.rows.public import refers_back
from lab.training.rows.queries import Ask, Unfit
from lab.training.rows.row import Row
from lab.training.rows.toolbox_sets import SeveralRows
from lab.training.rows.triples import TripleAsker, triple
from lab.training.rows.twins import TwinAsker
from lab.training.rows.voice import Voice
from lab.training.rows.world import World, WorldMaker

from plansmith.ports import Call
from plansmith_desk.tables import TableTools

NOW = datetime(2026, 5, 4, 9, 30)  # noqa: DTZ001 - the wall clock of a made-up folder


def _asks(makers: list[Any], rng: Random, count: int) -> list[Ask]:
    found: list[Ask] = []
    while len(found) < count:
        try:
            found.append(rng.choice(makers)())
        except Unfit:
            continue
    return found


def _world(rng: Random) -> tuple[WorldMaker, World]:
    worlds = WorldMaker(rng, "train")
    return worlds, worlds.world(tables=0, documents=1, others=4)


@pytest.mark.parametrize("seed", range(4))
async def test_queries_over_three_tables_run_with_the_real_tools(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    worlds, world = _world(rng)
    of = triple(rng, "train", "zh" if seed % 2 else "en", world.now)
    worlds.add(world, of.tables)
    write_world(world, tmp_path)
    tools = TableTools(tmp_path)
    asker = TripleAsker(of, Voice(rng, "zh" if seed < 2 else "en", "train"))
    for ask in _asks([maker for maker, _ in asker.ways()], rng, 6):
        assert " JOIN " in ask.calls[0]["args"]["query"] or "NOT IN" in str(ask.calls)
        result = await tools.call("tables.sql", ask.calls[0]["args"], Call(key="k"))
        assert result


@pytest.mark.parametrize("seed", range(6))
def test_the_mark_of_an_alike_file_is_in_its_request_and_its_table_in_the_call(seed: int) -> None:
    rng = Random(seed)
    worlds, world = _world(rng)
    voice = Voice(rng, "en" if seed % 2 else "zh", "train")
    asker = TwinAsker(world, worlds, voice)
    for ask in _asks([lambda: asker.one(table_ways), asker.together, asker.rise], rng, 4):
        check_queries(ask, world.tables)
        used = json.dumps([each["args"] for each in ask.calls], ensure_ascii=False)
        meant = [
            each
            for each in asker.twins
            if each.table.path in used or json.dumps(each.table.source)[1:-1] in used
        ]
        assert meant
        for each in meant:
            told = (*each.said, each.table.path.rpartition("/")[2])
            loose = each.table.path.rpartition(".")[0].rpartition("/")[2].casefold()
            assert any(said in ask.text for said in told) or loose[:4] in ask.text.casefold()


def test_a_look_up_names_a_paper_only_where_the_request_points_to_it() -> None:
    rng = Random(3)
    crossed = 0
    for number in range(30):
        _, world = _world(rng)
        voice = Voice(rng, "zh" if number % 2 else "en", "train")
        try:
            asker = PaperAsker(world, voice)
        except Unfit:
            continue
        for ask in _asks([asker.bare, asker.pointed, asker.in_file], rng, 3):
            path = ask.calls[0]["args"].get("path")
            assert path is None or path in world.paths
            if path is not None:
                crossed += path.isascii() == voice.is_zh
    assert crossed


def test_papers_of_validation_rows_are_never_trained_on() -> None:
    held = {each.name for each in VALIDATION_PAPERS}
    rng = Random(5)
    for _ in range(20):
        _, world = _world(rng)
        asker = PaperAsker(world, Voice(rng, "en", "train"))
        assert not {each.paper.name for each in asker.sheets} & held


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_deed_outside_gets_an_apology_and_a_draft_of_it_gets_written(lang: Any) -> None:
    rng = Random(8)
    for _ in range(40):
        _, world = _world(rng)
        said = impossible_deed(world, Voice(rng, lang, "train"))
        assert "{" not in said.text
        assert said.reply.startswith(("None of the tools here can ", "这里没有能"))
        draft = written_draft(world, Voice(rng, lang, "train"))
        assert [each["tool"] for each in draft.calls] == ["words.make", "files.write"]
        assert draft.calls[1]["args"]["path"] in draft.text


def test_several_files_of_one_request_each_get_their_call() -> None:
    rng, found = Random(2), 0
    for _ in range(12):
        worlds = WorldMaker(rng, "train")
        world = worlds.world(tables=2, documents=3, others=4)
        asker = FileSetAsker(world, Voice(rng, "zh", "train"))
        for ask in _asks([asker.moved, asker.deleted], rng, 2):
            paths = [each["args"]["path"] for each in ask.calls]
            assert len(set(paths)) == len(paths) > 1
            assert set(paths) <= set(world.paths)
            found += 1
    assert found


def test_requests_of_several_foreign_calls_refer_only_to_calls_before_them() -> None:
    rows = [*islice(SeveralRows(Random(6), "train").rows(), 40)]
    assert all(refers_back(row) and len(row.calls) > 1 for row in rows)
    assert any("$2" in str(row.calls) for row in rows)
    wrong = Row("x", "calls", "en", calls=({"tool": "a", "args": {"text": "$1"}},))
    assert not refers_back(wrong)


def test_a_checked_row_makes_a_plan_and_bad_ones_are_named() -> None:
    made = [json.loads(row.line()) for row in islice(RowMaker(Random(1), "train").rows(), 20)]
    checker = Checker(apart=[made[0]["request"]])
    assert checker.repeated(made[0]) == "its request is kept apart"
    assert not [row for row in made[1:] if checker.fault(row) or checker.repeated(row)]
    assert checker.repeated(made[1]) == "it came before"
    later = {"tool": "files.write", "args": {"path": "a.txt", "text": "$2"}}
    row = {**made[2], "request": "Write it", "tools": "builtin", "answer": {"calls": [later]}}
    assert "$2" in checker.fault(row)
    unknown = {"calls": [{"tool": "files.burn", "args": {}}]}
    assert "files.burn" in checker.fault({**row, "answer": unknown})
