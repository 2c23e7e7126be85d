"""Lists the A2A agents of the settings and of the book, and which of their cards are approved."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from plansmith.errors import Misconfigured, PlansmithError, Refused, StaleDecision, ToolFailed
from plansmith.files import replace_file
from plansmith.plan.capability import Effect
from plansmith.plan.data import Flag, Json, Record, canonical_hash
from plansmith.plan.sentence import Sentence, with_hint
from plansmith.plan.validation_errors import broken_rule
from plansmith.ports import Agent
from plansmith_connect.a2a.agent import A2AAgent, usable_card
from plansmith_connect.a2a.cards import Card, plan_name
from plansmith_connect.a2a.settings import NAME, AgentSettings, check_name
from plansmith_connect.approvals import Approvals, changes

Status = Literal["approved", "new", "changed", "away"]
# What of the settings is no part of an approval: it does not decide where data goes.
_FREE = ("enabled", "hidden", "passthrough", "limits")


class AgentBook:
    """The agents that a person added by address, one file each; sees others' changes at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def agents(self) -> dict[str, AgentSettings]:
        found = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
        return {path.stem: self._read(path) for path in found if NAME.fullmatch(path.stem)}

    def _read(self, path: Path) -> AgentSettings:
        try:
            return AgentSettings.model_validate(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, ValidationError) as error:
            why = str(error).splitlines()[0]
            raise Misconfigured(
                Sentence("{path} cannot be read: {error}", path=path, error=why),
                hint=Sentence("correct or remove it"),
            ) from None

    def put(self, name: str, settings: AgentSettings) -> None:
        """Stores an agent; replaces an older entry of the same name."""
        path = self._folder / f"{check_name(name)}.json"
        text = json.dumps(settings.to_json(), indent=2, sort_keys=True, ensure_ascii=False)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            replace_file(path, text + "\n")
        except OSError as error:
            why = Sentence("{path} cannot be written: {error}", path=path, error=error)
            raise Misconfigured(why) from None

    def remove(self, name: str) -> None:
        """Removes an agent; does nothing if it is not stored."""
        (self._folder / f"{check_name(name)}.json").unlink(missing_ok=True)


