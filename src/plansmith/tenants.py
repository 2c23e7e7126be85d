"""Tenants: teams that share a server, each with a store, a folder, settings and secrets."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from plansmith.config import Settings, merge_tables, parse_settings, read_table
from plansmith.errors import Misconfigured, NotFound
from plansmith.files import locked, replace_file
from plansmith.folder_settings import Table, at, with_paths
from plansmith.plan.data import Record
from plansmith.plan.sentence import Sentence
from plansmith.store.urls import is_postgres, sqlite_path

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,30}")
_RECORD: Final = "tenant.json"
_REMOVED: Final = ".removed"
# What a tenant takes from the settings of the server; everything else is its own.
INHERITED: Final = ("models", "planner", "run", "budget", "review")
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
        """The folder that its tools work in."""
        return self.home / "files"

    @property
    def config(self) -> Path:
        """The file of its settings."""
        return self.home / "config.toml"


class TenantSettings(Settings):
    """The settings of a tenant: its tools, agents and approvals are in its own folders."""

    records_folder: ClassVar[bool] = False
    tenant: Tenant

    def folder(self) -> Path:
        """Returns the folder that tools work in."""
        return self.tenant.folder

    def data(self) -> Path:
        """Returns the folder of approvals and agent cards."""
        return self.tenant.home


class TenantBook:
    """Keeps the tenants of a server, each in a folder of its own that only its owner may read."""

    def __init__(self, data: Path) -> None:
        self._folder = data / "tenants"

    def all(self) -> list[Tenant]:
        """Returns every tenant, by name."""
        found = sorted(self._folder.glob(f"*/{_RECORD}"))
        return [self._read(path.parent) for path in found if _NAME.fullmatch(path.parent.name)]

    def get(self, name: str) -> Tenant:
        """Returns a tenant by its name."""
        if not _NAME.fullmatch(name) or not (self._folder / name / _RECORD).is_file():
            hint = Sentence("tenants.see_list")
            raise NotFound(Sentence("tenants.absent", name=name[:80]), hint=hint)
        return self._read(self._folder / name)

    def create(self, name: str) -> Tenant:
        """Creates a tenant with its folders; its settings are those of the server at first."""
        if not _NAME.fullmatch(name) or name == "default":
            hint = Sentence("tenants.name_hint")
            raise Misconfigured(Sentence("tenants.bad_name", name=name[:80]), hint=hint)
        home = self._folder / name
        made = Tenant(name=name, key=f"{name}_{secrets.token_hex(4)}", home=home)
        with self._locked():
            if (home / _RECORD).exists():
                hint = Sentence("error.other_name")
                raise Misconfigured(Sentence("tenants.taken", name=name), hint=hint)
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
                raise Misconfigured(
                    Sentence("store.of_newer", path=home), hint=Sentence("error.update")
                )
            key = str(value["key"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Misconfigured(
                Sentence("error.file_unreadable", path=home / _RECORD, error=error),
                hint=Sentence("store.restore_it"),
            ) from None
        return Tenant(name=home.name, key=key, home=home)

    def _locked(self) -> Any:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return locked(self._folder / "tenants.json", hint=Sentence("error.folder_writable"))


def tenant_settings(
    tenant: Tenant, base: Settings, changes: Mapping[str, Any] | None = None
) -> TenantSettings:
    """Returns the settings of a tenant on a server with the settings `base`.

    A settings file in the folder that its tools work in does not count.
    """
    merged = merge_tables(inherited(base), _own(tenant))
    return _settings(tenant, base, merge_tables(merged, dict(changes or {})))


def inherited_settings(tenant: Tenant, base: Settings) -> TenantSettings:
    """Returns what a tenant without settings of its own would have."""
    return _settings(tenant, base, inherited(base))


def inherited(base: Settings) -> Table:
    """Returns what a tenant takes from the settings of its server, unless it sets it itself."""
    return base.model_dump(include=set(INHERITED))


def _settings(tenant: Tenant, base: Settings, table: Table) -> TenantSettings:
    whole = parse_settings(table, Sentence("tenants.settings_of", name=tenant.name))
    given = {name: getattr(whole, name) for name in Settings.model_fields}
    store = tenant_store(base.store_url(), tenant.key)
    return TenantSettings.model_validate(given | {"tenant": tenant, "store": store})


def _own(tenant: Tenant) -> Table:
    """Reads the settings file of a tenant; paths in it are relative to its folder."""
    path = tenant.config
    try:
        found = read_table(path.read_bytes(), path) if path.is_file() else {}
    except OSError as error:
        hint = Sentence("error.folder_closed_hint")
        raise Misconfigured(
            Sentence("error.file_unreadable", path=path, error=error.strerror), hint=hint
        ) from None
    if "store" in found:
        hint = Sentence("tenants.remove_store")
        raise Misconfigured(Sentence("tenants.sets_store", path=path), hint=hint)
    parse_settings(found, str(path))
    return with_paths(found, lambda _, name: str(at(tenant.home, name)))


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
