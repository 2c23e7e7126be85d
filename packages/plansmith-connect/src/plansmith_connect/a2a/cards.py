"""Reads agent cards: hash, differences, allowed addresses, and the spec that planners see."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, cast
from urllib.parse import SplitResult, urlsplit, urlunsplit

from plansmith.errors import ToolFailed
from plansmith.plan.capability import AgentSpec, Skill
from plansmith.plan.data import Json, content_hash, flaws
from plansmith.plan.sentence import Sentence, joined
from plansmith.text import safe
from plansmith_connect.a2a.settings import AgentSettings

Card = dict[str, Json]

WELL_KNOWN: Final = "/.well-known/agent-card.json"
BINDINGS: Final = ("JSONRPC", "HTTP+JSON")
NAMESPACE: Final = "a2a."
_LONGEST: Final = 2000
_MOST: Final = 50
_PORTS: Final = {"http": 80, "https": 443}
_LOOPBACK: Final = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")


@dataclass(frozen=True, slots=True)
class Interface:
    """One address at which an agent can be reached, as its card lists it."""

    url: str
    binding: str
    version: str = ""
    tenant: str = ""


def card_url(url: str) -> str:
    """Returns the address of the card; an address that names a JSON file is the card itself."""
    parts = urlsplit(url)
    if parts.path.endswith(".json"):
        return url
    path = parts.path.rstrip("/") + WELL_KNOWN
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def read_card(raw: bytes, place: str) -> Card:
    """Parses a card exactly as it was received, including unknown fields."""
    try:
        card = json.loads(raw, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ToolFailed(
            Sentence("the card at {place} is not JSON: {error}", place=place, error=error)
        ) from None
    if not isinstance(card, dict):
        raise ToolFailed(Sentence("the card at {place} is not a JSON object", place=place))
    flaw = next(flaws(cast("object", card)), None)
    if flaw:
        raise ToolFailed(
            Sentence("the card at {place} is not usable: {why}", place=place, why=flaw.message)
        )
    card = cast("Card", card)
    if not isinstance(card.get("name"), str) or not str(card["name"]).strip():
        raise ToolFailed(
            Sentence("the card at {place} has no agent name", place=place),
            hint=Sentence("is this an A2A agent?"),
        )
    return card


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuses duplicate names: different JSON readers would pick different values."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def card_hash(card: Card) -> str:
    """Hashes the whole raw card; order and spacing of its JSON do not matter."""
    return content_hash(card)


def interfaces(card: Card) -> list[Interface]:
    """Returns the interfaces of a card in its order, also for cards of protocol 0.3."""
    listed = card.get("supportedInterfaces")
    if isinstance(listed, list):
        return [_interface(each, "protocolBinding") for each in _tables(listed)]
    if not isinstance(card.get("url"), str):
        return []
    version = _text(card.get("protocolVersion")) or "0.3.0"
    first = Interface(str(card["url"]), _text(card.get("preferredTransport")) or "JSONRPC", version)
    more = [_interface(each, "transport") for each in _tables(card.get("additionalInterfaces"))]
    return [first, *(Interface(each.url, each.binding, version) for each in more)]


def _interface(entry: Mapping[str, Json], binding: str) -> Interface:
    names = ("url", binding, "protocolVersion", "tenant")
    return Interface(*(_text(entry.get(name)) for name in names))


def choose_interface(card: Card, settings: AgentSettings) -> Interface:
    """Returns the first interface that we support and whose host the settings allow."""
    offered = [(each, _refusal(each, settings)) for each in interfaces(card)[:_MOST]]
    taken = [each for each, why in offered if not why]
    if taken:
        # Protocol 0.3 cannot look for a lost task, so it comes last whatever the card's order.
        return min(taken, key=lambda each: each.version.startswith("0."))
    why = joined([why for _, why in offered[:5]]) or Sentence("the card has no address")
    hint = Sentence("add the host to the agent's hosts") if "another host" in why else ""
    raise ToolFailed(Sentence("the agent cannot be used: {why}", why=why), hint=hint)


def _refusal(offered: Interface, settings: AgentSettings) -> str:
    """Returns why an interface cannot be used, or an empty text."""
    if offered.binding not in BINDINGS:
        return (
            Sentence("{name} is not supported", name=offered.binding)
            if offered.binding
            else Sentence("an unnamed binding is not supported")
        )
    home = urlsplit(settings.url)
    try:
        away = urlsplit(offered.url)
        same = authority(away) == authority(home)
    except ValueError:
        return Sentence("'{url}' is not an address", url=offered.url[:200])
    if away.scheme not in _PORTS or not away.hostname or away.username:
        return Sentence("'{url}' is not an address", url=offered.url[:200])
    if home.scheme == "https" and away.scheme == "http":
        return Sentence(
            "{url} is not encrypted, while the card's own address is", url=offered.url[:200]
        )
    named = {host.lower() for host in settings.hosts}
    if not same and not named & {away.netloc.lower(), (away.hostname or "").lower()}:
        return Sentence(
            "{url} is on another host than the card ({host})",
            url=offered.url[:200],
            host=home.netloc,
        )
    return plain_refusal(offered.url, settings)


def authority(parts: SplitResult) -> tuple[str, int]:
    """Returns host and port of an address; the scheme's default port is filled in."""
    return (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme, 0)


