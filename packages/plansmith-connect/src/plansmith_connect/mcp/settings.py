"""Settings of MCP servers: how to reach each, effects of its tools, limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator

from plansmith.errors import Misconfigured
from plansmith.plan.capability import Effect
from plansmith.plan.data import Flag, Number, Record, StrictInt
from plansmith.plan.sentence import Sentence
from plansmith.plan.validation_errors import broken_rule

_KNOWN: Final = ("command", "args", "env", "cwd", "url", "headers")
_KINDS: Final = ("stdio", "http", "streamable-http", "streamableHttp", "streamable_http")


class ToolSettings(Record):
    """A person's settings for a tool; they override what the server says.

    Attributes:
        effect: What a call does: `read`, `write` or `final`.
        open_world: Whether it reads or changes things outside of the server.
        idempotent: Whether a call may be repeated.
        search: Whether it may search before planning.
        timeout_s: After how many seconds a call fails.
        enabled: Whether plans may use it.
    """

    effect: Effect | None = None
    open_world: Flag | None = None
    idempotent: Flag | None = None
    search: Flag = False
    timeout_s: Number | None = Field(default=None, gt=0)
    enabled: Flag = True


class ServerLimits(Record):
    """Limits of time, size and number for one server; they hold for every server.

    Attributes:
        start_s: Seconds to start.
        list_s: Seconds to list its tools.
        call_s: Seconds for a call.
        answer_s: Seconds that a call waits for a person's answer.
        stop_s: Seconds to stop.
        fresh_s: For how many seconds a list of tools counts as fresh.
        retry_s: Seconds after a failure before it is started again.
        message_bytes: The largest message.
        definition_bytes: The largest definition of a tool.
        binary_bytes: The largest binary content of a result; more is left out.
        stderr_bytes: How much of its error output is kept.
        tools: The most tools.
        questions: The most questions of one call.
        requests: The most requests of the server at a time.
        progress: The most lines of progress that a call shows.
        calls_per_second: The most calls a second that one process makes; more wait for their turn.
    """

    start_s: Number = Field(default=30.0, gt=0)
    list_s: Number = Field(default=30.0, gt=0)
    call_s: Number = Field(default=300.0, gt=0)
    answer_s: Number = Field(default=900.0, gt=0)
    stop_s: Number = Field(default=2.0, gt=0)
    fresh_s: Number = Field(default=60.0, ge=0)
    retry_s: Number = Field(default=30.0, ge=0)
    message_bytes: StrictInt = Field(default=4 * 1024 * 1024, ge=1024)
    definition_bytes: StrictInt = Field(default=64 * 1024, ge=1024)
    binary_bytes: StrictInt = Field(default=256 * 1024, ge=0)
    stderr_bytes: StrictInt = Field(default=16 * 1024, ge=0)
    tools: StrictInt = Field(default=500, ge=1)
    questions: StrictInt = Field(default=5, ge=0)
    requests: StrictInt = Field(default=64, ge=1)
    progress: StrictInt = Field(default=200, ge=0)
    calls_per_second: Number | None = Field(default=None, gt=0)


class ServerSettings(Record):
    """One server: a command or a URL. `${NAME}` is filled in from the environment.

    Attributes:
        command: The program to start.
        args: Its arguments.
        env: Environment variables for it.
        pass_env: Names of your environment variables that it also gets.
        cwd: The folder it starts in; an empty one by default.
        url: The address of a server that runs elsewhere.
        headers: HTTP headers for it.
        protocol: `legacy` for servers that speak only the old handshake.
        trusted: Whether its own hints about its tools are believed.
        enabled: Whether it is used.
        tools: Your settings for its tools, by name.
        limits: Limits of time, size and number.
        folder: The folder that it belongs to, if it is one that you trust: it starts in a copy.
        files: The files of that folder that it starts from, with the SHA-256 of each.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    pass_env: tuple[str, ...] = ()
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    protocol: Literal["auto", "legacy"] = "auto"
    trusted: Flag = False
    enabled: Flag = True
    tools: dict[str, ToolSettings] = {}
    limits: ServerLimits = ServerLimits.with_defaults()
    folder: str = ""
    files: dict[str, str] = {}

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError(Sentence("give a command or a url, and not both"))
        if self.command and self.headers:
            raise ValueError(Sentence("headers belong to a url, not to a command"))
        if self.url and (self.args or self.env or self.pass_env or self.cwd):
            why = Sentence("args, env, pass_env and cwd belong to a command, not to a url")
            raise ValueError(why)
        return self

    @field_validator("url")
    @classmethod
    def _is_web(cls, url: str) -> str:
        if url and not url.startswith("${") and urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(Sentence("the url has to begin with http:// or https://"))
        return url


