"""`plansmith prune`, `backup`, `restore` and `vacuum`: keeps the store small and restorable."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import sys
from datetime import UTC, datetime
from pathlib import Path

from plansmith.adapters.stores import backup
from plansmith.adapters.stores.doctor import verify
from plansmith.adapters.stores.sqlite import SqliteStore
from plansmith.adapters.stores.urls import is_postgres, sqlite_path
from plansmith.app import Plansmith
from plansmith.cli.command import FileCommand
from plansmith.cli.exit_codes import Exit
from plansmith.cli.options import add_json, add_store, settings_of, warn
from plansmith.cli.session import Session, in_session
from plansmith.cli.ui.output import print_json, print_lines
from plansmith.errors import Misconfigured, Refused
from plansmith.housekeeping import find_old, hold_restored, prune, read_age, read_statuses
from plansmith.text import safe


def _configure_prune(parser: argparse.ArgumentParser) -> None:
    what = "runs that ended so long ago, such as 90d, 12h or 4w"
    parser.add_argument("--older-than", required=True, metavar="AGE", help=what)
    parser.add_argument("--status", metavar="LIST", help="only these, such as done,failed")
    parser.add_argument("--dry-run", action="store_true", help="only tell what would be removed")
    parser.add_argument("--yes", action="store_true", help="remove without asking")
    parser.add_argument("--vacuum", action="store_true", help="give the space back afterwards")
    add_store(parser)
    add_json(parser)


def _prune(args: argparse.Namespace) -> int:
    before = datetime.now(UTC) - read_age(args.older_than)
    statuses = read_statuses(args.status) if args.status else ()

    async def work(session: Session) -> int:
        old = await find_old(session.smith, before, statuses)
        told = f"{len(old.runs)} runs, about {_size(old.bytes)}"
        if not args.dry_run and old.runs and not args.yes:
            _ask(session, f"Remove {told}?")
        if not args.dry_run:
            old = await prune(session.smith, before, statuses)
            told = f"{len(old.runs)} runs, about {_size(old.bytes)}"
        if args.json:
            fields = {"runs": len(old.runs), "bytes": old.bytes, "kept": len(old.spared)}
            print_json({"removed": not args.dry_run, **fields})
        else:
            kept = f"; {len(old.spared)} others were kept" if old.spared else ""
            print_lines([f"{'would remove' if args.dry_run else 'removed'} {told}{kept}"])
        return Exit.OK

    code = in_session(args, work, only_reads=True)
    if args.vacuum and not args.dry_run:
        _tell_vacuum(_sqlite_store(args, "vacuum"), quiet=args.json)
    return code


def _ask(session: Session, question: str) -> None:
    if not session.has_person:
        raise Refused("nothing was removed", hint="--yes removes without asking")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Refused("nothing was removed")


def _configure_backup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="the file to write")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    add_store(parser)
    add_json(parser)


def _backup(args: argparse.Namespace) -> int:
    store = _sqlite_store(args, "backup")
    copied = backup.back_up(store, args.file, force=args.force, tell=_progress)
    if args.json:
        print_json({"file": str(args.file), "runs": copied.runs, "bytes": copied.bytes})
    else:
        print_lines([f"{safe(str(args.file))}: {copied.runs} runs, {_size(copied.bytes)}"])
    return Exit.OK


def _configure_restore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a file of plansmith backup")
    parser.add_argument("--yes", action="store_true", help="restore without asking")
    add_store(parser)
    add_json(parser)


def _restore(args: argparse.Namespace) -> int:
    store = _sqlite_store(args, "restore")
    if store.exists() and not args.yes:
        hint = "--yes does it; the present store is kept aside under another name"
        raise Refused(f"this puts {args.file} in the place of {store}", hint=hint)
    with backup.checked_copy(args.file, store, tell=_progress) as copy:
        runs, schedules = asyncio.run(_prepare(copy))
        old = backup.put_in_place(copy, store)
    kept = str(old) if old is not None else ""
    if args.json:
        print_json({"paused_runs": runs, "paused_schedules": schedules, "kept": kept})
        return Exit.OK
    lines = [f"restored; {runs} open runs and {schedules} schedules are paused"]
    if runs or schedules:
        lines.append("what they did after the backup is not known: look before you resume them")
    print_lines([*lines, *([f"the store as it was: {safe(kept)}"] if kept else [])])
    return Exit.OK


async def _prepare(copy: Path) -> tuple[int, int]:
    """Verifies every journal of a copy, and pauses what is open in it."""
    store = SqliteStore(copy)
    async with Plansmith(store=store) as smith:
        names = await store.runs()
        for place, run in enumerate(names, start=1):
            if place % 500 == 0:
                _progress(f"verifying {place} of {len(names)} runs")
            await verify(store, run)
        for run, claim in await store.claims():
            await store.release(run, claim.term)
        return await hold_restored(smith, by=getpass.getuser(), tell=_progress)


def _configure_vacuum(parser: argparse.ArgumentParser) -> None:
    add_store(parser)
    add_json(parser)


def _vacuum(args: argparse.Namespace) -> int:
    store = _sqlite_store(args, "vacuum")
    if not store.is_file():
        raise Misconfigured(f"there is no store {store}", hint="--store names another one")
    _tell_vacuum(store, quiet=args.json, as_json=args.json)
    return Exit.OK


def _tell_vacuum(store: Path, *, quiet: bool, as_json: bool = False) -> None:
    before, after = backup.vacuum(store)
    if as_json:
        print_json({"before": before, "after": after})
    elif not quiet:
        print_lines([f"the store takes {_size(after)}; before, {_size(before)}"])


def _sqlite_store(args: argparse.Namespace, command: str) -> Path:
    """Returns the file of the store; says what does the same for PostgreSQL."""
    url = settings_of(args).store_url()
    if is_postgres(url):
        hints = {
            "backup": "pg_dump --schema=plansmith --format=custom --file=FILE URL",
            "restore": "pg_restore --clean --if-exists --dbname=URL FILE, while nothing runs",
            "vacuum": "PostgreSQL does it by itself; by hand: VACUUM (ANALYZE) as its owner",
        }
        raise Misconfigured(f"plansmith {command} is for SQLite", hint=hints[command])
    if url.startswith("memory"):
        raise Misconfigured(f"plansmith {command} is for SQLite", hint="--store sqlite:///FILE")
    return sqlite_path(url)


def _progress(text: str) -> None:
    warn(text)


def _size(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


PRUNE = FileCommand(_configure_prune, _prune)
BACKUP = FileCommand(_configure_backup, _backup)
RESTORE = FileCommand(_configure_restore, _restore)
VACUUM = FileCommand(_configure_vacuum, _vacuum)
