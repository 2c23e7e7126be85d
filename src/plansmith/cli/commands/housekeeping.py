"""`plansmith store prune|backup|restore|vacuum`: keeps the store small and restorable."""

from __future__ import annotations

import argparse
import asyncio
import getpass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plansmith.adapters.stores import backup
from plansmith.adapters.stores.doctor import verify
from plansmith.adapters.stores.sqlite import SqliteStore
from plansmith.adapters.stores.urls import is_postgres, sqlite_path
from plansmith.app import Plansmith
from plansmith.cli.command_table import Command
from plansmith.cli.exit_codes import Exit
from plansmith.cli.options import add_json, add_store, settings_of, warn
from plansmith.cli.questions import agrees
from plansmith.cli.session import Session, in_session
from plansmith.cli.ui.output import print_json, print_lines
from plansmith.cli.ui.words import own, own_text
from plansmith.errors import Misconfigured, Refused
from plansmith.housekeeping import Old, find_old, hold_restored, prune, read_age, read_statuses
from plansmith.plan.sentence import Sentence, joined
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
        if not args.dry_run and old.runs and not args.yes:
            _ask(session, own_text("store.ask_remove", **_amount(old)))
        if not args.dry_run:
            old = await prune(session.smith, before, statuses)
        if args.json:
            fields = {"runs": len(old.runs), "bytes": old.bytes, "kept": len(old.spared)}
            print_json({"removed": not args.dry_run, **fields})
        else:
            code = "store.would_remove" if args.dry_run else "store.removed"
            kept = Sentence("store.kept", count=len(old.spared)) if old.spared else ""
            print_lines([own(joined([Sentence(code, **_amount(old)), kept]))])
        return Exit.OK

    code = in_session(args, work, only_reads=True)
    if args.vacuum and not args.dry_run:
        _tell_vacuum(_sqlite_store(args, "vacuum"), quiet=args.json)
    return code


def _amount(old: Old) -> dict[str, Any]:
    return {"count": len(old.runs), "size": _size(old.bytes)}


def _ask(session: Session, question: str) -> None:
    nothing = Sentence("store.nothing_removed")
    if not session.has_person:
        raise Refused(nothing, hint=Sentence("store.yes_removes"))
    if not agrees(question):
        raise Refused(nothing)


def _configure_backup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="the file to write")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    add_store(parser)
    add_json(parser)


def _backup(args: argparse.Namespace) -> int:
    store = _sqlite_store(args, "backup")
    copied = backup.back_up(store, args.file, force=args.force, tell=warn)
    if args.json:
        print_json({"file": str(args.file), "runs": copied.runs, "bytes": copied.bytes})
    else:
        size = _size(copied.bytes)
        file = safe(str(args.file))
        print_lines([own_text("store.backed_up", file=file, count=copied.runs, size=size)])
    return Exit.OK


def _configure_restore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a file of plansmith store backup")
    parser.add_argument("--yes", action="store_true", help="restore without asking")
    add_store(parser)
    add_json(parser)


def _restore(args: argparse.Namespace) -> int:
    store = _sqlite_store(args, "restore")
    if store.exists() and not args.yes:
        problem = Sentence("store.replaces", file=str(args.file), store=str(store))
        raise Refused(problem, hint=Sentence("store.yes_replaces"))
    with backup.checked_copy(args.file, store, tell=warn) as copy:
        runs, schedules = asyncio.run(_prepare(copy))
        old = backup.put_in_place(copy, store)
    kept = str(old) if old is not None else ""
    if args.json:
        print_json({"paused_runs": runs, "paused_schedules": schedules, "kept": kept})
        return Exit.OK
    lines = [own_text("store.restored", runs=runs, schedules=schedules)]
    if runs or schedules:
        lines.append(own_text("store.look_first"))
    if kept:
        lines.append(own_text("store.as_it_was", file=safe(kept)))
    print_lines(lines)
    return Exit.OK


async def _prepare(copy: Path) -> tuple[int, int]:
    """Verifies every journal of a copy, and pauses what is open in it."""
    store = SqliteStore(copy)
    async with Plansmith(store=store) as smith:
        names = await store.runs()
        for place, run in enumerate(names, start=1):
            if place % 500 == 0:
                warn(Sentence("store.verifying", place=place, count=len(names)))
            await verify(store, run)
        for run, claim in await store.claims():
            await store.release(run, claim.term)
        return await hold_restored(smith, by=getpass.getuser(), tell=warn)


def _configure_vacuum(parser: argparse.ArgumentParser) -> None:
    add_store(parser)
    add_json(parser)


def _vacuum(args: argparse.Namespace) -> int:
    store = _sqlite_store(args, "vacuum")
    if not store.is_file():
        problem = Sentence("store.absent", store=str(store))
        raise Misconfigured(problem, hint=Sentence("store.name_other"))
    _tell_vacuum(store, quiet=args.json, as_json=args.json)
    return Exit.OK


def _tell_vacuum(store: Path, *, quiet: bool, as_json: bool = False) -> None:
    before, after = backup.vacuum(store)
    if as_json:
        print_json({"before": before, "after": after})
    elif not quiet:
        print_lines([own_text("store.takes", after=_size(after), before=_size(before))])


def _sqlite_store(args: argparse.Namespace, command: str) -> Path:
    """Returns the file of the store; says what does the same for PostgreSQL."""
    url = settings_of(args).store_url()
    if is_postgres(url):
        hint = Sentence(f"store.postgres_{command}")
        raise Misconfigured(Sentence("store.for_sqlite", command=command), hint=hint)
    if url.startswith("memory"):
        problem = Sentence("store.for_sqlite", command=command)
        raise Misconfigured(problem, hint="--store sqlite:///FILE")
    return sqlite_path(url)


def _size(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return Sentence("amount.bytes", count=count)


PRUNE = Command(_configure_prune, _prune)
BACKUP = Command(_configure_backup, _backup)
RESTORE = Command(_configure_restore, _restore)
VACUUM = Command(_configure_vacuum, _vacuum)
