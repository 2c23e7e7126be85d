"""How long plans of 100, 1,000 and 10,000 steps take to read, check, hash, compare and fold."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plansmith import Plan, check_plan, diff_plans, read_plan
from plansmith.formats.native import to_json, to_yaml
from plansmith.plan import events as e
from plansmith.plan.events import Event, next_event
from plansmith.plan.fold import fold

SIZES = (100, 1_000, 10_000)
RESULT = Path(__file__).parent / "results" / "plans.md"
TOOLS = {f"tool_{number}": {"description": "", "input_schema": {}} for number in range(500)}


def random_plan(size: int) -> dict[str, Any]:
    """A plan in which each step uses up to three earlier ones."""
    dice = random.Random(size)
    steps: list[dict[str, Any]] = []
    for number in range(size):
        sources = dice.sample(range(number), min(number, dice.randint(0, 3)))
        inputs: dict[str, Any] = {
            f"in{place}": {"$from": f"s{one}"} for place, one in enumerate(sources)
        }
        inputs["text"] = f"step {number} of {{{{s{sources[0]}.title}}}}" if sources else "start"
        steps.append({"id": f"s{number}", "tool": f"tool_{number % 500}", "inputs": inputs})
    return {"goal": "measure", "steps": steps}


def journal(plan: Plan) -> list[Event]:
    """The journal of a run in which every step succeeds."""
    events: list[Event] = []
    who, when = e.Actor(kind="system"), datetime(2026, 1, 1, tzinfo=UTC)
    for body in _bodies(plan):
        events.append(
            next_event(body, run="r", by=who, at=when, last=events[-1] if events else None)
        )
    return events


def _bodies(plan: Plan) -> Iterator[e.AnyBody]:
    yield e.RunCreated(request="measure")
    yield e.PlanProposed(plan=plan)
    yield e.RunStarted(hash=plan.hash)
    for step in plan.steps:
        yield e.StepStarted(step=step.id)
        yield e.StepDone(step=step.id, result="0" * 64)
    yield e.RunFinished(status="done")


def milliseconds(work: Callable[[], object], repeat: int = 5) -> float:
    """The median time of a piece of work."""
    times: list[float] = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def measure(size: int) -> dict[str, float]:
    """All times for one size."""
    value = random_plan(size)
    plan = read_plan(value)
    assert isinstance(plan, Plan)
    text, yaml, events = json.dumps(value), to_yaml(plan), journal(plan)
    other = plan.replace(goal="compare")
    return {
        "read JSON": milliseconds(lambda: read_plan(text)),
        "read YAML": milliseconds(lambda: read_plan(yaml)),
        "write JSON": milliseconds(lambda: to_json(plan)),
        "check": milliseconds(lambda: check_plan(plan, TOOLS)),
        "hash": milliseconds(lambda: plan.hash),
        "diff": milliseconds(lambda: diff_plans(plan, other)),
        "fold the journal": milliseconds(lambda: fold(events)),
    }


def table() -> str:
    """The measurements as a Markdown table."""
    columns = {size: measure(size) for size in SIZES}
    lines = [
        "# Plans by size",
        "",
        "Made by `scripts/bench plans --write`. Medians of 5, milliseconds; random plans with up",
        "to three references a step, 500 tools. What counts is the last column: ten times the",
        "steps take about ten times as long.",
        "",
        "| | " + " | ".join(f"{size:,} steps" for size in SIZES) + " | 10,000 / 1,000 |",
        "|---|" + "--:|" * (len(SIZES) + 1),
    ]
    for name in columns[SIZES[0]]:
        cells = [columns[size][name] for size in SIZES]
        row = " | ".join(f"{cell:,.1f}" for cell in cells)
        lines.append(f"| {name} | {row} | {cells[-1] / cells[-2]:.1f} x |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table, or write it to the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"also write {RESULT.name}")
    args = parser.parse_args()
    text = table()
    print(text)
    if args.write:
        RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
