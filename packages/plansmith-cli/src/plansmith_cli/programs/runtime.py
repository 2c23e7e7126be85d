"""The rules of steps: part of every written program."""

from __future__ import annotations

# JSON is `Any` here, to keep programs plain.
# pyright: basic
import argparse
import asyncio
import inspect
import json
import operator
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from pydantic import ConfigDict, ValidationError, validate_call
from pydantic_core import to_jsonable_python

# The rules of steps.

Json = Any  # null, true, false, a number, a text, a list or an object; in a plan also a tuple
Step = dict[str, Any]  # as the plan has it, with what it waits for and is skipped with
# How a step ended: `status` is done, skipped, failed, left_out or not_run; the others if they are.
Outcome = dict[str, Any]
TRIES = 3
RUN = uuid4().hex
PLANS: dict[str, dict[str, Step]] = {}  # by id: those of the plan (""), and of its templates
TOOLS: dict[str, Tool] = {}
FILES: list[str] = []  # of tools; they are looked for beside this program, then in FOLDER
FOLDER = ""
ANSWERS: dict[str, Json] = {}  # of a file, by the step that asks
EARLIER: dict[str, Json] = {}  # results of earlier runs that the plan uses
SECRETS: dict[str, str] = {}  # the values that were used, to be taken out of results
WORDS = {"skipped": "('{step}' was skipped)"}
YES = {"y", "yes", "ok", "okay", "sure", "go", "是", "是的", "好", "好的", "可以", "同意", "批准"}
CALLS_AT_A_TIME = asyncio.Semaphore(16)
ONE_QUESTION = asyncio.Lock()


class LeftOut(Exception):
    """A person said no, and so a step is left out."""


class StepError(Exception):
    """Why a step has no result; `kind` is tool, time, result or reference.

    Of a call: whether it may be made `again`, and whether it may have taken effect (`unsure`).
    """

    def __init__(
        self, message: str, kind: str = "reference", *, again: bool = False, unsure: bool = False
    ) -> None:
        super().__init__(message)
        self.message, self.kind, self.again, self.unsure = message, kind, again, unsure


class Skipped(str):
    """What stands in a text for the result of a step that was skipped."""

    __slots__ = ()


# Values. A tuple stands for a value: ("from", step, path), ("first", refs), ("text", parts),
# ("secret", name, variable) or ("length", value). Everything else is a value as it is.


def fill(given: Json, values: Mapping[str, Json]) -> Json:
    """Returns a value of the plan with results in the place of references."""
    if isinstance(given, list):
        return [fill(each, values) for each in given]
    if isinstance(given, dict):
        return {key: fill(each, values) for key, each in given.items()}
    return value_of(given, values) if isinstance(given, tuple) else given


def value_of(given: tuple[Any, ...], values: Mapping[str, Json]) -> Json:
    """Returns the value that a tuple stands for."""
    match given:
        case ("from", step, path):
            return lookup(values, step, path)
        case ("first", refs):
            known = [each for each in refs if each[1] in values]
            if not known:
                raise StepError(f"none of {', '.join(each[1] for each in refs)} has a result")
            return value_of(known[0], values)
        case ("text", parts):
            return "".join(text_of(fill(each, values)) for each in parts)
        case ("secret", name, variable):
            value = os.environ.get(variable, "")
            if not value:
                raise StepError(f"the secret '{name}' is missing: set {variable}", "tool")
            SECRETS[value] = f"${{secret:{name}}}"
            return value
        case _:
            return length(fill(given[1], values))


def lookup(values: Mapping[str, Json], step: str, path: Sequence[str | int]) -> Json:
    """Returns the result of a step, or the part of it at a path."""
    if step not in values:
        raise StepError(f"there is no result of '{step}'")
    value = values[step]
    for place, key in enumerate(() if isinstance(value, Skipped) else path):
        is_place = isinstance(key, int) or (key.isascii() and key.isdigit())
        try:
            at: Any = int(key) if is_place and isinstance(value, list) else str(key)
            value = value[at]
        except (KeyError, IndexError, TypeError):
            where = ".".join(map(str, (step, *path[: place + 1])))
            raise StepError(f"there is nothing at {where}") from None
    return value


