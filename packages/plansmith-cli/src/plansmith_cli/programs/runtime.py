"""The rules of steps: part of every written program."""

from __future__ import annotations

# JSON is `Any` here, to keep programs plain; the strict mode has no use for that.
# pyright: basic
import argparse
import asyncio
import inspect
import json
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from plansmith_cli.programs.values import Json, Skipped, StepError, fill, hidden, holds

Step = dict[str, Any]  # as the plan has it, with what it waits for and is skipped with
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


# Calls: of functions by their type hints, and how they fail.


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


@lru_cache
def functions_of(path: str) -> dict[str, Any]:
    """Runs a Python file once, and returns what it defines by name."""
    spec = spec_from_file_location(f"tools_of_{Path(path).stem}", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise SystemExit(f"there is no file {path}: say in this program where your tools are")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


async def call_function(
    path: str, name: str, arguments: dict[str, Json], call: Call, *, tool: str
) -> Json:
    """Calls a function of a file with arguments that fit its type hints; returns JSON."""
    found = functions_of(path)[name]
    function = getattr(found, "function", found)  # it may be marked with plansmith's @tool
    model, returns = types_of(function)
    try:
        given = vars(model.model_validate(arguments))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise StepError(f"{tool}: {place}: {first['msg']}", "tool") from None
    if "call" in inspect.signature(function).parameters:
        given = {**given, "call": call}
    bound = partial(function, **given)
    result = await (bound() if inspect.iscoroutinefunction(function) else in_thread(bound))
    try:
        return returns.dump_python(result, mode="json", by_alias=True, warnings=False)
    except ValueError as error:
        raise StepError(f"the result cannot be written as JSON: {error}", "tool") from None


@lru_cache
def types_of(function: Callable[..., Any]) -> tuple[type[BaseModel], TypeAdapter[Any]]:
    """Returns a model of the parameters of a function, and the type that it returns."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints.get(name, Any), ... if each.default is each.empty else each.default)
        for name, each in inspect.signature(function).parameters.items()
        if name != "call"
    }
    model = create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
    try:
        return model, TypeAdapter(hints.get("return", Any))
    except Exception:  # noqa: BLE001 - a type may be none that pydantic knows
        return model, TypeAdapter(Any)


async def in_thread(work: Callable[[], Any]) -> Any:
    """Calls a plain function in a thread that does not hold up the end of the program."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if not future.done():
            future.set_result(result) if error is None else future.set_exception(error)

    def go() -> None:
        result, failure = None, None
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - a tool may raise anything
            failure = error
        loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=go, daemon=True).start()
    return await future


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


async def run_steps(
    plan: str, scope: str, bound: dict[str, Json], depth: int
) -> dict[str, Outcome]:
    """Runs the steps of a plan in tasks, each after those that it needs."""
    tasks: dict[str, asyncio.Task[Outcome]] = {}

    async def one(name: str, step: Step) -> Outcome:
        before = {need: await tasks[need] for need in step["needs"]}
        stopped = stopped_by_need(step, before)
        return stopped or await Running(f"{scope}{name}", step, before, bound, depth).end()

    for name, step in PLANS[plan].items():
        tasks[name] = asyncio.create_task(one(name, step))
    return dict(zip(tasks, await asyncio.gather(*tasks.values()), strict=True))


