"""Reads requests that are nothing but arithmetic, in signs and in words."""

from __future__ import annotations

import re
from typing import Final

from plansmith.lazy import lazy_pattern
from plansmith.plan.data import Json
from plansmith.plan.refs import escape_text
from plansmith_planner.instant.call import InstantCall, found
from plansmith_planner.instant.numerals import NUMBER, digits

_LEAD: Final = lazy_pattern(
    r"(?:(?:what(?:'s| is| are| does| do| would be)|how much (?:is|are|does|do|would)|whats"
    r"|calculate|compute|work out|evaluate|solve|figure out|find|give me|get)"
    r"(?: the (?:value|result|answer) (?:of|to|for))?\s+"
    r"|(?:计算|算|求|得出)(?:一下|算|出)?\s*[:：]?\s*|=\s*)",
    re.IGNORECASE,
)
_TAIL: Final = lazy_pattern(
    r"(?<!\s)(?:\s++(?:(?:equals?|equal to|come to|makes?)(?: (?:what|how much))?"
    r"|is (?:what|how much))"
    r"|\s*+(?:(?:的(?:结果|值|答案))?\s*+(?:一共|总共)?\s*+(?:是|等于|得|=|为|有)\s*+(?:多少|几|什么)?"
    r"|的(?:结果|值|答案)|多少))$",
    re.IGNORECASE,
)
# Operators and functions with what the calculator calls them; longer words first.
_SIGNS: Final = (
    (r"\*\*|\^|\bto the power(?: of)?\b", "^"),
    (r"//", "//"),
    (r"[+＋]|\bplus\b|加上|加", "+"),
    (r"[-−–]|\bminus\b|\bless\b|减去|减", "-"),
    (r"[*×·✕]|\btimes\b|\bmultiplied by\b|(?<=[\d)%\s])x(?=[\s\d(])|乘以|乘", "*"),
    (r"[/÷]|\bdivided by\b|除以", "/"),
    (r"\bmod(?:ulo)?\b", " mod "),
    (r"(?:percent|per cent)\b|%", "%"),
    (r"\bsquared\b|²|的?平方(?!根)", "^2"),
    (r"\bcubed\b|³|的?立方(?!根)", "^3"),
    (r"\bfactorial\b|!|的阶乘", "!"),
    (r"[()]", ""),
)
_ROOTS: Final = (
    (r"(?:the )?(?:square root of|sqrt(?: of)?|根号)\s*", "sqrt"),
    (r"√", "sqrt"),
    (r"(?:the )?cube root of\s*", "cbrt"),
    (r"(?:the )?natural log(?:arithm)? of\s*|ln(?: of)?\s*(?=[(\d])", "ln"),
    (r"log10\s*(?=\()|(?:the )?log of\s*", "log10"),
    (r"(?:the )?factorial of\s*", "factorial"),
    (r"(?:the )?(?:absolute value of|abs)\s*", "abs"),
)
_HAN_ROOT: Final = lazy_pattern(r"\s?的平方根")
_HAN_SHARE: Final = lazy_pattern(r"\s?的\s?(?=百分之|\d[\d.]*\s?%)")
_PERCENT_OF: Final = lazy_pattern(r"(?:%|percent|per cent)\s*of\s+(?:the\s+)?", re.IGNORECASE)
_HAN_PERCENT: Final = lazy_pattern(rf"百分之\s?({NUMBER})")
_HAN_FRACTION: Final = lazy_pattern(rf"({NUMBER})分之({NUMBER})")
_TOKEN_NUMBER: Final = lazy_pattern(rf"[$€£¥￥]?({NUMBER})", re.IGNORECASE)
_TOKENS: Final = tuple((lazy_pattern(each, re.IGNORECASE), sign) for each, sign in _SIGNS)
_PREFIXES: Final = tuple((lazy_pattern(each, re.IGNORECASE), name) for each, name in _ROOTS)
# Dates, telephone numbers, addresses and phrases that only look like a sum.
_OTHER: Final = lazy_pattern(
    r"\d{4}-\d{1,2}-\d{1,2}|\d{1,4}[/-]\d{1,2}[/-]\d{1,4}|\+?\d{1,3}-\d{3}-\d{3,4}(?:-\d+)?"
    r"|\d{3}-\d{4}|24/7|24x7|24\*7|9[/-]11|7[/-]11|50[/-]50|80/20|20/20|9-5|996|4/20|\d{4}-\d{2,4}"
    r"|\d{4}/\d{1,2}|\d{1,2}/\d{4}"
)
_BARE: Final = lazy_pattern(r"\d{1,4}\s?[-/–]\s?\d{1,4}")
_SIGNED: Final = lazy_pattern(r"[-+]\d[\d.]*")  # an amount, or someone who agrees
_MONEY: Final = lazy_pattern(r"[$€£¥￥]")
_WORDED: Final = lazy_pattern(r"[A-Za-z]{2,}(?![A-Za-z0-9]*\()|[\u4e00-\u9fff]")


