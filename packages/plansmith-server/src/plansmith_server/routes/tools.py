"""Routes of tools and agents: list and approve."""

from __future__ import annotations

from typing import Any

from plansmith.errors import Refused
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith_connect.a2a.registry import Standing
from plansmith_connect.mcp.servers import McpServers
from plansmith_planner.ranking.pick import shortlist
from plansmith_server.openapi import Answer, Ask, Nothing
from plansmith_server.schemas import requests as b
from plansmith_server.serialize import CLIP, clip
from plansmith_server.shown_settings import address
from plansmith_server.state import ServerState

_MOST = 50
_FINISHED = ("done", "partly_done")
_LOOKED_AT = 20


async def listing(ask: Ask, given: b.ToolQuery) -> Answer:
    """Lists the usable tools, best match first, and those that wait for approval."""
    server_state = ask.server_state
    waiting = await waiting_tools(server_state)
    specs = list((await server_state.smith.runs.intake.callees()).specs.values())
    if given.q.strip():
        order = [pick.name for pick in shortlist(given.q, specs, k=_MOST)]
        by_name = {spec.name: spec for spec in specs}
        specs = [by_name[name] for name in order if name in by_name]
        query = given.q.casefold()
        waiting = [each for each in waiting if query in str(each["text"]).casefold()]
    servers = {each.name for source in _servers(server_state) for each in source.statuses()}
    return {"items": [*(_tool(spec, servers) for spec in specs), *waiting]}


def _tool(spec: ToolSpec, servers: set[str]) -> dict[str, Json]:
    server = spec.name.partition(".")[0]
    return {
        "name": spec.name,
        "kind": "tool",
        "description": spec.description,
        "effect": spec.effect.value,
        "server": server if server in servers else None,
        "schema": spec.input_schema,
        "output": spec.output_schema,
        "approved": True,
        "changed": False,
    }


async def last_result(ask: Ask, given: b.LastResult) -> Answer:
    """Returns the newest result of a tool among the newest runs; null if there is none."""
    runs = ask.server_state.smith.runs
    found = await runs.lists.newest(statuses=set(_FINISHED), before="", text="", limit=_LOOKED_AT)
    for row in found:
        run = (await runs.journals.load(row.run)).run
        for step in run.plan.steps if run.plan else ():
            state = run.steps.get(step.id)
            if getattr(step, "tool", "") == given.tool and state and state.result_hash:
                value = await ask.server_state.smith.store.get(state.result_hash)
                return {"result": clip(value, CLIP), "run": run.id}
    return {"result": None, "run": None}


async def waiting_tools(server_state: ServerState) -> list[dict[str, Any]]:
    """Returns the servers and tools that wait for a person's approval."""
    return [
        {
            "name": each.name,
            "kind": each.kind,
            "description": "",
            "effect": None,
            "server": each.name.partition(".")[0],
            "schema": None,
            "approved": False,
            "changed": each.changed,
            "hash": each.hash,
            "text": each.text,
            "definition": dict(each.definition),
        }
        for source in _servers(server_state)
        for each in await source.pending()
    ]


def _servers(server_state: ServerState) -> list[McpServers]:
    return [each for each in server_state.smith.runs.intake.sources if isinstance(each, McpServers)]


async def approve(ask: Ask, given: b.Approval) -> Answer:
    """Approves a server's start or a tool, by the hash of what was shown."""
    server_state = ask.server_state
    servers = _servers(server_state)
    if not servers:
        raise Refused(
            Sentence("there are no MCP servers"),
            hint=Sentence("set [mcp.servers.NAME], see docs/mcp.md"),
        )
    servers[0].approve(given.server, given.hash, by=ask.by.name)
    server_state.log.info("tool_approved", name=given.server, by=ask.by.name)
    return {"items": [*await waiting_tools(server_state)]}


async def agents(ask: Ask, _: Nothing) -> Answer:
    """Lists the agents that plans can use, and the cards of all registered agents."""
    server_state = ask.server_state
    items: list[dict[str, Any]] = [
        {
            "name": spec.name,
            "description": spec.description,
            "effect": spec.effect.value,
            "enabled": spec.enabled,
            "skills": [skill.to_json() for skill in spec.skills],
        }
        for spec in server_state.smith.runs.intake.agents()
    ]
    registry = server_state.registry
    names = sorted(registry.entries()) if registry else []
    cards = [_card_row(await registry.look(name)) for name in names] if registry else []
    return {"items": [*items, *cards]}


def _card_row(standing: Standing) -> dict[str, Any]:
    return {
        "name": standing.name,
        "kind": "card",
        "status": standing.status,
        "hash": standing.hash,
        "why": standing.why,
        "changes": list(standing.changes),
        "url": address(standing.settings.url),
        "card": standing.card,
    }


async def approve_agent(ask: Ask, given: b.AgentApproval) -> Answer:
    """Approves an agent's card by the hash of what was shown; plans can use it at once."""
    server_state = ask.server_state
    if server_state.registry is None:
        raise Refused(Sentence("there are no A2A agents"), hint="plansmith agents add URL")
    standing = await server_state.registry.approve(given.name, given.hash, by=ask.by.name)
    for each in server_state.live:
        await each.refresh()
    server_state.log.info("agent_approved", name=given.name, by=ask.by.name)
    return _card_row(standing)
