"""Writes values, references and conditions of plans as Python expressions that cannot break out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from textwrap import indent
from typing import Final

from plansmith.errors import Refused
from plansmith.plan.conditions import LENGTH, condition_text, operand_text
from plansmith.plan.data import Json
from plansmith.plan.refs import FIRST, FROM, LITERAL, Ref, first_refs, pieces, ref_of
from plansmith.plan.sentence import Sentence

WIDTH: Final = 80
_SECRET: Final = re.compile(r"\$\{secret:([A-Za-z0-9][A-Za-z0-9_.-]{0,63})\}")


def group(head: str, parts: Iterable[str], tail: str) -> str:
    """Returns parts in brackets; over several lines if they are long."""
    found = list(parts)
    line = f"{head}{', '.join(found)}{tail}"
    if not found or (len(line) <= WIDTH and "\n" not in line):
        return line
    inner = indent("".join(f"{each},\n" for each in found), "    ")
    return f"{head}\n{inner}{tail}"


def call(function: str, *parts: str, **named: str) -> str:
    """Returns the call of a function."""
    return group(f"{function}(", [*parts, *(f"{key}={each}" for key, each in named.items())], ")")


def sequence(parts: Iterable[str]) -> str:
    """Returns a tuple."""
    found = list(parts)
    return f"({found[0]},)" if len(found) == 1 else group("(", found, ")")


def table(parts: Mapping[str, str]) -> str:
    """Returns an object with these expressions by key."""
    return group("{", (f"{quoted(key)}: {each}" for key, each in parts.items()), "}")


def quoted(text: str) -> str:
    """Returns a text as a Python literal of one line, with everything unusual escaped."""
    found = repr(str(text))
    is_simple = found.startswith("'") and '"' not in found and "\\'" not in found
    return f'"{found[1:-1]}"' if is_simple else found


def literal(value: Json) -> str:
    """Returns a JSON value as a Python literal."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return group("[", map(literal, value), "]")
    if isinstance(value, dict):
        return table({key: literal(each) for key, each in value.items()})
    return repr(value)


class Expressions:
    """Writes expressions; `secrets` are the variables of the environment that hold them."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = secrets
        self.used: dict[str, str] = {}

    def value(self, template: Json, *, private: bool = False) -> str:
        """Returns a template with references as an expression; `private` may name secrets."""
        if isinstance(template, str):
            parts = pieces(template)
            if len(parts) == 1 and isinstance(parts[0], Ref):
                return _at(parts[0])
            return self._joined(parts, private=private)
        if isinstance(template, list):
            return group("[", (self.value(each, private=private) for each in template), "]")
        if isinstance(template, dict):
            return self._object(template, private=private)
        return repr(template)

    def _object(self, template: dict[str, Json], *, private: bool) -> str:
        if FROM in template:
            ref = ref_of(template)
            if ref is None:
                raise Refused(
                    Sentence("a reference of this plan cannot be read"), hint="plansmith check"
                )
            return _at(ref)
        if template.keys() == {LITERAL}:
            # Secrets are put into the plan's own text, wherever that stands.
            return self._literal(template[LITERAL]) if private else literal(template[LITERAL])
        if FIRST in template:
            refs = first_refs(template)
            if not refs:
                raise Refused(
                    Sentence("a $first of this plan cannot be read"), hint="plansmith check"
                )
            return call("first", "v", *map(_ref, refs))
        return table({key: self.value(each, private=private) for key, each in template.items()})

    def _literal(self, value: Json) -> str:
        if isinstance(value, str):
            return self._joined([value], private=True)
        if isinstance(value, list):
            return group("[", map(self._literal, value), "]")
        if isinstance(value, dict):
            return table({key: self._literal(each) for key, each in value.items()})
        return literal(value)

    def text(self, template: str) -> str:
        """Returns a text with references, which is always a text."""
        return self._joined(pieces(template), private=False)

    def _joined(self, parts: Sequence[str | Ref], *, private: bool) -> str:
        has_secret = private and any(isinstance(p, str) and _SECRET.search(p) for p in parts)
        if not has_secret and not any(isinstance(each, Ref) for each in parts):
            return quoted("".join(map(str, parts)))
        found: list[str] = []
        for each in parts:
            if isinstance(each, Ref):
                found.append(_ref(each))
            else:
                found += self._plain(each) if private else [quoted(each)]
        return call("text", "v", *found)

    def _plain(self, text: str) -> list[str]:
        """Returns a text in parts: what it says, and secrets."""
        found: list[str] = []
        for place, each in enumerate(_SECRET.split(text)):
            if place % 2:
                known = self._secrets.get(each, "")
                variable = known or re.sub(r"[^A-Za-z0-9]", "_", each).upper()
                self.used[each] = variable
                found.append(call("secret", quoted(each), quoted(variable)))
            elif each:
                found.append(quoted(each))
        return found

    def condition(self, condition: Json) -> str:
        """Returns a condition as an expression."""
        if not isinstance(condition, dict) or len(condition) != 1:
            raise Refused(
                Sentence("a condition of this plan cannot be read"), hint="plansmith check"
            )
        name, given = next(iter(condition.items()))
        items = given if isinstance(given, list) else [given]
        if name in ("all", "any"):
            # Joined, so that later ones are not looked at in vain.
            word = " and " if name == "all" else " or "
            return f"({word.join(map(self.condition, items))})"
        if name == "not":
            return f"not {self.condition(given)}"
        if name == "empty":
            return call("empty", self._operand(given), quoted(operand_text(given)))
        left, right = map(self._operand, items)
        return call("is_so", left, quoted(name), right, quoted(condition_text(condition)))

    def _operand(self, operand: Json) -> str:
        if isinstance(operand, dict) and operand.keys() == {LENGTH}:
            inner = operand[LENGTH]
            return call("length", self.value(inner), quoted(operand_text(inner)))
        return self.value(operand)


def _at(ref: Ref) -> str:
    return call("at", "v", quoted(ref.step), *map(_key, ref.path))


def _ref(ref: Ref) -> str:
    return call("ref", quoted(ref.step), *map(_key, ref.path))


def _key(key: str | int) -> str:
    return quoted(key) if isinstance(key, str) else repr(key)
