"""Writes a plan as a Python program that runs it with the kernel alone."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from pprint import pformat
from typing import Any, Final

from plansmith.check.check_plan import check_plan, secret_uses
from plansmith.errors import PlanInvalid
from plansmith.plan.earlier import uses_of
from plansmith.plan.plan import Plan
from plansmith.plan.problem import has_errors
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, PlanStep, ReplyStep, ToolStep
from plansmith.review.policy import active_steps
from plansmith.text import clip, safe
from plansmith_cli.options import warn
from plansmith_cli.programs import frame
from plansmith_cli.session import Session
from plansmith_cli.ui.output import refused
from plansmith_cli.wiring import builtin_tools, python_tools

# A tool or an agent that is not known here is to be filled in.
_UNKNOWN: Final = ("PS101", "PS102", "PS103", "PS316")
_ABOUT: Final = """{goal}

Written by `plansmith convert --to python` from plan {hash}.
It needs: pip install path/to/the/clone/packages/{packages}
It asks before anything is changed, and prints the results as JSON. The exit code is 1 if not
everything was done. --store sqlite:///runs.db keeps the run.
"""


async def print_program(session: Session, plan: Plan, run: Run | None) -> None:
    """Prints a program; on stderr, what is to be filled in. Refuses bad plans."""
    registry = session.smith.runs.registry
    plan = plan if run is not None else await registry.with_fixed_templates(plan)
    templates = dict(run.templates) if run is not None and run.templates else {}
    templates = templates or dict(await registry.template_plans(plan))
    callees, agents = await registry.callees(), {each.name: each for each in registry.agents()}
    _refuse(plan, templates)
    found = check_plan(plan, list(callees.specs.values()), agents=list(agents.values()))
    found = [each for each in found if each.code not in _UNKNOWN]
    if has_errors(found):
        raise PlanInvalid(found)
    steps = [*active_steps(plan, templates)]
    called = dict.fromkeys(each.tool for each in steps if isinstance(each, ToolStep))
    asked = dict.fromkeys(each.agent for each in steps if isinstance(each, AgentStep))
    files, builtin = await _known_code(session)
    used = [name for name in called if name in builtin and name not in files]
    others = [name for name in called if name not in builtin and name not in files]
    secrets: dict[str, dict[str, Any]] = {}
    for use in (use for each in (plan, *templates.values()) for use in secret_uses(each)):
        known = session.settings.secrets.get(use.name)
        variable = re.sub(r"[^A-Za-z0-9]", "_", use.name).upper()
        place: dict[str, Any] = {"tools": list[str]()}
        place |= known.to_json() if known else {"env": variable}
        secrets.setdefault(use.name, place)["tools"] += [use.tool] if known is None else []
    about = _ABOUT.format(
        goal=clip(safe(plan.goal or "A plan"), 400),
        hash=plan.hash[:16],
        packages="*" if used else "plansmith",
    )
    data: dict[str, Any] = {
        "PLAN": _unpinned(plan.replace(schedule=None, schedules={})),
        "TEMPLATES": {_own_name(name): _unpinned(each) for name, each in templates.items()},
        "FILES": sorted({files[name] for name in called if name in files}),
        "FOLDER": session.journals.folder,
        "BUILT_IN": bool(used),
        "TOOLS": [_card(name, callees.specs.get(name)) for name in others],
        "AGENTS": [_card(name, agents.get(name)) for name in asked],
        "SECRETS": secrets,
    }
    for note in _notes(plan, others, [*asked], steps):
        warn(note)
    sys.stdout.write(_source(about, data))


def _refuse(plan: Plan, templates: dict[str, Plan]) -> None:
    """Refuses what a program cannot have: unknown templates, and results of earlier runs."""
    if earlier := sorted(uses_of(plan)):
        name = earlier[0]
        raise refused("the plan uses {name}, a result of an earlier run", "edit it", name=name)
    for step in active_steps(plan, templates):
        if not isinstance(step, PlanStep):
            continue
        if step.template not in templates:
            name = step.template
            raise refused("there is no template '{name}'", hint="plansmith templates", name=name)
        if step.content not in (None, templates[step.template].hash):
            raise refused("'{name}' is not what was approved", name=step.template)


def _unpinned(plan: Plan) -> dict[str, Any]:
    """Returns a plan as JSON whose templates are those of the program, not versions in a store."""
    written: dict[str, Any] = plan.to_json()
    for step in written["steps"]:
        for each in (step, step.get("each", {})):
            if "template" in each:
                each["template"] = _own_name(each["template"])
                for pin in ("content", "version"):
                    each.pop(pin, None)
    return written


def _own_name(template: str) -> str:
    return template.replace("@", ".")


def _card(name: str, spec: Any) -> dict[str, Any]:
    return spec.to_json() if spec is not None else {"name": name}


def _source(about: str, data: dict[str, Any]) -> str:
    """Returns the source of the frame with this data in it."""
    quoted = about.replace("\\", "\\\\").replace('"', '\\"')
    _, _, text = inspect.getsource(frame).partition("\n")
    before, _, rest = text.partition("# The plan, and what it is run with.\n")
    _, end, after = rest.partition("# The end of what is filled in.\n")
    tables = "".join(
        f"{name} = {pformat(value, width=96, sort_dicts=False)}\n" for name, value in data.items()
    )
    main = '\n\nif __name__ == "__main__":\n    sys.exit(main())\n'
    return f'"""{quoted}"""\n{before}{tables}{end}{after}{main}'


def _notes(plan: Plan, tools: list[str], agents: list[str], steps: list[Any]) -> Iterator[Sentence]:
    for name in tools:
        yield Sentence(
            "fill in {place}: the code of {name} is not known", place="OtherTools", name=name
        )
    for name in agents:
        yield Sentence(
            "fill in {place}: it stands for the agent {name}", place="OtherAgent", name=name
        )
    worded = [each.id for each in steps if isinstance(each, ReplyStep) and each.style != "exact"]
    if worded:
        steps_named = ", ".join(worded)
        yield Sentence("set MODEL: without one, {steps} is its instruction", steps=steps_named)
    if plan.schedule or plan.schedules:
        yield Sentence("the schedule is not in the program: start it by cron or the like")


async def _known_code(session: Session) -> tuple[dict[str, str], set[str]]:
    """Returns the file of each tool that is Python of the settings, and the built-in tools."""
    settings, folder = session.settings, Path(session.journals.folder)
    files: dict[str, str] = {}
    for path in (folder / each for each in settings.tools if each.suffix == ".py"):
        place = path.relative_to(folder) if path.is_relative_to(folder) else path
        files |= {each.spec.name: place.as_posix() for each in python_tools(path)}
    builtin: set[str] = set()
    for source in builtin_tools(settings) if settings.builtin.enabled else ():
        builtin |= {spec.name for spec in await source.tools()}
    return files, builtin
