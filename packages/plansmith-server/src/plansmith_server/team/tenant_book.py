"""Tenants: teams that share a server, each with a store, a folder, settings and secrets."""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from plansmith.errors import Misconfigured, NotFound
from plansmith.files import locked, replace_file
from plansmith.plan.data import Record
from plansmith.plan.sentence import Sentence
from plansmith.store.urls import is_postgres, sqlite_path

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,30}")
_RECORD: Final = "tenant.json"
_REMOVED: Final = ".removed"
_FIRST: Final = """\
# The settings of this tenant: its tools, agents, secrets, databases, models and review.
# docs/tenants.md says what it takes from the server and what is its own.
"""


class Tenant(Record):
    """A tenant; its `key` is its name and a random part, so that no other one gets its data."""

    name: str
    key: str
    home: Path

    @property
    def folder(self) -> Path:
        return self.home / "files"

    @property
    def config(self) -> Path:
        return self.home / "config.toml"


class TenantBook:
    """Keeps the tenants of a server, each in a folder of its own that only its owner may read."""

    def __init__(self, data: Path) -> None:
        self._folder = data / "tenants"

    def all(self) -> list[Tenant]:
        found = sorted(self._folder.glob(f"*/{_RECORD}"))
        return [self._read(path.parent) for path in found if _NAME.fullmatch(path.parent.name)]

    def get(self, name: str) -> Tenant:
        if not _NAME.fullmatch(name) or not (self._folder / name / _RECORD).is_file():
            hint = Sentence("plansmith tenants list lists them")
            raise NotFound(Sentence("there is no tenant '{name}'", name=name[:80]), hint=hint)
        return self._read(self._folder / name)

    def create(self, name: str) -> Tenant:
        """Creates a tenant with its folders; its settings are those of the server at first."""
        if not _NAME.fullmatch(name) or name == "default":
            why = Sentence("'{name}' is not a valid name for a tenant", name=name[:80])
            hint = Sentence(
                "small letters, digits and _, at most 31, beginning with a letter; not default"
            )
            raise Misconfigured(why, hint=hint)
        home = self._folder / name
        made = Tenant(name=name, key=f"{name}_{secrets.token_hex(4)}", home=home)
        with self._locked():
            if (home / _RECORD).exists():
                why = Sentence("there is a tenant '{name}' already", name=name)
                raise Misconfigured(why, hint=Sentence("choose another name"))
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            made.folder.mkdir(exist_ok=True, mode=0o700)
            if not made.config.exists():
                replace_file(made.config, _FIRST)
            record = {"version": 1, "key": made.key}
            replace_file(home / _RECORD, json.dumps(record), durable=True)
        return made

    def remove(self, name: str) -> Tenant:
        """Removes a tenant: its folder is set aside; a new one of this name gets other data."""
        with self._locked():
            found = self.get(name)
            aside = self._folder / _REMOVED
            aside.mkdir(exist_ok=True, mode=0o700)
            return found.replace(home=found.home.rename(aside / found.key))

    def _read(self, home: Path) -> Tenant:
        try:
            value = json.loads((home / _RECORD).read_text(encoding="utf-8"))
            if value["version"] != 1:
                why = Sentence("{path} is from a newer Plansmith", path=home)
                raise Misconfigured(why, hint=Sentence("update Plansmith"))
            key = str(value["key"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = Sentence("{path} cannot be read: {error}", path=home / _RECORD, error=error)
            raise Misconfigured(why, hint=Sentence("restore it from a backup")) from None
        return Tenant(name=home.name, key=key, home=home)

    def _locked(self) -> Any:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return locked(self._folder / "tenants.json", hint=Sentence("make its folder writable"))


def tenant_store(url: str, key: str) -> str:
    """Returns the store of a tenant: a SQLite file beside the server's, or a schema of its own."""
    if is_postgres(url):
        parts = urlsplit(url)
        given = [each for each in parse_qsl(parts.query) if each[0] != "schema"]
        return urlunsplit(parts._replace(query=urlencode([*given, ("schema", f"plansmith_{key}")])))
    if not url.startswith("sqlite:"):
        return url  # each opens a memory of its own
    path = sqlite_path(url).absolute()
    beside = path.with_name(f"{path.stem}.{key}{path.suffix}")
    query = urlsplit(url).query
    return f"sqlite:///{quote(str(beside))}" + (f"?{query}" if query else "")
