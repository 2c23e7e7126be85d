"""Opens the store at an address: `memory`, `sqlite:///path`, or one of another package."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from plansmith import plugins
from plansmith.errors import Misconfigured
from plansmith.lazy import lazy_modules

if TYPE_CHECKING:
    from plansmith.plan import sentence
    from plansmith.ports import Finding
    from plansmith.run_queue import RunQueue
    from plansmith.store import memory, sqlite
    from plansmith.store.database_store import DatabaseStore
else:
    lazy_modules(
        globals(),
        memory="plansmith.store.memory",
        sentence="plansmith.plan.sentence",
        sqlite="plansmith.store.sqlite",
    )


class StoreKind(Protocol):
    """What a package brings for the addresses of a scheme (entry point `plansmith.stores`)."""

    def open_store(self, url: str) -> DatabaseStore:
        """Returns the store at an address; opens nothing before its first use."""
        ...

    async def examine(self, url: str) -> list[Finding]:
        """Checks the server of the store."""
        ...

    def run_queue(self, url: str, folder: str) -> RunQueue:
        """Returns the queue on which the runs of a folder wait for a worker."""
        ...


def store_kind(url: str) -> StoreKind | None:
    """Returns what another package brings for an address; None for those of the kernel itself."""
    scheme = "postgresql" if is_postgres(url) else url.partition(":")[0]
    is_brought = is_postgres(url) or scheme in plugins.names("stores")
    kind: StoreKind | None = plugins.load("stores", scheme) if is_brought else None
    return kind


def is_postgres(url: str) -> bool:
    """Tells whether an address is one of PostgreSQL."""
    return url.startswith(("postgresql://", "postgres://"))


def open_store(url: str) -> memory.MemoryStore | DatabaseStore:
    """Returns the store at an address; opens nothing before its first use."""
    if url in ("memory", "memory:", "memory://"):
        return memory.MemoryStore()
    kind = store_kind(url)
    if kind is not None:
        return kind.open_store(url)
    return sqlite.SqliteStore(sqlite_path(url), **_settings(url))


def sqlite_path(url: str) -> Path:
    """Returns the file of a `sqlite:///` address."""
    path = unquote(urlsplit(url).path)
    if url.startswith("sqlite:///") and path not in ("", "/"):
        # Three slashes and a path relative to here; a fourth one makes it absolute.
        return Path(path[1:]).expanduser()
    scheme = url.partition(":")[0]
    raise Misconfigured(
        sentence.Sentence("the address of a SQLite store needs a file")
        if url.startswith("sqlite:")
        else sentence.Sentence("there is no kind of store '{scheme}'", scheme=scheme),
        hint=sentence.Sentence(
            "memory, sqlite:///relative/file.db, "
            "sqlite:////absolute/file.db or "
            "postgresql://user@host/database"
        ),
    )


def _settings(url: str) -> dict[str, Any]:
    given = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    chosen, seconds = given.pop("synchronous", "full"), given.pop("timeout", "10")
    if given:
        raise Misconfigured(
            sentence.Sentence("a SQLite store has no setting '{name}'", name=next(iter(given))),
            hint=sentence.Sentence("synchronous=normal or timeout=SECONDS"),
        )
    if chosen not in ("full", "normal"):
        raise Misconfigured(
            sentence.Sentence("synchronous cannot be '{chosen}'", chosen=chosen),
            hint=sentence.Sentence("full or normal"),
        )
    if not re.fullmatch(r"\d{1,4}(\.\d{1,3})?", seconds):
        hint = sentence.Sentence("how many seconds a write waits for other processes, such as 10")
        raise Misconfigured(
            sentence.Sentence("timeout cannot be '{seconds}'", seconds=seconds), hint=hint
        )
    return {"synchronous": chosen, "timeout_s": float(seconds)}
