"""The registry of A2A agents: added, looked at, approved, blocked when their cards change."""

from __future__ import annotations

import base64
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.servers.a2a_wire import Liar, Talk, a_card

from plansmith.errors import Misconfigured, Refused, StaleDecision, ToolFailed
from plansmith.plan.capability import Effect, Skill
from plansmith.plan.data import canonical_hash, flaws
from plansmith.ports import Call
from plansmith_connect.a2a.cards import agent_spec, card_url, choose_interface, sign_in_links
from plansmith_connect.a2a.messages import add, need_of, question_of, result_of
from plansmith_connect.a2a.registry import AgentBook, AgentRegistry, Choices
from plansmith_connect.a2a.settings import AgentSettings
from plansmith_connect.approvals import ApprovalFile, changes


async def hello(talk: Talk) -> None:
    await talk.result({"message": {"parts": [{"text": "hi"}]}})


def registry(folder: Path, **settings: Any) -> AgentRegistry:
    return AgentRegistry(
        settings={name: AgentSettings.model_validate(each) for name, each in settings.items()},
        book=AgentBook(folder / "agents"),
        approvals=ApprovalFile(folder / "approvals.json"),
    )


async def test_an_agent_is_added_by_address_and_works_once_its_card_is_approved(
    tmp_path: Path,
) -> None:
    async with Liar(hello).open() as liar:
        standing = await registry(tmp_path).add(liar.url)
        assert (standing.name, standing.status) == ("liar", "new")
        [agent] = registry(tmp_path).agents()
        assert (agent.spec.name, agent.spec.enabled) == ("a2a.liar", False)
        with pytest.raises(ToolFailed, match="not approved"):
            await agent.work("x", {}, Call(key="k"))
        assert liar.methods == []
        await registry(tmp_path).approve("liar", standing.hash, by="ada")
        [agent] = registry(tmp_path).agents()
        assert (agent.spec.enabled, agent.spec.effect) == (True, Effect.WRITE)
        result: Any = await agent.work("x", {}, Call(key="k"))
        assert result["text"] == "hi"
        assert (await registry(tmp_path).look("liar")).status == "approved"


async def test_a_card_that_changes_blocks_the_agent_until_it_is_approved_again_with_a_diff(
    tmp_path: Path,
) -> None:
    async with Liar(hello).open() as liar:
        standing = await registry(tmp_path).add(liar.url)
        await registry(tmp_path).approve("liar", standing.hash, by="ada")
        liar.card = liar.card | {"description": "mails everybody", "odd": {"new": [1]}}
        [agent] = registry(tmp_path).agents()
        with pytest.raises(ToolFailed, match="has changed since it was approved"):
            await agent.work("x", {}, Call(key="k"))
        assert liar.methods == []
        now = await registry(tmp_path).look("liar")
        assert now.status == "changed"
        assert now.changes[:2] == (
            '-    "description": "lies",',
            '+    "description": "mails everybody",',
        )
        assert '+    "odd": {' in now.changes
        with pytest.raises(StaleDecision, match="not the one that was shown"):
            await registry(tmp_path).approve("liar", standing.hash, by="ada")
        await registry(tmp_path).approve("liar", now.hash, by="ada")
        [agent] = registry(tmp_path).agents()
        assert agent.spec.description == "mails everybody"
        await agent.work("x", {}, Call(key="k"))


