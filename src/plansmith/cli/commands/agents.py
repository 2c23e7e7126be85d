"""`plansmith agents`: list, add, show, approve, change and remove A2A agents."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import sys
from typing import Any

from plansmith.adapters.agents.a2a.registry import AgentRegistry, Choices
from plansmith.adapters.secrets import SecretBox
from plansmith.cli.commands.plans import FileCommand
from plansmith.cli.exit_codes import Exit
from plansmith.cli.options import warn
from plansmith.cli.questions import ask_line
from plansmith.cli.ui.output import print_json, print_lines
from plansmith.config import load_settings
from plansmith.text import safe
from plansmith.wiring import make_agents


def _configure(parser: argparse.ArgumentParser) -> None:
    deeds = parser.add_subparsers(
        dest="deed", required=True, metavar="list|add|show|approve|change|remove"
    )
    listing = deeds.add_parser("list", help="all agents")
    add = deeds.add_parser("add", help="write an agent down by its address")
    add.add_argument("url", metavar="URL", help="of the agent, or of its card")
    add.add_argument("--name", default="", help="how plans call it")
    show = deeds.add_parser("show", help="the card as it is served now, and what has changed")
    approve = deeds.add_parser("approve", help="approve the card that is served now")
    approve.add_argument("--hash", metavar="HASH", help="approve exactly this, without asking")
    change = deeds.add_parser("change", help="change what you say of an agent")
    remove = deeds.add_parser("remove", help="forget an agent")
    for deed in (show, approve, change, remove):
        deed.add_argument("name", metavar="NAME")
    for deed in (add, change):
        deed.add_argument("--effect", choices=["read", "write", "final"], help="what it does")
        for choice in ("enabled", "hidden", "passthrough"):
            deed.add_argument(f"--{choice}", action=argparse.BooleanOptionalAction, default=None)
    for deed in (listing, add, show, approve, change, remove):
        deed.add_argument("--json", action="store_true", help="print as JSON")


def _main(args: argparse.Namespace) -> int:
    settings = load_settings(tell=warn)
    registry = make_agents(settings, secrets=SecretBox(settings.secrets))
    match args.deed:
        case "list":
            return _list(args, registry)
        case "remove":
            registry.remove(args.name)
            return Exit.OK
        case "change":
            registry.change(args.name, _choices(args))
            return Exit.OK
        case _:
            return asyncio.run(_look(args, registry))


def _choices(args: argparse.Namespace) -> Choices:
    names = ("enabled", "hidden", "passthrough", "effect")
    return Choices(**{name: vars(args).get(name) for name in names})


def _list(args: argparse.Namespace, registry: AgentRegistry) -> int:
    specs = [agent.spec for agent in registry.agents()]
    if args.json:
        print_json([spec.to_json() for spec in specs])
    else:
        print_lines(
            f"{safe(spec.name)}  [{spec.effect}]  {'' if spec.enabled else '(not usable) '}"
            f"{safe(spec.description)}"
            for spec in specs
        )
    return Exit.OK


async def _look(args: argparse.Namespace, registry: AgentRegistry) -> int:
    """Show how an agent stands, and approve it where that is asked for and said."""
    if args.deed == "add":
        standing = await registry.add(args.url, name=args.name, choices=_choices(args))
    else:
        standing = await registry.look(args.name)
    if args.deed == "approve" and standing.card is not None and _agrees(args, standing):
        by = getpass.getuser()
        standing = await registry.approve(args.name, args.hash or standing.hash, by=by)
    if args.json:
        print_json(_to_json(standing))
    elif args.deed != "approve" or standing.status == "approved":
        _print(standing)
    if standing.status in ("new", "changed"):
        sys.stderr.write(f"To approve it: plansmith agents approve {safe(standing.name)}\n")
    return Exit.OK if standing.status == "approved" or args.deed != "approve" else Exit.WAITING


def _agrees(args: argparse.Namespace, standing: Any) -> bool:
    """Whether the person approves: by the hash, or by an explicit yes to what is shown."""
    if args.hash or standing.status == "approved":
        return bool(args.hash)
    sys.stderr.writelines(f"{line}\n" for line in _lines(standing))
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    typed = ask_line("Approve this card? y = yes, Enter = not now: ") or ""
    return typed.strip().lower() in ("y", "yes", "是")


def _to_json(standing: Any) -> dict[str, Any]:
    return {
        "name": standing.name,
        "status": standing.status,
        "hash": standing.hash,
        "why": standing.why,
        "changes": list(standing.changes),
        "settings": standing.settings.to_json(),
        "card": standing.card,
    }


def _print(standing: Any) -> None:
    print_lines(_lines(standing))


def _lines(standing: Any) -> list[str]:
    card = json.dumps(standing.card, ensure_ascii=False, indent=2).splitlines()
    lines = [f"{standing.name}: {standing.status}", f"hash {standing.hash}", standing.why]
    lines += [f"changed: {each}" for each in standing.changes]
    return [safe(line) for line in [*lines, *(card if standing.card else [])] if line]


COMMAND = FileCommand(_configure, _main)
