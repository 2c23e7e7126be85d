"""Many processes on one store under virtual time and a seed: what breaks, with its seed."""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from lab.simulation.mutations import MUTATIONS, planted
from lab.simulation.story import play
from lab.simulation.world import World

RESULT: Final = Path(__file__).parent / "results" / "simulate.md"
PART: Final = 1_000
SHOWN: Final = 40
# What is counted in a trace, in the words of the table.
COUNTED: Final[Mapping[str, str]] = {
    "boot": "processes started",
    "killed": "killed",
    "stopped": "stopped, and woken later",
    "restart": "restarts of the store",
    "weather": "times the store was slow, full, away, cut off or lost answers",
    "takeover": "runs taken over from another process",
    "run": "runs",
    "event": "events stored",
    "effect": "effects that took place",
    "unknown": "calls whose end nobody saw, asked about",
}


class Part(NamedTuple):
    """What came of some seeds in a row."""

    first: int
    seeds: int
    seconds: float
    virtual_s: float
    turns: int
    counts: Mapping[str, int]
    broken: Mapping[str, str]


def counted(world: World) -> Counter[str]:
    """Counts what happened in a world."""
    found = Counter(str(entry[1]) for entry in world.trace)
    kinds = Counter(event.body.type for run in world.journals().values() for event in run)
    found["takeover"] = sum(map(len, world.takeovers.values()))
    found["run"] = len(world.journals())
    found["event"] = kinds.total()
    found["unknown"] = kinds["step_unknown"]
    return Counter({name: found[name] for name in COUNTED})


def play_part(first: int, seeds: int) -> Part:
    """Plays some seeds, whatever breaks."""
    counts: Counter[str] = Counter()
    broken: dict[str, str] = {}
    began, virtual, turns = time.process_time(), 0.0, 0
    for seed in range(first, first + seeds):
        world = World(seed)
        try:
            play(seed, world)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told with its seed
            broken[str(seed)] = f"{type(error).__name__}: {error}"
        counts += counted(world)
        virtual += world.timeline.now
        turns += world.timeline.turns
    spent = time.process_time() - began
    return Part(first, seeds, round(spent, 1), round(virtual), turns, dict(counts), broken)


