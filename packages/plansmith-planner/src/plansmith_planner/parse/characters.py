"""Character classes of malformed JSON: quotes, white space, bare words and escapes."""

from __future__ import annotations

import json
import math
import re
import string
from typing import Final, cast

import msgspec

from plansmith.plan.data import Json
from plansmith.text import SURROGATES

DOUBLE: Final = '"“”„‟″＂'
SINGLE: Final = "'‘’‛`´＇"
OPENING_QUOTES: Final = frozenset("\"“”„＂'‘’`´＇")
OPENERS: Final = {"{": "{", "[": "[", "(": "(", "｛": "{", "［": "["}
CLOSERS: Final = {"}": "{", "]": "[", ")": "(", "｝": "{", "］": "["}
COMMAS: Final = frozenset(",，;；、")
COLONS: Final = frozenset(":：=")
_COLON = "(?:[:：]|=>?|->)"
COLON: Final = re.compile(_COLON)

_SPACE = r"[\s\x00-\x20\u200b-\u200f\u2060\ufeff]"
GAP: Final = re.compile(
    rf"(?:{_SPACE}+|//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|#(?![0-9a-fA-F]{{3,8}}\b)[^\n]*)*"
)
# Characters that begin no gap: most calls need no search.
_SOLID = frozenset("{}[](),:=\"'“”") | frozenset(string.ascii_letters + string.digits)
ELLIPSIS: Final = re.compile(r"\.\.\.+|…+")
REGEX_LITERAL: Final = re.compile(r"/(?:[^/\\\n]|\\.){1,500}/[a-z]*")
CALL: Final = re.compile(r"(?:new\s+)?[A-Za-z_$][\w$.]{0,80}\s*\(")
SIMPLE_CALL: Final = re.compile(
    r"""(?:new\s+)?[A-Za-z_$][\w$.]{0,80}\(\s*+("[^"\\\n]*"|'[^'\\\n]*'|[-+.\w]*)\s*\)"""
    r"(?=\s*(?:[,;}\])\n]|/[/*]|\Z))"
)
STRING_PREFIX: Final = re.compile(r"[fFrRbBuU]{1,2}(?=([\"'])[^\"'\n]*\1\s*[,}\])\n])")

_QUOTED_KEY = (
    r"\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|[“”][^“”\n]{0,200}[“”\"]|[‘’`][^‘’`\n]{0,200}[‘’`']"
)
QUOTED_KEY: Final = re.compile(rf"{_SPACE}*\\?(?:{_QUOTED_KEY}){_SPACE}*{_COLON}")
BARE_KEY: Final = re.compile(
    rf"{_SPACE}*[\w$][\w$.-]{{0,80}}(?: [\w$.-]{{1,40}}){{0,2}}[\"']?{_SPACE}*(?:[:：](?!//)|=>?)"
)
WORD_KEY: Final = re.compile(rf"{_SPACE}*[\w$][\w$.-]{{0,80}}{_SPACE}*[:：](?!//)")
QUOTED: Final = re.compile(_QUOTED_KEY)
# Strings whose end is certain by what follows, so that no quote needs to be judged.
_STRING = r"(?:\"[^\"\\]+\"|'[^'\\]+')"
_LAST_STRING = r"(?:\"[^\"\\{\[(]+\"|'[^'\\{\[(]+')(?=\s*[}\]]\s*[,}\]])"
CERTAIN_KEY: Final = re.compile(rf"{_STRING}(?=\s*:)")
CERTAIN_VALUE: Final = re.compile(rf"{_STRING}(?=\s*,\s*[\"'])|{_LAST_STRING}")
CERTAIN_ITEM: Final = re.compile(rf"{_STRING}(?=\s*,)|{_LAST_STRING}")
# A word or several after a quote, up to the end of the field or, if spaced, to the next string.
_FIELD_END = rf"\n|[}}\]]|\Z|[,，;]\s*(?:[\"'“‘}}\]]|\Z|[\w$.-]+\s*{_COLON})"
BARE_VALUE: Final = re.compile(
    r"\s*(?!\.\.\.)[^\s\"'“”‘’`:：=,，;{}\[\]()+\\]"
    r"(?:[^\"“”:：=,，;{}\[\]\n]|:(?=//)|(?<=\d):(?=\d\d)){0,200}?"
    rf"(?=\s*(?:{_FIELD_END})|(?<=\s)[\"'“‘])"
)

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d*)?([eE][+-]?\d+)?|-?\.\d+([eE][+-]?\d+)?")
_OPEN_EXPONENT = re.compile(r"(-?(?:0|[1-9]\d*)(?:\.\d*)?)[eE][+-]?|-")
_UNDERSCORED = re.compile(r"-?\d[\d_]*(?:\.[\d_]*\d)?")
GROUPED: Final = re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?(?!,\d|[.\w])")
_LITERALS: Final[dict[str, Json]] = {
    "true": True,
    "false": False,
    "null": None,
    "none": None,
    "undefined": None,
    "nan": None,
    "infinity": None,
    "-infinity": None,
    "+infinity": None,
    "-nan": None,
}
_CASED = frozenset({"undefined", "NaN", "-NaN", "Infinity", "-Infinity", "+Infinity"})
_MAX_INT_DIGITS = 1000
_ESCAPES: Final = {
    "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/",
}  # fmt: skip
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[\s\S]|\Z)")
_WORD = re.compile(r"[A-Za-z]+")
_REGEX_CLASSES = frozenset("dDwWsSBAzZpPhHRXGkKNQECvxuU")
_KEPT = frozenset(".()[]{}*+?^$|-%_&#~,;:!<>=@ ")
# LaTeX commands whose first letter is also a JSON escape: "\theta" is not a tab and "heta".
_LATEX = frozenset([
    "bar", "begin", "beta", "big", "bigg", "binom", "bmod", "boldsymbol", "bot", "boxed", "bullet",
    "flat", "forall", "frac", "nabla", "neg", "neq", "ngeq", "nleq", "notin", "nu", "nsubseteq",
    "rangle", "rceil", "rfloor", "rho", "right", "rightarrow", "tan", "tanh", "tau", "text",
    "textbf", "textit", "tfrac", "therefore", "theta", "tilde", "times", "triangle",
])  # fmt: skip
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_CALL_COST: Final = 16


