"""`plansmith agents`: list, add, show, approve, change and remove A2A agents."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import sys
from typing import Any

from plansmith.plan.sentence import Sentence
from plansmith.secrets import SecretBox
from plansmith.text import safe
from plansmith_cli.command_table import Command
from plansmith_cli.exit_codes import Exit
from plansmith_cli.options import loaded_settings
from plansmith_cli.questions import agrees
from plansmith_cli.ui.output import print_json, print_lines
from plansmith_cli.ui.words import own, own_text, tell
from plansmith_cli.wiring import make_agents
from plansmith_connect.a2a.registry import AgentRegistry, Choices, Standing


def _configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="list|add|show|approve|change|remove"
    )
    listing = actions.add_parser("list", help="list all agents")
    add = actions.add_parser("add", help="add an agent by its address")
    add.add_argument("url", metavar="URL", help="the address of the agent or of its card")
    add.add_argument("--name", default="", help="the name of the agent in plans")
    show = actions.add_parser(
        "show", help="show the card as it is served now, and what has changed"
    )
    approve = actions.add_parser("approve", help="approve the card that is served now")
    approve.add_argument("--hash", metavar="HASH", help="approve exactly this, without asking")
    change = actions.add_parser("change", help="change the settings of an agent")
    remove = actions.add_parser("remove", help="remove an agent")
    for action in (show, approve, change, remove):
        action.add_argument("name", metavar="NAME")
    for action in (add, change):
        action.add_argument(
            "--effect", choices=["read", "write", "final"], help="the most that it does"
        )
        for choice in ("enabled", "hidden", "passthrough", "unattended"):
            action.add_argument(f"--{choice}", action=argparse.BooleanOptionalAction, default=None)
    for action in (listing, add, show, approve, change, remove):
        action.add_argument("--json", action="store_true", help="print as JSON")


def _main(args: argparse.Namespace) -> int:
    settings = loaded_settings(args)
    registry = make_agents(settings, secrets=SecretBox(settings.secrets))
    match args.action:
        case "list":
            return _list(args, registry)
        case "remove":
            registry.remove(args.name)
            return Exit.OK
        case "change":
            registry.change(args.name, _choices(args))
            return Exit.OK
        case _:
            return asyncio.run(_show(args, registry))


def _choices(args: argparse.Namespace) -> Choices:
    names = ("enabled", "hidden", "passthrough", "unattended", "effect")
    return Choices(**{name: vars(args).get(name) for name in names})


def _list(args: argparse.Namespace, registry: AgentRegistry) -> int:
    specs = [agent.spec for agent in registry.agents()]
    if args.json:
        print_json([spec.to_json() for spec in specs])
    elif not specs:
        print_lines([own_text("There are no agents; plansmith agents add URL adds one.")])
    else:
        print_lines(
            f"{safe(spec.name)}  [{spec.effect}]  "
            f"{'' if spec.enabled else own_text('(not usable) ')}{safe(spec.description)}"
            for spec in specs
        )
    return Exit.OK


async def _show(args: argparse.Namespace, registry: AgentRegistry) -> int:
    """Shows the card and status of an agent; adds or approves it if the command says so."""
    if args.action == "add":
        standing = await registry.add(args.url, name=args.name, choices=_choices(args))
    else:
        standing = await registry.look(args.name)
    if args.action == "approve" and standing.card is not None and _agrees(args, standing):
        by = getpass.getuser()
        standing = await registry.approve(args.name, args.hash or standing.hash, by=by)
    if args.json:
        print_json(_to_json(standing))
    elif args.action != "approve" or standing.status == "approved":
        print_lines(_lines(standing))
    if standing.status in ("new", "changed"):
        # Whoever was not asked, since there is no terminal, approves by the hash.
        by_hash = f" --hash {safe(standing.hash)}" if args.action == "approve" else ""
        command = f"plansmith agents approve {safe(standing.name)}{by_hash}"
        tell(own_text("To approve it: {command}", command=command))
    return Exit.OK if standing.status == "approved" or args.action != "approve" else Exit.WAITING


def _agrees(args: argparse.Namespace, standing: Standing) -> bool:
    """Whether the person approves: by the hash, or by an explicit yes to what is shown."""
    if args.hash or standing.status == "approved":
        return bool(args.hash)
    tell(*_lines(standing))
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return agrees(own_text("Approve this card? y = yes, Enter = not now: "))


def _to_json(standing: Standing) -> dict[str, Any]:
    return {
        "name": standing.name,
        "status": standing.status,
        "hash": standing.hash,
        "why": standing.why,
        "changes": list(standing.changes),
        "settings": standing.settings.to_json(),
        "card": standing.card,
    }


def _lines(standing: Standing) -> list[str]:
    card = json.dumps(standing.card, ensure_ascii=False, indent=2).splitlines()
    status = Sentence(f"agents.status_{standing.status}")
    lines = [own_text("{text}: {reason}", text=standing.name, reason=status)]
    lines += [own_text("hash {hash}", hash=standing.hash)] if standing.hash else []
    lines += [own(standing.why)]
    lines += [own_text("changed: {what}", what=each) for each in standing.changes]
    return [safe(line) for line in [*lines, *(card if standing.card else [])] if line]


COMMAND = Command(_configure, _main)
