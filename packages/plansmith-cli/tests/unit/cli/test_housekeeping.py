"""`plansmith store prune`, `backup`, `restore` and `vacuum`, also beside another process."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests import forked
from tests.commands import Cli

from plansmith import Plan, Plansmith, tool
from plansmith.store.sqlite import SqliteStore
from plansmith.testing import FakeClock

LOOK = {"id": "a", "tool": "look", "inputs": {"name": "x"}}
NOTE = {"id": "n", "tool": "note", "inputs": {"text": "once"}}
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(desk: Path) -> Path:
    """The file of the store that the commands use."""
    return Path(os.environ["PLANSMITH_STORE"].removeprefix("sqlite:///"))


def rows(store: Path, query: str) -> list[tuple[object, ...]]:
    """What a store holds, read by another process: this one must not open the file twice."""
    code = "import json, sqlite3, sys; "
    code += "print(json.dumps(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchall()))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(store), query], capture_output=True, text=True, check=True
    )
    return [tuple(row) for row in json.loads(done.stdout)]


async def _ran_long_ago(store: Path, count: int, text: str = "x") -> list[str]:
    """Runs that ended years ago."""

    @tool(effect="read")
    def say(text: str) -> str:
        return text * 2000

    def plan(number: int) -> Plan:
        step = {"id": "s", "tool": "say", "inputs": {"text": f"{text}{number}"}}
        return Plan.model_validate({"goal": "old", "steps": [step]})

    clock = FakeClock(LONG_AGO)
    kept = SqliteStore(store, now=clock.now)
    async with Plansmith(tools=[say], store=kept, clock=clock) as smith:
        return [(await smith.run((await smith.submit(plan(n))).id)).id for n in range(count)]


def ran_long_ago(store: Path, count: int, text: str = "x") -> list[str]:
    return asyncio.run(_ran_long_ago(store, count, text))


def test_runs_that_ended_long_ago_are_pruned_and_no_others(cli: Cli, store: Path) -> None:
    old = ran_long_ago(store, 3)
    assert cli("run", cli.write(LOOK), "--tools", "tools.py", "--yes-read-only")[0] == 0
    assert cli("run", cli.write(NOTE), "--tools", "tools.py", "--no-input")[0] == 5
    words = ("store", "prune", "--older-than", "90d")
    result = cli.json(*words, "--dry-run")
    assert (result["runs"], result["removed"]) == (3, False)
    assert result["bytes"] > 500
    assert cli(*words)[0] == 4  # nobody is there to say yes
    assert len(rows(store, "SELECT 1 FROM runs")) == 5
    assert cli(*words, "--status", "failed", "--yes")[1].startswith("removed 0 runs")
    assert len(rows(store, "SELECT 1 FROM runs")) == 5
    assert cli(*words, "--yes")[0] == 0
    left = [str(row[0]) for row in rows(store, "SELECT name FROM runs")]
    assert len(left) == 2
    assert not {*old} & {*left}
    assert not [row for row in rows(store, "SELECT body FROM contents") if "x0x0" in str(row[0])]
    assert cli("store verify --all")[0] == 0


def test_a_backup_is_one_private_file_with_all_runs(cli: Cli, store: Path) -> None:
    ran_long_ago(store, 2)
    assert cli.json("store backup copy.db")["runs"] == 2
    assert (cli.folder / "copy.db").stat().st_mode & 0o777 == 0o600
    assert cli("store backup copy.db")[0] == 4
    assert cli("store backup copy.db --force")[0] == 0
    assert cli("store backup", str(store), "--force")[0] == 4
    assert sorted(each.name for each in cli.folder.iterdir() if "copy" in each.name) == ["copy.db"]
    assert cli("runs --store sqlite:///copy.db")[0] == 0
    assert cli("store verify --all --store sqlite:///copy.db")[0] == 0


def test_after_a_restore_nothing_goes_on_by_itself(cli: Cli, store: Path) -> None:
    """A run that acted after the backup must not act a second time unasked."""
    assert cli("run", cli.write(NOTE), "--tools", "tools.py", "--no-input")[0] == 5
    [[run]] = rows(store, "SELECT name FROM runs")
    plan_hash = cli.json("check plan.json --tools tools.py")["hash"]
    assert cli("approve", str(run), plan_hash, "--tools", "tools.py")[0] in (0, 5)
    assert cli("store backup copy.db")[0] == 0
    assert cli("go", str(run), "--tools", "tools.py")[0] == 0
    assert (cli.folder / "notes.txt").read_text(encoding="utf-8") == "once\n"
    assert cli("store restore copy.db")[0] == 4
    result = cli.json("store restore copy.db --yes")
    assert result["paused_runs"] == 1
    assert Path(result["kept"]).is_file()
    assert "backup" in json.dumps(cli.json("show", str(run)))
    cli("go --all --tools tools.py --no-input")
    assert (cli.folder / "notes.txt").read_text(encoding="utf-8") == "once\n"
    assert cli("store verify --all")[0] == 0
    # The store as it was can be put back in the same way.
    again = cli("store restore", result["kept"], "--yes")
    assert again[0] == 0, again
    assert cli.json("show", str(run))["status"] == "done"


@pytest.fixture
def other_process(store: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that appends to the store until its stdin is closed."""
    code = """
import asyncio, sys
from plansmith import Plan, Plansmith, tool

@tool(effect="read")
def look(name: str) -> str:
    return name * 500

PLAN = Plan.model_validate({"goal": "g", "steps": [
    {"id": f"s{n}", "tool": "look", "inputs": {"name": f"n{n}"}} for n in range(20)]})

async def main():
    async with Plansmith(tools=[look], store=sys.argv[1]) as smith:
        stop = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        count = 0
        while not stop.done():
            run = await smith.run((await smith.submit(PLAN)).id)
            assert run.status == "done", run
            count += 1
            if count == 3:
                print("going", flush=True)
        print(count, flush=True)

asyncio.run(main())
"""
    process = forked.Popen(
        [sys.executable, "-c", code, f"sqlite:///{store}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"
    yield process
    process.kill()
    process.wait()


def test_all_but_restore_work_beside_live_runs(
    cli: Cli, store: Path, other_process: subprocess.Popen[str]
) -> None:
    for number in range(3):
        assert cli("store backup", f"copy{number}.db")[0] == 0
        assert cli("store vacuum")[0] == 0
        assert cli("store prune --older-than 1h --yes")[0] == 0
    cli("store restore copy0.db --yes", code=4, err="another process uses")
    out, _ = other_process.communicate("", timeout=120)
    assert other_process.returncode == 0
    assert len(rows(store, "SELECT 1 FROM runs")) == int(out)
    assert cli("store verify --all")[0] == 0
    for number in range(3):
        assert cli("store verify --all --store", f"sqlite:///copy{number}.db")[0] == 0
    assert cli("store restore copy0.db --yes")[0] == 0
    assert not [each for each in store.parent.iterdir() if each.name.startswith(".")]


def bad_files(folder: Path, good: bytes) -> dict[str, Path]:
    """Files that are no backup, or were changed by somebody."""
    found = {
        "empty": b"",
        "text": b"not a database at all" * 100,
        "cut": good[: len(good) // 2],
        "broken": good[:8192] + bytes(4096) + good[12288:],
    }
    for name, data in found.items():
        (folder / name).write_bytes(data)
    for name, change in {
        "trigger": "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM runs; END",
        "view": "CREATE VIEW v AS SELECT load_extension('x')",
        "other": "DROP TABLE events",
        "altered": "UPDATE events SET body = replace(body, 'say', 'pay')",
    }.items():
        (folder / name).write_bytes(good)
        with closing(sqlite3.connect(folder / name)) as connection:
            connection.execute(change)
            connection.commit()
    return {name: folder / name for name in (*found, "trigger", "view", "other", "altered")}


def test_a_hostile_or_broken_file_leaves_the_store_as_it_is(cli: Cli, store: Path) -> None:
    ran_long_ago(store, 2)
    assert cli("store backup good.db")[0] == 0
    before = rows(store, "SELECT * FROM tally")
    for name, path in bad_files(cli.folder, (cli.folder / "good.db").read_bytes()).items():
        code, _, err = cli("store restore", str(path), "--yes")
        assert code in (1, 2, 4), (name, err)
        assert "Traceback" not in err, name
        assert f".{store.name}." not in err, (name, err)  # the file that was given is named
    assert cli("store restore nowhere.db --yes")[0] == 2
    assert rows(store, "SELECT * FROM tally") == before
    assert cli("store verify --all")[0] == 0
    assert not [each for each in store.parent.iterdir() if each.name.startswith(".")]


def test_a_full_disk_leaves_no_half_backup(cli: Cli, store: Path) -> None:
    ran_long_ago(store, 30, "y" * 20)
    # As much as a file may have: what does not fit fails as on a full disk.
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)); "
        "from plansmith_cli.main import main; sys.exit(main(['store', 'backup', 'copy.db']))"
    )
    assert store.stat().st_size > 300_000
    done = forked.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert not [each for each in cli.folder.iterdir() if "copy" in each.name]


@pytest.mark.parametrize("age", ["", "0d", "90", "d", "-1d", "90days", "999999d"])
def test_an_age_that_is_none_removes_nothing(age: str, cli: Cli) -> None:
    assert cli("store prune --older-than", age, "--yes")[0] == 2
