"""`plansmith trust`: shows what a folder's settings would do, and trusts them or not."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from plansmith.errors import Misconfigured, StaleDecision
from plansmith.files import data_folder
from plansmith.plan.sentence import Sentence
from plansmith.protected_files import PROJECT_FILE
from plansmith.text import safe
from plansmith_cli.config import look_at
from plansmith_cli.exit_codes import Exit
from plansmith_cli.options import JSON, command_line
from plansmith_cli.parser import command
from plansmith_cli.questions import agrees
from plansmith_cli.trust import Content, Project, TrustBook
from plansmith_cli.ui.output import print_as, print_json, print_lines
from plansmith_cli.ui.words import own, own_text, tell

# The first entry that fits a setting explains it: `trust.may_…` in the table of sentences.
_EXPLAINED: Final = (
    *("tools", "mcp.approvals", "mcp", "agents", "secrets", "models", "documents", "profile"),
    *("planner.prompts", "planner", "review", "budget", "run", "builtin", "store", "cache"),
)


def _main(args: argparse.Namespace) -> int | None:
    book = TrustBook(data_folder())
    if args.list or args.remove:
        (_list if args.list else _remove)(args, book)
        return None
    folder = Path(args.folder)
    if not folder.is_dir():
        problem = Sentence("there is no folder {folder}", folder=args.folder)
        raise Misconfigured(problem, hint=Sentence("check the path"))
    project = look_at(folder)
    if project is None or not project.left:
        _nothing(args, folder)
        return None
    content = project.content()
    agreed = _decided(args, project, content, known=book.trusts(content))
    if agreed:
        book.put(content)
    if args.json:
        print_json(_json(project, content, trusted=agreed))
    return Exit.OK if agreed else Exit.WAITING


def _nothing(args: argparse.Namespace, folder: Path) -> None:
    place = str(folder.resolve())
    if args.yes:
        raise StaleDecision(Sentence("there is nothing to trust in {folder}", folder=place))
    told = Sentence("{folder} needs no trust: all that it sets is harmless.", folder=safe(place))
    found: dict[str, Any] = {"folder": place, "hash": "", "trusted": True, "allows": []}
    print_as(args, found | {"files": dict[str, Any]()}, [told])


def _decided(args: argparse.Namespace, project: Project, content: Content, *, known: bool) -> bool:
    """Shows the content and asks whether to trust it; only an explicit yes counts."""
    if args.yes is not None:
        if args.yes != content.hash:
            again = command_line("trust", str(project.folder))
            hint = Sentence("review it: {command}", command=again)
            raise StaleDecision(Sentence("this is not the hash of the current content"), hint=hint)
        return True
    if not args.json:
        print_lines(_lines(project, content))
    if known:
        tell(Sentence("You trust exactly this."))
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        again = command_line("trust", str(project.folder), "--yes", content.hash)
        tell(
            Sentence(
                "Nothing is trusted yet. If this is what you want: {command}", command=safe(again)
            )
        )
        return False
    agreed = agrees(own_text("Trust exactly this content? y = yes, Enter = no: "))
    tell(
        Sentence(
            "Trusted, until any of it changes." if agreed else "Not trusted: it does not count."
        )
    )
    return agreed


def _lines(project: Project, content: Content) -> Iterator[str]:
    """Yields the full content to be trusted, without control characters."""
    yield own_text("{file} and the files it names.", file=safe(str(project.folder / PROJECT_FILE)))
    yield ""
    # What a person can read comes first; of the rest, such as interpreters, what tells it apart.
    for path, data in sorted(content.files.items(), key=lambda each: _is_binary(each[1])):
        yield f"--- {safe(content.name(path))}"
        if data is None:
            yield f"  {own_text('(there is no such file)')}"
        elif _is_binary(data):
            digest = sha256(data).hexdigest()
            size = len(data)
            shown = own_text("(not a text: {size} bytes, SHA-256 {hash})", size=size, hash=digest)
            yield f"  {shown}"
        else:
            text = data.decode()
            yield from (f"  {safe(line)}" for line in text.rstrip("\n").split("\n"))
        yield ""
    yield own_text("Trusted, this folder would:")
    for meaning, names in allows(project):
        yield f"  {own_text('{message} ({hint})', message=own(meaning), hint=names)}"
    yield ""
    yield own_text("hash {hash}", hash=content.hash)


def _is_binary(data: bytes | None) -> bool:
    try:
        return "\0" in (data or b"").decode()
    except UnicodeDecodeError:
        return True


def allows(project: Project) -> list[tuple[str, str]]:
    """Returns what trust would allow, each with the settings that it is about."""
    found: dict[str, list[str]] = {}
    for name in project.left:
        fits = (key for key in _EXPLAINED if name == key or name.startswith(f"{key}."))
        found.setdefault(next(fits, "other"), []).append(safe(name))
    return [
        (Sentence(f"trust.may_{key.replace('.', '_')}"), ", ".join(names))
        for key, names in found.items()
    ]


def _json(project: Project, content: Content, *, trusted: bool) -> dict[str, Any]:
    return {
        "folder": str(project.folder),
        "hash": content.hash,
        "trusted": trusted,
        "allows": [{"what": what, "settings": names} for what, names in allows(project)],
        "files": content.hashes,
    }


def _list(args: argparse.Namespace, book: TrustBook) -> None:
    rows = [
        {"folder": folder, "hash": each.hash, "by": each.by, "at": each.at.isoformat()}
        for folder, each in sorted(book.all().items())
    ]
    lines = [f"{safe(row['folder'])}  {row['hash'][:12]}  {row['at'][:10]}" for row in rows]
    print_as(args, rows, lines or [Sentence("You trust the settings of no folder.")])


def _remove(args: argparse.Namespace, book: TrustBook) -> None:
    if not book.remove(Path(args.remove)):
        problem = Sentence("{folder} is not trusted", folder=args.remove)
        raise Misconfigured(problem, hint=Sentence("plansmith trust --list shows all"))
    if args.json:
        print_json({"folder": args.remove, "trusted": False})


COMMAND = command(
    """
[FOLDER]  default: here
--yes HASH  trust exactly this content, without asking
--list  list the folders you trust
--remove FOLDER  stop trusting a folder
"""
    + JSON,
    _main,
    folder={"default": "."},
)
