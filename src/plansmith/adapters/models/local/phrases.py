"""The parts every grammar of JSON is made of: literals, texts, numbers, dates and the like."""

from __future__ import annotations

import json
from typing import Final

from plansmith.plan.data import Json

_DAY: Final = (
    '(("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01])'
    ' | ("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30")'
    ' | "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8]))'
)
_LEAP_DAY: Final = '[0-9]{2} ("0" [48] | [2468] [048] | [13579] [26]) "-02-29"'
_HOUR: Final = '([01] [0-9] | "2" [0-3])'
_OFFSET: Final = f'("Z" | [+-] {_HOUR} ":" [0-5] [0-9])'
_WORD: Final = '[a-zA-Z0-9]+ ("-" [a-zA-Z0-9]+){0,4}'
_OCTET: Final = '("25" [0-5] | "2" [0-4] [0-9] | "1" [0-9]{2} | [1-9] [0-9] | [0-9])'

# Rules that may be named in expressions; each is written out only when it is used.
RULES: Final = {
    "ws": '" "?',
    "char": '[^"\\\\\\x00-\\x1f\\x7f] | "\\\\" ["\\\\/bfnrt]',
    "string": '"\\"" char* "\\""',
    "whole": '"-"? ("0" | [1-9] [0-9]{0,14})',
    "number": 'whole ("." [0-9]{1,12})?',
    "boolean": '"true" | "false"',
    "null": '"null"',
    "value": "object | array | string | number | boolean | null",
    "array": '"[" ws (value ("," ws value)*)? "]"',
    "object": '"{" ws (pair ("," ws pair)*)? "}"',
    "pair": 'string ":" ws value',
    "day": f'[0-9]{{4}} "-" {_DAY} | {_LEAP_DAY}',
    "moment": f'{_HOUR} ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{{1,6}})? {_OFFSET}',
    "date": '"\\"" day "\\""',
    "time": '"\\"" moment "\\""',
    "date-time": '"\\"" day "T" moment "\\""',
    "email": f'"\\"" {_WORD} ("." {_WORD}){{0,4}} "@" {_WORD} ("." {_WORD}){{1,4}} "\\""',
    "ipv4": f'"\\"" {_OCTET} ("." {_OCTET}){{3}} "\\""',
    "uuid": '"\\"" hex{8} "-" hex{4} "-" hex{4} "-" hex{4} "-" hex{12} "\\""',
    "uri": f'"\\"" ("http" "s"? | "ftp" | "file") "://" {_WORD} ("." {_WORD}){{0,6}} path "\\""',
    "hostname": f'"\\"" {_WORD} ("." {_WORD}){{0,6}} "\\""',
    "uri-reference": '"\\"" [a-zA-Z0-9._~-]+ path "\\""',
    "path": '("/" [a-zA-Z0-9._~-]*)* ("?" [a-zA-Z0-9._~=&+-]*)?',
    "hex": "[0-9a-fA-F]",
}
FORMATS: Final = frozenset(
    ("date", "time", "date-time", "email", "hostname", "ipv4", "uuid", "uri", "uri-reference")
)
USES: Final = {
    "string": ("char",),
    "number": ("whole",),
    "value": ("object", "array", "string", "number", "boolean", "null"),
    "array": ("ws", "value"),
    "object": ("ws", "pair"),
    "pair": ("string", "ws", "value"),
    "date": ("day",),
    "time": ("moment",),
    "date-time": ("day", "moment"),
    "uuid": ("hex",),
    "uri": ("path",),
    "uri-reference": ("path",),
}


def literal(text: str) -> str:
    """A text that has to stand exactly so."""
    return '"' + "".join(_ESCAPED.get(each) or _plain(each) for each in text) + '"'


_ESCAPED: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _plain(character: str) -> str:
    return character if character >= " " else f"\\x{ord(character):02x}"


def exactly(value: Json) -> str:
    """A JSON value that has to stand exactly so."""
    return literal(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
