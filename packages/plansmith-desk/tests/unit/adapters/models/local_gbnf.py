"""A reader of GBNF that writes random texts of a grammar: what a decoder could be let to write."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<set>\[(?:[^\]\\]|\\.)*\])"""
    r"""|(?P<name>[a-zA-Z][\w-]*)|(?P<times>\{\d*,?\d*\}|[*+?])|(?P<sign>[()|]))"""
)
ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
SAMPLE = "aZ09 .,-_/:é中😀'@#"


@dataclass
class Node:
    kind: str
    text: str = ""
    parts: tuple[Node, ...] = ()
    low: int = 1
    high: int | None = 1


def parse_grammar(text: str) -> dict[str, Node]:
    rules: dict[str, Node] = {}
    for line in text.splitlines():
        name, _, expression = line.partition(" ::= ")
        tokens = [
            (m.lastgroup or "", m.group(m.lastgroup or 0)) for m in TOKEN.finditer(expression)
        ]
        assert TOKEN.sub("", expression).strip() == "", line
        node, rest = _choice(tokens)
        assert not rest, line
        rules[name] = node
    return rules


def _choice(tokens: list[tuple[str, str]]) -> tuple[Node, list[tuple[str, str]]]:
    parts = []
    while True:
        part, tokens = _sequence(tokens)
        parts.append(part)
        if not tokens or tokens[0] != ("sign", "|"):
            return Node("choice", parts=tuple(parts)), tokens
        tokens = tokens[1:]


def _sequence(tokens: list[tuple[str, str]]) -> tuple[Node, list[tuple[str, str]]]:
    parts: list[Node] = []
    while tokens and tokens[0] not in (("sign", "|"), ("sign", ")")):
        (kind, text), tokens = tokens[0], tokens[1:]
        if kind == "times":
            parts[-1].low, parts[-1].high = _times(text)
        elif kind == "sign":
            inner, tokens = _choice(tokens)
            assert tokens[0] == ("sign", ")")
            parts.append(Node("group", parts=(inner,)))
            tokens = tokens[1:]
        else:
            parts.append(Node(kind, text))
    return Node("sequence", parts=tuple(parts)), tokens


def _times(text: str) -> tuple[int, int | None]:
    if text in "*+?":
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[text]
    low, comma, high = text[1:-1].partition(",")
    return int(low or 0), (int(high) if high else None) if comma else int(low)


class Writer:
    """Random texts; deep in recursion it takes the shortest way out."""

    def __init__(self, rules: dict[str, Node], seed: int) -> None:
        self.rules = rules
        self.random = random.Random(seed)
        self.cost: dict[str, float] = dict.fromkeys(rules, float("inf"))
        for _ in range(len(rules) + 1):
            before = dict(self.cost)
            for name, node in rules.items():
                self.cost[name] = min(self.cost[name], 1 + self._cost(node))
            if before == self.cost:
                break

    def _cost(self, node: Node) -> float:
        if node.low == 0:
            return 0
        match node.kind:
            case "choice":
                return min(map(self._cost, node.parts))
            case "sequence" | "group":
                return max(map(self._cost, node.parts), default=0)
            case "name":
                return self.cost[node.text]
            case _:
                return 0

    def write(self, name: str = "root", depth: int = 0) -> str:
        return self._write(self.rules[name], depth + 1)

    def _write(self, node: Node, depth: int) -> str:
        deep = depth > 14
        high = node.high if node.high is not None else node.low + 3
        times = node.low if deep else self.random.randint(node.low, min(high, node.low + 3))
        if not deep and node.high is not None and self.random.random() < 0.1:
            times = node.high
        return "".join(self._once(node, depth, deep=deep) for _ in range(times))

    def _once(self, node: Node, depth: int, *, deep: bool) -> str:
        match node.kind:
            case "choice":
                pool = list(node.parts)
                least = min(map(self._cost, pool))
                pick = [part for part in pool if self._cost(part) == least] if deep else pool
                return self._write(self.random.choice(pick), depth)
            case "sequence" | "group":
                return "".join(self._write(part, depth) for part in node.parts)
            case "name":
                return self.write(node.text, depth)
            case "text":
                return unescape(node.text[1:-1])
            case _:
                return self.random.choice(members(node.text[1:-1]))


def unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        sign = found[1]
        return chr(int(sign[1:], 16)) if sign[0] == "x" else ESCAPES.get(sign, sign)

    return re.sub(r"\\(x[0-9a-f]{2}|.)", one, text)


def members(body: str) -> list[str]:
    denied = body.startswith("^")
    signs = re.findall(r"\\x[0-9a-f]{2}|\\.|.", body[denied:], re.DOTALL)
    found: list[str] = []
    place = 0
    while place < len(signs):
        if place + 2 < len(signs) and signs[place + 1] == "-":
            first, last = ord(unescape(signs[place])), ord(unescape(signs[place + 2]))
            found += map(chr, range(first, last + 1))
            place += 3
        else:
            found.append(unescape(signs[place]))
            place += 1
    return [each for each in SAMPLE if each not in found] if denied else found
