"""`plansmith config`: the settings that count here; `config prompts`: the prompts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from plansmith.errors import Misconfigured
from plansmith.files import config_folder
from plansmith.plan.sentence import Sentence, in_language
from plansmith.protected_files import PROJECT_FILE
from plansmith.text import padded, safe
from plansmith_cli.command_table import Command
from plansmith_cli.exit_codes import Exit
from plansmith_cli.options import add_json, add_parts, loaded_settings, settings_of
from plansmith_cli.ui.output import print_json, print_lines
from plansmith_cli.ui.own_locale import own_locale
from plansmith_cli.ui.words import own_text
from plansmith_planner.model_calls import places, prompt_names, prompt_text
from plansmith_server.shown_settings import rows


def _configure(parser: argparse.ArgumentParser) -> None:
    what = "only this setting, or those below it: run, models.plan"
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help=what)
    parser.add_argument("--all", action="store_true", help="also what nobody has set")
    add_parts(parser)
    add_json(parser)


def _main(args: argparse.Namespace) -> int:
    name = args.name
    found = [
        {"name": each, "value": value, "source": source}
        # The server's own list: it shows no secret.
        for each, value, source in rows(settings_of(args).stages())
        if not name or f"{each}.".startswith(f"{name}.")
    ]
    if not found:
        problem = Sentence("there is no setting '{name}'", name=name)
        raise Misconfigured(problem, hint="plansmith config --all")
    if args.json:
        print_json(found)
        return Exit.OK
    shown = found if args.all or name else [each for each in found if each["source"] != "default"]
    width = max((len(str(each["name"])) for each in shown), default=0)
    locale = own_locale()
    for each in shown:
        source = in_language(Sentence(f"config.{each['source']}"), locale)
        print_lines([f"{each['name']:<{width}} = {safe(str(each['value']))}  ({source})"])
    if not shown:
        print_lines(
            [
                in_language(
                    Sentence("Nothing is set: all is as by default (--all shows it)."), locale
                )
            ]
        )
    places = Sentence(
        "Yours are in {person}, those of this folder in {project}.",
        person=str(config_folder() / "config.toml"),
        project=PROJECT_FILE,
    )
    print_lines([in_language(places, locale)])
    return Exit.OK


COMMAND = Command(_configure, _main)


def _configure_prompts(parser: argparse.ArgumentParser) -> None:
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


def _prompts(args: argparse.Namespace) -> int:
    folder = loaded_settings(args).planner.prompts
    match args.action:
        case "list":
            return _list_prompts(folder, as_json=args.json)
        case "show":
            sys.stdout.write(prompt_text(args.name, folder))
            return Exit.OK
        case _:
            return _export_prompts(Path(args.folder), folder)


def _list_prompts(folder: Path | None, *, as_json: bool) -> int:
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
        origin = own_text("yours" if row["own"] else "shipped")
        filled = " ".join(f"{{{each}}}" for each in row["places"])
        print_lines([f"{row['name']:<{width}}  {padded(origin, 7)}  {filled}".rstrip()])
    return Exit.OK


def _export_prompts(target: Path, folder: Path | None) -> int:
    target.mkdir(parents=True, exist_ok=True)
    taken = [name for name in prompt_names() if (target / f"{name}.md").exists()]
    if taken:
        problem = Sentence("{folder} already has {file}", folder=str(target), file=f"{taken[0]}.md")
        raise Misconfigured(problem, hint=Sentence("choose an empty folder: nothing is replaced"))
    for name in prompt_names():
        (target / f"{name}.md").write_text(prompt_text(name, folder), encoding="utf-8")
    print_lines(
        [
            own_text(
                "wrote {count} prompts; set planner.prompts to this folder",
                count=len(prompt_names()),
            )
        ]
    )
    return Exit.OK


PROMPTS = Command(_configure_prompts, _prompts)
