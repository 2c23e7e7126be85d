"""Divides the tokens of a prompt between its blocks, and reports what was cut."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from plansmith.plan.sentence import Sentence
from plansmith.ports import ContextBlock
from plansmith_planner.context.fence import RULE, fence, label

Count = Callable[[str], int]

LEFT_OUT: Final = "left out of this context"
_MAX_TOKEN: Final = 64  # characters per token; longer texts are cut before they are counted
_SMALLEST: Final = 8  # tokens; a shorter piece is not worth its marks
_MAX_NAMED: Final = 5


def rough_count(text: str) -> int:
    """Estimates the tokens of a text, rather too many: a third of its bytes."""
    return (len(text.encode("utf-8", "replace")) + 2) // 3


@dataclass(frozen=True, slots=True)
class Part:
    """Blocks that belong together; rank 0 is essential."""

    blocks: tuple[ContextBlock, ...]
    rank: int = 2
    newest_last: bool = False


class Fitted(NamedTuple):
    """The blocks that fit, as they enter the prompt, and what was cut."""

    blocks: tuple[ContextBlock, ...]
    text: str
    notes: tuple[str, ...]


def fit(parts: Sequence[Part], *, tokens: int, missing: Sequence[str] = ()) -> Fitted:
    """Fits parts into a number of tokens: by rank, then in equal shares, in their order."""
    blocks = tuple(block for part in parts for block in part.blocks)
    text = rendered(blocks, missing)
    if rough_count(text) <= tokens:
        return Fitted(blocks, text, ())
    slack = 0
    while slack < tokens:
        sharing = _Sharing(tokens - slack)
        kept = sharing.blocks(parts)
        text = rendered(kept, [*sharing.cut, *missing])
        over = rough_count(text) - tokens
        if over <= 0:
            return Fitted(kept, text, tuple(sharing.notes))
        # The names of what is left out may take more room than is kept for them.
        slack = max(2 * slack, slack + over)
    note = Sentence(
        "the whole context was left out: {tokens} tokens are not enough for it", tokens=tokens
    )
    return Fitted((), "", (note,) if blocks else ())


def rendered(blocks: Sequence[ContextBlock], missing: Sequence[str] = ()) -> str:
    """Returns blocks as prompt text, after the rule that they are data."""
    fences = [fence(block.title, block.text, block.source) for block in blocks]
    if missing:
        named = [label(name)[:60] for name in missing[:_MAX_NAMED]]
        more = [f"and {len(missing) - _MAX_NAMED} more"] if len(missing) > _MAX_NAMED else []
        fences.append(fence(LEFT_OUT, "\n".join([*named, *more])))
    return "\n\n".join([RULE, *fences]) if fences else ""


def clipped(text: str, *, tokens: int, count: Count = rough_count, keep_end: bool = False) -> str:
    """Cuts a text to a number of tokens; a line says how much is missing."""
    if len(text) <= tokens * _MAX_TOKEN and count(text) <= tokens:
        return text

    def cut(length: int) -> str:
        note = f"[… {len(text) - length:,} of {len(text):,} characters left out]"
        if keep_end:
            return f"{note}\n{text[len(text) - length :].lstrip()}"
        return f"{text[:length].rstrip()}\n{note}".lstrip("\n")

    lengths = range(min(len(text), tokens * _MAX_TOKEN + 1))
    length = bisect_right(lengths, tokens, key=lambda each: count(cut(each))) - 1
    return cut(length) if length > 0 else ""


def _cost(block: ContextBlock) -> int:
    return rough_count("\n\n" + fence(block.title, block.text, block.source))


@dataclass
class _Sharing:
    """One attempt to divide a number of tokens; `cut` names what got none."""

    tokens: int
    notes: list[str] = field(default_factory=list[str])
    cut: list[str] = field(default_factory=list[str])

    def blocks(self, parts: Sequence[Part]) -> tuple[ContextBlock, ...]:
        """Returns what fits of parts: by rank, then in equal shares."""
        left = self.tokens - rough_count(rendered((), [LEFT_OUT] * (_MAX_NAMED + 1)))
        taken: dict[int, list[ContextBlock]] = {}
        for rank in sorted({part.rank for part in parts}):
            group = [at for at, part in enumerate(parts) if part.rank == rank]
            needs = {at: sum(map(_cost, parts[at].blocks)) for at in group}
            room = max(left, 0)
            # Each gets what it needs, or an equal share of what is left.
            for place, at in enumerate(sorted(group, key=needs.__getitem__)):
                share = min(needs[at], room // (len(group) - place))
                room -= share
                taken[at] = [*self._take(parts[at], share)]
            left -= sum(_cost(block) for at in group for block in taken[at])
        return tuple(block for at in sorted(taken) for block in taken[at])

    def _take(self, part: Part, left: int) -> Iterator[ContextBlock]:
        for block in part.blocks:
            if _cost(block) <= left:
                left -= _cost(block)
                yield block
                continue
            room, text = left - _cost(replace(block, text="")), ""
            if room >= _SMALLEST:
                keep_end = part.newest_last
                text = clipped(block.text, tokens=room, keep_end=keep_end)
            # Later blocks are less important and must not use the rest.
            left = 0
            name = f"{block.title} ({block.source})" if block.source else block.title
            fields = {"shown": len(text), "size": len(block.text), "name": label(name)}
            if text:
                self.notes.append(
                    Sentence("clipped to {shown} of {size} characters: {name}", **fields)
                )
                yield replace(block, text=text)
            else:
                self.cut.append(name)
                self.notes.append(Sentence("left out for lack of room: {name}", name=label(name)))
