from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.plan.sentence import did_you_mean
from plansmith.text import clip, safe

HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        *(("plain", "plain"), ("two\nlines\tand a tab", "two lines and a tab")),
        *(("\x1b[2Jgone", "\\u001b[2Jgone"), ("abc\u202egpj.exe", "abc\\u202egpj.exe")),
        *(("zero\u200bwidth", "zero\\u200bwidth"), ("\r\x07", "\\u000d\\u0007")),
        *(("你好 – é", "你好 – é"), ("\ud800", "\\ud800")),
    ],
)
def test_what_could_steer_a_terminal_is_spelled_out(text: str, escaped: str) -> None:
    assert safe(text) == escaped


@given(st.text(st.characters()))
def test_no_hidden_character_is_left_and_visible_ones_stay(text: str) -> None:
    escaped = safe(text)
    assert not any(unicodedata.category(each) in HIDDEN for each in escaped)
    if not any(unicodedata.category(each) in HIDDEN for each in text):
        assert escaped == text


@pytest.mark.parametrize(
    ("text", "width", "escaped"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("", 3, ""), ("a" * 160, 160, "a" * 160)],
)
def test_a_long_text_is_cut_to_the_width_with_a_mark(text: str, width: int, escaped: str) -> None:
    assert clip(text, width) == escaped


def test_a_wrong_name_gets_the_known_one_most_like_it_or_the_other_hint() -> None:
    assert did_you_mean("widht", ["width", "height"], otherwise="remove it") == (
        "did you mean 'width'?"
    )
    assert did_you_mean("colour", ["width"], otherwise="remove it") == "remove it"
    assert did_you_mean("", [], otherwise="remove it") == "remove it"
