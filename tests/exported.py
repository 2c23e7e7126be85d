"""Written programs beside the runner: the same plan and tools, and how every step ended."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from plansmith import Plan, Plansmith, RunStatus
from plansmith.engine.journal import load_results
from plansmith.plan.data import Json
from plansmith.plan.limits import Limits
from plansmith.plan.run import Run, StepStatus
from plansmith_cli.programs.program import Program, Surroundings, write_program
from plansmith_cli.wiring import python_functions

ROOT = Path(__file__).parents[1]
TOOLS = '''
import datetime
from pathlib import Path

from pydantic import BaseModel

from plansmith import tool
from plansmith.errors import ToolBusy, ToolFailed

COUNTS: dict[str, int] = {}


def count(name: str) -> int:
    COUNTS[name] = COUNTS.get(name, 0) + 1
    return COUNTS[name]


class Order(BaseModel):
    id: int
    at: datetime.date


@tool(effect="read")
def echo(value: object = None, more: object = None) -> object:
    """Returns what it is given."""
    return value


@tool(effect="read")
async def number(value: int) -> int:
    """Returns a number, but not 2."""
    if value == 2:
        raise ToolFailed("there is no 2")
    return value


@tool(effect="read")
def rising(name: str) -> dict[str, int]:
    """Counts how often it was called."""
    return {"count": count(name)}


@tool(effect="read")
def busy(name: str) -> str:
    """Is busy at first."""
    if count(name) < 3:
        raise ToolBusy("come back later")
    return name


@tool(effect="read")
def broken(name: str = "") -> str:
    """Never works."""
    raise ValueError(f"boom {name}")


@tool(effect="read")
def odd() -> object:
    """Returns what is no JSON."""
    return float("nan")


@tool(effect="write", name="shop.order")
def order(name: str) -> Order:
    """Orders. It really does."""
    note(f"order {name}")
    return Order(id=7, at=datetime.date(2026, 1, 2))


def note(line: str) -> None:
    with Path(__file__).with_name("effects.txt").open("a", encoding="utf-8") as file:
        file.write(line + "\\n")
'''


class Ends(NamedTuple):
    """How a plan ended; `not_run` are steps that a person or a failure kept from running.

    Of a failure only its kind counts: a program words its reasons more briefly.
    """

    results: Any
    failed: list[str]
    skipped: list[str]
    not_run: list[str]


def tools_file(folder: Path) -> Path:
    """The file with the tools, in a folder."""
    path = folder / "tools.py"
    path.write_text(TOOLS, encoding="utf-8")
    return path


def plan_of(*steps: Mapping[str, Any], goal: str = "test") -> Plan:
    return Plan.model_validate({"goal": goal, "steps": list(steps)})


async def with_runner(
    plan: Plan,
    folder: Path,
    *,
    answers: Mapping[str, Json] | None = None,
    templates: Mapping[str, Plan] | None = None,
) -> Ends:
    """How a plan ends with the runner."""
    given = dict(answers or {})
    functions = list(python_functions(tools_file(folder)).values())
    limits = Limits(data="show", first_wait_s=0)
    async with Plansmith(tools=functions, templates=dict(templates or {}), limits=limits) as smith:
        run = await smith.submit(plan, by="ada")
        if run.status is RunStatus.REVIEWING:
            assert run.plan is not None
            await smith.decide(run.id, approve=run.plan.hash, by="ada")
        run = await smith.run(run.id)
        while run.questions:
            name, asked = next(iter(run.questions.items()))
            await smith.answer(run.id, name, given[asked.step or ""], by="ada")
            run = await smith.run(run.id)
        return _ends(run, await load_results(smith.store, run))


def _ends(run: Run, results: Mapping[str, Json]) -> Ends:
    assert run.plan is not None
    own = {name: run.steps[name] for name in run.plan.by_id if not run.plan.by_id[name].disabled}
    skipped = [name for name, each in own.items() if each.status is StepStatus.SKIPPED]
    failed = [name for name, each in own.items() if each.status is StepStatus.FAILED]
    ended = {*skipped, *failed, *(n for n, e in own.items() if e.status is StepStatus.DONE)}
    return Ends(
        without_reasons({name: results[name] for name in own if name in results}),
        failed,
        [name for name in skipped if own[name].rule],
        sorted(
            name for name in own if name not in ended or (name in skipped and not own[name].rule)
        ),
    )


def without_reasons(value: Json) -> Json:
    """A result, with the reasons of collected failures left out."""
    if isinstance(value, list):
        return [without_reasons(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"kind", "message"}:
        return {"kind": value["kind"]}
    return {key: without_reasons(each) for key, each in value.items()}


def written(plan: Plan, folder: Path, templates: Mapping[str, Plan] | None = None) -> Program:
    """A plan as a program that uses the tools of a folder."""
    path = tools_file(folder)
    functions = python_functions(path)
    return write_program(
        plan,
        Surroundings(
            tools={each.spec.name: each.spec for each in functions.values()},
            in_files={e.spec.name: (str(path), name) for name, e in functions.items()},
            templates=templates or {},
            secrets={"shop": "SHOP_KEY"},
        ),
    )


def environment() -> dict[str, str]:
    """The environment of a program."""
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"}


def loaded(source: str) -> Any:
    """A program as a module of this process."""
    module = ModuleType("program")
    sys.modules["program"] = module  # dataclasses look their module up
    exec(compile(source, "program.py", "exec"), vars(module))
    return module


def as_program(
    plan: Plan,
    folder: Path,
    *,
    answers: Mapping[str, Json] | None = None,
    templates: Mapping[str, Plan] | None = None,
) -> Ends:
    """How a plan ends as a program, in an event loop of its own."""
    program = loaded(written(plan, folder, templates).source)
    out = folder / "out.json"
    (folder / "answers.json").write_text(json.dumps(dict(answers or {})), encoding="utf-8")
    flags = ["--answers", str(folder / "answers.json"), "--out", str(out)]
    with ThreadPoolExecutor(1) as thread:
        code = thread.submit(program.main, flags).result()
    told = json.loads(out.read_text(encoding="utf-8"))
    assert code == int(bool(told["failed"] or told["not_run"]))
    kept_back = sorted([*told["left_out"], *told["not_run"]])
    return Ends(without_reasons(told["results"]), [*told["failed"]], told["skipped"], kept_back)
