"""The folders of the folder bench: the same every time, and each fact can be found in them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from lab.bench.desk import PARTS, Part, folders
from lab.bench.desk_cases import Ask, Clock, Fact, Folder, Gone, Number, Wrote
from lab.bench.desk_heldout_more import HELDOUT_KINDS
from lab.bench.desk_score import holds

NOW = (datetime(2026, 1, 5, 9, tzinfo=UTC), datetime(2026, 1, 5, 9, tzinfo=UTC))
# What these ask for is not in the folder, but in the clock or in a person's head.
WITHOUT_PROOF = {"time", "date", "units", "write note", "move"}


@cache
def part(name: Part) -> list[Folder]:
    return folders(name)


def every() -> Iterator[tuple[Folder, Ask]]:
    yield from ((folder, ask) for name in PARTS for folder in part(name) for ask in folder.asks)


def rows_of(path: str, content: bytes) -> list[dict[str, Any]]:
    if path.endswith(".csv"):
        return list(csv.DictReader(io.StringIO(content.decode())))
    value = json.loads(content) if path.endswith(".json") else None
    return value if isinstance(value, list) else []


def lines_of(path: str, content: bytes) -> list[str]:
    if path.endswith(".pdf"):
        return re.findall(r"^\((.*)\) Tj", content.decode("cp1252"), re.MULTILINE)
    return [] if path.endswith((".png", ".db")) else content.decode().splitlines()


def as_number(value: object) -> object:
    return float(value) if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value) else value


@cache
def base_of(name: str) -> sqlite3.Connection:
    """A folder as a database: its tables, the lines of its texts, its files."""
    folder = next(each for part_ in PARTS for each in part(part_) if each.name == name)
    base = sqlite3.connect(":memory:")
    for path, content in folder.files.items():
        if path.endswith(".db"):
            base.deserialize(content)
    base.execute("CREATE TABLE files (path, hash)")
    base.execute("CREATE TABLE lines (path, text)")
    for path, content in folder.files.items():
        base.execute("INSERT INTO files VALUES (?, ?)", (path, hashlib.md5(content).hexdigest()))
        for line in lines_of(path, content):
            base.execute("INSERT INTO lines VALUES (?, ?)", (path, line))
        if rows := rows_of(path, content):
            table = path.rsplit("/")[-1].split(".")[0]
            base.execute(f'CREATE TABLE "{table}" ({", ".join(f"{key!r}" for key in rows[0])})')
            marks = ", ".join("?" * len(rows[0]))
            values = [[as_number(each) for each in row.values()] for row in rows]
            base.executemany(f'INSERT INTO "{table}" VALUES ({marks})', values)
    return base


def proven(ask: Ask) -> str:
    """What the query of a request finds in its folder."""
    found = base_of(ask.folder).execute(ask.proof).fetchall()
    return "\n".join("; ".join(str(each) for each in row) for row in found)


def wished(ask: Ask) -> Iterator[Fact]:
    yield from ask.facts
    for file in ask.files:
        if isinstance(file, Wrote):
            yield from file.facts
            if file.rows is not None and "COUNT" in ask.proof and "GROUP BY" not in ask.proof:
                yield Number(float(file.rows))


@pytest.mark.parametrize("name", PARTS)
def test_the_folders_of_the_desk_bench_are_the_same_every_time(name: Part) -> None:
    assert folders(name) == folders(name)


def test_the_desk_bench_has_the_size_and_the_mix_of_real_folders() -> None:
    asks = [ask for _, ask in every()]
    assert len(asks) >= 130
    assert (
        len({ask.id for ask in asks}) == len({ask.folder + ask.text for ask in asks}) == len(asks)
    )
    assert len({ask.folder for ask in asks}) >= 8
    assert 0.35 <= sum(ask.lang == "zh" for ask in asks) / len(asks) <= 0.5
    assert all(5 <= len(folder.files) <= 40 for folder, _ in every())


def test_no_held_out_folder_or_kind_of_the_desk_bench_is_in_its_tuning_part() -> None:
    tuning = {folder.name for folder in part("tuning")}
    apart = [folder for folder in part("heldout") if folder.name not in tuning]
    shared = [ask for each in part("heldout") if each.name in tuning for ask in each.asks]
    assert len(apart) >= 3
    assert not {ask.kind for each in part("tuning") for ask in each.asks} & {*HELDOUT_KINDS}
    assert {ask.kind for ask in shared} == {*HELDOUT_KINDS}


@pytest.mark.parametrize("name", PARTS)
def test_each_fact_of_the_desk_bench_is_found_in_its_folder_by_a_query(name: Part) -> None:
    wrong = [
        (ask.id, fact)
        for folder in part(name)
        for ask in folder.asks
        if ask.proof
        for fact in wished(ask)
        if not holds(proven(ask), fact, NOW)
    ]
    assert not wrong


@pytest.mark.parametrize("way", ["", " DESC"])
def test_no_greatest_value_of_the_desk_bench_is_shared_by_two(way: str) -> None:
    wrong = [
        ask.id
        for _, ask in every()
        if "ORDER BY" in ask.proof
        for proof in [ask.proof.replace(" LIMIT", f", 1{way} LIMIT")]
        if not all(holds(proven(replace(ask, proof=proof)), fact, NOW) for fact in ask.facts)
    ]
    assert not wrong


def test_what_an_answer_of_the_desk_bench_must_not_say_is_not_what_the_query_finds() -> None:
    wrong = [
        (ask.id, fact)
        for _, ask in every()
        if ask.proof and "FROM lines" not in ask.proof
        for fact in ask.must_not
        if holds(proven(ask), fact, NOW)
    ]
    assert not wrong


def test_only_requests_that_no_folder_answers_have_no_query_in_the_desk_bench() -> None:
    for _, ask in every():
        told = ask.expects != "answer" or ask.kind in WITHOUT_PROOF
        assert ask.proof or told, ask.id
        assert ask.facts or ask.files or ask.expects != "answer", ask.id


def test_no_request_of_the_desk_bench_holds_its_own_answer() -> None:
    wrong = [
        (ask.id, fact)
        for _, ask in every()
        for fact in ask.facts
        if not isinstance(fact, Clock) and holds(ask.text, fact, NOW)
    ]
    assert not wrong


def test_files_that_the_desk_bench_wants_moved_are_in_the_folder() -> None:
    for folder, ask in every():
        for file in ask.files:
            before = file.path if isinstance(file, Gone) else file.same_as
            assert not before or before in folder.files, ask.id
