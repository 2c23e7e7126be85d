"""The plans that the runner bench runs, and how fast nobody can be faster than."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

LOG: Final = "PLANSMITH_BENCH_LOG"


@dataclass(frozen=True)
class Step:
    """A step: how long its tool takes, and whose results it uses."""

    seconds: float = 0.0
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dag:
    """A plan for every engine; `name` goes into each result, so that no two are the same.

    `plain` asks Plansmith for a function without `async`; peers do not know the difference.
    """

    name: str
    steps: Mapping[str, Step]
    plain: bool = False

    def critical_path(self) -> float:
        """The longest way through."""
        ends: dict[str, float] = {}
        for name, step in self.steps.items():
            ends[name] = step.seconds + max((ends[need] for need in step.needs), default=0.0)
        return max(ends.values())

    def payload(self) -> int:
        """The bytes of the plan, of each step's inputs and of its result, each once, as JSON."""
        size = 0
        for name, step in self.steps.items():
            call = {"step": f"{self.name}.{name}", "seconds": step.seconds}
            sources = [{"$from": need} for need in step.needs]
            plan = {"id": name, "tool": "work", "inputs": call | {"needs": sources}}
            inputs = call | {"needs": [f"{self.name}.{need}" for need in step.needs]}
            size += sum(len(json.dumps(each)) for each in (plan, inputs, call["step"]))
        return size

    def bound(self, width: int) -> float:
        """What no scheduler of this width can beat."""
        total = sum(step.seconds for step in self.steps.values())
        return max(self.critical_path(), total / width)


def chain(size: int, name: str = "c", *, plain: bool = False) -> Dag:
    """One step after the other."""
    steps = {f"s{place}": Step(needs=(f"s{place - 1}",) if place else ()) for place in range(size)}
    return Dag(name, steps, plain)


def fan(name: str, size: int, seconds: float) -> Dag:
    """All at once."""
    return Dag(name, {f"s{place}": Step(seconds) for place in range(size)})


def uneven(seed: int) -> Dag:
    """12 to 24 steps of 5 to 50 ms, each of which needs up to three earlier ones."""
    dice = random.Random(seed)
    steps: dict[str, Step] = {}
    for place in range(dice.randint(12, 24)):
        sources = dice.sample(range(place), min(place, dice.randint(0, 3)))
        steps[f"s{place}"] = Step(
            round(dice.uniform(0.005, 0.050), 4), tuple(f"s{each}" for each in sorted(sources))
        )
    return Dag(f"u{seed}", steps)


def uneven_fan(seed: int) -> Dag:
    """20 steps of 20 to 400 ms at once: where a crash finds some done and some under way."""
    dice = random.Random(seed)
    return Dag(f"k{seed}", {f"s{place}": Step(dice.uniform(0.02, 0.4)) for place in range(20)})


def endless(name: str) -> Dag:
    """One step that is still under way when its process dies."""
    return Dag(name, {"s": Step(3600)})


def lanes(width: int, length: int) -> Dag:
    """Chains side by side, of steps of 2 ms."""
    steps = {
        f"s{lane}_{place}": Step(0.002, (f"s{lane}_{place - 1}",) if place else ())
        for place in range(length)
        for lane in range(width)
    }
    return Dag("l", steps)


class Tool:
    """The one fake tool of all engines; it can say when it first ran, and keep a log."""

    def __init__(self) -> None:
        self.hook: Callable[[str], None] = lambda _: None
        self._log = _log_file()

    async def work(self, step: str, seconds: float) -> str:
        """Take the time, and give a result that is like no other."""
        self.hook(step)
        self._note("start", step)
        if seconds:
            await asyncio.sleep(seconds)
        self._note("end", step)
        return step

    def _note(self, what: str, step: str) -> None:
        if self._log is not None:
            os.write(self._log, f"{time.time()} {what} {step}\n".encode())


def _log_file() -> int | None:
    path = os.environ.get(LOG)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if path else None


TOOL: Final = Tool()
