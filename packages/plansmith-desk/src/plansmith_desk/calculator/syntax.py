"""Parses and computes the calculator's expressions; no Python code is ever evaluated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from plansmith.errors import ToolFailed
from plansmith.lazy import lazy_pattern
from plansmith.plan.sentence import Sentence, did_you_mean
from plansmith_desk.calculator import numbers
from plansmith_desk.calculator.numbers import CONSTANTS, FUNCTIONS, Num, factorial

Value = Num | list[Num]
_DEEPEST: Final = 40
_GROUPED: Final = r"\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?"
_TOKEN: Final = re.compile(
    rf"(?P<grouped>{_GROUPED})"
    r"|(?P<number>(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d{1,9})?)"
    r"|(?P<name>[^\W\d]\w*)|(?P<sign>\*\*|//|[-+*/^%(),!√])",
    re.ASCII,
)
_OPERATORS: Final = {"**": "^", "of": "*", "plus": "+", "minus": "-", "times": "*"}
# How people and models write the signs, beside those of the keyboard.
_SIGNS: Final = str.maketrans(
    {
        "×": "*",
        "·": "*",
        "÷": "/",
        "−": "-",
        "–": "-",
        "π": " pi ",
        "²": "^2",
        "³": "^3",
        **{chr(0xFEE0 + code): chr(code) for code in range(0x21, 0x7F)},
    }
)


class _Token(NamedTuple):
    kind: str  # number, name, sign or end
    text: str
    place: int


class _Operand(NamedTuple):
    value: Value
    percent: bool = False


def compute(text: str, values: Mapping[str, Value]) -> Num:
    """Returns the value of an expression, exact where possible."""
    return _Reader(text, values).result()


class _Reader:
    """A recursive parser: one method per level, from the weakest operator to the strongest."""

    def __init__(self, text: str, values: Mapping[str, Value]) -> None:
        self._text = plain(text)
        self._values = values
        self._tokens = _tokens(self._text)
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
        return _single(found.value)

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

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ToolFailed(
                Sentence("it is nested more than {most} deep", most=_DEEPEST),
                hint=Sentence("split it up"),
            )

    def _sum(self) -> _Operand:
        self._deeper()
        left = self._product()
        while sign := self._take("+", "-"):
            base, operand = _single(left.value), self._product()
            right = _single(operand.value)
            if operand.percent:
                # As on a pocket calculator: 200 + 15% is 230.
                right = numbers.kept(base.value * right.value, base, right)
            value = base.value + right.value if sign == "+" else base.value - right.value
            left = _Operand(numbers.kept(value, base, right))
        self._depth -= 1
        return left

    def _product(self) -> _Operand:
        left = self._unary()
        while sign := self._take("*", "/", "//", "mod"):
            base, right = _single(left.value), _single(self._unary().value)
            if sign == "*":
                found = numbers.kept(base.value * right.value, base, right)
            elif sign == "mod":
                found = numbers.modulo(base, right)
            else:
                found = numbers.divide(base, right)
            if sign == "//":
                found = Num(Fraction(found.value.__floor__()), found.sure)
            left = _Operand(found)
        return left

    def _unary(self) -> _Operand:
        negative = False
        while sign := self._take("+", "-"):
            negative ^= sign == "-"
        found = self._power()
        if not negative:
            return found
        number = _single(found.value)
        return _Operand(Num(-number.value, number.sure), found.percent)

    def _power(self) -> _Operand:
        base = self._postfix()
        if not self._take("^"):
            return base
        self._deeper()
        exponent = self._unary()
        self._depth -= 1
        return _Operand(numbers.power(_single(base.value), _single(exponent.value)))

    def _postfix(self) -> _Operand:
        found = _Operand(self._primary())
        while sign := self._take("%", "!"):
            number = _single(found.value)
            if sign == "!":
                found = _Operand(factorial(number))
                if self._token.text == "!":
                    hint = Sentence("write (3!)! for the factorial of one")
                    raise ToolFailed(Sentence("!! could mean two things"), hint=hint)
                continue
            found = _Operand(numbers.kept(number.value / 100, number), percent=True)
            self._refuse_remainder()
        return found

    def _refuse_remainder(self) -> None:
        token = self._token
        follows = token.kind in ("number", "name") and token.text not in _WORDS
        if follows or token.text in ("(", "√"):
            hint = Sentence("write 10 mod 3 for a remainder, 15% of 80 for a share")
            raise ToolFailed(Sentence("% means percent, and nothing can follow it here"), hint=hint)

    def _primary(self) -> Value:
        token = self._token
        if token.kind == "number":
            self._at += 1
            return numbers.literal(token.text)
        if token.kind == "name":
            return self._named()
        if self._take("√"):
            self._deeper()
            under = _single(self._primary())
            self._depth -= 1
            return numbers.root(under, 2)
        if self._take("("):
            found = self._sum().value
            self._close()
            return found
        raise self._unexpected()

    def _named(self) -> Value:
        token = self._token
        self._at += 1
        if token.text in self._values:
            return self._values[token.text]
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

    def _arguments(self) -> list[Value]:
        found: list[Value] = []
        if self._take(")"):
            return found
        while True:
            found.append(self._sum().value)
            if self._take(","):
                continue
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
        hints = {
            ",": "calc.decimals",
            ")": "calc.closes_none",
        }
        near = self._text[max(0, token.place - 20) : token.place + 20].strip()
        hint = Sentence(hints.get(token.text, "calc.operator"))
        return ToolFailed(
            Sentence("'{text}' is not expected in '{near}'", text=token.text, near=near), hint=hint
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
        match = _TOKEN.match(text, at) if not any(calls) else _UNGROUPED.match(text, at)
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


_UNGROUPED: Final = re.compile(_TOKEN.pattern.replace(_GROUPED, r"(?!)"), re.ASCII)
_WORDS: Final = ("of", "mod", "plus", "minus", "times")
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


def plain(text: str) -> str:
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


def ungrouped(text: str) -> str:
    """Returns a number without the commas of its thousands; any other text as it is."""
    return text.replace(",", "") if re.fullmatch(rf"[+-]?{_GROUPED}", text) else text


def _single(value: Value) -> Num:
    if isinstance(value, list):
        raise ToolFailed(
            Sentence("a list is given where a number is needed"),
            hint=Sentence("sum(…) or mean(…) of it"),
        )
    return value


def _unknown(code: str, name: str, known: Mapping[str, object]) -> ToolFailed:
    listed = Sentence("known: {names}", names=", ".join(sorted(known))[:300])
    hint = did_you_mean(name, known, otherwise=listed)
    return ToolFailed(Sentence(code, name=name), hint=hint)