def text_of(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def kind_of(value: Json) -> str:
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "a text"}
    return {**kinds, list: "a list", dict: "an object"}.get(type(value), "null")


def length(value: Json) -> int:
    if isinstance(value, (str, list, dict)):
        return len(value)
    raise StepError(f"{kind_of(value)} has no length")


def holds(condition: Json, values: Mapping[str, Json]) -> bool:
    """Tells whether a condition holds; fails if its values are not comparable."""
    [(name, given)] = condition.items()
    match name:
        case "all":
            return all(holds(each, values) for each in given)
        case "any":
            return any(holds(each, values) for each in given)
        case "not":
            return not holds(given, values)
        case "empty":
            value = fill(given, values)
            return value is None or length(value) == 0
        case _:
            pass
    left, right = fill(given, values)
    found = compared(name, left, right)
    if found is None:
        raise StepError(f"{name}: {kind_of(left)} and {kind_of(right)} are not compared that way")
    return found


def compared(name: str, left: Json, right: Json) -> bool | None:
    """Compares two values; None if values of these types are not compared that way."""
    kinds = {kind_of(left), kind_of(right)}
    match name:
        case "equals" if len(kinds) > 1:
            return False if "null" in kinds else None
        case "equals" if kinds != {"a number"}:  # True, 1 and 1.0 are three values inside a list
            return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
        case "equals":
            return bool(left == right)
        case "not_equals":
            equal = compared("equals", left, right)
            return None if equal is None else not equal
        case "contains" if isinstance(left, (str, dict)):
            return right in left if isinstance(right, str) else None
        case "contains":
            return compared("in", right, left)
        case "in" if isinstance(right, list):
            found = [compared("equals", left, each) for each in right]
            return None if found and set(found) == {None} else True in found
    orders = {"below": operator.lt, "at_most": operator.le, "above": operator.gt}
    order = {**orders, "at_least": operator.ge}.get(name)
    return bool(order(left, right)) if order and kinds in ({"a number"}, {"a text"}) else None


def hidden(value: Json) -> Json:
    """Returns a value without the secrets that were used."""
    written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    for known, mark in SECRETS.items():
        written = written.replace(json.dumps(known, ensure_ascii=False)[1:-1], mark)
    written.encode()
    return json.loads(written)


# Calls, and how they fail.


@dataclass(frozen=True)
class Call:
    """One call of a tool: its key is the same when the call is made again."""

    key: str
    attempt: int = 1
    reply: None = None

    def progress(self, text: str) -> None:
        """Is told how far a tool is."""

    def is_stopped(self) -> bool:
        """Tells whether the tool should give up."""
        return False


class Tool(NamedTuple):
    """What a step calls. A call that reads, or has a key, is made again after a timeout."""

    function: Callable[[dict[str, Json], Call], Awaitable[Json]]
    reads: bool = False
    keyed: bool = False
    timeout_s: float = 300

    async def made(self, arguments: dict[str, Json], call: Call, seconds: float) -> Json:
        """Makes one call; returns its result without secrets. Every failure is a StepError."""
        try:
            async with asyncio.timeout(seconds):
                value = await self.function(arguments, call)
        except TimeoutError:
            raise self.lost(f"no result after {seconds:g} s", "time") from None
        except StepError:
            raise
        except Exception as error:  # noqa: BLE001 - a tool may raise anything
            raise self.failure(error) from None
        try:
            return hidden(value)
        except (TypeError, ValueError) as error:
            raise self.broken(f"the result is not JSON: {error}", "result") from None

    def failure(self, error: Exception) -> StepError:
        """Names the failure of a call; plansmith's own errors are known by their names."""
        names = {each.__name__ for each in type(error).__mro__}
        said = str(error) if "PlansmithError" in names else f"{type(error).__name__}: {error}"
        said = str(hidden(said.encode("utf-8", "backslashreplace").decode()))
        if "OutcomeUnknown" in names:
            return self.lost(said, "tool")
        if "ToolFailed" in names:
            return StepError(said, "tool", again="ToolBusy" in names)
        return self.broken(said, "tool")

    def broken(self, why: str, kind: str) -> StepError:
        return StepError(why, kind) if self.reads else self.lost(why, kind)

    def lost(self, why: str, kind: str) -> StepError:
        """Returns the failure of a call of which nobody saw the end."""
        return StepError(why, kind, again=self.reads or self.keyed, unsure=not self.reads)