class Choices(Record):
    """What a person may change about an agent in the book; None leaves a setting as it is."""

    enabled: Flag | None = None
    hidden: Flag | None = None
    passthrough: Flag | None = None
    unattended: Flag | None = None
    effect: Effect | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of an agent: the card it serves now, compared with the approved one.

    `hash` is what an approval must name; the status `away` means the card could not be fetched.
    """

    name: str
    settings: AgentSettings
    status: Status
    hash: str = ""
    card: Card | None = None
    changes: tuple[str, ...] = ()
    why: str = ""


class AgentRegistry:
    """The agents of the settings and of the book; each needs approval before it can work.

    `lookup` returns the value for a placeholder in the headers of an agent, None if there is none.
    """

    def __init__(
        self,
        *,
        settings: Mapping[str, AgentSettings],
        book: AgentBook,
        approvals: Approvals,
        lookup: Callable[[str, str], str | None] = lambda place, _: os.environ.get(place),
    ) -> None:
        self._fixed = {check_name(name): each for name, each in settings.items()}
        self._book, self._approvals, self._lookup = book, approvals, lookup
        self._made: dict[str, A2AAgent] = {}

    def entries(self) -> dict[str, AgentSettings]:
        """Returns the settings of all agents by name; a name may occur only once."""
        added = self._book.agents()
        for name in sorted(added.keys() & self._fixed.keys()):
            why = Sentence(
                "the agent '{name}' is in the settings and was also added by address", name=name
            )
            hint = Sentence("run plansmith agents remove {name}, or rename one", name=name)
            raise Misconfigured(why, hint=hint)
        return added | self._fixed

    def agents(self) -> list[Agent]:
        """Returns all agents for use in plans, without any network access."""
        return [self._agent(name, each) for name, each in sorted(self.entries().items())]

    def _agent(self, name: str, settings: AgentSettings) -> A2AAgent:
        approved, agent = self._approvals.get(_key(name)), plan_name(name)
        card = approved.definition.get("card") if approved else None
        if (
            approved is None
            or not isinstance(card, dict)
            or approved.hash != canonical_hash(_definition(settings, card))
        ):
            card = None
        made = A2AAgent(name, card, settings, lookup=lambda place: self._lookup(place, agent))
        self._made[name] = made
        return made

    async def add(self, url: str, *, name: str = "", choices: Choices | None = None) -> Standing:
        """Adds an agent by its address; it can work once its card is approved."""
        try:
            settings = _with_choices(AgentSettings(url=url), choices)
        except ValidationError as error:
            why = broken_rule(error.errors()[0])
            raise Misconfigured(
                Sentence("'{url}' is not the address of an agent: {why}", url=url, why=why),
                hint=Sentence("such as https://example.com/agent"),
            ) from None
        card = await usable_card(settings)
        plain = re.sub(r"[^a-z0-9]+", "-", str(card["name"]).lower()).strip("-")
        name = check_name(name or plain[:40].strip("-") or "agent")
        if name in self.entries():
            hint = Sentence("give this one another name, or remove that one")
            raise Refused(Sentence("there is another agent '{name}'", name=name), hint=hint)
        self._book.put(name, settings)
        return await self.look(name)

    async def look(self, name: str) -> Standing:
        """Fetches the card of an agent and compares it with the approved one."""
        settings = self._entry(name)
        try:
            card = await usable_card(settings)
        except PlansmithError as error:
            return Standing(name, settings, "away", why=with_hint(error.message, error.hint))
        now = _definition(settings, card)
        digest, approved = canonical_hash(now), self._approvals.get(_key(name))
        if approved is None:
            return Standing(name, settings, "new", digest, card)
        if approved.hash == digest:
            return Standing(name, settings, "approved", digest, card)
        found = tuple(changes(approved.definition, now))
        return Standing(name, settings, "changed", digest, card, found)

    async def approve(self, name: str, digest: str, *, by: str) -> Standing:
        """Approves the card that was shown, also for plans; refuses if it has changed since."""
        now = await self.look(name)
        if now.card is None:
            why = Sentence("the card of '{name}' cannot be approved: {why}", name=name, why=now.why)
            raise ToolFailed(why)
        if not digest or now.hash != digest:
            why = Sentence("the card of '{name}' is not the one that was shown", name=name)
            hint = Sentence("look at it again and approve what is there now")
            raise StaleDecision(why, hint=hint)
        self._approvals.approve(_key(name), digest, _definition(now.settings, now.card), by=by)
        if name in self._made:
            self._made[name].accept(now.card, now.settings)
        return Standing(name, now.settings, "approved", digest, now.card)

    def change(self, name: str, choices: Choices) -> AgentSettings:
        settings = _with_choices(self._added(name), choices)
        self._book.put(name, settings)
        return settings

    def remove(self, name: str) -> None:
        """Removes an agent from the book, and the approval of its card."""
        self._added(name)
        self._approvals.remove(_key(name))
        self._book.remove(name)

    def _added(self, name: str) -> AgentSettings:
        """Returns an agent of the book; refuses others, which cannot be changed here."""
        added = self._book.agents()
        if name not in added and name in self._fixed:
            hint = Sentence("change [agents.{name}] in your settings file", name=name)
            raise Refused(Sentence("'{name}' is defined in the settings", name=name), hint=hint)
        return added[name] if name in added else self._entry(name)

    def _entry(self, name: str) -> AgentSettings:
        known = self.entries()
        if name not in known:
            hint = Sentence("known: {names}", names=sorted(known) or Sentence("none"))
            raise Refused(Sentence("there is no agent '{name}'", name=name), hint=hint)
        return known[name]


def _key(name: str) -> str:
    """Returns the key of an approval; the same file also holds those of servers and tools."""
    return f"agent:{name}"


def _definition(settings: AgentSettings, card: Card) -> dict[str, Json]:
    """Returns what is approved: the card, and the settings that decide where data goes."""
    fixed = {key: value for key, value in settings.to_json().items() if key not in _FREE}
    return {**fixed, "card": card}


def _with_choices(settings: AgentSettings, choices: Choices | None) -> AgentSettings:
    return settings.replace(**{name: value for name, value in choices or () if value is not None})