def stopped_by_need(step: Step, outcomes: Mapping[str, Outcome]) -> Outcome | None:
    """Returns how a step ends that cannot run because of what it needs; None if it can."""
    ends = [outcomes[need]["status"] for need in step["needs"]]
    if "left_out" in ends:
        return {"status": "left_out"}
    if "failed" in ends or "not_run" in ends:
        return {"status": "not_run"}
    gone = {
        name for name, end in outcomes.items() if end["status"] == "skipped" and "value" not in end
    }
    found = [group[0] for group in step["skipped_with"] if gone.issuperset(group)]
    if not found:
        return None
    return skipped(step, "error" if outcomes[found[0]]["rule"] == "error" else "need")


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
    depth: int = 0
    collects: bool = False

    async def end(self) -> Outcome:
        """Runs the step by its rules; returns how it ended."""
        values = self.values()
        try:
            if "when" in self.step and not self.is_wanted(values):
                return skipped(self.step, "when")
            run = self.rounds if "repeat" in self.step else self.once
            return {"status": "done", "value": await run(values)}
        except LeftOut:
            return {"status": "left_out"}
        except StepError as error:
            return self.failed(error)

    def values(self) -> dict[str, Json]:
        """Returns the results that the step can refer to; a reply also tells what was skipped."""
        known = {name: end["value"] for name, end in self.outcomes.items() if "value" in end}
        gone = {
            name: Skipped(WORDS["skipped"].format(step=name))
            for name, end in self.outcomes.items()
            if end["status"] == "skipped" and self.step["kind"] == "reply"
        }
        return {**EARLIER, **gone, **known, **self.bound}

    def is_wanted(self, values: dict[str, Json]) -> bool:
        try:
            return holds(self.step["when"], values)
        except StepError as error:
            raise StepError(f"its condition cannot be decided: {error.message}") from None

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

    async def rounds(self, values: dict[str, Json]) -> Json:
        self.check_depth()
        rule = self.step["repeat"]
        for number in range(1, rule["at_most"] + 1):
            if number > 1 and rule["every"]:
                await asyncio.sleep(rule["every"])
            one = replace(self, name=f"{self.name}/{number}", depth=self.depth + 1)
            try:
                value = await one.once(values)
            except StepError:
                raise StepError(f"1 of {number} parts failed: {one.name}") from None
            if holds(rule["until"], {**values, self.step["id"]: value}):
                return value
        raise StepError(f"after {rule['at_most']} rounds it is still not so that {rule['said']}")

    def check_depth(self) -> None:
        if self.depth >= DEEPEST:
            raise StepError(f"{self.name} is nested more than {DEEPEST} levels deep")

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
                return await self.ask(fill(step["question"], values))
            case "map":
                return await self.map_items(fill(step["over"], values))
            case _:
                return await self.run_template(fill(step["inputs"], values))

    def not_empty(self, value: Json) -> Json:
        if value is None or (isinstance(value, str) and not value.strip()):
            agent = TOOLS.get(f"agent:{self.step.get('agent')}")
            raise (agent.broken if agent else StepError)("the result is empty", "result")
        return value

    async def ask(self, text: str) -> Json:
        answer = await answer_to(self.name, text, self.step)
        if "only_yes" in self.step and is_refused(answer, self.step):
            raise LeftOut
        return answer

    async def map_items(self, items: Json) -> Json:
        self.check_depth()
        if not isinstance(items, list):
            raise StepError(f"{self.name} goes over a list, and this is a {type(items).__name__}")
        limit = asyncio.Semaphore(self.step["width"])

        async def one(place: int, item: Json) -> Outcome:
            async with limit:
                return await Running(
                    f"{self.name}/{place}",
                    self.step["each"],
                    self.outcomes,
                    {**self.bound, "item": item},
                    self.depth + 1,
                    collects=self.step.get("on_error") == "collect",
                ).end()

        ends = await asyncio.gather(*(one(place, item) for place, item in enumerate(items)))
        self.check_parts({str(place): end for place, end in enumerate(ends)})
        return [end["value"] for end in ends if "value" in end]

    async def run_template(self, parameters: dict[str, Json]) -> Json:
        self.check_depth()
        name, bound = self.step["template"], {"params": parameters}
        ends = await run_steps(name, f"{self.name}/", bound, self.depth + 1)
        self.check_parts(ends)
        return {each: end["value"] for each, end in ends.items() if "value" in end}

    def check_parts(self, ends: Mapping[str, Outcome]) -> None:
        lost = [n for n, end in ends.items() if end["status"] in ("failed", "left_out")]
        if not lost:
            return
        if not any(end["status"] == "failed" for end in ends.values()):
            raise LeftOut
        names = ", ".join(f"{self.name}/{each}" for each in lost[:5])
        raise StepError(f"{len(lost)} of {len(ends)} parts failed: {names}")

    async def call(self, name: str, arguments: dict[str, Json]) -> Json:
        """Makes a call; a failed one is made again as the step's `retry` says."""
        tool, retry, tries, unsure = TOOLS[name], self.step.get("retry"), 0, False
        while True:
            tries += 1
            try:
                async with CALLS_AT_A_TIME:
                    call = Call(f"{RUN}/{self.name}", tries)
                    return await tool.made(
                        arguments, call, self.step.get("timeout_s") or tool.timeout_s
                    )
            except StepError as error:
                unsure = unsure or error.unsure
                if not is_repeated(retry, tries, error, unsure=unsure):
                    raise
            await asyncio.sleep(retry["every"] if retry else 0.5 * 2 ** (tries - 1))


def is_repeated(retry: Json, tries: int, error: StepError, *, unsure: bool) -> bool:
    """Tells whether a failed call is made again: never one that may have taken effect."""
    if error.unsure and not error.again:
        return False
    if retry is None:
        return error.again and tries < TRIES
    return bool(tries <= retry["at_most"] and (error.again or not unsure))


# Questions, and what the program prints.

YES = {"y", "yes", "ok", "okay", "sure", "go", "是", "是的", "好", "好的", "可以", "同意", "批准"}
NO = {"n", "no", "not", "never", "don", "stop", "cancel", "reject", "refuse", "取消", "拒绝"}


async def answer_to(name: str, text: str, step: Step) -> Json:
    if name not in ANSWERS:
        async with ONE_QUESTION:
            return await in_thread(lambda: typed_answer(text, step))
    flaw = misfit(ANSWERS[name], step)
    if flaw:
        raise StepError(f"the answer to {name}: {flaw}", "tool")
    return ANSWERS[name]


def is_refused(answer: Json, step: Step) -> bool:
    """Tells whether an answer keeps what acts from running; some need a yes, others no no."""
    if isinstance(answer, bool):
        return not answer
    if isinstance(answer, str) and answer in step["agrees"]:
        return not step["agrees"][answer]
    if not isinstance(answer, str):
        return bool(answer is None and step["only_yes"])
    said = answer.strip(" \t.,!。，！").casefold()
    if step["only_yes"]:
        return said not in YES
    return re.split(r"\W", said)[0] in NO or said.startswith(("不", "否", "别"))


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
    schema, options = step.get("answer_schema"), step.get("options", [])
    if schema is None:
        fits = not options or answer in options
        return "" if fits else f"{answer!r} is not one of {', '.join(options)}"
    kinds = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}
    more: dict[Any, Any] = {**kinds, "array": (list,), "object": (dict,)}
    wanted, listed = schema.get("type"), schema.get("enum")
    if listed is not None and answer not in listed:
        return f"{answer!r} is not one of {listed}"
    if isinstance(wanted, str) and wanted in more and type(answer) not in more[wanted]:
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
    if args.answers:
        ANSWERS.update(json.loads(Path(args.answers).read_text(encoding="utf-8")))
    ends = asyncio.run(run_steps("", "", {}, 0))
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
