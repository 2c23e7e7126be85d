"""Completes a follow-up such as "and for Q2?" by the request before it, for a small model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plansmith.lazy import lazy_pattern
from plansmith.ports import Message

_MOST: Final = 3  # earlier requests that are shown
_LONGEST: Final = 300
_SHORT: Final = 40
_FOLLOWS: Final = lazy_pattern(
    r"^(?:and|now|also|then|but|so|what about|how about|the same|same|instead|again)\b"
    r"|\b(?:it|that|those|them|this|these|same|there|one|ones|previous|last|above)\b"
    r"|^(?:那|再|然后|还有|同样|换成|改成)|它|这个|那个|上面|刚才|呢[？?]?$"
)
_TASK: Final = (
    "Write the last request as one whole request that can be understood without the ones before. "
    "What the last one names takes the place of its like; do not ask for the earlier thing again. "
    "Use only words, names and files that were written, in the language of the last request."
)
_EXAMPLES: Final = (
    (
        "How many orders came from Berlin in orders.csv?",
        "And Paris?",
        "How many orders came from Paris in orders.csv?",
    ),
    ("Which notes mention Anna?", "and which mention the bill?", "Which notes mention the bill?"),
    (
        "Draw a pie chart of cost by team in costs.csv",
        "now the same for month",
        "Draw a pie chart of cost by month in costs.csv",
    ),
    ("Show the first 3 lines of a.txt", "and of b.txt", "Show the first 3 lines of b.txt"),
    (
        "List the people in club.csv who are older than 60",
        "how many are there?",
        "How many people in club.csv are older than 60?",
    ),
    ("统计 a.csv 中北京的订单数", "那上海呢？", "统计 a.csv 中上海的订单数"),
)
# Words of one kind that can take each other's place: a file, a code such as Q1, a name.
_KINDS: Final = (
    lazy_pattern(r"(?<![\w/-])[\w/-]*\w\.[A-Za-z]\w{0,4}\b"),
    lazy_pattern(r"\b(?=\w*\d)(?=\w*[A-Za-z])\w+\b"),
    lazy_pattern(r"\b\d[\d.,-]*\b"),
    lazy_pattern(r"(?<=\s)[A-Z][a-z]+(?:\s[A-Z][a-z]+)*\b"),
)
_LEAD: Final = lazy_pattern(r"^(?:(?i:and|now|also|then|but|so|ok|what|how|about)\b[\s,]*)+")
_ONLY: Final = lazy_pattern(
    r"(?:(?:and|now|also|then|but|what|how|about|the|same|for|of|from|in|with|to|at|on|please|ok"
    r"|do|it|that|again|instead|next)\b|[\s,.?!])*"
)


def follows(request: str, before: Sequence[str]) -> bool:
    """Tells whether a request seems to lean on the ones before it."""
    return bool(before) and (len(request) <= _SHORT or bool(_FOLLOWS.search(request.casefold())))


def follow_up_messages(request: str, before: Sequence[str]) -> list[Message]:
    """Returns the prompt that asks for the completed request."""
    messages = [Message("system", _TASK)]
    for earlier, last, answer in _EXAMPLES:
        asked = f"Earlier: {earlier}\nLast: {last}"
        messages += [Message("user", asked), Message("assistant", answer)]
    said = "\n".join(f"Earlier: {_line(each)}" for each in before[-_MOST:])
    return [*messages, Message("user", f"{said}\nLast: {_line(request)}")]


def put_in_place(request: str, before: Sequence[str]) -> str:
    """Returns the request before with the one thing that a follow-up names in place of its like.

    Empty where the follow-up says more, or where more than one thing could be meant.
    """
    earlier = before[-1] if before else ""
    named = f" {_LEAD.sub('', request)}"
    for kind in _KINDS:
        new, old = kind.findall(named), set(kind.findall(earlier))
        if not new:
            continue
        rest = named.replace(new[0], " ", 1).casefold()
        if len(new) == 1 == len(old) and _ONLY.fullmatch(rest):
            return earlier.replace(old.pop(), new[0])
        return ""
    return ""


def completed(text: str, request: str, before: Sequence[str]) -> str:
    """Returns the completed request; the one that was given if the model made something up."""
    line = text.strip().removeprefix("Last:").strip().strip('"')
    said = "\n".join([*before[-_MOST:], request]).casefold()
    named = [each for kind in _KINDS for each in kind.findall(line)]
    return line if line and all(each.casefold() in said for each in named) else request


def _line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]
