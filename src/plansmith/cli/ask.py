"""`plansmith ask` and `plansmith plan`: a request in, a checked plan out."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from plansmith.adapters.clock import SystemClock
from plansmith.adapters.models.demo import DEMO_TOOLS, NOTICE
from plansmith.adapters.models.tokens import count_tokens
from plansmith.cli.exits import Exit
from plansmith.cli.output import Progress, print_json, print_lines, read_file
from plansmith.cli.plans import FileCommand
from plansmith.config import Settings, load_settings
from plansmith.dialects.native import to_yaml
from plansmith.dialects.tools import read_tools
from plansmith.errors import Misconfigured
from plansmith.plan.capability import ToolSpec
from plansmith.plan.problem import has_errors
from plansmith.planner.briefing.profile import read_profile
from plansmith.planner.kit import Kit, Planned, PlanRequest
from plansmith.planner.pipeline import make_plan
from plansmith.planner.triage import Decision
from plansmith.review.draw import tree
from plansmith.review.render import estimate_lines, plan_lines, problem_lines, safe
from plansmith.wiring import make_model, make_sources


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("request", metavar="REQUEST", help="what you want done, in your words")
    parser.add_argument(
        "--tools", action="append", metavar="FILE", help="tools as JSON; repeatable"
    )
    parser.add_argument("--profile", metavar="FILE", help="for whom the plan is, as YAML or TOML")
    parser.add_argument("--docs", action="append", metavar="PATH", help="documents; repeatable")
    parser.add_argument("--model", help="the model that plans, such as openai:gpt-5")
    parser.add_argument("--base-url", help="an OpenAI-compatible server, with --model openai:NAME")
    parser.add_argument("--lang", help="the language of the plan, such as en or zh-CN")
    parser.add_argument("--agent", metavar="NAME", help="hand the request to this agent")
    parser.add_argument("--top-k", type=_positive, help="how many tools the model may choose from")
    parser.add_argument("--max-steps", type=_positive, help="the most steps a plan may have")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print all as JSON")
    form.add_argument("--yaml", action="store_true", help="print only the plan, as YAML")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _main(args: argparse.Namespace) -> int:
    if not args.request.strip():
        raise Misconfigured("the request is empty", hint='say what you want: plansmith ask "…"')
    settings = load_settings(changes=_changes(args))
    request = PlanRequest(
        args.request,
        locale=args.lang or "",
        target=args.agent,
        profile=read_profile(settings.profile) if settings.profile else None,
        top_k=args.top_k,
    )
    progress = Progress()
    kit = _kit(settings, progress)
    if settings.models.plan.model == "demo":
        sys.stderr.write(f"{NOTICE}\n")
    planned = asyncio.run(
        make_plan(request, kit=kit, tell=progress, on_step=lambda step: progress(f"  {step.id}"))
    )
    _print(planned, args)
    return _exit(planned)


def _changes(args: argparse.Namespace) -> dict[str, Any]:
    """The flags as settings, which win over all files."""
    model = {"model": args.model, "base_url": args.base_url}
    planner = {"max_steps": args.max_steps, "top_k": args.top_k}
    changes: dict[str, Any] = {
        "models": {"plan": {key: each for key, each in model.items() if each}},
        "planner": {key: each for key, each in planner.items() if each},
        "tools": args.tools,
        "documents": args.docs,
        "profile": args.profile,
    }
    return {key: each for key, each in changes.items() if each}


def _kit(settings: Settings, progress: Progress) -> Kit:
    clock = SystemClock()
    demo = settings.models.plan.model == "demo"
    tools = list[ToolSpec](DEMO_TOOLS if demo and not settings.tools else ())
    for path in settings.tools:
        tools += read_tools(read_file(str(path)).decode("utf-8", "replace"))
    return Kit(
        plan_model=make_model(settings.models.plan, clock=clock),
        triage_model=None if demo else make_model(settings.models.role("triage"), clock=clock),
        clock=clock,
        tools=tools,
        sources=make_sources(settings.documents, tell=progress),
        settings=settings.planner,
        count=count_tokens,
    )


def _exit(planned: Planned) -> int:
    match planned.decision:
        case Decision.ANSWER:
            return Exit.OK
        case Decision.ASK:
            return Exit.WAITING
        case Decision.REFUSE:
            return Exit.REFUSED
        case Decision.PLAN:
            usable = planned.plan is not None and not planned.plan.degraded
            return Exit.OK if usable and not has_errors(list(planned.problems)) else Exit.INVALID


def _print(planned: Planned, args: argparse.Namespace) -> None:
    if args.json:
        print_json(planned.to_json())
    elif args.yaml and planned.plan is not None:
        sys.stdout.write(to_yaml(planned.plan))
    elif planned.decision is not Decision.PLAN:
        print_lines([safe(line) for line in planned.answer.splitlines()])
    elif planned.plan is not None:
        print_lines(plan_lines(planned.plan))
        print_lines(["", *tree(planned.plan).splitlines()])
        if planned.estimate is not None:
            print_lines(["", *estimate_lines(planned.estimate)])
    if planned.problems and not args.json:
        target = sys.stderr if args.yaml else sys.stdout
        target.writelines(f"{line}\n" for line in ["", *problem_lines(planned.problems)])


COMMAND = FileCommand(_configure, _main)
