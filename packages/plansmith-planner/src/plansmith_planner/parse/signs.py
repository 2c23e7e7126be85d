"""The signs and patterns by which malformed JSON is read."""

from __future__ import annotations

import re
from typing import Final

OPENING_QUOTES: Final = frozenset("\"“”„＂'‘’`´＇")
OPENERS: Final = {"{": "{", "[": "[", "(": "(", "｛": "{", "［": "["}
CLOSERS: Final = {"}": "{", "]": "[", ")": "(", "｝": "{", "］": "["}
COMMAS: Final = frozenset(",，;；、")
COLONS: Final = frozenset(":：=")
ENDS: Final = COMMAS | COLONS | CLOSERS.keys()
PAIRS: Final = {"{": "}", "[": "]", "(": ")"}
COLON = re.compile("(?:[:：]|=>?|->)")
SPACE = r"[\s\x00-\x20\u200b-\u200f\u2060\ufeff]"
GAP: Final = re.compile(
    rf"(?:{SPACE}+|//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|#(?![0-9a-fA-F]{{3,8}}\b)[^\n]*)*"
)
ELLIPSIS = re.compile(r"\.\.\.+|…+")
REGEX_LITERAL: Final = re.compile(r"/(?:[^/\\\n]|\\.){1,500}/[a-z]*")
SIMPLE_CALL = re.compile(
    r"""(?:new\s+)?[A-Za-z_$][\w$.]{0,80}\(\s*+("[^"\\\n]*"|'[^'\\\n]*'|[-+.\w]*)\s*\)"""
    r"(?=\s*(?:[,;}\])\n]|/[/*]|\Z))"
)
QUOTED = re.compile(
    r"\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|[“”][^“”\n]{0,200}[“”\"]|[‘’`][^‘’`\n]{0,200}[‘’`']"
)
QUOTED_KEY: Final = re.compile(rf"{SPACE}*\\?(?:{QUOTED.pattern}){SPACE}*{COLON.pattern}")
ANOTHER_FIELD: Final = re.compile(rf"{SPACE}*,{QUOTED_KEY.pattern}")
BARE_KEY = re.compile(
    rf"{SPACE}*[\w$][\w$.-]{{0,80}}(?: [\w$.-]{{1,40}}){{0,2}}[\"']?{SPACE}*(?:[:：](?!//)|=>?)"
)
WORD_KEY = re.compile(rf"{SPACE}*[\w$][\w$.-]{{0,80}}{SPACE}*[:：](?!//)")
# A word or several after a quote, up to the end of the field or, if spaced, to the next string.
BARE_VALUE = re.compile(
    r"\s*(?!\.\.\.)[^\s\"'“”‘’`:：=,，;{}\[\]()+\\]"
    r"(?:[^\"“”:：=,，;{}\[\]\n]|:(?=//)|(?<=\d):(?=\d\d)){0,200}?"
    rf"(?=\s*(?:\n|[}}\]]|\Z|[,，;]\s*(?:[\"'“‘}}\]]|\Z|[\w$.-]+\s*{COLON.pattern}))"
    r"|(?<=\s)[\"'“‘])"
)
GROUPED: Final = re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?(?!,\d|[.\w])")
OPEN_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
WORD_STOP = re.compile(r"[,，;\n\"“”{}\[\]｛｝［］():：`]|//|/\*|(?<=\s)#")
KEY_STOP = re.compile(r"[:：=,，\n\"'“”{}\[\]｛｝［］`]|->")
# The first quote after a bare word, if it directly follows the word.
HANGING_QUOTE = re.compile(r"(?:[^\"\\\n]++|\\.)++(?<![\s,{\[:])\"")
LITERAL = r"(?:[tT]rue|[fF]alse|null|None|-?\d[\d.eE+-]*)"
SEVERAL_LITERALS = re.compile(rf"(?:{LITERAL}\s+)+{LITERAL}")
KEY_AND_LITERAL = re.compile(rf"([^\W\d][\w$.-]*)\s+(?={LITERAL}\s*(?:[,，;}}\]\n]|\Z))")
JSON_WORD = re.compile(r"true|false|null|-?\d[\d.eE+-]*")
# The text between the end of one field and the key of the next.
STRUCTURE = re.compile(r"(?:\s*+[}\]])*+(?:\s*+[,，]|[^\S\n]*+\n)\s*+(?:[{\[]\s*+)*+")
KEY_AND_COLON = re.compile(r"[^\"'“”:：,，{}\[\]\n]{1,80}[:：]\s*(?:[\[{(]\s*)*\Z")
