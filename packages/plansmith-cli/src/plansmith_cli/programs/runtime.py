"""Part of every written program: runs steps by their rules, and asks questions."""

from __future__ import annotations

# JSON is `Any` here, to keep programs plain; the strict mode has no use for that.
# pyright: basic
import argparse
import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from plansmith_cli.programs.calling import Call, Tool, checked_result, in_thread, made
from plansmith_cli.programs.values import Json, StepError, Values

# How a step ended: `status` is done, skipped, failed, left_out or not_run; the others if they are.
Outcome = dict[str, Any]
TRIES = 3
DEEPEST = 5
RUN = uuid4().hex
PLANS: dict[str, dict[str, Step]] = {}  # by id: those of the plan (""), and of its templates
TOOLS: dict[str, Tool] = {}
ANSWERS: dict[str, Json] = {}  # of a file, by the step that asks
EARLIER: dict[str, Json] = {}  # results of earlier runs that the plan uses
WORDS = {"skipped": "('{step}' was skipped)"}
CALLS_AT_A_TIME = asyncio.Semaphore(16)
ONE_QUESTION = asyncio.Lock()


class LeftOut(Exception):
    """A person said no, and so a step is left out."""


class Value(NamedTuple):
    """A value that stands in for a result."""

    value: Json


class Retry(NamedTuple):
    """How often a failed call is made again, and after how many seconds."""

    at_most: int
    every: float = 0


class Repeat(NamedTuple):
    """Until when a step is run again: a condition, in words too, that may name it (`own`)."""

    own: str
    until: Callable[[Values], bool]
    said: str
    at_most: int
    every: float = 0


class Question(NamedTuple):
    """What a person is asked.

    What acts and waits for it is left out after a no; with `only_yes`, after everything that is
    not a yes. `refuses` are the options that are a no, if the question has any.
    """

    text: str
    options: tuple[str, ...] = ()
    schema: dict[str, Json] | None = None
    gates: bool = False
    only_yes: bool = False
    refuses: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Step:
    """A step: its function, what it waits for, and its rules.

    It is skipped with any step of `skipped_with`, and with all of one group of `skipped_with_all`.
    """

    run: Callable[[Running, Values], Awaitable[Json]]
    needs: tuple[str, ...] = ()
    when: Callable[[Values], bool] | None = None
    otherwise: Value | None = None
    repeat: Repeat | None = None
    on_error: str | Value = "fail"
    retry: Retry | None = None
    timeout_s: float | None = None
    skipped_with: tuple[str, ...] = ()
    skipped_with_all: tuple[tuple[str, ...], ...] = ()
    tells: bool = False
    each: Step | None = None


# How steps run.


async def run_plan(answers: Mapping[str, Json]) -> dict[str, Outcome]:
    """Runs all steps; returns how each ended."""
    ANSWERS.update(answers)
    return await run_steps("", "", {}, 0)


async def run_steps(
    plan: str, scope: str, bound: dict[str, Json], depth: int
) -> dict[str, Outcome]:
    """Runs the steps of a plan in tasks, each after those that it needs."""
    tasks: dict[str, asyncio.Task[Outcome]] = {}

    async def one(name: str, step: Step) -> Outcome:
        before = {need: await tasks[need] for need in step.needs}
        stopped = stopped_by_need(step, before)
        return stopped or await Running(f"{scope}{name}", step, before, bound, depth).end()

    for name, step in PLANS[plan].items():
        tasks[name] = asyncio.create_task(one(name, step))
    return dict(zip(tasks, await asyncio.gather(*tasks.values()), strict=True))


def stopped_by_need(step: Step, outcomes: Mapping[str, Outcome]) -> Outcome | None:
    """Returns how a step ends that cannot run because of what it needs; None if it can."""
    ends = [outcomes[need]["status"] for need in step.needs]
    if "left_out" in ends:
        return {"status": "left_out"}
    if "failed" in ends or "not_run" in ends:
        return {"status": "not_run"}
    gone = {
        name for name, end in outcomes.items() if end["status"] == "skipped" and "value" not in end
    }
    found = [name for name in step.skipped_with if name in gone]
    found += [group[0] for group in step.skipped_with_all if group and gone.issuperset(group)]
    if not found:
        return None
    return skipped(step.otherwise, "error" if outcomes[found[0]]["rule"] == "error" else "need")


def skipped(instead: Value | None, rule: str) -> Outcome:
    """Returns the end of a step that is skipped, with what stands in for its result."""
    end: Outcome = {"status": "skipped", "rule": rule}
    return end if instead is None else {**end, "value": instead.value}


