"""Model servers on this machine: asked all at once, and briefly, which models they have."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlsplit

LIMIT_S: Final = 1.0
_MOST_BYTES: Final = 1_000_000
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
    """Where a server may listen, and the path at which it lists its models.

    `url` is its root; OpenAI-compatible calls go to `base_url`.
    """

    program: str
    url: str
    path: str = "/v1/models"
    key: str = ""

    @property
    def base_url(self) -> str:
        """Where chats are held."""
        return f"{self.url}/v1"


@dataclass(frozen=True, slots=True)
class Server:
    """What came of asking: the models that can chat, or why there are none."""

    place: Place
    models: tuple[str, ...] = ()
    flaw: str = ""


def usual_places(environment: Mapping[str, str]) -> tuple[Place, ...]:
    """The servers people run on their own machine, at their usual ports."""
    ollama = _ollama_url(environment.get("OLLAMA_HOST", ""))
    return (
        Place("Ollama", ollama, "/api/tags"),
        Place("LM Studio", "http://127.0.0.1:1234", "/api/v0/models"),
        Place("llama.cpp", "http://127.0.0.1:8080"),
        Place("vLLM", "http://127.0.0.1:8000"),
    )


def _ollama_url(given: str) -> str:
    """OLLAMA_HOST as Ollama itself reads it: with or without scheme and port."""
    text = given.strip().rstrip("/")
    if not text:
        return f"http://127.0.0.1:{_OLLAMA_PORT}"
    parts = urlsplit(text if "://" in text else f"http://{text}")
    # Told to listen everywhere, it is reached here.
    host = "127.0.0.1" if parts.hostname in (None, "0.0.0.0", "::") else parts.hostname  # noqa: S104
    host = f"[{host}]" if ":" in str(host) else host
    usual = {"https": 443, "http": 80}.get(parts.scheme, _OLLAMA_PORT)
    port = _port(parts.netloc) or (usual if "://" in text else _OLLAMA_PORT)
    return f"{parts.scheme}://{host}:{port}{parts.path}"


def _port(netloc: str) -> int | None:
    found = re.search(r":(\d{1,5})$", netloc)
    return int(found[1]) if found else None


async def ask_servers(places: Sequence[Place], *, limit_s: float = LIMIT_S) -> list[Server]:
    """What every place says, in their order; none is waited for longer than the limit."""
    if not places:
        return []
    httpx: Any = importlib.import_module("httpx")
    # Proxies of the environment are for the world outside, not for this machine.
    async with httpx.AsyncClient(trust_env=False, timeout=limit_s) as client:
        return await asyncio.gather(*(_ask(client, place, limit_s) for place in places))


async def _ask(client: Any, place: Place, limit_s: float) -> Server:
    try:
        async with asyncio.timeout(limit_s):
            status, text = await _get(client, place)
    except TimeoutError:
        return Server(place, flaw=f"said nothing within {limit_s:g} s")
    except OSError as error:
        return Server(place, flaw=f"cannot be reached: {error}")
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("httpx", "httpcore"):
            raise
        slow = "Timeout" in type(error).__name__
        flaw = f"said nothing within {limit_s:g} s" if slow else "nothing listens there"
        return Server(place, flaw=flaw)
    if status != 200:
        return Server(place, flaw=f"answers with status {status}")
    return _read(place, text)


async def _get(client: Any, place: Place) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {place.key}"} if place.key else {}
    data = bytearray()
    async with client.stream("GET", f"{place.url}{place.path}", headers=headers) as answer:
        async for block in answer.aiter_bytes():
            data += block
            if len(data) > _MOST_BYTES:
                break
        return answer.status_code, data[:_MOST_BYTES].decode("utf-8", "replace")


def _read(place: Place, text: str) -> Server:
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = None
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    rows: list[Any] | None = fields.get("data", fields.get("models"))
    if not isinstance(rows, list):
        return Server(place, flaw="something else listens there")
    names = [each for row in rows for each in _name(row)]
    usable = tuple(dict.fromkeys(names))
    if usable:
        return Server(place, usable)
    flaw = "has no model that chats" if rows else "has no model yet"
    return Server(place, flaw=flaw)


def _name(row: Any) -> Iterator[str]:
    """The name of a model that can be used, as the server calls it."""
    if not isinstance(row, dict):
        return
    fields = cast("dict[str, Any]", row)
    name = fields.get("id") or fields.get("model") or fields.get("name")
    details: Any = fields.get("details")
    known = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
    families = {*cast("list[Any]", known.get("families") or []), fields.get("type")}
    # A model of Ollama's cloud needs an account there, whatever the list says.
    remote = bool(fields.get("remote_host")) or str(name).endswith(("-cloud", ":cloud"))
    other = remote or bool(families & _EMBEDDING_FAMILIES)
    if isinstance(name, str) and name and not other and not _NO_CHAT.search(name):
        yield name
