"""`plansmith check`, `diff` and `convert`: plan files, and the plans of runs."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, NamedTuple

from plansmith.check.check_plan import check_plan
from plansmith.clock import SystemClock
from plansmith.errors import Misconfigured, PlanInvalid, PlansmithError, Refused, UnreadableText
from plansmith.formats.dialect import dialect, dialect_names
from plansmith.formats.native import schema, to_json, to_yaml, try_read_plan
from plansmith.formats.text import read_text
from plansmith.formats.tools import read_tools
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.diff import diff_plans
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, has_errors, problem
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, in_language, joined, with_hint
from plansmith.ports import Closing, ToolSource
from plansmith.review.draw import mermaid
from plansmith.review.render import diff_lines, problem_lines
from plansmith.secrets import SecretBox
from plansmith.text import safe
from plansmith.tools.functions import FunctionTool
from plansmith_cli.commands.runs import names_run
from plansmith_cli.config import load_settings
from plansmith_cli.exit_codes import Exit
from plansmith_cli.options import STORE, warn
from plansmith_cli.parser import command
from plansmith_cli.session import Session, in_session
from plansmith_cli.ui.output import load_plan, print_json, print_lines, read_file
from plansmith_cli.ui.own_locale import own_locale
from plansmith_cli.ui.words import tell
from plansmith_cli.wiring import known_agents, make_tools, python_tools
from plansmith_planner.parse.read import read_json
from plansmith_planner.parse.reply import Parsed, parse_value, plan_fit

_FORMS: Final = ("json", "yaml", "mermaid", "python", *dialect_names())
_PROGRAM: Final = "plansmith_cli.programs.program:print_program"
HERE: Final = Sentence("the tools of this folder")


class Known(NamedTuple):
    """The tools and agents a plan is checked against; `flaw` says why they are unknown."""

    tools: list[ToolSpec] | None
    agents: list[AgentSpec] | None = None
    source: str = ""
    flaw: str = ""


def known_tools(name: str | None) -> Known:
    """Returns the tools of this folder, with those of a Python file; or only those of a list."""
    if name is None or name.endswith(".py"):
        more = python_tools(Path(name)) if name else ()
        try:
            return asyncio.run(_tools_of_folder(more, name or HERE))
        except PlansmithError as error:
            return Known(None, flaw=with_hint(error.message, error.hint))
    return Known(read_tools(read_file(name).decode("utf-8", "replace")), source=name)


async def _tools_of_folder(
    more: Sequence[FunctionTool[..., Any] | ToolSource], source: str
) -> Known:
    settings = load_settings(tell=warn)
    secrets = SecretBox(settings.secrets)
    sources = [*make_tools(settings, clock=SystemClock(), secrets=secrets), *more]
    agents = [agent.spec for agent in known_agents(settings, secrets=secrets)]
    specs: list[ToolSpec] = []
    try:
        for each in sources:
            specs += [each.spec] if isinstance(each, FunctionTool) else await each.tools()
        return Known(specs, agents, source)
    finally:
        for each in sources:
            if isinstance(each, Closing):
                await each.close()


def _check(args: argparse.Namespace) -> int:
    if args.schema:
        print_json(schema())
        return Exit.OK
    if args.plan is None:
        raise Misconfigured(Sentence("no plan file was named"), hint="plansmith check PLAN")
    plan, notes = _read(args)
    known = known_tools(args.tools)
    problems = [*notes, *(_problems(plan, known) if plan is not None else ())]
    bad = has_errors(problems)
    flaw = Sentence("tools were not checked: {flaw}; give --tools FILE", flaw=known.flaw)
    unchecked = in_language(flaw, "en" if args.json else own_locale()) if known.flaw else ""
    if args.json:
        print_json(
            {
                "ok": not bad,
                "hash": plan.hash if plan is not None else None,
                "checked_against": known.source,
                "not_checked": unchecked,
                "problems": [each.shown_json() | {"name": each.name} for each in problems],
            }
        )
    elif problems:
        print_lines(problem_lines(problems, own_locale()))
    else:
        here = HERE if known.source == HERE else safe(known.source)
        none = Sentence("no problems in its form")
        print_lines(
            [Sentence("no problems (checked against {source})", source=here) if here else none]
        )
    if unchecked and not args.json:
        print_lines([safe(unchecked)])
    if bad:
        return Exit.INVALID
    return Exit.FAILED if unchecked else Exit.OK


def _read(args: argparse.Namespace) -> Parsed:
    """Reads a plan file, in the plan language or in the format that is named."""
    data = read_file(args.plan)
    if args.dialect:
        return read_foreign(data, args.dialect)
    found = try_read_plan(data)
    return Parsed(found, []) if isinstance(found, Plan) else Parsed(None, found)


def _problems(plan: Plan, known: Known) -> list[Problem]:
    """Checks a plan; without known tools, not the names of its tools."""
    found = check_plan(plan, known.tools or [], agents=known.agents)
    if known.tools is None:
        return [each for each in found if each.code != "PS101"]
    return [_with_tools_hint(each) if known.source == HERE else each for each in found]


def _with_tools_hint(found: Problem) -> Problem:
    """Adds to an unknown tool that --tools may name more."""
    if found.code != "PS101":
        return found
    hint = joined([found.hint, Sentence("other tools: --tools FILE")])
    return found.model_copy(update={"hint": hint})


def _diff(args: argparse.Namespace) -> None:
    before, after = _plans_of(args, args.before, args.after)
    diff = diff_plans(before, after)
    if args.json:
        print_json(diff.to_json())
    elif not diff:
        print_lines([Sentence("the plans are equal")])
    else:
        print_lines(diff_lines(diff, own_locale()))
        if before.hash == after.hash:
            print_lines([Sentence("both would run the same")])


def _plans_of(args: argparse.Namespace, *names: str) -> list[Plan]:
    """Returns the plans of files and runs; no store is opened for files alone."""
    if not any(map(names_run, names)):
        return [load_plan(name) for name in names]
    found: list[Plan] = []

    async def work(session: Session) -> None:
        for name in names:
            plan = (await session.run(name)).plan if names_run(name) else load_plan(name)
            if plan is None:
                raise _without_plan(name)
            found.append(plan)

    in_session(args, work)
    return found


def _without_plan(run: str) -> Refused:
    return Refused(
        Sentence("run {run} has no plan", run=run),
        hint=Sentence("plansmith show prints its status"),
    )


def _convert(args: argparse.Namespace) -> int | None:
    is_run = args.source is None and names_run(args.plan)

    async def work(session: Session) -> int | None:
        run = await session.run(args.plan) if is_run else None
        if run is not None and run.plan is None:
            raise _without_plan(run.id)
        read = Parsed(run.plan, []) if run is not None else _recognised(args)
        if args.to == "python":
            await resolve_name(_PROGRAM)(session, read.plan, run)
            return None
        return _print_as(args.to, read, run)

    if is_run or args.to == "python":
        return in_session(args, work)
    return _print_as(args.to, _recognised(args))


def _recognised(args: argparse.Namespace) -> Parsed:
    """Reads a plan file in the format that is named, or in the one it seems to have."""
    data = read_file(args.plan)
    plan = try_read_plan(data) if args.source is None else None
    parsed = Parsed(plan, []) if isinstance(plan, Plan) else read_foreign(data, args.source)
    if parsed.plan is None:
        raise PlanInvalid(parsed.problems)
    return parsed


def _print_as(form: str, read: Parsed, run: Run | None = None) -> int:
    if read.plan is None:
        raise PlanInvalid(read.problems)
    writers = {"json": to_json, "yaml": to_yaml, "mermaid": mermaid}
    if form in writers:
        _print_problems(read.problems)
        sys.stdout.write(writers[form](read.plan))
    else:
        print_foreign(read.plan, form, read.problems, run)
    return Exit.INVALID if has_errors(read.problems) else Exit.OK


def read_foreign(data: bytes, name: str | None) -> Parsed:
    """Reads a plan in the format of a dialect, or in the format it seems to have."""
    try:
        value = _value(data)
    except UnreadableText as error:
        hint = Sentence("give the plan as JSON or YAML")
        return Parsed(None, [problem("PS002", error.message, hint=hint)])
    if name is None:
        return parse_value(value, text=data.decode("utf-8", "replace"))
    reading = dialect(name).read(value)
    return Parsed(reading.plan, list(reading.problems))


def _value(data: bytes) -> Json:
    """Reads the JSON or YAML value of a file, also out of other text or with errors."""
    reading = read_text(data)
    if not reading.problems and isinstance(reading.value, (dict, list)):
        return reading.value
    return read_json(data.decode("utf-8", "replace"), fits=plan_fit)


def load_foreign(name: str, form: str) -> Plan:
    """Reads a plan file in another format; prints what was read differently on stderr."""
    parsed = read_foreign(read_file(name), form)
    if parsed.plan is None or has_errors(parsed.problems):
        raise PlanInvalid(parsed.problems)
    _print_problems(parsed.problems)
    return parsed.plan


def print_foreign(
    plan: Plan, name: str, problems: Sequence[Problem] = (), run: Run | None = None
) -> None:
    """Prints a plan in another format, and what that cannot hold on stderr."""
    writing = dialect(name).write(plan, run)
    _print_problems([*problems, *writing.lost])
    print_json(writing.value)


def _print_problems(problems: Sequence[Problem]) -> None:
    if problems:
        tell(*problem_lines(problems, own_locale()))


DIALECT: Final = "--dialect  the format of the plan, if it is another system's\n"
DIALECTS: Final = {"choices": dialect_names()}
CHECK = command(
    """
[PLAN]  a plan as JSON or YAML; - for stdin
--tools FILE  the tools, as JSON or Python (default: those of this folder)
--schema  print the JSON Schema of a plan
--json  print the problems as JSON
"""
    + DIALECT,
    _check,
    dialect=DIALECTS,
)
DIFF = command(
    """
BEFORE  a plan as JSON or YAML, or a run
AFTER  the plan or the run to compare it with
--json  print the changes as JSON
"""
    + STORE,
    _diff,
    before={"metavar": "A"},
    after={"metavar": "B"},
)
CONVERT = command(
    """
PLAN|RUN  a plan as JSON or YAML, also inside other text, - for stdin; or a run: its id, or last
--from  the format of the file (default: recognised)
--to  the format to write: python is a program that runs without Plansmith (default: json)
--tools FILE*  with --to python: tools that the program calls, as Python; repeatable
"""
    + STORE,
    _convert,
    **{"from": DIALECTS | {"dest": "source"}, "to": {"choices": _FORMS, "default": "json"}},
)
