"""Opens the store at an address: `memory`, `sqlite:///path` or `postgresql://…`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from plansmith.errors import Misconfigured
from plansmith.lazy import lazy_modules

if TYPE_CHECKING:
    from plansmith.adapters.stores import memory, postgres, sqlite
    from plansmith.adapters.stores.database import Synchronous
else:
    lazy_modules(
        globals(),
        memory="plansmith.adapters.stores.memory",
        postgres="plansmith.adapters.stores.postgres",
        sqlite="plansmith.adapters.stores.sqlite",
    )

HINT: Final = (
    "memory, sqlite:///relative/file.db, sqlite:////absolute/file.db "
    "or postgresql://user@host/database"
)
_SYNCHRONOUS: Final[dict[str, Synchronous]] = {"full": "full", "normal": "normal"}


def open_store(url: str) -> memory.MemoryStore | sqlite.SqliteStore | postgres.PostgresStore:
    """Returns the store at an address; opens nothing before its first use."""
    if url in ("memory", "memory:", "memory://"):
        return memory.MemoryStore()
    if is_postgres(url):
        return postgres.PostgresStore(url)
    return sqlite.SqliteStore(sqlite_path(url), **_settings(url))


def is_postgres(url: str) -> bool:
    """Whether an address is one of PostgreSQL."""
    return url.startswith(("postgresql://", "postgres://"))


def sqlite_path(url: str) -> Path:
    """Returns the file of a `sqlite:///` address."""
    if not url.startswith("sqlite:"):
        scheme = url.partition(":")[0]
        raise Misconfigured(f"there is no kind of store {scheme!r}", hint=HINT)
    path = unquote(urlsplit(url).path)
    if not url.startswith("sqlite:///") or path in ("", "/"):
        raise Misconfigured("the address of a SQLite store needs a file", hint=HINT)
    # Three slashes and a path relative to here; a fourth one makes it absolute.
    return Path(path[1:]).expanduser()


def _settings(url: str) -> dict[str, Any]:
    given = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    chosen, seconds = given.pop("synchronous", "full"), given.pop("timeout", "10")
    if given:
        name = next(iter(given))
        hint = "synchronous=normal or timeout=SECONDS"
        raise Misconfigured(f"a SQLite store has no setting {name!r}", hint=hint)
    if chosen not in _SYNCHRONOUS:
        raise Misconfigured(f"synchronous cannot be {chosen!r}", hint="full or normal")
    if not re.fullmatch(r"\d{1,4}(\.\d{1,3})?", seconds):
        hint = "how many seconds a write waits for other processes, such as 10"
        raise Misconfigured(f"timeout cannot be {seconds!r}", hint=hint)
    return {"synchronous": _SYNCHRONOUS[chosen], "timeout_s": float(seconds)}
