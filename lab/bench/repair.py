"""Reading malformed JSON: exact matches and time of each reader on the repair corpus."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plansmith_planner.parse.read import JsonStream, read_json

Reader = Callable[[str], Any]
SETS = ("json_repair", "jsonrepair", "baml", "jsontestsuite", "workbench_raw", "ultratool_raw")
RESULT = Path(__file__).parent / "results" / "repair.md"
CHUNK = 20


@dataclass(frozen=True, slots=True)
class Case:
    """One text and the value that its source says it means."""

    broken: str
    expected: Any


@dataclass(frozen=True, slots=True)
class Score:
    """How many cases a reader read right, and how long one call took."""

    exact: int
    cases: int
    median: float
    p99: float


def bracketed(text: str) -> Any:
    """The usual few lines: take the fenced block, then the outer brackets, then json.loads."""
    fenced = re.search(r"```\w*\s*(.*?)```", text, re.DOTALL)
    body = fenced[1] if fenced else text
    starts = [at for at in (body.find("{"), body.find("[")) if at >= 0]
    end = max(body.rfind("}"), body.rfind("]"))
    return json.loads(body[min(starts) : end + 1] if starts and end > 0 else body)


def library(module: str, function: str, *args: str) -> Reader | None:
    """A library's reader, or nothing when it is not installed."""
    try:
        found = getattr(importlib.import_module(module), function)
    except ImportError:
        return None
    if module == "jiter":
        return lambda text: found(text.encode(), partial_mode="trailing-strings")
    return lambda text: found(text, *args)


def readers() -> dict[str, Reader | None]:
    """Every reader of the table, in its order."""
    return {
        "json.loads": json.loads,
        "fences + brackets": bracketed,
        "fast_json_repair": library("fast_json_repair", "loads"),
        "json_repair": library("json_repair", "loads"),
        "partial-json-parser": library("partial_json_parser", "loads"),
        "jiter": library("jiter", "from_json"),
        "plansmith": read_json,
    }


