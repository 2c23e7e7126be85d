"""What a run leaves for later: reports, templates, schedules, and programs of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.commands import Cli

from plansmith import Plan

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


def hash_of(*steps: dict[str, Any], **fields: Any) -> str:
    return Plan.model_validate({"goal": "test", "steps": list(steps)} | fields).hash


def add(cli: Cli, *steps: dict[str, Any], **flags: str) -> dict[str, Any]:
    given = {"every": "1h", "name": "mine"} | flags
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    file = cli.write(*steps, name="s.json")
    approve = ("--approve-plan", hash_of(*steps))
    found: dict[str, Any] = cli.json("schedule add --plan", file, *words, *approve, *PY)
    return found


def test_a_plan_is_scheduled_shown_listed_and_removed(cli: Cli) -> None:
    made = add(cli, NOTE, overlap="queue", budget="0.50")
    assert (made["state"], made["approved"]) == ("active", hash_of(NOTE))
    assert (made["overlap"], made["budget"]) == ("queue", {"money": "0.5"})
    cli("schedule list", code=0, out="mine  active  every hour")
    out = cli("schedule show mine", out=f"runs unattended as plan {hash_of(NOTE)}").out
    assert out.count("\n  next ") == 5
    assert len(cli.json("schedule show mine")["next"]) == 5
    assert len(cli.json("schedule next mine --count 2")) == 2
    cli("schedule remove mine", code=0, err="removed schedule mine")
    assert cli.json("schedule list") == []
    assert "no schedules" in cli("schedule list")[2]


def test_nothing_is_scheduled_without_approval_of_its_hash(cli: Cli) -> None:
    file = cli.write(NOTE)
    words = ("schedule", "add", "--plan", file, "--daily", "09:00", *PY)
    changes = "! Step `n` changes something: it calls `note`"
    when = "It would run unattended, daily at 09:00 UTC; next:"
    cli(*words, code=5, err=(f"--approve-plan {hash_of(NOTE)}", when, changes))
    assert cli.json(*words, code=5)["hash"] == hash_of(NOTE)
    cli(*words, "--approve-plan", "0" * 64, code=5, err="names another plan")
    cli(*words, "--approve-plan", hash_of(NOTE)[:12], code=5, err="only the beginning of the hash")
    past = ("schedule add --plan", file, "--at", "2020-01-01T09:00", *PY)
    cli(*past, code=2, err="this time is past")
    err = cli(*words, "--overlap", "quue", code=2).err
    assert ("Overlap" in err, "'skip'" in err) == (False, True)
    asking = cli.write({"id": "q", "question": "which?"}, name="ask.json")
    cli("schedule add --plan", asking, "--daily", "09:00", code=4, err="q asks a person")
    assert cli.json("schedule list") == []


def test_a_plan_with_several_times_becomes_a_schedule_for_each_under_one_approval(cli: Cli) -> None:
    times = {"n": {"daily_at": "09:00"}, "m": {"every_minutes": 60}}
    other = {**NOTE, "id": "m", "inputs": {"text": "again"}}
    waiting = cli.json("run", cli.write(NOTE, other, schedules=times), *PY, code=5)
    assert waiting["status"] == "reviewing"
    words = ("schedule", "add", "--run", waiting["id"], *PY)
    _, out, err = cli(*words, "--json", code=5)
    result = json.loads(out)
    assert "n: It would run unattended, daily at 09:00 UTC" in err
    assert "m: It would run unattended, every hour" in err
    approval = ("--approve-plan", result["hash"])
    cli(*words, *approval, "--name", "both", code=2, err="several times takes no name")
    out = cli(*words, *approval, "--json", code=0).out
    assert [each["state"] for each in json.loads(out)] == ["active", "active"]
    assert len(cli.json("schedule list")) == 2


def test_a_schedule_runs_now_and_tells_its_history(cli: Cli) -> None:
    add(cli, NOTE)
    cli("schedule run-now mine", *PY, code=0)
    assert (cli.folder / "notes.txt").read_text(encoding="utf-8") == "hello\n"
    [row] = cli.json("schedule history mine")
    assert (row["kind"], row["state"]) == ("now", "done")
    cli("schedule history mine", code=0, out="done (now)")
    assert cli.json("show", row["run"])["approved"] == hash_of(NOTE)
    cli("schedule run-now mine", code=2, err="PS101")  # without its tools


def test_keep_once_deals_with_what_is_due_and_ends(cli: Cli) -> None:
    add(cli, LOOK)
    assert cli("schedule keep --once", *PY)[0] == 0
    assert cli.json("schedule history mine") == []
    past = ("--since", "2026-01-01T00:00", "--until", "2026-01-01T03:00")
    assert cli.json("schedule backfill mine", *past) == []  # intervals begin with the schedule
    add(cli, LOOK, name="daily", every="1d")
    assert cli("schedule", "change", "daily", "--daily", "01:00", "--missed", "none", *PY)[0] == 0
    cli("schedule backfill daily", *past[:3], "2026-01-03T03:00", code=0, err="3 fires queued")
    assert cli("schedule keep --once", *PY)[0] == 0
    rows = cli.json("schedule history daily")
    assert [(each["kind"], each["state"]) for each in rows] == [("backfill", "done")] * 3


def test_a_schedule_is_paused_with_a_reason_resumed_and_changed(cli: Cli) -> None:
    add(cli, LOOK)
    assert cli("schedule pause mine --reason holidays")[0] == 0
    assert "holidays" in cli("schedule list")[1]
    assert cli("schedule next mine", code=0, err="paused: holidays").out == ""
    assert cli("schedule resume mine")[0] == 0
    assert cli("schedule resume mine")[0] == 4
    assert cli("schedule change mine")[0] == 2
    words = ("--cron", "0 9 * * 1-5", "--tz", "Asia/Shanghai", "--max-failures", "7")
    result = cli.json("schedule change mine", *words, *PY, code=None)
    assert result["timing"] == {"cron": "0 9 * * 1-5", "timezone": "Asia/Shanghai"}
    assert result["max_failures"] == 7
    file = cli.write(NOTE, name="other.json")
    assert cli("schedule change mine --plan", file, *PY)[0] == 5
    approve = ("--approve-plan", hash_of(NOTE))
    assert cli("schedule change mine --plan", file, *approve, *PY)[0] == 0


def test_a_request_in_words_is_planned_and_waits_for_the_yes(cli: Cli) -> None:
    words = "every weekday at 9 list the files here"
    err = cli("ask", words, code=5, err="cron 0 9 * * 1-5 UTC").err
    line = next(each for each in err.splitlines() if "schedule add --run" in each)
    run, digest = line.split("--run ")[1].split()[0], line.rpartition(" ")[2]
    assert cli.json("schedule list") == []
    result = cli.json("schedule add", "--run", run, "--approve-plan", digest)
    assert result["timing"]["cron"] == "0 9 * * 1-5"
    assert result["name"] == "list the files here"
    output = cli.json("show", run)
    assert (output["status"], output["reason"]) == (
        "cancelled",
        "it runs as the schedule list the files here",
    )


def test_a_request_planned_anew_each_time_asks_each_time(cli: Cli) -> None:
    result = cli.json("schedule add --anew", "每天早上九点列出这里的文件")
    assert (result["approved"], result["request"], result["plan"]) == ("", "列出这里的文件", None)
    cli("schedule run-now", result["id"], code=5)
    [row] = cli.json("schedule history", result["id"])
    assert (row["state"], row["note"]) == ("waiting", "waits for your approval")


NASTY = 'a"b\'c\\ """ \'\'\' {x} %s \n#!\u202e\u2028 {{"{{"}} 查天气 🜁'
PAY = '''
from pathlib import Path

from plansmith import tool


@tool
def pay(amount: int, key: str = "") -> str:
    """Pays."""
    Path("paid.txt").write_text(f"{amount} {key}")
    return f"paid with {key}"
'''


