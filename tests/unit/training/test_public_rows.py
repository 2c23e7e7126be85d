from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from training.rows.public import PublicRows
from training.rows.public_sets import PublicSets
from training.rows.row import Row


def _tool(name: str, about: str, **arguments: str) -> dict[str, Any]:
    fields = {key: {"type": "string", "description": note} for key, note in arguments.items()}
    schema = {"type": "dict", "properties": fields, "required": list(arguments)}
    return {"name": name, "description": about, "input_schema": schema}


def _step(tool: str, number: int, **args: Any) -> dict[str, Any]:
    return {"id": f"s{number}", "tool": tool, "args": args, "after": []}


CATALOGUE = [
    _tool("getRiver", "Retrieve the length of a river", river="Its name (e.g., Nile, Elbe)"),
    _tool("getLake", "Retrieve the depth of a lake", lake="Its name (e.g., Garda, Erie)"),
    _tool("sendNote", "Send a note to somebody", to="Who (e.g., Kim, Ada)", text="What"),
]
ASKED = [
    {
        "query": "How long is the Nile, and send the answer to Kim.",
        "lang": "en",
        "gold_steps": [
            _step("getRiver", 1, river="Nile"),
            _step("sendNote", 2, to="Kim", text="s1")
            | {"refs": [{"arg": "text", "step": "s1", "output": "length"}]},
        ],
    },
    {
        "query": "How deep is the lake?",
        "lang": "en",
        "gold_steps": [_step("getLake", 1, lake="Garda")],
    },
]


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    names = ("sealtools", "bfcl", "acebench_en", "acebench_zh", "apibank", "nestful")
    golds = ("bfcl_parallel", "acebench_parallel_en", "acebench_parallel_zh", "nestful")
    for name in names:
        _write(tmp_path / "catalogues" / f"{name}.jsonl", CATALOGUE)
    for name in golds:
        _write(tmp_path / "planning" / f"{name}.jsonl", [])
    _write(tmp_path / "planning" / "sealtools.jsonl", ASKED)
    _write(tmp_path / "execution" / "apibank.jsonl", [])
    for name in ("metatool", "toolbench", "bfcl", "acebench_en", "acebench_zh", "sealtools"):
        lang = "zh" if name.endswith("zh") else "en"
        _write(
            tmp_path / "retrieval" / f"{name}.jsonl",
            [{"query": f"Paint my house ({name})", "lang": lang, "gold": ["paint"]}],
        )
    return [*PublicRows(PublicSets(tmp_path), Random(1)).rows()]


def _write(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines), encoding="utf-8")


def test_results_of_earlier_steps_become_references_in_public_rows(rows: list[Row]) -> None:
    [first, *_] = [row for row in rows if row.kind == "calls"]
    assert first.calls == (
        {"tool": "getRiver", "args": {"river": "Nile"}},
        {"tool": "sendNote", "args": {"to": "Kim", "text": "$1"}},
    )
    assert {"getRiver", "sendNote"} <= {each["name"] for each in first.tools if each}  # type: ignore[index]


def test_a_public_row_with_a_value_that_the_request_does_not_say_is_left_out(
    rows: list[Row],
) -> None:
    assert not [row for row in rows if row.request == "How deep is the lake?"]


def test_a_value_that_is_cut_from_a_public_request_is_asked_for(rows: list[Row]) -> None:
    missing = [row for row in rows if row.kind == "missing"]
    assert missing
    assert all("?" in call["args"].values() for row in missing for call in row.calls)


def test_single_public_requests_say_all_values_of_their_calls(rows: list[Row]) -> None:
    single = [row for row in rows if row.kind == "single"]
    assert single
    for row in single:
        [call] = row.calls
        assert all(str(value) in row.request for value in call["args"].values())


def test_a_request_that_no_public_tool_fits_gets_an_apology_in_its_language(
    rows: list[Row],
) -> None:
    replies = {row.lang: row.reply for row in rows if row.kind == "unfit"}
    assert replies["en"] == "None of the tools here can do this."
    assert replies["zh"].startswith("这里没有")


def test_several_public_requests_in_one_have_a_call_each_and_all_their_tools(
    rows: list[Row],
) -> None:
    several = [row for row in rows if row.kind == "calls" and "$1" not in str(row.calls)]
    assert several
    for row in several:
        assert len(row.calls) > 1
        offered = {each["name"] for each in row.tools if not isinstance(each, str)}
        assert {call["tool"] for call in row.calls} <= offered
