"""Lists the A2A agents of the settings and of the book, and which of their cards are approved."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

from pydantic import ValidationError

from plansmith.clock import SystemClock
from plansmith.errors import Misconfigured, PlansmithError, Refused, StaleDecision, ToolFailed
from plansmith.plan.capability import AgentSpec, Effect
from plansmith.plan.data import Flag, Json, Record, content_hash
from plansmith.plan.limits import broken_rule
from plansmith.plan.sentence import Sentence, with_hint
from plansmith.ports import Agent, Call, Clock
from plansmith_connect.a2a.agent import A2AAgent, fetch_card
from plansmith_connect.a2a.book import AgentBook
from plansmith_connect.a2a.cards import Card, agent_spec, card_changes, choose_interface, plan_name
from plansmith_connect.a2a.settings import AgentSettings, check_name
from plansmith_connect.approvals import Approval, Approvals


class NamedLookup(Protocol):
    """Returns the value for a placeholder in an agent's headers; None if there is none."""

    def __call__(self, place: str, agent: str) -> str | None:
        """Returns the value."""
        ...


Status = Literal["approved", "new", "changed", "away"]


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
    approved: Approval | None = None


class AgentRegistry:
    """The agents of the settings and of the book; each needs approval before it can work."""

    def __init__(
        self,
        *,
        settings: Mapping[str, AgentSettings],
        book: AgentBook,
        approvals: Approvals,
        lookup: NamedLookup | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._fixed = {check_name(name): each for name, each in settings.items()}
        self._book = book
        self._approvals = approvals
        self._lookup = lookup or _environment
        self._clock = clock or SystemClock()

    def entries(self) -> dict[str, AgentSettings]:
        """Returns the settings of all agents by name; a name may occur only once."""
        added = self._book.agents()
        twice = sorted(added.keys() & self._fixed.keys())
        if twice:
            why = Sentence(
                "the agent '{name}' is in the settings and was also added by address", name=twice[0]
            )
            raise Misconfigured(
                why,
                hint=Sentence("run plansmith agents remove {name}, or rename one", name=twice[0]),
            )
        return added | self._fixed

    def agents(self) -> list[Agent]:
        """Returns all agents for use in plans, without any network access."""
        return [self._agent(name, each) for name, each in sorted(self.entries().items())]

    def _agent(self, name: str, settings: AgentSettings) -> Agent:
        approved = self._approvals.get(_key(name))
        card = approved.definition.get("card") if approved else None
        if approved is None or not isinstance(card, dict):
            return _Unapproved(name, settings)
        if approved.hash != content_hash(_definition(settings, card)):
            return _Unapproved(name, settings)
        own = partial(self._lookup, agent=plan_name(name))
        return A2AAgent(name, card, settings, lookup=own, clock=self._clock)

    async def add(self, url: str, *, name: str = "", choices: Choices | None = None) -> Standing:
        """Adds an agent by its address; it can work once its card is approved."""
        settings = _changed(_settings(url), choices)
        card = await fetch_card(settings)
        choose_interface(card, settings)
        name = check_name(name or _name_of(card))
        if name in self.entries():
            hint = Sentence("give this one another name, or remove that one")
            raise Refused(Sentence("there is another agent '{name}'", name=name), hint=hint)
        self._book.put(name, settings)
        return await self.look(name)

    async def look(self, name: str) -> Standing:
        """Fetches the card of an agent and compares it with the approved one."""
        settings = self._entry(name)
        approved = self._approvals.get(_key(name))
        try:
            card = await fetch_card(settings)
            choose_interface(card, settings)
        except PlansmithError as error:
            why = with_hint(error.message, error.hint)
            return Standing(name, settings, "away", why=why, approved=approved)
        now = _definition(settings, card)
        digest = content_hash(now)
        if approved is None:
            return Standing(name, settings, "new", digest, card)
        if approved.hash == digest:
            return Standing(name, settings, "approved", digest, card, approved=approved)
        changes = tuple(card_changes(approved.definition, now))
        return Standing(name, settings, "changed", digest, card, changes, approved=approved)

    async def approve(self, name: str, digest: str, *, by: str) -> Standing:
        """Approves the card that was shown; refuses if it has changed since."""
        standing = await self.look(name)
        if standing.card is None:
            raise ToolFailed(
                Sentence(
                    "the card of '{name}' cannot be approved: {why}", name=name, why=standing.why
                )
            )
        if not digest or standing.hash != digest:
            hint = Sentence("look at it again and approve what is there now")
            raise StaleDecision(
                Sentence("the card of '{name}' is not the one that was shown", name=name), hint=hint
            )
        definition = _definition(standing.settings, standing.card)
        now = self._clock.now()
        approval = Approval(hash=digest, definition=definition, by=by, at=now)
        self._approvals.put(_key(name), approval)
        return Standing(
            name, standing.settings, "approved", digest, standing.card, approved=approval
        )

    def change(self, name: str, choices: Choices) -> AgentSettings:
        """Changes the settings of an agent in the book."""
        settings = _changed(self._added(name), choices)
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


class _Unapproved:
    """Stands for an agent that is not approved: planners do not see it, calls fail."""

    def __init__(self, name: str, settings: AgentSettings) -> None:
        self._name = name
        self.spec: AgentSpec = agent_spec(name, {}, settings.replace(enabled=False))

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        """Raises an error."""
        del task, inputs, call
        hint = Sentence(
            "look at it and approve it: plansmith agents approve {name}", name=self._name
        )
        raise ToolFailed(
            Sentence("the card of {name} is not approved", name=self.spec.name), hint=hint
        )


def _environment(place: str, agent: str) -> str | None:
    del agent
    return os.environ.get(place)


def _key(name: str) -> str:
    """Returns the key of an approval; the same file also holds those of servers and tools."""
    return f"agent:{name}"


def _definition(settings: AgentSettings, card: Card) -> dict[str, Json]:
    """Returns what is approved: the card, and the settings that decide where data goes."""
    free = {"enabled", "hidden", "passthrough", "limits"}
    fixed = {key: value for key, value in settings.to_json().items() if key not in free}
    return {**fixed, "card": card}


def _settings(url: str) -> AgentSettings:
    try:
        return AgentSettings(url=url)
    except ValidationError as error:
        why = broken_rule(error.errors()[0])
        hint = Sentence("such as https://example.com/agent")
        raise Misconfigured(
            Sentence("'{url}' is not the address of an agent: {why}", url=url, why=why), hint=hint
        ) from None


def _changed(settings: AgentSettings, choices: Choices | None) -> AgentSettings:
    if choices is None:
        return settings
    changes = {name: value for name, value in choices if value is not None}
    return settings.replace(**changes)


def _name_of(card: Card) -> str:
    """Makes a name from the one in the agent's card."""
    plain = re.sub(r"[^a-z0-9]+", "-", str(card["name"]).lower()).strip("-")
    return plain[:40].strip("-") or "agent"