def started(
    folder: Path, *options: str, typed: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "program.py", *options]
    return forked.run(
        command,
        cwd=folder,
        input=typed,
        env=os.environ | more,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_plan_file_is_exported_as_a_program_that_runs(cli: Cli) -> None:
    files = {"id": "f", "tool": "files.list", "inputs": {"folder": "."}}
    step = {"id": "s", "say": f"{NASTY} {{{{a.name}}}}"}
    name = cli.write(LOOK, files, step, {"id": "t", "tool": "mail.send"})
    unknown = "fill in OtherTools: the code of mail.send is not known"
    out = cli(f"convert {name} --to python --tools tools.py", code=0, err=unknown).out
    (cli.folder / "program.py").write_text(out, encoding="utf-8")
    assert "pip install path/to/the/clone/packages/*\n" in out
    result = json.loads(started(cli.folder, "--yes").stdout)
    assert result["results"]["a"] == {"name": "Oslo"}
    assert result["results"]["s"].endswith("{{ 查天气 🜁 Oslo")
    assert "program.py" in json.dumps(result["results"]["f"])
    assert result["failed"] == {"t": "mail.send is to be filled in"}


def test_a_program_finds_its_tools_beside_it_or_says_that_they_are_missing(
    cli: Cli, tmp_path: Path
) -> None:
    other = LOOK | {"id": "b", "after": ["a"]}
    out = cli(f"convert {cli.write(LOOK, other)} --to python --tools tools.py", code=0).out
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (elsewhere / "program.py").write_text(out, encoding="utf-8")
    assert started(elsewhere).returncode == 0  # the tools are still where they were
    (cli.folder / "tools.py").rename(elsewhere / "tools.py")
    assert json.loads(started(elsewhere).stdout)["results"]["b"] == {"name": "Oslo"}
    (elsewhere / "tools.py").unlink()
    done = started(elsewhere)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("there is no file tools.py beside this program or in ")
    assert len(done.stderr.splitlines()) == 1


def test_the_plan_of_a_run_is_exported_with_its_templates(cli: Cli) -> None:
    cli("run", cli.write(LOOK), *PY, "--yes-read-only", code=0)
    assert cli("templates save last looking --tools tools.py")[0] == 0
    use = cli.write({"id": "u", "template": "looking"}, name="use.json")
    assert cli("run", use, *PY, "--yes-read-only")[0] == 0
    for plan in ("last", use):
        out = cli("convert", plan, "--to", "python", *PY, code=0).out
        (cli.folder / "program.py").write_text(out, encoding="utf-8")
        assert json.loads(started(cli.folder).stdout)["results"] == {"u": {"a": {"name": "Oslo"}}}


@pytest.mark.parametrize("agrees", [False, True])
def test_a_program_asks_before_it_changes_something_and_keeps_its_secrets(
    cli: Cli, *, agrees: bool
) -> None:
    (cli.folder / "pay.py").write_text(PAY, encoding="utf-8")
    asks = {"id": "q", "question": "How much?", "answer_schema": {"type": "integer"}}
    inputs = {"amount": "{{q}}", "key": "${secret:bank}"}
    name = cli.write(asks, {"id": "p", "tool": "pay", "inputs": inputs})
    out = cli(f"convert {name} --to python --tools pay.py", code=0).out
    assert "hunter22" not in out
    (cli.folder / "program.py").write_text(out, encoding="utf-8")
    typed = "y\nmany\n5\n" if agrees else "n\n"
    done = started(cli.folder, typed=typed, BANK="hunter22")
    assert "Run this plan?" in done.stderr
    result = json.loads(done.stdout)
    assert (cli.folder / "paid.txt").exists() is agrees
    assert "hunter22" not in done.stdout + done.stderr
    if agrees:  # the answer that does not fit was asked for again
        assert (cli.folder / "paid.txt").read_text(encoding="utf-8") == "5 hunter22"
        assert (done.returncode, result["status"]) == (0, "done")
    else:
        assert (done.returncode, result["status"]) == (1, "cancelled")
