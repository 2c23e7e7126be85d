"""`plansmith tools` and `agents`: list, show, approve, change and call them."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import sys
from typing import Any, Final

from plansmith.errors import Misconfigured
from plansmith.plan.capability import ToolSpec
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import Sentence
from plansmith.secrets import SecretBox
from plansmith.text import clip, safe
from plansmith_cli.exit_codes import Exit
from plansmith_cli.interactive import run_interactively
from plansmith_cli.options import AS_JSON, JSON, PARTS, RUNNING, TOOLS, loaded_settings
from plansmith_cli.parser import Verb, noun
from plansmith_cli.questions import agrees
from plansmith_cli.session import Session, in_session
from plansmith_cli.ui.output import print_as, print_json, print_lines
from plansmith_cli.ui.words import own, own_text, tell
from plansmith_cli.wiring import make_agents
from plansmith_connect.a2a.registry import AgentRegistry, Choices, Standing
from plansmith_connect.mcp.servers import McpServers
from plansmith_planner.ranking.pick import shortlist


async def _specs(session: Session) -> list[ToolSpec]:
    return list((await session.smith.runs.intake.callees()).specs.values())


async def _list(session: Session) -> None:
    specs = await _specs(session)
    session.print_as(
        [spec.to_json() for spec in specs],
        (
            f"{safe(spec.name)}  [{spec.effect}]  {clip(safe(spec.description), 90)}"
            for spec in specs
        ),
    )


async def _search(session: Session) -> None:
    count = session.args.k or session.settings.planner.top_k
    if count < 1:
        small = Sentence("-k {count} is not 1 or more", count=count)
        raise Misconfigured(small, hint=Sentence("give a positive number"))
    picks = shortlist(session.args.request, await _specs(session), k=count)
    session.print_as(
        [{"name": each.name, "score": each.score, "reason": each.reason} for each in picks],
        (f"{each.score:7.3f}  {safe(each.name)}  ({safe(each.reason)})" for each in picks),
    )


async def _show(session: Session) -> None:
    found = [spec for spec in await _specs(session) if spec.name == session.args.tool]
    if not found:
        unknown = Sentence("there is no tool {name}", name=repr(session.args.tool))
        raise Misconfigured(unknown, hint=Sentence("plansmith tools list has all"))
    value = json.dumps(found[0].to_json(), ensure_ascii=False, indent=2)
    session.print_as(found[0].to_json(), map(safe, value.splitlines()))


async def _call(session: Session) -> int:
    """Runs a plan with one step, which is checked and reviewed like any other."""
    try:
        inputs = json.loads(session.args.inputs)
    except ValueError as error:
        hint = Sentence("such as {example}", example='{"path": "a.txt"}')
        wrong = Sentence("the inputs are not JSON: {error}", error=str(error))
        raise Misconfigured(wrong, hint=hint) from None
    name = session.args.tool
    step = {"id": "call", "kind": "tool", "tool": name, "inputs": inputs}
    plan = Plan.model_validate({"goal": f"Call {name}", "steps": [step]})
    await session.refuse_what_cannot_run(plan)
    run = await session.smith.submit(plan, by=session.by)
    return await run_interactively(session, run.id)


async def _approve(session: Session) -> int:
    servers = _servers(session)
    args = session.args
    waiting = [
        each
        for each in await servers.pending()
        if args.name is None or args.name in (each.name, each.name.partition(".")[0])
    ]
    if args.json:
        fields = ("name", "kind", "hash", "text", "changed")
        print_json([{name: getattr(each, name) for name in fields} for each in waiting])
    if not waiting:
        session.say(Sentence("Nothing waits for your approval."))
    left = 0
    for each in waiting:
        session.say("", each.text, Sentence("hash {hash}", hash=each.hash))
        agreed = args.hash == each.hash or (
            args.hash is None
            and session.has_person
            and agrees(
                session.own_text("Approve {name}? y = yes, Enter = not now: ", name=safe(each.name))
            )
        )
        if agreed:
            servers.approve(each.name, each.hash, by=session.by)
            session.say(Sentence("{name}: approved", name=safe(each.name)))
        else:
            left += 1
    return Exit.WAITING if left else Exit.OK


async def _revoke(session: Session) -> None:
    name = session.args.name
    _servers(session).revoke(name)
    session.say(
        Sentence(
            "{name}: no longer approved, and not used until you approve it again", name=safe(name)
        )
    )
    if session.args.json:
        print_json({"revoked": name})


def _servers(session: Session) -> McpServers:
    found = [each for each in session.smith.runs.intake.sources if isinstance(each, McpServers)]
    if not found:
        raise Misconfigured(
            Sentence("there are no MCP servers"),
            hint=Sentence("set [mcp.servers.NAME] or mcp.files, see docs/mcp.md"),
        )
    return found[0]


_SEARCH: Final = "REQUEST  what is wanted, in words\n-k K  how many (default: 6)\n"
_APPROVE: Final = """
[NAME]  a server, or server.tool
--hash HASH  approve exactly this, without asking
"""
_REVOKE: Final = "NAME  a server, or server.tool\n"
_CALL: Final = "TOOL\n[INPUTS]  its inputs\n"
COMMAND = noun(
    {
        "list": Verb(_list, "list all tools", TOOLS + JSON),
        "search": Verb(
            _search,
            "find the tools that fit a request, and why",
            _SEARCH + TOOLS + JSON,
            {"k": int},
        ),
        "show": Verb(_show, "show a tool with its schemas", "TOOL\n" + TOOLS + JSON),
        "approve": Verb(_approve, "approve MCP servers and their tools", _APPROVE + TOOLS + JSON),
        "revoke": Verb(
            _revoke, "revoke the approval of an MCP server or tool", _REVOKE + TOOLS + JSON
        ),
        "call": Verb(
            _call,
            "call one tool, reviewed like any plan",
            _CALL + PARTS + RUNNING,
            {"inputs": {"metavar": "JSON", "default": "{}"}},
        ),
    },
    in_session,
)


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


def _list_agents(args: argparse.Namespace) -> None:
    specs = [agent.spec for agent in _registry(args).agents()]
    lines = [
        f"{safe(spec.name)}  [{spec.effect}]  "
        f"{'' if spec.enabled else own_text('(not usable) ')}{safe(spec.description)}"
        for spec in specs
    ]
    none = Sentence("There are no agents; plansmith agents add URL adds one.")
    print_as(args, [spec.to_json() for spec in specs], lines or [none])


def _remove_agent(args: argparse.Namespace) -> None:
    _registry(args).remove(args.name)


def _change_agent(args: argparse.Namespace) -> None:
    _registry(args).change(args.name, _choices(args))


def _show_agent(args: argparse.Namespace) -> int:
    return asyncio.run(_shown(args, _registry(args)))


async def _shown(args: argparse.Namespace, registry: AgentRegistry) -> int:
    """Shows the card and status of an agent; adds or approves it if the command says so."""
    if args.action == "add":
        standing = await registry.add(args.url, name=args.name, choices=_choices(args))
    else:
        standing = await registry.look(args.name)
    if args.action == "approve" and standing.card is not None and _agrees_to_card(args, standing):
        by = getpass.getuser()
        standing = await registry.approve(args.name, args.hash or standing.hash, by=by)
    if args.json:
        print_json(_to_json(standing))
    elif args.action != "approve" or standing.status == "approved":
        print_lines(_card_lines(standing))
    if standing.status in ("new", "changed"):
        # Whoever was not asked, since there is no terminal, approves by the hash.
        by_hash = f" --hash {safe(standing.hash)}" if args.action == "approve" else ""
        command = f"plansmith agents approve {safe(standing.name)}{by_hash}"
        tell(Sentence("To approve it: {command}", command=command))
    return Exit.OK if standing.status == "approved" or args.action != "approve" else Exit.WAITING


def _agrees_to_card(args: argparse.Namespace, standing: Standing) -> bool:
    """Whether the person approves: by the hash, or by an explicit yes to what is shown."""
    if args.hash or standing.status == "approved":
        return bool(args.hash)
    tell(*_card_lines(standing))
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


def _card_lines(standing: Standing) -> list[str]:
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
_APPROVE_AGENT: Final = "NAME\n--hash HASH  approve exactly this, without asking\n"
_CARD: Final = "show the card as it is served now, and what has changed"
AGENTS = noun(
    {
        "list": Verb(_list_agents, "list all agents", AS_JSON),
        "add": Verb(_show_agent, "add an agent by its address", _ADD + _CHOICES + AS_JSON, _TYPED),
        "show": Verb(_show_agent, _CARD, "NAME\n" + AS_JSON),
        "approve": Verb(
            _show_agent, "approve the card that is served now", _APPROVE_AGENT + AS_JSON
        ),
        "change": Verb(
            _change_agent, "change the settings of an agent", "NAME\n" + _CHOICES + AS_JSON, _TYPED
        ),
        "remove": Verb(_remove_agent, "remove an agent", "NAME\n" + AS_JSON),
    }
)
