"""Reads the tool list of an MCP server: names in plans (`server.tool`), definitions and specs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from plansmith.check.schemas import BadSchema, validator
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json, canonical_json, flaws
from plansmith.plan.sentence import Sentence, joined
from plansmith_connect.mcp.settings import ServerSettings, ToolSettings

# A letter that is not plain becomes _xHEX_; a plain text that looks like that is marked as well.
_ODD_IN_SERVER: Final = re.compile(r"[^A-Za-z0-9_-]|_(?=x[0-9a-f]+[^A-Za-z0-9-])")
_ODD_IN_TOOL: Final = re.compile(r"[^A-Za-z0-9_.-]|_(?=x[0-9a-f]+[^A-Za-z0-9.-])")
_MARKED: Final = re.compile(r"_x([0-9a-f]+)_")
_MAX_LETTERS: Final = 200


def full_name(server: str, tool: str) -> str:
    """Returns the name of a server's tool in plans, unique for each pair."""
    return f"{server_name(server)}.{_ODD_IN_TOOL.sub(_mark, tool)}"


def server_name(server: str) -> str:
    """Returns the name of a server in plans; it has no dot, so the first dot ends it."""
    return _ODD_IN_SERVER.sub(_mark, server)


def wire_names(name: str) -> tuple[str, str]:
    """Returns the server and the tool of a full name, as they call themselves."""
    server, _, tool = name.partition(".")
    return _plain(server), _plain(tool)


def _mark(found: re.Match[str]) -> str:
    return f"_x{ord(found[0]):x}_"


def _plain(text: str) -> str:
    def letter(found: re.Match[str]) -> str:
        return chr(number) if (number := int(found[1], 16)) <= 0x10FFFF else found[0]

    return _MARKED.sub(letter, text)


@dataclass(frozen=True, slots=True)
class Listed:
    """A tool: its name at the server, its raw definition, and its spec."""

    wire: str
    definition: Mapping[str, Json]
    spec: ToolSpec


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server by full name, and notes on those left out."""

    tools: Mapping[str, Listed]
    notes: tuple[str, ...] = ()


def read_listing(server: str, settings: ServerSettings, raw: Sequence[Json]) -> Listing:
    """Returns the usable tools of a server; notes the others."""
    tools: dict[str, Listed] = {}
    counted = Counter(_wire_name(each) for each in raw)
    notes: list[str] = [
        Sentence(
            "{server} has {count} tools called '{name}': none of them is used",
            server=server,
            count=count,
            name=name,
        )
        for name, count in counted.items()
        if count > 1
    ]
    for each in raw:
        wire = _wire_name(each)
        if counted[wire] > 1:
            continue
        found = _listed(server, settings, each)
        if isinstance(found, str):
            why = Sentence(
                "{server}: the tool '{name}' is not used: {why}",
                server=server,
                name=wire,
                why=found,
            )
            notes.append(why)
            continue
        name = found.spec.name
        tools[name] = found
        if found.definition.get("outputSchema") is not None and found.spec.output_schema is None:
            why = Sentence(
                "{name}: its output schema is not usable, so its results go unchecked", name=name
            )
            notes.append(why)
    notes += [
        Sentence(
            "{server} has no tool '{name}', which your settings mention", server=server, name=name
        )
        for name in settings.tools
        if name not in counted
    ]
    return Listing(tools, tuple(notes))


def _wire_name(raw: Json) -> str:
    name = raw.get("name") if isinstance(raw, dict) else None
    return name if isinstance(name, str) else ""


def _listed(server: str, settings: ServerSettings, raw: Json) -> Listed | str:
    wire, most = _wire_name(raw), settings.limits.definition_bytes
    name = full_name(server, wire)
    if not isinstance(raw, dict) or not wire:
        return Sentence("it has no name")
    if next(flaws(raw), None) is not None:
        return Sentence("its definition cannot be stored as JSON")
    if len(canonical_json(raw)) > most:
        return Sentence("its definition is longer than {most} bytes", most=most)
    if len(name) > _MAX_LETTERS:
        return Sentence("its name is too long")
    schema, output = raw.get("inputSchema", {"type": "object"}), raw.get("outputSchema")
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return Sentence("its arguments are not an object")
    if output is not None and not isinstance(output, dict):
        return Sentence("its output schema is not a schema")
    own = settings.tools.get(wire, ToolSettings())
    if not own.enabled:
        return Sentence("your settings have it disabled")
    checks = output if output is not None and is_sound(output) else None
    spec = ToolSpec(
        name=name,
        description=str(raw.get("description") or raw.get("title") or ""),
        input_schema=schema,
        output_schema=checks,
        timeout_s=own.timeout_s or settings.limits.call_s,
        search=own.search,
        **_effects(raw, own, trusted=settings.trusted),
    )
    return Listed(wire, raw, spec)


def _effects(raw: Mapping[str, Json], own: ToolSettings, *, trusted: bool) -> dict[str, Any]:
    """Returns the effect: as the person says, else a trusted server, else the worst."""
    hints = raw.get("annotations") if trusted else None
    hints = hints if isinstance(hints, dict) else {}
    effect = Effect.WRITE
    if hints.get("readOnlyHint") is True:
        effect = Effect.READ
    elif hints.get("destructiveHint") is True:
        effect = Effect.FINAL
    open_world, idempotent = own.open_world, own.idempotent
    return {
        "effect": own.effect or effect,
        "open_world": hints.get("openWorldHint") is not False if open_world is None else open_world,
        "idempotent": hints.get("idempotentHint") is True if idempotent is None else idempotent,
    }


def is_sound(schema: Mapping[str, Json]) -> bool:
    """Whether a schema can be used; not one that leads to another document."""
    try:
        validator(schema)
    except BadSchema:
        return False
    return True


def effect_words(spec: ToolSpec) -> str:
    """Describes the effect of a tool, for a person."""
    world = Sentence("open world" if spec.open_world else "closed world")
    again = Sentence("may be repeated") if spec.idempotent else ""
    return joined([spec.effect.value, world, again], "text.listed")
