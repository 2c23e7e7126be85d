"""Reports and templates from the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.commands import Cli

PY = ("--tools", "tools.py")
LOOK = {"id": "a", "tool": "look", "inputs": {"name": "Oslo"}}
REPLY = {"id": "r", "instruction": "Seen: {{a.name}}"}
NOTE = {"id": "n", "tool": "note", "inputs": {"text": "hello"}}


def done(cli: Cli, *steps: Any) -> None:
    cli("run", cli.write(*(steps or (LOOK, REPLY))), *PY)


def test_a_report_is_printed_in_each_form(cli: Cli) -> None:
    done(cli)
    text = cli("report last", code=0, out=("## Evidence", "- Oslo")).out
    assert '"name": "Oslo"' not in text
    assert '"name": "Oslo"' in cli("report last --evidence")[1]
    report = cli.json("report last")
    assert report["answer"]["sources"] == ["a"]
    assert json.loads(cli("report last --format json").out) == report
    page = cli("report last --format html").out
    assert page.startswith("<!doctype html>")
    assert cli("report last --format html -o page.html")[:2] == (0, "")
    assert (cli.folder / "page.html").read_text(encoding="utf-8") == page


def test_a_run_is_saved_shown_listed_and_used_again(cli: Cli) -> None:
    done(cli)
    assert cli("templates save last --list")[:2] == (0, 'a.inputs.name = "Oslo"\n')
    assert cli.json("templates save last --list") == [{"place": "a.inputs.name", "value": "Oslo"}]
    cli("templates save last city --param name=a.inputs.name", *PY, code=0, err="saved city@1\n")
    cli("templates list", code=0, out=("city@1", "(name)"))
    assert cli.json("templates list")[0]["version"] == 1
    cli("templates show city", out='name: "string" = "Oslo"')
    deep = f"other={'[' * 100_000}"
    cli("templates use city --set", deep, *PY, code=2, err="other: the value is nested too deeply")
    cli("templates use city --set name=a --set name=b", *PY, code=2, err="is given twice")
    result = cli.json("templates use city --set name=Rome", *PY)
    assert result["steps"]["a"]["result"] == {"name": "Rome"}


def test_a_template_goes_out_and_in_as_a_file_and_is_removed(cli: Cli) -> None:
    done(cli)
    cli("templates save last city --param name=a.inputs.name", *PY)
    assert json.loads(cli("templates export city")[1])["name"] == "city"
    assert cli("templates export city --yaml -o city.yaml")[0] == 0
    assert "name: city" in (cli.folder / "city.yaml").read_text(encoding="utf-8")
    assert cli.json("templates import city.yaml --name town", *PY)["name"] == "town"
    assert cli.json("templates remove city") == {"removed": 1}
    assert cli("templates remove city")[0] == 2
    assert "city" not in cli("templates list")[1]
    (cli.folder / "bad.json").write_text("{", encoding="utf-8")
    assert cli("templates import bad.json", *PY)[0] == 3
    assert cli("templates import nothing.json", *PY)[0] == 2


def test_a_run_is_played_back_and_is_the_same(cli: Cli) -> None:
    done(cli)
    cli("runs replay last", *PY, code=0, out="the same again")
    assert cli.json("runs replay last", *PY)["identical"]
    assert cli("runs replay abcdef")[0] == 2


def test_a_replay_with_other_tools_shows_where_it_differs(cli: Cli) -> None:
    done(cli, NOTE)
    cli("go last", *PY)
    different = ("what is different today", "there is no tool called 'note'")
    cli("runs replay last", code=1, out=different)
    assert not cli.json("runs replay last", code=1)["identical"]


@pytest.mark.parametrize(("count", "last"), [(40, "| 39 | y |"), (100, "(60 more rows; `pl")])
def test_results_without_a_reply_are_shown_as_tables_up_to_forty_rows(
    cli: Cli, count: int, last: str
) -> None:
    rows = "".join(f"{number},y\n" for number in range(count))
    (cli.folder / "t.csv").write_text(f"n,m\n{rows}", encoding="utf-8")
    step = {"id": "q", "tool": "tables.sql", "inputs": {"query": "SELECT * FROM t"}}
    out = cli("run", cli.write(step), "--yes-read-only", "--no-input", code=0, out=last).out
    assert '"columns"' not in out
    assert "Nobody was asked" not in out
    assert last in cli("report last")[1]
