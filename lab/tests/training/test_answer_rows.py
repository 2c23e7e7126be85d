"""Rows that train answers: right by the product's own check, various, the same for a seed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from lab.training.rows.answers import main, rows
from lab.training.rows.answers_paper_rows import paper_row
from lab.training.rows.answers_papers import PAPERS, VALIDATION_PAPERS, sheet
from lab.training.rows.answers_rows import Row
from lab.training.rows.answers_scenes import SCENES

from plansmith_desk.model.answer_rules import Task
from plansmith_desk.model.wording import ROOM, is_right
from plansmith_planner.models.fact_checked import unfounded


@pytest.fixture(scope="module")
def made() -> list[Row]:
    return list(rows(7, 200))


def test_every_answer_row_keeps_to_what_its_results_say(made: list[Row]) -> None:
    for row in made:
        assert len(row["results"]) <= ROOM
        assert row["answer"].strip() == row["answer"]
        assert unfounded(row["answer"], f"{row['request']}\n{row['results']}") == [], row
        if row["kind"] == "question":
            assert "\n" not in row["answer"]


def test_the_product_takes_the_answers_of_rows_for_right(made: list[Row]) -> None:
    asked = [row for row in made if row["kind"] in ("question", "data")]
    wrong = [row for row in asked if not is_right(_task(row), row["answer"])]
    # A company or a thing may be named in words of the other language only.
    assert len(wrong) <= len(asked) // 50, [(row["request"], row["answer"]) for row in wrong]


def _task(row: Row) -> Task:
    read = json.dumps({"path": "a.txt", "text": row["results"]}, ensure_ascii=False)
    return Task(row["request"], {"a": read}, row["lang"])


def test_answer_rows_are_of_all_kinds_in_both_languages_and_never_twice_the_same(
    made: list[Row],
) -> None:
    kinds = Counter((row["kind"], row["lang"]) for row in made)
    wanted = {"question", "unknown", "summary", "write", "data"}
    assert {kind for kind, _ in kinds} == wanted
    assert all(kinds[kind, language] for kind in wanted for language in ("en", "zh"))
    assert len({(row["request"], row["results"]) for row in made}) == len(made)


def test_answer_rows_are_the_same_for_a_seed_and_others_for_another(tmp_path: Path) -> None:
    texts: list[str] = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        main(["--out", str(tmp_path / name), "--seed", str(seed), "--count", "20"])
        texts.append((tmp_path / name).read_text(encoding="utf-8"))
    assert texts[0] == texts[1] != texts[2]
    assert len(texts[0].splitlines()) == 20


def test_answer_rows_for_validation_have_kinds_of_documents_of_their_own() -> None:
    train = {_title(row) for row in rows(1, 150)}
    aside = {_title(row) for row in rows(1, 60, part="validation")}
    # Titles of hand-written papers have slots; those of one form begin alike.
    forms = {title[:12] for title in train if len(title) >= 12}
    assert sum(title[:12] in forms for title in aside if len(title) >= 12) <= len(aside) // 10


def _title(row: Row) -> str:
    return " ".join(row["results"].split("\n")[1:2])


def test_every_line_of_a_scene_and_every_question_is_told_in_both_languages() -> None:
    for scene in SCENES:
        assert len(scene.lines) >= 3
        for line in scene.lines:
            told = [line.say, *(each for asked in line.questions for each in asked)]
            for each in told:
                assert each.en
                assert each.zh


def test_every_paper_holds_the_answers_to_its_questions_and_leaves_some_open() -> None:
    for paper in (*PAPERS, *VALIDATION_PAPERS):
        for seed in range(2):
            made = sheet(Random(seed), paper)
            assert "{" not in made.text + made.path, paper.name
            assert [each for each in made.asked if each.answer is None], paper.name
            assert len([each for each in made.asked if each.answer]) >= 5, paper.name
            for each in made.asked:
                for ask, answer in zip(each.ask, each.answer or (), strict=False):
                    assert unfounded(answer, f"{ask}\n{made.text}") == [], (paper.name, answer)


def test_papers_for_validation_are_none_of_those_for_training() -> None:
    assert not {each.blocks for each in PAPERS} & {each.blocks for each in VALIDATION_PAPERS}
    assert {each.language for each in VALIDATION_PAPERS} == {"en", "zh"}


def test_a_question_about_a_paper_has_one_like_it_near_only_where_the_request_names_a_file() -> (
    None
):
    marked = [
        each._replace(blocks=tuple(f"[{each.group}] {block}" for block in each.blocks))
        for each in PAPERS
        if each.group in ("lease", "recipe") and not each.is_named
    ]
    alike = 0
    for seed in range(80):
        draft = paper_row(Random(seed), marked)
        found = json.loads(draft["given"][0])
        texts = found.get("passages", found.get("files", [found]))
        groups = Counter(each["text"].split("]")[0] for each in texts)
        assert len({each["path"] for each in texts}) == len(texts)
        if any(each["path"] in draft["request"] for each in texts):
            alike += max(groups.values()) > 1
        elif draft["needs"]:
            own = draft["needs"][0].split("]")[0]
            assert sum(own in each["text"] for each in texts) == 1, draft
    assert alike
