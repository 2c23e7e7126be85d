"""MCP servers as a tool source: compares them with what was approved, starts and calls them."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Self

from plansmith.errors import (
    Misconfigured,
    NotFound,
    PlansmithError,
    Refused,
    StaleDecision,
    ToolFailed,
    failure_of_call,
)
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json, canonical_hash
from plansmith.plan.sentence import Sentence, joined
from plansmith.ports import Call
from plansmith.text import safe
from plansmith_connect.approvals import Approvals, changes, definition_lines
from plansmith_connect.mcp.delivery import Delivery
from plansmith_connect.mcp.launch import launch_definition, launch_lines, target
from plansmith_connect.mcp.listing import Listed, Listing, effect_words, server_name, wire_names
from plansmith_connect.mcp.settings import ServerSettings

if TYPE_CHECKING:
    from plansmith_connect.mcp.server import McpServer

Kind = Literal["server", "tool"]
State = Literal["unapproved", "stopped", "running", "failed", "disabled"]


@dataclass(frozen=True, slots=True)
class Pending:
    """Something that waits for approval: a server's start, or one of its tools."""

    name: str
    kind: Kind
    hash: str
    text: str
    definition: Mapping[str, Json]
    changed: bool = False


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The state of a server, as far as it is known without asking it."""

    name: str
    state: State
    detail: str = ""
    tools: int = 0
    protocol: str = ""


class McpServers:
    """A tool source of MCP servers; each starts when first needed, and only if approved.

    `environment` is where `${NAME}` is looked up; `tell` is called with messages for the person.
    """

    def __init__(
        self,
        servers: Mapping[str, ServerSettings],
        *,
        approvals: Approvals,
        environment: Mapping[str, str] | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._settings = dict(servers)
        self._approvals = approvals
        self._environment = os.environ if environment is None else environment
        self._tell = tell
        self._servers: dict[str, McpServer] = {}
        self._listings: dict[str, Listing] = {}
        self._failures: dict[str, str] = {}
        self._messages: deque[str] = deque(maxlen=1000)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stops all servers; may be called twice."""
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    async def tools(self) -> Sequence[ToolSpec]:
        """Returns the approved tools of all approved servers; skips servers that fail."""
        names, approved = self._enabled(), list[ToolSpec]()
        found = await asyncio.gather(*map(self._look, names))
        for name, (pending, listing) in zip(map(safe, names), found, strict=True):
            waiting = [each.name for each in pending]
            approved += [each.spec for key, each in listing.tools.items() if key not in waiting]
            if pending and pending[0].kind == "server":
                why = Sentence("the MCP server {name} waits for your approval", name=name)
                self._tell_once(why)
            elif pending:
                why = Sentence(
                    "tools of {name} wait for your approval: {names}", name=name, names=waiting
                )
                self._tell_once(why)
        return approved

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Calls a tool if it and its server are unchanged since their approval."""
        # An answer continues a call whose first part was sent.
        delivery = Delivery(sent=call.reply is not None)
        try:
            running, listed = await self._approved(tool)
        except ToolFailed as failure:
            raise failure_of_call(failure, sent=delivery.sent) from None
        return await running.call(listed, arguments, call, delivery)

    async def _approved(self, tool: str) -> tuple[McpServer, Listed]:
        """Returns a tool and its server; raises an error if one of them may not be used."""
        server, _ = wire_names(tool)
        if server not in self._enabled():
            raise ToolFailed(Sentence("unknown.tool", name=tool))
        if waiting := self._pending_start(server):
            raise _not_approved(waiting)
        running = self._server(server)
        listing = await running.listing(again=True)
        self._note(server, listing)
        listed = listing.tools.get(tool)
        if listed is None:
            raise ToolFailed(Sentence("unknown.tool", name=tool))
        if waiting := self._pending_tool(tool, listed):
            raise _not_approved(waiting)
        return running, listed

    async def pending(self) -> list[Pending]:
        """Returns everything that waits for approval; starts approved servers for it."""
        found = await asyncio.gather(*map(self._look, self._enabled()))
        return [each for pending, _ in found for each in pending]

    async def _look(self, name: str) -> tuple[list[Pending], Listing]:
        """Returns what waits for approval at a server, and its tools; tells if it is not usable."""
        try:
            if start := self._pending_start(name):
                return [start], Listing({})
            listing = await self._server(name).listing(again=False)
        except PlansmithError as failure:
            self._failures[name] = failure.message
            why = Sentence(
                "the MCP server {name} is not usable now: {why}", name=safe(name), why=failure
            )
            self._tell_once(why)
            return [], Listing({})
        self._note(name, listing)
        found = (self._pending_tool(name, each) for name, each in listing.tools.items())
        return [each for each in found if each is not None], listing

    def approve(self, name: str, digest: str, *, by: str) -> None:
        """Approves a server's start or a tool; the hash must be that of what was shown."""
        if not by.strip():
            raise Refused(Sentence("an approval needs the name of who gives it"))
        waiting = self._waiting(name)
        if waiting is None:
            why = Sentence("nothing called '{name}' waits for approval", name=name)
            hint = Sentence("see what is pending")
            raise Refused(why, hint=hint)
        if waiting.hash != digest:
            why = Sentence("{name} has changed since it was shown", name=name)
            hint = Sentence("look at it again and approve what is there now")
            raise StaleDecision(why, hint=hint)
        self._approvals.approve(name, digest, waiting.definition, by=by)

    def revoke(self, name: str) -> None:
        """Removes the approval of a server or a tool; it is no longer used, even if it runs."""
        if self._approvals.get(name) is None:
            raise NotFound(Sentence("nothing called '{name}' is approved", name=name))
        self._approvals.remove(name)

    def leave_out(self, tool: str) -> None:
        """Tells the person that a tool is not used, since another one has its name."""
        server, name = map(safe, wire_names(tool))
        why = Sentence(
            "there is another tool '{tool}'; give the server another name in your settings",
            tool=tool,
        )
        why = Sentence(
            "{server}: the tool '{name}' is not used: {why}", server=server, name=name, why=why
        )
        self._tell_once(why)

    def statuses(self) -> list[ServerStatus]:
        """Returns the state of each server, without asking any."""
        return [self._status(name) for name in self._settings]

    def _status(self, name: str) -> ServerStatus:
        server = self._servers.get(name)
        tools = len(self._listings[name].tools) if name in self._listings else 0
        if not self._settings[name].enabled:
            return ServerStatus(name, "disabled")
        if name in self._failures:
            return ServerStatus(name, "failed", self._failures[name], tools)
        try:
            if self._pending_start(name):
                return ServerStatus(name, "unapproved")
        except Misconfigured as failure:
            return ServerStatus(name, "failed", failure.message)
        if server is not None and server.is_running:
            return ServerStatus(name, "running", tools=tools, protocol=server.protocol)
        return ServerStatus(name, "stopped", tools=tools)

    def _enabled(self) -> list[str]:
        return [name for name, settings in self._settings.items() if settings.enabled]

    def _server(self, name: str) -> McpServer:
        if name not in self._servers:
            place = target(self._settings[name], self._environment)
            self._servers[name] = _library().McpServer(name, place)
        return self._servers[name]

    def _note(self, name: str, listing: Listing) -> None:
        self._failures.pop(name, None)
        self._listings[name] = listing
        for note in listing.notes:
            self._tell_once(safe(note))

    def _tell_once(self, text: str) -> None:
        if text not in self._messages:
            self._messages.append(text)
            self._tell(text)

    def _waiting(self, name: str) -> Pending | None:
        server, _ = wire_names(name)
        if server not in self._settings:
            return None
        if "." not in name:
            return self._pending_start(server)
        listed = self._listings.get(server, Listing({})).tools.get(name)
        return self._pending_tool(name, listed) if listed is not None else None

    def _pending_start(self, name: str) -> Pending | None:
        definition = launch_definition(self._settings[name], self._environment)
        return self._pending(
            server_name(name), "server", definition, launch_lines(name, definition)
        )

    def _pending_tool(self, name: str, listed: Listed) -> Pending | None:
        return self._pending(name, "tool", listed.definition, _tool_lines(name, listed))

    def _pending(
        self, name: str, kind: Kind, definition: Mapping[str, Json], lines: Iterator[str]
    ) -> Pending | None:
        """Returns what waits for approval; None if exactly this definition was approved."""
        digest, approval = canonical_hash(dict(definition)), self._approvals.get(name)
        if approval is None:
            return Pending(name, kind, digest, joined([*lines], "text.lines"), definition)
        if approval.hash == digest:
            return None
        headline = Sentence("    It changed since {by} approved it:", by=safe(approval.by))
        diff = [f"      {line}" for line in changes(approval.definition, definition)]
        text = joined([*lines, headline, *diff], "text.lines")
        return Pending(name, kind, digest, text, definition, changed=True)


def _tool_lines(name: str, listed: Listed) -> Iterator[str]:
    """Yields a tool as a person reads it before approving: its whole definition."""
    effect = effect_words(listed.spec)
    yield Sentence("tool {name}, which counts as: {effect}", name=safe(name), effect=effect)
    definition = dict(listed.definition)
    description = str(definition.pop("description", "") or "")
    if not description:
        yield Sentence("    (no description)")
    for line in (*description.splitlines(), *definition_lines(definition)):
        yield f"    {safe(line)}"


def _not_approved(waiting: Pending) -> ToolFailed:
    name = waiting.name
    why = Sentence(
        "{name} changed since it was approved"
        if waiting.changed
        else "{name} has not been approved",
        name=name,
    )
    return ToolFailed(
        why, hint=Sentence("see and approve it: plansmith tools approve {name}", name=name)
    )


def _library() -> Any:
    """Imports the part that needs the MCP library, when the first server is used."""
    try:
        return import_module("plansmith_connect.mcp.server")
    except ModuleNotFoundError as error:
        hint = "pip install packages/* 'plansmith[mcp]'"
        why = Sentence("MCP servers need the package {name}", name=error.name)
        raise Misconfigured(why, hint=hint) from None
