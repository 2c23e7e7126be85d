"""The engines of the runner bench: the floor; the others are imported when they are asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, Protocol

from lab.bench.runner_dags import Dag, Step
from lab.bench.runner_floor import (
    FloorRun,
    Ledger,
    MemoryLedger,
    PostgresLedger,
    SqliteLedger,
)

# As wide as the widest plan.
WIDE: Final = 100


class Engine(Protocol):
    """What the bench asks of each; `prepare` is never timed, `submit` where throughput counts."""

    async def start(self) -> None: ...
    def prepare(self, dag: Dag) -> Any: ...
    async def submit(self, job: Any) -> Any: ...
    async def run(self, job: Any) -> None: ...
    async def park(self, number: int) -> Any: ...
    async def wake(self, parked: Any) -> None: ...
    async def recover(self, dag: Dag) -> None: ...
    async def stop(self) -> None: ...


class Floor:
    """A hand-written scheduler on a hand-written journal."""

    def __init__(self, ledger: Ledger, width: int) -> None:
        self._ledger = ledger
        self._width = width
        self._runs = 0

    async def start(self) -> None:
        await self._ledger.start()

    def prepare(self, dag: Dag) -> Dag:
        return dag

    async def submit(self, job: Dag) -> FloorRun:
        self._runs += 1
        run = FloorRun(f"{self._runs}", job, self._ledger, width=self._width)
        steps = [[name, step.seconds, step.needs] for name, step in job.steps.items()]
        await run.note(["created", job.name, steps])
        return run

    async def run(self, job: FloorRun) -> None:
        await job.run()

    async def park(self, number: int) -> FloorRun:
        run = await self.submit(Dag(f"p{number}", {"s": Step()}))
        await run.note("asked")
        return run

    async def wake(self, parked: FloorRun) -> None:
        await parked.note("approved")
        await parked.run()

    async def recover(self, dag: Dag) -> None:
        rows = await self._ledger.read()
        events = [json.loads(data) for _, _, data in rows]
        run = FloorRun(rows[0][0], dag, self._ledger, width=self._width)
        run.know(len(rows), [event[1] for event in events if event[0] == "done"])
        await run.run()

    async def stop(self) -> None:
        await self._ledger.stop()


def _langgraph(kind: str) -> Callable[[str, int], Engine]:
    return lambda where, width: import_module("lab.bench.runner_langgraph").LangGraph(
        kind, where, width
    )


def _smith(where: str, width: int) -> Engine:
    made: Engine = import_module("lab.bench.runner_smith").Smith(where, width)
    return made


def _dbos(where: str, width: int, *, tuned: bool = False) -> Engine:
    made: Engine = import_module("lab.bench.runner_dbos").Dbos(where, width, tuned=tuned)
    return made


ENGINES: Final[Mapping[str, Callable[[str, int], Engine]]] = {
    "floor, memory": lambda _, width: Floor(MemoryLedger(), width),
    "floor, SQLite FULL": lambda where, width: Floor(SqliteLedger(where, "FULL"), width),
    "floor, SQLite NORMAL": lambda where, width: Floor(SqliteLedger(where, "NORMAL"), width),
    "floor, PostgreSQL": lambda where, width: Floor(PostgresLedger(where), width),
    "Plansmith, memory": lambda _, width: _smith("memory", width),
    "Plansmith, SQLite FULL": lambda where, width: _smith(f"sqlite:///{where}", width),
    "Plansmith, SQLite NORMAL": lambda where, width: _smith(
        f"sqlite:///{where}?synchronous=normal", width
    ),
    "Plansmith, PostgreSQL": _smith,
    "LangGraph, memory": _langgraph("graph memory"),
    "LangGraph, SQLite": _langgraph("graph sqlite"),
    "LangGraph functional, SQLite": _langgraph("functional sqlite"),
    "LangGraph, PostgreSQL": _langgraph("graph postgres"),
    "LangGraph functional, PostgreSQL": _langgraph("functional postgres"),
    "DBOS, SQLite": lambda where, width: _dbos(f"sqlite:///{where}", width),
    "DBOS, SQLite WAL": lambda where, width: _dbos(f"sqlite:///{where}", width, tuned=True),
    "DBOS, PostgreSQL": _dbos,
}
