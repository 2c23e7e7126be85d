from __future__ import annotations

import pytest

from plansmith_planner.language.words import split, stem, terms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("getUserName", ["get", "user", "name"]),
        ("parseHTMLPage", ["parse", "html", "page"]),
        ("PDFs and URLs", ["pdfs", "and", "urls"]),
        ("my_PDFs", ["my", "pdfs"]),
        ("year 2024, id 123456", ["year", "2024", "id"]),
    ],
)
def test_identifiers_and_acronyms_are_split_into_words(text: str, words: list[str]) -> None:
    assert split(text) == words


def test_chinese_is_read_in_characters_and_pairs() -> None:
    assert split("查天气") == ["查", "天", "气", "查天", "天气"]


def test_no_pair_reaches_over_a_chinese_particle() -> None:
    found = split("北京的天气")
    assert {"北京", "天气"} <= set(found)
    assert not {"京的", "的天", "的"} & set(found)


def test_the_plural_of_an_acronym_is_the_acronym() -> None:
    assert [term for _, term in terms("PDFs")] == [stem("pdf")]