def read_arithmetic(text: str, *, chinese: bool) -> InstantCall | None:
    """Returns the call for a text that is nothing but arithmetic; None for anything else."""
    if len(set(_MONEY.findall(text))) > 1:
        return None  # what one currency is in another changes every day
    led = _LEAD.match(text)
    body = text[led.end() :] if led else text
    tail = _TAIL.search(body)
    asked = led is not None or tail is not None or text.endswith("=")
    core = (body[: tail.start()] if tail else body).strip()
    if _OTHER.fullmatch(core) or (not asked and _BARE.fullmatch(core)):
        return None
    inputs: dict[str, Json] = {"expression": expression(core)}
    says = _sentence(core, chinese=chinese)
    call = InstantCall("arithmetic", "calculator.compute", inputs, says)
    return call if inputs["expression"] else None


def _sentence(core: str, *, chinese: bool) -> str:
    """Returns the sentence that tells the result, in the words of the request."""
    said, money = core.strip(), _MONEY.findall(core)
    value = (money[0] if len(money) == 1 else "") + found("text")
    # Reports are Markdown, in which an asterisk would get a backslash.
    shown = escape_text(said.replace("**", "^").replace("*", "×"))
    if not _WORDED.search(said):
        return f"{shown} = {value}"
    return f"{shown}是 {value}。" if chinese else f"{shown[0].upper()}{shown[1:]} is {value}."


def expression(text: str) -> str:
    """Returns a text as an expression of the calculator; empty if anything else is in it."""
    plain = _HAN_SHARE.sub(" * ", _PERCENT_OF.sub("% * ", text))
    plain = _HAN_FRACTION.sub(_fraction, _HAN_PERCENT.sub(r"\1%", plain))
    rooted = _HAN_ROOT.sub("", plain)
    if rooted != plain:
        plain = f"√({rooted})"
    parts, at, has_sign = _Parts(), 0, False
    while at < len(plain):
        if plain[at] == " ":
            at += 1
            continue
        step = parts.take(plain, at)
        if step is None:
            return ""
        at, has_sign = step[0], has_sign or step[1]
    written = parts.written() if has_sign else ""
    return "" if _SIGNED.fullmatch(written) else written


def _fraction(match: re.Match[str]) -> str:
    below, above = digits(match[1]), digits(match[2])
    return f"({above}/{below})" if above and below else match[0]


class _Parts:
    """The pieces of an expression, in the calculator's own signs."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._after_value = False
        self._open = 0  # brackets that a function word opened around the next value

    def take(self, text: str, at: int) -> tuple[int, bool] | None:
        """Takes the next piece; returns where it ends and whether it is a sign."""
        if not self._after_value:
            for pattern, name in _PREFIXES:
                match = pattern.match(text, at)
                if match and match.end() > at:
                    self._parts.append(f"{name}(")
                    self._open += 1
                    return match.end(), True
        number = _TOKEN_NUMBER.match(text, at)
        if number is not None and not self._after_value:
            value = digits(number[1])
            if not value:
                return None
            self._value(value)
            return number.end(), False
        for pattern, sign in _TOKENS:
            match = pattern.match(text, at)
            if match is not None:
                fits = self._sign(sign or match[0])
                return (match.end(), sign not in ("", "%")) if fits else None
        return None

    def _value(self, text: str) -> None:
        self._parts.append(text + ")" * self._open)
        self._open, self._after_value = 0, True

    def _sign(self, sign: str) -> bool:
        """Adds a sign where it may stand; tells whether it may."""
        if sign == "(":
            if self._after_value or self._open:
                # A function's own bracket is closed by the person's.
                if self._after_value:
                    return False
                self._open -= 1
                self._parts.append("")
                return True
            self._parts.append("(")
            return True
        if sign in ("+", "-") and not self._after_value:
            self._parts.append(sign)
            return True
        if not self._after_value:
            return False
        self._parts.append(sign if sign in (")", "%", "!", "^2", "^3") else f" {sign.strip()} ")
        self._after_value = sign in (")", "%", "!", "^2", "^3")
        return True

    def written(self) -> str:
        return "".join(self._parts) if self._after_value and not self._open else ""
