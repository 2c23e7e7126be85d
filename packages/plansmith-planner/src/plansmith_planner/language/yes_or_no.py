"""Tells a yes from a no in the answer to a question that only asks whether to go on."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from plansmith_planner.language import phrases

# The patterns are compiled when they are first used.
MAX_YES = 60
EDGE = " \t\r\n.,!;:。，！；：、\"'“”‘’`*"
YES = phrases("yes")
SIGN_OF_YES = phrases("sign_of_yes")
NO = phrases("no")
# Anywhere in an option: what it stands for is to leave something, at least for now.
NOT_NOW = phrases("not_now")
# In a question that asks for something else than a yes.
WHAT = phrases("asks_else")


def is_yes(text: str) -> bool:
    """Tells whether a text only says yes, go ahead and the like."""
    words = plain(text)
    if not words or len(words) > MAX_YES or not re.search(SIGN_OF_YES, words):
        return False
    return bool(re.fullmatch(YES, words))


def yes_or_no(text: str) -> bool | None:
    """Returns whether one word is a yes or a no; None if it is neither."""
    word = text.strip(EDGE).casefold()
    if word in {"yes", "true", "y", "是", "对"}:
        return True
    return False if word in {"no", "false", "n", "否", "不"} else None


def says_no(answer: object) -> bool:
    """Tells whether an answer is a no, or begins with one."""
    return answer is False or (isinstance(answer, str) and bool(re.match(NO, plain(answer))))


def goes_on(answer: object, question: str = "", options: Sequence[str] = ()) -> bool | None:
    """Tells whether an answer agrees to go on; None if that is not clear.

    Who is asked what, how much or which one says neither yes nor no, and agrees with an answer.
    """
    if isinstance(answer, bool):
        return answer
    if not isinstance(answer, str):
        return None if answer is None else True
    words = plain(answer)
    if answer in options:
        return _option_goes_on(words, plain(question), [plain(each) for each in options])
    if says_no(answer) or is_yes(answer):
        return is_yes(answer)
    is_told = bool(words) and not re.search(NOT_NOW, words)
    return True if is_told and re.search(WHAT, plain(question)) else None


def _option_goes_on(words: str, question: str, options: Sequence[str]) -> bool | None:
    others = [each for each in options if each != words]
    if is_yes(words):
        return True
    if re.search(NOT_NOW, words) or any(map(is_yes, others)):
        return False
    is_no_known = any(re.search(NOT_NOW, each) for each in others)
    return True if words in question or is_no_known or re.search(WHAT, question) else None


def plain(text: str) -> str:
    """Returns a text in small letters, without marks at its ends and letters nobody sees."""
    seen = (
        each for each in unicodedata.normalize("NFKC", text) if unicodedata.category(each) != "Cf"
    )
    return "".join(seen).strip(EDGE).casefold()
