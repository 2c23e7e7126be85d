"""`plansmith agents`: list, add, show, approve, change and remove A2A agents."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import sys
from typing import Any, Final

from plansmith.plan.sentence import Sentence
from plansmith.secrets import SecretBox
from plansmith.text import safe
from plansmith_cli.exit_codes import Exit
from plansmith_cli.options import AS_JSON, loaded_settings
from plansmith_cli.parser import Verb, noun
from plansmith_cli.questions import agrees
from plansmith_cli.ui.output import print_as, print_json, print_lines
from plansmith_cli.ui.words import own, own_text, tell
from plansmith_cli.wiring import make_agents
from plansmith_connect.a2a.registry import AgentRegistry, Choices, Standing

_SWITCHES: Final = ("enabled", "hidden", "passthrough", "unattended")
_SWITCH: Final = {"action": argparse.BooleanOptionalAction, "default": None, "help": None}
_CHOICES: Final = "--effect  the most that it does\n" + "".join(f"--{each}\n" for each in _SWITCHES)
_TYPED: Final = {
    "effect": {"choices": ["read", "write", "final"]},
    "name": {"default": ""},
    **dict.fromkeys(_SWITCHES, _SWITCH),
}


def _registry(args: argparse.Namespace) -> AgentRegistry:
    settings = loaded_settings(args)
    return make_agents(settings, secrets=SecretBox(settings.secrets))


def _choices(args: argparse.Namespace) -> Choices:
    return Choices(**{name: vars(args).get(name) for name in (*_SWITCHES, "effect")})


def _list(args: argparse.Namespace) -> None:
    specs = [agent.spec for agent in _registry(args).agents()]
    lines = [
        f"{safe(spec.name)}  [{spec.effect}]  "
        f"{'' if spec.enabled else own_text('(not usable) ')}{safe(spec.description)}"
        for spec in specs
    ]
    none = Sentence("There are no agents; plansmith agents add URL adds one.")
    print_as(args, [spec.to_json() for spec in specs], lines or [none])


def _remove(args: argparse.Namespace) -> None:
    _registry(args).remove(args.name)


def _change(args: argparse.Namespace) -> None:
    _registry(args).change(args.name, _choices(args))


def _show(args: argparse.Namespace) -> int:
    return asyncio.run(_shown(args, _registry(args)))


async def _shown(args: argparse.Namespace, registry: AgentRegistry) -> int:
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
        tell(Sentence("To approve it: {command}", command=command))
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


_ADD: Final = """
URL  the address of the agent or of its card
--name NAME  the name of the agent in plans
"""
_APPROVE: Final = "NAME\n--hash HASH  approve exactly this, without asking\n"
_CARD: Final = "show the card as it is served now, and what has changed"
COMMAND = noun(
    {
        "list": Verb(_list, "list all agents", AS_JSON),
        "add": Verb(_show, "add an agent by its address", _ADD + _CHOICES + AS_JSON, _TYPED),
        "show": Verb(_show, _CARD, "NAME\n" + AS_JSON),
        "approve": Verb(_show, "approve the card that is served now", _APPROVE + AS_JSON),
        "change": Verb(
            _change, "change the settings of an agent", "NAME\n" + _CHOICES + AS_JSON, _TYPED
        ),
        "remove": Verb(_remove, "remove an agent", "NAME\n" + AS_JSON),
    }
)