def found_file(path: str) -> Path | None:
    here = Path(globals().get("__file__", ""))  # a program that is piped into Python has none
    places = (here.parent / path, Path(FOLDER) / path)
    return next((each for each in places if each.is_file()), None)


@lru_cache
def functions_of(path: str) -> dict[str, Any]:
    """Runs a Python file once, and returns what it defines by name."""
    place = found_file(path) or path
    spec = spec_from_file_location(f"tools_of_{Path(path).stem}", place)
    if spec is None or spec.loader is None:
        raise StepError(f"{path} is no Python file", "tool")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


async def call_function(path: str, name: str, arguments: dict[str, Json], call: Call) -> Json:
    """Calls a function of a file with arguments that fit its type hints; returns JSON."""
    found = functions_of(path)[name]
    function = getattr(found, "function", found)  # it may be marked with plansmith's @tool
    if "call" in inspect.signature(function).parameters:
        function = partial(function, call=call)
    checked = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)
    try:
        if inspect.iscoroutinefunction(getattr(function, "func", function)):
            result = await checked(**arguments)
        else:
            result = await asyncio.to_thread(checked, **arguments)
    except ValidationError as error:
        raise StepError(f"{name}: {error}", "tool") from None
    return to_jsonable_python(result, by_alias=True, inf_nan_mode="null")


@lru_cache
def builtin_sources() -> list[Any]:
    from plansmith_cli.config import load_settings
    from plansmith_cli.wiring import builtin_tools

    return list(builtin_tools(load_settings()))


async def call_builtin(name: str, arguments: dict[str, Json], call: Call) -> Json:
    from plansmith import Call as LibraryCall

    for source in builtin_sources():
        if any(each.name == name for each in await source.tools()):
            again = LibraryCall(key=call.key, attempt=call.attempt)
            return await source.call(name, arguments, again)
    raise StepError(f"there is no tool called '{name}'", "tool")


# How steps run.


async def run_steps(plan: str, scope: str, bound: dict[str, Json]) -> dict[str, Outcome]:
    """Runs the steps of a plan in tasks, each after those that it needs."""
    tasks: dict[str, asyncio.Task[Outcome]] = {}

    async def one(name: str, step: Step) -> Outcome:
        before = {need: await tasks[need] for need in step["needs"]}
        stopped = stopped_by_need(step, before)
        return stopped or await Running(f"{scope}{name}", step, before, bound).end()

    for name, step in PLANS[plan].items():
        tasks[name] = asyncio.create_task(one(name, step))
    return dict(zip(tasks, await asyncio.gather(*tasks.values()), strict=True))


def stopped_by_need(step: Step, before: Mapping[str, Outcome]) -> Outcome | None:
    """Returns how a step ends that cannot run because of what it needs; None if it can."""
    ends = {end["status"] for end in before.values()}
    if "left_out" in ends:
        return {"status": "left_out"}
    if ends & {"failed", "not_run"}:
        return {"status": "not_run"}
    gone = {n for n, end in before.items() if end["status"] == "skipped" and "value" not in end}
    found = [group[0] for group in step["skipped_with"] if gone.issuperset(group)]
    if not found:
        return None
    return skipped(step, "error" if before[found[0]]["rule"] == "error" else "need")


def skipped(step: Step, rule: str) -> Outcome:
    """Returns the end of a step that is skipped, with what stands in for its result."""
    return {"status": "skipped", "rule": rule, **step.get("otherwise", {})}


