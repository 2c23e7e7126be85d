"""Schedules from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
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


def test_the_next_fires_of_given_times_are_printed_in_utc(cli: Cli) -> None:
    words = ("--cron", "30 1 * * *", "--tz", "Europe/London", "--after", "2026-10-24T12:00:00Z")
    code, out, _ = cli("schedule", "next", *words, "--count", "3", "--json")
    times = ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z", "2026-10-27T01:30:00Z"]
    assert (code, json.loads(out)) == (0, times)
    code, out, _ = cli("schedule", "next", *words, "--count", "1")
    assert out == "2026-10-25T00:30:00Z  Sun 2026-10-25 01:30 Europe/London\n"
    code, out, _ = cli("schedule", "next", "--every", "2h", "--after", "2026-01-01", "--json")
    assert json.loads(out)[0] == "2026-01-01T02:00:00Z"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("next",), "no times are given"),
        (("next", "--cron", "* * *"), "minute hour day"),
        (("next", "--daily", "9:00"), "HH:MM"),
        (("next", "--daily", "09:00", "--tz", "Nowhere"), "no time zone"),
        (("next", "--every", "soon"), "such as 15m"),
        (("next", "--every", "0m"), "such as 15m"),
        (("next", "--daily", "09:00", "--after", "noon"), "not a time"),
        (("show", "none"), "no schedule 'none'"),
        (("add", "--every", "1h"), "say what to do"),
        (("add", "look at Oslo"), "does not say when"),
        (("add", "every 10 seconds look"), "once a minute"),
        (("add", "every day at 9"), "does not say what"),
        (("add", "--anew", "--plan", "x.json"), "--anew needs a REQUEST"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(cli: Cli, words: tuple[str, ...], said: str) -> None:
    code, out, err = cli("schedule", *words)
    assert (code, out) == (2, "")
    assert said in err


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
    code, out, _ = cli(*words, "--json")
    told = json.loads(out)
    assert (code, told["hash"], len(told["next"])) == (5, hash_of(NOTE), 3)
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
    told = json.loads(out)
    assert (code, [len(each["next"]) for each in told["times"]]) == (5, [3, 3])
    assert "n: It would run unattended, daily at 09:00 UTC" in err
    assert "m: It would run unattended, every hour" in err
    approval = ("--approve-plan", told["hash"])
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
    told = json.loads(out)
    assert told["timing"] == {"cron": "0 9 * * 1-5", "timezone": "Asia/Shanghai"}
    assert told["max_failures"] == 7
    file = write(NOTE, name="other.json")
    assert cli("schedule", "change", "mine", "--plan", file, *PY)[0] == 5
    approve = ("--approve-plan", hash_of(NOTE))
    assert cli("schedule", "change", "mine", "--plan", file, *approve, *PY)[0] == 0


def test_a_template_is_scheduled_with_its_parameters(cli: Cli, write: Write) -> None:
    cli("run", write(LOOK), *PY)
    cli("templates", "save", "last", "city", "--param", "name=a.inputs.name", *PY)
    words = ("schedule", "add", "--template", "city", "--set", "name=Rome", "--daily", "06:00")
    code, _, err = cli(*words, *PY)
    assert code == 5
    digest = err.rpartition("--approve-plan ")[2].split()[0]
    code, out, _ = cli(*words, "--approve-plan", digest, *PY, "--json")
    told = json.loads(out)
    assert (code, told["template"], told["inputs"]) == (0, "city", {"name": "Rome"})


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
    told = json.loads(out)
    assert told["timing"]["cron"] == "0 9 * * 1-5"
    assert told["name"] == "list the files here"
    shown = json.loads(cli("show", run, "--json")[1])
    assert (shown["status"], shown["reason"]) == (
        "cancelled",
        "it runs as the schedule list the files here",
    )


def test_a_request_planned_anew_each_time_asks_each_time(cli: Cli) -> None:
    code, out, err = cli("schedule", "add", "--anew", "每天早上九点列出这里的文件", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert (told["approved"], told["request"], told["plan"]) == ("", "列出这里的文件", None)
    code, _, _ = cli("schedule", "run-now", told["id"])
    assert code == 5
    [row] = json.loads(cli("schedule", "history", told["id"], "--json")[1])
    assert (row["state"], row["note"]) == ("waiting", "waits for your approval")


PAST = ("--since", "2026-01-01T00:00", "--until", "2026-01-01T03:00")


def test_keep_once_says_what_failed_and_its_code_tells(cli: Cli, write: Write) -> None:
    code, _, err = cli("schedule", "keep", "--once", *PY)
    assert (code, "nothing is due" in err) == (0, True)
    broken = {"id": "b", "tool": "broken", "inputs": {"name": "x"}}
    add(cli, write, broken, name="breaks", every="1d")
    assert cli("schedule", "change", "breaks", "--daily", "01:00", *PY)[0] == 0
    assert cli("schedule", "backfill", "breaks", *PAST)[0] == 0
    code, _, err = cli("schedule", "keep", "--once", *PY)
    assert (code, "breaks: failed: failed: b" in err) == (1, True)
    assert "boom" in cli("schedule", "history", "breaks")[1]
    assert cli("schedule", "backfill", "breaks", *PAST[:3], "2026-01-02T03:00")[0] == 0
    code, out, _ = cli("schedule", "keep", "--once", *PY, "--json")
    [told] = json.loads(out)
    assert (code, told["schedule"], told["state"]) == (1, "breaks", "failed")


def test_keep_once_says_what_was_done_in_part_and_what_was_done(cli: Cli, write: Write) -> None:
    broken = {"id": "b", "tool": "broken", "inputs": {"name": "x"}}
    for name, steps in (("part", (LOOK, broken)), ("whole", (LOOK,))):
        add(cli, write, *steps, name=name, every="1d")
        assert cli("schedule", "change", name, "--daily", "01:00", *PY)[0] == 0
        assert cli("schedule", "backfill", name, *PAST)[0] == 0
    code, _, err = cli("schedule", "keep", "--once", *PY)
    assert (code, "part: failed" in err, "whole: done" in err) == (7, True, True)