class McpSettings(Record):
    """The table `[mcp]`: servers by name, `mcpServers` files, and the approvals file.

    Attributes:
        servers: The servers by name.
        files: Files with `mcpServers`, as other programs have them.
        approvals: The file that keeps what you approved.
    """

    servers: dict[str, ServerSettings] = {}
    files: tuple[Path, ...] = ()
    approvals: Path | None = None

    @field_validator("servers")
    @classmethod
    def _names(cls, servers: dict[str, ServerSettings]) -> dict[str, ServerSettings]:
        bad = [name for name in servers if not is_server_name(name)]
        if bad:
            why = Sentence(
                "'{name}' is not a valid name for a server: use 1-64 printable letters", name=bad[0]
            )
            raise ValueError(why)
        return servers


def is_server_name(name: str) -> bool:
    """Whether a server may have this name; see `listing` for unusual characters."""
    return 0 < len(name) <= 64 and name.isprintable() and name.strip() == name


@dataclass(frozen=True, slots=True)
class Found:
    """The servers of the settings and their files, and notes on ignored entries."""

    servers: Mapping[str, ServerSettings]
    notes: tuple[str, ...] = ()


def all_servers(settings: McpSettings) -> Found:
    """Returns the servers of the settings and of their files; names must be unique."""
    servers, notes = dict(settings.servers), list[str]()
    for path in settings.files:
        found = parse_servers(None, path.expanduser())
        twice = sorted(set(found.servers) & set(servers))
        if twice:
            hint = Sentence("rename one of the two")
            why = Sentence("{path}: there is another server '{name}'", path=path, name=twice[0])
            raise Misconfigured(why, hint=hint)
        servers.update(found.servers)
        notes += found.notes
    return Found(servers, tuple(notes))


def parse_servers(data: bytes | None, path: Path) -> Found:
    """Reads the servers of a file, or of its content; notes and ignores unknown settings."""
    try:
        value = json.loads((path.read_bytes() if data is None else data).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        why = Sentence("{path} cannot be read: {error}", path=path, error=error)
        raise Misconfigured(why, hint=Sentence("correct or remove it")) from None
    whole = cast("dict[str, object]", value if isinstance(value, dict) else {})
    table = whole.get("mcpServers", whole.get("servers"))
    if not isinstance(table, dict):
        hint = 'it has to look like {"mcpServers": {"NAME": {"command": …, "args": […]}}}'
        raise Misconfigured(Sentence("{file} names no servers", file=path), hint=hint)
    servers, notes = dict[str, ServerSettings](), list[str]()
    for name, entry in cast("dict[str, object]", table).items():
        made = _server(path, name, entry, notes)
        if made is not None:
            servers[name] = made
    return Found(servers, tuple(notes))


def _server(path: Path, name: str, entry: object, notes: list[str]) -> ServerSettings | None:
    where = f"{path}: {name}"
    if not isinstance(entry, dict) or not is_server_name(name):
        why = Sentence("{place} is not a server", place=where)
        hint = Sentence("give a table with command or url")
        raise Misconfigured(why, hint=hint)
    given = cast("dict[str, object]", entry)
    kind = given.get("type", given.get("transport", "http" if "url" in given else "stdio"))
    if kind not in _KINDS:
        why = Sentence(
            "{place} is left out: its transport '{kind}' is not supported", place=where, kind=kind
        )
        notes.append(why)
        return None
    if given.get("disabled") is True:
        notes.append(Sentence("{place} is left out: the file has it disabled", place=where))
        return None
    odd = sorted(set(given) - {*_KNOWN, "type", "transport", "disabled"})
    if odd:
        why = Sentence("{place}: {names} is unknown here and ignored", place=where, names=[*odd])
        notes.append(why)
    try:
        return ServerSettings.model_validate({key: given[key] for key in _KNOWN if key in given})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        reason = Sentence("{place} {rule}{given}", place=place, rule=broken_rule(first), given="")
        raise Misconfigured(Sentence("{text}: {reason}", text=where, reason=reason)) from None
