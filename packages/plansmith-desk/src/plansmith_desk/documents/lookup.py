"""Finds the passages of documents that answer a question, by its words and without a model."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from plansmith_planner.context.documents import chunks
from plansmith_planner.language import word_list
from plansmith_planner.language.characters import CJK_RANGE
from plansmith_planner.language.words import FILLER, STOP, folded, is_cjk, stem

_MAX_LETTERS: Final = 1_800
_CHUNK: Final = 450
_SHORT: Final = 1_000  # a document that comes whole
_WORTH: Final = 0.4  # of the best score; what fits less is noise
_NAME_WEIGHT: Final = 0.5
_DOCUMENT_WEIGHT: Final = 0.4
_LENGTH_WEIGHT: Final = 0.15
_PAGE: Final = 3_000
_HEADED: Final = (".md", ".markdown", ".html", ".htm", ".docx")
_DATE: Final = re.compile(r"(\d{4})[-_. 年]?(\d{1,2})[-_. 月]?(\d{1,2})")
_LATEST: Final = re.compile(
    r"\b(?:latest|last|newest|most recent|recent)\b|最近|最新|上次|上一次|最后一次", re.IGNORECASE
)


class Document(NamedTuple):
    """A document: its path and its text."""

    path: str
    text: str


class Passage(NamedTuple):
    """A piece of a document, with the line at which it begins."""

    path: str
    line: int
    text: str


def find_passages(question: str, documents: Sequence[Document]) -> list[Passage]:
    """Returns all documents if they are short together, else the best passages, best first."""
    words = list({word.term: word for word in _asked_words(question)}.values())
    # In a long document any word may stand by chance.
    lengths = [max(1.0, len(each.text) / _PAGE) for each in documents]
    brevity = [1 / (1 + _LENGTH_WEIGHT * math.log2(length)) for length in lengths]
    # Only parts of words are looked for: to take a thousand documents apart would take too long.
    texts = [(each.path.casefold(), each.text.casefold()) for each in documents]
    scores = _scores(words, texts, brevity)
    if _LATEST.search(question):
        _prefer_latest(documents, scores)
    ranked = sorted(
        (at for at, score in enumerate(scores) if score > 0), key=lambda at: -scores[at]
    )
    if sum(len(each.text) for each in documents) <= _MAX_LETTERS:
        order = dict.fromkeys([*ranked, *range(len(documents))])
        return [_whole(documents[at]) for at in order if documents[at].text.strip()]
    if not ranked and len(documents) == 1:
        # Another language or other words: the beginning says what the document is about.
        [(path, text)] = documents
        start = chunks(text, size=_MAX_LETTERS, overlap=0, headings=False)[0]
        return [Passage(path, start.first, start.text)]
    return _best(words, documents, {at: scores[at] for at in ranked[:40]})


def _whole(document: Document) -> Passage:
    lines = document.text.split("\n")
    first = next(at for at, line in enumerate(lines, start=1) if line.strip())
    return Passage(document.path, first, document.text.strip("\n"))


def _prefer_latest(documents: Sequence[Document], scores: list[float]) -> None:
    """Raises the score of the newest of the documents that fit, by the date in its name."""
    most = max(scores, default=0.0)
    dated = [
        (tuple(map(int, date.groups())), -at)
        for at, score in enumerate(scores)
        if score >= most / 2 and (date := _DATE.search(documents[at].path))
    ]
    if dated:
        scores[-max(dated)[1]] *= 1.5


def _scores(
    words: Sequence[_Word], texts: Sequence[tuple[_Content, _Content]], weights: Sequence[float]
) -> list[float]:
    """Returns how well texts have the words of a question; a rare word says more.

    Each text has a name or heading, in which a word counts by half.
    """
    found = [0.0] * len(texts)
    for word in words:
        fits = [
            weight * word.likeness(text) + _NAME_WEIGHT * word.likeness(name)
            for (name, text), weight in zip(texts, weights, strict=True)
        ]
        having = sum(fit > 0 for fit in fits)
        rarity = word.weight * math.log(1 + (len(fits) - having + 0.5) / (having + 0.5))
        found = [score + rarity * fit for score, fit in zip(found, fits, strict=True)]
    return found


def _best(
    words: Sequence[_Word], documents: Sequence[Document], best: Mapping[int, float]
) -> list[Passage]:
    """Takes the best passages of the best documents while there is room; short documents whole."""
    pieces = [
        (at, each)
        for at in best
        for each in chunks(
            documents[at].text,
            size=_CHUNK,
            overlap=0,
            headings=documents[at].path.lower().endswith(_HEADED),
        )
    ]
    texts = [
        (_terms(f"{documents[at].path} {each.heading}"), _terms(each.text)) for at, each in pieces
    ]
    own = _scores(words, texts, [1.0] * len(texts))
    top, highest = max(own, default=0.0), max(best.values(), default=1.0)
    whole = [
        score + _DOCUMENT_WEIGHT * top * best[at] / highest if score else 0.0
        for (at, _), score in zip(pieces, own, strict=True)
    ]
    order = sorted(range(len(pieces)), key=lambda place: -whole[place])
    taken: dict[tuple[int, int], Passage] = {}
    room = _MAX_LETTERS
    for place in order:
        if not whole[place] or whole[place] < _WORTH * whole[order[0]]:
            break
        at, chunk = pieces[place]
        passage = Passage(documents[at].path, chunk.first, chunk.text)
        if len(documents[at].text) <= _SHORT:
            passage = _whole(documents[at])
        key = (at, passage.line)
        if key not in taken and len(passage.text) <= room:
            taken[key] = passage
            room -= len(passage.text)
    return list(taken.values())


_LIKENESS: Final = 0.6
_TRANSLATED: Final = 0.4
_LONE_CHARACTER: Final = 0.4
_CJK_RUN: Final = re.compile(rf"[{CJK_RANGE}]+")
_ORDINAL: Final = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b", re.IGNORECASE)

# What only makes a Chinese question of a sentence; it parts the words beside it.
_ASKING: Final = re.compile(
    "什么时候|什么|多少钱|多少|几个|几号|几点|几|谁|哪些|哪个|哪里|哪天|哪|怎么样|怎么|怎样|如何|为什么|是否|"
    "有没有|请问|告诉我|告诉|请|一下|里面|里|文件夹|文件|文档|根据|关于|内容|提到|写着|写|说|的|了|吗|呢|吧|"
    "我|你|您|他|她|它|们|是|在|和|与|及|或|也|都|就|要|帮|想|给|把|被|让|这|那|个|一|有|中|上|次"
)


class _Word(NamedTuple):
    """A word of a question: its forms in a text, each with a likeness from 0 to 1."""

    term: str
    forms: Mapping[str, float]
    weight: float

    def likeness(self, content: _Content) -> float:
        found = 0.0
        for form, like in self.forms.items():
            # All endings of a word share this part: a stem ends in i for y.
            start = form.removesuffix("i") if len(form) > 3 else form
            if form in content or start in content:
                found = max(found, like)
        return found


_Content = str | frozenset[str]  # a text, or its words without endings


_RUN: Final = re.compile(rf"[{CJK_RANGE}]+|[^\W_{CJK_RANGE}]+")
_COMMONEST: Final = word_list("commonest")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _words(text: str) -> Iterator[str]:
    """Yields the words of a text without their plural; Chinese gives characters and pairs."""
    for run in _RUN.findall(folded(_CAMEL.sub(" ", text))):
        if run[0] < "\u3040":
            # The plural of a word is the word: enough of English for so small an index.
            plural = len(run) > 3 and run.endswith("s") and not run.endswith("ss")
            found = [run[:-1] if plural else run]
        else:
            found = [*run, *(run[at : at + 2] for at in range(len(run) - 1))]
        yield from (word for word in found if word not in _COMMONEST)


def _terms(text: str) -> frozenset[str]:
    return frozenset(map(stem, _words(text)))


def _asked_words(text: str) -> Iterator[_Word]:
    plain = _ORDINAL.sub("", text)
    for term in _words(_CJK_RUN.sub(" ", plain)):
        if term not in STOP:
            yield _Word(stem(term), _forms(stem(term)), 0.5 if term in FILLER else 1.0)
    for run in _CJK_RUN.findall(plain):
        for part in _ASKING.split(run):
            if len(part) == 1:
                yield _Word(part, _forms(part), _LONE_CHARACTER)
            pairs = (part[at : at + 2] for at in range(len(part) - 1))
            yield from (_Word(pair, _forms(pair), 1.0) for pair in pairs)


def _forms(term: str) -> Mapping[str, float]:
    forms = {
        other: _LIKENESS if is_cjk(other) == is_cjk(term) else _TRANSLATED
        for other in _same().get(term, ())
    } | {term: 1.0}
    if term.isdecimal() and len(term) <= 2:
        # A day or a month may be written with a zero before it, or without.
        forms |= {term.lstrip("0") or "0": 1.0, term.zfill(2): 1.0}
    return forms


@cache
def _same() -> Mapping[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    text = files("plansmith_desk.documents").joinpath("same_words.txt")
    for line in text.read_text(encoding="utf-8").splitlines()[1:]:
        group = frozenset(word if is_cjk(word) else stem(word) for word in line.split())
        for word in group:
            found[word] = found.get(word, frozenset()) | group
    return found
