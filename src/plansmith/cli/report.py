"""`plansmith report`: what came of a run, as Markdown, HTML or JSON."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from plansmith.cli.exits import Exit
from plansmith.cli.options import add_store
from plansmith.cli.output import print_json, print_text
from plansmith.cli.plans import FileCommand
from plansmith.cli.session import Session, in_session
from plansmith.errors import Misconfigured
from plansmith.runner.report import load_report
from plansmith.runner.report_data import Report
from plansmith.runner.report_html import to_html
from plansmith.runner.report_markdown import to_markdown


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run that is over: its id, or last")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--format", choices=["md", "html", "json"], default="md", help="the form")
    form.add_argument("--json", action="store_true", help="the same as --format json")
    parser.add_argument("-o", "--output", metavar="FILE", help="write it to a file instead")
    add_store(parser)


def _main(args: argparse.Namespace) -> int:
    async def work(session: Session) -> int:
        report = await load_report(session.smith.store, await session.find(args.run))
        form = "json" if args.json else str(args.format)
        if args.output:
            write_file(args.output, _written(report, form))
        elif form == "json":
            print_json(report.to_json())
        else:
            print_text(_written(report, form))
        return Exit.OK

    return in_session(args, work)


def _written(report: Report, form: str) -> str:
    if form == "json":
        return json.dumps(report.to_json(), indent=2, ensure_ascii=False) + "\n"
    return to_html(report) if form == "html" else to_markdown(report)


def write_file(name: str, text: str) -> None:
    """Write a text to a file, or say why that cannot be done."""
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise Misconfigured(f"cannot write {name}: {reason}", hint="check the path") from None


COMMAND = FileCommand(_configure, _main)
