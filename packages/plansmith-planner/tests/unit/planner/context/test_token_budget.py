from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.ports import ContextBlock
from plansmith_planner.context.token_budget import (
    Part,
    clipped,
    fit,
    rough_count,
)
from plansmith_planner.models.tokens import count_tokens

COUNTS: list[Callable[[str], int]] = [
    count_tokens,
    rough_count,
    len,
    lambda text: len(text.split()),
    lambda text: text.count("\n"),
]
TEXT = st.text(st.characters(), max_size=200) | st.integers(0, 900).map(lambda n: "word 词 " * n)
BLOCKS = st.builds(ContextBlock, TEXT, TEXT, st.just("") | TEXT)
PARTS = st.builds(
    Part,
    st.lists(BLOCKS, max_size=3).map(tuple),
    st.integers(0, 2),
    st.booleans(),
)


@given(st.lists(PARTS, max_size=5), st.integers(-5, 3000), st.sampled_from(COUNTS))
def test_the_limit_is_kept_and_nothing_goes_without_a_word(
    parts: list[Part], tokens: int, count: Callable[[str], int]
) -> None:
    fitted = fit(parts, tokens=tokens, count=count)
    blocks = [block for part in parts for block in part.blocks]
    assert count(fitted.text) <= max(tokens, 0)
    if list(fitted.blocks) != blocks:
        assert fitted.notes
    titles = [block.title for block in blocks]
    places = iter(titles)
    assert all(block.title in places for block in fitted.blocks), "the order is kept"


@given(TEXT, st.integers(0, 400), st.sampled_from(COUNTS), st.booleans())
def test_a_clipped_text_fits_and_says_so(
    text: str, tokens: int, count: Callable[[str], int], keep_end: bool
) -> None:
    short = clipped(text, tokens=tokens, count=count, keep_end=keep_end)
    assert count(short) <= tokens
    assert short in ("", text) or "characters left out]" in short


def test_a_long_block_does_not_push_out_a_short_one_of_its_rank() -> None:
    parts = [Part((ContextBlock("long", "x " * 9000),)), Part((ContextBlock("short", "y " * 50),))]
    fitted = fit(parts, tokens=500, count=rough_count)
    assert fitted.blocks[1] == parts[1].blocks[0]


@pytest.mark.parametrize("tokens", [-1, 0, 1, 20])
def test_no_room_at_all_is_told(tokens: int) -> None:
    fitted = fit([Part((ContextBlock("a", "b"),))], tokens=tokens, count=rough_count)
    assert (fitted.text, fitted.blocks) == ("", ())
    assert "not enough" in fitted.notes[0]
