"""Agent cards: whatever a card says, what planners see is bounded, and no change goes unseen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.servers.a2a_wire import a_card

from plansmith.plan.capability import Effect, Skill
from plansmith.plan.data import content_hash
from plansmith_connect.a2a.cards import agent_spec, card_url, choose_interface, sign_in_links
from plansmith_connect.a2a.settings import AgentSettings
from plansmith_connect.approvals import changes

HOME = AgentSettings(url="https://agent.example")
TEXTS = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)
NAMES = st.sampled_from(["name", "description", "skills", "url", "supportedInterfaces", "odd"])
CARDS = st.dictionaries(NAMES, JSON, max_size=6)


@given(CARDS, CARDS)
def test_two_cards_have_no_difference_exactly_when_they_hash_alike(old: Any, new: Any) -> None:
    assert (not list(changes(old, new))) == (content_hash(old) == content_hash(new))


@given(CARDS)
def test_any_card_has_a_face_for_planners(card: Any) -> None:
    spec = agent_spec("desk", card, HOME)
    assert (spec.name, spec.effect) == ("a2a.desk", Effect.WRITE)
    shown = [spec.description, *spec.examples, *spec.tags]
    assert all(text.isprintable() and len(text) <= 2000 for text in shown)


def test_a_card_becomes_a_spec_with_the_persons_own_settings() -> None:
    skill = {"id": "b", "name": "Book", "tags": ["x", "x"], "examples": ["book\nit", "\x1b[2J"]}
    card = a_card("https://agent.example", skills=[skill], effect="read", enabled=False)
    said = AgentSettings(url="https://agent.example", passthrough=True, hidden=True)
    spec = agent_spec("desk", card, said)
    assert spec.skills == (Skill(name="Book", examples=("book it", "[2J"), tags=("x", "x")),)
    assert (spec.examples, spec.tags) == (("book it", "[2J"), ("x",))
    assert (spec.passthrough, spec.hidden, spec.enabled) == (True, True, True)
    assert spec.effect is Effect.WRITE


def test_a_huge_card_is_cut_to_size() -> None:
    skills = [{"name": "n" * 2001, "examples": ["e" * 2001] * 2} for _ in range(51)]
    spec = agent_spec("desk", a_card("https://x", description="d" * 9000, skills=skills), HOME)
    assert (len(spec.description), len(spec.skills), len(spec.examples)) == (2000, 50, 50)


@pytest.mark.parametrize(
    ("url", "card"),
    [
        ("https://a.example", "https://a.example/.well-known/agent-card.json"),
        ("https://a.example/x/", "https://a.example/x/.well-known/agent-card.json"),
        ("https://a.example/cards/me.json", "https://a.example/cards/me.json"),
    ],
)
def test_a_card_lies_at_the_well_known_place_or_where_the_address_says(url: str, card: str) -> None:
    assert card_url(url) == card


def test_protocol_1_is_preferred_and_0_3_is_spoken() -> None:
    here = "https://agent.example"
    old: dict[str, Any] = {
        "name": "x",
        "url": f"{here}/old",
        "additionalInterfaces": [],
        "protocolVersion": "0.3.0",
    }
    assert choose_interface(old, HOME)["protocolVersion"] == "0.3.0"
    offered = [
        {"url": f"{here}/a", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        {"url": f"{here}/g", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
        {"url": f"{here}/b", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
    ]
    both: Any = {"name": "x", "supportedInterfaces": offered}
    assert choose_interface(both, HOME)["url"] == f"{here}/b"


def test_sign_in_links_are_found_in_every_kind_of_scheme() -> None:
    code = {
        "authorizationCode": {"authorizationUrl": "https://in.example", "tokenUrl": "https://t"}
    }
    card: Any = {"securitySchemes": {"a": {"oauth2SecurityScheme": {"flows": code}}}}
    assert list(sign_in_links(card)) == ["https://in.example"]
    assert list(sign_in_links({"securitySchemes": [1]})) == []
