"""Calls a remote agent over A2A, but only while its card is the one a person approved."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from plansmith.clock import SystemClock
from plansmith.errors import (
    InputNeeded,
    Misconfigured,
    OutcomeUnknown,
    PlansmithError,
    ToolFailed,
    failure_of_call,
)
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence, joined
from plansmith.ports import Call, Clock
from plansmith_connect.a2a.cards import (
    Card,
    agent_spec,
    card_changes,
    card_hash,
    choose_interface,
    sign_in_links,
)
from plansmith_connect.a2a.messages import gave_up
from plansmith_connect.a2a.settings import AgentSettings, Lookup, check_name, fill_headers


class A2AAgent:
    """A remote agent over A2A. Checks before every call that its card is the approved one."""

    def __init__(
        self,
        name: str,
        card: Card,
        settings: AgentSettings,
        *,
        lookup: Lookup = os.environ.get,
        clock: Clock | None = None,
    ) -> None:
        self._name = check_name(name)
        self._card = card
        self._settings = settings
        self._lookup = lookup
        self._clock = clock or SystemClock()
        self.spec: AgentSpec = agent_spec(name, card, settings)

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        """Returns the task's result or raises the agent's question; never sends anything twice."""
        if call.reply is not None and gave_up(call.reply):
            raise OutcomeUnknown(
                Sentence(
                    "a person gave up on {name}: how far it got is unknown", name=self.spec.name
                ),
                again=False,
            )
        headers, secrets = fill_headers(self._settings.headers, self._lookup)
        inner = Call(
            key=call.key,
            attempt=call.attempt,
            progress=lambda text: call.progress(hide(text, secrets)),
            reply=call.reply,
        )
        try:
            result = await self._work(task, inputs, inner, headers)
        except PlansmithError as error:
            _hide_in(error, secrets)
            raise
        return hide_in_json(result, secrets)

    async def _work(
        self, task: str, inputs: Mapping[str, Json], call: Call, headers: Mapping[str, str]
    ) -> Json:
        try:
            await self._check_card()
        except ToolFailed as failure:
            # An answer continues work that was sent.
            raise failure_of_call(failure, sent=call.reply is not None) from None
        exchange = _part("exchange").Exchange(self._card, self._settings, headers=headers)
        async with exchange:
            remote = _part("remote_task").RemoteTask(
                exchange,
                name=self.spec.name,
                settings=self._settings,
                call=call,
                clock=self._clock,
                links=tuple(sign_in_links(self._card)),
            )
            result: Json = await remote.run(task, inputs)
            return result

    async def _check_card(self) -> None:
        """Raises an error if the agent's card is no longer the approved one."""
        served = await fetch_card(self._settings)
        if card_hash(served) == card_hash(self._card):
            return
        changes = list(card_changes(self._card, served))
        left = len(changes) - 3
        more = Sentence("and {count} more", count=left) if left > 0 else ""
        what = joined([*changes[:3], more])
        raise ToolFailed(
            Sentence(
                "the card of {name} has changed since it was approved: {what}",
                name=self.spec.name,
                what=what,
            ),
            hint=Sentence(
                "look at it and approve it again: plansmith agents approve {name}", name=self._name
            ),
        )


async def connect(
    name: str, url: str, *, lookup: Lookup = os.environ.get, **settings: Any
) -> A2AAgent:
    """Returns a remote agent and accepts its current card without asking a person."""
    checked = AgentSettings.model_validate({"url": url} | settings)
    card = await fetch_card(checked)
    choose_interface(card, checked)
    return A2AAgent(name, card, checked, lookup=lookup)


async def fetch_card(settings: AgentSettings) -> Card:
    """Fetches the card that an agent serves now, without sending any of our headers."""
    card: Card = await _part("wire").fetch_card(settings)
    return card


def _part(name: str) -> Any:
    """Imports a module that needs the A2A libraries; done at the first call of an agent."""
    try:
        return import_module(f"plansmith_connect.a2a.{name}")
    except ImportError as error:
        hint = Sentence("install plansmith with the extra a2a")
        raise Misconfigured(
            Sentence("A2A agents need more packages: {error}", error=error), hint=hint
        ) from None


def hide(text: str, secrets: Sequence[str]) -> str:
    """Removes secrets from a text: an agent may repeat what it was sent."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "[hidden]")
    return text


def hide_in_json(value: Json, secrets: Sequence[str]) -> Json:
    """Removes secrets from a JSON value."""
    if not secrets:
        return value
    written = [json.dumps(secret, ensure_ascii=False)[1:-1] for secret in secrets]
    hidden: Json = json.loads(hide(json.dumps(value, ensure_ascii=False), written))
    return hidden


def _hide_in(error: PlansmithError, secrets: Sequence[str]) -> None:
    error.message, error.hint = hide(error.message, secrets), hide(error.hint, secrets)
    error.args = (error.message,)
    if isinstance(error, InputNeeded):
        error.link = hide(error.link, secrets)
        error.options = tuple(hide(each, secrets) for each in error.options)
        error.state = hide_in_json(error.state, secrets)
