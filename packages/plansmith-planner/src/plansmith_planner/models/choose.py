"""Chooses a model where none is set: an API key, a local server, the embedded model, else rules."""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Final, Literal, NamedTuple, Protocol, cast
from urllib.parse import urlsplit

import msgspec

from plansmith import plugins
from plansmith.errors import Misconfigured
from plansmith.plan.briefs import ReplyBrief
from plansmith.plan.sentence import Sentence
from plansmith.ports import ChatModel, Delta, Prompt
from plansmith_planner.models.provider_output import providers
from plansmith_planner.models.wrappers import closing


class Key(NamedTuple):
    """An environment variable with an API key, and the model it is for.

    `base_url` is set where the provider is reached as an OpenAI-compatible server.
    """

    variable: str
    provider: str
    model: str
    base_url: str | None = None

    @property
    def chosen_by(self) -> str:
        return f"{self.variable.removesuffix('_API_KEY')}_MODEL"


# In this order; names that providers keep pointing at a current model where there are such.
KEYS: Final = [Key(*row) for row in providers("auto")]


LIMIT_S: Final = 1.0
_MAX_BYTES: Final = 1_000_000
_OLLAMA_PORT: Final = 11434
# Models that take text and give something else than text, by how they are usually called.
_NO_CHAT: Final = re.compile(
    r"embed|minilm|rerank|whisper|moderation|prompt-guard|diffusion|sdxl|flux"
    r"|(?:^|[/_.-])(?:bge|e5|gte|tts|clip|siglip|vae)(?:[_.:-]|$)",
    re.IGNORECASE,
)
_EMBEDDING_FAMILIES: Final = frozenset({"bert", "nomic-bert", "xlm-roberta", "embeddings"})


@dataclass(frozen=True, slots=True)
class Place:
    """An address where a model server may listen, and the path that lists its models.

    `url` is its root; OpenAI-compatible calls go to `base_url`.
    """

    program: str
    url: str
    path: str = "/v1/models"
    key: str = ""

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"


@dataclass(frozen=True, slots=True)
class Server:
    """The answer of a server: the models that can chat, or why there are none."""

    place: Place
    models: tuple[str, ...] = ()
    flaw: str = ""


def usual_places(environment: Mapping[str, str]) -> tuple[Place, ...]:
    """Returns the addresses of common local model servers, at their usual ports."""
    ollama = _ollama_url(environment.get("OLLAMA_HOST", ""))
    return (
        Place("Ollama", ollama, "/api/tags"),
        Place("LM Studio", "http://127.0.0.1:1234", "/api/v0/models"),
        Place("llama.cpp", "http://127.0.0.1:8080"),
        Place("vLLM", "http://127.0.0.1:8000"),
    )


def _ollama_url(given: str) -> str:
    """Reads OLLAMA_HOST as Ollama does: with or without scheme and port."""
    text = given.strip().rstrip("/")
    if not text:
        return f"http://127.0.0.1:{_OLLAMA_PORT}"
    parts = urlsplit(text if "://" in text else f"http://{text}")
    # Told to listen everywhere, it is reached here.
    host = "127.0.0.1" if parts.hostname in (None, "0.0.0.0", "::") else parts.hostname  # noqa: S104
    host = f"[{host}]" if ":" in str(host) else host
    usual = {"https": 443, "http": 80}.get(parts.scheme, _OLLAMA_PORT)
    given_port = re.search(r":(\d{1,5})$", parts.netloc)
    port = given_port[1] if given_port else usual if "://" in text else _OLLAMA_PORT
    return f"{parts.scheme}://{host}:{port}{parts.path}"


async def ask_servers(places: Sequence[Place], *, limit_s: float = LIMIT_S) -> list[Server]:
    """Asks all servers at once, each within the time limit; returns answers in order."""
    # The libraries of the providers bring one of them; which one changes with their versions.
    name = next((each for each in ("httpx", "httpx2") if find_spec(each)), "")
    if not name:
        return [Server(place, flaw=_NO_LIBRARY) for place in places]
    httpx: Any = importlib.import_module(name)
    # Certificates take long to load; most servers are on this machine, without encryption.
    encrypted = any(place.url.startswith("https") for place in places)
    # Proxies of the environment are for the world outside, not for this machine.
    async with httpx.AsyncClient(trust_env=False, timeout=limit_s, verify=encrypted) as client:
        return await asyncio.gather(*(_ask(client, place, limit_s) for place in places))