async def test_where_work_and_secrets_go_and_what_is_asked_is_approved_too(tmp_path: Path) -> None:
    async with Liar(hello).open() as liar:
        first = registry(tmp_path, desk={"url": liar.url})
        await first.approve("desk", (await first.look("desk")).hash, by="ada")
        assert first.agents()[0].spec.enabled
        for change in (
            {"effect": "read"},
            {"hosts": ["evil.example"]},
            {"headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}},
        ):
            other = registry(tmp_path, desk={"url": liar.url} | change)
            assert not other.agents()[0].spec.enabled
            assert (await other.look("desk")).status == "changed"
        mere = registry(tmp_path, desk={"url": liar.url, "hidden": True, "passthrough": True})
        spec = mere.agents()[0].spec
        assert (spec.enabled, spec.hidden, spec.passthrough) == (True, True, True)


async def test_a_name_is_never_taken_by_another_agent(tmp_path: Path) -> None:
    async with Liar(hello).open() as liar, Liar(hello).open() as other:
        await registry(tmp_path).add(liar.url)
        with pytest.raises(Refused, match="there is another agent 'liar'"):
            await registry(tmp_path).add(other.url)
        assert (await registry(tmp_path).add(other.url, name="second")).name == "second"
        both = registry(tmp_path, liar={"url": other.url})
        with pytest.raises(Misconfigured, match="is in the settings and was also added"):
            both.agents()
        both.remove("liar")
        assert [each.spec.name for each in both.agents()] == ["a2a.liar", "a2a.second"]


async def test_what_a_person_says_of_an_agent_is_kept(tmp_path: Path) -> None:
    async with Liar(hello).open() as liar:
        await registry(tmp_path).add(liar.url, choices=Choices(passthrough=True))
        registry(tmp_path).change("liar", Choices(hidden=True, effect=Effect.READ))
        settings = registry(tmp_path).entries()["liar"]
        assert (settings.passthrough, settings.hidden, settings.effect) == (True, True, Effect.READ)
        registry(tmp_path).change("liar", Choices(enabled=False))
        standing = await registry(tmp_path).look("liar")
        await registry(tmp_path).approve("liar", standing.hash, by="ada")
        assert not registry(tmp_path).agents()[0].spec.enabled
        registry(tmp_path).remove("liar")
        assert registry(tmp_path).agents() == []
        standing = await registry(tmp_path).add(liar.url)
        assert standing.status == "new", "an approval goes with its agent"


async def test_an_agent_of_the_settings_is_changed_there_only_and_one_that_is_away_is_not_approved(
    tmp_path: Path,
) -> None:
    own = registry(tmp_path, desk={"url": "http://127.0.0.1:9"})
    for act in (lambda: own.change("desk", Choices(hidden=True)), lambda: own.remove("desk")):
        with pytest.raises(Refused, match="is defined in the settings"):
            act()
    with pytest.raises(Refused, match="there is no agent 'nobody'") as caught:
        await own.look("nobody")
    assert caught.value.hint == "known: desk"
    standing = await own.look("desk")
    assert standing.status == "away"
    assert "no connection" in standing.why
    with pytest.raises(ToolFailed, match="cannot be approved"):
        await own.approve("desk", standing.hash, by="ada")
    async with Liar(hello).open() as liar:
        liar.card = liar.card | {"supportedInterfaces": []}
        with pytest.raises(ToolFailed, match="has no address"):
            await own.add(liar.url)
    assert list(own.entries()) == ["desk"]


def test_the_book_is_its_owners_alone_and_a_broken_page_is_said(tmp_path: Path) -> None:
    book = AgentBook(tmp_path)
    book.put("desk", AgentSettings(url="https://a.example"))
    path = tmp_path / "desk.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert book.agents() == {"desk": AgentSettings(url="https://a.example")}
    path.write_text('{"url": 7}')
    with pytest.raises(Misconfigured, match=r"desk\.json cannot be read"):
        book.agents()
    for name in ("../x", "", "A", "x" * 65):
        with pytest.raises(Misconfigured, match="not a valid name for an agent"):
            book.put(name, AgentSettings(url="https://a.example"))


@pytest.mark.parametrize(
    "url", ["ftp://a.example", "agent.example", "https://", "https://me:pw@a.example", "file:///x"]
)
def test_an_address_that_is_none_or_holds_a_password_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url"):
        AgentSettings(url=url)


# Cards and questions: what planners see is bounded, and no change goes unseen


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
    assert (not list(changes(old, new))) == (canonical_hash(old) == canonical_hash(new))


@given(CARDS)
def test_any_card_has_a_face_for_planners(card: Any) -> None:
    spec = agent_spec("desk", card, HOME)
    assert (spec.name, spec.effect) == ("a2a.desk", Effect.WRITE)
    texts = [spec.description, *spec.examples, *spec.tags]
    assert all(text.isprintable() and len(text) <= 2000 for text in texts)


def test_a_card_becomes_a_spec_with_the_persons_own_settings() -> None:
    skill = {"id": "b", "name": "Book", "tags": ["x", "x"], "examples": ["book\nit", "\x1b[2J"]}
    card = a_card("https://agent.example", skills=[skill], effect="read", enabled=False)
    settings = AgentSettings(url="https://agent.example", passthrough=True, hidden=True)
    spec = agent_spec("desk", card, settings)
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


# Questions of agents: what a person is asked, and what is never asked


def asking(*parts: Any, state: str = "INPUT_REQUIRED", **message: Any) -> dict[str, Any]:
    content = {"message": {**message, "parts": list(parts)}} if parts else {}
    return {"id": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}", **content}}


def need(task: Any, *links: str) -> Any:
    return need_of(task, who="desk", times=0, links=links)


def test_a_question_without_words_still_says_who_waits() -> None:
    assert need(asking()).message.startswith("desk waits for an answer")
    assert need(asking(state="AUTH_REQUIRED")).message == "desk wants you to sign in"


def test_values_in_a_question_that_are_no_form_are_shown() -> None:
    asked = need(asking({"text": "Which?"}, {"data": {"rows": [1]}}))
    assert asked.message == 'Which?\n{"rows": [1]}'


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://evil.example/schema"},
        {"properties": {"a": {"$ref": "#/x"}}},
        {"type": "no such type"},
        {"enum": ["x" * 5000]},
        {},
        "text",
    ],
)
def test_a_schema_that_would_be_fetched_or_is_none_is_left_out(schema: Any) -> None:
    assert need(asking({"text": "?"}, {"data": {"schema": schema}})).schema is None


