"""Reports and templates from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import Cli, Write

PY = ("--tools", "tools.py")
LOOK = {"id": "a", "tool": "look", "inputs": {"name": "Oslo"}}
REPLY = {"id": "r", "instruction": "Seen: {{a.name}}"}
NOTE = {"id": "n", "tool": "note", "inputs": {"text": "hello"}}


def done(cli: Cli, write: Write, *steps: Any) -> None:
    cli("run", write(*(steps or (LOOK, REPLY))), *PY)


def test_a_report_is_printed_in_each_form(cli: Cli, write: Write, intake: Path) -> None:
    done(cli, write)
    code, text, _ = cli("report", "last")
    assert (code, "## Evidence" in text) == (0, True)
    assert "- Oslo" in text
    assert '"name": "Oslo"' not in text
    assert '"name": "Oslo"' in cli("report", "last", "--evidence")[1]
    code, out, _ = cli("report", "last", "--json")
    assert json.loads(out)["answer"]["sources"] == ["a"]
    assert json.loads(cli("report", "last", "--format", "json")[1]) == json.loads(out)
    code, page, _ = cli("report", "last", "--format", "html")
    assert page.startswith("<!doctype html>")
    code, out, _ = cli("report", "last", "--format", "html", "-o", "page.html")
    assert (code, out) == (0, "")
    assert (intake / "page.html").read_text(encoding="utf-8") == page


def test_a_run_is_saved_shown_listed_and_used_again(cli: Cli, write: Write) -> None:
    done(cli, write)
    code, out, _ = cli("templates", "save", "last", "--list")
    assert (code, out) == (0, 'a.inputs.name = "Oslo"\n')
    assert json.loads(cli("templates", "save", "last", "--list", "--json")[1]) == [
        {"place": "a.inputs.name", "value": "Oslo"}
    ]
    code, _, err = cli("templates", "save", "last", "city", "--param", "name=a.inputs.name", *PY)
    assert (code, err) == (0, "saved city@1\n")
    code, out, _ = cli("templates", "list")
    assert (code, "city@1" in out, "(name)" in out) == (0, True, True)
    assert json.loads(cli("templates", "list", "--json")[1])[0]["version"] == 1
    code, out, _ = cli("templates", "show", "city")
    assert 'name: "string" = "Oslo"' in out
    code, out, _ = cli("templates", "use", "city", "--set", "name=Rome", *PY, "--json")
    result = json.loads(out)
    assert (code, result["steps"]["a"]["result"]) == (0, {"name": "Rome"})


def test_a_template_goes_out_and_in_as_a_file_and_is_removed(
    cli: Cli, write: Write, intake: Path
) -> None:
    done(cli, write)
    cli("templates", "save", "last", "city", "--param", "name=a.inputs.name", *PY)
    assert json.loads(cli("templates", "export", "city")[1])["name"] == "city"
    assert cli("templates", "export", "city", "--yaml", "-o", "city.yaml")[0] == 0
    assert "name: city" in (intake / "city.yaml").read_text(encoding="utf-8")
    code, out, _ = cli("templates", "import", "city.yaml", "--name", "town", "--json", *PY)
    assert (code, json.loads(out)["name"]) == (0, "town")
    code, out, _ = cli("templates", "remove", "city", "--json")
    assert (code, json.loads(out)) == (0, {"removed": 1})
    assert cli("templates", "remove", "city")[0] == 2
    assert "city" not in cli("templates", "list")[1]
    (intake / "bad.json").write_text("{", encoding="utf-8")
    assert cli("templates", "import", "bad.json", *PY)[0] == 3
    assert cli("templates", "import", "nothing.json", *PY)[0] == 2


def test_a_run_is_played_back_and_is_the_same(cli: Cli, write: Write) -> None:
    done(cli, write)
    code, out, _ = cli("runs", "replay", "last", *PY)
    assert (code, "the same again" in out) == (0, True)
    code, out, _ = cli("runs", "replay", "last", "--json", *PY)
    assert (code, json.loads(out)["identical"]) == (0, True)
    assert cli("runs", "replay", "abcdef")[0] == 2


def test_a_replay_with_other_tools_shows_where_it_differs(cli: Cli, write: Write) -> None:
    done(cli, write, NOTE)
    cli("go", "last", *PY)
    code, out, _ = cli("runs", "replay", "last")
    assert code == 1
    assert "what is different today" in out
    assert "there is no tool called 'note'" in out
    code, out, _ = cli("runs", "replay", "last", "--json")
    assert (code, json.loads(out)["identical"]) == (1, False)


@pytest.mark.parametrize(("count", "last"), [(40, "| 39 | y |"), (100, "(60 more rows; `pl")])
def test_results_without_a_reply_are_shown_as_tables_up_to_forty_rows(
    cli: Cli, write: Write, intake: Path, count: int, last: str
) -> None:
    rows = "".join(f"{number},y\n" for number in range(count))
    (intake / "t.csv").write_text(f"n,m\n{rows}", encoding="utf-8")
    step = {"id": "q", "tool": "tables.sql", "inputs": {"query": "SELECT * FROM t"}}
    code, out, _ = cli("run", write(step), "--yes-read-only", "--no-input")
    assert (code, last in out) == (0, True)
    assert '"columns"' not in out
    assert "Nobody was asked" not in out
    assert last in cli("report", "last")[1]
