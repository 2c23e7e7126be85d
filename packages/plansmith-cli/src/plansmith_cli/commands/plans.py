"""`plansmith show`, `check`, `diff` and `convert`: plan files, runs and the plans of runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Final

from plansmith import Plan, PlanInvalid, Problem, Refused, Run, diff_plans, try_read_plan
from plansmith.check.check_plan import check_plan
from plansmith.errors import Misconfigured, UnreadableText
from plansmith.formats.native import schema, to_json, to_yaml
from plansmith.formats.text import read_text
from plansmith.plan.problem import has_errors, problem
from plansmith.plan.sentence import Sentence
from plansmith.text import safe
from plansmith_cli.command_table import Exit
from plansmith_cli.commands.runs import names_run
from plansmith_cli.describe import run_json, run_lines
from plansmith_cli.options import HIDDEN, STORE, STORE_ALONE
from plansmith_cli.parser import command
from plansmith_cli.questions import waiting_lines
from plansmith_cli.session import Session, in_session
from plansmith_cli.ui import output as ui
from plansmith_cli.ui.render import diff_lines, plan_lines, problem_lines
from plansmith_cli.ui.terminal import own_locale
from plansmith_cli.ui.tree import tree
from plansmith_planner.dialect import Reading, dialect, dialect_names
from plansmith_planner.parse.read import read_json
from plansmith_planner.parse.reply import parse_value, plan_fit
from plansmith_planner.threads.store import thread_of

_FORMS: Final = ("json", "yaml", "python", *dialect_names())
_PROGRAM: Final = "plansmith_cli.programs.program:print_program"
_HERE: Final = Sentence("the tools of this folder")


def _show(args: argparse.Namespace) -> None:
    if names_run(args.plan):
        in_session(args, _show_run, needs_store=True)
        return
    plan = ui.load_plan(args.plan)
    if args.json:  # with the hash that `--approve-plan` takes; it can be read again
        ui.print_json({**plan.to_json(), "hash": plan.hash})
    else:
        locale = own_locale()
        lines = tree(plan, locale).splitlines() if args.graph else None
        ui.print_lines(lines or plan_lines(plan, locale=locale))


async def _show_run(session: Session) -> None:
    args = session.args
    run = await session.run(args.plan)
    session.thread = await thread_of(session.smith.store, run)
    if args.json:
        ui.print_json(run_json(run, session))
    elif args.graph and run.plan is not None:
        sys.stdout.write(tree(run.plan, session.locale))
    else:
        ui.print_lines(run_lines(run, session))
        session.say(*await waiting_lines(run, session))


def _check(args: argparse.Namespace) -> int | None:
    if args.schema:
        ui.print_json(schema())
        return Exit.OK
    if args.plan is None:
        raise ui.wrong("no plan file was named", hint="plansmith check PLAN")
    reading = _read(args.plan, args.dialect)
    plan, notes = reading.plan, [*reading.problems]

    async def work(session: Session) -> int:
        registry = session.smith.runs.registry
        specs = [*(await registry.callees()).specs.values()]
        checked = check_plan(plan, specs, agents=registry.agents()) if plan is not None else []
        problems, source = [*notes, *checked], ", ".join(map(safe, args.tools or ())) or _HERE
        found = {
            "ok": not has_errors(problems),
            "hash": plan.hash if plan is not None and not has_errors(notes) else None,
            "checked_against": source,
            "problems": [each.shown_json() | {"name": each.name} for each in problems],
        }
        none = Sentence("no problems (checked against {source})", source=source)
        session.print_as(found, problem_lines(problems, own_locale()) if problems else [none])
        return Exit.INVALID if has_errors(problems) else Exit.OK

    try:
        return in_session(args, work)
    except Misconfigured:
        # Without the tools, such as where their file is broken, the form of the plan is left.
        form = check_plan(plan, []) if plan is not None else []
        found = [*notes, *(each for each in form if each.code != "PS101")]
        ui.print_lines(problem_lines(found, own_locale()) if not args.json else ())
        raise


def _diff(args: argparse.Namespace) -> None:
    names: tuple[str, str] = (args.before, args.after)
    found: list[Plan] = []

    async def work(session: Session) -> None:
        for name in names:
            plan = (await session.run(name)).plan if names_run(name) else ui.load_plan(name)
            if plan is None:
                raise _without_plan(name)
            found.append(plan)

    if any(map(names_run, names)):
        in_session(args, work)
    else:  # no store is opened for files alone
        found += map(ui.load_plan, names)
    before, after = found
    diff = diff_plans(before, after)
    lines = [*diff_lines(diff, own_locale())] if diff else [Sentence("the plans are equal")]
    if diff and before.hash == after.hash:
        lines.append(Sentence("both would run the same"))
    ui.print_as(args, diff.to_json(), lines)


def _without_plan(run: str) -> Refused:
    return ui.refused("run {run} has no plan", "plansmith show prints its status", run=run)


def _convert(args: argparse.Namespace) -> int | None:
    is_run = args.source is None and names_run(args.plan)

    async def work(session: Session) -> int | None:
        run = await session.run(args.plan) if is_run else None
        if run is not None and run.plan is None:
            raise _without_plan(run.id)
        plan, problems = (run.plan, ()) if run is not None and run.plan else _recognised(args)
        if args.to == "python":
            await resolve_name(_PROGRAM)(session, plan, run)
            return None
        return _print_as(args.to, plan, problems, run)

    if is_run or args.to == "python":
        return in_session(args, work)
    return _print_as(args.to, *_recognised(args), None)


def _recognised(args: argparse.Namespace) -> tuple[Plan, Sequence[Problem]]:
    parsed = _read(args.plan, args.source, guesses=True)
    if parsed.plan is None:
        raise PlanInvalid(parsed.problems)
    return parsed.plan, parsed.problems


def _read(name: str, form: str | None, *, guesses: bool = False) -> Reading:
    """Reads a plan file in our format or a dialect, or guesses the one it seems to have."""
    data = ui.read_file(name)
    found = try_read_plan(data) if form is None else []
    if isinstance(found, Plan):
        return Reading(found)
    return Reading(None, tuple(found)) if found and not guesses else read_foreign(data, form)


def _print_as(form: str, plan: Plan, problems: Sequence[Problem], run: Run | None) -> int:
    writers = {"json": to_json, "yaml": to_yaml}
    if form in writers:
        _print_problems(problems)
        sys.stdout.write(writers[form](plan))
    else:
        print_foreign(plan, form, problems, run)
    return Exit.INVALID if has_errors(problems) else Exit.OK


def read_foreign(data: bytes, name: str | None) -> Reading:
    """Reads a plan in the format of a dialect, or in the format it seems to have.

    It may be JSON or YAML, also inside other text or with errors.
    """
    text = data.decode("utf-8", "replace")
    value = read_text(data)
    if not isinstance(value, (dict, list)):
        try:
            value = read_json(text, fits=plan_fit)
        except UnreadableText as error:
            hint = Sentence("give the plan as JSON or YAML")
            return Reading(None, (problem("PS002", error.message, hint=hint),))
    if name is None:
        return parse_value(value, text=text)
    return dialect(name).read(value)


def load_plan_in(name: str, form: str | None) -> Plan:
    """Reads a plan file, perhaps of a dialect; prints what was read differently on stderr."""
    parsed = _read(name, form)
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
    ui.print_json(writing.value)


def _print_problems(problems: Sequence[Problem]) -> None:
    if problems:
        ui.tell(*problem_lines(problems, own_locale()))


DIALECT: Final = "--dialect  the format of the plan, if it is another system's\n"
DIALECTS: Final = {"choices": dialect_names()}
_SHOW: Final = """
PLAN|RUN  a plan as JSON or YAML, - for stdin; or a run: its id, or last
--json  print it as JSON
| --graph  draw the steps as a tree
"""
_CHECK: Final = """
[PLAN]  a plan as JSON or YAML; - for stdin
--tools FILE*  tools: Python, or JSON; repeatable
--schema  print the JSON Schema of a plan
--json  print the problems as JSON
"""
_DIFF: Final = """
BEFORE  a plan as JSON or YAML, or a run
AFTER  the plan or the run to compare it with
--json  print the changes as JSON
"""
_CONVERT: Final = """
PLAN|RUN  a plan as JSON or YAML, also inside other text, - for stdin; or a run: its id, or last
--from  the format of the file (default: recognised)
--to  the format to write: python is a program that runs it by itself (default: json)
--tools FILE*  with --to python: tools that the program calls, as Python; repeatable
"""
SHOW = command(_SHOW + STORE_ALONE, _show)
CHECK = command(_CHECK + DIALECT, _check, dialect=DIALECTS)
DIFF = command(_DIFF + STORE, _diff, before={"metavar": "A"}, after={"metavar": "B"})
CONVERT = command(
    _CONVERT + STORE + HIDDEN,
    _convert,
    **{"from": DIALECTS | {"dest": "source"}, "to": {"choices": _FORMS, "default": "json"}},
)
