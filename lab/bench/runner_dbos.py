"""DBOS in the runner bench: a plan is a workflow, its steps are steps."""

from __future__ import annotations

import asyncio
import itertools
from importlib import import_module
from typing import Any

from lab.bench.runner_dags import TOOL, Dag, Step

# Not part of the development environment: everything of it is found when it is asked for.
dbos: Any = import_module("dbos")
DBOS: Any = dbos.DBOS
Spec = list[tuple[str, float, tuple[str, ...]]]


@DBOS.step()  # type: ignore[untyped-decorator]
async def _work(step: str, seconds: float) -> str:
    return await TOOL.work(step, seconds)


@DBOS.workflow()  # type: ignore[untyped-decorator]
async def _chain(name: str, steps: Spec) -> None:
    for step, seconds, _ in steps:
        await _work(f"{name}.{step}", seconds)


@DBOS.workflow()  # type: ignore[untyped-decorator]
async def _fan(name: str, steps: Spec) -> None:
    await asyncio.gather(*(_work(f"{name}.{step}", seconds) for step, seconds, _ in steps))


@DBOS.workflow()  # type: ignore[untyped-decorator]
async def _any(name: str, steps: Spec, width: int) -> None:
    """Any plan: a workflow has to start its steps in the same order after a crash."""
    done: set[str] = set()
    waiting = list(steps)
    running: dict[asyncio.Task[str], str] = {}
    while waiting or running:
        ready = [step for step in waiting if done.issuperset(step[2])][: width - len(running)]
        for step in ready:
            waiting.remove(step)
            running[asyncio.ensure_future(_work(f"{name}.{step[0]}", step[1]))] = step[0]
        ended, _ = await DBOS.asyncio_wait(list(running), return_when=asyncio.FIRST_COMPLETED)
        done.update(running.pop(task) for task in ended)


@DBOS.workflow()  # type: ignore[untyped-decorator]
async def _asking(name: str) -> None:
    await DBOS.recv_async("word", timeout_seconds=86_400)
    await _work(name, 0)


class Dbos:
    """A run is a workflow; it goes on by itself after a restart."""

    def __init__(self, url: str, width: int, *, tuned: bool = False) -> None:
        config: dict[str, object] = {
            "name": "bench",
            "system_database_url": url,
            "log_level": "CRITICAL",
            "application_version": "bench",
        }
        if tuned:
            config["system_database_engine"] = _in_wal(url)
        self._width = width
        self._numbers = itertools.count()
        DBOS(config=config)

    async def start(self) -> None:
        await asyncio.to_thread(DBOS.launch)

    def prepare(self, dag: Dag) -> Any:
        """The workflow that suits the plan best, with its arguments."""
        spec: Spec = [(name, step.seconds, step.needs) for name, step in dag.steps.items()]
        # Two runs of one name would be one workflow; the first has the plain name.
        number = next(self._numbers)
        name = f"{dag.name}#{number}" if number else dag.name
        if _is_chain(dag):
            return name, _chain, (dag.name, spec)
        if not any(step.needs for step in dag.steps.values()) and self._width >= len(spec):
            return name, _fan, (dag.name, spec)
        return name, _any, (dag.name, spec, self._width)

    async def submit(self, job: Any) -> Any:
        return job

    async def run(self, job: Any) -> None:
        name, workflow, arguments = job
        with dbos.SetWorkflowID(name):
            handle = await DBOS.start_workflow_async(workflow, *arguments)
        await handle.get_result(polling_interval_sec=0.002)

    async def park(self, number: int) -> Any:
        with dbos.SetWorkflowID(f"p{number}"):
            return await DBOS.start_workflow_async(_asking, f"p{number}")

    async def wake(self, parked: Any) -> None:
        await DBOS.send_async(parked.workflow_id, "go", "word")
        await parked.get_result(polling_interval_sec=0.002)

    async def recover(self, dag: Dag) -> None:
        handle = await DBOS.retrieve_workflow_async(dag.name)
        await handle.get_result(polling_interval_sec=0.002)

    async def stop(self) -> None: ...


def _is_chain(dag: Dag) -> bool:
    names: list[Step] = list(dag.steps.values())
    return (
        all(len(step.needs) == (place > 0) for place, step in enumerate(names))
        and len({need for step in names for need in step.needs}) == len(names) - 1
    )


def _in_wal(url: str) -> Any:
    """A SQLite engine in write-ahead mode: not what DBOS does by itself, but better."""
    sa: Any = import_module("sqlalchemy")
    engine = sa.create_engine(url, connect_args={"check_same_thread": False})

    def set_up(connection: Any, _: object) -> None:
        connection.isolation_level = "IMMEDIATE"
        connection.execute("PRAGMA busy_timeout = 30000")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA journal_mode = WAL")

    sa.event.listen(engine, "connect", set_up)
    return engine
