from __future__ import annotations

from importlib.resources import files

from plansmith_planner.language.words import (
    CONCEPT_LIKENESS,
    is_everyday,
    stem,
    synonyms,
    word_list,
    word_weight,
)

LIST = files("plansmith_planner.language").joinpath("neighbours.txt").read_text(encoding="utf-8")


def test_the_list_of_neighbours_says_where_it_comes_from() -> None:
    header = [line for line in LIST.splitlines() if line.startswith("#")]
    assert "scripts/make_neighbours.py" in " ".join(header)
    assert "Apache-2.0" in " ".join(header)


def test_the_list_puts_the_commonest_terms_first() -> None:
    places = [entry.place for entry in word_list().values()]
    assert places == sorted(set(places))
    assert len(places) == LIST.count("\n") - LIST.count("#")


def test_kinship_of_neighbours_goes_both_ways() -> None:
    likeness = {(a, b): x for a in word_list() for b, x in synonyms(a).items() if b in word_list()}
    assert likeness["airport", "airlin"] == likeness["airlin", "airport"]
    assert all(0 < x < 1 for x in likeness.values())
    assert all(a != b for a, b in likeness)
    assert [pair for pair in likeness if pair[::-1] not in likeness and not by_hand(*pair)] == []


def by_hand(term: str, other: str) -> bool:
    """Whether the hand-made list names a pair, which may go one way: english > translate."""
    return synonyms(term)[other] == CONCEPT_LIKENESS


def test_a_term_may_lead_to_another_but_not_back() -> None:
    assert stem("translate") in synonyms("danish")
    assert "danish" not in synonyms(stem("translate"))


def test_rare_words_say_more_than_common_ones() -> None:
    assert word_weight("people") < word_weight("invoice") <= word_weight("zygomorphic") == 1.0
    assert word_weight("7") < word_weight("find") < word_weight("invoice")


def test_common_words_name_no_tool() -> None:
    assert is_everyday("weather")
    assert not is_everyday("zygomorphic")
