"""How well everyday requests in a folder are answered: right, asked needlessly, seconds."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Literal

from lab.bench.desk_cases import Ask, Folder
from lab.bench.desk_doors import Door, answered, in_own_process, in_process
from lab.bench.desk_heldout import contracts, staff
from lab.bench.desk_heldout_more import kinds_in_tuning_folders, media, school
from lab.bench.desk_score import judge
from lab.bench.desk_tables import firm, library, shop
from lab.bench.desk_texts import meetings, server

RESULT: Final = Path(__file__).parent / "results" / "desk.md"
Part = Literal["tuning", "heldout"]
PARTS: Final[tuple[Part, ...]] = ("tuning", "heldout")


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one request; `text`, `answer` and `why` stay empty where it is held out."""

    id: str
    folder: str
    kind: str
    lang: str
    right: bool
    needless: bool
    seconds: float
    model: bool
    text: str = ""
    answer: str = ""
    why: str = ""


def tuning_folders() -> list[Folder]:
    """The folders that may be looked at while something is tuned."""
    return [shop(), library(), firm(), server(), meetings()]


def heldout_folders() -> list[Folder]:
    """Folders of their own, and requests of other kinds about those of the tuning part."""
    more = kinds_in_tuning_folders()
    known = [replace(each, asks=more[each.name]) for each in tuning_folders()]
    return [contracts(), staff(), media(), school(), *known]


def folders(part: Part) -> list[Folder]:
    """The folders of a part, with their requests."""
    return tuning_folders() if part == "tuning" else heldout_folders()


def measure(ask: Ask, folder: Folder, door: Door, flags: Sequence[str], *, told: bool) -> Row:
    """Asks one request and judges what came of it."""
    outcome = answered(ask, folder, door, flags)
    verdict = judge(ask, outcome, folder.files)
    row = Row(
        id=ask.id,
        folder=ask.folder,
        kind=ask.kind,
        lang=ask.lang,
        right=verdict.right,
        needless=verdict.asked_needlessly,
        seconds=round(outcome.seconds, 2),
        model=outcome.called_model,
    )
    if not told:
        return row
    return replace(row, text=ask.text, answer=outcome.answer, why=verdict.why)


def shown(row: Row) -> str:
    """One request as lines."""
    mark = "right" if row.right else "WRONG"
    asked = ", asked needlessly" if row.needless else ""
    line = f"{row.id} {row.kind} {mark}{asked} {row.seconds:.1f} s"
    if row.right or not row.text:
        return line
    return f"{line}\n    {row.text}\n    {row.why}\n    {row.answer[:200]!r}"


def table(rows: Sequence[Row]) -> str:
    """The figures of a part: all, by folder, by kind and by language."""
    head = (
        "| | requests | right | asked needlessly | without a model | median s | 90 % s |\n"
        "|---|--:|--:|--:|--:|--:|--:|\n"
    )
    groups: list[Callable[[Row], str]] = [
        lambda row: row.folder,
        lambda row: row.kind,
        lambda row: {"en": "English", "zh": "Chinese"}[row.lang],
    ]
    lines = [_line("**all**", rows)]
    for group in groups:
        names = sorted({group(row) for row in rows})
        lines += [_line(name, [row for row in rows if group(row) == name]) for name in names]
    return head + "".join(lines)


def _line(name: str, rows: Sequence[Row]) -> str:
    seconds = sorted(row.seconds for row in rows)
    late = seconds[min(len(seconds) - 1, int(len(seconds) * 0.9))]
    right, needless = sum(row.right for row in rows), sum(row.needless for row in rows)
    alone, median = sum(not row.model for row in rows), statistics.median(seconds)
    return (
        f"| {name} | {len(rows)} | {right} ({right / len(rows):.0%}) | {needless} "
        f"| {alone} | {median:.1f} | {late:.1f} |\n"
    )


def chosen(found: Iterable[Folder], folder: str, only: Sequence[str]) -> list[tuple[Folder, Ask]]:
    """The requests to measure."""
    return [
        (each, ask)
        for each in found
        for ask in each.asks
        if folder in ("", each.name) and (not only or ask.id in only)
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/bench desk", description=__doc__)
    parser.add_argument("--part", choices=PARTS, default="tuning")
    parser.add_argument("--model", default="", help="as plansmith ask takes it, such as local:NAME")
    parser.add_argument("--base-url", default="", help="of an OpenAI-compatible server")
    parser.add_argument("--folder", default="", help="only requests about this folder")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="only these requests")
    parser.add_argument("--cli", action="store_true", help="a new process for every request")
    parser.add_argument("--json", action="store_true", help="print rows as JSON, one per line")
    parser.add_argument("--write", action="store_true", help=f"write results/{RESULT.name}")
    parser.add_argument(
        "--make", type=Path, metavar="FOLDER", help="only write the folders of the part there"
    )
    parser.add_argument(
        "--reveal", action="store_true", help="tell held-out requests and answers too"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Asks the requests of a part, prints and keeps the table."""
    args = _parser().parse_args(argv)
    told = args.part == "tuning" or args.reveal
    todo = chosen(folders(args.part), args.folder, args.only)
    if not todo:
        print(f"scripts/bench desk: the {args.part} part has no such folder or request")
        return 2
    if args.make:
        for folder in {each.name: each for each, _ in todo}.values():
            folder.write(args.make / folder.name)
        return 0
    rows = run(todo, args, told=told)
    if not args.json:
        print(table(rows))
    if args.write:
        write(args, rows)
    return 0


def run(todo: Sequence[tuple[Folder, Ask]], args: argparse.Namespace, *, told: bool) -> list[Row]:
    """Asks one request after the other, and tells each as it comes where that is allowed."""
    given = {"--model": args.model, "--base-url": args.base_url}
    flags = [word for flag, value in given.items() if value for word in (flag, value)]
    door = in_own_process if args.cli else in_process
    rows: list[Row] = []
    for number, (folder, ask) in enumerate(todo, start=1):
        rows.append(measure(ask, folder, door, flags, told=told))
        if args.json:
            print(json.dumps(asdict(rows[-1]), ensure_ascii=False), flush=True)
        else:
            print(f"{number}/{len(todo)} {shown(rows[-1]) if told else ''}".rstrip(), flush=True)
    return rows


def write(args: argparse.Namespace, rows: Sequence[Row]) -> None:
    """Puts the table of a part into the result file, in place of its earlier one."""
    earlier = RESULT.read_text(encoding="utf-8") if RESULT.exists() else "# Requests in folders\n"
    first, *sections = earlier.split("\n## ")
    kept = [each for each in sections if each.split("\n", 1)[0] != args.part]
    words = ["scripts/bench desk --part", args.part]
    words += ["--model", args.model] if args.model else []
    words += ["--cli"] if args.cli else []
    where = f"{os.cpu_count()} cores, {platform.machine()}"
    made = f"{args.part}\n\n```text\n{' '.join(words)} --write\n```\n\n{where}\n\n{table(rows)}"
    places: dict[str, int] = {part: place for place, part in enumerate(PARTS)}
    ordered = sorted([*kept, made], key=lambda each: places.get(each.split("\n", 1)[0], -1))
    text = "\n## ".join(
        [first.rstrip("\n") + "\n", *(each.rstrip("\n") + "\n" for each in ordered)]
    )
    RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
