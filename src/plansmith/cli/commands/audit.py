"""`plansmith store audit` exports who did what and when, and checks such an export."""

from __future__ import annotations

import argparse
import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

from plansmith.adapters.stores.urls import open_store
from plansmith.cli.command_table import Command
from plansmith.cli.exit_codes import Exit
from plansmith.cli.options import add_store, settings_of
from plansmith.cli.ui.output import print_lines
from plansmith.cli.ui.words import own_text
from plansmith.errors import Misconfigured
from plansmith.plan.sentence import Sentence
from plansmith.runs.audit import AuditQuery, altered, audit_lines


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", metavar="TIME", help="such as 2026-05-01 or 2026-05-01T12:00Z")
    parser.add_argument("--until", metavar="TIME", help="before this time")
    parser.add_argument("--user", default="", help="only what this user and their tokens did")
    parser.add_argument("--format", choices=["jsonl", "csv"], default="jsonl")
    parser.add_argument("--all", action="store_true", help="also what the runner and models did")
    parser.add_argument("--check", metavar="FILE", help="check the hashes of an export as jsonl")
    add_store(parser)


def _main(args: argparse.Namespace) -> int:
    if args.check:
        return _check(Path(args.check))
    query = AuditQuery(
        since=_moment(args.since), until=_moment(args.until), user=args.user, everything=args.all
    )
    return asyncio.run(_export(args, query))


async def _export(args: argparse.Namespace, query: AuditQuery) -> int:
    store = open_store(settings_of(args).store_url())
    try:
        async for line in audit_lines(store, query, args.format):
            sys.stdout.write(line)
    finally:
        await store.close()
    return Exit.OK


def _check(path: Path) -> int:
    try:
        with path.open(encoding="utf-8") as lines:
            found = [
                own_text("audit.line", number=number, why=why)
                for number, why in altered(iter(lines))
            ]
    except (OSError, UnicodeDecodeError) as error:
        problem = Sentence("error.cannot_read", name=str(path), reason=str(error))
        raise Misconfigured(problem, hint=Sentence("error.check_path")) from None
    print_lines(found or [own_text("audit.sound")])
    return Exit.FAILED if found else Exit.OK


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        hint = Sentence("audit.time_hint")
        raise Misconfigured(Sentence("error.not_moment", text=text), hint=hint) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


COMMAND = Command(_configure, _main)
