"""Completes a follow-up such as "and for Q2?" by the request before it, for a small model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plansmith.adapters.models.local.grounding import values_not_in
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
        "Earlier: How many orders came from Berlin in orders.csv?\nLast: And from Paris?",
        "How many orders came from Paris in orders.csv?",
    ),
    (
        "Earlier: List the invoices of May in bills.csv\nLast: and June?",
        "List the invoices of June in bills.csv",
    ),
    ("Earlier: 统计 a.csv 中北京的订单数\nLast: 那上海呢？", "统计 a.csv 中上海的订单数"),
)


def follows(request: str, before: Sequence[str]) -> bool:
    """Tells whether a request seems to lean on the ones before it."""
    return bool(before) and (len(request) <= _SHORT or bool(_FOLLOWS.search(request.casefold())))


def follow_up_messages(request: str, before: Sequence[str]) -> list[Message]:
    """Returns the prompt that asks for the completed request."""
    messages = [Message("system", _TASK)]
    for asked, answer in _EXAMPLES:
        messages += [Message("user", asked), Message("assistant", answer)]
    earlier = "\n".join(f"Earlier: {_line(each)}" for each in before[-_MOST:])
    return [*messages, Message("user", f"{earlier}\nLast: {_line(request)}")]


def completed(text: str, request: str, before: Sequence[str]) -> str:
    """Returns the completed request; the one that was given if the model made something up."""
    line = text.strip().removeprefix("Last:").strip().strip('"')
    said = "\n".join([*before[-_MOST:], request])
    if not line or values_not_in(line, said):
        return request
    return line


def _line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]
