"""How many invalid arguments are refused, and valid ones taken, against simpler validators."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs

from plansmith.check.arguments import Placeholders, certain_errors
from plansmith.check.schemas import compiled

RESULT = Path(__file__).parent / "results" / "validation.md"
DRAFTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
Accepts = Callable[[Any, Any], bool | None]


class Test(NamedTuple):
    """A schema, a value, and whether the value is valid."""

    schema: Any
    data: Any
    valid: bool


def ours(schema: Any, data: Any) -> bool | None:
    """Our argument validation; None when the schema cannot be used."""
    found = certain_errors(compiled(schema), Placeholders({"$literal": data}))
    return None if found is None else not found


def required_only(schema: Any, data: Any) -> bool | None:
    """SAGE's check: an object that has what is required."""
    if not isinstance(schema, dict) or not isinstance(data, dict):
        return True
    required = schema.get("required")
    return all(name in data for name in required) if isinstance(required, list) else True


def plain(schema: Any, data: Any) -> bool | None:
    """jsonschema-rs as it comes, without formats."""
    try:
        return jsonschema_rs.validator_for(schema, offline=True).is_valid(data)
    except ValueError:
        return None


def python_jsonschema() -> Accepts | None:
    """The library jsonschema, where it is installed."""
    try:
        library = importlib.import_module("jsonschema")
    except ImportError:
        return None

    def accepts(schema: Any, data: Any) -> bool | None:
        try:
            maker = library.validators.validator_for(schema)
            return bool(maker(schema, format_checker=maker.FORMAT_CHECKER).is_valid(data))
        except Exception:  # noqa: BLE001 (whatever it raises, it did not decide)
            return None

    return accepts


def maskbench(folder: Path) -> list[Test]:
    """Real schemas with valid and invalid instances."""
    text = (folder / "schema" / "maskbench.jsonl").read_text(encoding="utf-8").rstrip()
    rows = [json.loads(line) for line in text.split("\n")]
    return [
        Test(row["schema"], test["data"], test["valid"]) for row in rows for test in row["tests"]
    ]


def suite(folder: Path, *, formats: bool) -> list[Test]:
    """The JSON Schema Test Suite, without what needs documents from elsewhere."""
    text = (folder / "schema" / "jsts.jsonl").read_text(encoding="utf-8").rstrip()
    rows = [json.loads(line) for line in text.split("\n")]
    return [
        Test(_drafted(row), row["data"], row["valid"])
        for row in rows
        if row["format"] == formats and not row["remote"] and (formats or not row["optional"])
    ]


def _drafted(row: dict[str, Any]) -> Any:
    schema = row["schema"]
    wanted = {"$schema": DRAFTS[row["draft"]]}
    return wanted | schema if isinstance(schema, dict) else schema


def measure(accepts: Accepts, tests: list[Test]) -> str:
    """A row's cells: refused, taken, undecided, microseconds."""
    verdicts: list[tuple[bool, bool | None]] = []
    times: list[float] = []
    for test in tests:
        start = time.perf_counter()
        verdict = accepts(test.schema, test.data)
        times.append(time.perf_counter() - start)
        verdicts.append((test.valid, verdict))
    bad = [verdict for valid, verdict in verdicts if not valid]
    good = [verdict for valid, verdict in verdicts if valid]
    undecided = sum(verdict is None for _, verdict in verdicts)
    refused, taken = bad.count(False), good.count(True)
    return (
        f"{refused:,} of {len(bad):,} ({100 * refused / len(bad):.1f} %) | "
        f"{taken:,} of {len(good):,} ({100 * taken / len(good):.2f} %) | {undecided} | "
        f"{statistics.median(times) * 1e6:.0f}"
    )


def report(folder: Path) -> Iterator[str]:
    """The page, line by line."""
    yield from HEAD
    sets = {
        "MaskBench": maskbench(folder),
        "JSON Schema Test Suite": suite(folder, formats=False),
        "Test Suite, formats": suite(folder, formats=True),
    }
    readers: dict[str, Accepts | None] = {
        "ours": ours,
        "jsonschema-rs, no formats": plain,
        "jsonschema": python_jsonschema(),
        "required only (SAGE)": required_only,
    }
    yield "| Set | validator | invalid refused | valid taken | undecided | median µs |"
    yield "|---|---|--:|--:|--:|--:|"
    for name, tests in sets.items():
        for label, accepts in readers.items():
            cells = measure(accepts, tests) if accepts else "not installed | | |"
            yield f"| {name} | {label} | {cells} |"
    yield ""
    yield f"jsonschema-rs {importlib.metadata.version('jsonschema-rs')}."


HEAD = (
    "# Validation of arguments",
    "",
    "`scripts/bench validation --write` (data: `--data DIR`, else `$PLANSMITH_BENCH_DATA`, else",
    "`../shared/bench`). Values of the public sets as arguments without references. Undecided: the",
    "schema itself cannot be used, which is told as `PS209`. Ours includes finding the compiled",
    "schema by its content; jsonschema-rs compiles at every call here. Tests that need documents",
    "from elsewhere are left out: nothing is fetched while a plan is checked. A flawed part of a",
    "schema is left out and the rest counts. The 14 valid values of the suite that ours refuses",
    "are those with which it tests that a format is by default no more than a remark; to us, on",
    "purpose, it is a rule.",
    "",
)


def main() -> None:
    """Print the report, and with `--write` keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = os.environ.get("PLANSMITH_BENCH_DATA", "../shared/bench")
    parser.add_argument("--data", type=Path, default=Path(default), help="the bench data folder")
    parser.add_argument("--write", action="store_true", help=f"also write {RESULT.name}")
    options = parser.parse_args()
    if not (options.data / "schema").is_dir():
        sys.exit(f"no schemas in {options.data}: use --data or PLANSMITH_BENCH_DATA")
    page = "\n".join(report(options.data)) + "\n"
    print(page)
    if options.write:
        RESULT.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
