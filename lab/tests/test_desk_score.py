"""The judge of the folder bench takes right answers in any usual notation, and no wrong ones."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lab.bench.desk_cases import Ask, Clock, Day, Expects, Fact, Gone, Words, Wrote, number, words
from lab.bench.desk_score import Outcome, head, holds, judge

NOW = datetime(2026, 11, 16, 9, 12, tzinfo=UTC)
WHEN = (NOW, NOW)
days = st.dates(date(1990, 1, 1), date(2060, 12, 31))
amounts = st.integers(-10_000_000, 10_000_000)
cents = st.integers(1, 99_999_999).filter(lambda each: each % 10)


def written(value: float) -> list[str]:
    """A number as people write it."""
    return [
        f"{value:,}",
        str(value),
        f"{value:,}".replace(",", "\u202f"),
        f"**{value}**",
        f"€{value:,}",
    ]


@given(amounts, st.sampled_from(["There are {} of them.", "{}", "一共{}件。", "| total |\n| {} |"]))
@settings(max_examples=25)
def test_the_desk_judge_takes_a_whole_number_in_any_notation(value: int, frame: str) -> None:
    for form in [*written(value), f"{value:.1f}", f"{value:,.2f}"]:
        assert holds(frame.format(form), number(value), WHEN), form


@given(amounts, st.integers(-50, 50).filter(bool))
@settings(max_examples=25)
def test_the_desk_judge_takes_no_other_whole_number(value: int, off: int) -> None:
    for form in written(value + off):
        assert not holds(f"There are {form} of these", number(value), WHEN) or value == -(
            value + off
        )


@given(cents)
@settings(max_examples=25)
def test_the_desk_judge_takes_a_fraction_rounded_to_one_or_two_places(value: int) -> None:
    exact = value / 100
    for form in (f"{exact:,.2f}", f"{exact:.2f}", f"{exact:.4f}"):
        assert holds(f"The total is {form} euros.", number(exact), WHEN), form


@given(cents, st.integers(2, 5000))
@settings(max_examples=25)
def test_the_desk_judge_takes_no_fraction_that_is_off(value: int, off: int) -> None:
    assert not holds(f"It is {(value + off) / 100:,.2f}.", number(value / 100), WHEN)


@given(days)
@settings(max_examples=25)
def test_the_desk_judge_takes_a_date_in_any_notation(day: date) -> None:
    forms = (
        day.isoformat(),
        f"{day.day} {day:%B %Y}",
        f"{day:%B} {day.day}, {day.year}",
        f"{day.day}th of {day:%B}",
        f"{day:%b} {day.day}",
        f"{day.year}年{day.month}月{day.day}日",
        f"{day.month} 月 {day.day} 日",
        f"{day:%d.%m.%Y}",
    )
    for form in forms:
        assert holds(f"It ends on {form}.", Day(day), WHEN), form


@given(days, st.integers(-800, 800).filter(bool))
@settings(max_examples=25)
def test_the_desk_judge_takes_no_other_date(day: date, off: int) -> None:
    other = day + timedelta(days=off)
    assume((other.month, other.day) != (day.month, day.day))
    forms = (
        other.isoformat(),
        f"{other.day} {other:%B %Y}",
        f"{other:%B} {other.day}, {other.year}",
        f"{other.year}年{other.month}月{other.day}日",
    )
    for form in forms:
        assert not holds(f"It ends on {form}.", Day(day), WHEN), form


@given(days)
@settings(max_examples=25)
def test_the_desk_judge_takes_no_date_of_another_year(day: date) -> None:
    year = day.year + 1
    for form in (
        f"{day.day} {day:%B} {year}",
        f"{day:%B} {day.day}, {year}",
        f"{year}年{day.month}月{day.day}日",
    ):
        assert not holds(f"It ends on {form}.", Day(day), WHEN), form


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("There are three duplicates.", number(3)),
        ("一共有三个文件。", number(3)),
        ("共有两个", number(2)),
        ("No file mentions it.", number(0)),
        ("收入约 4.83万元", number(48_300)),
        ("It was lent by ANNA   Bolt", words("Anna Bolt")),
        ("The **Desk lamp** sold best", words("desk lamp")),
        ("It is 18:12 in Tokyo", Clock("Asia/Tokyo")),
        ("It's 6:12 PM in Tokyo", Clock("Asia/Tokyo")),
        ("东京现在 18 点 12 分", Clock("Asia/Tokyo")),
    ],
)
def test_the_desk_judge_takes_a_fact_as_people_say_it(text: str, fact: Fact) -> None:
    assert holds(text, fact, WHEN)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("The meeting was on 2026-11-16 at 10:30.", number(11)),
        ("sales-2025.csv has 1400 rows", number(140)),
        ("1,400 rows", number(400)),
        ("409 euros", number(409.5)),
        ("十三个", number(3)),
        ("一个文件", number(11)),
        ("It is 6:12 AM in Tokyo", Clock("Asia/Tokyo")),
        ("It is 18:42 in Tokyo", Clock("Asia/Tokyo")),
        ("Done.", number(0)),
        ("Ask everyone by phone", words("one")),
        ("It opens at 19:00", words("9:00")),
        ("Version 4.10.2", words("4.1")),
        ("It ran on web-1 as step_1", number(1)),
    ],
)
def test_the_desk_judge_takes_no_fact_that_only_looks_like_it(text: str, fact: Fact) -> None:
    assert not holds(text, fact, WHEN)


def ask(**more: object) -> Ask:
    return Ask(id="x", folder="f", kind="k", lang="en", text="How many?", **more)  # type: ignore[arg-type]


def outcome(report: str = "", files: dict[str, bytes] | None = None, **run: object) -> Outcome:
    return Outcome({"status": "done", "report": report, **run}, files or {}, NOW, NOW)


def test_only_the_first_lines_of_an_answer_count_for_the_desk_judge() -> None:
    late = "word " * 100 + "42"
    assert not judge(ask(facts=(number(42),)), outcome(late), {}).right
    assert judge(
        ask(facts=(number(42),)), outcome(f"# How many of 7?\n\n42 [`sql`]\n{late}"), {}
    ).right
    assert head("# How many of 7?\n\nEight. [step:sql_7]") == "Eight."
    asked = ask(facts=(number(42),))
    assert not judge(asked, outcome("# H\n\n## Answer\n\nDone.\n\n## Evidence\n\n42"), {}).right
    assert not judge(asked, outcome("# H\n\n## 回答\n\n完成。\n\n## 依据\n\n42"), {}).right


def test_a_forbidden_fact_makes_an_answer_wrong_for_the_desk_judge() -> None:
    wish = ask(facts=(words("Stool"),), must_not=(words("Bookcase"),))
    assert judge(wish, outcome("Stool"), {}).right
    assert not judge(wish, outcome("Stool, Bookcase"), {}).right


def test_a_run_that_waits_or_failed_is_not_right_for_the_desk_judge() -> None:
    wish = ask(facts=(number(42),))
    for status in ("asking", "reviewing", "failed", "partly_done"):
        verdict = judge(wish, outcome("42", status=status), {})
        assert not verdict.right
        assert verdict.asked_needlessly == (status in ("asking", "reviewing"))


ONE_TOOL = {"steps": [{"kind": "tool"}]}


@pytest.mark.parametrize(
    ("expects", "run", "right"),
    [
        ("question", {"status": "asking", "questions": [{"kind": "step"}]}, True),
        ("question", {"status": "answered", "reason": "Which file do you mean?"}, True),
        ("question", {"status": "reviewing", "plan": ONE_TOOL}, False),
        ("question", {"status": "done", "reason": "Done."}, False),
        (
            "decline",
            {"status": "answered", "reason": "None of the tools can book flights."},
            True,
        ),
        ("decline", {"status": "answered", "reason": "这里没有能预订机票的工具。"}, True),
        ("decline", {"status": "answered", "reason": "Your flight is booked."}, False),
        (
            "decline",
            {"status": "done", "report": "not", "plan": {"steps": [{"kind": "tool"}]}},
            False,
        ),
        ("absent", {"status": "done", "report": "The documents here do not say it."}, True),
        ("absent", {"status": "done", "report": "It costs 600 euros."}, False),
        ("reply", {"status": "answered", "reason": "Hello!"}, True),
        ("reply", {"status": "answered", "reason": ""}, False),
    ],
)
def test_the_desk_judge_knows_when_words_or_a_question_are_due(
    expects: Expects, run: dict[str, object], *, right: bool
) -> None:
    assert judge(ask(expects=expects), outcome(**run), {}).right is right  # type: ignore[arg-type]


def test_the_desk_judge_looks_into_written_files_and_at_all_others() -> None:
    before = {"a.csv": b"x\n1\n", "b.txt": b"keep"}
    wish = ask(files=(Wrote("out.csv", (words("North"),), (words("South"),), rows=2),))
    good = before | {"out.csv": b"region,n\nNorth,1\nNorth,2\n"}
    assert judge(wish, outcome(files=good), before).right
    for wrong in (
        before,
        good | {"out.csv": b"region,n\nNorth,1\n"},
        good | {"out.csv": b"region,n\nNorth,1\nSouth,2\n"},
        good | {"b.txt": b"changed"},
        good | {"more.txt": b"nobody asked"},
        {key: each for key, each in good.items() if key != "b.txt"},
    ):
        assert not judge(wish, outcome(files=wrong), before).right


def test_the_desk_judge_knows_a_moved_file_from_a_copy_and_from_a_new_one() -> None:
    before = {"a.txt": b"text"}
    wish = ask(files=(Wrote("b.txt", same_as="a.txt"), Gone("a.txt")))
    assert judge(wish, outcome(files={"b.txt": b"text"}), before).right
    assert not judge(wish, outcome(files={"b.txt": b"text", "a.txt": b"text"}), before).right
    assert not judge(wish, outcome(files={"b.txt": b"other"}), before).right


def test_the_rows_of_a_markdown_and_a_json_table_are_counted_by_the_desk_judge() -> None:
    for path, content in (
        ("t.md", b"| a |\n|---|\n| 1 |\n| 2 |\n"),
        ("t.json", b'[{"a": 1}, {"a": 2}]'),
    ):
        assert judge(ask(files=(Wrote(path, rows=2),)), outcome(files={path: content}), {}).right
        assert not judge(
            ask(files=(Wrote(path, rows=3),)), outcome(files={path: content}), {}
        ).right


FACTS: list[Fact] = [number(7), words("x"), Day(date(2026, 1, 5)), Clock("UTC")]


@given(st.text(max_size=500), st.sampled_from(FACTS))
@settings(max_examples=25)
def test_no_text_makes_the_desk_judge_fail(text: str, fact: Fact) -> None:
    assert holds(text, fact, WHEN) in (True, False)
    assert isinstance(fact, Words) or not holds("", fact, WHEN)
