"""What a message of a conversation is by its words: a question, an order, a change, a why, a no."""

from __future__ import annotations

import re
from typing import Final

from plansmith.lazy import lazy_pattern
from plansmith.text import visible
from plansmith_planner.language import phrases, word_list
from plansmith_planner.language.verbs import ORDERS, ORDERS_ZH
from plansmith_planner.language.yes_or_no import EDGE, MAX_YES

_REJECTION: Final = lazy_pattern(phrases("rejection"))
_REJECTION_ZH: Final = lazy_pattern(phrases("rejection_zh"))
_WHY: Final = lazy_pattern(phrases("why"))
_QUESTION: Final = lazy_pattern(phrases("question"))
_CHANGE_VERBS: Final = {"add", "append", "put", "replace", "use"}  # of a plan, no new task
_ORDER: Final = lazy_pattern(
    r"^(?:please |now |then |also |next |instead |actually |ok(?:ay)?[, ]+|and )*"
    rf"(?:{'|'.join(sorted(ORDERS - _CHANGE_VERBS))}|(?:do )?(?:the )?same)\b"
    rf"|^(?:请|再|然后|现在|接着|帮我|给我|麻烦)*(?:{ORDERS_ZH})"
)
_CHANGE: Final = lazy_pattern(phrases("change"))
_MAX_WORDS: Final = 12  # each is looked for in every result
_COMMON: Final = word_list("asking")
_FAILED: Final = lazy_pattern(phrases("failure"))
_ASKING: Final = lazy_pattern(phrases("asking"))
_HAN_WORDS: Final = lazy_pattern("[\u4e00-\u9fff]{2,}")


def is_rejection(text: str) -> bool:
    """Tells whether a message only says no, reject it and the like."""
    words = text.strip(EDGE).casefold()
    if not words or len(words) > MAX_YES:
        return False
    return bool(_REJECTION.fullmatch(words) or _REJECTION_ZH.fullmatch(words))


def option_number(text: str) -> int:
    """Returns the number by which a message names an option; 0 if it is something else."""
    found = re.fullmatch(r"(?:option |number |no\.? ?|#|第)?(\d{1,2})(?:个|项|\))?", text)
    return int(found[1]) if found else 0


def is_why(text: str) -> bool:
    """Tells whether a message asks why something is as it is."""
    return bool(_WHY.match(text.strip(EDGE)[:300].casefold()))


def asks(text: str) -> bool:
    """Tells whether a message is a question."""
    return bool(_QUESTION.search(text.strip().casefold()))


def orders(text: str) -> bool:
    """Tells whether a message begins like an order."""
    return bool(_ORDER.match(text.strip().casefold()))


def asks_for_change(text: str) -> bool:
    """Tells whether a message wants something to be otherwise."""
    return bool(_CHANGE.search(text.strip().casefold()))


def asks_about_failure(text: str) -> bool:
    """Tells whether a question is about something that went wrong."""
    return bool(_FAILED.search(text.casefold()))


def subject_words(question: str) -> list[str]:
    """Returns the words that say what is asked about, the longest first."""
    text = visible(question)
    quoted = re.findall(r"[\"“”'‘’「」`]([^\"“”'‘’「」`]{2,80})[\"“”'‘’「」`]", text)
    plain = [
        each
        for each in re.findall(r"[A-Za-z0-9_][\w.@/-]*[A-Za-z0-9_]|\d+", text)
        if each.casefold() not in _COMMON
    ]
    han = _HAN_WORDS.findall(_ASKING.sub(" ", text))
    found = sorted(dict.fromkeys([*quoted, *plain, *han]), key=len, reverse=True)
    return found[:_MAX_WORDS]
