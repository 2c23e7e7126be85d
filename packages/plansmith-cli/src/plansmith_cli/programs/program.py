"""Writes a plan as a plain Python program on asyncio: the plan as data, and the rules of steps."""

from __future__ import annotations

import inspect
import itertools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from pprint import pformat
from typing import Any, Final

from plansmith.check.check_plan import check_plan
from plansmith.engine.answers import is_used, permits
from plansmith.engine.journal import load_values
from plansmith.engine.units import Known
from plansmith.errors import PlanInvalid, Refused
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.conditions import LENGTH
from plansmith.plan.data import Json, map_leaves
from plansmith.plan.events import QuestionAsked
from plansmith.plan.graph import upstream
from plansmith.plan.plan import Plan
from plansmith.plan.problem import has_errors
from plansmith.plan.refs import (
    FIRST,
    FROM,
    LITERAL,
    RESERVED,
    Ref,
    first_refs,
    is_earlier,
    pieces,
    ref_of,
)
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, language_of, template
from plansmith.plan.steps import AnyStep, AskStep, MapStep, PlanStep, ReplyStep
from plansmith.review.policy import active_steps
from plansmith.text import clip, safe
from plansmith_cli.config import Settings
from plansmith_cli.options import warn
from plansmith_cli.programs import runtime
from plansmith_cli.session import Session
from plansmith_cli.wiring import builtin_tools, python_functions
from plansmith_planner.language.yes_or_no import goes_on

