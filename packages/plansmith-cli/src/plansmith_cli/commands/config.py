"""`plansmith config`: the settings that count here; `config prompts`: the prompts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from plansmith.errors import Misconfigured
from plansmith.files import config_folder
from plansmith.plan.sentence import Sentence
from plansmith.protected_files import PROJECT_FILE
from plansmith.text import padded, safe
from plansmith_cli.options import AS_JSON, JSON, PARTS, loaded_settings, settings_of
from plansmith_cli.parser import Verb, command, noun
from plansmith_cli.ui.output import print_as, print_json, print_lines
from plansmith_cli.ui.words import own_text
from plansmith_planner.model_calls import places, prompt_names, prompt_text
from plansmith_server.shown_settings import rows


def _main(args: argparse.Namespace) -> None:
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
        return
    shown = found if args.all or name else [each for each in found if each["source"] != "default"]
    width = max((len(str(each["name"])) for each in shown), default=0)
    for each in shown:
        source = own_text(f"config.{each['source']}")
        print_lines([f"{each['name']:<{width}} = {safe(str(each['value']))}  ({source})"])
    if not shown:
        print_lines([Sentence("Nothing is set: all is as by default (--all shows it).")])
    place = Sentence(
        "Yours are in {person}, those of this folder in {project}.",
        person=str(config_folder() / "config.toml"),
        project=PROJECT_FILE,
    )
    print_lines([place])


def _list_prompts(args: argparse.Namespace) -> None:
    folder = _folder(args)
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "places": sorted(places(prompt_text(name, folder))),
            "own": bool(folder and (folder / f"{name}.md").is_file()),
        }
        for name in prompt_names()
    ]
    width = max(map(len, prompt_names()))
    lines = (
        f"{row['name']:<{width}}  {padded(own_text('yours' if row['own'] else 'shipped'), 7)}  "
        f"{' '.join(f'{{{each}}}' for each in row['places'])}".rstrip()
        for row in rows
    )
    print_as(args, rows, lines)


def _folder(args: argparse.Namespace) -> Path | None:
    return loaded_settings(args).planner.prompts


def _show_prompt(args: argparse.Namespace) -> None:
    sys.stdout.write(prompt_text(args.name, _folder(args)))


def _export_prompts(args: argparse.Namespace) -> None:
    target, folder = Path(args.folder), _folder(args)
    target.mkdir(parents=True, exist_ok=True)
    taken = [name for name in prompt_names() if (target / f"{name}.md").exists()]
    if taken:
        problem = Sentence("{folder} already has {file}", folder=str(target), file=f"{taken[0]}.md")
        raise Misconfigured(problem, hint=Sentence("choose an empty folder: nothing is replaced"))
    for name in prompt_names():
        (target / f"{name}.md").write_text(prompt_text(name, folder), encoding="utf-8")
    print_lines(
        [
            Sentence(
                "wrote {count} prompts; set planner.prompts to this folder",
                count=len(prompt_names()),
            )
        ]
    )


COMMAND = command(
    """
[NAME]  only this setting, or those below it: run, models.plan
--all  also what nobody has set
"""
    + PARTS
    + JSON,
    _main,
    name={"default": ""},
)
PROMPTS = noun(
    {
        "list": Verb(_list_prompts, "list the prompts, and which are replaced by yours", AS_JSON),
        "show": Verb(_show_prompt, "show the text of a prompt", "NAME"),
        "export": Verb(
            _export_prompts, "copy all prompts into a folder, to change them there", "FOLDER"
        ),
    }
)