@pytest.mark.parametrize("options", [[], ["a", 1], ["a", ""], ["x"] * 51, ["x" * 300], "ab"])
def test_options_that_are_no_list_of_words_are_left_out(options: Any) -> None:
    assert need(asking({"text": "?"}, {"data": {"options": options}})).options == ()


@pytest.mark.parametrize(
    ("parts", "link"),
    [
        ([{"text": "go to https://in.example/a?b=c."}], "https://in.example/a?b=c"),
        ([{"text": "sign in"}], "https://card.example"),
        ([{"text": "javascript:alert(1) file:///etc/passwd"}], "https://card.example"),
        ([{"text": "https://me:pw@in.example"}], "https://card.example"),
    ],
)
def test_a_sign_in_has_the_first_address_that_a_person_may_follow(parts: Any, link: str) -> None:
    assert need(asking(*parts, state="AUTH_REQUIRED"), "https://card.example").link == link


def test_a_question_is_told_from_another_by_its_id_or_its_words() -> None:
    assert question_of(asking({"text": "a"})) != question_of(asking({"text": "b"}))
    assert question_of(asking({"text": "a"}, messageId="m")) == "m"


TEXTS_OF_PARTS = st.text(max_size=5)
PARTS = st.one_of(
    st.builds(lambda text: {"text": text}, TEXTS_OF_PARTS),
    st.builds(lambda text: {"data": {text: text}}, TEXTS_OF_PARTS),
    st.builds(
        lambda raw, name, kind: {
            "raw": base64.b64encode(raw).decode(),
            "filename": name,
            "mediaType": kind,
        },
        st.binary(max_size=20),
        TEXTS_OF_PARTS,
        st.sampled_from(["text/csv", "x"]),
    ),
    st.builds(lambda text: {"url": f"https://{text}"}, TEXTS_OF_PARTS),
)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.lists(PARTS, max_size=3), st.booleans())))
def test_whatever_an_agent_makes_its_result_has_the_one_shape_and_loses_nothing_unsaid(
    made: list[tuple[str, list[Any], bool]],
) -> None:
    task: Any = {}
    for name, parts, append in made:
        add(
            task,
            {"taskId": "t", "artifact": {"artifactId": name, "parts": parts}, "append": append},
        )
    add(task, {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}})
    result: Any = result_of(task, binary_bytes=30)
    assert list(result) == ["text", "message", "data", "files", "citations", "notes"]
    assert not list(flaws(result))
    kept = [part for each in task.get("artifacts", []) for part in each["parts"]]
    assert len(result["files"]) == len([part for part in kept if "raw" in part or "url" in part])
    dropped = [each for each in result["files"] if "note" in each]
    assert len(result["notes"]) == len(dropped)
    whole = [each["size"] for each in result["files"] if "base64" in each or "text" in each]
    assert sum(whole) <= 30
    assert len(whole) + len(dropped) == len([part for part in kept if "raw" in part])