# A tool or an agent that is not known here is a function to fill in; the others are looked at here.
_UNKNOWN = ("PS101", "PS102", "PS103", "PS316")
_SECRET: Final = re.compile(r"\$\{secret:([A-Za-z0-9][A-Za-z0-9_.-]{0,63})\}")
# What a step is besides what it calls: its templates, in which references stand, and its rules.
_TEMPLATES: Final = ("task", "inputs", "over", "question", "instruction")
_RULES: Final = (
    *("tool", "agent", "template", "width", "options", "answer_schema", "timeout_s"),
    *("otherwise", "on_error"),
)
_ABOUT: Final = """
Written by `plansmith convert --to python` from plan {hash}.
It needs: pip install pydantic{more}
It prints the results as JSON; the exit code is 1 if a step failed.
Nothing is kept: after a crash, run it from the beginning.
It does not ask for approval, nor before values out of tools reach what acts; it
keeps no journal and has no budget. A call that may have taken effect and failed is
not made again: it counts as failed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a plan is written with.

    `in_files` has the Python file, from `folder`, and the name in it of each tool; `secrets` their
    variables.
    """

    tools: Mapping[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    agents: Mapping[str, AgentSpec] = field(default_factory=dict[str, AgentSpec])
    in_files: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    folder: str = ""
    builtin: frozenset[str] = frozenset()
    templates: Mapping[str, Plan] = field(default_factory=dict[str, Plan])
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    earlier: Mapping[str, Json] = field(default_factory=dict[str, Json])
    locale: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and what a person should know about it."""

    source: str
    notes: tuple[str, ...]


def write_program(plan: Plan, around: Surroundings) -> Program:
    """Returns a plan as a program that runs without Plansmith's runner."""
    writer = _Writer(plan, around)
    return Program(writer.source(), tuple(writer.notes()))


class _Writer:
    """Writes one program, and notes what its steps call and which secrets they use."""

    def __init__(self, plan: Plan, around: Surroundings) -> None:
        self._plan, self._around = plan, around
        self._callees: dict[tuple[str, str], str] = {}
        self._worded: list[str] = []
        self._secrets: dict[str, str] = {}
        self._gates = _gates(plan, around)

    def source(self) -> str:
        plans = {
            name: {
                each.id: self._step(each, name) | _needs(each, plan)
                for each in plan.steps
                if not each.disabled
            }
            for name, plan in {"": self._plan, **self._around.templates}.items()
        }
        mark = "# The rules of steps.\n"
        imports, _, rules = inspect.getsource(runtime).partition(mark)
        goal = clip(safe(self._plan.goal or "A plan"), 400)
        about = f"{goal}\n{_ABOUT.format(hash=self._plan.hash[:16], more=self._library())}"
        about = about.replace("\\", "\\\\").replace('"', '\\"')
        parts = (
            f'"""{about}"""\n{imports.partition(chr(10))[2]}# What the steps call.\n',
            *self._functions(),
            f"{mark}{rules}",
            "# What is called, and the plan.\n",
            "\n".join([*self._tables(), *(f"PLANS[{n!r}] = {_data(p)}" for n, p in plans.items())]),
            '\nif __name__ == "__main__":\n    sys.exit(main())\n',
        )
        return "\n\n".join(parts)

    def _files(self) -> list[str]:
        called = (name for kind, name in self._callees if kind == "tool")
        in_files = self._around.in_files
        return sorted({in_files[name][0] for name in called if name in in_files})

    def _library(self) -> str:
        """Names what the program needs plansmith itself for."""
        builtin = (n for kind, n in self._callees if kind == "tool" and n in self._around.builtin)
        users = [*builtin, *(f"@tool in {path}" for path in self._files())]
        return safe(f", and plansmith for: {', '.join(users)}") if users else ""

    def _tables(self) -> Iterator[str]:
        if files := self._files():
            yield f"FOLDER = {self._around.folder!r}\nFILES += {_data(files)}"
        for (kind, name), function in self._callees.items():
            entry = ", ".join([function, *_limits(kind, name, self._around)])
            yield f"TOOLS[{f'{kind}:{name}' if name else kind!r}] = Tool({entry})"
        if language_of(self._around.locale or self._plan.locale) != "en":
            yield f'WORDS["skipped"] = {template("reply.skipped", "zh")!r}'
        if self._around.earlier:
            yield f"EARLIER.update({_data(dict(self._around.earlier))})"

    def _functions(self) -> Iterator[str]:
        """Yields a function for each tool and agent, and one that words texts."""
        for (kind, name), function in self._callees.items():
            spec = self._around.tools.get(name) if kind == "tool" else None
            about = clip(safe(spec.description).strip().split(". ")[0], 80) if spec else name
            body = f'raise StepError({f"{name} is to be filled in"!r}, "tool")'
            if kind == "reply":
                about = "a text as instructed. Without a model, it is the instruction."
                body = 'return arguments["instruction"]'
            elif kind == "tool" and name in self._around.in_files:
                place = ", ".join(map(repr, self._around.in_files[name]))
                body = f"return await call_function({place}, arguments, call)"
            elif kind == "tool" and name in self._around.builtin:
                body = f"return await call_builtin({name!r}, arguments, call)"
            about = about if body.startswith("return await") else f"To fill in: {about}"
            head = f"async def {function}(arguments: dict[str, Json], call: Call) -> Json:"
            yield f"{head}\n    {about!r}\n    {body}\n"

    def _callee(self, kind: str, name: str) -> None:
        """Gives what a step calls a function with a name of its own."""
        plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower() or "x"
        plain = f"{kind}_{plain}"[:80] if name else "write_text"
        taken = {*self._callees.values(), *vars(runtime)}
        names = itertools.chain([plain], (f"{plain}_{n}" for n in itertools.count(2)))
        if (kind, name) not in self._callees:
            self._callees[kind, name] = next(each for each in names if each not in taken)

    def _step(self, step: AnyStep, plan: str) -> dict[str, Any]:
        """Returns a step as data, with tuples in the place of references."""
        given = step.to_json()
        made: dict[str, Any] = {"kind": step.kind, "id": step.id}
        made |= {name: given[name] for name in _RULES if name in given}
        private = step.kind == "tool"  # only inputs of tools may name secrets
        for name in _TEMPLATES:
            if hasattr(step, name):
                made[name] = self._value(getattr(step, name), private=private)
        if step.kind in ("tool", "agent"):
            self._callee(step.kind, made[step.kind])
        if isinstance(step, MapStep):
            made |= {"each": self._step(step.each, plan), "width": step.width}
        if isinstance(step, AskStep) and (plan, step.id) in self._gates:
            made["agrees"] = _agreeing(step, only_yes=self._gates[plan, step.id])
        if isinstance(step, ReplyStep):
            made |= self._reply(step)
        return made | self._conditions(step)

    def _conditions(self, step: AnyStep) -> dict[str, Any]:
        made: dict[str, Any] = {"retry": step.retry.model_dump()} if step.retry else {}
        if step.when is not None:
            made["when"] = self._condition(step.when)
        if step.repeat is not None:
            until = self._condition(step.repeat.until)
            made["repeat"] = step.repeat.model_dump() | {"until": until}
        return made

    def _reply(self, step: ReplyStep) -> dict[str, Any]:
        """Returns the text of a reply, and whether a model words it: not where it is filled in."""
        parts = pieces(step.instruction)
        own = "".join(each for each in parts if isinstance(each, str))
        is_filled = len(own) < len(step.instruction) and not any(map(str.isalpha, own))
        is_worded = step.style != "exact" and not is_filled
        if is_worded:
            self._worded.append(step.id)
            self._callee("reply", "")
        return {"instruction": self._joined(parts), "worded": is_worded}

    def _value(self, given: Json, *, private: bool = False) -> Any:
        """Returns a value with references as tuples; `private` ones may name secrets."""
        if isinstance(given, str):
            parts = pieces(given)
            alone = len(parts) == 1 and isinstance(parts[0], Ref)
            return _ref(parts[0]) if alone else self._joined(parts, private=private)
        if isinstance(given, list):
            return [self._value(each, private=private) for each in given]
        if not isinstance(given, dict):
            return given
        if FROM in given:
            return _ref(ref_of(given))
        if given.keys() == {LITERAL}:
            # Secrets are put into the plan's own text, wherever that stands.
            return map_leaves(given[LITERAL], self._own) if private else given[LITERAL]
        if FIRST in given:
            return ("first", [*map(_ref, first_refs(given))])
        return {key: self._value(each, private=private) for key, each in given.items()}

    def _own(self, leaf: Json) -> Any:
        return self._joined([leaf], private=True) if isinstance(leaf, str) else leaf

    def _joined(self, parts: Sequence[str | Ref], *, private: bool = False) -> Any:
        found: list[Any] = []
        for each in parts:
            if isinstance(each, Ref):
                found.append(_ref(each))
                continue
            for place, text in enumerate(_SECRET.split(each) if private else [each]):
                if place % 2:
                    variable = re.sub(r"[^A-Za-z0-9]", "_", text).upper()
                    self._secrets[text] = self._around.secrets.get(text) or variable
                    found.append(("secret", text, self._secrets[text]))
                elif text:
                    found.append(text)
        is_plain = all(isinstance(each, str) for each in found)
        return "".join(found) if is_plain else ("text", found)

    def _condition(self, condition: Any) -> Any:
        [(name, given)] = condition.items()
        if name == "not":
            return {name: self._condition(given)}
        if name in ("all", "any"):
            return {name: [self._condition(each) for each in given]}
        if name == "empty":
            return {name: self._value(given)}
        return {name: [self._operand(each) for each in given]}

    def _operand(self, given: Json) -> Any:
        if isinstance(given, dict) and given.keys() == {LENGTH}:
            return ("length", self._value(given[LENGTH]))
        return self._value(given)

    def notes(self) -> Iterator[str]:
        """Yields what a person has to do, or should know."""
        for (kind, name), function in self._callees.items():
            yield from self._call_notes(kind, name, function)
        for name, variable in self._secrets.items():
            yield Sentence(
                "the secret {name} is read from the environment: {variable}",
                name=name,
                variable=variable,
            )
        if self._plan.schedule or self._plan.schedules:
            yield Sentence("the schedule is not in the program: start it by cron or the like")
        if any(each.undo_with for each in self._plan.steps):
            yield Sentence("undo_with is not in the program: it takes nothing back")

    def _call_notes(self, kind: str, name: str, function: str) -> Iterator[str]:
        named = {"function": function, "name": name}
        if kind == "agent":
            yield Sentence("fill in {function}: it stands for the agent {name}", **named)
        elif kind == "reply":
            yield Sentence(
                "fill in write_text: no model words the text of {steps} in the program",
                steps=", ".join(self._worded),
            )
        elif name in self._around.builtin:
            yield Sentence(
                "{name} is a tool of plansmith: the program needs it installed, as a library",
                name=name,
            )
        elif name not in self._around.in_files:
            yield Sentence("fill in {function}: the code of {name} is not known", **named)


def _data(value: Any) -> str:
    return pformat(value, width=96, sort_dicts=False)


def _ref(ref: Any) -> tuple[str, str, list[str | int]]:
    if not isinstance(ref, Ref):
        raise Refused(Sentence("a reference of this plan cannot be read"), hint="plansmith check")
    return ("from", ref.step, [*ref.path])


def _limits(kind: str, name: str, around: Surroundings) -> Iterator[str]:
    tool = around.tools.get(name) if kind == "tool" else None
    spec = around.agents.get(name) if kind == "agent" else tool
    if kind == "reply" or (spec is not None and spec.effect is Effect.READ):
        yield "reads=True"
    if tool is not None and tool.idempotent:
        yield "keyed=True"
    if tool is not None and tool.timeout_s:
        yield f"timeout_s={tool.timeout_s!r}"


def _agreeing(step: AskStep, *, only_yes: bool) -> list[str] | None:
    """Returns the options of a question after which what acts goes on; None if it has none."""
    listed = (step.answer_schema or {}).get("enum")
    given = step.options or (listed if isinstance(listed, list) else ())
    options = [each for each in given if isinstance(each, str)]
    agreed = {each: goes_on(each, step.question, options) for each in options}
    agreeing = [each for each, yes in agreed.items() if yes or (yes is None and not only_yes)]
    return agreeing if options else None


def _needs(step: AnyStep, plan: Plan) -> dict[str, Any]:
    """Returns what a step waits for, with groups that it is skipped with if all of them are.

    In place of what is disabled stands what that waits for.
    """
    off = {each.id for each in plan.steps if each.disabled}
    before = {e.id: e.needed - RESERVED if e.disabled else frozenset[str]() for e in plan.steps}
    needed = step.needed - RESERVED
    through = upstream(before, needed & off) - off
    needs = [each for each in plan.by_id if each in needed - off | through]
    alone, groups = {*step.after}, dict[Any, list[str]]()
    for found in step.references:
        if found.ref is None or step.is_own(found):
            continue
        if FIRST in found.where:
            group = found.where[: found.where.index(FIRST)]
            groups.setdefault(group, []).append(found.ref.step)
        else:
            alone.add(found.ref.step)
    if isinstance(step, ReplyStep):  # it also tells what was skipped
        alone, groups = set[str](), {"": sorted(step.needed)} if step.needed else {}
    skipped = [[each] for each in needs if each in through or each in alone]
    return {"needs": needs, "skipped_with": [*skipped, *groups.values()]}


def _gates(plan: Plan, around: Surroundings) -> dict[tuple[str, str], bool]:
    """Returns the questions, by plan and step, that what acts waits for: for a yes alone?"""
    known = Known(tools=around.tools, agents=around.agents, templates=around.templates)
    run = Run(id="", plan=plan)
    found: dict[tuple[str, str], bool] = {}

    def look(inside: Plan, name: str, scope: str) -> None:
        for step in inside.steps:
            inner = step.each if isinstance(step, MapStep) else step
            path = f"{scope}{step.id}" + ("/0" if isinstance(step, MapStep) else "")
            asked = QuestionAsked(question=path, text="", step=path, kind="step")
            if isinstance(inner, AskStep) and permits(run, asked, known):
                found[name, step.id] = not is_used(run, asked, known)
            elif isinstance(inner, PlanStep) and inner.template in around.templates:
                look(around.templates[inner.template], inner.template, f"{path}/")

    look(plan, "", "")
    return found


async def print_program(session: Session, plan: Plan, run: Run | None) -> None:
    """Prints a program; on stderr, what it lacks."""
    plan, around = await _surroundings(session, plan, run)
    written = write_program(plan, around)
    for note in written.notes:
        warn(note)
    sys.stdout.write(written.source)


async def _surroundings(session: Session, plan: Plan, run: Run | None) -> tuple[Plan, Surroundings]:
    """Returns the plan as it would run, and what there is to write it with; refuses bad plans."""
    intake = session.smith.runs.intake
    if run is None:
        plan = await intake.pinned(plan)
    templates = dict(run.templates) if run is not None and run.templates else {}
    templates = templates or dict(await intake.contents(plan))
    callees = await intake.callees()
    agents = {spec.name: spec for spec in intake.agents()}
    found = check_plan(plan, list(callees.specs.values()), agents=list(agents.values()))
    found = [each for each in found if each.code not in _UNKNOWN]
    if has_errors(found):
        raise PlanInvalid(found)
    for step in active_steps(plan, templates):
        if isinstance(step, PlanStep) and step.template not in templates:
            problem = Sentence("there is no template '{name}'", name=step.template)
            raise Refused(problem, hint="plansmith templates")
        if isinstance(step, PlanStep) and step.content not in (None, templates[step.template].hash):
            raise Refused(Sentence("'{name}' is not what was approved", name=step.template))
    in_files = _in_files(session.settings, session.journals.folder)
    builtin: set[str] = set()
    if session.settings.builtin.enabled:
        for source in builtin_tools(session.settings):
            builtin |= {spec.name for spec in await source.tools()}
    return plan, Surroundings(
        tools=callees.specs,
        agents=agents,
        in_files=in_files,
        folder=session.journals.folder,
        builtin=frozenset(builtin - in_files.keys()),
        templates=templates,
        secrets={name: each.env or "" for name, each in session.settings.secrets.items()},
        earlier=await _earlier(session, plan, run),
        locale=run.locale if run is not None else plan.locale,
    )


def _in_files(settings: Settings, folder: str) -> dict[str, tuple[str, str]]:
    """Returns the Python file of each tool that the settings name, and its name there."""
    return {
        function.spec.name: (_inside(PurePath(folder) / path, folder), name)
        for path in settings.tools
        if path.suffix == ".py"
        for name, function in python_functions(path).items()
    }


def _inside(path: PurePath, folder: str) -> str:
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix()


async def _earlier(session: Session, plan: Plan, run: Run | None) -> dict[str, Json]:
    """Returns the results of earlier runs that a plan uses."""
    refs = (found.ref for step in plan.steps for found in step.references)
    used = {ref.step for ref in refs if ref is not None and is_earlier(ref.step)}
    missing = sorted(used - run.earlier.keys() if run is not None else used)
    if missing:
        problem = Sentence("the plan uses {name}, a result of an earlier run", name=missing[0])
        raise Refused(problem, hint=Sentence("convert the run"))
    found = await load_values(session.smith.store, run) if run is not None and used else {}
    return {name: found[name] for name in sorted(used)}