async def _ask(client: Any, place: Place, limit_s: float) -> Server:
    silent = Sentence("said nothing within {seconds} s", seconds=f"{limit_s:g}")
    headers = {"Authorization": f"Bearer {place.key}"} if place.key else {}
    data = bytearray()
    try:
        async with (
            asyncio.timeout(limit_s),
            client.stream("GET", f"{place.url}{place.path}", headers=headers) as answer,
        ):
            async for block in answer.aiter_bytes():
                data += block
                if len(data) > _MAX_BYTES:
                    break
    except TimeoutError:
        return Server(place, flaw=silent)
    except OSError as error:
        return Server(place, flaw=Sentence("cannot be reached: {error}", error=str(error)))
    except Exception as error:
        if not type(error).__module__.startswith(("httpx", "httpcore")):
            raise
        slow = "Timeout" in type(error).__name__
        return Server(place, flaw=silent if slow else Sentence("no server there"))
    if answer.status_code != 200:
        status = str(answer.status_code)
        return Server(place, flaw=Sentence("answers with status {status}", status=status))
    return _read(place, data[:_MAX_BYTES].decode("utf-8", "replace"))


def _read(place: Place, text: str) -> Server:
    try:
        answer = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        answer = {}
    rows: Any = answer.get("data", answer.get("models"))
    if not isinstance(rows, list):
        return Server(place, flaw=Sentence("not a model server"))
    named = [_chat_model(row) for row in cast("list[object]", rows)]
    usable = tuple(dict.fromkeys(name for name in named if name))
    flaw = Sentence("has no model that chats" if rows else "has no model yet")
    return Server(place, usable, flaw="" if usable else flaw)


def _chat_model(given: object) -> str:
    """Returns the name of a model that can chat, as the server calls it; empty for any other."""
    row = cast("dict[str, Any]", given) if isinstance(given, dict) else dict[str, Any]()
    name = row.get("id") or row.get("model") or row.get("name")
    details = row.get("details")
    held = cast("dict[str, Any]", details) if isinstance(details, dict) else dict[str, Any]()
    families: set[Any] = {*(held.get("families") or ()), row.get("type")}
    # A model of Ollama's cloud needs an account there, whatever the list says.
    remote = bool(row.get("remote_host")) or str(name).endswith(("-cloud", ":cloud"))
    if not isinstance(name, str) or remote or families & _EMBEDDING_FAMILIES:
        return ""
    return "" if _NO_CHAT.search(name) else name


Kind = Literal["key", "server", "embedded", "rules"]
RULES: Final = "rules"
_NO_LIBRARY: Final = Sentence("the libraries for providers are missing (install plansmith[models])")
_NO_SHELF: Final = "`pip install packages/* 'plansmith[desk]'`"


