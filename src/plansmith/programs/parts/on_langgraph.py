"""Engine of a written program: LangGraph, a node for each step, kept in a SQLite file."""

from __future__ import annotations

import asyncio
import json
import operator
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.store.sqlite.aio import AsyncSqliteStore
from langgraph.types import Command, interrupt

from plansmith.programs.parts.calling import Call
from plansmith.programs.parts.rules import (
    PLANS,
    TOOLS,
    Outcome,
    Question,
    Unit,
    make_call,
    run_parts,
    run_unit,
    unseen,
)
from plansmith.programs.parts.terminal import Terminal, finish, flags, read_answers
from plansmith.programs.parts.values import Json, StepError

WIDTH = 16
WAITS = 5  # the exit code while a question has no answer


class State(TypedDict, total=False):
    """How the steps ended, each as JSON text, by id."""

    ends: Annotated[dict[str, str], operator.or_]


class LangGraphEngine:
    """Keeps every call in LangGraph's store, so that a node that runs again makes none twice."""

    def __init__(self, run: str, store: Any) -> None:
        self._run = run
        self._store = store
        self._width = asyncio.Semaphore(WIDTH)

    async def call(
        self, unit: Unit, attempt: int, callee: str, arguments: dict[str, Json], timeout_s: float
    ) -> dict[str, Json]:
        """Makes one call, or returns how it ended before."""
        name = f"{unit.name}#{attempt}"
        found = await self._read(name)
        if found is None:
            await self._write(name, {"begun": True})
        elif "begun" not in found:
            return found
        elif not (TOOLS[callee].reads or TOOLS[callee].keyed):
            return unseen()
        async with self._width:
            call = Call(f"{self._run}/{unit.name}", attempt)
            end = await make_call(call, callee, arguments, timeout_s)
        await self._write(name, end)
        return end

    async def _read(self, name: str) -> dict[str, Json] | None:
        found = await self._store.aget(("calls", self._run), name)
        kept: dict[str, Json] | None = json.loads(found.value["json"]) if found else None
        return kept

    async def _write(self, name: str, end: dict[str, Json]) -> None:
        await self._store.aput(("calls", self._run), name, {"json": json.dumps(end)})

    async def ask(self, unit: Unit, question: Question) -> Json:
        """Interrupts the graph until there is an answer to this very question."""
        asked = {"step": unit.name, "question": json.dumps(question)}
        while True:
            answered = interrupt(asked)
            if answered["step"] == unit.name:
                return json.loads(answered["json"])

    async def sleep(self, unit: Unit, seconds: float) -> None:
        """Waits."""
        del unit
        await asyncio.sleep(seconds)

    async def parts(
        self, units: Sequence[Unit], known: Mapping[str, Outcome], width: int
    ) -> list[Outcome]:
        """Runs units, at most so many at a time."""
        return await run_parts(self, units, known, width)


def make_graph(engine: LangGraphEngine) -> Any:
    """Returns the graph of the plan: a node for each step, after those that it needs."""
    graph: Any = StateGraph(State)
    for name, step in PLANS[""].items():
        graph.add_node(f"do_{name}", make_node(engine, name, step.needs))
    for name, step in PLANS[""].items():
        needs = [f"do_{need}" for need in step.needs]
        graph.add_edge(needs if len(needs) > 1 else (needs or [START])[0], f"do_{name}")
    if not PLANS[""]:
        graph.add_node("nothing", make_nothing)
        graph.add_edge(START, "nothing")
    return graph


async def make_nothing(_state: State) -> State:
    """Does nothing, for a plan without steps."""
    return {"ends": {}}


def make_node(engine: LangGraphEngine, name: str, needs: Sequence[str]) -> Any:
    """Returns the node of a step; a failure is an end like others, so that what follows sees it."""

    async def node(state: State) -> State:
        before = {need: json.loads(state["ends"][need]) for need in needs}
        end = await run_unit(engine, Unit(name, "", name), before)
        return {"ends": {name: json.dumps(end)}}

    return node


async def run_plan(run: str, store: str, answers: Mapping[str, Json]) -> dict[str, Outcome] | None:
    """Runs the graph, or goes on with it; returns how each step ended, or None while it waits."""
    terminal = Terminal(answers)
    async with (
        AsyncSqliteSaver.from_conn_string(store) as saver,
        AsyncSqliteStore.from_conn_string(store) as kept,
    ):
        await saver.setup()
        await kept.setup()
        graph = make_graph(LangGraphEngine(run, kept)).compile(checkpointer=saver)
        config = {"configurable": {"thread_id": run}, "recursion_limit": len(PLANS[""]) + 25}
        known = await graph.aget_state(config)
        given: Any = None if known.created_at else {"ends": {}}
        while True:
            if given is not None or known.next:
                await graph.ainvoke(given, config, durability="sync")
            known = await graph.aget_state(config)
            if not known.next:
                return {name: json.loads(end) for name, end in known.values["ends"].items()}
            replies = await answers_to(known.interrupts, terminal)
            if replies is None:
                return None
            given = Command(resume=replies)


async def answers_to(asked: Sequence[Any], terminal: Terminal) -> dict[str, Json] | None:
    """Asks the person; returns the answers by the id of the interrupt, or None without one."""
    found: dict[str, Json] = {}
    for each in asked:
        name, question = each.value["step"], Question(*json.loads(each.value["question"]))
        try:
            answer = await terminal.ask(Unit(name, "", name), question)
        except StepError as error:
            sys.stderr.write(f"{error.message}\n")
            return None
        found[each.id] = {"step": name, "json": json.dumps(answer)}
    return found


def main() -> int:
    """Runs the plan, or goes on with it, and prints its results."""
    parser = flags(sys.modules[__name__].__doc__ or "")
    parser.add_argument("--run", required=True, metavar="ID", help="a name: the same one goes on")
    parser.add_argument("--store", default="runs.db", metavar="FILE", help="default: %(default)s")
    args = parser.parse_args()
    run = args.run.replace(".", "_")
    ends = asyncio.run(run_plan(run, args.store, read_answers(args.answers)))
    if ends is None:
        sys.stderr.write(f"a question has no answer: run it again with --run {args.run}\n")
        return WAITS
    return finish(ends, args.out)
