"""What a rule makes of a request: one call of a built-in tool, and the sentence that tells it."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal, NamedTuple

from plansmith.plan.data import Json

Kind = Literal["arithmetic", "units", "time", "date"]
STEP: Final = "find"  # the id of the step whose result the sentence refers to


class InstantCall(NamedTuple):
    """A call that answers a whole request; `says` refers to its result."""

    kind: Kind
    tool: str
    inputs: dict[str, Json]
    says: str


def found(field: str) -> str:
    """Returns a reference to a field of the call's result."""
    return "{{" + f"{STEP}.{field}" + "}}"


_WIDE: Final = {0xFF01 + place: 0x21 + place for place in range(94)} | {0x3000: 0x20}
_OPENING: Final = re.compile(
    r"(?:please|pls|hey|hi|hello|ok|okay|so|quick question|plansmith|(?:can|could|would) you"
    r"(?: please)?(?: (?:quickly )?(?:tell me|calculate|compute|work out|convert(?=\s)))?"
    r"|(?:do|would) you (?:happen to )?know|tell me|let me know|i(?:'d| would) like to know"
    r"|i (?:want|need) to know|any idea"
    r"|请问(?:一下)?|请(?:你|您)?|麻烦(?:你|您)?|劳驾|你好|您好|(?:你|您)?能不能|可以"
    r"|(?:你|您)?知道|(?:你|您)?(?:能|可以)?(?:帮我|帮忙|给我|替我|告诉我)(?:看看|查一下|看一下|说一下)?"
    r"|我想知道|想问(?:一下)?|问一下|查一下)"
    r"(?:\s*[,:，：]\s*|\s+|(?<=[\u4e00-\u9fff]))",
    re.IGNORECASE,
)
_CLOSING: Final = re.compile(
    r"(?<!\s)(?:\s*+(?:[,，]?\s*+(?:please|pls|thanks|thank you|谢谢(?:你|您)?|多谢)|[?.。？！=])"
    r"|(?<![\d)])!|[呢呀啊哦])$",
    re.IGNORECASE,
)
_MOST_TRIMS: Final = 8
# "(tell me) what time it is", as the question itself.
_INDIRECT: Final = (
    (
        re.compile(r"^(what (?:time|day|date|week)(?: of the week)?) it is\b", re.IGNORECASE),
        r"\1 is it",
    ),
    (re.compile(r"^what the (time|date) is\b", re.IGNORECASE), r"what is the \1"),
    (re.compile(r"^what (\S.*\S) (is|are|was)$", re.IGNORECASE), r"what \2 \1"),
    (re.compile(r"^(how many days) (?:there are|it is)\b", re.IGNORECASE), r"\1"),
)


def core(text: str) -> str:
    """Returns a request without courtesies around it, on one line, with narrow digits and signs."""
    narrow = (str(unicodedata.decimal(each, each)) for each in text.translate(_WIDE))
    bare = " ".join("".join(narrow).replace("’", "'").split())
    for _ in range(_MOST_TRIMS):
        opening = _OPENING.match(bare)
        shorter = bare[opening.end() :] if opening else _CLOSING.sub("", bare)
        # Nothing but courtesy is small talk, and read elsewhere.
        if not shorter or shorter == bare:
            break
        bare = shorter
    for pattern, direct in _INDIRECT:
        bare = pattern.sub(direct, bare)
    return bare
