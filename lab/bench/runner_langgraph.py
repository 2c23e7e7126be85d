"""LangGraph in the runner bench: a StateGraph of the plan, or tasks of its functional API."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Annotated, Any, TypedDict

from lab.bench.runner_dags import TOOL, Dag, Step

# Not part of the development environment: everything of it is found when it is asked for.
graphs: Any = import_module("langgraph.graph")
functional: Any = import_module("langgraph.func")
types: Any = import_module("langgraph.types")


class State(TypedDict, total=False):
    """The results so far, by step."""

    results: Annotated[dict[str, str], operator.or_]


Node = Callable[[Any], Awaitable[State]]


@functional.task  # type: ignore[untyped-decorator]
async def _work(step: str, seconds: float, needs: list[str]) -> str:
    """Takes its time."""
    del needs
    return await TOOL.work(step, seconds)


class LangGraph:
    """A run is an invocation; what it has done is durable before it goes on."""

    def __init__(self, kind: str, where: str, width: int) -> None:
        self._style, self._store = kind.split()
        self._where = where
        self._width = width
        self._open = AsyncExitStack()
        self._saver: Any = None

    async def start(self) -> None:
        """Open the checkpointer that goes with the store."""
        match self._store:
            case "memory":
                self._saver = import_module("langgraph.checkpoint.memory").InMemorySaver()
                return
            case "sqlite":
                module: Any = import_module("langgraph.checkpoint.sqlite.aio")
                opening = module.AsyncSqliteSaver.from_conn_string(self._where)
            case _:
                module = import_module("langgraph.checkpoint.postgres.aio")
                opening = module.AsyncPostgresSaver.from_conn_string(self._where)
        self._saver = await self._open.enter_async_context(opening)
        await self._saver.setup()

    def prepare(self, dag: Dag) -> Any:
        """The compiled graph, its first input and its thread; compiling is not timed."""
        make = _graph if self._style == "graph" else _entrypoint
        return make(dag, self._saver), {}, self._config(dag)

    async def submit(self, job: Any) -> Any:
        return job

    async def run(self, job: Any) -> None:
        graph, value, config = job
        await graph.ainvoke(value, config, durability="sync")

    async def park(self, number: int) -> Any:
        name = f"p{number}"
        graph = _asking(name, self._saver)
        config = self._config(Dag(name, {"s": Step()}))
        await graph.ainvoke({}, config, durability="sync")
        return graph, config

    async def wake(self, parked: Any) -> None:
        graph, config = parked
        await graph.ainvoke(types.Command(resume=True), config, durability="sync")

    async def recover(self, dag: Dag) -> None:
        graph, _, config = self.prepare(dag)
        await graph.ainvoke(None, config, durability="sync")

    async def stop(self) -> None:
        await self._open.aclose()

    def _config(self, dag: Dag) -> dict[str, object]:
        return {
            "configurable": {"thread_id": dag.name},
            "recursion_limit": 10_000,
            "max_concurrency": self._width,
        }


def _graph(dag: Dag, saver: Any) -> Any:
    # One key for all results: measured to be faster than a key a step.
    graph = graphs.StateGraph(State)
    for name, step in dag.steps.items():
        graph.add_node(f"do_{name}", _node(dag, name, step))
        if not step.needs:
            graph.add_edge(graphs.START, f"do_{name}")
        elif len(step.needs) == 1:
            graph.add_edge(f"do_{step.needs[0]}", f"do_{name}")
        else:
            graph.add_edge([f"do_{need}" for need in step.needs], f"do_{name}")
    return graph.compile(checkpointer=saver)


def _node(dag: Dag, name: str, step: Step) -> Node:
    async def node(_: Any) -> State:
        return {"results": {name: await TOOL.work(f"{dag.name}.{name}", step.seconds)}}

    return node


def _entrypoint(dag: Dag, saver: Any) -> Any:
    @functional.entrypoint(checkpointer=saver)  # type: ignore[untyped-decorator]
    async def flow(_: Any) -> int:
        tasks: dict[str, asyncio.Task[str]] = {}

        async def one(name: str, step: Step) -> str:
            needs = [await tasks[need] for need in step.needs]
            value: str = await _work(f"{dag.name}.{name}", step.seconds, needs)
            return value

        for name, step in dag.steps.items():
            tasks[name] = asyncio.create_task(one(name, step))
        return len(await asyncio.gather(*tasks.values()))

    return flow


def _asking(name: str, saver: Any) -> Any:
    async def node(_: Any) -> State:
        types.interrupt("may I?")
        return {"results": {"s": await TOOL.work(name, 0)}}

    graph = graphs.StateGraph(State)
    graph.add_node("do_s", node)
    graph.add_edge(graphs.START, "do_s")
    return graph.compile(checkpointer=saver)