def load(folder: Path, name: str) -> list[Case]:
    """The cases of a set whose meaning is defined; rejected and undefined ones are left out."""
    with (folder / f"{name}.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [Case(row["broken"], row["expected"]) for row in rows if row["expected_kind"] == "value"]


def same(left: Any, right: Any) -> bool:
    """Equal as JSON: 2 and 2.0 are one number, 1 and true are two values."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)


def measure(reader: Reader, cases: Iterable[Case]) -> Score:
    """Run one reader over a set; whatever it raises is a miss."""
    times: list[float] = []
    exact = 0
    for case in cases:
        start = time.process_time()
        try:
            value = reader(case.broken)
        except Exception:  # noqa: BLE001 - a peer may raise anything
            value = Ellipsis
        times.append((time.process_time() - start) * 1e6)
        exact += same(value, case.expected)
    times.sort()
    return Score(exact, len(times), statistics.median(times), times[int(len(times) * 0.99)])


def plan_text(size: int) -> str:
    """A plan of about this many characters."""
    inputs = {"query": "what the weather is like, and why", "limit": 10, "tags": ["a", "b"]}
    step = {"tool": "weather.search", "inputs": inputs, "after": ["s0"]}
    count = max(1, size // (len(json.dumps(step, indent=1)) + len('"id": "s9999"')))
    steps = [{"id": f"s{number}", **step} for number in range(count)]
    return json.dumps({"goal": "measure", "steps": steps}, indent=1)


def well_formed_texts() -> dict[str, str]:
    """Well-formed documents as models write them."""
    step = {"id": "s1", "tool": "weather.search", "inputs": {"query": "rain in Oslo", "days": 3}}
    chinese = [{"id": f"s{n}", "title": "查询城市的天气，再写一份报告"} for n in range(100)]
    return {
        "a step": json.dumps(step),
        "a plan of 24 steps": plan_text(5_000),
        "a plan in Chinese": json.dumps({"steps": chinese}, ensure_ascii=False),
        "500 floats": json.dumps([n * 1.37 for n in range(500)]),
        "a plan of 1 MB": plan_text(1_000_000),
    }


def best_microseconds(reader: Reader, text: str) -> float | None:
    """The shortest time of one call, or nothing when the reader does not read the text."""
    calls = max(1, 100_000 // len(text))
    try:
        if not reader(text):
            return None
    except Exception:  # noqa: BLE001 - a peer may raise anything
        return None
    times: list[float] = []
    for _ in range(9):
        start = time.process_time()
        for _ in range(calls):
            reader(text)
        times.append((time.process_time() - start) * 1e6 / calls)
    return min(times)


def well_formed() -> Iterator[str]:
    """The table of well-formed texts: the time of `json.loads`, and every reader's share of it."""
    all_readers = {name: reader for name, reader in readers().items() if reader}
    yield "| Text | kB | json.loads, µs | " + " | ".join(all_readers) + " |"
    yield "|---|--:|--:|" + "--:|" * len(all_readers)
    for label, text in well_formed_texts().items():
        fenced = f"Here it is:\n```json\n{text}\n```\n"
        unit = best_microseconds(json.loads, text) or 1
        for name, written in ((label, text), ("the same, in a fence", fenced)):
            times = [best_microseconds(reader, written) for reader in all_readers.values()]
            cells = [f"{one / unit:.2f}" if one else "-" for one in times]
            yield f"| {name} | {len(text) / 1e3:.1f} | {unit:.1f} | " + " | ".join(cells) + " |"


def stream_seconds(text: str) -> tuple[float, int]:
    """Feed a text in small pieces; the time it took and the steps seen before the end."""
    stream = JsonStream()
    start = time.process_time()
    steps = sum(len(stream.feed(text[at : at + CHUNK])) for at in range(0, len(text), CHUNK))
    return time.process_time() - start, steps


def streaming() -> Iterator[str]:
    """The streaming table: a growing plan, fed in pieces and read at once."""
    yield f"| Plan | fed in {CHUNK}-character pieces | µs per kB | read once | same, ill-formed |"
    yield "|---|--:|--:|--:|--:|"
    for size in (250_000, 500_000, 1_000_000):
        text = plan_text(size)
        seconds, steps = stream_seconds(text)
        start = time.process_time()
        read_json(text)
        once = time.process_time() - start
        start = time.process_time()
        read_json(text.replace('"after"', "after")[:-1])
        mended = time.process_time() - start
        yield (
            f"| {len(text) / 1e6:.2f} MB, {steps} steps | {seconds * 1000:.0f} ms "
            f"| {seconds * 1e9 / len(text):.0f} | {once * 1000:.0f} ms | {mended * 1000:.0f} ms |"
        )


def versions() -> str:
    """The installed versions of the peers."""
    names = ("fast_json_repair", "json_repair", "partial-json-parser", "jiter")
    known: list[str] = []
    for name in names:
        try:
            known.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            known.append(f"{name} not installed")
    return ", ".join(known)


def table(folder: Path) -> Iterator[str]:
    """The Markdown report, line by line."""
    all_readers = readers()
    scores: dict[str, dict[str, Score | None]] = {
        name: {
            label: measure(reader, load(folder, name)) if reader else None
            for label, reader in all_readers.items()
        }
        for name in SETS
    }
    yield "| Set | cases | " + " | ".join(all_readers) + " |"
    yield "|---|--:|" + "--:|" * len(all_readers)
    for name, row in scores.items():
        cases = next(score.cases for score in row.values() if score)
        cells = [str(score.exact) if score else "not installed" for score in row.values()]
        yield f"| {name} | {cases} | " + " | ".join(cells) + " |"
    yield ""
    yield "Processor time of one call, median / 99th percentile in µs:"
    yield ""
    yield "| Set | " + " | ".join(all_readers) + " |"
    yield "|---|" + "--:|" * len(all_readers)
    for name, row in scores.items():
        cells = [
            f"{score.median:.0f} / {score.p99:.0f}" if score else "-" for score in row.values()
        ]
        yield f"| {name} | " + " | ".join(cells) + " |"


def report(folder: Path) -> str:
    """The whole page."""
    lines = [
        "# Reading malformed JSON",
        "",
        "`scripts/bench repair --write` (data: `--data DIR`, else `$PLANSMITH_BENCH_DATA`, else",
        "`../shared/bench`). Exact matches on the public part of the repair corpus, over the cases",
        "whose meaning is defined (`expected_kind` is `value`).",
        "",
        *table(folder),
        "",
        *NOTES,
        "",
        "## Well-formed text",
        "",
        "Processor time of one call, the best of nine rounds, as a multiple of `json.loads` on the",
        "bare document; - where a reader does not read the text.",
        "",
        *well_formed(),
        "",
        "## Streaming",
        "",
        "Processor time.",
        "",
        *streaming(),
        "",
        f"Python {platform.python_version()}; {versions()}.",
        "",
    ]
    return "\n".join(lines)


NOTES = (
    "BAML's own parser is not in the table: `baml-py` reads a text only into a declared type of a",
    "compiled BAML project and offers no typeless reader. Likewise about half of the baml set asks",
    "for a target type (`schema_hint`), which no reader of this table is given.",
)


def main() -> None:
    """Print the report, and with `--write` keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = os.environ.get("PLANSMITH_BENCH_DATA", "../shared/bench")
    parser.add_argument("--data", type=Path, default=Path(default), help="the bench data folder")
    parser.add_argument("--write", action="store_true", help=f"also write {RESULT.name}")
    options = parser.parse_args()
    folder = options.data / "repair"
    if not folder.is_dir():
        sys.exit(f"no repair corpus in {options.data}: use --data or PLANSMITH_BENCH_DATA")
    page = report(folder)
    print(page)
    if options.write:
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
