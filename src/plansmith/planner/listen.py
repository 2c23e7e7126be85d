"""Listen: a model's answer taken in whole, with what it took."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import NamedTuple, cast

from plansmith.ports import ArgumentsDelta, Delta, ModelDone, TextDelta, Usage


class Heard(NamedTuple):
    """A whole answer."""

    text: str
    usage: Usage


async def listen(
    stream: AsyncIterator[Delta], on_text: Callable[[str], None] = lambda _: None
) -> Heard:
    """Everything a model says; `on_text` hears each piece as it comes."""
    pieces: list[str] = []
    usage = Usage()
    async with aclosing(cast("AsyncGenerator[Delta]", stream)) as deltas:
        async for delta in deltas:
            match delta:
                case TextDelta(text) | ArgumentsDelta(text=text):
                    pieces.append(text)
                    on_text(text)
                case ModelDone(usage=spent):
                    usage = spent
    return Heard("".join(pieces), usage)


def total(*usages: Usage) -> Usage:
    """Usages added up; the cost is unknown when one of them is."""
    costs = [each.cost for each in usages if each.input_tokens or each.output_tokens]
    known = [cost for cost in costs if cost is not None]
    return Usage(
        sum(each.input_tokens for each in usages),
        sum(each.output_tokens for each in usages),
        sum(each.cached_tokens for each in usages),
        sum(known[1:], known[0]) if known and len(known) == len(costs) else None,
    )
