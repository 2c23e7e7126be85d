"""`plansmith worker` executes the runs of a shared store; `plansmith workers` lists who does."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pkgutil import resolve_name
from typing import Any, Final, cast

from plansmith.adapters.clock import SystemClock
from plansmith.adapters.stores.urls import is_postgres, open_store
from plansmith.cli.command import FileCommand
from plansmith.cli.exit_codes import Exit
from plansmith.cli.extras import install_hint
from plansmith.cli.options import add_json, add_parts, add_store, positive, settings_of
from plansmith.cli.ui.output import print_json, print_lines
from plansmith.config import Settings
from plansmith.engine.ownership import LiveProcess, Owners
from plansmith.engine.process_kind import read_kind
from plansmith.engine.processes import described
from plansmith.errors import Misconfigured, StoreAway
from plansmith.plan.data import Json
from plansmith.server.settings import address

_MOST_S: Final = 3600.0
_SHOWN: Final = 5


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--concurrency",
        dest="runs_at_once",
        type=positive,
        metavar="N",
        help="execute up to N runs at once (default: workers.concurrency, 10)",
    )
    parser.add_argument(
        "--drain",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="how long running calls may take after SIGTERM or Ctrl-C (default: 30)",
    )
    add_parts(parser)


def _main(args: argparse.Namespace) -> int:
    if not 0 <= args.drain <= _MOST_S:
        hint = f"0 to {_MOST_S:g} seconds"
        raise Misconfigured(f"--drain cannot be {args.drain:g}", hint=hint)
    settings = settings_of(args)
    most = settings.workers.concurrency

    def announce(queue: str) -> None:
        _tell(f"Executes up to {most} runs at once of: {queue}")
        _tell(f"SIGTERM or Ctrl-C drains for up to {args.drain:g} s; a second one ends at once.")

    run = _load("plansmith.server.serve:run_worker")
    _tell(f"Connects to {address(settings.store_url())}")
    left = asyncio.run(run(settings, drain_s=args.drain, announce=announce))
    _tell(f"Stopped. Runs left for other workers: {left.handed_over}.")
    if left.cut_off:
        _tell(f"Runs whose calls were cut off: {left.cut_off}. You are asked what they did.")
    return Exit.PARTLY if left.cut_off else Exit.OK


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _load(dotted: str) -> Any:
    try:
        return resolve_name(dotted)
    except ModuleNotFoundError as error:
        raise Misconfigured(
            f"a worker needs the package {error.name}", hint=install_hint("scale")
        ) from None


WORKER = FileCommand(_configure, _main)


def _configure_workers(parser: argparse.ArgumentParser) -> None:
    add_store(parser)
    add_json(parser)


def _workers(args: argparse.Namespace) -> int:
    found, waiting = asyncio.run(_read(settings_of(args)))
    if args.json:
        rows: list[Json] = [_row(each) for each in found]
        print_json({"processes": rows, "waiting_runs": waiting})
    else:
        print_lines([*_table(found), *_queue_lines(found, waiting)])
    return Exit.OK


async def _read(settings: Settings) -> tuple[list[LiveProcess], list[str] | None]:
    """Returns the processes of the store, and the runs of this folder that wait for a worker."""
    url = settings.store_url()
    if not is_postgres(url):
        hint = "name a database that several processes share: --store postgresql://…"
        raise Misconfigured("there are workers only on a store on PostgreSQL", hint=hint)
    store = open_store(url)
    try:
        found = await Owners(store, SystemClock()).processes()
    finally:
        await store.close()
    return found, await _waiting(url, str(settings.folder().resolve()))


async def _waiting(url: str, folder: str) -> list[str] | None:
    """Returns the runs on the queue of a folder; None if there is no queue."""
    try:
        queue = resolve_name("plansmith.adapters.engines.dbos.queue:DbosQueue")(url, folder)
    except ModuleNotFoundError:
        return None
    try:
        return cast("list[str]", await queue.waiting())
    except StoreAway:
        return None
    finally:
        await queue.close()


def _row(found: LiveProcess) -> dict[str, Json]:
    kind = read_kind(found.beat.kind)
    return {
        "process": found.beat.process,
        "described": described(found.beat.process),
        "kind": kind.kind,
        "state": _state(found),
        "since": kind.since.isoformat() if kind.since else None,
        "concurrency": kind.runs if kind.since else None,
        "runs": [*found.runs],
        "version": found.beat.version,
        "seen_seconds_ago": round(found.beat.silent_s, 1),
    }


def _state(found: LiveProcess) -> str:
    if not found.lives:
        return "gone"
    return "draining" if read_kind(found.beat.kind).draining else "lives"


def _table(found: list[LiveProcess]) -> list[str]:
    return [
        f"{read_kind(each.beat.kind).kind:<8}  {_state(each):<8}  {_since(each):<16}"
        f"  {_busy(each):>7}  {each.beat.version:<8}  {described(each.beat.process)}"
        f"{'  ' if each.runs else ''}{' '.join(each.runs[:_SHOWN])}"
        f"{' …' if len(each.runs) > _SHOWN else ''}"
        for each in found
    ]


def _since(found: LiveProcess) -> str:
    since = read_kind(found.beat.kind).since
    return f"{since.astimezone():%Y-%m-%d %H:%M}" if since else ""


def _busy(found: LiveProcess) -> str:
    kind = read_kind(found.beat.kind)
    return f"{len(found.runs)} of {kind.runs}" if kind.runs else str(len(found.runs))


def _queue_lines(found: list[LiveProcess], waiting: list[str] | None) -> list[str]:
    takes = any(each.lives and read_kind(each.beat.kind).runs for each in found)
    lines = [] if takes else ["No worker lives: plansmith worker --store URL starts one."]
    if waiting:
        lines.append(f"{len(waiting)} runs of this folder wait for a worker.")
    return lines


WORKERS = FileCommand(_configure_workers, _workers)
