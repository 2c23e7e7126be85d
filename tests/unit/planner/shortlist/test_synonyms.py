from __future__ import annotations

from importlib.resources import files

from plansmith.planner.shortlist.synonyms import is_everyday, synonyms, word_weight

LIST = files("plansmith.planner.shortlist").joinpath("neighbours.txt").read_text(encoding="utf-8")


def test_the_list_of_neighbours_says_where_it_comes_from() -> None:
    header = [line for line in LIST.splitlines() if line.startswith("#")]
    assert "scripts/make_neighbours.py" in " ".join(header)
    assert "Apache-2.0" in " ".join(header)


def test_each_pair_of_neighbours_is_listed_once_under_the_commoner_word() -> None:
    rows = [line.split() for line in LIST.splitlines() if not line.startswith("#")]
    places = {head: place for place, (head, *_) in enumerate(rows)}
    assert len(places) == len(rows)
    for head, *others in rows:
        names = [other[:-1] for other in others]
        assert len(names) == len(set(names))
        assert all(places[name] > places[head] for name in names)


def test_kinship_of_neighbours_goes_both_ways() -> None:
    likeness = {(a, b): x for a, others in synonyms().items() for b, x in others}
    assert likeness["airport", "airlin"] == likeness["airlin", "airport"]
    assert all(0 < x < 1 for x in likeness.values())
    assert all(a != b for a, b in likeness)


def test_rare_words_say_more_than_common_ones() -> None:
    assert word_weight("people") < word_weight("invoice") <= word_weight("zygomorphic") == 1.0
    assert word_weight("7") < word_weight("find") < word_weight("invoice")


def test_common_words_name_no_tool() -> None:
    assert is_everyday("weather")
    assert not is_everyday("zygomorphic")
