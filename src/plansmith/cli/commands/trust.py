"""`plansmith trust`: shows what a folder's settings would do, and trusts them or not."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from plansmith.cli.command import FileCommand
from plansmith.cli.exit_codes import Exit
from plansmith.cli.options import add_json, command_line
from plansmith.cli.questions import ask_line
from plansmith.cli.ui.output import print_json, print_lines
from plansmith.config import data_folder, look_at
from plansmith.errors import Misconfigured, StaleDecision
from plansmith.text import safe
from plansmith.trust import PROJECT_FILE, Content, Project, TrustBook

# The first entry that fits a setting explains it.
_MEANINGS: Final = (
    ("tools", "run the Python code, and offer the tools, of files that it names"),
    ("mcp.approvals", "bring approvals of its own; these never count, trusted or not"),
    ("mcp", "offer MCP servers: programs to start, or addresses to call; you approve each before"),
    ("agents", "hand work to agents at addresses that it names; you approve each before"),
    ("secrets", "say where secrets of yours are read, and which tools are given them"),
    ("models", "choose the model, the address it is at, and the key it is sent"),
    ("documents", "read files outside the folder, hidden or linked, and tell the model of them"),
    ("profile", "say for whom plans are made, and what they must and must not do"),
    ("planner.prompts", "replace the prompts of the model"),
    ("planner", "change how plans are made"),
    ("review", "change which plans run without asking you"),
    ("budget", "let runs spend more than your own limits"),
    ("run", "change how plans are run, and what is asked before a call"),
    ("builtin", "change what the built-in tools may reach and change"),
    ("store", "choose where runs are kept, and so which runs count as approved already"),
    ("cache", "write files in a folder that it names"),
)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="default: here")
    parser.add_argument("--yes", metavar="HASH", help="trust exactly this content, without asking")
    parser.add_argument("--list", action="store_true", help="list the folders you trust")
    parser.add_argument("--remove", metavar="FOLDER", help="stop trusting a folder")
    add_json(parser)


def _main(args: argparse.Namespace) -> int:
    book = TrustBook(data_folder())
    if args.list:
        return _list(args, book)
    if args.remove:
        return _remove(args, book)
    folder = Path(args.folder)
    if not folder.is_dir():
        raise Misconfigured(f"there is no folder {safe(args.folder)}", hint="check the path")
    project = look_at(folder)
    if project is None or not project.left:
        return _nothing(args, folder)
    content = project.content()
    agreed = _decided(args, project, content, known=book.trusts(content))
    if agreed:
        book.put(content)
    if args.json:
        print_json(_json(project, content, trusted=agreed))
    return Exit.OK if agreed else Exit.WAITING


def _nothing(args: argparse.Namespace, folder: Path) -> int:
    place = folder.resolve()
    if args.yes:
        raise StaleDecision(f"there is nothing to trust in {safe(str(place))}")
    if args.json:
        print_json({"folder": str(place), "hash": "", "trusted": True, "allows": [], "files": {}})
    else:
        print_lines([f"{safe(str(place))} needs no trust: all that it sets is harmless."])
    return Exit.OK


def _decided(args: argparse.Namespace, project: Project, content: Content, *, known: bool) -> bool:
    """Shows the content and asks whether to trust it; only an explicit yes counts."""
    if args.yes is not None:
        if args.yes != content.hash:
            again = command_line("trust", str(project.folder))
            raise StaleDecision(
                "this is not the hash of the current content", hint=f"review it: {again}"
            )
        return True
    if not args.json:
        print_lines(_lines(project, content))
    if known:
        _say("You trust exactly this.")
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        again = command_line("trust", str(project.folder), "--yes", content.hash)
        _say(f"Nothing is trusted yet. If this is what you want: {safe(again)}")
        return False
    typed = ask_line("Trust exactly this content? y = yes, Enter = no: ") or ""
    agreed = typed.strip().lower() in ("y", "yes", "是")
    _say("Trusted, until any of it changes." if agreed else "Not trusted: it does not count.")
    return agreed


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _lines(project: Project, content: Content) -> Iterator[str]:
    """Yields the full content to be trusted, without control characters."""
    yield f"{safe(str(project.folder / PROJECT_FILE))} and the files it names."
    yield ""
    for path, data in content.files.items():
        yield f"--- {safe(content.name(path))}"
        if data is None:
            yield "  (there is no such file)"
        else:
            text = data.decode("utf-8", errors="backslashreplace")
            yield from (f"  {safe(line)}" for line in text.rstrip("\n").split("\n"))
        yield ""
    yield "Trusted, this folder would:"
    yield from (f"  {meaning} ({names})" for meaning, names in allows(project))
    yield ""
    yield f"hash {content.hash}"


def allows(project: Project) -> list[tuple[str, str]]:
    """Returns what trust would allow, each with the settings that it is about."""
    found: dict[str, list[str]] = {}
    for name in project.left:
        meanings = (
            meaning for key, meaning in _MEANINGS if name == key or name.startswith(f"{key}.")
        )
        found.setdefault(next(meanings, "change a setting"), []).append(safe(name))
    return [(meaning, ", ".join(names)) for meaning, names in found.items()]


def _json(project: Project, content: Content, *, trusted: bool) -> dict[str, Any]:
    return {
        "folder": str(project.folder),
        "hash": content.hash,
        "trusted": trusted,
        "allows": [{"what": what, "settings": names} for what, names in allows(project)],
        "files": content.hashes,
    }


def _list(args: argparse.Namespace, book: TrustBook) -> int:
    rows = [
        {"folder": folder, "hash": each.hash, "by": each.by, "at": each.at.isoformat()}
        for folder, each in sorted(book.all().items())
    ]
    if args.json:
        print_json(rows)
    else:
        print_lines(f"{safe(row['folder'])}  {row['hash'][:12]}  {row['at'][:10]}" for row in rows)
    return Exit.OK


def _remove(args: argparse.Namespace, book: TrustBook) -> int:
    if not book.remove(Path(args.remove)):
        hint = "plansmith trust --list shows all"
        raise Misconfigured(f"{safe(args.remove)} is not trusted", hint=hint)
    if args.json:
        print_json({"folder": args.remove, "trusted": False})
    return Exit.OK


COMMAND = FileCommand(_configure, _main)
