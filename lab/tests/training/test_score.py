from __future__ import annotations

import json
from typing import Any

import pytest
from lab.tests.training.toy_rows import ANSWER, FOLDER, sql
from lab.training.score import Score, says_the_same, score_draft, score_row, table

QUERY = """SELECT SUM(units) FROM "sales.csv" WHERE region = 'North'"""


def drafted(answer: dict[str, Any]) -> str:
    return json.dumps(answer)


@pytest.mark.parametrize(
    "query",
    [
        QUERY,
        QUERY.lower().replace("'north'", "'North'"),
        QUERY.replace(" = ", "=") + ";",
        QUERY.replace('"', "`"),
    ],
)
def test_a_score_overlooks_how_a_query_is_written(query: str) -> None:
    assert score_draft(sql(QUERY), drafted(sql(query))).right


@pytest.mark.parametrize(
    "query", [QUERY.replace("North", "north"), QUERY.replace("SUM", "AVG"), QUERY[:40]]
)
def test_a_score_sees_what_changes_the_result_of_a_query(query: str) -> None:
    found = score_draft(sql(QUERY), drafted(sql(query)))
    assert found == Score(right=False, tools=True, readable=True)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"calls":7}', '{"calls":[{"tool":"x"}]}', '{"calls":[]}', "null"]
)
def test_a_score_of_what_is_no_draft_is_nothing(text: str) -> None:
    assert not score_draft(sql(QUERY), text).readable


def test_a_score_takes_any_reply_for_a_reply_and_none_for_calls() -> None:
    assert score_draft({"reply": "No tool."}, '{"reply":"Sorry."}').right
    assert not score_draft(sql(QUERY), '{"reply":"Sorry."}').right
    assert not score_draft({"reply": "No tool."}, drafted(sql(QUERY))).right


def test_a_score_counts_a_call_too_many_as_wrong() -> None:
    twice = {"calls": sql(QUERY)["calls"] * 2}
    assert not score_draft(sql(QUERY), drafted(twice)).tools


def test_a_score_reads_references_and_numbers_by_what_they_mean() -> None:
    wanted = {"calls": [{"tool": "a", "args": {"rows": "$1", "n": 5, "b": True}}]}
    given = {"calls": [{"tool": "a", "args": {"rows": "$1.rows", "n": "5", "b": True}}]}
    assert score_draft(wanted, drafted(given)).right


def test_an_answer_with_another_number_is_not_the_same() -> None:
    assert says_the_same("It ends on 3 May 2027.", "The lease ends on 3 May 2027.")
    assert not says_the_same("It ends on 3 May 2027.", "It ends on 4 May 2027.")
    assert not says_the_same("租约于2027年到期。", "这里的文件没有提到2027。")


def test_a_score_of_a_row_goes_by_its_family() -> None:
    assert score_row(ANSWER, "It ends on 3 May.").right
    assert score_row(FOLDER, drafted(FOLDER["answer"])).right


def test_a_table_of_scores_has_a_line_for_each_group() -> None:
    half = [Score(True, True, True), Score(False, True, True)]
    assert "right  50.0%  tools 100.0%" in table({"folder": half})
