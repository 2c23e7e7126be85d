"""`plansmith tools list` and `plansmith tools search`."""

from __future__ import annotations

import argparse

from plansmith.cli.exits import Exit
from plansmith.cli.output import print_json, print_lines, read_file
from plansmith.cli.plans import FileCommand
from plansmith.config import load_settings
from plansmith.dialects.tools import read_tools
from plansmith.errors import Misconfigured
from plansmith.plan.capability import ToolSpec
from plansmith.planner.shortlist import shortlist
from plansmith.review.render import clip, safe


def _configure(parser: argparse.ArgumentParser) -> None:
    deeds = parser.add_subparsers(dest="deed", required=True, metavar="list|search")
    listing = deeds.add_parser("list", help="all tools")
    search = deeds.add_parser("search", help="the tools that fit a request, and why")
    search.add_argument("request", metavar="REQUEST", help="what is wanted, in words")
    search.add_argument("-k", type=int, default=None, help="how many (default: 6)")
    for deed in (listing, search):
        deed.add_argument("--tools", action="append", metavar="FILE", help="tools as JSON")
        deed.add_argument("--json", action="store_true", help="print as JSON")


def _main(args: argparse.Namespace) -> int:
    settings = load_settings(changes={"tools": args.tools} if args.tools else None)
    if not settings.tools:
        raise Misconfigured("there are no tools", hint="name a file of tools with --tools")
    specs: list[ToolSpec] = []
    for path in settings.tools:
        specs += read_tools(read_file(str(path)).decode("utf-8", "replace"))
    return (
        _search(args, specs, args.k or settings.planner.top_k)
        if args.deed == "search"
        else _list(args, specs)
    )


def _list(args: argparse.Namespace, specs: list[ToolSpec]) -> int:
    if args.json:
        print_json([spec.to_json() for spec in specs])
    else:
        print_lines(
            f"{safe(spec.name)}  [{spec.effect}]  {clip(safe(spec.description), 90)}"
            for spec in specs
        )
    return Exit.OK


def _search(args: argparse.Namespace, specs: list[ToolSpec], k: int) -> int:
    if k < 1:
        raise Misconfigured(f"-k {k} is not 1 or more", hint="give a positive number")
    picks = shortlist(args.request, specs, k=k)
    if args.json:
        print_json(
            [{"name": each.name, "score": each.score, "reason": each.reason} for each in picks]
        )
    else:
        print_lines(
            f"{each.score:7.3f}  {safe(each.name)}  ({safe(each.reason)})" for each in picks
        )
    return Exit.OK


COMMAND = FileCommand(_configure, _main)
