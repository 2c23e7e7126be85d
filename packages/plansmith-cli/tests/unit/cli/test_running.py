"""Running plans from the command line, in one process: every exit code, every word as JSON."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Cli

from plansmith import Effect, RunStatus
from plansmith.app import Plansmith
from plansmith.errors import ToolFailed
from plansmith.plan.events import StepDone, next_event
from plansmith.plan.limits import Limits
from plansmith.store.urls import open_store
from plansmith.testing import FakeTool, FakeTools, ScriptedModel
from plansmith_cli.config import load_settings
from plansmith_planner.settings import PlannerSettings

PY = ("--tools", "tools.py")
LOOK = {"id": "a", "tool": "look", "inputs": {"name": "x"}}
NOTE = {"id": "n", "tool": "note", "inputs": {"text": "hello"}}
BROKEN = {"id": "b", "tool": "broken", "inputs": {"name": "x"}}
ASK = {"id": "q", "question": "Which colour?", "options": ["red", "blue"]}


def run_json(cli: Cli, name: str = "last") -> dict[str, Any]:
    found: dict[str, Any] = cli.json("show", name)
    return found


def test_a_plan_that_only_reads_runs_at_once_and_data_alone_is_on_stdout(cli: Cli) -> None:
    _, out, err = cli("run", cli.write(LOOK), *PY, "--json", code=0)
    result = json.loads(out)
    assert (result["status"], result["steps"]["a"]["result"]) == ("done", {"name": "x"})
    assert result["next"] == []
    assert "▶ a running" in err


def test_a_failed_run_exits_with_1_and_a_partly_done_one_with_7(cli: Cli) -> None:
    assert cli("run", cli.write(BROKEN), *PY)[0] == 1
    cli("run", cli.write(BROKEN, LOOK), *PY, code=7, out="boom", err="✗ b failed: ValueError: boom")


def test_an_invalid_plan_exits_with_3_and_leaves_no_run(cli: Cli) -> None:
    cli(
        "run",
        cli.write({"id": "a", "tool": "lok"}),
        *PY,
        code=2,
        err="lok (step a) is not available",
    )
    cli("run", cli.write(LOOK | {"after": ["nobody"]}), *PY, code=3, err="nobody")
    assert cli.json("runs") == []


def test_a_tool_that_is_only_described_is_refused_before_anything_runs(cli: Cli) -> None:
    described = {"weather": {"description": "The weather", "effect": "read"}}
    (cli.folder / "tools.json").write_text(json.dumps(described), encoding="utf-8")
    plan = cli.write(NOTE, {"id": "w", "tool": "weather"})
    typed = f"run {plan} --tools tools.py --tools tools.json --yes-read-only"
    cli(typed, code=2, err="weather (step w) is only described")
    assert not (cli.folder / "notes.txt").exists()
    assert cli.json("runs") == []


def test_a_write_waits_with_5_and_the_command_that_approves_it(cli: Cli) -> None:
    _, out, err = cli("run", cli.write(LOOK, NOTE), *PY, code=5)
    run = run_json(cli)
    assert out == ""
    assert 'text = "hello"' in err
    assert "Step `n` changes something: it calls `note`" in err
    assert f"hash {run['hash']}" in err
    commands = [line.strip() for line in err.splitlines() if line.strip().startswith("plansmith ")]
    assert commands == [
        f"plansmith go {run['id']} --tools tools.py",
        f"plansmith approve {run['id']} {run['hash']} --tools tools.py",
    ]
    assert not (cli.folder / "notes.txt").exists()
    for command in commands[::-1]:
        code, *_ = cli(*command.split()[1:])
        assert code == 0
    assert (cli.folder / "notes.txt").read_text() == "hello\n"


def test_approval_is_for_exactly_one_plan(cli: Cli) -> None:
    plan = cli.write(NOTE)
    assert cli("run", plan, *PY, "--approve-plan", "0" * 64)[0] == 5
    run, cut = run_json(cli), "only the beginning of the hash"
    assert cli("approve last", "0" * 64)[0] == 4
    cli("approve last", run["hash"][:12], code=4, err=cut)
    cli("run", plan, *PY, "--approve-plan", run["hash"][:12], code=5, err=cut)
    assert cli("approve last")[0] == 5
    assert not (cli.folder / "notes.txt").exists()
    assert cli.json("run", plan, *PY, "--approve-plan", run["hash"])["status"] == "done"
    assert cli("approve", run["id"], run["hash"], *PY, "--go")[0] == 0
    assert cli("approve", run["id"], run["hash"])[0] == 4
    assert (cli.folder / "notes.txt").read_text() == "hello\n" * 2


def test_a_rejected_plan_never_runs(cli: Cli) -> None:
    cli("run", cli.write(NOTE), *PY)
    assert cli("reject last")[0] == 0
    assert run_json(cli)["status"] == "cancelled"
    cli("go last", *PY, code=4, err="plansmith runs retry")
    assert not (cli.folder / "notes.txt").exists()


def test_a_run_that_is_over_is_not_said_to_wait_for_something(cli: Cli) -> None:
    cli("run", cli.write(LOOK), *PY, code=0)
    for words in ("approve last", "answer last yes"):
        assert "waits for" not in cli(words, code=4, err="it is done").err


def test_a_file_of_tools_that_ends_the_program_is_named(cli: Cli) -> None:
    (cli.folder / "ends.py").write_text("raise SystemExit(3)", encoding="utf-8")
    cli("run", cli.write(LOOK), "--tools", "ends.py", code=2, err="ends.py cannot be run: it ended")


def test_the_settings_may_review_every_plan_and_a_flag_frees_what_only_reads(cli: Cli) -> None:
    (cli.folder / "plansmith.toml").write_text('[review]\nask = "always"\n', encoding="utf-8")
    cli("trust --yes", cli.json("trust", code=5)["hash"])
    assert cli("run", cli.write(LOOK), *PY)[0] == 5
    assert cli("run", cli.write(LOOK), *PY, "--yes-read-only")[0] == 0
    assert cli("run", cli.write(NOTE), *PY, "--yes-read-only")[0] == 5


def test_a_question_waits_and_its_answer_goes_on(cli: Cli) -> None:
    use = {"id": "u", "tool": "look", "inputs": {"name": "{{q}}"}}
    err = cli("run", cli.write(ASK, use), *PY, code=5, err=("Which colour?", "│ 2. blue")).err
    assert f"plansmith answer {run_json(cli)['id']} q ANSWER" in err
    assert cli("answer last")[0] == 5
    assert cli("answer last nobody red")[0] == 4
    cli("answer last green", code=4, err="not one of red, blue")
    assert cli("answer last q 2", *PY, "--go")[0] == 0
    assert run_json(cli)["steps"]["u"]["result"] == {"name": "blue"}
    assert cli("answer last red")[0] == 4


def test_of_two_questions_both_are_shown_until_one_is_named(cli: Cli) -> None:
    cli("run", cli.write(ASK, ASK | {"id": "r"}), *PY)
    cli("answer last red", code=5, err=("in its step q (q)", "in its step r (r)"))
    cli("answer last r red", code=0, err=": waiting for you")
    cli("answer last blue", code=0, err=(": ready", "To go on:"))
    assert cli("go last")[0] == 0


def test_every_run_that_was_under_way_is_taken_up_at_once(cli: Cli) -> None:
    for _ in range(2):
        cli("run", cli.write(ASK), *PY)
        assert cli("answer last red")[0] == 0
    cli("run", cli.write(NOTE), *PY)
    assert [run["status"] for run in cli.json("go --all", *PY)] == ["done", "done"]
    assert run_json(cli)["status"] == "reviewing"
    cli("go", *PY, code=5, err="hello")  # the newest that waits
    cli("runs cancel last")
    cli("go", *PY, code=0, err="no run of this folder waits for you")


def test_a_used_up_budget_exits_with_6_and_an_answer_goes_on(cli: Cli) -> None:
    plan = cli.write(LOOK, LOOK | {"id": "b", "after": ["a"]})
    cli("run", plan, *PY, "--budget", "steps=1", code=6, err="1 calls")
    assert cli("answer last go_on", *PY, "--go")[0] == 0
    cli("run", plan, *PY, "--budget", "steps=1")
    assert cli("answer last stop")[0] == 0
    assert run_json(cli)["status"] == "cancelled"


def test_pause_cancel_and_undo_from_outside(cli: Cli) -> None:
    cli("run", cli.write(NOTE), *PY)
    assert cli("runs pause last --reason lunch")[0] == 0
    assert run_json(cli)["reason"] == "lunch"
    cli("run last", *PY, code=2, err="plansmith go")
    assert cli("go last", *PY)[0] == 5
    edited = {"goal": "test", "steps": [NOTE | {"inputs": {"text": "other"}}]}
    (cli.folder / "edited.json").write_text(json.dumps(edited), encoding="utf-8")
    cli("runs edit last --file edited.json", *PY, code=0, err='~ n inputs.text: "hello" -> "other"')
    cli("runs undo last", *PY, err='~ n inputs.text: "other" -> "hello"')
    reason = "caf\udce9"  # a byte that is not UTF-8
    assert cli("runs cancel last --reason", reason)[0] == 0
    assert cli("runs cancel last")[0] == 4
    assert run_json(cli)["status"] == "cancelled"
    assert run_json(cli)["reason"].endswith(": caf\ufffd")


def test_the_editor_is_used_and_nothing_written_in_it_is_lost(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("TMPDIR", str(cli.folder))
    cli("run", cli.write(NOTE), *PY)
    monkeypatch.setenv("EDITOR", "sed -i s/hello/goodbye/")
    assert cli("runs edit last", *PY)[0] == 0
    assert run_json(cli)["plan"]["steps"][0]["inputs"] == {"text": "goodbye"}
    assert not list(Path(cli.folder).glob("plansmith-*.yaml"))
    monkeypatch.setenv("EDITOR", "true")
    assert "nothing was changed" in cli("runs edit last", *PY)[2]
    monkeypatch.setenv("EDITOR", "sed -i s/note/nowt/")
    err = cli("runs edit last", *PY, code=3).err
    kept = next(word for word in err.split() if word.endswith(".yaml"))
    assert "nowt" in Path(kept).read_text()
    Path(kept).unlink()
    monkeypatch.setenv("EDITOR", "no-such-editor")
    cli("runs edit last", *PY, code=2, err="set EDITOR")


def test_a_retry_repeats_only_what_it_has_to(cli: Cli) -> None:
    cli("run", cli.write(LOOK, {"id": "b", "tool": "look", "inputs": {"name": "{{a.name}}"}}), *PY)
    cli("runs retry last", *PY, code=4, err=("every step is done", "plansmith runs rerun"))
    kept = ("1 of 2 steps are done", "will not run again", "▶ b running")
    assert "▶ a running" not in cli("runs retry last --from b", *PY, code=0, err=kept).err
    assert cli("runs retry last", *PY, "--from", "nobody")[0] == 4


def test_a_rerun_runs_everything_again_and_asks_again(cli: Cli) -> None:
    cli("run", cli.write(LOOK, NOTE), *PY)
    run = run_json(cli)
    cli("approve last", run["hash"], *PY, "--go")
    assert (cli.folder / "notes.txt").read_text() == "hello\n"
    cli("runs rerun last", *PY, code=5, err="was done in run")
    assert (cli.folder / "notes.txt").read_text() == "hello\n"
    cli("runs rerun", run["id"], *PY, "--approve-plan", run["hash"], code=0, err="▶ a running")
    assert (cli.folder / "notes.txt").read_text() == "hello\n" * 2


def test_a_request_that_nothing_here_can_do_is_a_failure_that_offers_another_try(cli: Cli) -> None:
    _, out, err = cli("ask", "Sing me a song about rivers", "--model", "rules", "--json", code=3)
    result = json.loads(out)
    assert (result["status"], result["plan"]) == ("failed", None)
    assert "no plan could be made" in result["reason"]
    assert result["next"] == [f"plansmith runs retry {result['id']} --model rules"]
    assert "To have it planned again" in err
    assert cli("schedule keep last --every 60")[0] != 0  # what is no plan cannot be kept as one
    again = result["next"][0].split()[1:]
    second = cli.json(*again, code=3)
    assert (second["id"] != result["id"], second["request"]) == (True, result["request"])
    assert not list(cli.folder.glob("*.txt"))


def test_events_are_lines_of_json(cli: Cli) -> None:
    out = cli("run", cli.write(LOOK), *PY, "--jsonl", code=0).out
    events = [json.loads(line) for line in out.splitlines()]
    assert [each["number"] for each in events] == list(range(1, len(events) + 1))
    assert events[0]["body"]["type"] == "run_created"
    assert events[-1]["body"]["type"] == "run_finished"
    code, again, _ = cli("runs watch last --jsonl")
    assert (code, again) == (0, out)


def test_an_approval_by_who_does_not_know_the_tools_says_what_it_does_not_cover(cli: Cli) -> None:
    cli("run", cli.write(NOTE), *PY)
    uncovered = ("does not cover how these tools are defined", "not known here: note")
    cli("approve last", run_json(cli)["hash"], code=0, err=uncovered)
    cli("run", cli.write(NOTE), *PY)
    assert "does not cover" not in cli("approve last", run_json(cli)["hash"], *PY, code=0).err


def test_an_approval_that_cannot_be_followed_by_its_run_is_not_recorded(cli: Cli) -> None:
    cli("run", cli.write(NOTE), *PY)
    cli("approve last", run_json(cli)["hash"], "--go", code=2, err=("note", "--tools"))
    assert (run_json(cli)["status"], run_json(cli)["approved"]) == ("reviewing", "")


def test_runs_are_listed_by_status_with_ids_that_can_be_typed(cli: Cli) -> None:
    assert "there are no runs" in cli("runs")[2]
    assert cli("show last")[0] == 2
    cli("run", cli.write(LOOK, goal="first"), *PY)
    cli("run", cli.write(NOTE, goal="second"), *PY)
    [first, second] = cli("runs", code=0).out.splitlines()
    assert ("done" in first, "reviewing" in second) == (True, True)
    assert run_json(cli, first.split()[0])["request"] == "first"
    assert run_json(cli, second.split()[0])["request"] == "second"
    assert cli("runs --status open")[1] == second + "\n"
    assert cli("runs --limit 1")[1] == second + "\n"
    cli("show", run_json(cli)["id"][:4], code=2, err="2 runs begin with")
    assert cli("show ffff")[0] == 2
    assert cli("runs --status odd")[0] == 2
    assert "no run has this status" in cli("runs --status failed")[2]
    cli("runs --limit 0", code=2, err="0 is not 1 or more")


def test_a_journal_is_verified_and_an_altered_one_is_found(cli: Cli, tmp_path: Path) -> None:
    cli("run", cli.write(LOOK), *PY)
    assert "none altered" in cli("store verify")[1]
    assert cli("store verify --all --json")[0] == 0
    assert cli("store doctor")[0] == 0
    connection = sqlite3.connect(tmp_path / "store" / "runs.db")
    connection.execute("UPDATE events SET body = replace(body, 'a', 'b') WHERE position = 2")
    connection.commit()
    connection.close()
    assert cli("store verify --all", code=1).out.startswith("error: ")
    assert cli.json("runs")[0]["damage"], "lists tell of what verify found"
    assert cli("store doctor --json")[0] == 1


def test_the_list_of_runs_runs_no_file_of_tools_that_the_settings_name(cli: Cli) -> None:
    config = cli.folder.parent / ".config" / "plansmith" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('tools = ["mine.py"]', encoding="utf-8")
    config.with_name("mine.py").write_text("raise ValueError('was run')", encoding="utf-8")
    assert cli("runs")[0] == 0
    cli("tools list", code=2, err="was run")
    config.write_text('widht = 3\ntools = ["mine.py"]', encoding="utf-8")
    cli("runs", code=2, err="widht")


def test_text_from_tools_reaches_the_terminal_harmless(cli: Cli) -> None:
    nasty = LOOK | {"inputs": {"name": "\x1b[31mred\x9b2J\u202e"}}
    for words in (["--json"], []):
        _, out, err = cli("run", cli.write(nasty), *PY, *words, code=0)
        assert not {"\x1b", "\x9b", "\u202e"} & set(out + err)
    assert run_json(cli)["steps"]["a"]["result"] == {"name": "\x1b[31mred\x9b2J\u202e"}


JSON_OF: dict[str, list[str]] = {
    "ask": ["Which files mention invoices?"],
    "plan": ["Which files mention invoices?"],
    "run": ["plan.json", *PY],
    "runs watch": ["last", "--no-input"],
    "approve": ["last", "HASH"],
    "reject": ["last"],
    "answer": ["last", "red"],
    "runs edit": ["last", *PY, "--file", "plan.json"],
    "runs change": ["last", "another word"],
    "runs undo": ["last", *PY],
    "runs pause": ["last"],
    "go": ["last", *PY],
    "runs retry": ["last", *PY],
    "runs rerun": ["last", *PY],
    "runs skip": ["last", "n"],
    "runs cancel": ["last"],
    "store repair": ["last"],
    "runs": [],
    "show": ["last"],
    "store verify": [],
    "store doctor": [],
}


async def spoil(run: str) -> None:
    """Write an event that does not fit, as a release with a fault would have."""
    store = open_store(load_settings().store_url())
    last = (await store.events(run))[-1]
    body = StepDone(step="nowhere", result="0" * 64)
    await store.append([next_event(body, run=run, by=last.by, at=last.at, last=last)])
    await store.close()


@pytest.mark.parametrize("name", JSON_OF)
def test_the_json_of_every_command_parses(name: str, cli: Cli) -> None:
    steps = [ASK] if name == "answer" else [NOTE]
    cli("run", cli.write(*steps), *PY)
    run = run_json(cli)
    if name in ("runs retry", "runs rerun"):
        cli("reject last")
    if name == "runs undo":
        cli("runs edit last", *PY, "--file", cli.write(LOOK, name="other.json"))
    if name == "store repair":
        asyncio.run(spoil(run["id"]))
        assert [each["id"] for each in cli.json("runs --status damaged")] == [run["id"]]
    words = [run["hash"] if word == "HASH" else word for word in JSON_OF[name]]
    code, out, err = cli(*name.split(), *words, "--json")
    # Rules cannot change a plan, and say so.
    assert code in ((4,) if name == "runs change" else (0, 5)), err
    assert json.loads(out) is not None


# A replan that drops an approved effect: no flag agrees to it


async def _replanned(store: str) -> tuple[str, str]:
    """A run whose replan, which waits for a person, only reads where a note was approved."""
    drafts = [
        {"goal": "note it", "steps": [BROKEN, NOTE | {"after": ["b"]}]},
        {"goal": "look", "steps": [LOOK | {"id": "l"}]},
    ]
    tools = FakeTools(
        FakeTool("look"),
        FakeTool("broken", [ToolFailed("no")]),
        FakeTool("note", [1], Effect.WRITE),
    )
    async with Plansmith(
        model=ScriptedModel(*drafts),
        tools=[tools],
        store=store,
        limits=Limits(first_wait_s=0),
        settings=PlannerSettings(triage=False),
    ) as smith:
        run = await smith.plan("note it", by="ada")
        assert run.plan is not None
        await smith.decide(run.id, approve=run.plan.hash, by="ada")
        run = await smith.run(run.id)
        assert run.status is RunStatus.REVIEWING
        assert run.plan is not None
        return run.id, run.plan.hash


def test_a_flag_for_plans_that_only_read_does_not_agree_to_a_dropped_effect(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "store").mkdir()
    run, digest = asyncio.run(_replanned(f"sqlite:///{tmp_path / 'store' / 'runs.db'}"))
    dropped = 'no longer calls note(text="hello"), which you approved'
    cli(f"go {run} --tools tools.py --yes-read-only --no-input", code=5, err=dropped)
    out = cli("go", run, "--tools", "tools.py", "--approve-plan", digest, code=7).out
    assert 'Not done, although it was approved: note(text="hello")' in out.replace("\\", "")
