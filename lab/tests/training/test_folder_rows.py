from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jsonschema_rs import validator_for
from lab.tests.training.folders import write_world
from lab.training.rows.assemble import table_ways
from lab.training.rows.builtin import builtin_tools
from lab.training.rows.domains import domains, of_part
from lab.training.rows.folder_lines import folder_lines
from lab.training.rows.generate import generate
from lab.training.rows.natural import NaturalAsker
from lab.training.rows.queries import Unfit
from lab.training.rows.row import Row
from lab.training.rows.voice import Voice
from lab.training.rows.world import WorldMaker

from plansmith.ports import Call
from plansmith_desk.folder_brief import FolderBrief
from plansmith_desk.tables import TableTools

COUNT = 120


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return generate(7, "train", COUNT)


def test_the_rows_of_a_seed_are_the_same_every_time(rows: list[Row]) -> None:
    again = generate(7, "train", COUNT)
    assert [row.line() for row in again] == [row.line() for row in rows]
    assert generate(8, "train", 5) != rows[:5]


def test_no_row_comes_twice_and_both_languages_are_spoken(rows: list[Row]) -> None:
    assert len({(row.request, row.folder, row.remark) for row in rows}) == COUNT
    langs = Counter(row.lang for row in rows)
    assert min(langs["en"], langs["zh"]) > COUNT / 4


def test_the_calls_of_rows_fit_the_schemas_of_the_tools_offered(rows: list[Row]) -> None:
    for row in rows:
        offered = _schemas(row)
        for place, call in enumerate(row.calls):
            if call["tool"] == "words.make":
                assert "instruction" in call["args"]
                assert set(call["args"]) <= {"instruction", "from"}
                continue
            schema = offered[call["tool"]]
            known = {name: each for name, each in call["args"].items() if not _is_hole(each, place)}
            assert set(call["args"]) <= set(schema["properties"]), row.line()
            assert set(schema.get("required") or ()) <= set(call["args"]), row.line()
            given = {**schema, "required": []}
            assert validator_for(given).is_valid(known), row.line()


def _schemas(row: Row) -> dict[str, Any]:
    builtin = {name: spec.input_schema for name, spec in builtin_tools().items()}
    if not row.tools:
        return builtin
    return {
        each if isinstance(each, str) else str(each["name"]): builtin[each]
        if isinstance(each, str)
        else each["input_schema"]
        for each in row.tools
    }


def _is_hole(value: Any, place: int) -> bool:
    """A question, or the result of an earlier call."""
    return value == "?" or value in [f"${number}" for number in range(1, place + 1)]


def test_paths_in_calls_that_read_are_told_by_the_folder_lines(rows: list[Row]) -> None:
    for row in rows:
        told = "\n".join((*row.folder, *row.near))
        for call in row.calls:
            if call["tool"] in ("tables.describe", "tables.top", "tables.group", "files.read"):
                assert call["args"].get("table", call["args"].get("path")) in told, row.line()


def test_a_row_is_one_line_of_json_with_an_answer(rows: list[Row]) -> None:
    for row in rows:
        read = json.loads(row.line())
        assert read["family"] == "folder"
        assert set(read["answer"]) in ({"calls"}, {"reply"})
        assert read["request"].strip() == read["request"] != ""
        assert "{" not in read["request"], read["request"]


def test_validation_rows_come_from_domains_and_ways_that_no_training_row_has(
    rows: list[Row],
) -> None:
    train, kept = of_part(domains(), "train"), of_part(domains(), "validation")
    assert len(domains()) >= 60
    assert not {each.key for each in train} & {each.key for each in kept}
    held = {row.request for row in generate(7, "validation", 40)}
    assert not held & {row.request for row in rows}


@pytest.mark.parametrize("seed", range(4))
async def test_folder_lines_of_a_world_are_those_of_the_real_folder(
    tmp_path: Path, seed: int
) -> None:
    world = WorldMaker(Random(seed), "train").world(tables=3, documents=0, others=0)
    made = {each.path for each in world.tables}
    world.entries = [each for each in world.entries if each.path in made]
    write_world(world, tmp_path)
    request = f"How many rows are in {world.tables[0].path}?"
    blocks = await FolderBrief(tmp_path).gather(request, token_limit=10_000)
    told = [tuple(block.text.splitlines()) for block in blocks]
    assert told == [each for each in folder_lines(world.entries, request) if each]


@pytest.mark.parametrize("seed", range(4))
async def test_gold_calls_on_tables_run_with_the_real_tools(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    world = WorldMaker(rng, "train").world(tables=2, documents=0, others=0)
    write_world(world, tmp_path)
    tools = TableTools(tmp_path)
    voice = Voice(rng, "en", "train")
    asker = NaturalAsker(rng.choice(world.tables), voice, world.now)
    ways = [way for way, _ in table_ways(asker)]
    for way in rng.sample(ways, 6):
        try:
            asked = way()
        except Unfit:
            continue
        for call in asked.calls:
            assert await tools.call(call["tool"], call["args"], Call(key="")), call
