"""Finds the passages of documents that answer a question, by its words and without a model."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from plansmith.text import CJK_RANGE
from plansmith_planner.context.documents import Chunk, chunks, terms
from plansmith_planner.language.words import FILLER, STOP, is_cjk, stem

_MOST_LETTERS: Final = 1_800
_CHUNK: Final = 450
_OVERLAP: Final = 80
_SHORT: Final = 1_000  # a document that comes whole
_CANDIDATES: Final = 40
_WORTH: Final = 0.4  # of the best score; what fits less is noise
_NAME_WEIGHT: Final = 0.5
_DOCUMENT_WEIGHT: Final = 0.4
_ANSWER_BONUS: Final = 1.25
_LATEST_BONUS: Final = 1.5
_START_BONUS: Final = 1.15  # names, dates and parties stand where a document begins
_SATURATION: Final = 0.5
_LENGTH_WEIGHT: Final = 0.15
_PAGE: Final = 3_000
_BEGINNING: Final = 0.8  # a word of the text that only begins with the word of the question
_HEADED: Final = (".md", ".markdown", ".html", ".htm", ".docx")
_DATE: Final = re.compile(r"(\d{4})[-_. 年]?(\d{1,2})[-_. 月]?(\d{1,2})")


class Document(NamedTuple):
    """A document: its path and its text."""

    path: str
    text: str


class Passage(NamedTuple):
    """A piece of a document, with the line at which it begins."""

    path: str
    line: int
    text: str

    @property
    def last(self) -> int:
        return self.line + self.text.count("\n")


def find_passages(question: str, documents: Sequence[Document]) -> list[Passage]:
    """Returns all documents if they are short together, else the best passages, best first."""
    words = {term: _Word(term, _forms(term), weight) for term, weight in _asked_terms(question)}
    answers = tuple(answer for asks, answer in _KINDS if asks.search(question))
    asked = _Question(tuple(words.values()), answers, bool(_LATEST.search(question)))
    ranked = _ranked(asked, documents)
    if sum(len(each.text) for each in documents) <= _MOST_LETTERS:
        order = dict.fromkeys([*(at for at, _ in ranked), *range(len(documents))])
        return [_whole(documents[at]) for at in order if documents[at].text.strip()]
    found = _scored(asked, documents, dict(ranked[:_CANDIDATES]))
    if not found and len(documents) == 1:
        # Another language or other words: the beginning says what the document is about.
        text = documents[0].text
        start = chunks(text, size=_MOST_LETTERS, overlap=0, headings=False)[0]
        return [Passage(documents[0].path, start.first, start.text)]
    return _taken(documents, found)


def _whole(document: Document) -> Passage:
    lines = document.text.split("\n")
    first = next(at for at, line in enumerate(lines, start=1) if line.strip())
    return Passage(document.path, first, document.text.strip("\n"))


def _ranked(asked: _Question, documents: Sequence[Document]) -> list[tuple[int, float]]:
    """Returns the documents that have a word of the question, those with the rarest first.

    Looks only for parts of words: to take a thousand documents apart would take too long.
    """
    texts = [f"{each.path}\n{each.text}".casefold() for each in documents]
    # In a long document any word may stand by chance.
    brevity = [1 / (1 + _LENGTH_WEIGHT * math.log2(max(1.0, len(each) / _PAGE))) for each in texts]
    found = dict.fromkeys(range(len(texts)), 0.0)
    for word in asked.words:
        likeness = [_likeness(word, text) for text in texts]
        rarity = _rarity(sum(each > 0 for each in likeness), len(texts)) * word.weight
        for at, document in enumerate(documents):
            named = _NAME_WEIGHT * _likeness(word, document.path.casefold())
            found[at] += rarity * (likeness[at] * brevity[at] + named)
    if asked.latest:
        most = max(found.values(), default=0.0)
        dated = [
            (tuple(map(int, date.groups())), -at)
            for at, score in found.items()
            if score >= most / 2 and (date := _DATE.search(documents[at].path))
        ]
        if dated:
            found[-max(dated)[1]] *= _LATEST_BONUS
    kept = [(at, score) for at, score in found.items() if score > 0]
    return sorted(kept, key=lambda each: (-each[1], each[0]))


def _likeness(word: _Word, text: str) -> float:
    found = 0.0
    for form, like in word.forms.items():
        # All endings of a word share this part: a stem ends in i for y.
        ends = len(form) > 3 and form.endswith("i") and not is_cjk(form)
        if (form[:-1] if ends else form) in text:
            found = max(found, like)
    return found


def _rarity(having: int, count: int) -> float:
    return math.log(1 + (count - having + 0.5) / (having + 0.5))


def _scored(
    asked: _Question, documents: Sequence[Document], best: dict[int, float]
) -> list[tuple[float, int, Chunk]]:
    """Returns the chunks of the best documents with their scores, best first."""
    pieces: list[tuple[int, Chunk]] = []
    for at in best:
        path, text = documents[at]
        headed = path.lower().endswith(_HEADED)
        parts = chunks(text, size=_CHUNK, overlap=_OVERLAP, headings=headed)
        pieces += [(at, each) for each in parts]
    counts = [Counter(map(stem, terms(each.text))) for _, each in pieces]
    above = [set(map(stem, terms(f"{documents[at].path} {each.heading}"))) for at, each in pieces]
    mean = sum(count.total() for count in counts) / max(len(counts), 1) or 1.0
    scores = [0.0] * len(pieces)
    for word in asked.words:
        fits = [_fit(word, *each, mean) for each in zip(counts, above, strict=True)]
        rarity = _rarity(sum(fit > 0 for fit in fits), len(fits)) * word.weight
        scores = [score + rarity * fit for score, fit in zip(scores, fits, strict=True)]
    highest, top = max(best.values(), default=1.0), max(scores, default=0.0)
    found: list[tuple[float, int, Chunk]] = []
    for (at, chunk), score in zip(pieces, scores, strict=True):
        if score > 0:
            bonus = _ANSWER_BONUS if any(each.search(chunk.text) for each in asked.answers) else 1.0
            bonus *= _START_BONUS if chunk.first <= 3 else 1.0
            whole = score * bonus + _DOCUMENT_WEIGHT * top * best[at] / highest
            found.append((whole, at, chunk))
    return sorted(found, key=lambda each: (-each[0], each[1], each[2].first))


def _fit(word: _Word, count: Counter[str], above: set[str], mean: float) -> float:
    """Returns how well a chunk has a word: its best form counts, in the heading by half."""
    length = _SATURATION * (0.4 + 0.6 * count.total() / mean)
    fits = [like * count[form] / (count[form] + length) for form, like in word.forms.items()]
    heads = (like for form, like in word.forms.items() if form in above)
    fit = max(*fits, _NAME_WEIGHT / (1 + _SATURATION) * max(heads, default=0.0), 0.0)
    if not fit and len(word.term) > 4 and any(each.startswith(word.term) for each in count):
        return _BEGINNING / (1 + length)
    return fit


def _taken(
    documents: Sequence[Document], found: Sequence[tuple[float, int, Chunk]]
) -> list[Passage]:
    """Takes passages while there is room; short documents whole, neighbours as one."""
    taken: list[Passage] = []
    whole: set[int] = set()
    for score, at, chunk in found:
        if score < _WORTH * found[0][0]:
            break
        document = documents[at]
        room = _MOST_LETTERS - sum(len(passage.text) for passage in taken)
        if at in whole:
            continue
        if len(document.text) <= min(_SHORT, room):
            whole.add(at)
            taken.append(_whole(document))
        elif not _joined(taken, document, chunk, room) and len(chunk.text) <= room:
            taken.append(Passage(document.path, chunk.first, chunk.text))
    return taken


def _joined(taken: list[Passage], document: Document, chunk: Chunk, room: int) -> bool:
    """Makes one passage of a chunk and a passage that it touches; says whether it did."""
    for at, old in enumerate(taken):
        touches = chunk.first <= old.last + 1 and old.line <= chunk.last + 1
        if old.path != document.path or not touches:
            continue
        first, last = min(old.line, chunk.first), max(old.last, chunk.last)
        text = "\n".join(document.text.split("\n")[first - 1 : last])
        if len(text) - len(old.text) > room:
            return chunk.text in old.text
        taken[at] = Passage(old.path, first, text)
        return True
    return False


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
_MONTHS: Final = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    "oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_WHEN: Final = (
    r"\bwhen\b|\bwhat (?:date|day|time)\b|\bdeadline\b|\buntil\b"
    "|什么时候|何时|几号|哪天|日期|几点|到期|截止"
)
_DAY: Final = (
    rf"\d{{4}}-\d\d|\d{{1,2}}:\d\d|\b(?:{_MONTHS})\b\.? ?\d|\d (?:{_MONTHS})\b"
    r"|\d ?[月日号点]|day\b|星期|周[一二三四五六日]"
)
_HOW_MUCH: Final = (
    r"\bhow much\b|\b(?:costs?|prices?|fees?|rent|salary|budget)\b"
    "|多少钱|费用|价格|租金|金额|工资|预算"
)
_MONEY: Final = (
    r"[$€£¥￥] ?\d|\d[\d,.]{0,30} ?(?:usd|eur|gbp|cny|rmb|dollars?|euros?|pounds?|yuan|元|万|块)"
)
# What a question asks with, and what its answer then looks like.
_KINDS: Final = tuple(
    (re.compile(asked, re.IGNORECASE), re.compile(answer, re.IGNORECASE))
    for asked, answer in (
        (_WHEN, _DAY),
        (_HOW_MUCH, _MONEY),
        (r"\bhow (?:many|long|old|far|big)\b|多少|几|多长|多久", r"\d|[二两三四五六七八九十百]"),
        (r"\be-?mail\b|邮箱|邮件地址", r"\S@\S"),
        (r"\b(?:tele)?phone\b|\bcall\b|电话|手机|号码", r"\+?\d[\d ()-]{5,}\d"),
        (r"\bwho(?:m|se)?\b|谁|哪些人|负责人", r"attend|particip|参加|出席|与会|负责|[:：]"),
    )
)
_LATEST: Final = re.compile(
    r"\b(?:latest|last|newest|most recent|recent)\b|最近|最新|上次|上一次|最后一次", re.IGNORECASE
)


class _Word(NamedTuple):
    """A word of a question: its forms in a text, each with a likeness from 0 to 1."""

    term: str
    forms: Mapping[str, float]
    weight: float


class _Question(NamedTuple):
    """The words of a question, what its answer looks like, and whether the newest is meant."""

    words: tuple[_Word, ...]
    answers: tuple[re.Pattern[str], ...]
    latest: bool


def _asked_terms(text: str) -> Iterator[tuple[str, float]]:
    plain = _ORDINAL.sub("", text)
    for term in terms(_CJK_RUN.sub(" ", plain)):
        if term not in STOP:
            yield stem(term), 0.5 if term in FILLER else 1.0
    for run in _CJK_RUN.findall(plain):
        for part in _ASKING.split(run):
            if len(part) == 1:
                yield part, _LONE_CHARACTER
            yield from ((part[at : at + 2], 1.0) for at in range(len(part) - 1))


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
