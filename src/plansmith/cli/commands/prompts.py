"""`plansmith config prompts`: list, show or export the prompts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from plansmith.cli.command_table import Command
from plansmith.cli.exit_codes import Exit
from plansmith.cli.options import loaded_settings
from plansmith.cli.ui.output import print_json, print_lines
from plansmith.cli.ui.words import own_text
from plansmith.errors import Misconfigured
from plansmith.plan.sentence import Sentence
from plansmith.planner.model_calls import places, prompt_names, prompt_text
from plansmith.text import padded


def _configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|export")
    listing = actions.add_parser("list", help="list the prompts, and which are replaced by yours")
    listing.add_argument("--json", action="store_true", help="print as JSON")
    actions.add_parser("show", help="show the text of a prompt").add_argument(
        "name", metavar="NAME"
    )
    export = actions.add_parser(
        "export", help="copy all prompts into a folder, to change them there"
    )
    export.add_argument("folder", metavar="FOLDER")


def _main(args: argparse.Namespace) -> int:
    folder = loaded_settings(args).planner.prompts
    match args.action:
        case "list":
            return _list(folder, as_json=args.json)
        case "show":
            sys.stdout.write(prompt_text(args.name, folder))
            return Exit.OK
        case _:
            return _export(Path(args.folder), folder)


def _list(folder: Path | None, *, as_json: bool) -> int:
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "places": sorted(places(prompt_text(name, folder))),
            "own": bool(folder and (folder / f"{name}.md").is_file()),
        }
        for name in prompt_names()
    ]
    if as_json:
        print_json(rows)
        return Exit.OK
    width = max(len(name) for name in prompt_names())
    for row in rows:
        origin = own_text("prompts.yours" if row["own"] else "prompts.shipped")
        filled = " ".join(f"{{{each}}}" for each in row["places"])
        print_lines([f"{row['name']:<{width}}  {padded(origin, 7)}  {filled}".rstrip()])
    return Exit.OK


def _export(target: Path, folder: Path | None) -> int:
    target.mkdir(parents=True, exist_ok=True)
    taken = [name for name in prompt_names() if (target / f"{name}.md").exists()]
    if taken:
        problem = Sentence("prompts.taken", folder=str(target), file=f"{taken[0]}.md")
        raise Misconfigured(problem, hint=Sentence("prompts.empty_folder"))
    for name in prompt_names():
        (target / f"{name}.md").write_text(prompt_text(name, folder), encoding="utf-8")
    print_lines([own_text("prompts.written", count=len(prompt_names()))])
    return Exit.OK


COMMAND = Command(_configure, _main)