@dataclass(frozen=True)
class Running:
    """A step that runs, or a part of one: what its function can do."""

    name: str
    step: Step
    outcomes: Mapping[str, Outcome]
    bound: dict[str, Json] = field(default_factory=dict[str, Json])
    depth: int = 0
    collects: bool = False

    async def end(self) -> Outcome:
        """Runs the step by its rules; returns how it ended."""
        values = self._values()
        try:
            if self.step.when is not None and not self._holds(self.step.when, values):
                return skipped(self.step.otherwise, "when")
            if self.step.repeat is not None:
                value = await self._rounds(self.step.repeat, values)
            else:
                value = await self.step.run(self, values)
        except LeftOut:
            return {"status": "left_out"}
        except StepError as error:
            return self._failed(error)
        return {"status": "done", "value": value}

    def _values(self) -> Values:
        known = {name: end["value"] for name, end in self.outcomes.items() if "value" in end}
        gone = [name for name, end in self.outcomes.items() if end["status"] == "skipped"]
        texts = {name: WORDS["skipped"].format(step=name) for name in gone if name not in known}
        return Values({**EARLIER, **known, **self.bound}, texts if self.step.tells else None)

    def _holds(self, condition: Callable[[Values], bool], values: Values) -> bool:
        try:
            return condition(values)
        except StepError as error:
            raise StepError(f"its condition cannot be decided: {error.message}") from None

    def _failed(self, error: StepError) -> Outcome:
        wanted = self.step.on_error
        if self.collects and wanted == "fail":
            wanted = "collect"
        if isinstance(wanted, Value):
            return skipped(wanted, "error")
        if wanted == "collect":
            found = {"error": {"kind": error.kind, "message": error.message}}
            return skipped(Value(found), "error")
        if wanted == "skip":
            return skipped(self.step.otherwise, "error")
        return {"status": "failed", "error": error.message, "kind": error.kind}

    async def _rounds(self, repeat: Repeat, values: Values) -> Json:
        """Runs the step again and again until its condition holds; returns the last result."""
        self._check_depth()
        for number in range(1, repeat.at_most + 1):
            if number > 1 and repeat.every:
                await asyncio.sleep(repeat.every)
            one = replace(self, name=f"{self.name}/{number}", depth=self.depth + 1)
            try:
                value = await self.step.run(one, values)
            except StepError:
                raise StepError(f"1 of {number} parts failed: {one.name}") from None
            if repeat.until(Values({**values, repeat.own: value})):
                return value
        raise StepError(f"after {repeat.at_most} rounds it is still not so that {repeat.said}")

    def _check_depth(self) -> None:
        if self.depth >= DEEPEST:
            raise StepError(f"{self.name} is nested more than {DEEPEST} levels deep")

    async def tool(self, name: str, arguments: dict[str, Json]) -> Json:
        """Calls a tool; a failed call is made again as the step's `retry` says."""
        return await self._call(TOOLS[f"tool:{name}"], arguments, may_be_empty=True)

    async def agent(self, name: str, task: str, inputs: dict[str, Json]) -> Json:
        """Gives an agent a task in words."""
        return await self._call(TOOLS[f"agent:{name}"], {"task": task, "inputs": inputs})

    async def word(self, instruction: str) -> Json:
        """Has a text written as an instruction says."""
        return await self._call(TOOLS["reply"], {"instruction": instruction})

    async def reply(self, words: str) -> Json:
        """Returns a text as it is."""
        if not words.strip():
            raise StepError("the result is empty", "result")
        return words

    async def ask(self, question: Question) -> Json:
        """Asks a person; a no leaves out what only waits for a yes."""
        answer = await answer_to(self.name, question)
        if question.gates and is_refused(answer, question):
            raise LeftOut
        return answer

    async def map_items(self, items: Json, width: int) -> Json:
        """Runs the inner step for every item of a list; returns the list of results."""
        self._check_depth()
        if not isinstance(items, list):
            raise StepError(f"{self.name} goes over a list, and this is a {type(items).__name__}")
        limit = asyncio.Semaphore(width)

        async def one(place: int, item: Json) -> Outcome:
            async with limit:
                return await Running(
                    f"{self.name}/{place}",
                    self.step.each or self.step,
                    self.outcomes,
                    {**self.bound, "item": item},
                    self.depth + 1,
                    collects=self.step.on_error == "collect",
                ).end()

        ends = await asyncio.gather(*(one(place, item) for place, item in enumerate(items)))
        self._check_parts({str(place): end for place, end in enumerate(ends)})
        return [end["value"] for end in ends if "value" in end]

    async def run_template(self, name: str, parameters: dict[str, Json]) -> Json:
        """Runs the steps of a template; returns their results by id."""
        self._check_depth()
        ends = await run_steps(name, f"{self.name}/", {"params": parameters}, self.depth + 1)
        self._check_parts(ends)
        return {each: end["value"] for each, end in ends.items() if "value" in end}

    def _check_parts(self, ends: Mapping[str, Outcome]) -> None:
        """Fails if a part failed; if parts were only left out, so is the whole step."""
        lost = [n for n, end in ends.items() if end["status"] in ("failed", "left_out")]
        if not lost:
            return
        if not any(end["status"] == "failed" for end in ends.values()):
            raise LeftOut
        names = ", ".join(f"{self.name}/{each}" for each in lost[:5])
        raise StepError(f"{len(lost)} of {len(ends)} parts failed: {names}")

    async def _call(
        self, tool: Tool, arguments: dict[str, Json], *, may_be_empty: bool = False
    ) -> Json:
        tries, unsure, retry = 0, False, self.step.retry
        seconds = self.step.timeout_s or tool.timeout_s
        while True:
            tries += 1
            try:
                async with CALLS_AT_A_TIME:
                    value = await made(tool, arguments, Call(f"{RUN}/{self.name}", tries), seconds)
                return checked_result(tool, value, may_be_empty=may_be_empty)
            except StepError as error:
                unsure = unsure or error.unsure
                if not is_repeated(retry, tries, error, unsure=unsure):
                    raise
            await asyncio.sleep(retry.every if retry else 0.5 * 2 ** (tries - 1))


