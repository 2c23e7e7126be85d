"""Generates rows for the embedded model's answers: `python -m lab.training.rows.answers`.

A row holds a request, the results as the product shows them to the model, and the answer.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

from lab.training.rows import answers_data as data
from lab.training.rows.answers_asking import NOT_SAID, as_typed
from lab.training.rows.answers_documents import (
    KINDS,
    SCENE_KINDS,
    VALIDATION,
    VALIDATION_SCENES,
    Document,
    Kind,
    injected,
)
from lab.training.rows.answers_paper_rows import paper_row
from lab.training.rows.answers_papers import PAPERS, VALIDATION_PAPERS, Paper
from lab.training.rows.answers_results import looked_up, others, read, read_all, target_document
from lab.training.rows.answers_rows import Draft, Maker, Row, checked, joined, languages
from lab.training.rows.answers_scenes import filled
from lab.training.rows.answers_statements import Statement
from lab.training.rows.answers_words import Language
from lab.training.rows.answers_writing import written

TRAIN: Final = 20_000
ASIDE: Final = 300
_PAPERS: Final = 0.72  # the share of rows that are about papers
_SCENES: Final = 0.6  # the share of the other documents that are scenes


def _question(rng: Random, kinds: Sequence[Kind]) -> Draft:
    """One fact is asked for; several documents may be near."""
    language, written = languages(rng)
    target = target_document(rng, rng.choice(kinds), written)
    at = rng.choice([place for place, each in enumerate(target.statements) if each.questions])
    statement = target.statements[at]
    one = statement.questions[0 if rng.random() < 0.5 else rng.randrange(len(statement.questions))]
    rest = others(rng, target, kinds, statement, rng.choice((0, 0, 1, 2, 3, 4)))
    if rng.random() < 0.06:
        target = injected(rng, target)
    given = _given(rng, target, target.places[at], rest)
    request = as_typed(rng, one.ask.says(language), language, target.path, target.kind.name)
    needs = [target.blocks[target.places[at]]]
    return Draft(
        kind="question",
        lang=language,
        request=request,
        given=[given],
        answer=one.answer.says(language),
        needs=needs,
    )


def _given(rng: Random, target: Document, place: int, rest: Sequence[Document]) -> str:
    if rng.random() < 0.65:
        return looked_up(rng, target, place, rest)
    if not rest:
        return read(target)
    files = [target, *rest]
    rng.shuffle(files)
    return read_all(files)


def _unknown(rng: Random, kinds: Sequence[Kind]) -> Draft:
    """What is asked is in no document, though like things are."""
    language, written = languages(rng)
    target = target_document(rng, rng.choice(kinds), written)
    while target.kind.scene is not None and len(target.statements) == len(target.kind.scene.lines):
        target = target_document(rng, rng.choice(kinds), written)
    rest = others(rng, target, kinds, None, rng.choice((0, 0, 1, 2, 3)))
    known = {each.topic for doc in (target, *rest) for each in doc.statements}
    missing: Statement | None = None
    while missing is None:
        one = _another(rng, target)
        missing = one if one.topic not in known and not _names_somebody(one) else None
    place = rng.randrange(len(target.blocks))
    unknown = missing.unknown.says(language)
    ask = missing.questions[0].ask.says(language)
    return Draft(
        kind="unknown",
        lang=language,
        request=as_typed(rng, ask, language, target.path, target.kind.name),
        given=[_given(rng, target, place, rest)],
        answer=NOT_SAID.says(language).format(u=unknown),
        needs=[],
    )


def _another(rng: Random, target: Document) -> Statement:
    """Returns a statement that the document might have held."""
    if target.kind.scene is None:
        return rng.choice(target.kind.builders)(rng, target.subject, target.language)
    made = filled(rng, target.kind.scene, target.language).statements
    return rng.choice([each for each in made if each.questions])


def _names_somebody(statement: Statement) -> bool:
    """Whether the question itself names a person who is in no document."""
    return statement.topic == "contact" or "What does" in statement.questions[0].ask.en


_SUMMARIES: Final = (
    (
        "Summarise {f};Summarize {f} in a few sentences;Give me a short summary of {f};"
        "What is {f} about?;Can you sum up the {k}? I mean a summary.;Short overview of {f} please;"
        "tl;dr of {f};Summarise the {k} for me;What are the key points of {f}?;"
        "List the main points of {f} as bullets;Key points of the {k} as a list"
    ),
    (
        "总结一下{f};概括{f}的内容;{f}讲了什么？;给我{f}的摘要;用几句话总结{k};简要概述一下{f};"
        "{f}的主要内容是什么？;帮我归纳{k}的要点;列出{f}的要点;{f}的要点有哪些？;请总结这份{k}"
    ),
)
_POINTS: Final = ("points", "bullets", "list", "要点")


def _summary(rng: Random, kinds: Sequence[Kind]) -> Draft:
    """A document, or two, in two to four sentences or as bullets."""
    language, written = languages(rng)
    target = target_document(rng, rng.choice(kinds), written, least=2, named=False)
    several = rng.random() < 0.2
    rest = others(rng, target, kinds, None, 1) if several else []
    if rng.random() < 0.05:
        target = injected(rng, target)
    forms = _SUMMARIES[language == "zh"].replace("tl;dr", "tl dr").split(";")
    form = rng.choice(forms).replace("tl dr", "tl;dr")
    request = form.format(f=target.path, k=target.kind.name.says(language))
    if several:
        names = [each.path for each in (target, *rest)]
        request = (
            f"Summarise {' and '.join(names)}" if language == "en" else f"总结{'和'.join(names)}"
        )
    told = [_main(each, language, 2 if several else 4) for each in (target, *rest)]
    points = any(word in request for word in _POINTS)
    sentences = [sentence for each in told for sentence in each]
    if points:
        answer = "\n".join(f"- {each}" for each in sentences)
    elif several:
        answer = "\n".join(
            f"{each.path}: {joined(said, language)}"
            for each, said in zip((target, *rest), told, strict=True)
        )
    else:
        answer = joined(sentences, language)
    given = read_all([target, *rest]) if several else read(target)
    return Draft(
        kind="summary", lang=language, request=request, given=[given], answer=answer, needs=[]
    )


def _main(given: Document, language: Language, most: int) -> list[str]:
    """Returns the first statements of a document as sentences, in their order."""
    return [each.told.says(language) for each in given.statements[:most]]


def rows(seed: int, count: int, *, part: str = "train") -> Iterator[Row]:
    """Yields different rows; the part `validation` has documents of other kinds."""
    rng = Random(f"{part}-{seed}")
    kinds = (KINDS, SCENE_KINDS) if part == "train" else (VALIDATION, VALIDATION_SCENES)
    papers = PAPERS if part == "train" else VALIDATION_PAPERS
    seen: set[tuple[str, str]] = set()
    while len(seen) < count:
        row = checked(_draft(rng, kinds, papers))
        if row is not None and (row["request"], row["results"]) not in seen:
            seen.add((row["request"], row["results"]))
            yield row


def _draft(rng: Random, kinds: Sequence[Sequence[Kind]], papers: Sequence[Paper]) -> Draft:
    if rng.random() < _PAPERS:
        return paper_row(rng, papers)
    make = rng.choices([each for each, _ in _MAKERS], [share for _, share in _MAKERS])[0]
    return make(rng, kinds[rng.random() < _SCENES])


_MAKERS: Final[tuple[tuple[Maker, float], ...]] = (
    (_question, 0.24),
    (_unknown, 0.08),
    (_summary, 0.33),
    (written, 0.22),
    (data.table, 0.05),
    (data.settings, 0.04),
    (data.log, 0.04),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the rows of one part to a file, one JSON object a line."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.training.rows.answers", description=__doc__
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", choices=("train", "validation"), default="train")
    parser.add_argument("--count", type=int)
    given = parser.parse_args(arguments)
    count = given.count or (TRAIN if given.part == "train" else ASIDE)
    with given.out.open("w", encoding="utf-8") as file:
        for row in rows(given.seed, count, part=given.part):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
