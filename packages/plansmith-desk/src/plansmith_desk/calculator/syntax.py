"""Reads and computes the calculator's expressions; no Python code is ever evaluated."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from plansmith.errors import ToolFailed
from plansmith.lazy import lazy_pattern
from plansmith.plan.sentence import Sentence, did_you_mean
from plansmith_desk.calculator import numbers as n
from plansmith_desk.calculator.numbers import Num
from plansmith_planner.language.numbers import in_signs

Value = Num | list[Num]
_DEEPEST: Final = 40
_GROUPED: Final = r"\d{1,3}(?:,\d{3}){1,20}(?![\d,])(?:\.\d+)?"
_TOKEN: Final = re.compile(
    rf"(?:{_GROUPED}|(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d{{1,9}})?)"
    r"|[^\W\d]\w*|\*\*|//|[-+*/^%(),!√]|(?P<strange>\S)",
    re.ASCII,
)
_WORDS: Final = {"^": "**", "mod": "%%", "of": "*", "plus": "+", "minus": "-", "times": "*"}
# How strongly a sign binds, and what it does.
_SIGNS: Final[Mapping[str, tuple[int, Callable[[Num, Num], Num]]]] = {
    "+": (1, Num.__add__),
    "-": (1, Num.__sub__),
    "*": (2, Num.__mul__),
    "/": (2, Num.__truediv__),
    "//": (2, lambda left, right: n.FUNCTIONS["floor"].work(left / right)),
    "%%": (2, Num.__mod__),
}
# How people and models write the signs, beside those of the keyboard.
_KEYBOARD: Final = str.maketrans(
    dict(zip("×·÷−–", "**/--", strict=True))
    | {"π": " pi ", "²": "^2", "³": "^3"}
    | {chr(0xFEE0 + code): chr(code) for code in range(0x21, 0x7F)}
)
_MONEY: Final = re.compile(r"[$€£¥￥]|美元|欧元|英镑|日元|元|块钱|块")
_ASKED: Final = lazy_pattern(r"(?<!\s)\s*+(?:等于(?:多少|几)?|是多少|=)\s*+\??\s*+$")


def compute(text: str, values: Mapping[str, Value]) -> Num:
    """Returns the value of an expression, exact where possible."""
    return _Reader(_plain(text), values).result()


class _Reader:
    """Computes an expression while it is read; each method reads one part of it."""

    def __init__(self, text: str, values: Mapping[str, Value]) -> None:
        self._text, self._values = text, values
        self._tokens: list[str] = []
        self._at = self._depth = self._functions = 0
        for match in _TOKEN.finditer(text):
            if match["strange"]:
                hint = "numbers, + - * / // ^ %, mod, of, brackets, functions and names of values"
                raise ToolFailed(Sentence("'{text}' is not understood", text=match[0]), hint=hint)
            word = match[0]
            self._tokens.append(word if word in values else _WORDS.get(word, word))

    def result(self) -> Num:
        if not self._tokens:
            raise ToolFailed(Sentence("there is nothing to compute"))
        found = self._sum()
        if self._next:
            why = {",": "calc.decimals", ")": "calc.closes_none"}
            raise self._misread(why.get(self._next, "calc.operator"))
        return found

    @property
    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _sum(self, least: int = 1) -> Num:
        """Reads parts with signs between them that bind at least so strongly."""
        found = self._signed()
        while (sign := self._next) in _SIGNS and _SIGNS[sign][0] >= least:
            rank, work = _SIGNS[sign]
            self._at += 1
            right = self._sum(rank + 1)
            # As on a pocket calculator: 200 + 15% is 230.
            found = work(found, found * right if right.is_percent and rank == 1 else right)
        return found

    def _signed(self) -> Num:
        """Reads a part with its sign and its power: -2 ^ 2 is -4."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _too_deep()
        sign = self._next
        if sign in ("+", "-"):
            self._at += 1
            found = -self._signed() if sign == "-" else self._signed()
        else:
            found = self._marked()
            if self._next == "**":
                self._at += 1
                found = n.power(found, self._signed())
        self._depth -= 1
        return found

    def _marked(self) -> Num:
        """Reads a part with the roots before it, which are of it alone, and % and ! behind it."""
        roots, before = self._at, ""
        while self._next == "√":
            self._at += 1
        roots = self._at - roots
        if roots > _DEEPEST:
            raise _too_deep()
        found = self._single()
        for _ in range(roots):
            found = n.root(found, 2)
        while (sign := self._next) in ("%", "!"):
            if before == sign == "!":
                raise ToolFailed(Sentence("two signs in a row could mean two things: use brackets"))
            self._at += 1
            hundredth = sign == "%"
            found = (
                replace(found / n.num(100), is_percent=True) if hundredth else n.factorial(found)
            )
            before = sign
        if before == "%" and re.match(r"[\w.(√]", self._next):
            hint = Sentence("write 10 mod 3 for a remainder, 15% of 80 for a share")
            raise ToolFailed(Sentence("% means percent, and nothing can follow it here"), hint=hint)
        return found

    def _single(self) -> Num:
        """Reads a number, a name, a function with its arguments, or brackets."""
        part = self._next
        self._at += 1
        if re.match(r"[\d.]", part):
            if self._functions and "," in part:
                # In the brackets of a function a comma stands between two numbers.
                self._tokens[self._at - 1 : self._at] = re.split("(,)", part)
                part = self._tokens[self._at - 1]
            return n.literal(part.replace(",", ""))
        if re.match(r"\w", part):
            return self._call(part) if self._next == "(" else self._value(part)
        if part == "(":
            found = self._sum()
            if self._next == ",":
                raise self._misread("calc.decimals")
            self._close()
            return replace(found, is_percent=False)
        if not part:
            raise ToolFailed(Sentence("the expression ends too early"))
        raise self._misread("calc.operator")

    def _close(self) -> None:
        if not self._next:
            raise ToolFailed(Sentence("a bracket is not closed"))
        if self._next != ")":
            raise self._misread("calc.operator")
        self._at += 1

    def _call(self, name: str) -> Num:
        """Returns the value of a function; a list counts as its numbers."""
        if name.lower() not in n.FUNCTIONS:
            raise _unknown("calc.absent_function", name, {*n.FUNCTIONS})
        self._functions += 1
        given: list[Num] = []
        self._at += 1
        while self._next != ")":
            listed = self._values.get(self._next)
            if isinstance(listed, list) and self._tokens[self._at + 1 :][:1] in ([","], [")"]):
                given += listed
                self._at += 1
            else:
                given.append(self._sum())
            if self._next != ",":
                break
            self._at += 1
        self._functions -= 1
        self._close()
        return n.FUNCTIONS[name.lower()].apply(name.lower(), given)

    def _value(self, name: str) -> Num:
        value = self._values.get(name, n.CONSTANTS.get(name.lower()))
        if isinstance(value, Num):
            return value
        if value is not None:
            hint = Sentence("sum(…) or mean(…) of it")
            raise ToolFailed(Sentence("a list is given where a number is needed"), hint=hint)
        if (word := name.lower()) in n.FUNCTIONS:
            hint = Sentence("write {name}(…)", name=word)
            raise ToolFailed(Sentence("{name} is a function", name=word), hint=hint)
        raise _unknown("calc.absent_value", name, {*n.CONSTANTS, *self._values})

    def _misread(self, why: str) -> ToolFailed:
        text = self._text.strip()[:60]
        return ToolFailed(Sentence("'{text}' is not understood", text=text), hint=Sentence(why))


