"""Runs one plan: `program.py` copies this file, and fills in what is between the two marks."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from runpy import run_path
from typing import Any

from plansmith import (
    AgentSpec,
    Call,
    Plan,
    Plansmith,
    PlansmithError,
    QuestionAsked,
    Run,
    StepStatus,
    ToolFailed,
    ToolSpec,
    read_plan,
)
from plansmith.runs.callbacks import CallbackRun
from plansmith.secrets import SecretBox
from plansmith.tools.functions import FunctionTool

# The plan, and what it is run with.
PLAN: dict[str, Any] = {}
TEMPLATES: dict[str, Any] = {}
FILES: list[str] = []
FOLDER = ""
BUILT_IN = False
TOOLS: list[dict[str, Any]] = []
AGENTS: list[dict[str, Any]] = []
SECRETS: dict[str, Any] = {}
# The end of what is filled in.

MODEL = None  # such as "openai:gpt-5", which then words the replies of the plan


class OtherTools:
    """Tools whose code is not known here: fill in what they do."""

    async def tools(self) -> Sequence[ToolSpec]:
        return [ToolSpec.model_validate(each) for each in TOOLS]

    async def call(self, tool: str, arguments: Mapping[str, Any], call: Call) -> Any:
        raise ToolFailed(f"{tool} is to be filled in")


class OtherAgent:
    """An agent that is not known here: fill in what it does."""

    def __init__(self, card: dict[str, Any]) -> None:
        self.spec = AgentSpec.model_validate(card)

    async def work(self, task: str, inputs: Mapping[str, Any], call: Call) -> Any:
        raise ToolFailed(f"{self.spec.name} is to be filled in")


def tools() -> list[Any]:
    """Returns the tools: of files beside this program or in FOLDER, built-in ones, and others."""
    found: list[Any] = [OtherTools()] if TOOLS else []
    for name in FILES:
        places = [folder / name for folder in (Path(sys.argv[0]).parent, Path(FOLDER))]
        path = next((each for each in places if each.is_file()), None)
        if path is None:
            sys.exit(f"there is no file {name} beside this program or in {FOLDER}")
        found += [each for each in run_path(str(path)).values() if isinstance(each, FunctionTool)]
    if BUILT_IN:
        from plansmith_cli.config import load_settings
        from plansmith_cli.wiring import builtin_tools

        found += builtin_tools(load_settings())
    return found


def ask(text: str) -> str | None:
    """Asks on the terminal; None if nobody is there."""
    sys.stderr.write(f"{text}\n> ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    return line.strip() if line else None


async def run_plan(store: str, given: dict[str, Any], *, approved: bool) -> Run:
    """Runs the plan until it is over, or nobody answers what it asks."""

    def approve(plan: Plan) -> bool:
        sys.stderr.write("\n".join(map(str, (plan, *templates.values(), ""))))
        return approved or ask("Run this plan? y or n") in ("y", "yes")

    def answer(asked: QuestionAsked) -> Any:
        if asked.question in given:
            return given.pop(asked.question)
        reply = ask(" | ".join([asked.text, *asked.options]))
        try:
            return json.loads(reply) if reply and asked.answer_schema else reply
        except ValueError:
            return reply

    templates = {name: read_plan(each) for name, each in TEMPLATES.items()}
    more: dict[str, Any] = {"secrets": SecretBox(SECRETS)} if SECRETS else {}
    async with Plansmith(
        MODEL,
        tools=tools(),
        agents=[OtherAgent(each) for each in AGENTS],
        store=store,
        templates=templates,
        **more,
    ) as smith:
        run = await smith.submit(read_plan(PLAN))
        while True:
            asking = CallbackRun(smith.runs, approve=approve, answer=answer, by="")
            try:
                return await asking.finish(run)
            except PlansmithError as error:  # such as an answer that does not fit
                sys.stderr.write(f"{error}\n")
                run = await smith.get(run.id)
                if not run.questions:
                    raise


def main() -> int:
    """Runs the plan and prints its results as JSON; 1 if not everything was done."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").replace("%", "%%"))
    parser.add_argument("--yes", action="store_true", help="approve the plan")
    parser.add_argument("--answers", metavar="FILE", help="answers as JSON, by question")
    parser.add_argument("--store", default="memory", help="where the run is kept, as a URL")
    args = parser.parse_args()
    given: dict[str, Any] = {}
    if args.answers:
        given = json.loads(Path(args.answers).read_text(encoding="utf-8"))
    try:
        run = asyncio.run(run_plan(args.store, given, approved=args.yes))
    except PlansmithError as error:
        sys.exit(str(error))
    found: dict[str, Any] = {
        "status": run.status.value,
        "results": {},
        "failed": {},
        "not_done": {},
    }
    for name, step in run.steps.items():
        if "/" in name:
            continue  # a part of another step
        if step.counts_as_done and step.result_hash:
            found["results"][name] = step.result
        elif step.status is StepStatus.FAILED:
            found["failed"][name] = str(step.error)
        else:
            found["not_done"][name] = step.status.value
    sys.stdout.write(f"{json.dumps(found, ensure_ascii=False, indent=2)}\n")
    return 0 if run.status == "done" else 1
