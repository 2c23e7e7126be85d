from __future__ import annotations

from importlib.resources import files

from plansmith_planner.language.words import stem, synonyms, word_list

LIST = files("plansmith_planner.language").joinpath("neighbours.txt").read_text(encoding="utf-8")


def test_the_list_of_neighbours_says_where_it_comes_from() -> None:
    header = [line for line in LIST.splitlines() if line.startswith("#")]
    assert "scripts/make_neighbours.py" in " ".join(header)
    assert "Apache-2.0" in " ".join(header)


def test_the_list_puts_the_commonest_terms_first() -> None:
    places = [entry.place for entry in word_list().values()]
    assert places == sorted(set(places))
    assert len(places) == LIST.count("\n") - LIST.count("#")


def test_a_term_may_lead_to_another_but_not_back() -> None:
    assert stem("translate") in synonyms("danish")
    assert "danish" not in synonyms(stem("translate"))
