"""Schedules from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.unit.cli.conftest import Cli, Write

from plansmith import Plan

PY = ("--tools", "tools.py")
LOOK: dict[str, Any] = {"id": "a", "tool": "look", "inputs": {"name": "Oslo"}}
NOTE: dict[str, Any] = {"id": "n", "tool": "note", "inputs": {"text": "hello"}}


def hash_of(*steps: dict[str, Any], **fields: Any) -> str:
    return Plan.model_validate({"goal": "test", "steps": list(steps)} | fields).hash


def add(cli: Cli, write: Write, *steps: dict[str, Any], **flags: str) -> dict[str, Any]:
    given = {"every": "1h", "name": "mine"} | flags
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    file = write(*steps, name="s.json")
    approve = ("--approve-plan", hash_of(*steps))
    code, out, err = cli("schedule", "add", "--plan", file, *words, *approve, *PY, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_plan_is_scheduled_shown_listed_and_removed(cli: Cli, write: Write) -> None:
    made = add(cli, write, NOTE, overlap="queue", budget="0.50")
    assert (made["state"], made["approved"]) == ("active", hash_of(NOTE))
    assert (made["overlap"], made["budget"]) == ("queue", {"money": "0.5"})
    code, out, _ = cli("schedule", "list")
    assert (code, "mine  active  every hour" in out) == (0, True)
    code, out, _ = cli("schedule", "show", "mine")
    assert f"runs unattended as plan {hash_of(NOTE)}" in out
    assert out.count("\n  next ") == 5
    assert len(json.loads(cli("schedule", "show", "mine", "--json")[1])["next"]) == 5
    assert len(json.loads(cli("schedule", "next", "mine", "--count", "2", "--json")[1])) == 2
    code, _, err = cli("schedule", "remove", "mine")
    assert (code, "removed schedule mine" in err) == (0, True)
    assert json.loads(cli("schedule", "list", "--json")[1]) == []
    assert "no schedules" in cli("schedule", "list")[2]


def test_nothing_is_scheduled_without_approval_of_its_hash(cli: Cli, write: Write) -> None:
    file = write(NOTE)
    words = ("schedule", "add", "--plan", file, "--daily", "09:00", *PY)
    code, _, err = cli(*words)
    assert code == 5
    assert f"--approve-plan {hash_of(NOTE)}" in err
    assert "It would run unattended, daily at 09:00 UTC; next:" in err
    assert "! Step `n` changes something: it calls `note`" in err
    code, out, _ = cli(*words, "--json")
    assert (code, json.loads(out)["hash"]) == (5, hash_of(NOTE))
    code, _, err = cli(*words, "--approve-plan", "0" * 64)
    assert (code, "names another plan" in err) == (5, True)
    asking = write({"id": "q", "question": "which?"}, name="ask.json")
    code, _, err = cli("schedule", "add", "--plan", asking, "--daily", "09:00")
    assert (code, "q asks a person" in err) == (4, True)
    assert json.loads(cli("schedule", "list", "--json")[1]) == []


def test_a_plan_with_several_times_becomes_a_schedule_for_each_under_one_approval(
    cli: Cli, write: Write
) -> None:
    times = {"n": {"daily_at": "09:00"}, "m": {"every_minutes": 60}}
    other = {**NOTE, "id": "m", "inputs": {"text": "again"}}
    file = write(NOTE, other, schedules=times)
    code, out, _ = cli("run", file, *PY, "--json")
    waiting = json.loads(out)
    assert (code, waiting["status"]) == (5, "reviewing")
    words = ("schedule", "add", "--run", waiting["id"], *PY)
    code, out, err = cli(*words, "--json")
    result = json.loads(out)
    assert code == 5
    assert "n: It would run unattended, daily at 09:00 UTC" in err
    assert "m: It would run unattended, every hour" in err
    approval = ("--approve-plan", result["hash"])
    code, _, err = cli(*words, *approval, "--name", "both")
    assert (code, "several times takes no name" in err) == (2, True)
    code, out, err = cli(*words, *approval, "--json")
    assert code == 0, err
    assert [each["state"] for each in json.loads(out)] == ["active", "active"]
    assert len(json.loads(cli("schedule", "list", "--json")[1])) == 2


def test_a_schedule_runs_now_and_tells_its_history(cli: Cli, write: Write, intake: Path) -> None:
    add(cli, write, NOTE)
    code, _, err = cli("schedule", "run-now", "mine", *PY)
    assert code == 0, err
    assert (intake / "notes.txt").read_text(encoding="utf-8") == "hello\n"
    [row] = json.loads(cli("schedule", "history", "mine", "--json")[1])
    assert (row["kind"], row["state"]) == ("now", "done")
    code, out, _ = cli("schedule", "history", "mine")
    assert (code, "done (now)" in out) == (0, True)
    code, out, _ = cli("show", row["run"], "--json")
    assert json.loads(out)["approved"] == hash_of(NOTE)
    code, _, err = cli("schedule", "run-now", "mine")  # without its tools
    assert code == 2
    assert "PS101" in err


def test_keep_once_deals_with_what_is_due_and_ends(cli: Cli, write: Write) -> None:
    add(cli, write, LOOK)
    assert cli("schedule", "keep", "--once", *PY)[0] == 0
    assert json.loads(cli("schedule", "history", "mine", "--json")[1]) == []
    past = ("--since", "2026-01-01T00:00", "--until", "2026-01-01T03:00")
    code, out, _ = cli("schedule", "backfill", "mine", *past, "--json")
    assert (code, json.loads(out)) == (0, [])  # intervals begin with the schedule
    add(cli, write, LOOK, name="daily", every="1d")
    daily = ("schedule", "change", "daily", "--daily", "01:00", "--missed", "none")
    assert cli(*daily, *PY)[0] == 0
    code, _, err = cli("schedule", "backfill", "daily", *past[:3], "2026-01-03T03:00")
    assert (code, "3 fires queued" in err) == (0, True)
    assert cli("schedule", "keep", "--once", *PY)[0] == 0
    rows = json.loads(cli("schedule", "history", "daily", "--json")[1])
    assert [(each["kind"], each["state"]) for each in rows] == [("backfill", "done")] * 3


def test_a_schedule_is_paused_with_a_reason_resumed_and_changed(cli: Cli, write: Write) -> None:
    add(cli, write, LOOK)
    assert cli("schedule", "pause", "mine", "--reason", "holidays")[0] == 0
    assert "holidays" in cli("schedule", "list")[1]
    code, out, err = cli("schedule", "next", "mine")
    assert (code, out, "paused: holidays" in err) == (0, "", True)
    assert cli("schedule", "resume", "mine")[0] == 0
    assert cli("schedule", "resume", "mine")[0] == 4
    assert cli("schedule", "change", "mine")[0] == 2
    words = ("--cron", "0 9 * * 1-5", "--tz", "Asia/Shanghai", "--max-failures", "7")
    code, out, _ = cli("schedule", "change", "mine", *words, *PY, "--json")
    result = json.loads(out)
    assert result["timing"] == {"cron": "0 9 * * 1-5", "timezone": "Asia/Shanghai"}
    assert result["max_failures"] == 7
    file = write(NOTE, name="other.json")
    assert cli("schedule", "change", "mine", "--plan", file, *PY)[0] == 5
    approve = ("--approve-plan", hash_of(NOTE))
    assert cli("schedule", "change", "mine", "--plan", file, *approve, *PY)[0] == 0


def test_a_request_in_words_is_planned_and_waits_for_the_yes(cli: Cli, intake: Path) -> None:
    words = "every weekday at 9 list the files here"
    code, _, err = cli("ask", words)
    assert code == 5, err
    assert "cron 0 9 * * 1-5 UTC" in err
    line = next(each for each in err.splitlines() if "schedule add --run" in each)
    run, digest = line.split("--run ")[1].split()[0], line.rpartition(" ")[2]
    assert json.loads(cli("schedule", "list", "--json")[1]) == []
    flags = ("--run", run, "--approve-plan", digest)
    code, out, err = cli("schedule", "add", *flags, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["timing"]["cron"] == "0 9 * * 1-5"
    assert result["name"] == "list the files here"
    output = json.loads(cli("show", run, "--json")[1])
    assert (output["status"], output["reason"]) == (
        "cancelled",
        "it runs as the schedule list the files here",
    )


def test_a_request_planned_anew_each_time_asks_each_time(cli: Cli) -> None:
    code, out, err = cli("schedule", "add", "--anew", "每天早上九点列出这里的文件", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert (result["approved"], result["request"], result["plan"]) == ("", "列出这里的文件", None)
    code, _, _ = cli("schedule", "run-now", result["id"])
    assert code == 5
    [row] = json.loads(cli("schedule", "history", result["id"], "--json")[1])
    assert (row["state"], row["note"]) == ("waiting", "waits for your approval")
