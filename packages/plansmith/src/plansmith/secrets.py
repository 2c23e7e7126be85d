"""Gives secrets to the tools that may have them, and removes them from all texts."""

from __future__ import annotations

import base64
import html
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

from pydantic import Field, model_validator

from plansmith.errors import Misconfigured
from plansmith.plan.data import Json, Record
from plansmith.plan.sentence import Sentence

# Characters that the common ways to encode a URL leave unchanged.
_SAFE: Final = ("", "/", "!'()*~", "/!'()*~", ";,/?:@&=+$-_.!~*'()#")
_CODE_LETTERS: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
)
_LINE: Final = 16  # of a secret of many lines, one this long is hidden by itself too


class Hider:
    """Replaces known secrets in values, in any form in which they may be written."""

    def __init__(self) -> None:
        self._forms: list[tuple[str, str]] = []
        self._coded: list[tuple[str, str]] = []
        self._known: set[tuple[str, str]] = set()
        self._numbers = False
        self._shortest = 0

    def learn(self, value: str, name: str) -> None:
        """Adds a secret to look for."""
        if (value, name) in self._known:
            return
        self._known.add((value, name))
        mark = f"${{secret:{name}}}"
        forms = dict(self._forms) | dict.fromkeys(_forms(value), mark)
        # The longest first: a shorter one may be a part of it.
        self._forms = sorted(forms.items(), key=lambda each: len(each[0]), reverse=True)
        self._coded = [*self._coded, *((core, mark) for core in _base64_cores(value.encode()))]
        self._shortest = min(len(form) for form, _ in (*self._forms, *self._coded))
        self._numbers = self._numbers or value.lstrip("-").replace(".", "", 1).isdigit()

    def hide(self, value: Json) -> Json:
        """Returns a value in which each secret is replaced by its name."""
        if not self._known:
            return value
        if isinstance(value, str):
            return self._hidden(value)
        if isinstance(value, list):
            return [self.hide(child) for child in value]
        if isinstance(value, dict):
            return {self._hidden(key): self.hide(child) for key, child in value.items()}
        if self._numbers and isinstance(value, int | float) and not isinstance(value, bool):
            text = str(value)
            hidden = self._hidden(text)
            return value if hidden == text else hidden
        return value

    def _hidden(self, text: str) -> str:
        if len(text) < self._shortest:
            return text
        for form, mark in self._forms:
            if form in text:
                text = text.replace(form, mark)
        for core, mark in self._coded:
            if core in text:
                text = _without_code(text, core, mark)
        return text


def _forms(value: str) -> Iterator[str]:
    """Yields a secret as it is, and in the escaped forms of URLs, JSON, HTML and Python."""
    lines = [line.strip() for line in value.splitlines()]
    long = [line for line in lines if len(line) >= _LINE and not line.startswith("-----")]
    for text in (value, *long):
        yield text
        for safe in _SAFE:
            for quoted in (quote(text, safe=safe), quote(text, safe=f"{safe} ").replace(" ", "+")):
                first, *others = quoted.split("%")
                yield quoted
                yield "%".join([first, *(part[:2].lower() + part[2:] for part in others)])
        for written in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
            careful = written
            for letter in "<>&'":
                careful = careful.replace(letter, f"\\u{ord(letter):04x}")
            # The last is JSON that is a text in JSON.
            yield from (written, written.replace("/", "\\/"), careful, json.dumps(written)[1:-1])
        escaped = html.escape(text)
        yield from (html.escape(text, quote=False), escaped, escaped.replace("&#x27;", "'"))
        yield escaped.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
        yield from (repr(text)[1:-1], repr(text.encode())[2:-1])
        yield from (text.encode().hex(), text.encode().hex().upper())


