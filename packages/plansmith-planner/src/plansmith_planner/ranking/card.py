"""Turns the text of one tool or agent into weighted terms for the shortlist."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, cast

from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith_planner.language.words import spelling, split, stem, terms

Kind = Literal["tool", "agent"]

# Field: weight of a match, typical length in words, how much a longer text dilutes a match.
_FIELDS: Final = ((2.0, 5.0, 0.4), (1.0, 16.0, 0.5), (0.7, 5.0, 0.5), (0.9, 25.0, 0.5))
_SATURATION: Final = 1.2
_MAX_TEXT: Final = 20_000
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_PUBLISHER: Final = re.compile(r"^[a-z]{2,}(?:\.[\w-]+)+/")
_NAMESPACE: Final = re.compile(r"::|[.:/]")
_LOOKUPS: Final = ("search", "find", "list", "lookup", "query", "get", "geocode")
_FINDING: Final = frozenset(stem(w) for w in _LOOKUPS)
_KEYS: Final = frozenset(("id", "ids", "key", "code", "uid", "uuid"))
_PLACES: Final = frozenset(("latitude", "longitude", "lat", "lon", "lng"))


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a tool or agent by field: name, description, parameters, their descriptions."""

    name: str
    kind: Kind
    fields: tuple[str, str, str, str]
    required: tuple[str, ...] = ()


class Card(NamedTuple):
    """A tool or agent, ready for ranking."""

    name: str
    kind: Kind
    weights: Mapping[str, float]
    title: Sequence[str]
    phrase: str
    tail: str
    needs: Sequence[str]
    finds: Sequence[str]


def source(name: str, entry: object) -> Source | None:
    """Returns the text of a tool or agent; None for an agent that may not be used."""
    if isinstance(entry, AgentSpec):
        return None if entry.hidden or not entry.enabled else _agent_source(entry)
    if isinstance(entry, ToolSpec):
        about = " ".join((entry.description, *entry.tags))
        return tool_source(entry.name, about, entry.input_schema)
    return tool_source(name, _part(entry, "description"), _part(entry, "input_schema"))


def _agent_source(agent: AgentSpec) -> Source:
    skills = agent.skills
    about = [agent.description, *(skill.description for skill in skills), *agent.examples]
    about.extend(example for skill in skills for example in skill.examples)
    named = [*agent.tags, *(skill.name for skill in skills)]
    named.extend(tag for skill in skills for tag in skill.tags)
    return Source(
        agent.name, "agent", (agent.name, " . ".join(about)[:_MAX_TEXT], " ".join(named), "")
    )


def tool_source(name: str, description: object, schema: object) -> Source:
    """Returns the text of a tool."""
    names: list[str] = []
    notes: list[str] = []
    for key, note, choices in _properties(schema):
        names.append(key)
        notes.append(note)
        notes.extend(choices)
    text = description if isinstance(description, str) else ""
    # The prefix `com.example/` says who made a tool, not what it does.
    title = _PUBLISHER.sub("", name)
    about, fields, about_fields = (
        each[:_MAX_TEXT] for each in (text, " ".join(names), " ".join(notes))
    )
    required = tuple(_texts(schema, "required"))
    return Source(name, "tool", (title, about, fields, about_fields), required)


def _properties(schema: object) -> Iterator[tuple[str, str, list[str]]]:
    """Yields parameter names, descriptions and choices, also nested; skips malformed ones."""
    pending: list[tuple[object, int]] = [(schema, 0)]
    seen = 0
    while pending and seen < 300:
        node, depth = pending.pop()
        properties = _part(node, "properties")
        if not isinstance(properties, Mapping) or depth > 4:
            continue
        for key, inner in cast("Mapping[object, object]", properties).items():
            seen += 1
            note = _part(inner, "description")
            yield (str(key), note if isinstance(note, str) else "", _texts(inner, "enum")[:20])
            pending.append((inner, depth + 1))
            pending.append((_part(inner, "items"), depth + 1))


def _texts(node: object, key: str) -> list[str]:
    listed = _part(node, key)
    if not isinstance(listed, list):
        return []
    return [each for each in cast("list[object]", listed) if isinstance(each, str)]


def _part(node: object, key: str) -> object:
    return cast("Mapping[object, object]", node).get(key) if isinstance(node, Mapping) else None


def read_card(given: Source) -> Card:
    """Turns a tool's text into terms; the only slow step of indexing."""
    raw: dict[str, float] = {}
    for text, (gain, typical, dilution) in zip(given.fields, _FIELDS, strict=True):
        found = [term for _, term in terms(text)]
        each = gain / (1 - dilution + dilution * len(found) / typical)
        for term in found:
            raw[term] = raw.get(term, 0.0) + each
    weights = {term: x * (1 + _SATURATION) / (x + _SATURATION) for term, x in raw.items()}
    norm = math.sqrt(sum(x * x for x in weights.values()))
    # Long cards match something in every request, so each match counts less.
    shrink = (0.3 + 0.7 * norm / 3.0) ** -0.35
    title = tuple(dict.fromkeys(term for _, term in terms(given.fields[0])))
    finder = len(title) <= 4 and not _FINDING.isdisjoint(title)
    needs = frozenset(_identified_things((*given.required, *_PLACEHOLDER.findall(given.name))))
    return Card(
        name=given.name,
        kind=given.kind,
        weights={term: round(x * shrink, 4) for term, x in weights.items()},
        title=title,
        phrase=" ".join(spelling(given.name)),
        tail=" ".join(spelling(_NAMESPACE.split(given.name)[-1])),
        needs=tuple(sorted(needs)),
        finds=tuple(t for t in title if t not in needs) if finder else (),
    )


def _identified_things(parameters: Iterable[str]) -> Iterator[str]:
    """Returns the things whose identifier is needed to call the tool."""
    for parameter in parameters:
        parts = split(parameter)
        if not parts:
            continue
        if len(parts) > 1 and parts[-1] in _KEYS:
            yield stem(parts[-2])
        elif parts[-1] == "token":
            yield "token"
        elif parts[-1] in _PLACES:
            yield stem("geocode")
