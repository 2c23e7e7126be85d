"""Results as the tools give them for generated documents: passages, one file, several files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from lab.training.rows.answers_documents import Document, Kind, document, from_scene, subject_of
from lab.training.rows.answers_statements import Statement, Subject
from lab.training.rows.answers_words import Language

_SHORT = 900  # letters of a document that a look-up gives whole


def target_document(
    rng: Random, kind: Kind, language: Language, *, least: int = 1, named: bool | None = None
) -> Document:
    """Makes a document of any length, from one statement to a page."""
    count = max(least, rng.choice((1, 2, 3, 4, 5, 6, 8, 10)))
    if kind.scene is not None:
        return from_scene(rng, kind, kind.scene, language, most=max(count, 2))
    subject = subject_of(rng, kind, language)
    if named is not None:
        subject = Subject(subject.name, is_named=named)
    filler = rng.choice((0.0, 0.2, 0.4, 0.6))
    return document(rng, kind, language, subject, count=min(count, 10), filler=filler)


def others(
    rng: Random, target: Document, kinds: Sequence[Kind], asked: Statement | None, count: int
) -> list[Document]:
    """Makes other documents that do not hold the answer.

    Where the request names its subject, one may say the same of another subject.
    """
    made: list[Document] = []
    # Two bills would both answer what the total is.
    alike = {"invoice", "receipt"} if target.kind.name.en in ("invoice", "receipt") else set[str]()
    apt = [each for each in kinds if each.name.en not in alike]
    if target.kind.scene is not None:
        apt = [each for each in apt if each.scene is not None and each is not target.kind]
    while len(made) < count:
        twin = target.subject.is_named and asked is not None and rng.random() < 0.6
        kind = target.kind if twin else rng.choice(apt)
        other = target_document(rng, kind, target.language, named=True)
        if twin and asked is not None:
            other = _with_topic(rng, other, asked)
        topics = {each.topic for each in other.statements}
        clash = asked is not None and asked.topic in topics and not target.subject.is_named
        taken = {each.path for each in (target, *made)}
        if not clash and other.subject.name != target.subject.name and other.path not in taken:
            made.append(other)
    return made


def _with_topic(rng: Random, given: Document, asked: Statement) -> Document:
    """Adds what another statement tells, with another value."""
    for _ in range(200):
        one = rng.choice(given.kind.builders)(rng, given.subject, given.language)
        if one.topic == asked.topic and one.say != asked.say:
            said = one.say.says(given.language)
            return given._replace(
                blocks=(*given.blocks, said),
                statements=(*given.statements, one),
                places=(*given.places, len(given.blocks)),
            )
    return given


def looked_up(rng: Random, target: Document, place: int, rest: Sequence[Document]) -> str:
    """Returns passages of several documents, the right one mostly first."""
    found = [_passage(rng, target, place)]
    found += [_passage(rng, each, rng.randrange(len(each.blocks))) for each in rest]
    if rng.random() < 0.45:
        rng.shuffle(found)
    return json.dumps({"passages": found, "searched": len(found)}, ensure_ascii=False)


def _passage(rng: Random, given: Document, place: int) -> dict[str, Any]:
    if len(given.text) <= _SHORT and rng.random() < 0.7:
        return {"path": given.path, "line": 1, "text": given.text}
    start = max(0, place - rng.randrange(3))
    near = given.blocks[start : place + 1 + rng.randrange(3)]
    head = given.blocks[:1] if start and (given.subject.is_named or rng.random() < 0.5) else ()
    line = 1 if head else 1 + 2 * start
    return {"path": given.path, "line": line, "text": "\n\n".join((*head, *near))}


def read(given: Document) -> str:
    """Returns a whole document as the tool that reads one file gives it."""
    return json.dumps({"path": given.path, "text": given.text}, ensure_ascii=False)


def read_all(given: Sequence[Document]) -> str:
    """Returns whole documents as the tool that reads several files gives them."""
    files = [{"path": each.path, "text": each.text} for each in given]
    return json.dumps({"files": files, "left_out": 0}, ensure_ascii=False)
