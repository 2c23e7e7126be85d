"""`plansmith store`: checks, audits, prunes, backs up and restores the store of the runs."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from plansmith.app import Plansmith
from plansmith.engine.ownership import KnownProcess
from plansmith.engine.processes import described
from plansmith.errors import Misconfigured, PlansmithError, StoreAway
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence, joined, with_hint
from plansmith.ports import Finding
from plansmith.store.sqlite import SqliteStore
from plansmith.store.urls import is_postgres, sqlite_path
from plansmith.text import safe
from plansmith.verify import verify
from plansmith_cli import backup
from plansmith_cli.command_table import Exit
from plansmith_cli.doctor import diagnose, missing_runs
from plansmith_cli.keyboard import agrees
from plansmith_cli.options import JSON, STORE, read_time, settings_of, warn
from plansmith_cli.parser import command
from plansmith_cli.session import Session, in_session, store_command
from plansmith_cli.ui import output as ui
from plansmith_cli.ui.terminal import padded
from plansmith_desk.model.files import ModelFolder, weights_path
from plansmith_desk.model.shelf import EmbeddedShelf
from plansmith_desk.sandbox.sandbox import wall_findings
from plansmith_planner.models.choose import choose, choose_at
from plansmith_planner.settings import ModelSettings
from plansmith_server.housekeeping import find_old, hold_restored, prune, read_age, read_statuses
from plansmith_server.settings import require_server
from plansmith_server.team.audit import AuditQuery, altered, audit_lines

_MAX_RUNS: Final = 5


async def _verify(session: Session) -> int:
    args, store, rows = session.args, session.smith.store, list[dict[str, Json]]()
    for run_id in await store.runs() if args.all else [await session.find(args.run)]:
        count, damage = 0, ""
        try:
            count = await verify(store, run_id)
        except PlansmithError as error:
            damage = with_hint(error.message, error.hint)
        rows.append({"run": run_id, "events": count, "damage": damage})
    for each in await missing_runs(store) if args.all else ():
        rows.append({"run": "", "events": 0, "damage": with_hint(each.message, each.hint)})
    session.print_as(rows, map(_verdict, rows))
    return Exit.FAILED if any(row["damage"] for row in rows) else Exit.OK


def _verdict(row: dict[str, Json]) -> str:
    run, damage = str(row["run"]), row["damage"]
    if not damage:
        return ui.own_text("{run}: {count} events, none altered", run=run, count=row["events"])
    reason = ui.own(str(damage))
    reason = ui.own_text("{text}: {reason}", text=run, reason=reason) if run else reason
    return safe(ui.own_text("{text}: {reason}", text=Sentence("severity.error"), reason=reason))


def _doctor(args: argparse.Namespace) -> int:
    warnings: list[str] = []
    settings = settings_of(args, warnings.append)
    walls = asyncio.run(wall_findings())
    findings = [
        *(Finding("warning", "folder", each) for each in warnings),
        *asyncio.run(diagnose(settings.store_url(), sample=args.sample)),
        *asyncio.run(_model_findings(settings.models.plan)),
        *(Finding(each.level, "sandbox", each.text, each.hint) for each in walls),
    ]
    ui.print_as(args, [asdict(each) for each in findings], map(_finding_line, findings))
    return Exit.FAILED if any(each.level == "error" for each in findings) else Exit.OK


async def _model_findings(plan: ModelSettings) -> list[Finding]:
    """Says which model plans, and why others do not; a named one is checked without a call."""
    try:
        if plan.model != "auto":
            return [_configured(plan)]
        key = os.environ.get(plan.api_key_env or "", "")
        asked = choose_at(plan.base_url, key=key) if plan.base_url else None
        choice = await (asked or choose(os.environ, shelf=EmbeddedShelf()))
    except Misconfigured as error:
        return [Finding("error", "model", error.message, error.hint)]
    tried = [
        Finding(
            "note", f"model {each.kind}", Sentence("{text}: {reason}", text=each.what, reason=why)
        )
        for each in choice.tried
        if (why := each.flaw)
    ]
    if choice.kind == "rules":
        message = Sentence("no language model was found: plans are made by rules")
        return [*tried, Finding("warning", "model", message, EmbeddedShelf().pull_hint)]
    return [*tried, Finding("ok", "model", choice.described)]


def _configured(plan: ModelSettings) -> Finding:
    variable, (kind, _, name) = plan.api_key_env, plan.model.partition(":")
    if variable and not os.environ.get(variable):
        raise ui.wrong(
            "{model} needs the environment variable {variable}, which is not set",
            hint=f"export {variable}=…",
            model=plan.model,
            variable=variable,
        )
    if kind == "local":
        weights_path(name, ModelFolder())
    return Finding("ok", "model", with_hint(plan.model, Sentence("it is set")))


def _finding_line(found: Finding) -> str:
    level = ui.own_text("doctor.ok" if found.level == "ok" else f"severity.{found.level}")
    # What was looked at, such as `model key` or a run.
    what, _, which = found.subject.partition(" ")
    which = ui.own_text(f"doctor.model_{which}") if which and what == "model" else which
    subject = f"{ui.own_text(f'doctor.at_{what}')} {which}".rstrip()
    reason = with_hint(found.message, found.hint)
    line = ui.own_text("{text}: {reason}", text=subject, reason=reason)
    return f"{padded(level, 8)} {safe(line)}"


def _prune(args: argparse.Namespace) -> None:
    before = datetime.now(UTC) - read_age(args.older_than)
    statuses = read_statuses(args.status) if args.status else ()

    async def work(session: Session) -> None:
        old = await find_old(session.smith, before, statuses)
        amount = {"count": len(old.runs), "size": ui.size_text(old.bytes)}
        if not args.dry_run and old.runs and not args.yes:
            question = ui.own_text("Remove {count} runs, about {size}? [y/N] ", **amount)
            if not agrees(question, asks=session.has_person):
                raise ui.refused("nothing was removed", "--yes removes without asking")
        if not args.dry_run:
            old = await prune(session.smith, before, statuses, by=session.by)
            amount = {"count": len(old.runs), "size": ui.size_text(old.bytes)}
        fields = {"runs": len(old.runs), "bytes": old.bytes, "kept": len(old.spared)}
        message = Sentence("store.would_remove" if args.dry_run else "store.removed", **amount)
        kept = Sentence("{count} others were kept", count=len(old.spared)) if old.spared else ""
        ui.print_as(args, {"removed": not args.dry_run, **fields}, [joined([message, kept])])

    in_session(args, work, only_reads=True, needs_store=True)


def _backup(args: argparse.Namespace) -> None:
    store = _sqlite_store(args, "backup")
    file, copied = str(args.file), backup.back_up(store, args.file, force=args.force, tell=warn)
    message = Sentence(
        "{file}: {count} runs, {size}",
        file=safe(file),
        count=copied.runs,
        size=ui.size_text(copied.bytes),
    )
    ui.print_as(args, {"file": file, "runs": copied.runs, "bytes": copied.bytes}, [message])


def _restore(args: argparse.Namespace) -> None:
    store = _sqlite_store(args, "restore")
    if store.exists() and not args.yes:
        raise ui.refused(
            "this puts {file} in the place of {store}",
            "--yes does it; the present store is kept aside under another name",
            file=str(args.file),
            store=str(store),
        )
    with backup.checked_copy(args.file, store, tell=warn) as copy:
        runs, schedules = asyncio.run(_prepare(copy))
        old = backup.put_in_place(copy, store)
    kept, paused = str(old) if old is not None else "", {"runs": runs, "schedules": schedules}
    lines = [Sentence("restored; {runs} open runs and {schedules} schedules are paused", **paused)]
    if runs or schedules:
        lines.append(
            Sentence("what they did after the backup is not known: look before you resume them")
        )
    if kept:
        lines.append(Sentence("the store as it was: {file}", file=safe(kept)))
    ui.print_as(args, {"paused_runs": runs, "paused_schedules": schedules, "kept": kept}, lines)


async def _prepare(copy: Path) -> tuple[int, int]:
    """Verifies every journal of a copy, and pauses what is open in it."""
    store = SqliteStore(copy)
    async with Plansmith(store=store) as smith:
        names = await store.runs()
        for place, run in enumerate(names, start=1):
            if place % 500 == 0:
                warn(Sentence("verifying {place} of {count} runs", place=place, count=len(names)))
            await verify(store, run)
        for run, claim in await store.claims():
            await store.release(run, claim.term)
        return await hold_restored(smith, by=getpass.getuser(), tell=warn)


def _vacuum(args: argparse.Namespace) -> None:
    store = _sqlite_store(args, "vacuum")
    if not store.is_file():
        raise ui.wrong("there is no store {store}", "--store names another one", store=str(store))
    before, after = backup.vacuum(store)
    message = Sentence(
        "the store takes {after}; before, {before}",
        after=ui.size_text(after),
        before=ui.size_text(before),
    )
    ui.print_as(args, {"before": before, "after": after}, [message])


def _sqlite_store(args: argparse.Namespace, command: str) -> Path:
    """Returns the file of the store; says what does the same for PostgreSQL."""
    url = settings_of(args).store_url()
    if is_postgres(url) or url.startswith("memory"):
        hint = "--store sqlite:///FILE"
        if is_postgres(url):
            hint = Sentence(f"store.postgres_{command}")
        raise ui.wrong("plansmith store {command} is for SQLite", hint=hint, command=command)
    return sqlite_path(url)


def _audit(args: argparse.Namespace) -> int | None:
    if args.check:
        # Only a line feed ends a line here: values may hold other ends of lines.
        lines = ui.read_file(args.check).decode("utf-8", "replace").removesuffix("\n").split("\n")
        if not any(line.startswith("{") for line in lines):
            raise ui.wrong("{file} is not an export as jsonl", file=args.check)
        found = [
            Sentence("line {number}: {why}", number=number, why=why)
            for number, why in altered(f"{line}\n" for line in lines)
        ]
        ui.print_lines(found or [Sentence("Every line fits its hash.")])
        return Exit.FAILED if found else Exit.OK
    since, until = (read_time(each, UTC) if each else None for each in (args.since, args.until))
    query = AuditQuery(since=since, until=until, user=args.user, everything=args.all)

    async def export(session: Session) -> None:
        async for line in audit_lines(session.smith.store, query, args.format):
            sys.stdout.write(line)

    return in_session(args, export, only_reads=True, needs_store=True)


async def _workers(session: Session) -> None:
    settings = session.settings
    url, waiting = settings.store_url(), None
    if not is_postgres(url):
        raise ui.wrong(
            "workers need a store on PostgreSQL",
            "name a database that several processes share: --store postgresql://…",
        )
    found = await session.smith.runs.journals.ownership.processes()
    with suppress(Misconfigured, StoreAway):  # there is no queue
        queue = require_server(url).run_queue(url, str(settings.folder().resolve()))
        try:
            waiting = [*await queue.waiting()]
        finally:
            await queue.close()
    rows, lines = [*map(_row, found)], [*map(_process_line, found)]
    if not any(each.lives and each.heartbeat.about.runs for each in found):
        lines.append(
            Sentence("No worker is running: plansmith serve worker --store URL starts one.")
        )
    if waiting:
        lines.append(Sentence("{count} runs of this folder wait for a worker.", count=len(waiting)))
    session.print_as({"processes": rows, "waiting_runs": waiting}, lines)


def _state(found: KnownProcess) -> str:
    if not found.lives:
        return "gone"
    return "draining" if found.heartbeat.about.draining else "lives"


def _row(found: KnownProcess) -> dict[str, Json]:
    about = found.heartbeat.about
    return {
        "process": found.heartbeat.process,
        "described": described(found.heartbeat.process),
        "kind": about.kind,
        "state": _state(found),
        "since": about.since.isoformat() if about.since else None,
        "concurrency": about.runs if about.since else None,
        "runs": [*found.runs],
        "version": found.heartbeat.version,
        "seen_seconds_ago": round(found.heartbeat.silent_s, 1),
    }


def _process_line(found: KnownProcess) -> str:
    heartbeat, about, count = found.heartbeat, found.heartbeat.about, len(found.runs)
    what = padded(ui.own_text(f"worker.kind_{about.kind}"), 8)
    state = padded(ui.own_text(f"worker.state_{_state(found)}"), 8)
    since = f"{about.since.astimezone():%Y-%m-%d %H:%M}" if about.since else ""
    busy = Sentence("{count} of {most}", count=count, most=about.runs) if about.runs else str(count)
    runs = " ".join([*found.runs[:_MAX_RUNS], *(["…"] if count > _MAX_RUNS else ())])
    columns = f"{what}  {state}  {since:<16}  {ui.own(busy):>7}  {heartbeat.version:<8}  "
    return f"{columns}{ui.own(described(heartbeat.process))}  {runs}".rstrip()


_LOOKS: Final = STORE + JSON
_PRUNE: Final = """
--older-than AGE  runs that ended so long ago, such as 90d, 12h or 4w
--status LIST  only these, such as done,failed
--dry-run  only tell what would be removed
--yes  remove without asking
"""
_AUDIT: Final = """
--since TIME  such as 2026-05-01 or 2026-05-01T12:00Z
--until TIME  before this time
--user USER  only what this user and their tokens did
--format
--all  also what the runner and models did
--check FILE  check the hashes of an export as jsonl
"""
_VERIFY: Final = "[RUN]  default: last\n--all  verify all runs\n"
_SAMPLE: Final = "--sample N  verify only the newest N runs (default: all)\n"
_BACKUP: Final = "FILE  the file to write\n--force  replace a file that is there\n"
_RESTORE: Final = "FILE  a file of plansmith store backup\n--yes  restore without asking\n"
VERIFY = store_command(_VERIFY + JSON, _verify, only_reads=True, run={"default": "last"})
DOCTOR = command(_SAMPLE + _LOOKS, _doctor, sample=int)
PRUNE = command(_PRUNE + _LOOKS, _prune, older_than={"required": True})
BACKUP = command(_BACKUP + _LOOKS, _backup, file=Path)
RESTORE = command(_RESTORE + _LOOKS, _restore, file=Path)
VACUUM = command(_LOOKS, _vacuum)
AUDIT = command(
    _AUDIT + STORE,
    _audit,
    user={"default": ""},
    format={"choices": ["jsonl", "csv"], "default": "jsonl", "help": None},
)
WORKERS = store_command(JSON, _workers, only_reads=True)
