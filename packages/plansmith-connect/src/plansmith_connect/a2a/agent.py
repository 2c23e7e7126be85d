"""Calls a remote agent over A2A, but only while its card is the one a person approved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, cast

from plansmith.errors import (
    InputNeeded,
    Misconfigured,
    PlansmithError,
    ToolFailed,
    failure_of_call,
)
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json, canonical_hash
from plansmith.plan.sentence import Sentence, joined
from plansmith.ports import Call
from plansmith.secrets import Hider
from plansmith.text import clip
from plansmith_connect.a2a.cards import Card, agent_spec, choose_interface
from plansmith_connect.a2a.settings import AgentSettings, Lookup, check_name, fill_headers
from plansmith_connect.approvals import changes


class A2AAgent:
    """A remote agent over A2A. Checks before every call that its card is the approved one.

    Without an approved card planners do not see it, and its calls fail.
    """

    def __init__(
        self,
        name: str,
        card: Card | None,
        settings: AgentSettings,
        *,
        lookup: Lookup = os.environ.get,
    ) -> None:
        self._name, self._lookup = check_name(name), lookup
        self.accept(card, settings)

    def accept(self, card: Card | None, settings: AgentSettings) -> None:
        """Works by this card from now on, since a person has approved it."""
        self._card, self._settings = card, settings
        visible = settings if card is not None else settings.replace(enabled=False)
        self.spec: AgentSpec = agent_spec(self._name, card or {}, visible)

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        """Returns the task's result or raises the agent's question; never sends anything twice."""
        name, card = self.spec.name, self._card
        if card is None:
            why = Sentence("the card of {name} is not approved", name=name)
            hint = Sentence(
                "look at it and approve it: plansmith agents approve {name}", name=self._name
            )
            raise ToolFailed(why, hint=hint)
        headers, secrets = fill_headers(self._settings.headers, self._lookup)

        def progress(text: str) -> None:
            call.progress(str(secrets.hide(text)))

        inner = replace(call, progress=progress)
        try:
            try:
                await self._check(card)
            except ToolFailed as failure:
                # An answer continues work that was sent.
                raise failure_of_call(failure, sent=call.reply is not None) from None
            remote = _part("remote_task").RemoteTask(name, card, self._settings, inner)
            return secrets.hide(await remote.run(task, inputs, headers))
        except PlansmithError as error:
            _hide_in(error, secrets)
            raise

    async def _check(self, card: Card) -> None:
        served = await fetch_card(self._settings)
        if canonical_hash(served) == canonical_hash(card):
            return
        found = [clip(each, 300) for each in changes(card, served)]
        more = Sentence("and {count} more", count=len(found) - 4) if len(found) > 4 else ""
        why = Sentence(
            "the card of {name} has changed since it was approved: {what}",
            name=self.spec.name,
            what=joined([*found[:4], more]),
        )
        hint = Sentence(
            "look at it and approve it again: plansmith agents approve {name}", name=self._name
        )
        raise ToolFailed(why, hint=hint)


async def connect(
    name: str, url: str, *, lookup: Lookup = os.environ.get, **settings: Any
) -> A2AAgent:
    """Returns a remote agent and accepts its current card without asking a person."""
    checked = AgentSettings.model_validate({"url": url} | settings)
    return A2AAgent(name, await usable_card(checked), checked, lookup=lookup)


async def fetch_card(settings: AgentSettings) -> Card:
    """Fetches the card that an agent serves now, without sending any of our headers."""
    card: Card = await _part("wire").fetch_card(settings)
    return card


async def usable_card(settings: AgentSettings) -> Card:
    """Fetches the card; raises an error if no address in it can be used."""
    card = await fetch_card(settings)
    choose_interface(card, settings)
    return card


def _part(name: str) -> Any:
    """Imports a module that needs the A2A libraries; done at the first call of an agent."""
    try:
        return import_module(f"plansmith_connect.a2a.{name}")
    except ImportError as error:
        hint = "pip install packages/* 'plansmith[a2a]'"
        why = Sentence("A2A agents need more packages: {error}", error=error)
        raise Misconfigured(why, hint=hint) from None


def _hide_in(error: PlansmithError, secrets: Hider) -> None:
    """Hides secrets in an error: an agent may repeat what it was sent."""

    def hide(text: str) -> str:
        return cast("str", secrets.hide(text))

    error.message, error.hint = hide(error.message), hide(error.hint)
    error.args = (error.message,)
    if isinstance(error, InputNeeded):
        error.link, error.options = hide(error.link), tuple(map(hide, error.options))
        error.state = secrets.hide(error.state)