@dataclass(frozen=True)
class Running:
    """A step that runs, or a part of one."""

    name: str
    step: Step
    outcomes: Mapping[str, Outcome]
    bound: dict[str, Json] = field(default_factory=dict[str, Json])
    collects: bool = False

    async def end(self) -> Outcome:
        """Runs the step by its rules; returns how it ended."""
        values = {name: end["value"] for name, end in self.outcomes.items() if "value" in end}
        if self.step["kind"] == "reply":  # it also tells what was skipped
            for name, end in self.outcomes.items():
                if end["status"] == "skipped":
                    values.setdefault(name, Skipped(WORDS["skipped"].format(step=name)))
        values = {**EARLIER, **values, **self.bound}
        try:
            if "when" in self.step and not holds(self.step["when"], values):
                return skipped(self.step, "when")
            run = self.rounds if "repeat" in self.step else self.once
            return {"status": "done", "value": await run(values)}
        except LeftOut:
            return {"status": "left_out"}
        except StepError as error:
            return self.failed(error)

    def failed(self, error: StepError) -> Outcome:
        wanted = self.step.get("on_error", "fail")
        if isinstance(wanted, dict):
            return {"status": "skipped", "rule": "error", **wanted}
        if wanted == "collect" or (self.collects and wanted == "fail"):
            found = {"error": {"kind": error.kind, "message": error.message}}
            return {"status": "skipped", "rule": "error", "value": found}
        if wanted == "skip":
            return skipped(self.step, "error")
        return {"status": "failed", "error": error.message, "kind": error.kind}

    async def once(self, values: dict[str, Json]) -> Json:
        step = self.step
        match step["kind"]:
            case "tool":
                return await self.call(f"tool:{step['tool']}", fill(step["inputs"], values))
            case "agent":
                given = {"task": fill(step["task"], values), "inputs": fill(step["inputs"], values)}
                return self.not_empty(await self.call(f"agent:{step['agent']}", given))
            case "reply":
                words = fill(step["instruction"], values)
                if step["worded"]:
                    words = await self.call("reply", {"instruction": words})
                return self.not_empty(words)
            case "ask":
                return await answer_to(self.name, fill(step["question"], values), step)
            case _:
                pass
        if step["kind"] == "map":
            return await self.map_items(fill(step["over"], values))
        bound = {"params": fill(step["inputs"], values)}
        ends = await run_steps(step["template"], f"{self.name}/", bound)
        self.check_parts(ends)
        return {each: end["value"] for each, end in ends.items() if "value" in end}

    def not_empty(self, value: Json) -> Json:
        if value is None or (isinstance(value, str) and not value.strip()):
            agent = TOOLS.get(f"agent:{self.step.get('agent')}")
            raise (agent.broken if agent else StepError)("the result is empty", "result")
        return value

    async def rounds(self, values: dict[str, Json]) -> Json:
        rule = self.step["repeat"]
        for number in range(1, rule["at_most"] + 1):
            if number > 1 and rule["every"]:
                await asyncio.sleep(rule["every"])
            one = replace(self, name=f"{self.name}/{number}")
            try:
                value = await one.once(values)
            except StepError:
                raise StepError(f"1 of {number} parts failed: {one.name}") from None
            if holds(rule["until"], {**values, self.step["id"]: value}):
                return value
        raise StepError(f"after {rule['at_most']} rounds its condition still does not hold")

    async def map_items(self, items: Json) -> Json:
        if not isinstance(items, list):
            raise StepError(f"{self.name} goes over a list, and this is {kind_of(items)}")
        limit = asyncio.Semaphore(self.step["width"])

        async def one(place: int, item: Json) -> Outcome:
            part = Running(
                f"{self.name}/{place}",
                self.step["each"],
                self.outcomes,
                {**self.bound, "item": item},
                collects=self.step.get("on_error") == "collect",
            )
            async with limit:
                return await part.end()

        ends = await asyncio.gather(*(one(place, item) for place, item in enumerate(items)))
        self.check_parts({str(place): end for place, end in enumerate(ends)})
        return [end["value"] for end in ends if "value" in end]

    def check_parts(self, ends: Mapping[str, Outcome]) -> None:
        lost = [n for n, end in ends.items() if end["status"] in ("failed", "left_out")]
        if not lost:
            return
        if not any(end["status"] == "failed" for end in ends.values()):
            raise LeftOut
        names = ", ".join(f"{self.name}/{each}" for each in lost[:5])
        raise StepError(f"{len(lost)} of {len(ends)} parts failed: {names}")

    async def call(self, name: str, arguments: dict[str, Json]) -> Json:
        """Makes a call; a failed one is made again, but never one that may have taken effect."""
        tool, retry, tries, unsure = TOOLS[name], self.step.get("retry"), 0, False
        seconds = self.step.get("timeout_s") or tool.timeout_s
        while True:
            tries += 1
            try:
                async with CALLS_AT_A_TIME:
                    return await tool.made(arguments, Call(f"{RUN}/{self.name}", tries), seconds)
            except StepError as error:
                unsure = unsure or error.unsure
                is_left = tries <= retry["at_most"] if retry else error.again and tries < TRIES
                if not is_left or (unsure and not error.again):
                    raise
            await asyncio.sleep(retry["every"] if retry else 0.5 * 2 ** (tries - 1))


