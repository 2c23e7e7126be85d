"""Scores written answers against those of the rows: by family, kind and language.

`python -m lab.training.score MODEL.gguf DATA.npz ANSWERS.npz [--wrong WRONG.jsonl]`
"""

from __future__ import annotations

import argparse
import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from tests.unit.adapters.models.gguf_writer import header_of

from lab.training.tokenizer import Tokenizer

_REFERENCE: Final = re.compile(r"(\$\d)(?:\.[\w.]+)?")
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
_WORD: Final = re.compile(r"[㐀-鿿]|\w+")
_SQL: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|\w+|\S")
_ALIKE: Final = 0.6


@dataclass(frozen=True, slots=True)
class Score:
    """What is right about one answer."""

    right: bool
    tools: bool
    readable: bool


def score_row(row: Mapping[str, Any], text: str) -> Score:
    """Scores the answer to a row."""
    if row["family"] == "answer":
        right = says_the_same(str(row["answer"]), text)
        return Score(right, right, readable=bool(text.strip()))
    return score_draft(cast("Mapping[str, Any]", row["answer"]), text)


def score_draft(wanted: Mapping[str, Any], text: str) -> Score:
    """Scores a draft: the same calls in the same order; any reply is as good as another."""
    try:
        given: Any = json.loads(text)
        calls = [(call["tool"], call["args"]) for call in given.get("calls") or ()]
        readable = bool(calls) != bool(given.get("reply"))
    except (ValueError, AttributeError, KeyError, TypeError):
        return Score(right=False, tools=False, readable=False)
    gold = [(call["tool"], call["args"]) for call in wanted.get("calls") or ()]
    tools = readable and [name for name, _ in calls] == [name for name, _ in gold]
    return Score(tools and plain(calls) == plain(gold), tools, readable)


def plain(value: Any) -> Any:
    """Returns a value without differences that change nothing: case, spaces, quotes of SQL."""
    match value:
        case Mapping():
            entries = cast("Mapping[str, Any]", value)
            return {
                key: _query(str(each)) if key == "query" else plain(each)
                for key, each in entries.items()
            }
        case list() | tuple():
            return [plain(each) for each in cast("Sequence[Any]", value)]
        case str():
            return _text(value)
        case bool() | None:
            return value
        case _:
            return float(value)


def _text(text: str) -> Any:
    known = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    reference = _REFERENCE.fullmatch(known)
    if reference:
        return reference[1]
    try:
        return float(known)
    except ValueError:
        return known.strip(" .。")


def _query(query: str) -> str:
    """Returns a query with one space between its parts, names without quotes."""
    parts = _SQL.findall(query.rstrip("; \n"))
    return " ".join(part if part[0] == "'" else part.strip('"`').casefold() for part in parts)


def says_the_same(wanted: str, given: str) -> bool:
    """Whether two answers hold the same numbers and most of the same words."""
    gold, found = (unicodedata.normalize("NFKC", each).casefold() for each in (wanted, given))
    if set(_NUMBER.findall(gold)) != set(_NUMBER.findall(found)):
        return False
    first, second = Counter(_WORD.findall(gold)), Counter(_WORD.findall(found))
    shared = (first & second).total()
    return 2 * shared >= _ALIKE * (first.total() + second.total())


def written_answers(
    data: Path, answers: Path, tokenizer: Tokenizer
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yields the rows that were answered, each with the text of its answer."""
    lines = data.with_suffix(".rows.jsonl").read_text(encoding="utf-8").splitlines()
    with np.load(data) as stored, np.load(answers) as written:
        words = stored["vocabulary"]
        lists = np.split(words[written["answers"]], np.cumsum(written["answers_lengths"])[:-1])
        for number, ids in zip(written["rows"], lists, strict=True):
            yield json.loads(lines[number]), tokenizer.decode([int(each) for each in ids])


def table(scores: Mapping[str, Sequence[Score]]) -> str:
    """Returns one line for each group of rows."""
    return "\n".join(
        f"{name:44} {len(some):5} rows  right {_share(some, 'right')}  tools "
        f"{_share(some, 'tools')}  readable {_share(some, 'readable')}"
        for name, some in scores.items()
    )


def _share(scores: Sequence[Score], name: str) -> str:
    return f"{sum(bool(getattr(each, name)) for each in scores) / len(scores):6.1%}"


def main() -> None:
    """Prints the table of one file of answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--wrong", type=Path, help="where wrong answers are written")
    options = parser.parse_args()
    groups: dict[str, list[Score]] = defaultdict(list)
    wrong: list[str] = []
    tokenizer = Tokenizer(header_of(options.model))
    for row, text in written_answers(options.data, options.answers, tokenizer):
        score = score_row(row, text)
        family, kind, lang = row["family"], row.get("kind", "?"), row.get("lang", "?")
        for name in (f"{family}", f"{family} {lang}", f"{family} / {kind}"):
            groups[name].append(score)
        if not score.right:
            wrong.append(json.dumps({**row, "written": text}, ensure_ascii=False))
    print(table(dict(sorted(groups.items()))))
    if options.wrong:
        options.wrong.write_text("\n".join(wrong) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
