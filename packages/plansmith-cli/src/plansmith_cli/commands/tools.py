"""`plansmith tools` and `agents`: list, show, approve, change and call them."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
from typing import Final

from plansmith import Plan, ToolSpec
from plansmith.plan.sentence import Sentence
from plansmith.secrets import SecretBox
from plansmith.text import clip, safe
from plansmith_cli.command_table import Exit
from plansmith_cli.interactive import missing_hint, require_runnable, run_interactively
from plansmith_cli.keyboard import agrees
from plansmith_cli.options import AS_JSON, JSON, PARTS, RUNNING, TOOLS, loaded_settings
from plansmith_cli.parser import command
from plansmith_cli.session import Session, session_command
from plansmith_cli.ui import output as ui
from plansmith_cli.wiring import make_agents
from plansmith_connect.a2a.registry import AgentRegistry, Choices, Standing
from plansmith_connect.mcp.servers import McpServers
from plansmith_planner.ranking.pick import shortlist


async def _specs(session: Session) -> list[ToolSpec]:
    return list((await session.smith.runs.registry.callees()).specs.values())


async def _list(session: Session) -> None:
    specs = await _specs(session)
    lines = (
        f"{safe(spec.name)}  [{spec.effect}]  {clip(safe(spec.description), 90)}" for spec in specs
    )
    session.print_as([spec.to_json() for spec in specs], lines)


async def _search(session: Session) -> None:
    count = session.args.k or session.settings.planner.top_k
    if count < 1:
        raise ui.wrong("-k {count} is not 1 or more", "give a positive number", count=count)
    picks = shortlist(session.args.request, await _specs(session), k=count)
    session.print_as(
        [ui.json_of(each, "name score reason") for each in picks],
        (f"{each.score:7.3f}  {safe(each.name)}  ({safe(each.reason)})" for each in picks),
    )


async def _show(session: Session) -> None:
    name = session.args.tool
    found = next((spec for spec in await _specs(session) if spec.name == name), None)
    if found is None:
        hint = await missing_hint(session, name, Sentence("plansmith tools list has all"))
        raise ui.wrong("there is no tool {name}", hint=hint, name=repr(name))
    ui.print_json(found.to_json())


async def _call(session: Session) -> int:
    """Runs a plan with one step, which is checked and reviewed like any other."""
    try:
        inputs = json.loads(session.args.inputs)
    except ValueError as error:
        hint = Sentence("such as {example}", example='{"path": "a.txt"}')
        raise ui.wrong("the inputs are not JSON: {error}", hint=hint, error=str(error)) from None
    name = session.args.tool
    step = {"id": "call", "kind": "tool", "tool": name, "inputs": inputs}
    plan = Plan.model_validate({"goal": f"Call {name}", "steps": [step]})
    await require_runnable(session, plan)
    run = await session.smith.submit(plan, by=session.by)
    return await run_interactively(session, run.id)


async def _approve(session: Session) -> int:
    servers, args, left = _servers(session), session.args, 0
    pending = await servers.pending()
    waiting = [
        each
        for each in pending
        if args.name is None or args.name in (each.name, each.name.partition(".")[0])
    ]
    if pending and not (waiting and args.hash in (None, *(each.hash for each in waiting))):
        raise ui.wrong(
            "nothing that waits has this name and hash",
            hint=Sentence(
                "what waits: {names}", names=[f"{safe(e.name)} {e.hash}" for e in pending]
            ),
        )
    if args.json:
        ui.print_json([ui.json_of(each, "name kind hash text changed") for each in waiting])
    if not waiting:
        session.say(Sentence("Nothing waits for your approval."))
    for each in waiting:
        session.say("", each.text, Sentence("hash {hash}", hash=each.hash))
        prompt = ui.own_text("Approve {name}? y = yes, Enter = not now: ", name=safe(each.name))
        asks = args.hash is None and session.has_person
        if args.hash == each.hash or agrees(prompt, asks=asks):
            servers.approve(each.name, each.hash, by=session.by)
            session.say(Sentence("{name}: approved", name=safe(each.name)))
        else:
            left += 1
            line = session.command("tools", "approve", each.name, "--hash", each.hash)
            session.say(Sentence("To approve it: {command}", command=safe(line)))
    return Exit.WAITING if left else Exit.OK


async def _revoke(session: Session) -> None:
    name = session.args.name
    _servers(session).revoke(name)
    revoked = Sentence(
        "{name}: no longer approved, and not used until you approve it again", name=safe(name)
    )
    session.say_as({"revoked": name}, revoked)


def _servers(session: Session) -> McpServers:
    found = [each for each in session.smith.runs.registry.sources if isinstance(each, McpServers)]
    if not found:
        raise ui.wrong(
            "there are no MCP servers", "set [mcp.servers.NAME] or mcp.files, see docs/mcp.md"
        )
    return found[0]


_SEARCH: Final = "REQUEST  what is wanted, in words\n-k K  how many (default: 6)\n"
_APPROVE: Final = """
[NAME]  a server, or server.tool
--hash HASH  approve exactly this, without asking
"""
_REVOKE: Final = "NAME  a server, or server.tool\n"
_CALL: Final = "TOOL\n[INPUTS]  its inputs\n"
_LOOKS: Final = TOOLS + JSON
LIST = session_command(_LOOKS, _list)
SEARCH = session_command(_SEARCH + _LOOKS, _search, k=int)
SHOW = session_command("TOOL\n" + _LOOKS, _show)
APPROVE = session_command(_APPROVE + _LOOKS, _approve)
REVOKE = session_command(_REVOKE + _LOOKS, _revoke)
CALL = session_command(_CALL + PARTS + RUNNING, _call, inputs={"metavar": "JSON", "default": "{}"})


def _registry(args: argparse.Namespace) -> AgentRegistry:
    settings = loaded_settings(args)
    return make_agents(settings, secrets=SecretBox(settings.secrets))


def _choices(args: argparse.Namespace) -> Choices:
    return Choices(**{name: vars(args).get(name) for name in (*_SWITCHES, "effect")})


def _list_agents(args: argparse.Namespace) -> None:
    specs = [agent.spec for agent in _registry(args).agents()]
    lines = [
        f"{safe(spec.name)}  [{spec.effect}]  "
        f"{'' if spec.enabled else ui.own_text('(not usable) ')}{safe(spec.description)}"
        for spec in specs
    ]
    none = Sentence("There are no agents; plansmith agents add URL adds one.")
    ui.print_as(args, [spec.to_json() for spec in specs], lines or [none])


def _change_agent(args: argparse.Namespace) -> None:
    if args.command == "agents remove":
        _registry(args).remove(args.name)
    else:
        _registry(args).change(args.name, _choices(args))


def _show_agent(args: argparse.Namespace) -> int:
    """Shows the card and status of an agent; adds or approves it if the command says so."""

    async def work() -> Standing:
        registry = _registry(args)
        if args.command == "agents add":
            return await registry.add(args.url, name=args.name, choices=_choices(args))
        standing = await registry.look(args.name)
        if args.command != "agents approve" or standing.card is None or not _agrees(args, standing):
            return standing
        by = getpass.getuser()
        return await registry.approve(args.name, args.hash or standing.hash, by=by)

    standing = asyncio.run(work())
    status, is_asked = standing.status, args.command == "agents approve"
    if args.json:
        settings = standing.settings.to_json()
        ui.print_json(ui.json_of(standing, "name status hash why changes card", settings=settings))
    elif not is_asked or status == "approved":
        ui.print_lines(_card_lines(standing))
    if status in ("new", "changed"):
        # Whoever was not asked, since there is no terminal, approves by the hash.
        by_hash = f" --hash {safe(standing.hash)}" if is_asked else ""
        command = f"plansmith agents approve {safe(standing.name)}{by_hash}"
        ui.tell(Sentence("To approve it: {command}", command=command))
    return Exit.OK if status == "approved" or not is_asked else Exit.WAITING


def _agrees(args: argparse.Namespace, standing: Standing) -> bool:
    """Whether the person approves: by the hash, or by an explicit yes to what is shown."""
    if args.hash or standing.status == "approved":
        return bool(args.hash)
    ui.tell(*_card_lines(standing))
    return agrees(ui.own_text("Approve this card? y = yes, Enter = not now: "))


def _card_lines(standing: Standing) -> list[str]:
    card = json.dumps(standing.card, ensure_ascii=False, indent=2).splitlines()
    status = Sentence(f"agents.status_{standing.status}")
    lines = [ui.own_text("{text}: {reason}", text=standing.name, reason=status)]
    lines += [ui.own_text("hash {hash}", hash=standing.hash)] if standing.hash else []
    lines += [ui.own(standing.why)]
    lines += [ui.own_text("changed: {what}", what=each) for each in standing.changes]
    return [safe(line) for line in [*lines, *(card if standing.card else [])] if line]


_SWITCHES: Final = ("enabled", "hidden", "passthrough", "unattended")
_SWITCH: Final = {"action": argparse.BooleanOptionalAction, "default": None, "help": None}
_CHOICES: Final = "--effect  the most that it does\n" + "".join(f"--{each}\n" for each in _SWITCHES)
_TYPED: Final = {
    "effect": {"choices": ["read", "write", "final"]},
    **dict.fromkeys(_SWITCHES, _SWITCH),
}
_ADD: Final = """
URL  the address of the agent or of its card
--name NAME  the name of the agent in plans
"""
_APPROVE_AGENT: Final = "NAME\n--hash HASH  approve exactly this, without asking\n"
AGENTS = command(AS_JSON, _list_agents)
ADD_AGENT = command(_ADD + _CHOICES + AS_JSON, _show_agent, name={"default": ""}, **_TYPED)
SHOW_AGENT = command("NAME\n" + AS_JSON, _show_agent)
APPROVE_AGENT = command(_APPROVE_AGENT + AS_JSON, _show_agent)
CHANGE_AGENT = command("NAME\n" + _CHOICES + AS_JSON, _change_agent, **_TYPED)
REMOVE_AGENT = command("NAME\n" + AS_JSON, _change_agent)
