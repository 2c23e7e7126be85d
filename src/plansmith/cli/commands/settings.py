"""`plansmith config`: the settings that count here, each with where it was set."""

from __future__ import annotations

import argparse

from plansmith.adapters.protected_files import PROJECT_FILE
from plansmith.cli.command import FileCommand
from plansmith.cli.exit_codes import Exit
from plansmith.cli.options import add_json, add_parts, settings_of
from plansmith.cli.ui.output import print_json, print_lines
from plansmith.cli.ui.own_locale import own_locale
from plansmith.errors import Misconfigured
from plansmith.files import config_folder
from plansmith.plan.sentence import Sentence, in_language
from plansmith.server.shown_settings import rows
from plansmith.text import safe


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


COMMAND = FileCommand(_configure, _main)