def is_repeated(retry: Retry | None, tries: int, error: StepError, *, unsure: bool) -> bool:
    """Tells whether a failed call is made again: never one that may have taken effect."""
    if error.unsure and not error.again:
        return False
    if retry is None:
        return error.again and tries < TRIES
    return tries <= retry.at_most and (error.again or not unsure)


# Questions, and what the program prints.

YES = {"y", "yes", "yep", "yeah", "ok", "okay", "sure", "true", "go", "go ahead", "go on", "do it"}
YES |= {"of course", "yes please", "是", "是的", "好", "好的", "可以", "行", "同意", "确认", "批准"}
NO = {"n", "no", "nope", "nah", "not", "never", "don", "false", "stop", "cancel", "abort"}
NO |= {"reject", "refuse", "decline", "deny", "取消", "拒绝"}


async def answer_to(name: str, question: Question) -> Json:
    """Returns the answer of a file, or of the person at the terminal."""
    if name not in ANSWERS:
        async with ONE_QUESTION:
            return await in_thread(lambda: typed_answer(question))
    flaw = misfit(ANSWERS[name], question)
    if flaw:
        raise StepError(f"the answer to {name}: {flaw}", "tool")
    return ANSWERS[name]


def is_refused(answer: Json, question: Question) -> bool:
    """Tells whether an answer keeps what acts from running."""
    if isinstance(answer, bool):
        return not answer
    if question.refuses is not None and answer in (*question.options, *question.refuses):
        return answer in question.refuses
    if not isinstance(answer, str):
        return answer is None and question.only_yes
    said = answer.strip(" \t.,!。，！").casefold()
    if question.only_yes:
        return said not in YES
    return re.split(r"\W", said)[0] in NO or said.startswith(("不", "否", "别"))


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the plan, and writes results and which steps have none; 1 if a step failed."""
    form = argparse.RawDescriptionHelpFormatter
    about = sys.modules[__name__].__doc__
    parser = argparse.ArgumentParser(description=about, formatter_class=form)
    parser.add_argument("--answers", metavar="FILE", help="answers as JSON, by step")
    parser.add_argument("--out", metavar="FILE", help="write the results there instead of stdout")
    args = parser.parse_args(arguments)
    answers = json.loads(Path(args.answers).read_text(encoding="utf-8")) if args.answers else {}
    ends = asyncio.run(run_plan(answers))
    failed = {name: end["error"] for name, end in ends.items() if end["status"] == "failed"}
    report: dict[str, Json] = {
        "results": {name: end["value"] for name, end in ends.items() if "value" in end},
        "failed": failed,
    }
    for status in ("skipped", "left_out", "not_run"):
        report[status] = [name for name, end in ends.items() if end["status"] == status]
    written = json.dumps(report, ensure_ascii=False, indent=2) + "\n"
    if args.out is None:
        sys.stdout.write(written)
    else:
        Path(args.out).write_text(written, encoding="utf-8")
    for name, error in failed.items():
        sys.stderr.write(f"{name} failed: {error}\n")
    return 1 if failed or report["not_run"] else 0
