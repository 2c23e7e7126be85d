"""Part of every written program: its flags, questions on the terminal, and what it prints."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from plansmith.programs.parts.calling import in_thread
from plansmith.programs.parts.rules import PLANS, Outcome, Question, Unit
from plansmith.programs.parts.values import Json, StepError


def flags(about: str) -> argparse.ArgumentParser:
    """Returns the flags that every such program has."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=about, formatter_class=form)
    parser.add_argument("--answers", metavar="FILE", help="answers as JSON, by step")
    parser.add_argument("--out", metavar="FILE", help="write the results there instead of stdout")
    return parser


def read_answers(name: str | None) -> dict[str, Json]:
    """Returns the answers of a file, by the name of the step that asks."""
    found: dict[str, Json] = {}
    if name is not None:
        found.update(json.loads(Path(name).read_text(encoding="utf-8")))
    return found


class Terminal:
    """Asks a person on the terminal, one question after the other."""

    def __init__(self, answers: Mapping[str, Json]) -> None:
        self._answers = answers
        self._turn = asyncio.Lock()

    async def ask(self, unit: Unit, question: Question) -> Json:
        """Returns the answer of a file, or of the person."""
        if unit.name in self._answers:
            flaw = misfit(self._answers[unit.name], question)
            if flaw:
                raise StepError(f"the answer to {unit.name}: {flaw}", "tool")
            return self._answers[unit.name]
        async with self._turn:
            return await in_thread(lambda: typed_answer(question))


def typed_answer(question: Question) -> Json:
    """Asks until an answer fits the question."""
    options = f" [{' | '.join(question.options)}]" if question.options else ""
    while True:
        sys.stderr.write(f"{question.text}{options}\n> ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise StepError("nobody answered", "tool")
        answer: Json = line.rstrip("\r\n")
        if question.schema is not None:
            answer = json_or_text(answer)
        flaw = misfit(answer, question)
        if not flaw:
            return answer
        sys.stderr.write(f"{flaw}\n")


def json_or_text(line: str) -> Json:
    """Reads a typed answer as JSON, or as the text that it is."""
    try:
        return json.loads(line)
    except ValueError:
        return line


def misfit(answer: Json, question: Question) -> str:
    """Says why an answer does not fit; of a schema, only `type` and `enum` are looked at."""
    if question.schema is None:
        fits = not question.options or answer in question.options
        return "" if fits else f"{answer!r} is not one of {', '.join(question.options)}"
    kinds: dict[str, tuple[type, ...]] = {
        "string": (str,),
        "integer": (int,),
        "number": (int, float),
        "boolean": (bool,),
        "array": (list,),
        "object": (dict,),
    }
    wanted, listed = question.schema.get("type"), question.schema.get("enum")
    if listed is not None and answer not in listed:
        return f"{answer!r} is not one of {listed}"
    if isinstance(wanted, str) and wanted in kinds and type(answer) not in kinds[wanted]:
        return f"{answer!r} is no {wanted}"
    return ""


def finish(outcomes: Mapping[str, Outcome], out: str | None) -> int:
    """Writes results, and which steps have none; returns the exit code, 1 if a step failed."""
    ends = {name: outcomes[name] for name in PLANS[""]}
    failed = {name: end["error"] for name, end in ends.items() if end["status"] == "failed"}
    report: dict[str, Json] = {
        "results": {name: end["value"] for name, end in ends.items() if "value" in end},
        "failed": failed,
        **{
            status: [name for name, end in ends.items() if end["status"] == status]
            for status in ("skipped", "left_out", "not_run")
        },
    }
    written = json.dumps(report, ensure_ascii=False, indent=2) + "\n"
    if out is None:
        sys.stdout.write(written)
    else:
        Path(out).write_text(written, encoding="utf-8")
    for name, error in failed.items():
        sys.stderr.write(f"{name} failed: {error}\n")
    return 1 if failed or report["not_run"] else 0
