"""`plansmith config` shows settings and prompts; `plansmith trust` decides on those of a folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from plansmith.errors import StaleDecision
from plansmith.plan.sentence import Sentence
from plansmith.protected_files import PROJECT_FILE
from plansmith.text import safe
from plansmith_cli.command_table import Exit
from plansmith_cli.config import look_at
from plansmith_cli.folders import config_folder, data_folder
from plansmith_cli.keyboard import agrees, is_at_terminal
from plansmith_cli.options import AS_JSON, JSON, PARTS, command_line, loaded_settings, settings_of
from plansmith_cli.parser import command
from plansmith_cli.trust import Project, TrustBook
from plansmith_cli.ui import output as ui
from plansmith_cli.ui.terminal import padded
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
        raise ui.wrong("there is no setting '{name}'", hint="plansmith config --all", name=name)
    listed = found if args.all or name else [each for each in found if each["source"] != "default"]
    width = max((len(str(each["name"])) for each in listed), default=0)
    lines = [
        f"{each['name']:<{width}} = {safe(str(each['value']))}  ({ui.own_text(source)})"
        for each in listed
        for source in [f"config.{each['source']}"]
    ]
    none = Sentence("Nothing is set: all is as by default (--all shows it).")
    place = Sentence(
        "Yours are in {person}, those of this folder in {project}.",
        person=str(config_folder() / "config.toml"),
        project=PROJECT_FILE,
    )
    ui.print_as(args, found, [*(lines or [none]), place])


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
        f"{row['name']:<{width}}  {padded(ui.own_text('yours' if row['own'] else 'shipped'), 7)}  "
        f"{' '.join(f'{{{each}}}' for each in row['places'])}".rstrip()
        for row in rows
    )
    ui.print_as(args, rows, lines)


def _folder(args: argparse.Namespace) -> Path | None:
    return loaded_settings(args).planner.prompts


def _show_prompt(args: argparse.Namespace) -> None:
    sys.stdout.write(prompt_text(args.name, _folder(args)))


def _export_prompts(args: argparse.Namespace) -> None:
    target, folder = Path(args.folder), _folder(args)
    target.mkdir(parents=True, exist_ok=True)
    taken = [name for name in prompt_names() if (target / f"{name}.md").exists()]
    if taken:
        raise ui.wrong(
            "{folder} already has {file}",
            "choose an empty folder: nothing is replaced",
            folder=str(target),
            file=f"{taken[0]}.md",
        )
    for name in prompt_names():
        (target / f"{name}.md").write_text(prompt_text(name, folder), encoding="utf-8")
    count = len(prompt_names())
    message = Sentence("wrote {count} prompts; set planner.prompts to this folder", count=count)
    ui.print_lines([message])


_CONFIG: Final = """
[NAME]  only this setting, or those below it: run, models.plan
--all  also what nobody has set
"""
COMMAND = command(_CONFIG + PARTS + JSON, _main, name={"default": ""})
PROMPTS = command(AS_JSON, _list_prompts)
SHOW_PROMPT = command("NAME", _show_prompt)
EXPORT_PROMPTS = command("FOLDER", _export_prompts)


# The first entry that fits a setting explains it: `trust.may_…` in the table of sentences.
_EXPLAINED: Final = (
    *("tools", "mcp.approvals", "mcp", "agents", "secrets", "models", "documents", "profile"),
    *("planner.prompts", "planner", "review", "budget", "run", "builtin", "store", "cache"),
)


def _trust(args: argparse.Namespace) -> int | None:
    book = TrustBook(data_folder())
    if args.list or args.remove:
        (_list_trusted if args.list else _remove_trust)(args, book)
        return None
    folder = Path(args.folder)
    if not folder.is_dir():
        raise ui.wrong("there is no folder {folder}", "check the path", folder=args.folder)
    project = look_at(folder)
    if project is None or not project.settings:
        raise ui.refused("there is nothing to trust in {folder}", folder=str(folder.resolve()))
    agreed = _is_agreed(args, project, known=book.trusts(project))
    if agreed:
        book.put(project)
    if args.json:
        ui.print_json(
            {
                "folder": str(project.folder),
                "hash": project.hash,
                "trusted": agreed,
                "allows": [{"what": what, "settings": names} for what, names in allows(project)],
                "files": project.hashes,
            }
        )
    return Exit.OK if agreed else Exit.WAITING


def _is_agreed(args: argparse.Namespace, project: Project, *, known: bool) -> bool:
    """Shows the content and asks whether to trust it; only an explicit yes counts."""
    if args.yes is not None:
        if args.yes != project.hash:
            again = command_line("trust", str(project.folder))
            hint = Sentence("review it: {command}", command=again)
            raise StaleDecision(Sentence("this is not the hash of the current content"), hint=hint)
        return True
    if not args.json:
        ui.print_lines(_trust_lines(project))
    if known:
        ui.tell(Sentence("You trust exactly this."))
        return True
    if not is_at_terminal():
        again = command_line("trust", str(project.folder), "--yes", project.hash)
        ui.tell(
            Sentence(
                "Nothing is trusted yet. If this is what you want: {command}", command=safe(again)
            )
        )
        return False
    agreed = agrees(ui.own_text("Trust exactly this content? y = yes, Enter = no: "))
    ui.tell(
        Sentence(
            "Trusted, until any of it changes." if agreed else "Not trusted: it does not count."
        )
    )
    return agreed


def _trust_lines(project: Project) -> Iterator[str]:
    file = safe(str(project.folder / PROJECT_FILE))
    yield ui.own_text("{file} and the files it names.", file=file)
    yield ""
    # What a person can read comes first; of the rest, such as interpreters, what tells it apart.
    for path, data in sorted(project.files.items(), key=lambda each: _is_binary(each[1])):
        yield f"--- {safe(project.name(path))}"
        if data is None:
            yield f"  {ui.own_text('(there is no such file)')}"
        elif _is_binary(data):
            known = {"size": len(data), "hash": sha256(data).hexdigest()}
            about = ui.own_text("(not a text: {size} bytes, SHA-256 {hash})", **known)
            yield f"  {about}"
        else:
            text = data.decode()
            yield from (f"  {safe(line)}" for line in text.rstrip("\n").split("\n"))
        yield ""
    yield ui.own_text("Trusted, this folder would:")
    for meaning, names in allows(project):
        yield f"  {ui.own_text('{message} ({hint})', message=ui.own(meaning), hint=names)}"
    yield ""
    yield ui.own_text("hash {hash}", hash=project.hash)


def _is_binary(data: bytes | None) -> bool:
    try:
        return "\0" in (data or b"").decode()
    except UnicodeDecodeError:
        return True


def allows(project: Project) -> list[tuple[str, str]]:
    """Returns what trust would allow, each with the settings that it is about."""
    found: dict[str, list[str]] = {}
    for name in project.names:
        fits = (key for key in _EXPLAINED if name == key or name.startswith(f"{key}."))
        found.setdefault(next(fits, "other"), []).append(safe(name))
    return [
        (Sentence(f"trust.may_{key.replace('.', '_')}"), ", ".join(names))
        for key, names in found.items()
    ]


def _list_trusted(args: argparse.Namespace, book: TrustBook) -> None:
    rows = [
        {"folder": folder, "hash": each.hash, "by": each.by, "at": each.at.isoformat()}
        for folder, each in sorted(book.all().items())
    ]
    lines = [f"{safe(row['folder'])}  {row['hash'][:12]}  {row['at'][:10]}" for row in rows]
    ui.print_as(args, rows, lines or [Sentence("You trust the settings of no folder.")])


def _remove_trust(args: argparse.Namespace, book: TrustBook) -> None:
    if not book.remove(Path(args.remove)):
        raise ui.wrong(
            "{folder} is not trusted", "plansmith trust --list shows all", folder=args.remove
        )
    if args.json:
        ui.print_json({"folder": args.remove, "trusted": False})


_TRUST: Final = """
[FOLDER]  default: here
--yes HASH  trust exactly this content, without asking
--list  list the folders you trust
--remove FOLDER  stop trusting a folder
"""
TRUST = command(_TRUST + JSON, _trust, folder={"default": "."})
