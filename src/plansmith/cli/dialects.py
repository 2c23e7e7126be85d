"""`plansmith import` and `export`: plans in the shapes of other systems, in and out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from plansmith.cli.exits import Exit
from plansmith.cli.output import load_plan, print_json, read_file
from plansmith.cli.plans import FileCommand, names_run
from plansmith.cli.session import Session, in_session
from plansmith.cli.words import own_locale
from plansmith.dialects.dialect import DIALECTS, dialect
from plansmith.dialects.native import to_json, to_yaml
from plansmith.dialects.text import read_text
from plansmith.errors import InvalidPlan, Refused, UnreadableText
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, has_errors, problem
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.planner.jsontext.read import read_json
from plansmith.planner.parse import Parsed, parse_value, plan_fit
from plansmith.review.render import problem_lines


def _configure_import(parser: argparse.ArgumentParser) -> None:
    what = "a plan in another system's shape, as JSON or YAML, also inside other text; - for stdin"
    parser.add_argument("plan", metavar="FILE", help=what)
    parser.add_argument("--dialect", choices=DIALECTS, help="whose shape; recognised if not given")
    parser.add_argument("--yaml", action="store_true", help="print the plan as YAML")


def _import(args: argparse.Namespace) -> int:
    parsed = read_foreign(read_file(args.plan), args.dialect)
    if parsed.plan is None:
        raise InvalidPlan(parsed.problems)
    _tell(parsed.problems)
    sys.stdout.write(to_yaml(parsed.plan) if args.yaml else to_json(parsed.plan))
    return Exit.INVALID if has_errors(parsed.problems) else Exit.OK


def read_foreign(data: bytes, name: str | None) -> Parsed:
    """The plan of a file in the shape of a dialect, or in whichever shape it bears the marks of."""
    try:
        value = _value(data)
    except UnreadableText as error:
        hint = Sentence("hint.json_or_yaml")
        return Parsed(None, [problem("PS002", error.message, hint=hint)])
    if name is None:
        return parse_value(value)
    reading = dialect(name).read(value)
    return Parsed(reading.plan, list(reading.problems))


def _value(data: bytes) -> Json:
    """The value of a file; what a model wrote around it or got wrong in it does not matter."""
    reading = read_text(data)
    if not reading.problems and isinstance(reading.value, (dict, list)):
        return reading.value
    return read_json(data.decode("utf-8", "replace"), fits=plan_fit)


def _configure_export(parser: argparse.ArgumentParser) -> None:
    what = "a plan as JSON or YAML, - for stdin; or a run: its id, or last"
    parser.add_argument("plan", metavar="PLAN|RUN", help=what)
    parser.add_argument("--dialect", choices=DIALECTS, required=True, help="whose shape")
    parser.add_argument("--store", metavar="URL", help="where runs are kept")


def _export(args: argparse.Namespace) -> int:
    if not names_run(args.plan):
        print_foreign(load_plan(args.plan), args.dialect)
        return Exit.OK

    async def work(session: Session) -> int:
        run = await session.run(args.plan)
        if run.plan is None:
            raise Refused(f"run {run.id} has no plan", hint="plansmith show tells how it stands")
        print_foreign(run.plan, args.dialect, run=run)
        return Exit.OK

    return in_session(args, work)


def print_foreign(
    plan: Plan, name: str, problems: Sequence[Problem] = (), run: Run | None = None
) -> None:
    """A plan in another shape on stdout, and what the shape cannot hold on stderr."""
    writing = dialect(name).write(plan, run)
    _tell([*problems, *writing.lost])
    print_json(writing.value)


def _tell(problems: Sequence[Problem]) -> None:
    if problems:
        sys.stderr.writelines(f"{line}\n" for line in problem_lines(problems, own_locale()))
        sys.stderr.flush()


IMPORT = FileCommand(_configure_import, _import)
EXPORT = FileCommand(_configure_export, _export)
