"""Rows over papers: one of several holds what is asked, or none does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from random import Random
from typing import Any, Final

from lab.training.rows.answers_asking import NOT_SAID, as_typed
from lab.training.rows.answers_papers import Asked, Paper, Sheet, sheet
from lab.training.rows.answers_rows import Draft
from lab.training.rows.answers_words import Language, Pair

_SHORT: Final = 900  # letters of a document that a look-up gives whole
_BOUND: Final = 0.12  # the share of papers that are a part of a longer file
_UNSAID: Final = Pair("that", "这一点")


def paper_row(rng: Random, papers: Sequence[Paper]) -> Draft:
    """A question about one paper, with others near it that are like it where that is clear."""
    target = sheet(rng, rng.choice(papers))
    asked = rng.choice(target.asked)
    if asked.answer is not None and _can_miss(target, asked) and rng.random() < 0.05:
        target, asked = _without(target, asked.block), asked._replace(answer=None)
    language = _language(rng, target, asked)
    ways = [each.strip() for each in asked.ask.says(language).split("/ ")]
    request = as_typed(rng, rng.choice(ways), language, target.path, target.paper.name)
    if rng.random() < _BOUND:
        target, asked = _bound(rng, target, asked, papers)
    near = _near(rng, target, papers, is_clear=target.paper.is_named or target.path in request)
    answer = asked.answer or Pair(
        *(each.format(u=unsaid) for each, unsaid in zip(NOT_SAID, _UNSAID, strict=True))
    )
    return Draft(
        kind="question" if asked.answer else "unknown",
        lang=language,
        request=request,
        given=[_given(rng, target, asked, near)],
        answer=answer.says(language),
        needs=[target.blocks[asked.block]] if asked.answer else [],
    )


def _language(rng: Random, target: Sheet, asked: Asked) -> Language:
    own = target.paper.language
    other: Language = "zh" if own == "en" else "en"
    return other if asked.ask.says(other) and rng.random() < 0.4 else own


def _can_miss(target: Sheet, asked: Asked) -> bool:
    """Whether the text goes on without the block that holds the answer."""
    return len(target.blocks) > 2 and asked.block > 0


def _without(target: Sheet, block: int) -> Sheet:
    return target._replace(blocks=(*target.blocks[:block], *target.blocks[block + 1 :]))


def _bound(
    rng: Random, target: Sheet, asked: Asked, papers: Sequence[Paper]
) -> tuple[Sheet, Asked]:
    """Puts papers about other things before and behind one, in one long file."""
    own = target.paper
    rest = [each for each in papers if each.group != own.group and each.language == own.language]
    before, behind = _some_blocks(rng, rest), _some_blocks(rng, rest)
    blocks = (*before, *target.blocks, "", *behind)
    return target._replace(blocks=blocks), asked._replace(block=asked.block + len(before))


def _some_blocks(rng: Random, papers: Sequence[Paper]) -> list[str]:
    """Returns the blocks of up to two papers, with an empty line behind each paper."""
    made = [sheet(rng, rng.choice(papers)) for _ in range(rng.randrange(3))]
    return [block for each in made for block in (*each.blocks, "")]


def _near(rng: Random, target: Sheet, papers: Sequence[Paper], *, is_clear: bool) -> list[Sheet]:
    """Makes other papers; those of the same group only where the request tells them apart."""
    own = target.paper
    alike = [each for each in papers if (each.group, each.language) == (own.group, own.language)]
    rest = [each for each in papers if each.group != own.group]
    if own.is_named:
        alike = [each for each in alike if each is not own]
    made: list[Sheet] = []
    for _ in range(rng.choice((0, 0, 1, 1, 2, 2, 3, 4))):
        pool = alike if alike and is_clear and rng.random() < 0.65 else rest
        near = [each for each in pool if each.language == own.language]
        other = sheet(rng, rng.choice(near if near and rng.random() < 0.85 else pool))
        made.append(other._replace(path=_free(other.path, [target, *made])))
    return made


def _free(path: str, taken: Sequence[Sheet]) -> str:
    """Returns the path, or one beside it that no other paper has."""
    names = {each.path for each in taken}
    given = PurePosixPath(path)
    count = 2
    while path in names:
        path = str(given.with_name(f"{given.stem}-{count}{given.suffix}"))
        count += 1
    return path


def _given(rng: Random, target: Sheet, asked: Asked, near: Sequence[Sheet]) -> str:
    found: list[dict[str, Any]]
    if rng.random() < 0.65:
        found = [_passage(rng, target, asked.block)]
        found += [_passage(rng, each, rng.randrange(len(each.blocks))) for each in near]
        if rng.random() < 0.45:
            rng.shuffle(found)
        return json.dumps({"passages": found, "searched": len(found)}, ensure_ascii=False)
    found = [{"path": each.path, "text": each.text} for each in (target, *near)]
    if not near:
        return json.dumps(found[0], ensure_ascii=False)
    rng.shuffle(found)
    return json.dumps({"files": found, "left_out": 0}, ensure_ascii=False)


def _passage(rng: Random, given: Sheet, block: int) -> dict[str, Any]:
    if len(given.text) <= _SHORT and rng.random() < 0.8:
        return {"path": given.path, "line": 1, "text": given.text}
    start = max(0, block - rng.randrange(3))
    text = "\n".join(given.blocks[start : block + 1 + rng.randrange(3)])
    line = 1 + sum(each.count("\n") + 1 for each in given.blocks[:start])
    return {"path": given.path, "line": line, "text": text.strip("\n")}