def _too_deep() -> ToolFailed:
    return ToolFailed(Sentence("it is nested more than {most} deep", most=_DEEPEST))


def _plain(text: str) -> str:
    """Returns an expression in signs: Chinese and English words and money marks are read."""
    text = text.translate(_KEYBOARD)
    marks = {"¥" if mark in ("￥", "元", "块", "块钱") else mark for mark in _MONEY.findall(text)}
    if len(marks) > 1:
        raise ToolFailed(Sentence("two currencies are in one expression"))
    text = _MONEY.sub("", text)
    text = in_signs(_ASKED.sub("", text)).replace("的", " of ")
    if "除" in text:
        hint = Sentence("write 除以: 100 除以 4 is 25")
        raise ToolFailed(Sentence("除 alone could be read both ways"), hint=hint)
    return text


def amount(given: object) -> Num:
    """Returns a JSON number exactly as it is written, 0.1 is one tenth; or one in a text."""
    text = repr(given) if isinstance(given, int | float) else str(given).strip()
    if re.fullmatch(rf"[+-]?{_GROUPED}", text):
        text = text.replace(",", "")
    try:
        return n.literal(text)
    except ValueError:
        hint = Sentence("give digits with a point, without a unit")
        raise ToolFailed(Sentence("'{text}' is not a number", text=text[:40]), hint=hint) from None


def _unknown(code: str, name: str, known: set[str]) -> ToolFailed:
    names = sorted(known)
    listed = Sentence("known: {names}", names=", ".join(names)[:300])
    return ToolFailed(Sentence(code, name=name), hint=did_you_mean(name, names, otherwise=listed))
