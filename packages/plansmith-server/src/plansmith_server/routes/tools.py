"""Routes of tools and agents: list and approve."""

from __future__ import annotations

from typing import Final

from plansmith.errors import Refused
from plansmith.plan.sentence import Sentence
from plansmith_connect.a2a.registry import Standing
from plansmith_connect.mcp.servers import McpServers
from plansmith_planner.ranking.pick import shortlist
from plansmith_server import bodies as b
from plansmith_server.api import Answer, Ask, route
from plansmith_server.shown_settings import address
from plansmith_server.state import ServerState
from plansmith_server.views import JsonObject, Listed, clip

_MOST: Final = 50
_CARD: Final = ("name", "status", "hash", "why", "changes", "card")


@route("GET /v1/tools", "look", answer=Listed)
async def listing(ask: Ask, *, q: b.Long = "") -> Answer:
    """Lists the usable tools, best match first, and those that wait for approval."""
    waiting = await waiting_tools(ask.state)
    specs = (await ask.runs.registry.callees()).specs
    found = [*specs.values()]
    if q.strip():
        picks = shortlist(q, found, k=_MOST)
        found = [specs[pick.name] for pick in picks if pick.name in specs]
        query = q.casefold()
        waiting = [each for each in waiting if query in str(each["text"]).casefold()]
    servers = {each.name for source in _servers(ask.state) for each in source.statuses()}
    usable = [
        {
            "name": spec.name,
            "kind": "tool",
            "description": spec.description,
            "effect": spec.effect,
            "server": server if (server := spec.name.partition(".")[0]) in servers else None,
            "schema": spec.input_schema,
            "output": spec.output_schema,
            "approved": True,
            "changed": False,
        }
        for spec in found
    ]
    return {"items": [*usable, *waiting]}


@route("GET /v1/tools/last-result", "look")
async def last_result(ask: Ask, *, tool: b.Short) -> Answer:
    """Returns the newest result of a tool among the newest runs; null if there is none."""
    done = {"done", "partly_done"}
    for row in await ask.runs.lists.newest(statuses=done, before="", text="", limit=20):
        run = (await ask.runs.journals.load_verified(row.run)).run
        for step in run.plan.steps if run.plan else ():
            state = run.steps.get(step.id)
            if getattr(step, "tool", "") == tool and state and state.result_hash:
                value = await ask.smith.store.get(state.result_hash)
                return {"result": clip(value), "run": run.id}
    return {"result": None, "run": None}


async def waiting_tools(state: ServerState) -> list[JsonObject]:
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
            "definition": each.definition,
        }
        for source in _servers(state)
        for each in await source.pending()
    ]


def _servers(state: ServerState) -> list[McpServers]:
    return [each for each in state.smith.runs.registry.sources if isinstance(each, McpServers)]


@route(
    "POST /v1/tools/approve",
    "admin",
    answer=Listed,
    conflict="What was approved is not what is offered now; look at it again",
)
async def approve(ask: Ask, given: b.Approval) -> Answer:
    """Approves an MCP server's start or a tool, by the hash of what was shown."""
    servers = _servers(ask.state)
    if not servers:
        hint = Sentence("set [mcp.servers.NAME], see docs/mcp.md")
        raise Refused(Sentence("there are no MCP servers"), hint=hint)
    servers[0].approve(given.server, given.hash, by=ask.by.name)
    ask.state.log.info("tool_approved", name=given.server, by=ask.by.name)
    return {"items": await waiting_tools(ask.state)}


@route("GET /v1/agents", "look", answer=Listed)
async def agents(ask: Ask) -> Answer:
    """Lists the agents that plans can use, and the cards of all registered agents."""
    items: list[JsonObject] = [
        {
            "name": spec.name,
            "description": spec.description,
            "effect": spec.effect,
            "enabled": spec.enabled,
            "skills": [skill.to_json() for skill in spec.skills],
        }
        for spec in ask.runs.registry.agents()
    ]
    if registry := ask.state.registry:
        items += [_card(await registry.look(name)) for name in sorted(registry.entries())]
    return {"items": items}


def _card(standing: Standing) -> JsonObject:
    fields = {name: getattr(standing, name) for name in _CARD}
    return {**fields, "kind": "card", "url": address(standing.settings.url)}


@route(
    "POST /v1/agents/approve",
    "admin",
    conflict="The card has changed since it was shown, or there are no agents",
)
async def approve_agent(ask: Ask, given: b.AgentApproval) -> Answer:
    """Approves an agent's card by the hash of what was shown; plans can use it at once."""
    registry = ask.state.registry
    if registry is None:
        raise Refused(Sentence("there are no A2A agents"), hint="plansmith agents add URL")
    standing = await registry.approve(given.name, given.hash, by=ask.by.name)
    ask.state.log.info("agent_approved", name=given.name, by=ask.by.name)
    return _card(standing)
