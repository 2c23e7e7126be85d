"""How well a model plans: tools, order, arguments, time and tokens on public and own requests."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.bench.planning_gate import bfcl_offers, measure_gate, own_offers
from lab.bench.planning_score import is_exact, score, steps_of
from plansmith.clock import SystemClock
from plansmith.plan.capability import ToolSpec
from plansmith.plan.planning import PlanRequest
from plansmith.plan.problem import has_errors
from plansmith.ports import ChatModel
from plansmith_desk.model.embedded import CONTEXT, embedded_model
from plansmith_desk.model.engine import shared_engine
from plansmith_desk.model.files import ModelFolder, weights_path
from plansmith_desk.model.model import LocalModel
from plansmith_planner.models.provider import ProviderModel
from plansmith_planner.pipeline import make_plan
from plansmith_planner.settings import PlannerSettings
from plansmith_planner.stages import PlannerDeps

HERE = Path(__file__).parent
RESULT = HERE / "results" / "planning.md"
OWN = {
    "heldout": "planning_heldout",
    "dev": "planning_dev",
    "unseen": "planning_unseen",
    "trades": "planning_trades",
}
SECRET = ("unseen",)  # whoever trains or tunes does not look at it, nor is it printed
PUBLIC = ("bfcl_parallel", "ultratool_en", "ultratool_zh", "sealtools", "nestful", "appbench")
SAMPLE = 12


@dataclass(frozen=True, slots=True)
class Case:
    """A request, what it may use, and what is right."""

    set: str
    id: str
    query: str
    tools: tuple[ToolSpec, ...]
    gold: list[dict[str, Any]]
    own: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one case."""

    set: str
    id: str
    exact: bool
    node_f1: float
    edge_f1: float
    args: float
    violated: float
    at_once: bool
    usable: bool
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    seconds: float
    text: str


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a JSON lines file."""
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def tool(row: Mapping[str, Any]) -> ToolSpec:
    """A tool of a catalogue."""
    return ToolSpec(
        name=row["name"],
        description=row.get("description") or "",
        input_schema=row.get("input_schema") or {"type": "object"},
        output_schema=row.get("output_schema"),
        effect=row.get("effect", "read"),
    )


def own_cases(name: str) -> list[Case]:
    """The requests written for this bench."""
    tools: dict[str | None, list[ToolSpec]] = {}
    for row in lines(HERE / f"{OWN[name]}_tools.jsonl"):
        tools.setdefault(row.get("group"), []).append(tool(row))
    return [
        Case(name, row["id"], row["query"], tuple(tools[row.get("group")]), row["gold"], own=True)
        for row in lines(HERE / f"{OWN[name]}.jsonl")
    ]


def public_cases(data: Path, name: str, count: int) -> list[Case]:
    """A fixed sample of a public set: rows whose gold names tools and arguments."""
    rows = [
        row
        for row in lines(data / "planning" / f"{name}.jsonl")
        if "gold_issues" not in row and all(step["tool"] for step in row["gold_steps"] or [{}])
    ]
    random.Random(name).shuffle(rows)
    catalogues: dict[str, list[ToolSpec]] = {}
    cases: list[Case] = []
    for row in rows[:count]:
        given = row.get("tools")
        if given and isinstance(given[0], dict):
            tools = [tool(each) for each in given]
        else:
            key = row["catalogue"]
            if key not in catalogues:
                path = data / "catalogues" / f"{key}.jsonl"
                catalogues[key] = [tool(each) for each in lines(path)]
            tools = [each for each in catalogues[key] if not given or each.name in given]
        unique = {each.name: each for each in tools}
        cases.append(Case(name, row["id"], row["query"], tuple(unique.values()), row["gold_steps"]))
    return cases


async def measure(case: Case, model: ChatModel) -> Row:
    """Plan one request with the whole pipeline."""
    settings = PlannerSettings(repairs=1)
    deps = PlannerDeps(plan_model=model, clock=SystemClock(), tools=case.tools, settings=settings)
    start = time.monotonic()
    planned = await make_plan(PlanRequest(case.query), deps=deps)
    seconds = time.monotonic() - start
    usage = planned.figures.usage
    steps = steps_of(planned.plan)
    gold = [_as_gold(number, step) for number, step in enumerate(case.gold)]
    found = score(gold, steps)
    return Row(
        set=case.set,
        id=case.id,
        exact=case.own and is_exact(case.gold, steps),
        **asdict(found),
        at_once=planned.figures.parsed_at_once and planned.figures.repairs == 0,
        usable=planned.plan is not None and not has_errors(list(planned.problems)),
        tokens_in=usage.input_tokens,
        tokens_cached=usage.cached_tokens,
        tokens_out=usage.output_tokens,
        seconds=round(seconds, 2),
        text="" if case.set in SECRET else json.dumps(steps, ensure_ascii=False),
    )


def _as_gold(number: int, step: Mapping[str, Any]) -> dict[str, Any]:
    """A gold call of our own sets has lists of accepted values: the first counts."""
    if "id" in step:
        return dict(step)
    args = {name: each[0] for name, each in step["args"].items() if each[0] is not None}
    needs = [f"g{int(each[1:]) - 1}" for each in args.values() if str(each).startswith("$")]
    return {"id": f"g{number}", "tool": step["tool"], "args": args, "after": needs}


def kept_rows(done: Path) -> list[Row]:
    """What an earlier run came to."""
    return [Row(**each) for each in lines(done)] if done.exists() else []


async def run(cases: Sequence[Case], model: ChatModel, done: Path, rows: list[Row]) -> list[Row]:
    """Every case that is not done yet; rows are kept as they come, so that one may go on later."""
    known = {(row.set, row.id) for row in rows}
    todo = [case for case in cases if (case.set, case.id) not in known]
    with done.open("a", encoding="utf-8") as file:
        for number, case in enumerate(todo, start=1):
            row = await measure(case, model)
            rows.append(row)
            file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
            file.flush()
            mark = ("right" if row.exact else "WRONG") if case.own else f"{row.node_f1:.2f}"
            print(
                f"{number}/{len(todo)} {case.set} {case.id} {mark} {row.seconds:.1f} s", flush=True
            )
            if case.own and not row.exact and case.set not in SECRET:
                print(f"    {case.query}\n    {row.text}", flush=True)
    return rows


async def warm(model: ChatModel) -> str:
    """What the first plan of this process takes, and the second: run it twice for a new process."""
    took: list[str] = []
    for case in own_cases("heldout")[:2]:
        start, spent = time.monotonic(), time.process_time()
        await measure(case, model)
        wall, cpu = time.monotonic() - start, time.process_time() - spent
        took.append(f"{wall:.1f} s ({cpu:.1f} s of processor time)")
    return f"First plan: {took[0]}; second plan: {took[1]}."


def table(rows: Sequence[Row], model: str) -> str:
    """The figures by set."""
    head = (
        f"`{model}`, {os.cpu_count()} cores, {platform.machine()}\n\n"
        "| Set | cases | exact | node F1 | edge F1 | arguments | order broken | valid at once "
        "| valid after repair | tokens in (reused) | out | median s |\n"
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
    )
    return head + "".join(
        _line(name, [row for row in rows if row.set == name])
        for name in dict.fromkeys(row.set for row in rows)
    )


def _line(name: str, rows: Sequence[Row]) -> str:
    def mean(field: str) -> float:
        return statistics.fmean(float(getattr(row, field)) for row in rows)

    exact = f"{sum(row.exact for row in rows)}" if name in OWN else ""
    return (
        f"| {name} | {len(rows)} | {exact} | {mean('node_f1'):.2f} | {mean('edge_f1'):.2f} "
        f"| {mean('args'):.2f} | {mean('violated'):.2f} | {mean('at_once'):.0%} "
        f"| {mean('usable'):.0%} | {mean('tokens_in'):.0f} ({mean('tokens_cached'):.0f}) "
        f"| {mean('tokens_out'):.0f} | {statistics.median(row.seconds for row in rows):.1f} |\n"
    )


def chosen_model(args: argparse.Namespace) -> ChatModel:
    """The model to measure; `raw` takes away what the pipeline adds for small models."""
    name: str = args.model
    if name == "local" or name.startswith("local:"):
        wished = name.removeprefix("local").removeprefix(":")
        return raw_model(wished) if args.raw else embedded_model(wished)
    return ProviderModel(name, base_url=args.base_url)


def raw_model(name: str) -> LocalModel:
    """An embedded model that is asked for whole plans, bound by their schema."""
    shelf = ModelFolder()
    path = weights_path(name, shelf).path
    return LocalModel(lambda: shared_engine(path, CONTEXT), name=f"local:{path.stem} (raw)")


async def gate(model: ChatModel, files: Sequence[Path], sample: int) -> str:
    """How often requests are left alone, rightly and wrongly."""
    if files:
        unfit, fit = (bfcl_offers(path, sample) for path in files)
    else:
        tools = [tool(row) for row in lines(HERE / "planning_unseen_tools.jsonl")]
        unfit, fit = (own_offers(kind, tools) for kind in ("unfit", "fit"))
    return await measure_gate(model, unfit, fit)


def main() -> None:
    """Run the cases, go on where an earlier run stopped, print and keep the table."""
    parser = argparse.ArgumentParser(prog="scripts/bench planning", description=__doc__)
    parser.add_argument(
        "--model", default="local", help="local, local:NAME, local:FILE, provider:name"
    )
    parser.add_argument("--base-url", help="of an OpenAI-compatible server")
    parser.add_argument("--sets", nargs="+", default=["heldout", *PUBLIC])
    parser.add_argument("--data", type=Path, help="folder with the public sets")
    parser.add_argument("--sample", type=int, default=SAMPLE, help="cases of each public set")
    parser.add_argument(
        "--rows", type=Path, default=Path("lab/bench/results/planning-rows.jsonl"), help="kept rows"
    )
    parser.add_argument("--raw", action="store_true", help="whole plans instead of calls")
    parser.add_argument(
        "--gate",
        type=Path,
        nargs="*",
        metavar="FILE",
        help="how often requests are left alone: of our own set, or of two files of BFCL, its "
        "irrelevance file and another one",
    )
    parser.add_argument("--warm", action="store_true", help="the first plan against the second")
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    args = parser.parse_args()
    cases: list[Case] = []
    for name in args.sets:
        if name in OWN:
            cases += own_cases(name)
        elif args.data is not None:
            cases += public_cases(args.data, name, args.sample)
    if args.gate is not None and len(args.gate) not in (0, 2):
        parser.error("--gate takes no file, or two: the unfit requests and the fitting ones")
    model = chosen_model(args)
    if args.gate is not None:
        print(asyncio.run(gate(model, args.gate, args.sample)))
        return
    if args.warm:
        print(asyncio.run(warm(model)))
        return
    rows = asyncio.run(run(cases, model, args.rows, kept_rows(args.rows)))
    wanted = {(case.set, case.id) for case in cases}
    text = table([row for row in rows if (row.set, row.id) in wanted], model.name)
    print(text)
    if args.write:
        RESULT.write_text(f"# Planning\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