@dataclass(frozen=True, slots=True)
class Tried:
    """One option that was checked; `flaw` says why it cannot be used, empty if it can."""

    kind: Kind
    what: str
    flaw: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen model, as settings name it, and all options that were checked."""

    kind: Kind
    model: str
    why: str
    base_url: str | None = None
    api_key_env: str | None = None
    tried: tuple[Tried, ...] = ()

    @property
    def shown(self) -> str:
        """Returns the choice on one line, for a person."""
        named = Sentence("model: {model}", model=self.described)
        return self.why if self.kind == "rules" else named

    @property
    def described(self) -> str:
        """Returns the same without the word "model" before it, for a list that has this word."""
        if self.kind == "rules":
            return self.why
        place = Sentence(" at {url}", url=self.base_url) if self.base_url else ""
        return Sentence("{model}{place} ({why})", model=self.model, place=place, why=self.why)


Progress = Callable[[int, int], None]


class KeptModel(NamedTuple):
    """A model that can be kept as a file on this machine."""

    name: str
    about: str
    size: int
    licence: str
    is_here: bool
    is_default: bool


class ModelShelf(Protocol):
    """The models that are kept as files on this machine and run in this process."""

    @property
    def has_runtime(self) -> bool:
        """Whether the library that runs them is installed."""
        ...

    @property
    def pull_hint(self) -> str:
        """How a person downloads the usual one."""
        ...

    def option(self) -> Choice | Tried:
        """Returns the model to use; or why none can be used."""
        ...

    def models(self) -> Sequence[KeptModel]:
        """Returns the models to offer to a person."""
        ...

    def model(self, name: str) -> KeptModel:
        """Returns a model by its name, the default one for an empty name."""
        ...

    def pull(self, name: str, progress: Progress) -> None:
        """Downloads a model; tells how many bytes of how many are here."""
        ...


def installed_shelf() -> ModelShelf | None:
    """Returns the shelf that an installed package brings; None if none does."""
    found = plugins.names("shelves")
    shelf: ModelShelf | None = plugins.load("shelves", found[0])() if found else None
    return shelf


def is_offline(environment: Mapping[str, str]) -> bool:
    """Whether the environment forbids downloads."""
    return environment.get("PLANSMITH_OFFLINE", "0") not in ("", "0")


async def choose(
    environment: Mapping[str, str],
    *,
    shelf: ModelShelf | None,
    places: Sequence[Place] | None = None,
    limit_s: float = LIMIT_S,
) -> Choice:
    """Returns the first option that can be used; the rules if there is none."""
    places = usual_places(environment) if places is None else places
    tried: list[Tried] = []
    async for found in _options(environment, shelf, places, limit_s):
        if isinstance(found, Choice):
            return replace(found, tried=(*tried, Tried(found.kind, found.model)))
        tried.append(found)
    if RULES not in plugins.names("models"):
        hint = Sentence(
            "set {variable}, start a model server, or install rules and a model: {how}",
            variable=KEYS[0].variable,
            how=_NO_SHELF,
        )
        raise Misconfigured(Sentence("no API key and no model server was found"), hint=hint)
    why = Sentence(
        "no language model was found, so simple rules make the plan. "
        "To get a model: {how}; to name one: --model",
        how=shelf.pull_hint if shelf is not None else _NO_SHELF,
    )
    return Choice("rules", RULES, why, tried=(*tried, Tried("rules", RULES)))


async def _options(
    environment: Mapping[str, str],
    shelf: ModelShelf | None,
    places: Sequence[Place],
    limit_s: float,
) -> AsyncIterator[Choice | Tried]:
    can_call = find_spec("pydantic_ai") is not None
    keys = [key for key in KEYS if environment.get(key.variable, "").strip()]
    if not keys:
        yield Tried("key", Sentence("the environment"), Sentence("has no API key"))
    for key in keys:
        if can_call:
            name = environment.get(key.chosen_by, "").strip() or key.model
            why = Sentence(
                "{key} is set; {other} names another model", key=key.variable, other=key.chosen_by
            )
            yield Choice("key", f"{key.provider}:{name}", why, key.base_url, key.variable)
        yield Tried("key", key.variable, _NO_LIBRARY)
    if not can_call:
        yield Tried("server", Sentence("servers on this machine"), _NO_LIBRARY)
    for server in await ask_servers(places, limit_s=limit_s) if can_call else ():
        program, place = server.place.program, server.place
        if server.flaw:
            at = Sentence("{program} at {url}", program=program, url=place.url)
            yield Tried("server", at, server.flaw)
        else:
            why = Sentence("{program} runs here, and no key is in the environment", program=program)
            yield Choice("server", f"openai:{server.models[0]}", why, base_url=place.base_url)
    if shelf is not None:
        yield shelf.option()


async def choose_at(base_url: str, *, key: str = "", limit_s: float = 10.0) -> Choice:
    """Returns the first chat model of the server that the person named, or fails."""
    url = base_url.rstrip("/")
    program = Sentence("doctor.at_server")
    place = Place(program, url.removesuffix("/v1"), key=key)
    if not url.endswith("/v1"):
        place = Place(program, url, "/models", key=key)
    [server] = await ask_servers([place], limit_s=limit_s)
    if server.flaw:
        hint = Sentence("name its model with --model openai:NAME, or start it")
        flaw = Sentence("{text}: {reason}", text=base_url, reason=server.flaw)
        raise Misconfigured(flaw, hint=hint)
    model = f"openai:{server.models[0]}"
    why = Sentence("the first model of the server that is set")
    return Choice("server", model, why, base_url=base_url, tried=(Tried("server", model),))


class AutoModel:
    """Chooses a model at the first call, reports the choice once, and uses it from then on."""

    def __init__(
        self,
        choose: Callable[[], Awaitable[Choice]],
        make: Callable[[Choice], ChatModel],
        *,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._choose = choose
        self._make = make
        self._report = tell
        self._model: ChatModel | None = None
        self._untold = ""
        self._choosing = asyncio.Lock()

    @property
    def name(self) -> str:
        """The chosen model's name; `auto` until there is one."""
        return self._model.name if self._model is not None else "auto"

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        model = await self._chosen(is_planning=not isinstance(prompt.brief, ReplyBrief))
        pieces = model.stream(prompt)
        async with closing(pieces):
            async for delta in pieces:
                yield delta

    async def _chosen(self, *, is_planning: bool) -> ChatModel:
        async with self._choosing:
            if self._model is None:
                choice = await self._choose()
                self._model = self._make(choice)
                self._untold = choice.shown
            # Rules show results as well as any model: only their plans are worth a word.
            if self._untold and (is_planning or self._model.name != RULES):
                self._report(self._untold)
                self._untold = ""
            return self._model
