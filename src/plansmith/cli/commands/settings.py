"""`plansmith config`: the settings that count here, each with where it was set."""

from __future__ import annotations

import argparse

from plansmith.adapters.protected_files import PROJECT_FILE
from plansmith.cli.command_table import Command
from plansmith.cli.exit_codes import Exit
from plansmith.cli.options import add_json, add_parts, settings_of
from plansmith.cli.ui.output import print_json, print_lines
from plansmith.cli.ui.own_locale import own_locale
from plansmith.config import config_folder
from plansmith.errors import Misconfigured
from plansmith.plan.sentence import Sentence, in_language
from plansmith.server.settings import rows_with_sources
from plansmith.text import safe


def _configure(parser: argparse.ArgumentParser) -> None:
    what = "only this setting, or those below it: run, models.plan"
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help=what)
    parser.add_argument("--all", action="store_true", help="also what nobody has set")
    add_parts(parser)
    add_json(parser)


def _main(args: argparse.Namespace) -> int:
    rows = [*rows_with_sources(settings_of(args))]  # the server's own list: it shows no secret
    name = args.name
    found = [each for each in rows if not name or f"{each['name']}.".startswith(f"{name}.")]
    if not found:
        problem = Sentence("settings.absent", name=name)
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
        print_lines([in_language(Sentence("settings.nothing"), locale)])
    places = Sentence(
        "settings.places", person=str(config_folder() / "config.toml"), project=PROJECT_FILE
    )
    print_lines([in_language(places, locale)])
    return Exit.OK


COMMAND = Command(_configure, _main)
