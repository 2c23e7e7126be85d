"""Schedules from the command line."""

from __future__ import annotations

import json
from typing import Any

from tests.commands import Cli

from plansmith import Plan

PY = ("--tools", "tools.py")
LOOK: dict[str, Any] = {"id": "a", "tool": "look", "inputs": {"name": "Oslo"}}
NOTE: dict[str, Any] = {"id": "n", "tool": "note", "inputs": {"text": "hello"}}


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
    asking = cli.write({"id": "q", "question": "which?"}, name="ask.json")
    cli("schedule add --plan", asking, "--daily", "09:00", code=4, err="q asks a person")
    assert cli.json("schedule list") == []


def test_a_plan_with_several_times_becomes_a_schedule_for_each_under_one_approval(cli: Cli) -> None:
    times = {"n": {"daily_at": "09:00"}, "m": {"every_minutes": 60}}
    other = {**NOTE, "id": "m", "inputs": {"text": "again"}}
    file = cli.write(NOTE, other, schedules=times)
    waiting = cli.json("run", file, *PY, code=5)
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
    daily = ("schedule", "change", "daily", "--daily", "01:00", "--missed", "none")
    assert cli(*daily, *PY)[0] == 0
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
    flags = ("--run", run, "--approve-plan", digest)
    result = cli.json("schedule add", *flags)
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
