"""Engine of a written program: DBOS, a workflow for each step and a DBOS step for each call."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

from dbos import DBOS, DBOSPortableJSONSerializer, SetWorkflowID, WorkflowHandleAsync

from plansmith.programs.parts.calling import Call
from plansmith.programs.parts.rules import (
    PLANS,
    TOOLS,
    Outcome,
    Question,
    Unit,
    found_step,
    make_call,
    run_unit,
    unseen,
)
from plansmith.programs.parts.terminal import Terminal, finish, flags, read_answers
from plansmith.programs.parts.values import Json, StepError

WIDTH = 16
WAITS = 5  # the exit code while a question has no answer
PAUSE_S = 0.05
PROCESS = uuid4().hex
TERMINALS: list[Terminal] = []
LIMITS: list[asyncio.Semaphore] = []


@DBOS.step()
async def begin_call(_name: str) -> str:
    """Notes that a call begins; returns the process that began it."""
    return PROCESS


@DBOS.step()
async def finish_call(
    key: str, attempt: int, callee: str, arguments: dict[str, Json], timeout_s: float, begun_by: str
) -> dict[str, Json]:
    """Makes a call; not again if an earlier process may have made it and that would do harm."""
    if begun_by != PROCESS and not (TOOLS[callee].reads or TOOLS[callee].keyed):
        return unseen()
    async with LIMITS[0]:
        return await make_call(Call(key, attempt), callee, arguments, timeout_s)


@DBOS.step()
async def ask_person(name: str, question: str) -> Json:
    """Asks a person; without an answer the process ends, and can be started again."""
    try:
        return await TERMINALS[0].ask(Unit(name, "", name), Question(*json.loads(question)))
    except StepError as error:
        sys.stderr.write(f"{error.message}: run it again with the same --run\n")
        sys.stderr.flush()
        os._exit(WAITS)


class DbosEngine:
    """Makes calls as DBOS steps and runs parts as workflows with fixed ids."""

    def __init__(self, run: str) -> None:
        self._run = run

    async def call(
        self, unit: Unit, attempt: int, callee: str, arguments: dict[str, Json], timeout_s: float
    ) -> dict[str, Json]:
        """Makes one call."""
        by = await begin_call(unit.name)
        key = f"{self._run}/{unit.name}"
        end: dict[str, Json] = await finish_call(key, attempt, callee, arguments, timeout_s, by)
        return end

    async def ask(self, unit: Unit, question: Question) -> Json:
        """Asks a person."""
        return await ask_person(unit.name, json.dumps(question))

    async def sleep(self, unit: Unit, seconds: float) -> None:
        """Waits; a restart keeps the time."""
        del unit
        await DBOS.sleep_async(seconds)

    async def parts(
        self, units: Sequence[Unit], known: Mapping[str, Outcome], width: int
    ) -> list[Outcome]:
        """Starts a workflow for each unit, in order; each waits for those that it needs."""
        handles = []
        for place, unit in enumerate(units):
            # At most `width` items at a time: each waits for the one so many places before it.
            behind = units[place - width].name if unit.is_item and place >= width else ""
            with SetWorkflowID(f"{self._run}-{unit.name}"):
                started = DBOS.start_workflow_async(
                    run_step, self._run, asdict(unit), dict(known), behind
                )
                handles.append(await started)
        return [await each.get_result(polling_interval_sec=PAUSE_S) for each in handles]


async def end_of(run: str, name: str) -> Outcome:
    """Waits for the workflow of a step; returns how the step ended."""
    handle: WorkflowHandleAsync[Outcome] = await DBOS.retrieve_workflow_async(
        f"{run}-{name}", existing_workflow=False
    )
    end: Outcome = await handle.get_result(polling_interval_sec=PAUSE_S)
    return end


@DBOS.workflow()
async def run_step(
    run: str, given: dict[str, Json], known: dict[str, Outcome], behind: str
) -> Outcome:
    """Runs a step after those that it needs, in a fixed order."""
    unit = Unit(**given)
    if behind:
        await end_of(run, behind)
    before = dict(known)
    if not unit.is_item:
        scope = unit.name.removesuffix(unit.id)
        for need in found_step(unit).needs:
            before[need] = await end_of(run, f"{scope}{need}")
    return await run_unit(DbosEngine(run), unit, before)


@DBOS.workflow()
async def run_plan(run: str) -> dict[str, Outcome]:
    """Runs all steps; returns how each ended."""
    units = [Unit(name, "", name) for name in PLANS[""]]
    ends = await DbosEngine(run).parts(units, {}, len(units) or 1)
    return dict(zip(PLANS[""], ends, strict=True))


async def run_or_go_on(run: str, answers: Mapping[str, Json]) -> dict[str, Outcome]:
    """Runs the plan; DBOS goes on by itself with what an earlier process began."""
    TERMINALS.append(Terminal(answers))
    LIMITS.append(asyncio.Semaphore(WIDTH))
    await asyncio.to_thread(DBOS.launch)
    with SetWorkflowID(run):
        handle = await DBOS.start_workflow_async(run_plan, run)
    ends: dict[str, Outcome] = await handle.get_result(polling_interval_sec=PAUSE_S)
    return ends


def main() -> int:
    """Runs the plan, or goes on with it, and prints its results."""
    parser = flags(sys.modules[__name__].__doc__ or "")
    parser.add_argument("--run", required=True, metavar="ID", help="a name: the same one goes on")
    what = "a SQLite file, or the URL of a PostgreSQL database (default: %(default)s)"
    parser.add_argument("--store", default="runs.db", metavar="FILE|URL", help=what)
    args = parser.parse_args()
    url = args.store if "://" in args.store else f"sqlite:///{Path(args.store).absolute()}"
    DBOS(
        config={
            "name": "plan",
            "system_database_url": url,
            "application_version": "1",
            "serializer": DBOSPortableJSONSerializer(),
            "log_level": "ERROR",
        }
    )
    ends = asyncio.run(run_or_go_on(args.run, read_answers(args.answers)))
    code = finish(ends, args.out)
    DBOS.destroy()
    return code
