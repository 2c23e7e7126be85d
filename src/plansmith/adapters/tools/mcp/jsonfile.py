"""Files of the widespread `mcpServers` shape, read into our own settings of servers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from pydantic import ValidationError

from plansmith.adapters.tools.mcp.settings import McpSettings, ServerSettings, is_server_name
from plansmith.errors import Misconfigured

_KNOWN: Final = ("command", "args", "env", "cwd", "url", "headers")
_KINDS: Final = ("stdio", "http", "streamable-http", "streamableHttp", "streamable_http")


@dataclass(frozen=True, slots=True)
class Found:
    """The servers of the settings and their files, and what of those files was not taken."""

    servers: Mapping[str, ServerSettings]
    notes: tuple[str, ...] = ()


def all_servers(settings: McpSettings) -> Found:
    """The servers of the settings and of the files they name; no name may be there twice."""
    servers, notes = dict(settings.servers), list[str]()
    for path in settings.files:
        found = read_servers(path.expanduser())
        twice = sorted(set(found.servers) & set(servers))
        if twice:
            hint = "rename one of the two"
            raise Misconfigured(f"{path}: there is another server {twice[0]!r}", hint=hint)
        servers.update(found.servers)
        notes += found.notes
    return Found(servers, tuple(notes))


def read_servers(path: Path) -> Found:
    """The servers of one file; what our settings do not have is noted, never obeyed."""
    try:
        return parse_servers(path.read_bytes(), path)
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error}", hint="mend or remove it") from None


def parse_servers(data: bytes, path: Path) -> Found:
    """The servers of a file that was read already."""
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise Misconfigured(f"{path} cannot be read: {error}", hint="mend or remove it") from None
    whole = cast("dict[str, object]", value if isinstance(value, dict) else {})
    table = whole.get("mcpServers", whole.get("servers"))
    if not isinstance(table, dict):
        hint = 'it has to look like {"mcpServers": {"NAME": {"command": …, "args": […]}}}'
        raise Misconfigured(f"{path} names no servers", hint=hint)
    servers, notes = dict[str, ServerSettings](), list[str]()
    for name, entry in cast("dict[str, object]", table).items():
        made = _server(path, name, entry, notes)
        if made is not None:
            servers[name] = made
    return Found(servers, tuple(notes))


def _server(path: Path, name: str, entry: object, notes: list[str]) -> ServerSettings | None:
    where = f"{path}: {name}"
    if not isinstance(entry, dict) or not is_server_name(name):
        raise Misconfigured(f"{where} is not a server", hint="give a table with command or url")
    given = cast("dict[str, object]", entry)
    kind = given.get("type", given.get("transport", "http" if "url" in given else "stdio"))
    if kind not in _KINDS:
        notes.append(f"{where} is left out: its transport {kind!r} is not spoken here")
        return None
    if given.get("disabled") is True:
        notes.append(f"{where} is left out: the file has it disabled")
        return None
    odd = sorted(set(given) - {*_KNOWN, "type", "transport", "disabled"})
    if odd:
        notes.append(f"{where}: {', '.join(odd)} means nothing here and is not obeyed")
    try:
        return ServerSettings.model_validate({key: given[key] for key in _KNOWN if key in given})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise Misconfigured(f"{where} is not right: {place} {first['msg']}".strip()) from None