def plain_refusal(url: str, settings: AgentSettings) -> str:
    """Returns why an unencrypted address is refused; localhost is allowed."""
    parts = urlsplit(url)
    if parts.scheme == "https" or settings.plain_http:
        return ""
    if _LOOPBACK.fullmatch(parts.hostname or ""):
        return ""
    return Sentence("{url} is not encrypted (set plain_http to allow it)", url=url[:200])


def agent_spec(name: str, card: Card, settings: AgentSettings) -> AgentSpec:
    """Makes the spec that planners see; clips texts and ignores effects the card claims."""
    skills = tuple(_skill(each) for each in _tables(card.get("skills"))[:_MOST])
    return AgentSpec(
        name=plan_name(name),
        description=_line(card.get("description")) or _line(card.get("name")),
        skills=skills,
        examples=tuple(each for skill in skills for each in skill.examples)[:_MOST],
        tags=tuple(dict.fromkeys(tag for skill in skills for tag in skill.tags))[:_MOST],
        passthrough=settings.passthrough,
        hidden=settings.hidden,
        enabled=settings.enabled,
        effect=settings.effect,
        unattended=settings.unattended,
    )


def plan_name(name: str) -> str:
    """Returns the agent's name in plans, with a prefix so that it hides no other agent."""
    return f"{NAMESPACE}{name}"


def _skill(entry: Mapping[str, Json]) -> Skill:
    return Skill(
        name=_line(entry.get("name")) or _line(entry.get("id")) or "unnamed",
        description=_line(entry.get("description")),
        examples=_lines(entry.get("examples")),
        tags=_lines(entry.get("tags")),
    )


def card_changes(old: Json, new: Json) -> Iterator[str]:
    """Lists the differences of two cards, one line each, safe for a terminal."""
    yield from map(safe, _changes(old, new, ""))


def _changes(old: Json, new: Json, path: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _side(old, new, key, f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list):
        befores, afters = dict(enumerate(old)), dict(enumerate(new))
        for index in range(max(len(old), len(new))):
            yield from _side(befores, afters, index, f"{path}[{index}]")
    elif content_hash(old) != content_hash(new):
        yield f"{path}: {_short(old)} -> {_short(new)}"


def _side(old: Mapping[Any, Json], new: Mapping[Any, Json], key: Any, path: str) -> Iterator[str]:
    if key not in new:
        yield f"- {path}: {_short(old[key])}"
    elif key not in old:
        yield f"+ {path}: {_short(new[key])}"
    else:
        yield from _changes(old[key], new[key], path)


def _short(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}… ({len(text)} letters)"


def sign_in_links(card: Card) -> Iterable[str]:
    """Returns the addresses in the card at which a person can sign in."""
    schemes = card.get("securitySchemes")
    wanted = ("authorizationUrl", "deviceAuthorizationUrl", "openIdConnectUrl")
    stack: list[Json] = [schemes if isinstance(schemes, dict) else {}]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield from (_text(node[name]) for name in wanted if name in node)
            stack.extend(node.values())


def _tables(value: Json) -> list[dict[str, Json]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _line(value: Json) -> str:
    """Makes one line of printable text: planners read it and terminals show it."""
    text = " ".join(_text(value)[: 2 * _LONGEST].split())
    return "".join(letter for letter in text if letter.isprintable())[:_LONGEST]


def _lines(value: Json) -> tuple[str, ...]:
    entries = value[:_MOST] if isinstance(value, list) else []
    return tuple(line for entry in entries if (line := _line(entry)))