# Questions, and what the program prints.


async def answer_to(name: str, text: str, step: Step) -> Json:
    """Returns the answer to a question; fails if what acts waits for a yes, and it is none."""
    if name in ANSWERS:
        answer = ANSWERS[name]
        flaw = misfit(answer, step)
        if flaw:
            raise StepError(f"the answer to {name}: {flaw}", "tool")
    else:
        async with ONE_QUESTION:
            answer = await asyncio.to_thread(typed_answer, text, step)
    if "agrees" not in step or answer is True:
        return answer
    agreed = step["agrees"]  # which of its options are a yes; None if it has none
    said = str(answer).strip(" \t.,!。，！").casefold()
    if said not in YES if agreed is None else answer not in agreed:
        raise LeftOut
    return answer


def typed_answer(text: str, step: Step) -> Json:
    options = f" [{' | '.join(step['options'])}]" if step.get("options") else ""
    while True:
        sys.stderr.write(f"{text}{options}\n> ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise StepError("nobody answered", "tool")
        answer: Json = line.rstrip("\r\n")
        if "answer_schema" in step:
            with suppress(ValueError):
                answer = json.loads(answer)
        flaw = misfit(answer, step)
        if not flaw:
            return answer
        sys.stderr.write(f"{flaw}\n")


def misfit(answer: Json, step: Step) -> str:
    """Says why an answer does not fit; of a schema, only `type` and `enum` are looked at."""
    schema = step.get("answer_schema", {})
    listed = schema.get("enum") or step.get("options")
    if listed and answer not in listed:
        return f"{answer!r} is not one of {', '.join(map(str, listed))}"
    kinds = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}
    wanted = {**kinds, "array": (list,), "object": (dict,)}.get(str(schema.get("type")))
    return f"{answer!r} is no {schema['type']}" if wanted and type(answer) not in wanted else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the plan, and writes results and which steps have none; 1 if a step failed."""
    form = argparse.RawDescriptionHelpFormatter
    about = sys.modules[__name__].__doc__
    parser = argparse.ArgumentParser(description=about, formatter_class=form)
    parser.add_argument("--answers", metavar="FILE", help="answers as JSON, by step")
    parser.add_argument("--out", metavar="FILE", help="write the results there instead of stdout")
    args = parser.parse_args(arguments)
    if args.answers:
        ANSWERS.update(json.loads(Path(args.answers).read_text(encoding="utf-8")))
    for path in FILES:
        if found_file(path) is None:
            where = f"beside this program or in {FOLDER}: say in this program where your tools are"
            raise SystemExit(f"there is no file {path} {where}")
    ends = asyncio.run(run_steps("", "", {}))
    failed = {name: end["error"] for name, end in ends.items() if end["status"] == "failed"}
    results = {name: end["value"] for name, end in ends.items() if "value" in end}
    report: dict[str, Json] = {"results": results, "failed": failed}
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
