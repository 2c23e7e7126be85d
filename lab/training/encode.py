"""Turns rows into token ids for training, in one small file.

`python -m lab.training.encode MODEL.gguf --train ROWS ... --validation ROWS --out DATA.npz` also
writes DATA.rows.jsonl: the rows of the file in its order, for `lab.training.score`.
"""

from __future__ import annotations

import argparse
import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tests.unit.adapters.models.gguf_writer import header_of

from lab.training.processes import in_processes
from lab.training.prompts import Rendered, Renderer, Row
from lab.training.tokenizer import Tokenizer

# Ids grow with the rank of their merge: the first ones are the common pieces of words.
_COMMON: Final = 20_000
_MAX_LENGTH: Final = 1800
_SHARED_BY: Final = 48
PARTS: Final = ("train", "validation")


@dataclass(frozen=True, slots=True)
class Encoded:
    """A row as token ids of the model."""

    row: Row
    part: int
    start: str
    rest: list[int]
    answer: list[int]


def encode_rows(
    rows: Iterable[tuple[int, Row]],
    tokenizer: Tokenizer,
    *,
    longest: int = _MAX_LENGTH,
    shared_by: int = _SHARED_BY,
    jobs: int = 1,
) -> list[Encoded]:
    """Renders and tokenises rows (part, row); too long ones are left out, and counted aloud.

    Tools belong to the start if so many rows share them; else only the system's message does.
    """
    rendered = _rendered(rows, jobs)
    shares = Counter(each.long_start for _, _, each in rendered)

    def encode(text: Rendered) -> tuple[str, list[int], list[int]]:
        shared = shares[text.long_start] >= shared_by
        start = text.long_start if shared else text.short_start
        rest = tokenizer.encode(text.long_start.removeprefix(start) + text.rest)
        return start, rest, tokenizer.encode(text.answer)

    ids = in_processes(encode, [text for _, _, text in rendered], jobs)
    found: list[Encoded] = []
    too_long: Counter[str] = Counter()
    for (part, row, _), (start, rest, answer) in zip(rendered, ids, strict=True):
        if len(rest) + len(answer) > longest:
            too_long[str(row["family"])] += 1
            continue
        found.append(Encoded(row, part, start, rest, answer))
    if too_long:
        print(f"left out, over {longest} tokens: {dict(too_long)}")
    return found


def _rendered(rows: Iterable[tuple[int, Row]], jobs: int) -> list[tuple[int, Row, Rendered]]:
    """Renders rows; those with a problem are left out, and counted aloud."""
    renderer, given = Renderer(), list(rows)

    def render(row: Row) -> str | Rendered:
        return renderer.problem(row) or renderer.render(row)

    made = in_processes(render, [row for _, row in given], jobs)
    pairs = list(zip(given, made, strict=True))
    problems = Counter(text for _, text in pairs if isinstance(text, str))
    for problem, count in problems.most_common():
        print(f"left out, {count} rows: {problem}")
    return [(part, row, text) for (part, row), text in pairs if not isinstance(text, str)]


def vocabulary_of(rows: Sequence[Encoded], tokenizer: Tokenizer) -> npt.NDArray[np.int32]:
    """Returns the ids in use, with common words, single signs and control tokens."""
    used = set(range(min(_COMMON, len(tokenizer))))
    used.add(tokenizer.end)
    for text in {row.start for row in rows}:
        used.update(tokenizer.encode(text))
    for row in rows:
        used.update(row.rest, row.answer)
    used.update(_chinese_signs(tokenizer))
    return np.array(sorted(used), dtype=np.int32)


def _chinese_signs(tokenizer: Tokenizer) -> Iterator[int]:
    for code in range(0x4E00, 0xA000):
        ids = tokenizer.encode(chr(code))
        if len(ids) == 1 and unicodedata.category(chr(code)) == "Lo":
            yield ids[0]


def arrays_of(
    rows: Sequence[Encoded], tokenizer: Tokenizer, words: npt.NDArray[np.int32]
) -> tuple[dict[str, npt.NDArray[Any]], list[Encoded]]:
    """Returns the arrays of a data file and the rows in them; ids count within `words`."""
    place = np.full(len(tokenizer), -1, dtype=np.int64)
    place[words] = np.arange(len(words))
    known = [row for row in rows if (place[row.rest + row.answer] >= 0).all()]
    if len(known) < len(rows):
        print(f"left out, with words outside the vocabulary: {len(rows) - len(known)}")
    starts = list(dict.fromkeys(row.start for row in known))
    families = sorted({str(row.row["family"]) for row in known})
    start_ids = [place[tokenizer.encode(start)] for start in starts]
    if any((ids < 0).any() for ids in start_ids):
        raise ValueError("a start has words outside the vocabulary: pack the weights again")
    arrays = {
        "vocabulary": words,
        "end": place[tokenizer.end],
        "families": np.array(families),
        "family": np.array([families.index(str(row.row["family"])) for row in known], np.int8),
        "part": np.array([row.part for row in known], np.int8),
        "start": np.array([starts.index(row.start) for row in known], np.int16),
        **_ragged("starts", start_ids),
        **_ragged("rests", [place[row.rest] for row in known]),
        **_ragged("answers", [place[row.answer] for row in known]),
    }
    return arrays, known


def _ragged(name: str, lists: Sequence[npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    lengths = np.array([len(each) for each in lists], np.int32)
    return {name: np.concatenate(lists).astype(np.uint16), f"{name}_lengths": lengths}


def read_rows(paths: Sequence[Path], part: int) -> Iterator[tuple[int, Row]]:
    """Yields the rows of files."""
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            yield from ((part, json.loads(line)) for line in lines if line.strip())


def main() -> None:
    """Encodes files of rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--train", type=Path, nargs="+", required=True)
    parser.add_argument("--validation", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path, required=True)
    about = "a data file whose vocabulary the packed weights have"
    parser.add_argument("--vocabulary", type=Path, help=about)
    parser.add_argument("--jobs", type=int, default=1, help="processes that render and encode")
    options = parser.parse_args()
    tokenizer = Tokenizer(header_of(options.model))
    given = [*read_rows(options.train, 0), *read_rows(options.validation, 1)]
    rows = encode_rows(given, tokenizer, jobs=options.jobs)
    if options.vocabulary:
        with np.load(options.vocabulary) as stored:
            words = stored["vocabulary"]
    else:
        words = vocabulary_of(rows, tokenizer)
    arrays, known = arrays_of(rows, tokenizer, words)
    np.savez_compressed(options.out, allow_pickle=False, **arrays)
    with options.out.with_suffix(".rows.jsonl").open("w", encoding="utf-8") as out:
        for row in known:
            out.write(json.dumps({**row.row, "part": PARTS[row.part]}, ensure_ascii=False) + "\n")
    _tell(arrays, known, options.out)


def _tell(arrays: dict[str, npt.NDArray[Any]], rows: Sequence[Encoded], out: Path) -> None:
    starts, lengths = arrays["start"], arrays["rests_lengths"] + arrays["answers_lengths"]
    print(f"{len(rows)} rows, {lengths.sum()} tokens, {len(arrays['vocabulary'])} words", end=", ")
    print(f"{out.stat().st_size / 1e6:.1f} MB")
    for number, size in enumerate(arrays["starts_lengths"]):
        there = lengths[starts == number]
        names = Counter(
            str(row.row["family"]) for row, at in zip(rows, starts, strict=True) if at == number
        )
        print(f"start {number}: {size} tokens, {dict(names)}", end=", ")
        print(f"median {np.median(there):.0f}, longest {there.max()}")


if __name__ == "__main__":
    main()