def bare_value(word: str) -> Json:
    """Returns the meaning of an unquoted word: a number, a literal, or its own text."""
    lowered = word.lower()
    if lowered in _LITERALS and (len(lowered) <= len("false") and lowered != "nan"):
        return _LITERALS[lowered]
    if word in _CASED:
        return None
    return number(word)


def number(word: str) -> int | float | str:
    """Returns a finite number if the word is one, else the word itself."""
    found = _NUMBER.fullmatch(word)
    if found:
        whole = "." not in word and "e" not in word and "E" not in word
        if whole and len(word) <= _MAX_INT_DIGITS:
            return int(word)
        value = float(word)
        return value if math.isfinite(value) else word
    found = _OPEN_EXPONENT.fullmatch(word)
    if found:
        return number(found[1]) if found[1] else 0
    if "_" in word and _UNDERSCORED.fullmatch(word):
        return number(word.replace("_", ""))
    return word


def after_gap(text: str, position: int, end: int) -> int:
    """Returns the next place that is neither white space nor a comment."""
    if position < end and text[position] in _SOLID:
        return position
    found = GAP.match(text, position, end)
    return found.end() if found else position


def closers_of(quote: str) -> str:
    """Returns the characters that may close a string which `quote` opened."""
    if quote in "\"'":
        return quote
    return DOUBLE if quote in DOUBLE else SINGLE


def unescape(raw: str) -> str:
    """Resolves the JSON escapes of a string; keeps other backslashes."""
    if "\\" not in raw:
        return clean(raw)
    parts: list[str] = []
    position = 0
    for found in _ESCAPE.finditer(raw):
        parts.append(raw[position : found.start()])
        parts.append(_escaped(raw, found))
        position = found.end()
    parts.append(raw[position:])
    return clean("".join(parts))


def _escaped(raw: str, found: re.Match[str]) -> str:
    code = found[1]
    if not code:
        return ""
    if len(code) > 1:
        return chr(int(code[1:], 16))
    word = _WORD.match(raw, found.start() + 1)
    if code in _ESCAPES:
        return "\\" + code if word and word[0] in _LATEX else _ESCAPES[code]
    if word:
        keep = len(word[0]) > 1 or code in _REGEX_CLASSES
        return "\\" + code if keep else code
    return "\\" + code if code in _KEPT or code.isdigit() else code


def clean(text: str) -> str:
    """Joins surrogate pairs, and replaces lone surrogates by U+FFFD."""
    if text.isascii() or not SURROGATES.search(text):
        return text
    joined = _PAIR.sub(
        lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text
    )
    return SURROGATES.sub("\ufffd", joined)


def _no_value(_word: str) -> None:
    return None


def _finite(word: str) -> float | str:
    value = float(word)
    return value if math.isfinite(value) else word


_decode = msgspec.json.Decoder().decode
# Reads what is in no standard, and says where a value ends.
_DECODER = json.JSONDecoder(parse_constant=_no_value, parse_float=_finite)


class Source:
    """A text, and how many of its characters may still be read again."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.budget = 8 * len(text) + 4096
        self._patience = 64 * len(text) + 65536

    def strict_at(self, start: int) -> tuple[Json, int] | None:
        """Returns the well-formed container at a place and its end, or None."""
        if self._patience < 0:
            return None
        try:
            value, end = _DECODER.raw_decode(self.text, start)
        except json.JSONDecodeError as error:
            # The error message counts lines from the start; an unclosed string was read to the end.
            far = len(self.text) if error.msg.startswith("Unterminated") else error.pos
            self._patience -= far + _CALL_COST
            return None
        except (ValueError, RecursionError):
            self._patience -= len(self.text)
            return None
        return _scrubbed(value, self.text[start:end]), end


def document(text: str) -> Json:
    """Parses the text as one JSON document; raises ValueError if it is not."""
    try:
        return cast("Json", _decode(text))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        # Ill-formed, or with NaN, lone surrogates or numbers beyond floats.
        return _scrubbed(_DECODER.decode(text), text)


def _scrubbed(value: Json, text: str) -> Json:
    """Returns the value without lone surrogates, which UTF-8 cannot hold."""
    if "\\ud" not in text and "\\uD" not in text and not SURROGATES.search(text):
        return value
    holder: list[Json] = [value]
    stack: list[list[Json] | dict[str, Json]] = [holder]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            pairs = [(clean(key), _clean(child)) for key, child in node.items()]
            node.clear()
            node.update(pairs)
        else:
            node[:] = [_clean(child) for child in node]
        children = node.values() if isinstance(node, dict) else node
        stack.extend(child for child in children if isinstance(child, (dict, list)))
    return holder[0]


def _clean(value: Json) -> Json:
    return clean(value) if isinstance(value, str) else value
