"""The registry of A2A agents: added, looked at, approved, blocked when their cards change."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from tests.servers.a2a_wire import Liar, Talk

from plansmith.errors import Misconfigured, Refused, StaleDecision, ToolFailed
from plansmith.plan.capability import Effect
from plansmith.ports import Call
from plansmith_connect.a2a.registry import AgentBook, AgentRegistry, Choices
from plansmith_connect.a2a.settings import AgentSettings
from plansmith_connect.approvals import ApprovalFile


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
        shown = await registry(tmp_path).add(liar.url)
        assert (shown.name, shown.status) == ("liar", "new")
        [agent] = registry(tmp_path).agents()
        assert (agent.spec.name, agent.spec.enabled) == ("a2a.liar", False)
        with pytest.raises(ToolFailed, match="not approved"):
            await agent.work("x", {}, Call(key="k"))
        assert liar.methods == []
        await registry(tmp_path).approve("liar", shown.hash, by="ada")
        [agent] = registry(tmp_path).agents()
        assert (agent.spec.enabled, agent.spec.effect) == (True, Effect.WRITE)
        result: Any = await agent.work("x", {}, Call(key="k"))
        assert result["text"] == "hi"
        assert (await registry(tmp_path).look("liar")).status == "approved"


async def test_a_card_that_changes_blocks_the_agent_until_it_is_approved_again_with_a_diff(
    tmp_path: Path,
) -> None:
    async with Liar(hello).open() as liar:
        shown = await registry(tmp_path).add(liar.url)
        await registry(tmp_path).approve("liar", shown.hash, by="ada")
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
            await registry(tmp_path).approve("liar", shown.hash, by="ada")
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
        added = await registry(tmp_path).add(other.url, name="second")
        assert added.name == "second"
        both = registry(tmp_path, liar={"url": other.url})
        with pytest.raises(Misconfigured, match="is in the settings and was also added"):
            both.agents()
        both.remove("liar")
        assert [each.spec.name for each in both.agents()] == ["a2a.liar", "a2a.second"]


async def test_what_a_person_says_of_an_agent_is_kept(tmp_path: Path) -> None:
    async with Liar(hello).open() as liar:
        await registry(tmp_path).add(liar.url, choices=Choices(passthrough=True))
        registry(tmp_path).change("liar", Choices(hidden=True, effect=Effect.READ))
        said = registry(tmp_path).entries()["liar"]
        assert (said.passthrough, said.hidden, said.effect) == (True, True, Effect.READ)
        registry(tmp_path).change("liar", Choices(enabled=False))
        shown = await registry(tmp_path).look("liar")
        await registry(tmp_path).approve("liar", shown.hash, by="ada")
        assert not registry(tmp_path).agents()[0].spec.enabled
        registry(tmp_path).remove("liar")
        assert registry(tmp_path).agents() == []
        shown = await registry(tmp_path).add(liar.url)
        assert shown.status == "new", "an approval goes with its agent"


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
