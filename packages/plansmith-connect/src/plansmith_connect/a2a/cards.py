"""Reads agent cards: hash, allowed addresses, and the spec that planners see."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn, cast
from urllib.parse import SplitResult, urlsplit, urlunsplit

from plansmith.errors import ToolFailed
from plansmith.plan.capability import AgentSpec, Skill
from plansmith.plan.data import Json, flaws
from plansmith.plan.sentence import Sentence, joined
from plansmith_connect.a2a.settings import AgentSettings

Card = dict[str, Json]

WELL_KNOWN: Final = "/.well-known/agent-card.json"
BINDINGS: Final = ("JSONRPC", "HTTP+JSON")
NAMESPACE: Final = "a2a."
_SIGN_IN: Final = ("authorizationUrl", "deviceAuthorizationUrl", "openIdConnectUrl")
_MAX_LENGTH: Final = 2000
_MOST: Final = 50
_PORTS: Final = {"http": 80, "https": 443}
_LOOPBACK: Final = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")


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
        why = Sentence("the card at {place} is not JSON: {error}", place=place, error=error)
        raise ToolFailed(why) from None
    if not isinstance(card, dict):
        raise ToolFailed(Sentence("the card at {place} is not a JSON object", place=place))
    flaw = next(flaws(cast("object", card)), None)
    if flaw:
        why = Sentence("the card at {place} is not usable: {why}", place=place, why=flaw.message)
        raise ToolFailed(why)
    card = cast("Card", card)
    if not _text(card.get("name")).strip():
        why = Sentence("the card at {place} has no agent name", place=place)
        hint = Sentence("is this an A2A agent?")
        raise ToolFailed(why, hint=hint)
    return card


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuses duplicate names: different JSON readers would pick different values."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _interfaces(card: Card) -> list[dict[str, str]]:
    """Returns the interfaces of a card in its order, also for cards of protocol 0.3."""
    listed = _tables(card.get("supportedInterfaces"))
    if not isinstance(card.get("supportedInterfaces"), list) and isinstance(card.get("url"), str):
        version = {"protocolVersion": _text(card.get("protocolVersion")) or "0.3.0"}
        first: Card = {"url": card["url"], "transport": card.get("preferredTransport", "JSONRPC")}
        others = (first, *_tables(card.get("additionalInterfaces")))
        listed = [{**each, **version, "protocolBinding": each.get("transport")} for each in others]
    names = ("url", "protocolBinding", "protocolVersion", "tenant")
    return [{name: _text(each.get(name)) for name in names} for each in listed[:_MOST]]


def choose_interface(card: Card, settings: AgentSettings) -> dict[str, str]:
    """Returns the first interface that we support and whose host the settings allow."""
    offered = [(each, _refusal(each, settings)) for each in _interfaces(card)]
    taken = [each for each, why in offered if not why]
    if taken:
        # Protocol 0.3 cannot look for a lost task, so it comes last whatever the card's order.
        return min(taken, key=lambda each: each["protocolVersion"].startswith("0."))
    why = joined([why for _, why in offered[:5]]) or Sentence("the card has no address")
    hint = Sentence("add the host to the agent's hosts") if "another host" in why else ""
    raise ToolFailed(Sentence("the agent cannot be used: {why}", why=why), hint=hint)


def _refusal(offered: dict[str, str], settings: AgentSettings) -> str:
    binding, url = offered["protocolBinding"], offered["url"]
    if binding not in BINDINGS:
        return (
            Sentence("{name} is not supported", name=binding)
            if binding
            else Sentence("an unnamed binding is not supported")
        )
    home = urlsplit(settings.url)
    try:
        away = urlsplit(url)
        is_same = _authority(away) == _authority(home)
    except ValueError:
        return Sentence("'{url}' is not an address", url=url[:200])
    if away.scheme not in _PORTS or not away.hostname or away.username:
        return Sentence("'{url}' is not an address", url=url[:200])
    if home.scheme == "https" and away.scheme == "http":
        return Sentence("{url} is not encrypted, while the card's own address is", url=url[:200])
    named = {host.lower() for host in settings.hosts}
    if not is_same and not named & {away.netloc.lower(), away.hostname.lower()}:
        return Sentence(
            "{url} is on another host than the card ({host})", url=url[:200], host=home.netloc
        )
    return plain_refusal(url, settings)


def _authority(parts: SplitResult) -> tuple[str, int]:
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
    skills = tuple(
        Skill(
            name=_line(each.get("name")) or _line(each.get("id")) or "unnamed",
            description=_line(each.get("description")),
            examples=_lines(each.get("examples")),
            tags=_lines(each.get("tags")),
        )
        for each in _tables(card.get("skills"))[:_MOST]
    )
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


def sign_in_links(card: Card) -> Iterator[str]:
    """Yields the addresses in the card at which a person can sign in."""
    stack: list[Json] = [card.get("securitySchemes")]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield from (_text(node[name]) for name in _SIGN_IN if name in node)
            stack.extend(node.values())


def _tables(value: Json) -> list[dict[str, Json]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _line(value: Json) -> str:
    """Makes one line of printable text: planners read it and terminals show it."""
    text = " ".join(_text(value)[: 2 * _MAX_LENGTH].split())
    return "".join(letter for letter in text if letter.isprintable())[:_MAX_LENGTH]


def _lines(value: Json) -> tuple[str, ...]:
    entries = value[:_MOST] if isinstance(value, list) else []
    return tuple(line for entry in entries if (line := _line(entry)))
