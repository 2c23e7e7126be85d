"""`plansmith tools`: list, search, show, approve, revoke and call tools."""

from __future__ import annotations

import json
from typing import Final

from plansmith.errors import Misconfigured
from plansmith.plan.capability import ToolSpec
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import Sentence
from plansmith.text import clip, safe
from plansmith_cli.exit_codes import Exit
from plansmith_cli.interactive import run_interactively
from plansmith_cli.options import JSON, PARTS, RUNNING, TOOLS
from plansmith_cli.parser import Verb, noun
from plansmith_cli.questions import agrees
from plansmith_cli.session import Session, in_session
from plansmith_cli.ui.output import print_json
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
