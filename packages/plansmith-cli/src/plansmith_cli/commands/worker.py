"""`plansmith serve worker` executes the runs of a shared store; `store workers` lists who does."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final

from plansmith.clock import SystemClock
from plansmith.engine.ownership import LiveProcess, Owners
from plansmith.engine.process_kind import read_kind
from plansmith.engine.processes import described
from plansmith.errors import Misconfigured, StoreAway
from plansmith.lazy import lazy_modules
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.store.urls import is_postgres, open_store
from plansmith.text import padded
from plansmith_cli.command_table import Command
from plansmith_cli.config import Settings
from plansmith_cli.exit_codes import Exit
from plansmith_cli.extras import install_hint
from plansmith_cli.options import add_json, add_parts, add_store, positive, settings_of
from plansmith_cli.ui.output import print_json, print_lines
from plansmith_cli.ui.words import own, own_text
from plansmith_server.carrier import need_server
from plansmith_server.shown_settings import address

if TYPE_CHECKING:
    from plansmith_cli import server_wiring
else:
    lazy_modules(globals(), server_wiring="plansmith_cli.server_wiring")

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
        hint = Sentence("worker.drain_range", most=f"{_MOST_S:g}")
        raise Misconfigured(Sentence("worker.bad_drain", seconds=f"{args.drain:g}"), hint=hint)
    settings = settings_of(args)
    most = settings.workers.concurrency

    def announce(queue: str) -> None:
        _tell("worker.executes", most=most, queue=queue)
        _tell("worker.drains", seconds=f"{args.drain:g}")

    run = _load("plansmith_server.serve:run_worker")
    _tell("worker.connects", address=address(settings.store_url()))
    wiring = server_wiring.ServerWiring(settings)
    left = asyncio.run(run(wiring, drain_s=args.drain, announce=announce))
    _tell("worker.stopped", count=left.handed_over)
    if left.cut_off:
        _tell("worker.cut_off", count=left.cut_off)
    return Exit.PARTLY if left.cut_off else Exit.OK


def _tell(code: str, **fields: Any) -> None:
    sys.stderr.write(f"{own_text(code, **fields)}\n")
    sys.stderr.flush()


def _load(dotted: str) -> Any:
    try:
        return resolve_name(dotted)
    except ModuleNotFoundError as error:
        problem = Sentence("worker.needs_package", name=error.name)
        raise Misconfigured(problem, hint=install_hint("scale")) from None


WORKER = Command(_configure, _main)


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
        hint = Sentence("worker.name_database")
        raise Misconfigured(Sentence("worker.store_needed"), hint=hint)
    store = open_store(url)
    try:
        found = await Owners(store, SystemClock()).processes()
    finally:
        await store.close()
    return found, await _waiting(url, str(settings.folder().resolve()))


async def _waiting(url: str, folder: str) -> list[str] | None:
    """Returns the runs on the queue of a folder; None if there is no queue."""
    try:
        queue = need_server(url).run_queue(url, folder)
    except Misconfigured:
        return None
    try:
        return [*await queue.waiting()]
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
        f"{padded(own_text(f'worker.kind_{read_kind(each.beat.kind).kind}'), 8)}"
        f"  {padded(own_text(f'worker.state_{_state(each)}'), 8)}  {_since(each):<16}"
        f"  {_busy(each):>7}  {each.beat.version:<8}  {own(described(each.beat.process))}"
        f"{'  ' if each.runs else ''}{' '.join(each.runs[:_SHOWN])}"
        f"{' …' if len(each.runs) > _SHOWN else ''}"
        for each in found
    ]


def _since(found: LiveProcess) -> str:
    since = read_kind(found.beat.kind).since
    return f"{since.astimezone():%Y-%m-%d %H:%M}" if since else ""


def _busy(found: LiveProcess) -> str:
    kind = read_kind(found.beat.kind)
    count = len(found.runs)
    return own_text("worker.busy", count=count, most=kind.runs) if kind.runs else str(count)


def _queue_lines(found: list[LiveProcess], waiting: list[str] | None) -> list[str]:
    takes = any(each.lives and read_kind(each.beat.kind).runs for each in found)
    lines = [] if takes else [own_text("worker.none")]
    if waiting:
        lines.append(own_text("worker.waiting", count=len(waiting)))
    return lines


WORKERS = Command(_configure_workers, _workers)
