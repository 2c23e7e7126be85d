"""Hider: takes secrets out of values, in the forms they are commonly written in."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from plansmith.plan.data import Json

# What is left as it stands by the common ways to encode an address.
_SAFE: Final = ("", "/", "!'()*~", "/!'()*~", ";,/?:@&=+$-_.!~*'()#")
_CODE_LETTERS: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
)
_LINE: Final = 16  # of a secret of many lines, one this long is hidden by itself too


class Hider:
    """Knows secrets by all their forms; what is learned once is looked for in every value."""

    def __init__(self) -> None:
        self._forms: list[tuple[str, str]] = []
        self._coded: list[tuple[str, str]] = []
        self._known: set[tuple[str, str]] = set()
        self._numbers = False
        self._shortest = 0

    def learn(self, value: str, name: str) -> None:
        """Look for a secret from now on."""
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
        """A value with the name of a secret wherever the secret stood."""
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
    """A secret as it stands, and as texts of other kinds write it."""
    for each in (value, *_long_lines(value)):
        yield each
        yield from _in_addresses(each)
        yield from _in_json(each)
        yield from _in_html(each)
        yield repr(each)[1:-1]
        yield repr(each.encode())[2:-1]
        yield each.encode().hex()
        yield each.encode().hex().upper()


def _long_lines(value: str) -> list[str]:
    lines = [line.strip() for line in value.splitlines()]
    return [each for each in lines if len(each) >= _LINE and not each.startswith("-----")]


def _in_addresses(value: str) -> Iterator[str]:
    for safe in _SAFE:
        for quoted in (quote(value, safe=safe), quote(value, safe=f"{safe} ").replace(" ", "+")):
            yield quoted
            yield _small_escapes(quoted)


def _small_escapes(quoted: str) -> str:
    first, *others = quoted.split("%")
    return "%".join([first, *(each[:2].lower() + each[2:] for each in others)])


def _in_json(value: str) -> Iterator[str]:
    for each in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield each
        yield each.replace("/", "\\/")
        careful = each
        for letter in "<>&'":
            careful = careful.replace(letter, f"\\u{ord(letter):04x}")
        yield careful
        # JSON that is a text in JSON.
        yield json.dumps(each)[1:-1]


def _in_html(value: str) -> Iterator[str]:
    yield html.escape(value, quote=False)
    escaped = html.escape(value)
    yield escaped
    yield escaped.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    yield escaped.replace("&#x27;", "'")


def _base64_cores(secret: bytes) -> Iterator[str]:
    """What base64 makes of a secret wherever it begins in what is encoded: `user:secret` too.

    Letters at either end that also hold bits of a neighbour are left out.
    """
    for before in range(3):
        first = -(-before * 8 // 6)
        last = (before + len(secret)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(before) + secret).decode()[first:last]


def _without_code(text: str, core: str, mark: str) -> str:
    """A text with each run of base64 that holds a secret replaced as a whole."""
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
