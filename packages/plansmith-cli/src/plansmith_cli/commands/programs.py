"""`plansmith convert --to python`: writes a plan or a run's plan as a plain Python program."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import PurePath

from plansmith.check.check_plan import check_plan
from plansmith.engine.journal import load_values
from plansmith.errors import PlanInvalid, Refused
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import has_errors
from plansmith.plan.refs import is_earlier
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import PlanStep
from plansmith.review.policy import active_steps
from plansmith_cli.config import Settings
from plansmith_cli.options import warn
from plansmith_cli.programs.program import Functions, Surroundings, write_program
from plansmith_cli.session import Session
from plansmith_cli.wiring import builtin_tools, python_functions

# A tool or an agent that is not known here is a function to fill in; the others are looked at here.
_UNKNOWN = ("PS101", "PS102", "PS103", "PS316")


async def print_program(session: Session, plan: Plan, run: Run | None) -> None:
    """Prints a program; on stderr, what it lacks."""
    plan, around = await _surroundings(session, plan, run)
    written = write_program(plan, around)
    for note in written.notes:
        warn(note)
    sys.stdout.write(written.source)


async def _surroundings(session: Session, plan: Plan, run: Run | None) -> tuple[Plan, Surroundings]:
    """Returns the plan as it would run, and what there is to write it with; refuses bad plans."""
    intake = session.smith.runs.intake
    if run is None:
        plan = await intake.pinned(plan)
    templates = dict(run.templates) if run is not None and run.templates else {}
    templates = templates or dict(await intake.contents(plan))
    callees = await intake.callees()
    agents = {spec.name: spec for spec in intake.agents()}
    found = check_plan(plan, list(callees.specs.values()), agents=list(agents.values()))
    found = [each for each in found if each.code not in _UNKNOWN]
    if has_errors(found):
        raise PlanInvalid(found)
    _check_templates(plan, templates)
    return plan, Surroundings(
        tools=callees.specs,
        agents=agents,
        functions=await _functions(session.settings, session.journals.folder),
        templates=templates,
        secrets={name: each.env or "" for name, each in session.settings.secrets.items()},
        earlier=await _earlier(session, plan, run),
        locale=run.locale if run is not None else plan.locale,
    )


def _check_templates(plan: Plan, templates: Mapping[str, Plan]) -> None:
    for step in active_steps(plan, templates):
        if not isinstance(step, PlanStep):
            continue
        known = templates.get(step.template)
        if known is None:
            problem = Sentence("there is no template '{name}'", name=step.template)
            raise Refused(problem, hint="plansmith templates")
        if step.content not in (None, known.hash):
            raise Refused(Sentence("'{name}' is not what was approved", name=step.template))


async def _functions(settings: Settings, folder: str) -> Functions:
    """Returns where the code of the tools is that this folder knows."""
    files: dict[str, tuple[str, str]] = {}
    here = PurePath(folder)
    for path in settings.tools:
        if path.suffix == ".py":
            for name, function in python_functions(path).items():
                files[function.spec.name] = (str(here / path), name)
    builtin: set[str] = set()
    if settings.builtin.enabled:
        for source in builtin_tools(settings):
            builtin |= {spec.name for spec in await source.tools()}
    return Functions(in_files=files, builtin=frozenset(builtin - files.keys()))


async def _earlier(session: Session, plan: Plan, run: Run | None) -> dict[str, Json]:
    """Returns the results of earlier runs that a plan uses."""
    used = {
        found.ref.step
        for step in plan.steps
        for found in step.references
        if found.ref is not None and is_earlier(found.ref.step)
    }
    known = run.earlier if run is not None else dict[str, str]()
    missing = sorted(used - known.keys())
    if missing:
        problem = Sentence("the plan uses {name}, a result of an earlier run", name=missing[0])
        raise Refused(problem, hint=Sentence("convert the run"))
    values = await load_values(session.smith.store, run) if run is not None and used else {}
    return {name: values[name] for name in sorted(used)}
