"""`plansmith tools`: list, search, show, approve, revoke and call tools."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from plansmith.errors import Misconfigured
from plansmith.plan.capability import ToolSpec
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import Sentence, in_language
from plansmith.text import clip, safe
from plansmith_cli.exit_codes import Exit
from plansmith_cli.interactive import run_interactively
from plansmith_cli.options import add_json, add_parts, add_running, add_tools
from plansmith_cli.questions import agrees
from plansmith_cli.session import Session, session_command
from plansmith_cli.ui.output import print_as, print_json, print_lines
from plansmith_connect.mcp.servers import McpServers
from plansmith_planner.ranking.pick import shortlist


def _configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="list|search|show|approve|revoke|call"
    )
    listing = actions.add_parser("list", help="list all tools")
    search = actions.add_parser("search", help="find the tools that fit a request, and why")
    search.add_argument("request", metavar="REQUEST", help="what is wanted, in words")
    search.add_argument("-k", type=int, default=None, help="how many (default: 6)")
    show = actions.add_parser("show", help="show a tool with its schemas")
    show.add_argument("name", metavar="TOOL")
    approve = actions.add_parser("approve", help="approve MCP servers and their tools")
    approve.add_argument("name", nargs="?", metavar="NAME", help="a server, or server.tool")
    approve.add_argument("--hash", metavar="HASH", help="approve exactly this, without asking")
    revoke = actions.add_parser("revoke", help="revoke the approval of an MCP server or tool")
    revoke.add_argument("name", metavar="NAME", help="a server, or server.tool")
    call = actions.add_parser("call", help="call one tool, reviewed like any plan")
    call.add_argument("name", metavar="TOOL")
    call.add_argument("inputs", metavar="JSON", nargs="?", default="{}", help="its inputs")
    for action in (listing, search, show, approve, revoke):
        add_tools(action)
        add_json(action)
    add_parts(call)
    add_running(call)


async def _main(session: Session) -> int:
    args = session.args
    match args.action:
        case "approve":
            return await _approve(session)
        case "revoke":
            return _revoke(session)
        case "call":
            return await _call(session)
        case _:
            pass
    specs = list((await session.smith.runs.intake.callees()).specs.values())
    match args.action:
        case "search":
            return _search(args, specs, args.k or session.settings.planner.top_k)
        case "show":
            return _show(args, specs)
        case _:
            return _list(args, specs)


def _list(args: argparse.Namespace, specs: Sequence[ToolSpec]) -> int:
    print_as(
        args,
        [spec.to_json() for spec in specs],
        (
            f"{safe(spec.name)}  [{spec.effect}]  {clip(safe(spec.description), 90)}"
            for spec in specs
        ),
    )
    return Exit.OK


def _search(args: argparse.Namespace, specs: Sequence[ToolSpec], k: int) -> int:
    if k < 1:
        small = Sentence("-k {count} is not 1 or more", count=k)
        raise Misconfigured(small, hint=Sentence("give a positive number"))
    picks = shortlist(args.request, specs, k=k)
    print_as(
        args,
        [{"name": each.name, "score": each.score, "reason": each.reason} for each in picks],
        (f"{each.score:7.3f}  {safe(each.name)}  ({safe(each.reason)})" for each in picks),
    )
    return Exit.OK


def _show(args: argparse.Namespace, specs: Sequence[ToolSpec]) -> int:
    found = [spec for spec in specs if spec.name == args.name]
    if not found:
        unknown = Sentence("there is no tool {name}", name=repr(args.name))
        raise Misconfigured(unknown, hint=Sentence("plansmith tools list has all"))
    if args.json:
        print_json(found[0].to_json())
    else:
        value = json.dumps(found[0].to_json(), ensure_ascii=False, indent=2)
        print_lines(safe(line) for line in value.splitlines())
    return Exit.OK


async def _call(session: Session) -> int:
    """Runs a plan with one step, which is checked and reviewed like any other."""
    try:
        inputs = json.loads(session.args.inputs)
    except ValueError as error:
        hint = Sentence("such as {example}", example='{"path": "a.txt"}')
        wrong = Sentence("the inputs are not JSON: {error}", error=str(error))
        raise Misconfigured(wrong, hint=hint) from None
    name = session.args.name
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
        session.say(session.own_text("Nothing waits for your approval."))
    left = 0
    for each in waiting:
        told = in_language(each.text, session.locale)
        session.say("", told, session.own_text("hash {hash}", hash=each.hash))
        agreed = args.hash == each.hash or (
            args.hash is None
            and session.has_person
            and agrees(
                session.own_text("Approve {name}? y = yes, Enter = not now: ", name=safe(each.name))
            )
        )
        if agreed:
            servers.approve(each.name, each.hash, by=session.by)
            session.say(session.own_text("{name}: approved", name=safe(each.name)))
        else:
            left += 1
    return Exit.WAITING if left else Exit.OK


def _revoke(session: Session) -> int:
    name = session.args.name
    _servers(session).revoke(name)
    session.say(
        session.own_text(
            "{name}: no longer approved, and not used until you approve it again", name=safe(name)
        )
    )
    if session.args.json:
        print_json({"revoked": name})
    return Exit.OK


def _servers(session: Session) -> McpServers:
    found = [each for each in session.smith.runs.intake.sources if isinstance(each, McpServers)]
    if not found:
        raise Misconfigured(
            Sentence("there are no MCP servers"),
            hint=Sentence("set [mcp.servers.NAME] or mcp.files, see docs/mcp.md"),
        )
    return found[0]


COMMAND = session_command(_configure, _main)