def _base64_cores(secret: bytes) -> Iterator[str]:
    """Yields the base64 forms of a secret at every offset, as in `user:secret`.

    Leaves out characters at both ends that also depend on neighbouring bytes.
    """
    for before in range(3):
        first = -(-before * 8 // 6)
        last = (before + len(secret)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(before) + secret).decode()[first:last]


def _without_code(text: str, core: str, mark: str) -> str:
    """Replaces each run of base64 that contains a secret."""
    parts: list[str] = []
    done, found = 0, text.find(core)
    while found >= 0:
        start, end = found, found + len(core)
        while start > done and text[start - 1] in _CODE_LETTERS:
            start -= 1
        while end < len(text) and text[end] in _CODE_LETTERS:
            end += 1
        while end < len(text) and text[end] == "=":
            end += 1
        parts += [text[done:start], mark]
        done, found = end, text.find(core, end)
    return "".join([*parts, text[done:]])


SHORTEST: Final = 6


class SecretSource(Record):
    """Where one secret is kept, and which tools may be given it (patterns such as `github.*`).

    Attributes:
        env: The environment variable that has it.
        file: The file that has it, readable by you alone.
        keyring: The entry of the keyring that has it: `service/user`.
        tools: The tools that may get it, by patterns of names.
    """

    env: str | None = None
    file: Path | None = None
    keyring: str | None = None
    tools: tuple[str, ...] = Field(default=())

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if sum(each is not None for each in (self.env, self.file, self.keyring)) != 1:
            raise ValueError(Sentence("give exactly one of env, file, keyring"))
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
        source = self._sources.get(name)
        if source is None:
            return Sentence("there is no secret '{name}'", name=name)
        if not any(fnmatchcase(tool, pattern) for pattern in source.tools):
            return Sentence("the secret '{name}' is not for {tool}", name=name, tool=tool)
        return ""

    def reveal(self, name: str, tool: str) -> str:
        flaw = self.flaw(name, tool)
        if flaw:
            raise Misconfigured(
                flaw,
                hint=Sentence("set [secrets.{name}] with tools = ['{tool}']", name=name, tool=tool),
            )
        value = _read(name, self._sources[name], self._environment)
        if len(value) < SHORTEST:
            hint = Sentence("use one of {least} characters or more", least=SHORTEST)
            raise Misconfigured(
                Sentence("the secret '{name}' is too short to be hidden safely", name=name),
                hint=hint,
            )
        self._hider.learn(value, name)
        return value

    def hide(self, value: Json) -> Json:
        """Returns a value without any secret, however it is written.

        Secrets of the environment and of files are hidden before they are revealed: a tool may
        return one that was given to another tool, or in an earlier process.
        """
        if not self._knows_all:
            self._knows_all = True
            for name, source in self._sources.items():
                with suppress(Misconfigured):  # reported when the secret is revealed
                    known = "" if source.keyring else _read(name, source, self._environment)
                    if len(known) >= SHORTEST:
                        self._hider.learn(known, name)
        return self._hider.hide(value)


def _read(name: str, source: SecretSource, environment: Mapping[str, str]) -> str:
    if source.env is not None:
        value = environment.get(source.env, "")
        if not value:
            hint = f"export {source.env}=…"
            why = Sentence("the secret '{name}' is not in the environment", name=name)
            raise Misconfigured(why, hint=hint)
        return value
    if source.file is not None:
        return _from_file(name, source.file)
    return _from_keyring(name, source.keyring or "")


def _from_file(name: str, path: Path) -> str:
    try:
        mode = path.stat().st_mode
        value = path.read_text(encoding="utf-8").strip("\r\n")
    except (OSError, ValueError) as error:
        why = Sentence("the secret '{name}' cannot be read: {error}", name=name, error=error)
        raise Misconfigured(why) from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        hint = f"chmod 600 {path}"
        why = Sentence("other users can read the file of the secret '{name}'", name=name)
        raise Misconfigured(why, hint=hint)
    return value


def _from_keyring(name: str, entry: str) -> str:
    try:
        keyring: Any = import_module("keyring")
    except ImportError:
        hint = Sentence("run pip install keyring, or use env or file")
        why = Sentence("the secret '{name}' needs the package keyring", name=name)
        raise Misconfigured(why, hint=hint) from None
    service, _, user = entry.partition("/")
    value: str | None = keyring.get_password(service, user)
    if not value:
        raise Misconfigured(
            Sentence(
                "the keyring has no entry '{entry}' for the secret '{name}'", entry=entry, name=name
            )
        )
    return value
