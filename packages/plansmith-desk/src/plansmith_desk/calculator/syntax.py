"""Reads and computes the calculator's expressions; no Python code is ever evaluated."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

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
_GROUPED: Final = r"\d{1,3}(?:,\d{3}){1,20}(?![\d,])(?:\.\d+)?"
_TOKEN: Final = re.compile(
    rf"(?P<number>{_GROUPED}|(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d{{1,9}})?)"
    r"|(?P<name>[^\W\d]\w*)|(?P<sign>\*\*|//|[-+*/^%(),!√])|(?P<strange>\S)",
    re.ASCII,
)
# As Python writes them; a sign after a number becomes a function of it.
_SIGNS: Final = {
    "^": "**",
    "mod": "%",
    "√": "~",
    "%": "percent",
    "!": "factorial",
    "of": "*",
    "plus": "+",
    "minus": "-",
    "times": "*",
}
_WAITING: Final = ("+", "-", "*", "/", "//", "%", "**", "~")
# How people and models write the signs, beside those of the keyboard.
_KEYBOARD: Final = str.maketrans(
    dict(zip("×·÷−–", "**/--", strict=True))
    | {"π": " pi ", "²": "^2", "³": "^3"}
    | {chr(0xFEE0 + code): chr(code) for code in range(0x21, 0x7F)}
)
_MONEY: Final = re.compile(r"[$€£¥￥]|美元|欧元|英镑|日元|元|块钱|块")
_AMOUNT: Final = r"(?<![\d,.])(\d[\d,.]*)"
# How people write it, as the signs that are read; the longer ones first.
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


def compute(text: str, values: Mapping[str, Value]) -> Num:
    """Returns the value of an expression, exact where possible."""
    return _Expression(_plain(text), values).result()


class _Expression:
    """An expression, rewritten with Python's signs, whose syntax tree is then walked.

    Only names and signs are in it: numbers are called n0, n1, …, and a value x is called _x.
    """

    def __init__(self, text: str, values: Mapping[str, Value]) -> None:
        self._text = text
        self._known: dict[str, Value] = {f"_{name}": value for name, value in values.items()}
        self._depth = self._count = 0
        # Of each open bracket, where it begins and whether it is that of a function.
        self._open: list[tuple[int, bool]] = []

    def result(self) -> Num:
        source = self._rewritten()
        if not source or source[-1] in _WAITING:
            raise ToolFailed(
                Sentence(
                    "the expression ends too early" if source else "there is nothing to compute"
                )
            )
        if self._open:
            raise ToolFailed(Sentence("a bracket is not closed"))
        try:
            tree = ast.parse(" ".join(source), mode="eval")
        except SyntaxError:
            raise self._misread("calc.operator") from None
        except (MemoryError, RecursionError):
            raise _too_deep() from None
        return self._value(tree.body)

    def _rewritten(self) -> list[str]:
        source: list[str] = []
        start, before = 0, ""  # where the last number, name or bracket begins, with its roots
        for match in _TOKEN.finditer(self._text):
            piece = self._piece(match)
            self._check_order(before, piece)
            if piece in _AFTER:
                source[start:start] = [piece, "("]
                source.append(")")
            elif piece == "(":
                is_function = bool(source) and source[-1].startswith("_")
                start = start if is_function else _with_roots(source, len(source))
                self._open.append((start, is_function))
                # Brackets stay in the tree: what is in them is no percent of what is before.
                source += ["("] if is_function else ["group", "(("]
            elif piece == ")":
                start, is_function = self._open.pop()
                source.append(")" if is_function else "))")
            else:
                if piece == "**" and source[start : start + 1] == ["~"]:
                    source[start:] = ["(", *source[start:], ")"]
                source += piece.split()
                if piece[0] in "n_":
                    start = _with_roots(source, len(source) - 1)
            before = piece
        return source

    def _check_order(self, before: str, piece: str) -> None:
        """Refuses what Python would read in another way, or not as clearly."""
        if before == "percent" and piece[0] in "n_(~":
            hint = Sentence("write 10 mod 3 for a remainder, 15% of 80 for a share")
            raise ToolFailed(Sentence("% means percent, and nothing can follow it here"), hint=hint)
        if before == piece == "factorial":
            raise ToolFailed(Sentence("two signs in a row could mean two things: use brackets"))
        is_after_none = piece in _AFTER and not re.match(r"[\w)]", before)
        if is_after_none or (before == "~" and piece in ("+", "-")):
            raise self._misread("calc.operator")
        if piece == ")" and not self._open:
            raise self._misread("calc.closes_none")
        if len(self._open) > _DEEPEST:
            raise _too_deep()

    def _piece(self, match: re.Match[str]) -> str:
        token = match[0]
        if match["strange"]:
            hint = "numbers, + - * / // ^ %, mod, of, brackets, functions and names of values"
            raise ToolFailed(Sentence("'{text}' is not understood", text=token), hint=hint)
        if match["number"]:
            # In the brackets of a function a comma stands between two numbers.
            in_function = any(is_function for _, is_function in self._open)
            parts = token.split(",") if in_function else [token.replace(",", "")]
            first, self._count = self._count, self._count + len(parts)
            names = [f"n{number}" for number in range(first, self._count)]
            self._known |= dict(zip(names, map(literal, parts), strict=True))
            return " , ".join(names)
        if match["name"] and (f"_{token}" in self._known or token not in _SIGNS):
            return f"_{token}"
        return _SIGNS.get(token, token)

    def _value(self, node: ast.expr) -> Num:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _too_deep()
        chain: list[ast.BinOp] = []
        while isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Pow):
            chain.append(node)
            node = node.left
        found = self._part(node)
        for each in reversed(chain):
            right = self._value(each.right)
            if right.is_percent and isinstance(each.op, ast.Add | ast.Sub):
                right = found * right  # as on a pocket calculator: 200 + 15% is 230
            found = _BINARY[type(each.op)](found, right)
        self._depth -= 1
        return found

    def _part(self, node: ast.expr) -> Num:
        match node:
            case ast.Name(id=name):
                return self._named(name)
            case ast.UnaryOp(op=sign, operand=inner):
                return _UNARY[type(sign)](self._value(inner))
            case ast.BinOp(left=left, right=right):
                return power(self._value(left), self._value(right))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name[0] == "_":
                return self._called(name[1:], args)
            case ast.Call(func=ast.Name(id=name), args=[inner]) if name in _AFTER:
                return _AFTER[name](self._value(inner))
            case _:
                is_list = isinstance(node, ast.Tuple)
                raise self._misread("calc.decimals" if is_list else "calc.operator")

    def _named(self, name: str) -> Num:
        word = name.removeprefix("_").lower()
        value = self._known.get(name, CONSTANTS.get(word))
        if isinstance(value, Num):
            return value
        if value is not None:
            hint = Sentence("sum(…) or mean(…) of it")
            raise ToolFailed(Sentence("a list is given where a number is needed"), hint=hint)
        if word in FUNCTIONS:
            hint = Sentence("write {name}(…)", name=word)
            raise ToolFailed(Sentence("{name} is a function", name=word), hint=hint)
        values = {each[1:] for each in self._known if each[0] == "_"}
        raise _unknown("calc.absent_value", name[1:], {*CONSTANTS, *values})

    def _called(self, name: str, arguments: list[ast.expr]) -> Num:
        """Returns the value of a function; a list counts as its numbers."""
        if name.lower() not in FUNCTIONS:
            raise _unknown("calc.absent_function", name, {*FUNCTIONS})
        given: list[Num] = []
        for each in arguments:
            listed = self._known.get(each.id) if isinstance(each, ast.Name) else None
            given += listed if isinstance(listed, list) else [self._value(each)]
        return FUNCTIONS[name.lower()].apply(name.lower(), given)

    def _misread(self, why: str) -> ToolFailed:
        shown = self._text.strip()[:60]
        return ToolFailed(Sentence("'{text}' is not understood", text=shown), hint=Sentence(why))


_BINARY: Final[dict[type[ast.operator], Callable[[Num, Num], Num]]] = {
    ast.Add: Num.__add__,
    ast.Sub: Num.__sub__,
    ast.Mult: Num.__mul__,
    ast.Div: Num.__truediv__,
    ast.FloorDiv: lambda left, right: FUNCTIONS["floor"].work(left / right),
    ast.Mod: Num.__mod__,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Num], Num]]] = {
    ast.UAdd: lambda number: number,
    ast.USub: Num.__neg__,
    ast.Invert: lambda number: root(number, 2),
}
_AFTER: Final[dict[str, Callable[[Num], Num]]] = {
    "percent": lambda number: replace(number / num(100), is_percent=True),
    "factorial": factorial,
    "group": lambda number: replace(number, is_percent=False),
}


def _with_roots(source: list[str], start: int) -> int:
    """Returns where a part begins: a root sign is of what follows it alone."""
    while start and source[start - 1] == "~":
        start -= 1
    return start


def _too_deep() -> ToolFailed:
    return ToolFailed(Sentence("it is nested more than {most} deep", most=_DEEPEST))


def _plain(text: str) -> str:
    """Returns an expression in signs: Chinese and English words and money marks are read."""
    text = text.translate(_KEYBOARD)
    marks = {"¥" if mark in ("￥", "元", "块", "块钱") else mark for mark in _MONEY.findall(text)}
    if len(marks) > 1:
        raise ToolFailed(Sentence("two currencies are in one expression"))
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


def _unknown(code: str, name: str, known: set[str]) -> ToolFailed:
    names = sorted(known)
    listed = Sentence("known: {names}", names=", ".join(names)[:300])
    return ToolFailed(Sentence(code, name=name), hint=did_you_mean(name, names, otherwise=listed))
