"""`plansmith ask`: a request in, a checked plan out."""

from __future__ import annotations

import argparse
import asyncio
import sys

from plansmith.adapters.models.demo import DEMO_TOOLS, NOTICE
from plansmith.cli.exits import Exit
from plansmith.cli.output import Progress, print_json, print_lines
from plansmith.cli.plans import FileCommand
from plansmith.errors import Misconfigured
from plansmith.plan.problem import has_errors
from plansmith.planner.pipeline import Planned, make_plan
from plansmith.review.draw import tree
from plansmith.review.render import plan_lines, problem_lines
from plansmith.wiring import make_model


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("request", metavar="REQUEST", help="what you want done, in your words")
    parser.add_argument("--model", default="demo", help="the model that plans (default: demo)")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")


def _main(args: argparse.Namespace) -> int:
    if not args.request.strip():
        raise Misconfigured("the request is empty", hint='say what you want: plansmith ask "…"')
    progress = Progress()
    model = make_model(args.model)
    if args.model == "demo":
        sys.stderr.write(f"{NOTICE}\n")
    planned = asyncio.run(make_plan(args.request, model=model, tools=DEMO_TOOLS, tell=progress))
    _print(planned, as_json=args.json)
    bad = planned.plan is None or has_errors(planned.problems)
    return Exit.INVALID if bad else Exit.OK


def _print(planned: Planned, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "plan": planned.plan.to_json() if planned.plan else None,
                "hash": planned.plan.hash if planned.plan else None,
                "problems": [each.to_json() for each in planned.problems],
            }
        )
        return
    if planned.plan is not None:
        print_lines(plan_lines(planned.plan))
        print_lines(["", *tree(planned.plan).splitlines()])
    if planned.problems:
        print_lines(["", *problem_lines(planned.problems)])


COMMAND = FileCommand(_configure, _main)
