"""Choosing a model where none is set: a key, a server, the embedded one, and at last rules."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from plansmith.adapters.models.keys import found_keys
from plansmith.adapters.models.local.known import KNOWN, known_model
from plansmith.adapters.models.local.shelf import Shelf
from plansmith.adapters.models.servers import LIMIT_S, Place, Server, ask_servers, usual_places
from plansmith.errors import Misconfigured

Kind = Literal["key", "server", "embedded", "rules"]
RULES: Final = "rules"
_NO_LIBRARY: Final = "the libraries for providers are missing (install plansmith[models])"


@dataclass(frozen=True, slots=True)
class Tried:
    """One place that was looked at; `flaw` says why it was not taken, nothing if it was."""

    kind: Kind
    what: str
    flaw: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The model that was chosen, as settings name it, and all that was looked at."""

    kind: Kind
    model: str
    why: str
    base_url: str | None = None
    api_key_env: str | None = None
    tried: tuple[Tried, ...] = ()

    @property
    def shown(self) -> str:
        """The choice on one line, for a person."""
        if self.kind == "rules":
            return self.why
        place = f" at {self.base_url}" if self.base_url else ""
        return f"model: {self.model}{place} ({self.why})"


async def choose(
    environment: Mapping[str, str],
    *,
    shelf: Shelf,
    places: Sequence[Place] | None = None,
    limit_s: float = LIMIT_S,
) -> Choice:
    """The first that can be used, in this order; rules when there is nothing at all."""
    places = usual_places(environment) if places is None else places
    tried: list[Tried] = []
    async for found in _found(environment, shelf, places, limit_s):
        if isinstance(found, Choice):
            return replace(found, tried=(*tried, Tried(found.kind, found.model)))
        tried.append(found)
    return replace(_rules(shelf), tried=(*tried, Tried("rules", RULES)))


async def choose_at(base_url: str, *, key: str = "", limit_s: float = 10.0) -> Choice:
    """The first model that chats at a server the person named; it has to be there."""
    url = base_url.rstrip("/")
    place = Place("the server", url.removesuffix("/v1"), key=key)
    if not url.endswith("/v1"):
        place = Place("the server", url, "/models", key=key)
    [server] = await ask_servers([place], limit_s=limit_s)
    if server.flaw:
        hint = "name its model with --model openai:NAME, or start it"
        raise Misconfigured(f"{base_url}: {server.flaw}", hint=hint)
    model = f"openai:{server.models[0]}"
    why = "the first model of the server that is set"
    return Choice("server", model, why, base_url=base_url, tried=(Tried("server", model),))


async def _found(
    environment: Mapping[str, str], shelf: Shelf, places: Sequence[Place], limit_s: float
) -> AsyncIterator[Choice | Tried]:
    """What can be used and what cannot, in the order of preference."""
    can_call = find_spec("pydantic_ai") is not None
    keys = list(found_keys(environment))
    if not keys:
        yield Tried("key", "the environment", "has no key of a provider")
    for key, model in keys:
        if can_call:
            why = f"{key.variable} is set; {key.chosen_by} names another model"
            yield Choice("key", model, why, key.base_url, key.variable)
        yield Tried("key", key.variable, _NO_LIBRARY)
    if can_call:
        for server in await ask_servers(places, limit_s=limit_s):
            yield _of_server(server)
    else:
        yield Tried("server", "servers on this machine", _NO_LIBRARY)
    yield _embedded(shelf)


def _of_server(server: Server) -> Choice | Tried:
    place = server.place
    if server.flaw:
        return Tried("server", f"{place.program} at {place.url}", server.flaw)
    why = f"{place.program} runs here, and no key is in the environment"
    return Choice("server", f"openai:{server.models[0]}", why, base_url=place.base_url)


def _embedded(shelf: Shelf) -> Choice | Tried:
    name = shelf.chosen or known_model("").name
    known = KNOWN.get(name)
    here = shelf.has(known) if known else Path(name).expanduser().is_file()
    if not here:
        flaw = f"its file is not here ({pull_hint(shelf)})"
        return Tried("embedded", f"local:{name}", flaw)
    if find_spec("xllamacpp") is None:
        return Tried("embedded", f"local:{name}", "its runtime is missing (plansmith[local])")
    why = "embedded: no key in the environment, no server on this machine"
    return Choice("embedded", f"local:{name}", why)


def pull_hint(shelf: Shelf) -> str:
    """The command that gets the embedded model, with its size."""
    model = KNOWN.get(shelf.chosen) or known_model("")
    return f"`plansmith model pull`, {model.size / 1e9:.2f} GB, {model.licence}"


def _rules(shelf: Shelf) -> Choice:
    why = (
        "no language model was found, so rules plan: they match words and copy values, and "
        f"understand nothing. To get a model: {pull_hint(shelf)}; to name one: --model. "
        "`plansmith doctor` says what was looked for"
    )
    return Choice("rules", RULES, why)
