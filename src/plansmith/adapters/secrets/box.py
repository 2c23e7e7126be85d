"""A box of secrets: from the environment, a file or the keyring, each for named tools only."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self

from pydantic import Field, model_validator

from plansmith.adapters.secrets.hider import Hider
from plansmith.errors import Misconfigured
from plansmith.plan.data import Json, Record

SHORTEST: Final = 6


class SecretSource(Record):
    """Where one secret is kept, and which tools may be given it (patterns such as `github.*`)."""

    env: str | None = None
    file: Path | None = None
    keyring: str | None = None
    tools: tuple[str, ...] = Field(default=())

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if sum(each is not None for each in (self.env, self.file, self.keyring)) != 1:
            raise ValueError("give exactly one of env, file, keyring")
        return self


class SecretBox:
    """Reveals a secret to a tool that may have it, and takes it out of whatever comes back."""

    def __init__(
        self,
        sources: Mapping[str, SecretSource | Mapping[str, Any]],
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._sources = {
            name: each if isinstance(each, SecretSource) else SecretSource.model_validate(each)
            for name, each in sources.items()
        }
        self._environment = os.environ if environment is None else environment
        self._hider = Hider()
        self._knows_all = False

    def flaw(self, name: str, tool: str) -> str:
        """Why a tool cannot be given a secret, without looking at the secret; or nothing."""
        source = self._sources.get(name)
        if source is None:
            return f"there is no secret {name!r}"
        if not any(fnmatchcase(tool, pattern) for pattern in source.tools):
            return f"the secret {name!r} is not for {tool}"
        return ""

    def reveal(self, name: str, tool: str) -> str:
        """The value, for a call that is about to be made."""
        flaw = self.flaw(name, tool)
        if flaw:
            raise Misconfigured(flaw, hint=f"set [secrets.{name}] with tools = [{tool!r}]")
        value = _read(name, self._sources[name], self._environment)
        if len(value) < SHORTEST:
            hint = f"use one of {SHORTEST} characters or more"
            raise Misconfigured(f"the secret {name!r} is too short to be kept out", hint=hint)
        self._hider.learn(value, name)
        return value

    def hide(self, value: Json) -> Json:
        """A value without any secret, however it is written.

        Those of the environment and of files are known before they are revealed: a tool may tell
        one that was given to another, or in a process that ended.
        """
        if not self._knows_all:
            self._knows_all = True
            for name, source in self._sources.items():
                with suppress(Misconfigured):  # it is told when the secret is revealed
                    known = "" if source.keyring else _read(name, source, self._environment)
                    if len(known) >= SHORTEST:
                        self._hider.learn(known, name)
        return self._hider.hide(value)


def _read(name: str, source: SecretSource, environment: Mapping[str, str]) -> str:
    if source.env is not None:
        value = environment.get(source.env, "")
        if not value:
            hint = f"export {source.env}=…"
            raise Misconfigured(f"the secret {name!r} is not in the environment", hint=hint)
        return value
    if source.file is not None:
        return _from_file(name, source.file)
    return _from_keyring(name, source.keyring or "")


def _from_file(name: str, path: Path) -> str:
    try:
        mode = path.stat().st_mode
        value = path.read_text(encoding="utf-8").strip("\r\n")
    except (OSError, ValueError) as error:
        raise Misconfigured(f"the secret {name!r} cannot be read: {error}") from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        hint = f"chmod 600 {path}"
        raise Misconfigured(f"others can read the file of the secret {name!r}", hint=hint)
    return value


def _from_keyring(name: str, entry: str) -> str:
    try:
        keyring: Any = import_module("keyring")
    except ImportError:
        hint = "pip install keyring, or use env or file"
        raise Misconfigured(f"the secret {name!r} is in a keyring", hint=hint) from None
    service, _, user = entry.partition("/")
    value: str | None = keyring.get_password(service, user)
    if not value:
        raise Misconfigured(f"the keyring has no entry {entry!r} for the secret {name!r}")
    return value
