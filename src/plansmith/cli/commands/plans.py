"""`plansmith show`, `check`, `diff`, `graph`, `schema`, `import` and `export`."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, NamedTuple

from plansmith.adapters.clock import SystemClock
from plansmith.adapters.secrets import SecretBox
from plansmith.adapters.tools.functions import FunctionTool
from plansmith.check.check_plan import check_plan
from plansmith.cli.command import FileCommand
from plansmith.cli.exit_codes import Exit
from plansmith.cli.options import add_store, warn
from plansmith.cli.session import Session, in_session
from plansmith.cli.ui.output import load_plan, print_json, print_lines, read_file
from plansmith.cli.ui.own_locale import own_locale
from plansmith.config import load_settings
from plansmith.dialects.dialect import dialect, dialect_names
from plansmith.dialects.native import schema, to_json, to_yaml, try_read_plan
from plansmith.dialects.text import read_text
from plansmith.dialects.tools import read_tools
from plansmith.errors import PlanInvalid, PlansmithError, Refused, UnreadableText
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.diff import diff_plans
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, has_errors, problem
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, in_language, joined, with_hint
from plansmith.planner.parse.read import read_json
from plansmith.planner.parse.reply import Parsed, parse_value, plan_fit
from plansmith.ports import Closing, ToolSource
from plansmith.review.draw import mermaid, tree
from plansmith.review.render import diff_lines, plan_lines, problem_lines
from plansmith.text import safe
from plansmith.wiring import known_agents, make_tools, python_tools

HERE: Final = Sentence("check.here")


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
    return Known(await _tool_specs(sources), agents, source)


async def _tool_specs(sources: Sequence[FunctionTool[..., Any] | ToolSource]) -> list[ToolSpec]:
    specs: list[ToolSpec] = []
    try:
        for source in sources:
            specs += [source.spec] if isinstance(source, FunctionTool) else await source.tools()
        return specs
    finally:
        for source in sources:
            if isinstance(source, Closing):
                await source.close()


_RUN_NAME: Final = re.compile(r"last|[0-9a-fA-F]{4}[0-9a-fA-F-]*")


def names_run(name: str) -> bool:
    """Whether a name means a run rather than a file."""
    return bool(_RUN_NAME.fullmatch(name)) and not Path(name).exists()


def _plan_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN", help="a plan as JSON or YAML; - for stdin")


def _configure_show(parser: argparse.ArgumentParser) -> None:
    what = "a plan as JSON or YAML, - for stdin; or a run: its id, or last"
    parser.add_argument("plan", metavar="PLAN|RUN", help=what)
    parser.add_argument("--store", metavar="URL", help="where runs are kept")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print it as JSON")
    form.add_argument("--yaml", action="store_true", help="print the plan as YAML")


def _show(args: argparse.Namespace) -> int:
    if names_run(args.plan):
        show_run = resolve_name("plansmith.cli.commands.runs:show_run")
        return int(show_run(args))
    plan = load_plan(args.plan)
    if args.json or args.yaml:
        sys.stdout.write(_with_hash(plan) if args.json else to_yaml(plan))
    else:
        print_lines(plan_lines(plan, locale=own_locale()))
    return Exit.OK


def _with_hash(plan: Plan) -> str:
    """Returns a plan as JSON with the hash that `--approve-plan` takes; it can be read again."""
    shown = {**plan.to_json(), "hash": plan.hash}
    return json.dumps(shown, indent=2, ensure_ascii=False) + "\n"


def _configure_check(parser: argparse.ArgumentParser) -> None:
    _plan_argument(parser)
    what = "the tools, as JSON or Python (default: those of this folder)"
    parser.add_argument("--tools", metavar="FILE", help=what)
    parser.add_argument("--json", action="store_true", help="print the problems as JSON")
    add_dialect(parser)


def add_dialect(parser: argparse.ArgumentParser) -> None:
    """Adds the flag for the format of a plan file."""
    what = "the format of the plan, if it is another system's"
    parser.add_argument("--dialect", choices=dialect_names(), help=what)


def _check(args: argparse.Namespace) -> int:
    plan, notes = _read(args)
    known = known_tools(args.tools)
    problems = [*notes, *(_problems(plan, known) if plan is not None else ())]
    bad = has_errors(problems)
    flaw = Sentence("check.tools_unknown", flaw=known.flaw)
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
        sound = Sentence("check.sound", source=here) if here else Sentence("check.sound_form")
        print_lines([in_language(sound, own_locale())])
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
    hint = joined([found.hint, Sentence("check.other_tools")])
    return found.model_copy(update={"hint": hint})


def _configure_diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="A", help="a plan as JSON or YAML, or a run")
    parser.add_argument("after", metavar="B", help="the plan or the run to compare it with")
    add_store(parser)
    parser.add_argument("--json", action="store_true", help="print the changes as JSON")


def _diff(args: argparse.Namespace) -> int:
    before, after = _plans_of(args, args.before, args.after)
    diff = diff_plans(before, after)
    if args.json:
        print_json(diff.to_json())
    elif not diff:
        print_lines([in_language(Sentence("check.equal"), own_locale())])
    else:
        print_lines(diff_lines(diff, own_locale()))
        if before.hash == after.hash:
            print_lines([in_language(Sentence("check.same_run"), own_locale())])
    return Exit.OK


def _plans_of(args: argparse.Namespace, *names: str) -> list[Plan]:
    """Returns the plans of files and runs; no store is opened for files alone."""
    if not any(map(names_run, names)):
        return [load_plan(name) for name in names]
    found: list[Plan] = []

    async def work(session: Session) -> int:
        for name in names:
            plan = (await session.run(name)).plan if names_run(name) else load_plan(name)
            if plan is None:
                raise _without_plan(name)
            found.append(plan)
        return Exit.OK

    in_session(args, work)
    return found


def _without_plan(run: str) -> Refused:
    return Refused(Sentence("error.run_no_plan", run=run), hint=Sentence("error.show_status"))


def _configure_graph(parser: argparse.ArgumentParser) -> None:
    what = "a plan as JSON or YAML, - for stdin; or a run: its id, or last"
    parser.add_argument("plan", metavar="PLAN|RUN", help=what)
    add_store(parser)
    parser.add_argument("--mermaid", action="store_true", help="print Mermaid instead of a tree")


def _graph(args: argparse.Namespace) -> int:
    [plan] = _plans_of(args, args.plan)
    sys.stdout.write(mermaid(plan) if args.mermaid else tree(plan, own_locale()))
    return Exit.OK


def _nothing(_: argparse.ArgumentParser) -> None:
    """Declares no arguments."""


def _schema(_: argparse.Namespace) -> int:
    print_json(schema())
    return Exit.OK


SHOW = FileCommand(_configure_show, _show)
CHECK = FileCommand(_configure_check, _check)
DIFF = FileCommand(_configure_diff, _diff)
GRAPH = FileCommand(_configure_graph, _graph)
SCHEMA = FileCommand(_nothing, _schema)


def _configure_import(parser: argparse.ArgumentParser) -> None:
    what = "a plan in another system's format, as JSON or YAML, also inside other text; - for stdin"
    parser.add_argument("plan", metavar="FILE", help=what)
    parser.add_argument(
        "--dialect", choices=dialect_names(), help="the format (default: recognised)"
    )
    parser.add_argument("--yaml", action="store_true", help="print the plan as YAML")


def _import(args: argparse.Namespace) -> int:
    parsed = read_foreign(read_file(args.plan), args.dialect)
    if parsed.plan is None:
        raise PlanInvalid(parsed.problems)
    _print_problems(parsed.problems)
    sys.stdout.write(to_yaml(parsed.plan) if args.yaml else to_json(parsed.plan))
    return Exit.INVALID if has_errors(parsed.problems) else Exit.OK


def read_foreign(data: bytes, name: str | None) -> Parsed:
    """Reads a plan in the format of a dialect, or in the format it seems to have."""
    try:
        value = _value(data)
    except UnreadableText as error:
        hint = Sentence("hint.json_or_yaml")
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


def _configure_export(parser: argparse.ArgumentParser) -> None:
    what = "a plan as JSON or YAML, - for stdin; or a run: its id, or last"
    parser.add_argument("plan", metavar="PLAN|RUN", help=what)
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--dialect", choices=dialect_names(), help="another system's format of plans")
    what = "a Python program that runs without Plansmith"
    form.add_argument("--program", action="store_true", help=what)
    add_store(parser)
    what = "with --program: tools that the program calls, as Python; repeatable"
    parser.add_argument("--tools", action="append", metavar="FILE", help=what)


def _export(args: argparse.Namespace) -> int:
    if args.program:
        return int(resolve_name("plansmith.cli.commands.programs:export_program")(args))
    if not names_run(args.plan):
        print_foreign(load_plan(args.plan), args.dialect)
        return Exit.OK

    async def work(session: Session) -> int:
        run = await session.run(args.plan)
        if run.plan is None:
            raise _without_plan(run.id)
        print_foreign(run.plan, args.dialect, run=run)
        return Exit.OK

    return in_session(args, work)


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
        sys.stderr.writelines(f"{line}\n" for line in problem_lines(problems, own_locale()))
        sys.stderr.flush()


IMPORT = FileCommand(_configure_import, _import)
EXPORT = FileCommand(_configure_export, _export)
