from __future__ import annotations

from plansmith_planner.ranking.lexical import read_request

BLOB = "iVBORw0KGgo" * 4_000


def test_data_pasted_into_a_request_is_not_read_as_language() -> None:
    request = read_request(f"Resize this image {BLOB} to a thumbnail")
    assert set(request.words) == {"resize", "this", "image", "to", "a", "thumbnail"}


def test_a_long_name_is_no_data() -> None:
    name = "_".join(["export"] * 12)
    assert read_request(name).words == ("export",) * 12


def test_a_request_is_read_in_parts() -> None:
    request = read_request("Book a flight to Oslo. Then tell my boss by mail")
    assert request.parts == ("Book a flight to Oslo", "tell my boss by mail")
    assert "flight" in request.clauses[0]
    assert "mail" in request.clauses[1]


def test_one_sentence_has_no_parts() -> None:
    assert read_request("Book a flight to Oslo").parts == ()


def test_a_value_hints_at_what_takes_it() -> None:
    assert "email" in read_request("write to ann@example.org").terms
    assert "email" not in read_request("write to ann").terms
