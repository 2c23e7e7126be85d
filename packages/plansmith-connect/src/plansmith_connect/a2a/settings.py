"""Settings of A2A agents: address, effect, allowed hosts, headers and limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from plansmith.errors import Misconfigured
from plansmith.plan.capability import Effect
from plansmith.plan.data import Flag, Number, Record, StrictInt
from plansmith.plan.sentence import Sentence
from plansmith.secrets import SHORTEST, Hider

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_PLACE: Final = re.compile(r"\$\{([^{}]+)\}")

# Maps the text between `${` and `}` to its value; None if there is none.
Lookup = Callable[[str], str | None]


class AgentLimits(Record):
    """Limits of time, size and number for one agent; they hold for every agent.

    Attributes:
        connect_s: Seconds to connect.
        request_s: Seconds to send a request.
        answer_s: Seconds to the first update of a task.
        silence_s: Seconds of silence before a task is asked about.
        lost_s: Seconds to search for a lost task.
        cancel_s: Seconds to cancel a task.
        poll_s: Seconds between two questions about a task.
        card_bytes: The largest card.
        reply_bytes: The largest answer.
        binary_bytes: The largest binary content of a result; more is left out.
        updates: The most updates of a task.
        questions: The most questions of a task.
    """

    connect_s: Number = Field(default=10.0, gt=0)
    request_s: Number = Field(default=30.0, gt=0)
    answer_s: Number = Field(default=600.0, gt=0)
    silence_s: Number = Field(default=60.0, gt=0)
    lost_s: Number = Field(default=20.0, ge=0)
    cancel_s: Number = Field(default=3.0, gt=0)
    poll_s: Number = Field(default=2.0, gt=0)
    card_bytes: StrictInt = Field(default=256 * 1024, ge=256)
    reply_bytes: StrictInt = Field(default=4 * 1024 * 1024, ge=1024)
    binary_bytes: StrictInt = Field(default=256 * 1024, ge=0)
    updates: StrictInt = Field(default=10_000, ge=1)
    questions: StrictInt = Field(default=10, ge=0)


class AgentSettings(Record):
    """One agent: its address or that of its card, and what a person decides about it.

    Attributes:
        url: The address of the agent or of its card.
        enabled: Whether it is used.
        hidden: Whether planners are not offered it.
        passthrough: Whether it takes whole requests, and never a step.
        effect: What its work may do. You say it, never the card.
        unattended: Whether schedules may call it although it changes something.
        hosts: Further hosts that the card may name.
        plain_http: Whether HTTP without encryption is allowed.
        headers: HTTP headers; `${NAME}` is replaced by a value at each call.
        ca_file: A file of certificates to trust.
        limits: Limits of time, size and number.
    """

    url: str
    enabled: Flag = True
    hidden: Flag = False
    passthrough: Flag = False
    effect: Effect = Effect.WRITE
    unattended: Flag = False
    hosts: tuple[str, ...] = ()
    plain_http: Flag = False
    headers: dict[str, str] = {}
    ca_file: Path | None = None
    limits: AgentLimits = AgentLimits.with_defaults()

    @field_validator("url")
    @classmethod
    def _is_web(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            why = Sentence("the url has to begin with http:// or https:// and name a host")
            raise ValueError(why)
        if parts.username or parts.password:
            name = "${NAME}"
            why = Sentence(
                "a url must not contain a password: use headers with {example}", example=name
            )
            raise ValueError(why)
        return url


def check_name(name: str) -> str:
    """Checks the name of an agent, which is also the name of its file."""
    if not NAME.fullmatch(name):
        why = Sentence("'{name}' is not a valid name for an agent", name=name)
        hint = Sentence("use 1 to 64 of a-z, 0-9, - and _, starting with a letter or digit")
        raise Misconfigured(why, hint=hint)
    return name


def fill_headers(headers: Mapping[str, str], lookup: Lookup) -> tuple[dict[str, str], Hider]:
    """Fills the placeholders of headers; also returns what hides the values that were used."""
    hider = Hider()

    def value(found: re.Match[str]) -> str:
        got, place = lookup(found[1]), found[0]
        if not got:
            hint = Sentence("set {name}, or take it out of the agent's headers", name=found[1])
            raise Misconfigured(Sentence("there is no value for {place}", place=place), hint=hint)
        if not (got.isascii() and got.isprintable()):
            why = Sentence("the value of {place} cannot be used in a header", place=place)
            raise Misconfigured(why)
        if len(got) < SHORTEST:
            why = Sentence("the value of {place} is too short to be hidden", place=place)
            hint = Sentence("use one of {least} characters or more", least=SHORTEST)
            raise Misconfigured(why, hint=hint)
        hider.learn(got, found[1].removeprefix("secret:"))
        return got

    return {name: _PLACE.sub(value, text) for name, text in headers.items()}, hider
