"""Writes a plan as a plain Python program on asyncio: the plan as data, and the rules of steps."""

from __future__ import annotations

import ast
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
from plansmith.plan.conditions import LENGTH, condition_text, operand_text
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
from plansmith.plan.steps import AgentStep, AnyStep, AskStep, MapStep, PlanStep, ReplyStep, ToolStep
from plansmith.review.policy import active_steps
from plansmith.text import clip, safe
from plansmith_cli.config import Settings
from plansmith_cli.options import warn
from plansmith_cli.programs import runtime, values
from plansmith_cli.session import Session
from plansmith_cli.wiring import builtin_tools, python_functions
from plansmith_planner.language.yes_or_no import goes_on

# A tool or an agent that is not known here is a function to fill in; the others are looked at here.
_UNKNOWN = ("PS101", "PS102", "PS103", "PS316")
_DEEPEST: Final = 5
_SECRET: Final = re.compile(r"\$\{secret:([A-Za-z0-9][A-Za-z0-9_.-]{0,63})\}")
_ABOUT: Final = """
Written by `plansmith convert --to python` from plan {hash}.
It needs: pip install pydantic
It prints the results as JSON; the exit code is 1 if a step failed.
Nothing is kept: after a crash, run it from the beginning.
It does not ask for approval, nor before values out of tools reach what acts; it
keeps no journal and has no budget. A call that may have taken effect and failed is
not made again: it counts as failed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Functions:
    """Where the code of tools is: Python files with names in them, or Plansmith's own tools."""

    in_files: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    builtin: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a plan is written with: specs, code of tools, templates, and secrets by variable."""

    tools: Mapping[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    agents: Mapping[str, AgentSpec] = field(default_factory=dict[str, AgentSpec])
    functions: Functions = field(default_factory=Functions)
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
                each.id: self._step(each, name, plan) for each in plan.steps if not each.disabled
            }
            for name, plan in {"": self._plan, **self._around.templates}.items()
        }
        imports, rules = _parts()
        goal = clip(safe(self._plan.goal or "A plan"), 400)
        about = f"{goal}\n{_ABOUT.format(hash=self._plan.hash[:16])}"
        about = about.replace("\\", "\\\\").replace('"', '\\"')
        parts = (
            f'"""{about}"""\n\n{imports}\n# What the steps call.\n',
            *self._functions(),
            f"# The rules of steps.\n\n{rules}",
            "# What is called, and the plan.\n",
            "\n".join([*self._tables(), *(f"PLANS[{n!r}] = {_data(p)}" for n, p in plans.items())]),
            '\nif __name__ == "__main__":\n    sys.exit(main())\n',
        )
        return "\n\n".join(parts)

    def _tables(self) -> Iterator[str]:
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
            elif kind == "agent":
                about = f"the agent {name}."
                body = f'raise StepError({f"the agent {name} is to be filled in"!r}, "tool")'
            elif name in self._around.functions.in_files:
                place = ", ".join(map(repr, self._around.functions.in_files[name]))
                body = f"return await call_function({place}, arguments, call, tool={name!r})"
            elif name in self._around.functions.builtin:
                body = f"return await call_builtin({name!r}, arguments, call)"
            about = about if body.startswith("return await") else f"To fill in: {about}"
            head = f"async def {function}(arguments: dict[str, Json], call: Call) -> Json:"
            yield f"{head}\n    {about!r}\n    {body}\n"

    def _callee(self, kind: str, name: str) -> None:
        """Gives what a step calls a function with a name of its own."""
        plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower() or "x"
        plain = f"{kind}_{plain}"[:80] if name else "write_text"
        taken = {*self._callees.values(), *vars(values), *vars(runtime)}
        names = itertools.chain([plain], (f"{plain}_{n}" for n in itertools.count(2)))
        if (kind, name) not in self._callees:
            self._callees[kind, name] = next(each for each in names if each not in taken)

    def _step(self, step: AnyStep, name: str, plan: Plan | None = None) -> dict[str, Any]:
        """Returns a step as data; the inner one of a map waits for nothing, for the map does."""
        made: dict[str, Any] = {
            "kind": step.kind,
            "id": step.id,
            "title": clip(safe(step.title), 90),
        }
        made |= self._work(step, name) | (_needs(step, plan) if plan is not None else {})
        if step.when is not None:
            made["when"] = self._condition(step.when)
        if step.repeat is not None:
            made["repeat"] = {
                **step.repeat.model_dump(),
                "until": self._condition(step.repeat.until),
                "said": condition_text(step.repeat.until),
            }
        for rule in ("otherwise", "on_error", "retry"):
            found = getattr(step, rule)
            if found not in (None, "fail"):
                made[rule] = found if isinstance(found, str) else found.model_dump()
        return made | ({"timeout_s": step.timeout_s} if step.timeout_s is not None else {})

    def _work(self, step: AnyStep, name: str) -> dict[str, Any]:
        match step:
            case ToolStep():
                self._callee("tool", step.tool)
                return {"tool": step.tool, "inputs": self._value(step.inputs, private=True)}
            case AgentStep():
                self._callee("agent", step.agent)
                inputs = self._value(step.inputs)
                return {"agent": step.agent, "task": self._text(step.task), "inputs": inputs}
            case AskStep():
                return self._question(step, only_yes=self._gates.get((name, step.id)))
            case PlanStep():
                return {"template": step.template, "inputs": self._value(step.inputs)}
            case MapStep():
                each = self._step(step.each, name)
                return {"over": self._value(step.over), "width": step.width, "each": each}
            case ReplyStep():
                parts = pieces(step.instruction)
                own = "".join(each for each in parts if isinstance(each, str))
                filled = len(own) < len(step.instruction) and not any(map(str.isalpha, own))
                is_worded = step.style != "exact" and not filled
                if is_worded:
                    self._worded.append(step.id)
                    self._callee("reply", "")
                return {"instruction": self._text(step.instruction), "worded": is_worded}

    def _question(self, step: AskStep, *, only_yes: bool | None) -> dict[str, Any]:
        """Returns a question; where something acts after it, which options agree."""
        made: dict[str, Any] = {"question": self._text(step.question)}
        made |= {"options": [*step.options]} if step.options else {}
        made |= {"answer_schema": step.answer_schema} if step.answer_schema is not None else {}
        if only_yes is None:
            return made
        listed = (step.answer_schema or {}).get("enum")
        given = step.options or (listed if isinstance(listed, list) else ())
        options = [each for each in given if isinstance(each, str)]
        agreed = {each: goes_on(each, step.question, options) for each in options}
        agrees = {o: yes is not False and (bool(yes) or not only_yes) for o, yes in agreed.items()}
        return made | {"only_yes": only_yes, "agrees": agrees}

    def _value(self, given: Json, *, private: bool = False) -> Any:
        """Returns a value with references as data; `private` ones may name secrets."""
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
            return values.First(tuple(map(_ref, first_refs(given))))
        return {key: self._value(each, private=private) for key, each in given.items()}

    def _own(self, leaf: Json) -> Any:
        return self._joined([leaf], private=True) if isinstance(leaf, str) else leaf

    def _text(self, given: str) -> Any:
        return self._joined(pieces(given), private=False)

    def _joined(self, parts: Sequence[str | Ref], *, private: bool) -> Any:
        found: list[Any] = []
        for each in parts:
            if isinstance(each, Ref):
                found.append(_ref(each))
                continue
            for place, text in enumerate(_SECRET.split(each) if private else [each]):
                if place % 2:
                    variable = re.sub(r"[^A-Za-z0-9]", "_", text).upper()
                    self._secrets[text] = self._around.secrets.get(text) or variable
                    found.append(values.Secret(text, self._secrets[text]))
                elif text:
                    found.append(text)
        if all(isinstance(each, str) and not isinstance(each, tuple) for each in found):
            return "".join(found)
        return values.Text(tuple(found))

    def _condition(self, condition: Any) -> Any:
        [(name, given)] = condition.items()
        if name == "not":
            return (name, self._condition(given))
        if name in ("all", "any"):
            return (name, [self._condition(each) for each in given])
        if name == "empty":
            return values.Check(name, self._operand(given), None, operand_text(given))
        left, right = map(self._operand, given)
        return values.Check(name, left, right, condition_text(condition))

    def _operand(self, operand: Json) -> Any:
        if isinstance(operand, dict) and operand.keys() == {LENGTH}:
            inner = operand[LENGTH]
            return values.Length(self._value(inner), operand_text(inner))
        return self._value(operand)

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
        elif name in self._around.functions.builtin:
            yield Sentence(
                "{name} is a tool of plansmith: the program needs it installed, as a library",
                name=name,
            )
        elif name not in self._around.functions.in_files:
            yield Sentence("fill in {function}: the code of {name} is not known", **named)


def _parts() -> tuple[str, str]:
    """Returns the imports of the parts that every program has, and their text."""
    whole, single, texts = set[str](), dict[str, set[str]](), list[str]()
    for part in (values, runtime):
        text = inspect.getsource(part)
        tree = ast.parse(text)
        found = [each for each in tree.body if isinstance(each, (ast.Import, ast.ImportFrom))]
        texts.append("\n".join(text.split("\n")[found[-1].end_lineno :]).strip("\n") + "\n")
        for each in found:
            names = {alias.name for alias in each.names}
            if isinstance(each, ast.Import):
                whole |= names
            elif not (each.module or "").startswith(("__future__", "plansmith_cli")):
                single.setdefault(each.module or "", set()).update(names)
    lines = [f"import {name}" for name in sorted(whole)]
    lines += [f"from {name} import {', '.join(sorted(single[name]))}" for name in sorted(single)]
    lines = sorted(lines, key=lambda line: "pydantic" in line)  # the one that is not Python's
    head = ["from __future__ import annotations", "", *lines[:-1], "", lines[-1], ""]
    return "\n".join(head), "\n\n".join(texts)


def _data(value: Any) -> str:
    return pformat(value, width=96, sort_dicts=False)


def _ref(ref: Any) -> values.Ref:
    if not isinstance(ref, Ref):
        raise Refused(Sentence("a reference of this plan cannot be read"), hint="plansmith check")
    return values.Ref(ref.step, tuple(ref.path))


def _limits(kind: str, name: str, around: Surroundings) -> Iterator[str]:
    tool = around.tools.get(name) if kind == "tool" else None
    spec = around.agents.get(name) if kind == "agent" else tool
    if kind == "reply" or (spec is not None and spec.effect is Effect.READ):
        yield "reads=True"
    if tool is not None and tool.idempotent:
        yield "keyed=True"
    if tool is not None and tool.timeout_s:
        yield f"timeout_s={tool.timeout_s!r}"


def _needs(step: AnyStep, plan: Plan) -> dict[str, Any]:
    """Returns what a step waits for, with groups that it is skipped with if all of them are.

    In place of what is disabled stands what that waits for.
    """
    off = {each.id for each in plan.steps if each.disabled}
    before = {
        each.id: each.needed - RESERVED if each.disabled else frozenset[str]()
        for each in plan.steps
    }
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
    for name, step, path in _asking(plan, "", "", around.templates, 0):
        asked = QuestionAsked(question=path, text="", step=path, kind="step")
        if permits(run, asked, known):
            found[name, step] = not is_used(run, asked, known)
    return found


def _asking(
    plan: Plan, name: str, scope: str, templates: Mapping[str, Plan], depth: int
) -> Iterator[tuple[str, str, str]]:
    """Yields every question: its plan, its step, and its full name in a run."""
    for step in plan.steps:
        inner = step.each if isinstance(step, MapStep) else step
        path = f"{scope}{step.id}" + ("/0" if isinstance(step, MapStep) else "")
        if isinstance(inner, AskStep):
            yield name, step.id, path
        elif isinstance(inner, PlanStep) and inner.template in templates and depth < _DEEPEST:
            inside = templates[inner.template]
            yield from _asking(inside, inner.template, f"{path}/", templates, depth + 1)


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
    _check_templates(plan, templates)
    return plan, Surroundings(
        tools=callees.specs,
        agents=agents,
        functions=await _functions(session.settings, session.journals.folder),
        templates=templates,
        secrets={name: each.env or "" for name, each in session.settings.secrets.items()},
        earlier=await _earlier(session, plan, run),
        locale=run.locale if run is not None else plan.locale,
    )


def _check_templates(plan: Plan, templates: Mapping[str, Plan]) -> None:
    for step in active_steps(plan, templates):
        if not isinstance(step, PlanStep):
            continue
        known = templates.get(step.template)
        if known is None:
            problem = Sentence("there is no template '{name}'", name=step.template)
            raise Refused(problem, hint="plansmith templates")
        if step.content not in (None, known.hash):
            raise Refused(Sentence("'{name}' is not what was approved", name=step.template))


async def _functions(settings: Settings, folder: str) -> Functions:
    """Returns where the code of the tools is that this folder knows."""
    files: dict[str, tuple[str, str]] = {}
    here = PurePath(folder)
    for path in settings.tools:
        if path.suffix == ".py":
            for name, function in python_functions(path).items():
                files[function.spec.name] = (str(here / path), name)
    builtin: set[str] = set()
    if settings.builtin.enabled:
        for source in builtin_tools(settings):
            builtin |= {spec.name for spec in await source.tools()}
    return Functions(in_files=files, builtin=frozenset(builtin - files.keys()))


async def _earlier(session: Session, plan: Plan, run: Run | None) -> dict[str, Json]:
    """Returns the results of earlier runs that a plan uses."""
    used = {
        found.ref.step
        for step in plan.steps
        for found in step.references
        if found.ref is not None and is_earlier(found.ref.step)
    }
    known = run.earlier if run is not None else dict[str, str]()
    missing = sorted(used - known.keys())
    if missing:
        problem = Sentence("the plan uses {name}, a result of an earlier run", name=missing[0])
        raise Refused(problem, hint=Sentence("convert the run"))
    found = await load_values(session.smith.store, run) if run is not None and used else {}
    return {name: found[name] for name in sorted(used)}
