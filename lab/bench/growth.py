"""How processor time grows with runs, steps, items, questions, edits, messages, watchers."""

from __future__ import annotations

import argparse
import asyncio
import math
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from plansmith import Plan, Plansmith, RunStatus, read_plan, tool
from plansmith.plan.timing import Timing
from plansmith.testing import ScriptedModel

RESULT: Final = Path(__file__).parent / "results" / "growth.md"
SIZES: Final = (100, 200, 400)
MOST: Final = 1.1
_HEAD: Final = f"""# How the time of a run grows

Made by `scripts/bench growth`, on a SQLite store. Each row: milliseconds of processor time for so
many of a thing, and the exponent with which they grow, from the last two columns: 1 is linear, and
the goal is at most {MOST}.

"""


@tool(effect="read")
async def look(x: int) -> int:
    """Looks at something."""
    return x


@tool(effect="write")
def act(x: int) -> int:
    """Changes something."""
    return x


def plan_of(*steps: Mapping[str, object]) -> Plan:
    """Returns a plan of these steps."""
    return read_plan({"goal": "grow", "steps": [*steps]})


def act_with(number: int) -> Plan:
    """Returns a plan that changes something."""
    return plan_of({"id": "a", "tool": "act", "inputs": {"x": number}})


Case = Callable[[Plansmith, int], Awaitable[None]]


async def runs(smith: Plansmith, count: int) -> None:
    """Runs of one step, one after the other, with the newest listed after each."""
    for number in range(count):
        await smith.do(plan_of({"id": "a", "tool": "look", "inputs": {"x": number}}))
        await smith.runs.lists.newest(limit=20)


async def steps(smith: Plansmith, count: int) -> None:
    """Steps of one run, one after the other."""
    first = {"id": "s0", "tool": "look", "inputs": {"x": 0}}
    rest = [
        {"id": f"s{n}", "tool": "look", "inputs": {"x": f"{{{{s{n - 1}}}}}"}}
        for n in range(1, count)
    ]
    run = await smith.do(plan_of(first, *rest))
    assert run.status is RunStatus.DONE


async def items(smith: Plansmith, count: int) -> None:
    """Items of one map step."""
    each = {"tool": "look", "inputs": {"x": "{{item}}"}}
    run = await smith.do(plan_of({"id": "m", "over": [*range(count)], "each": each}))
    assert run.status is RunStatus.DONE


async def questions(smith: Plansmith, count: int) -> None:
    """Questions of one run, answered one after the other."""
    run = await smith.do(plan_of(*({"id": f"q{n}", "question": f"{n}?"} for n in range(count))))
    for number in range(count):
        await smith.answer(run.id, f"q{number}", "yes", by="ada")


async def edits(smith: Plansmith, count: int) -> None:
    """Changes of one plan under review."""
    run = await smith.submit(act_with(0))
    for number in range(1, count):
        run = await smith.edit(run.id, act_with(number), by="ada")


async def pauses(smith: Plansmith, count: int) -> None:
    """Pauses of one run, each resumed."""
    run = await smith.do(plan_of({"id": "q", "question": "Go?"}))
    for _ in range(count):
        await smith.pause(run.id, by="ada")
        await smith.resume(run.id, by="ada")


async def messages(smith: Plansmith, count: int) -> None:
    """Messages of one conversation, each answered at once."""
    thread = await smith.thread()
    for number in range(count):
        await thread.say(f"What is the number after {number}?", by="ada")


async def watchers(smith: Plansmith, count: int) -> None:
    """Watchers of one run of 20 steps."""
    run = await smith.submit(act_with(1))

    async def watch() -> int:
        return len([event async for event in smith.events(run.id, follow=True)])

    watching = [asyncio.ensure_future(watch()) for _ in range(count)]
    await asyncio.sleep(0)
    assert run.plan is not None
    await smith.decide(run.id, approve=run.plan.hash, by="ada")
    await smith.run(run.id)
    assert len(set(await asyncio.gather(*watching))) == 1


async def schedules(smith: Plansmith, count: int) -> None:
    """Schedules that wait, and one look at them."""
    plan, timing = (
        plan_of({"id": "a", "tool": "look", "inputs": {"x": 1}}),
        Timing(every_minutes=60),
    )
    for number in range(count):
        await smith.schedules.create(timing=timing, plan=plan, approve=plan.hash, name=f"s{number}")
    await smith.schedules.tick()


CASES: Final[tuple[Case, ...]] = (
    *(runs, steps, items, questions, edits, pauses, messages, watchers, schedules),
)


async def measure(case: Case, count: int) -> float:
    """Returns the milliseconds of processor time that so many take."""
    said = [{"decision": "answer", "answer": "the next one"}] * count if case is messages else []
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/runs.db"
        async with Plansmith(ScriptedModel(*said), tools=[look, act], store=store) as smith:
            start = time.process_time()
            await case(smith, count)
            return (time.process_time() - start) * 1000


def row(case: Case, sizes: tuple[int, ...]) -> tuple[str, float]:
    """Returns a row of the table, and the exponent."""
    took = [asyncio.run(measure(case, size)) for size in sizes]
    exponent = math.log(took[-1] / took[-2]) / math.log(sizes[-1] / sizes[-2])
    cells = [case.__name__, *(f"{each:,.0f}" for each in took), f"{exponent:.2f}"]
    return f"| {' | '.join(cells)} |", exponent


def main() -> None:
    """Prints the table, and writes it if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[each.__name__ for each in CASES])
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    given = parser.parse_args()
    heads = ["", *map(str, SIZES), "exponent"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    worse: list[str] = []
    for case in CASES:
        if given.only not in (None, case.__name__):
            continue
        line, exponent = row(case, SIZES)
        lines.append(line)
        print(line, flush=True)
        worse += [case.__name__] if exponent > MOST else []
    print(f"beyond {MOST}: {', '.join(worse) or 'none'}")
    if given.write:
        RESULT.write_text(_HEAD + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
