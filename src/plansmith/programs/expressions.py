"""Writes values, references and conditions of plans as Python expressions that cannot break out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from plansmith.errors import Refused
from plansmith.plan.conditions import LENGTH, condition_text, operand_text
from plansmith.plan.data import Json
from plansmith.plan.refs import FIRST, FROM, LITERAL, Ref, first_refs, pieces, ref_of
from plansmith.plan.sentence import Sentence

WIDTH: Final = 96
_SECRET: Final = re.compile(r"\$\{secret:([A-Za-z0-9][A-Za-z0-9_.-]{0,63})\}")
_OPERATORS: Final = {"in": "is_in"}


class Group(NamedTuple):
    """An expression in brackets; each part has what stands before it, such as a key."""

    head: str
    parts: tuple[tuple[str, Node], ...]
    tail: str


Node = str | Group


def call(function: str, *parts: Node, **named: Node) -> Group:
    """Returns the call of a function."""
    given = [("", each) for each in parts]
    return Group(f"{function}(", (*given, *((f"{key}=", each) for key, each in named.items())), ")")


def sequence(parts: Iterable[Node]) -> Node:
    """Returns a tuple."""
    found = list(parts)
    if len(found) == 1:
        return f"({_line(found[0])},)"
    return Group("(", tuple(("", each) for each in found), ")") if found else "()"


def table(parts: Mapping[str, Node]) -> Node:
    """Returns an object with these expressions by key."""
    return Group("{", tuple((f"{quoted(key)}: ", each) for key, each in parts.items()), "}")


def written(node: Node, indent: int = 0, used: int = 0) -> str:
    """Returns an expression as text, over several lines if it is long."""
    line = _line(node)
    if isinstance(node, str) or (indent + used + len(line) <= WIDTH and "\n" not in line):
        return line
    inner = " " * (indent + 4)
    lines = [
        f"{inner}{key}{written(each, indent + 4, len(key) + 1)},\n" for key, each in node.parts
    ]
    return f"{node.head}\n{''.join(lines)}{' ' * indent}{node.tail}"


def _line(node: Node) -> str:
    if isinstance(node, str):
        return node
    return node.head + ", ".join(key + _line(each) for key, each in node.parts) + node.tail


def quoted(text: str) -> str:
    """Returns a text as a Python literal of one line, with everything unusual escaped."""
    found = repr(str(text))
    is_simple = found.startswith("'") and '"' not in found and "\\'" not in found
    return f'"{found[1:-1]}"' if is_simple else found


def literal(value: Json) -> Node:
    """Returns a JSON value as a Python literal."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return Group("[", tuple(("", literal(each)) for each in value), "]")
    if isinstance(value, dict):
        return table({key: literal(each) for key, each in value.items()})
    return repr(value)


class Expressions:
    """Writes expressions; `secrets` are the variables of the environment that hold them."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = secrets
        self.used: dict[str, str] = {}

    def value(self, template: Json, *, private: bool = False) -> Node:
        """Returns a template with references as an expression; `private` may name secrets."""
        if isinstance(template, str):
            return self._string(template, private=private)
        if isinstance(template, list):
            items = tuple(("", self.value(each, private=private)) for each in template)
            return Group("[", items, "]")
        if isinstance(template, dict):
            return self._object(template, private=private)
        return repr(template)

    def _object(self, template: dict[str, Json], *, private: bool) -> Node:
        if FROM in template:
            ref = ref_of(template)
            if ref is None:
                raise Refused(Sentence("export.bad_reference"), hint="plansmith check")
            return _at(ref)
        if template.keys() == {LITERAL}:
            # Secrets are put into the plan's own text, wherever that stands.
            return self._literal(template[LITERAL]) if private else literal(template[LITERAL])
        if FIRST in template:
            refs = first_refs(template)
            if not refs:
                raise Refused(Sentence("export.bad_first"), hint="plansmith check")
            return call("first", "v", *map(_ref, refs))
        return table({key: self.value(each, private=private) for key, each in template.items()})

    def _literal(self, value: Json) -> Node:
        if isinstance(value, str):
            return self._joined([value], private=True)
        if isinstance(value, list):
            return Group("[", tuple(("", self._literal(each)) for each in value), "]")
        if isinstance(value, dict):
            return table({key: self._literal(each) for key, each in value.items()})
        return literal(value)

    def _string(self, template: str, *, private: bool) -> Node:
        parts = pieces(template)
        if len(parts) == 1 and isinstance(parts[0], Ref):
            return _at(parts[0])
        return self._joined(parts, private=private)

    def text(self, template: str) -> Node:
        """Returns a text with references, which is always a text."""
        return self._joined(pieces(template), private=False)

    def _joined(self, parts: Sequence[str | Ref], *, private: bool) -> Node:
        nodes: list[Node] = []
        for each in parts:
            if isinstance(each, Ref):
                nodes.append(_ref(each))
            else:
                nodes += self._plain(each) if private else [quoted(each)]
        if len(parts) == len(nodes) == 1 and isinstance(parts[0], str):
            return nodes[0]
        if all(isinstance(each, str) and each[0] in "\"'" for each in nodes):
            return quoted("".join(each for each in parts if isinstance(each, str)))
        return call("text", "v", *nodes)

    def _plain(self, text: str) -> list[Node]:
        found: list[Node] = []
        for place, each in enumerate(_SECRET.split(text)):
            if place % 2:
                known = self._secrets.get(each, "")
                variable = known or re.sub(r"[^A-Za-z0-9]", "_", each).upper()
                self.used[each] = variable
                found.append(call("secret", quoted(each), quoted(variable)))
            elif each:
                found.append(quoted(each))
        return found or [quoted("")]

    def condition(self, condition: Json) -> Node:
        """Returns a condition as an expression."""
        if not isinstance(condition, dict) or len(condition) != 1:
            raise Refused(Sentence("export.bad_condition"), hint="plansmith check")
        name, given = next(iter(condition.items()))
        items = given if isinstance(given, list) else [given]
        if name in ("all", "any"):
            return _joined_by(" and " if name == "all" else " or ", map(self.condition, items))
        if name == "not":
            return f"not {_line(self.condition(given))}"
        if name == "empty":
            return call("empty", self._operand(given), said=quoted(operand_text(given)))
        left, right = map(self._operand, items)
        said = quoted(condition_text(condition))
        return call(_OPERATORS.get(name, name), left, right, said=said)

    def _operand(self, operand: Json) -> Node:
        if isinstance(operand, dict) and operand.keys() == {LENGTH}:
            inner = operand[LENGTH]
            return call("length", self.value(inner), said=quoted(operand_text(inner)))
        return self.value(operand)


def _joined_by(word: str, nodes: Iterable[Node]) -> str:
    """Joins conditions, so that later ones are not looked at in vain."""
    # No `Group`: over several lines it would end with a comma, and be a tuple.
    lines = [_line(each) for each in nodes]
    return f"({word.join(lines)})" if len(lines) > 1 else lines[0]


def _at(ref: Ref) -> Group:
    return call("at", "v", quoted(ref.step), *(_key(each) for each in ref.path))


def _ref(ref: Ref) -> Group:
    return call("ref", quoted(ref.step), *(_key(each) for each in ref.path))


def _key(key: str | int) -> str:
    return quoted(key) if isinstance(key, str) else repr(key)
