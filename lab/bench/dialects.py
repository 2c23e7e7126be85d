"""Every plan of the planning data through every dialect and back: what is kept, what is told."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plansmith import Plan, Problem, try_read_plan
from plansmith.plan.graph import upstream
from plansmith.plan.steps import AnyStep
from plansmith_planner.dialect import by_place, dialect, dialect_names, in_order, plain_text

RESULT = Path(__file__).parent / "results" / "dialects.md"
# Who does steps in words: whom a shape has a place for, where not everybody has one.
AGENTS: Mapping[str, str] = {
    "deerflow": "researcher",
    "deepresearch": "researcher",
    "spring": "sql_writer",
}
_HEAD = ("goal", "thought", "locale", "assumptions", "schedule", "enough_context")


def plan_of(row: Mapping[str, Any], agent: str = "worker") -> Plan | None:
    """The gold plan of a row: calls of tools, or words for an agent; none when it is faulty."""
    gold = row.get("gold_steps") or []
    if not gold or row.get("gold_issues"):
        return None
    names = {str(each["id"]) for each in gold}
    steps = [
        {"id": str(each["id"]), "after": [n for n in map(str, each["after"]) if n in names]}
        | (_call(each) if each.get("tool") else {"agent": agent, "task": _plain(each["text"])})
        for each in gold
    ]
    plan = try_read_plan({"goal": row["query"], "steps": steps})
    return plan if isinstance(plan, Plan) else None


def _call(each: Mapping[str, Any]) -> dict[str, Any]:
    inputs = {key: {"$literal": value} for key, value in (each.get("args") or {}).items()}
    return {"tool": each["tool"], "inputs": inputs}


def _plain(text: str) -> str:
    return text.replace("{{", '{{"{{"}}')


@dataclass(frozen=True, slots=True)
class Trip:
    """What came of one plan: how many steps came back, what was told, and what was not."""

    steps: int
    kept: int
    whole: bool
    told: tuple[str, ...]
    unexplained: tuple[str, ...]


def trip(plan: Plan, name: str) -> Trip:
    """A plan written in a dialect and read again."""
    shape = dialect(name)
    writing = shape.write(plan, None)
    reading = shape.read(writing.value)
    back = reading.plan or Plan()
    before = dict(zip([step.id for step in in_order(plan)], _contents(plan), strict=True))
    left = Counter(_contents(back))
    missing: list[str] = []
    for step, content in before.items():
        if left[content]:
            left[content] -= 1
        else:
            missing.append(step)
    odd = list(_unexplained(plan, back, missing, writing.lost))
    odd += [
        f"noted when it was read: {each.message}" for each in reading.problems if writing.lost == ()
    ]
    if reading.plan is None and not writing.lost:
        odd.append("nothing was read")
    return Trip(
        steps=len(plan.steps),
        kept=len(plan.steps) - len(missing),
        whole=not missing and not odd and _same_order(plan, back),
        told=tuple(map(kind_of, writing.lost)),
        unexplained=tuple(odd),
    )


def _unexplained(
    plan: Plan, back: Plan, missing: Sequence[str], lost: Iterable[Problem]
) -> Iterator[str]:
    """What differs and was not told."""
    told = list(lost)
    steps = {each.step for each in told}
    fields = {part for each in told for part in each.path}
    yield from (f"the step {name!r} changed" for name in missing if name not in steps)
    before, after = plan.to_json(), back.to_json()
    for name in _HEAD:
        if before.get(name) != after.get(name) and name not in fields and back.steps:
            yield f"the plan's {name!r} changed"
    there = len(back.steps) >= len(plan.steps)
    if there and not _same_order(plan, back) and not fields & {"after", "inputs"}:
        yield "the order changed"


def _contents(plan: Plan) -> list[str]:
    """What each step does, under names that only their places give."""
    return [_content(step) for step in by_place(in_order(plan))]


def _content(step: AnyStep) -> str:
    value = {key: each for key, each in step.to_json().items() if key not in ("id", "after")}
    inputs = value.get("inputs")
    if isinstance(inputs, dict):
        value["inputs"] = {key: _bare(each) for key, each in inputs.items()}
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _bare(value: Any) -> Any:
    """Data without the mark that it is data; braces that are quoted as braces."""
    if isinstance(value, str):
        return plain_text(value)
    return value["$literal"] if isinstance(value, dict) and "$literal" in value else value


def _same_order(plan: Plan, back: Plan) -> bool:
    """Whether every step still comes after the same ones; what a shape adds comes last."""
    return _order(plan) == _order(back)[: len(plan.steps)]


def _order(plan: Plan) -> list[frozenset[str]]:
    """What must be done before each step, near or far, by places."""
    ordered = Plan(steps=by_place(in_order(plan)))
    graph = ordered.needs
    return [upstream(graph, [step.id]) for step in ordered.steps]


def kind_of(problem: Problem) -> str:
    """A loss in a few words that do not depend on the plan."""
    if problem.path == ("id",):
        return "ids"
    if problem.path:
        return f"{'a step' if problem.step else 'the plan'}'s {problem.path[0]}"
    for mark, kind in (
        ("left out", "a step is left out"),
        ("a task in words", "a call becomes words"),
        ("references", "references become plain text"),
        ("reports", "a report of its own"),
    ):
        if mark in problem.message:
            return kind
    return re.sub(r"'[^']*'|\d+", "…", problem.message)


@dataclass(slots=True)
class Sum:
    """What came of all plans in one dialect."""

    plans: int = 0
    whole: int = 0
    steps: int = 0
    kept: int = 0
    told: Counter[str] = field(default_factory=Counter[str])
    unexplained: list[str] = field(default_factory=list[str])

    def add(self, one: Trip) -> None:
        """Count one plan."""
        self.plans += 1
        self.whole += one.whole
        self.steps += one.steps
        self.kept += one.kept
        self.told.update(set(one.told))
        self.unexplained += one.unexplained


def measure(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Sum]:
    """The sums by kind of plan and dialect."""
    sums: dict[tuple[str, str], Sum] = {}
    for name in dialect_names():
        for row in rows:
            plan = plan_of(row, AGENTS.get(name, "worker"))
            if plan is not None:
                kind = "calls" if plan.steps[0].kind == "tool" else "words"
                sums.setdefault((kind, name), Sum()).add(trip(plan, name))
    return sums


def table(sums: Mapping[tuple[str, str], Sum]) -> str:
    """The sums as Markdown."""
    lines = [
        "# Plans through other shapes and back",
        "",
        "`scripts/bench dialects --write` (data: `--data DIR`, else `$PLANSMITH_BENCH_DATA`, else",
        "`../shared/bench`). Every usable gold plan of the planning data, written in a dialect and",
        "read again. *Whole*: every step with its arguments and all that must come before it.",
        "*Told*: what PS017 names, in how many plans. *Unexplained*: what differs untold. Of these",
        "shapes SAGE's alone has calls; OpenManus and JManus have them in words, the others not.",
    ]
    heads = {
        "calls": "Plans of tool calls",
        "words": "Plans in words, for an agent that the shape has a place for",
    }
    for kind, head in heads.items():
        found = {name: each for (which, name), each in sums.items() if which == kind}
        lines += [
            "",
            f"## {head}",
            "",
            "| Dialect | plans | whole | steps kept | unexplained | told |",
        ]
        lines += ["|---|--:|--:|--:|--:|---|"]
        for name, each in found.items():
            ranked = sorted(each.told.items(), key=lambda pair: (-pair[1], pair[0]))
            told = ", ".join(f"{what} {count:,}" for what, count in ranked)
            lines.append(
                f"| {name} | {each.plans:,} | {each.whole / each.plans:.1%} "
                f"| {each.kept / each.steps:.1%} | {len(each.unexplained)} | {told} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table; fail when anything is lost without a word."""
    parser = argparse.ArgumentParser(description=__doc__)
    usual = os.environ.get("PLANSMITH_BENCH_DATA", "../shared/bench")
    parser.add_argument("--data", type=Path, default=Path(usual), help="the bench's data")
    parser.add_argument("--write", action="store_true", help=f"also write {RESULT.name}")
    args = parser.parse_args()
    files = sorted((args.data / "planning").glob("*.jsonl"))
    if not files:
        sys.exit(f"there is no planning data in {args.data}: give --data DIR")
    rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    sums = measure(rows)
    text = table(sums)
    print(text)
    if args.write:
        RESULT.write_text(text, encoding="utf-8")
    odd = [f"{name}: {what}" for (_, name), each in sums.items() for what in each.unexplained]
    if odd:
        sys.exit("\n".join(odd[:20]))


if __name__ == "__main__":
    main()
