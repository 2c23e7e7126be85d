"""`plansmith model`: the embedded models: what there is, fetched, chosen, removed, checked."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from plansmith.adapters.models.local.known import KNOWN, KnownModel, known_model
from plansmith.adapters.models.local.pull import is_offline, pull_local
from plansmith.adapters.models.local.shelf import Shelf, weights_path
from plansmith.adapters.models.local.trial import Trial, try_model
from plansmith.cli.exits import Exit
from plansmith.cli.fetching import about_fetching, fetch_model, size_text, tell
from plansmith.cli.options import add_json
from plansmith.cli.output import print_json, print_lines
from plansmith.cli.plans import FileCommand
from plansmith.cli.prompt import ask_line, read_choice
from plansmith.errors import Misconfigured, Refused
from plansmith.plan.data import Json
from plansmith.text import safe

_NAMES: Final = "list|pull|use|remove|check"


def _configure(parser: argparse.ArgumentParser) -> None:
    deeds = parser.add_subparsers(dest="deed", required=True, metavar=_NAMES)
    listing = deeds.add_parser("list", help="the models Plansmith knows, and which are here")
    pull = deeds.add_parser("pull", help="get a model: from this machine, or from the network")
    use = deeds.add_parser("use", help="let `local` stand for a model, or for a GGUF file")
    remove = deeds.add_parser("remove", help="delete a model's file")
    check = deeds.add_parser("check", help="prove that a model is whole and answers")
    for deed in (pull, check):
        deed.add_argument("name", nargs="?", default="", metavar="NAME", help="default: the chosen")
    for deed in (use, remove):
        deed.add_argument("name", metavar="NAME", help="a model of `plansmith model list`")
    pull.add_argument("--from", dest="given", metavar="FILE", help="a file that is here already")
    pull.add_argument("--yes", action="store_true", help="fetch without asking")
    pull.add_argument("--offline", action="store_true", help="look on this machine only")
    for deed in (listing, pull, use, remove, check):
        add_json(deed)


def _main(args: argparse.Namespace) -> int:
    return _DEEDS[args.deed](args, Shelf())


def _list(args: argparse.Namespace, shelf: Shelf) -> int:
    rows = [_row(model, shelf) for model in KNOWN.values()]
    if args.json:
        print_json({"folder": str(shelf.folder), "chosen": shelf.chosen, "models": rows})
        return Exit.OK
    print_lines(
        f"{row['name']:<20} {size_text(int(str(row['size']))):>8}  {row['licence']:<11} "
        f"{'here' if row['here'] else '-':<5} {row['about']}"
        for row in rows
    )
    return Exit.OK


def _row(model: KnownModel, shelf: Shelf) -> dict[str, Json]:
    return {
        "name": model.name,
        "about": model.about,
        "size": model.size,
        "sha256": model.sha256,
        "licence": model.licence,
        "context": model.context,
        "style": model.style.value,
        "here": shelf.has(model),
        "path": str(shelf.path(model)),
    }


def _pull(args: argparse.Namespace, shelf: Shelf) -> int:
    model = known_model(args.name or shelf.chosen)
    given = Path(args.given).expanduser() if args.given else None
    path = pull_local(model, shelf, given=given, tell=tell)
    if path is None:
        if args.offline or is_offline():
            hint = "name a file with --from, or go online"
            raise Refused(f"{model.name} is not on this machine", hint=hint)
        _agree(model, shelf, yes=args.yes)
        path = fetch_model(model, shelf)
    if args.json:
        print_json(_row(model, shelf))
    else:
        print_lines([f"{model.name} is here: {safe(str(path))}"])
    return Exit.OK


def _agree(model: KnownModel, shelf: Shelf, *, yes: bool) -> None:
    """One line on what is fetched, how large and why; then the person's word."""
    tell(about_fetching(model, shelf))
    if yes:
        return
    if not sys.stdin.isatty():
        hint = "--yes says so"
        raise Refused("a model is fetched only with a person's word", hint=hint)
    if read_choice(ask_line("Fetch it? [y/N] ") or "").kind != "yes":
        raise Refused("nothing was fetched", hint="--yes fetches without asking")


def _use(args: argparse.Namespace, shelf: Shelf) -> int:
    name = args.name
    if name.endswith(".gguf") or os.sep in name:
        name = str(Path(name).expanduser().resolve())
    weights_path(name, shelf)
    shelf.choose(name)
    if args.json:
        print_json({"chosen": name})
    else:
        print_lines([f"`local` now stands for {safe(name)}"])
    return Exit.OK


def _remove(args: argparse.Namespace, shelf: Shelf) -> int:
    model = known_model(args.name)
    freed = shelf.remove(model)
    if not freed:
        raise Misconfigured(f"{model.name} is not here", hint="plansmith model list shows what is")
    if args.json:
        print_json({"removed": model.name, "bytes": freed})
    else:
        print_lines([f"removed {model.name}: {size_text(freed)}"])
    return Exit.OK


def _check(args: argparse.Namespace, shelf: Shelf) -> int:
    path, known = weights_path(args.name, shelf)
    whole = shelf.is_right(known, anew=True) if known else None
    found = (
        asyncio.run(try_model(path)) if whole is not False else Trial(flaw="the file is damaged")
    )
    flaw = found.flaw
    if args.json:
        print_json({"path": str(path), "hash_right": whole, "ok": not flaw, **asdict(found)})
    elif flaw:
        print_lines([f"error: {safe(str(path))}: {safe(flaw)}"])
    else:
        hashed = "its hash is right" if whole else "its hash is not known here"
        took = f"loaded in {found.load_s:.1f} s, answered in {found.answer_s:.1f} s"
        print_lines([f"{safe(str(path))}: {hashed}; {took}"])
    return Exit.FAILED if flaw else Exit.OK


_DEEDS: Final[dict[str, Callable[[argparse.Namespace, Shelf], int]]] = {
    "list": _list,
    "pull": _pull,
    "use": _use,
    "remove": _remove,
    "check": _check,
}
COMMAND = FileCommand(_configure, _main)
