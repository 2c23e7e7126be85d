"""Parses and computes the calculator's expressions; no Python code is ever evaluated."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from plansmith.errors import ToolFailed
from plansmith.lazy import lazy_pattern
from plansmith.plan.sentence import Sentence, did_you_mean
from plansmith_desk.calculator.numbers import (
    CONSTANTS,
    FUNCTIONS,
    Num,
    factorial,
    literal,
    num,
    power,
    root,
)

Value = Num | list[Num]
_DEEPEST: Final = 40
_GROUPED: Final = r"\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?"
_TOKEN: Final = re.compile(
    rf"(?P<grouped>{_GROUPED})"
    r"|(?P<number>(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d{1,9})?)"
    r"|(?P<name>[^\W\d]\w*)|(?P<sign>\*\*|//|[-+*/^%(),!√])",
    re.ASCII,
)
_UNGROUPED: Final = re.compile(_TOKEN.pattern.replace(_GROUPED, r"(?!)"), re.ASCII)
_OPERATORS: Final = {"**": "^", "of": "*", "plus": "+", "minus": "-", "times": "*"}
_WORDS: Final = ("of", "mod", "plus", "minus", "times")
# How people and models write the signs, beside those of the keyboard.
_SIGNS: Final = str.maketrans(
    dict(zip("×·÷−–", "**/--", strict=True))
    | {"π": " pi ", "²": "^2", "³": "^3"}
    | {chr(0xFEE0 + code): chr(code) for code in range(0x21, 0x7F)}
)
_MONEY: Final = re.compile(r"[$€£¥￥]|美元|欧元|英镑|日元|元|块钱|块")
_AMOUNT: Final = r"(?<![\d,.])(\d[\d,.]*)"
# How people write it, as the signs that the parser reads; the longer ones first.
_SPOKEN: Final = tuple(
    (lazy_pattern(pattern, re.IGNORECASE), instead)
    for pattern, instead in (
        (r"(?<!\s)\s*+(?:等于(?:多少|几)?|是多少|=)\s*+\??\s*+$", ""),
        (rf"百分之\s*{_AMOUNT}", r"\1%"),
        (rf"{_AMOUNT}\s*万亿", r"(\1*10^12)"),
        (rf"{_AMOUNT}\s*亿", r"(\1*10^8)"),
        (rf"{_AMOUNT}\s*万", r"(\1*10^4)"),
        (rf"{_AMOUNT}\s*的\s*平方根", r"sqrt(\1)"),
        (r"(?<!\s)\s*+的?\s*+平方", "^2"),
        (r"(?<!\s)\s*+的?\s*+立方", "^3"),
        (rf"(?<!\s)\s*+的\s*+{_AMOUNT}\s*+次方", r"^\1"),
        (r"根号", "√"),
        (r"\bdivided\s+by\b|除以", "/"),
        (r"\bmultiplied\s+by\b|乘以|乘上|乘", "*"),
        (r"加上|加", "+"),
        (r"减去|减", "-"),
        (r"的", " of "),
        (r"(?<=\d)\s*x\s*(?=\d)", "*"),
    )
)


class _Token(NamedTuple):
    kind: str  # number, name, sign or end
    text: str
    place: int


def compute(text: str, values: Mapping[str, Value]) -> Num:
    """Returns the value of an expression, exact where possible."""
    return _Parser(_plain(text), values).result()


class _Parser:
    """A recursive parser: one method per level, from the weakest operator to the strongest."""

    def __init__(self, text: str, values: Mapping[str, Value]) -> None:
        self._text = text
        self._values = values
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0

    def result(self) -> Num:
        if self._token.kind == "end":
            raise ToolFailed(
                Sentence("there is nothing to compute"), hint=Sentence("give an expression")
            )
        found = self._sum()
        if self._token.kind != "end":
            raise self._unexpected()
        return found

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> str:
        """Consumes the next token if it is one of these operators; else returns an empty text."""
        token = self._token
        text = _OPERATORS.get(token.text, token.text)
        if token.kind == "number" or token.text in self._values or text not in texts:
            return ""
        self._at += 1
        return text

    def _nested(self, read: Callable[[], Num]) -> Num:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ToolFailed(
                Sentence("it is nested more than {most} deep", most=_DEEPEST),
                hint=Sentence("split it up"),
            )
        found = read()
        self._depth -= 1
        return found

    def _sum(self) -> Num:
        left = self._product()
        while sign := self._take("+", "-"):
            right = self._product()
            if right.is_percent:
                # As on a pocket calculator: 200 + 15% is 230.
                right = left * right
            left = left + right if sign == "+" else left - right
        return left

    def _product(self) -> Num:
        left = self._unary()
        while sign := self._take("*", "/", "//", "mod"):
            right = self._unary()
            if sign == "*":
                left = left * right
            elif sign == "mod":
                left = left % right
            else:
                left = left / right
            if sign == "//":
                left = FUNCTIONS["floor"].work(left)
        return left

    def _unary(self) -> Num:
        negative = False
        while sign := self._take("+", "-"):
            negative ^= sign == "-"
        found = self._power()
        return -found if negative else found

    def _power(self) -> Num:
        base = self._postfix()
        return power(base, self._nested(self._unary)) if self._take("^") else base

    def _postfix(self) -> Num:
        found = self._primary()
        while sign := self._take("%", "!"):
            if sign == "%":
                found = replace(found / num(100), is_percent=True)
                self._refuse_remainder()
                continue
            found = factorial(found)
            if self._token.text == "!":
                hint = Sentence("write (3!)! for the factorial of one")
                raise ToolFailed(Sentence("!! could mean two things"), hint=hint)
        return found

    def _refuse_remainder(self) -> None:
        token = self._token
        follows = token.kind in ("number", "name") and token.text not in _WORDS
        if follows or token.text in ("(", "√"):
            hint = Sentence("write 10 mod 3 for a remainder, 15% of 80 for a share")
            raise ToolFailed(Sentence("% means percent, and nothing can follow it here"), hint=hint)

    def _primary(self) -> Num:
        token = self._token
        if token.kind == "number":
            self._at += 1
            return literal(token.text)
        if token.kind == "name":
            return self._named()
        if self._take("√"):
            return root(self._nested(self._primary), 2)
        if self._take("("):
            found = self._nested(self._sum)
            self._close()
            return replace(found, is_percent=False)
        raise self._unexpected()

    def _named(self) -> Num:
        token = self._token
        self._at += 1
        if token.text in self._values:
            value = self._values[token.text]
            if isinstance(value, list):
                hint = Sentence("sum(…) or mean(…) of it")
                raise ToolFailed(Sentence("a list is given where a number is needed"), hint=hint)
            return value
        name = token.text.lower()
        if self._take("("):
            if name not in FUNCTIONS:
                raise _unknown("calc.absent_function", token.text, FUNCTIONS)
            return FUNCTIONS[name].apply(name, self._arguments())
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in FUNCTIONS:
            raise ToolFailed(
                Sentence("{name} is a function", name=name),
                hint=Sentence("write {name}(…)", name=name),
            )
        raise _unknown("calc.absent_value", token.text, {**CONSTANTS, **self._values})

    def _arguments(self) -> list[Num]:
        """Reads the arguments of a function; a list counts as its numbers."""
        found: list[Num] = []
        if self._take(")"):
            return found
        while True:
            value = self._values.get(self._token.text)
            if isinstance(value, list) and self._tokens[self._at + 1].text in (",", ")"):
                self._at += 1
                found += value
            else:
                found.append(self._nested(self._sum))
            if not self._take(","):
                self._close()
                return found

    def _close(self) -> None:
        if not self._take(")"):
            if self._token.kind == "end":
                raise ToolFailed(Sentence("a bracket is not closed"), hint=Sentence("add )"))
            raise self._unexpected()

    def _unexpected(self) -> ToolFailed:
        token = self._token
        if token.kind == "end":
            return ToolFailed(
                Sentence("the expression ends too early"), hint=Sentence("complete it")
            )
        hints = {",": "calc.decimals", ")": "calc.closes_none"}
        near = self._text[max(0, token.place - 20) : token.place + 20].strip()
        return ToolFailed(
            Sentence("'{text}' is not expected in '{near}'", text=token.text, near=near),
            hint=Sentence(hints.get(token.text, "calc.operator")),
        )


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    calls: list[bool] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        # In the brackets of a function a comma stands between two numbers.
        match = (_UNGROUPED if any(calls) else _TOKEN).match(text, at)
        if match is None:
            hint = Sentence(
                "numbers, + - * / // ^ %, mod, of, brackets, functions and names of values"
            )
            raise ToolFailed(Sentence("'{text}' is not understood", text=text[at]), hint=hint)
        token = _Token(str(match.lastgroup), match.group(), at)
        if token.kind == "grouped":
            token = _Token("number", token.text.replace(",", ""), at)
        if token.text == "(":
            calls.append(bool(found) and found[-1].kind == "name" and found[-1].text not in _WORDS)
        elif token.text == ")" and calls:
            calls.pop()
        found.append(token)
        at = match.end()
    return [*found, _Token("end", "", at)]


def _plain(text: str) -> str:
    """Returns an expression in signs: Chinese and English words and money marks are read."""
    text = text.translate(_SIGNS)
    marks = {"¥" if mark in ("￥", "元", "块", "块钱") else mark for mark in _MONEY.findall(text)}
    if len(marks) > 1:
        raise ToolFailed(
            Sentence("two currencies are in one expression"),
            hint=Sentence("convert one of them first"),
        )
    text = _MONEY.sub("", text)
    for pattern, instead in _SPOKEN:
        text = pattern.sub(instead, text)
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
        return literal(text)
    except ValueError:
        hint = Sentence("give digits with a point, without a unit")
        raise ToolFailed(Sentence("'{text}' is not a number", text=text[:40]), hint=hint) from None


def _unknown(code: str, name: str, known: Mapping[str, object]) -> ToolFailed:
    listed = Sentence("known: {names}", names=", ".join(sorted(known))[:300])
    return ToolFailed(Sentence(code, name=name), hint=did_you_mean(name, known, otherwise=listed))