def played(first: int, seeds: int, jobs: int) -> Iterator[Part]:
    """Plays seeds in parts, in order."""
    size = min(PART, -(-seeds // jobs))
    starts = [*range(first, first + seeds, size)]
    sizes = [min(size, first + seeds - start) for start in starts]
    if jobs == 1:
        yield from map(play_part, starts, sizes)
        return
    with ProcessPoolExecutor(jobs, initializer=gc.freeze) as pool:
        yield from pool.map(play_part, starts, sizes)


def replay(seed: int) -> bool:
    """Plays one seed and prints all that happened; false if a promise was broken."""
    world = World(seed)
    why = ""
    try:
        play(seed, world)
    except Exception as error:  # noqa: BLE001 - told below
        why = f"{type(error).__name__}: {error}"
    print(*lines(world), sep="\n")
    print(f"seed {seed}, trace {world.digest()}: {why or 'holds'}")
    return not why


def lines(world: World, last: int = 0) -> Iterator[str]:
    """Yields the trace of a world as text, or its last entries."""
    for at, *what in world.trace[-last:]:
        yield f"{at:10.3f}  {'  '.join(str(each) for each in what)}"


def show_broken(seed: int, why: str) -> None:
    """Prints what a seed broke, the last that happened, and how to see all of it."""
    world = World(seed)
    try:
        play(seed, world)
    except Exception as error:  # noqa: BLE001 - it is told already
        why = f"{type(error).__name__}: {error}"
    print(*lines(world, SHOWN), sep="\n")
    print(f"seed {seed}: {why}\n  scripts/bench simulate --seed {seed}\n")


def found_mutation(name: str, within: int) -> tuple[int, str] | None:
    """Plants a bug, and returns the first seed that finds it, with what broke."""
    with planted(name):
        for seed in range(within):
            try:
                play(seed)
            except Exception as error:  # noqa: BLE001 - any failure tells the bug
                return seed, str(error)
    return None


def table(parts: Sequence[Part], mutations: Mapping[str, tuple[int, str] | None]) -> str:
    """Returns what was played as a page."""
    seeds = sum(part.seeds for part in parts)
    seconds = sum(part.seconds for part in parts)
    counts: Counter[str] = Counter()
    broken: dict[str, str] = {}
    for part in parts:
        counts += Counter(part.counts)
        broken |= part.broken
    hours = sum(part.virtual_s for part in parts) / 3600
    rows = [
        ("seeds", f"{seeds:,}"),
        ("seeds that broke a promise", f"{len(broken):,}"),
        ("virtual hours", f"{hours:,.0f}"),
        ("turns of event loops", f"{sum(part.turns for part in parts):,}"),
        *((words, f"{counts[name]:,}") for name, words in COUNTED.items()),
        ("processor seconds", f"{seconds:,.0f} ({seconds / seeds * 1000:.0f} ms a seed)"),
    ]
    text = [HEAD, "| | |", "|---|--:|", *(f"| {name} | {value} |" for name, value in rows)]
    text += [f"\nBroken: seed {seed}: {why}" for seed, why in broken.items()]
    if mutations:
        text += [PLANTED, "| planted bug | found by | told as |", "|---|--:|---|"]
        text += [_mutation_row(name, found) for name, found in mutations.items()]
    return "\n".join(text) + "\n"


def _mutation_row(name: str, found: tuple[int, str] | None) -> str:
    if found is None:
        return f"| {name} | not found | |"
    told = found[1].replace("|", "/").replace("\n", " ")
    return f"| {name} | seed {found[0]} | {told[:110]} |"


HEAD: Final = """# Simulated processes

Made by `scripts/bench simulate --seeds SEEDS --write`. Each seed is a world of its own: servers
and commands on one or two machines share one store, people decide, tools fail, and processes are
killed, stopped and cut off at any await. Then it is calm, and every run has to end. What is
checked: [docs/several-machines.md](../../../docs/several-machines.md#simulated).
"""
PLANTED: Final = """
Bugs that are planted (`--mutations`), and the first seed that finds each:
"""


def kept(path: Path | None) -> list[Part]:
    """Returns the parts that were played before."""
    if path is None or not path.exists():
        return []
    return [Part(**json.loads(line)) for line in path.read_text().splitlines()]


def play_all(args: argparse.Namespace) -> list[Part]:
    """Plays the seeds that were not played yet; tells each part on stderr."""
    parts = kept(args.rows)
    first = max([args.first, *(part.first + part.seeds for part in parts)])
    left = args.first + args.seeds - first
    for part in played(first, left, args.jobs) if left > 0 else ():
        parts.append(part)
        rate = part.seconds / part.seeds * 1000
        print(
            f"seeds {part.first}-{part.first + part.seeds - 1}: {len(part.broken)} broken,"
            f" {rate:.0f} ms a seed",
            file=sys.stderr,
        )
        if args.rows is not None:
            with args.rows.open("a") as rows:
                rows.write(json.dumps(part._asdict()) + "\n")
    return parts


def tried_mutations(within: int) -> dict[str, tuple[int, str] | None]:
    """Plants each bug in turn; tells each on stderr."""
    found: dict[str, tuple[int, str] | None] = {}
    for name in MUTATIONS:
        found[name] = found_mutation(name, within)
        print(f"{name}: {found[name] or 'not found'}", file=sys.stderr)
    return found


def parsed() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="scripts/bench simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=PART, help="how many seeds to play")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="play this one and print all that happens")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes to use")
    parser.add_argument("--rows", type=Path, help="keep each part here, and go on where it stopped")
    parser.add_argument(
        "--mutations", action="store_true", help="plant known bugs; with --write, too"
    )
    parser.add_argument("--within", type=int, default=PART, help="seeds to find a planted bug in")
    parser.add_argument("--write", action="store_true", help=f"write results/{RESULT.name}")
    args = parser.parse_args()
    for name in ("seeds", "jobs", "within"):
        if vars(args)[name] < 1:
            parser.error(f"--{name} must be at least 1 (got {vars(args)[name]})")
    return args


def main() -> int:
    """Plays seeds; the exit code is 1 if one breaks a promise, or if no seed finds a bug."""
    args = parsed()
    gc.freeze()
    if args.seed is not None:
        return 0 if replay(args.seed) else 1
    if args.mutations and not args.write:
        return 1 if None in tried_mutations(args.within).values() else 0
    parts = play_all(args)
    broken = {seed: why for part in parts for seed, why in part.broken.items()}
    for seed, why in [*broken.items()][:3]:
        show_broken(int(seed), why)
    told = table(parts, tried_mutations(args.within) if args.mutations else {})
    print(told)
    if args.write:
        RESULT.write_text(told, encoding="utf-8")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
