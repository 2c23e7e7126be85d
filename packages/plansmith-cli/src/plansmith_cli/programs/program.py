"""Writes a plan as a plain Python program on asyncio: the plan as data, and the rules of steps."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pprint import pformat
from typing import Any, Final, NamedTuple

from plansmith.check.check_plan import check_plan
from plansmith.engine.answers import is_used, permits
from plansmith.engine.journal import load_values
from plansmith.engine.units import Known
from plansmith.errors import PlanInvalid
from plansmith.plan import refs
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.conditions import LENGTH
from plansmith.plan.data import Json, map_leaves
from plansmith.plan.events import QuestionAsked
from plansmith.plan.graph import upstream
from plansmith.plan.plan import Plan
from plansmith.plan.problem import has_errors
from plansmith.plan.refs import FIRST, Ref
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, language_of, template
from plansmith.plan.steps import AnyStep, AskStep, MapStep, PlanStep, ReplyStep
from plansmith.review.policy import active_steps
from plansmith.text import clip, safe
from plansmith_cli.options import warn
from plansmith_cli.programs import runtime
from plansmith_cli.session import Session
from plansmith_cli.ui.output import refused
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


class Program(NamedTuple):
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
        around, plan = self._around, self._plan
        plans = {
            name: {
                each.id: self._step(each, name) | _needs(each, inside)
                for each in inside.steps
                if not each.disabled
            }
            for name, inside in {"": plan, **around.templates}.items()
        }
        tools = [name for kind, name in self._callees if kind == "tool"]
        files = sorted({around.in_files[name][0] for name in tools if name in around.in_files})
        users = [name for name in tools if name in around.builtin]
        users += [f"@tool in {path}" for path in files]
        more = safe(f", and plansmith for: {', '.join(users)}") if users else ""
        goal = clip(safe(plan.goal or "A plan"), 400)
        about = f"{goal}\n{_ABOUT.format(hash=plan.hash[:16], more=more)}"
        about = about.replace("\\", "\\\\").replace('"', '\\"')
        mark = "# The rules of steps.\n"
        imports, _, rules = inspect.getsource(runtime).partition(mark)
        tables = [f"FOLDER = {around.folder!r}\nFILES += {_data(files)}"] if files else []
        tables += [self._tool(*called) for called in self._callees]
        if language_of(around.locale or plan.locale) != "en":
            tables.append(f'WORDS["skipped"] = {template("reply.skipped", "zh")!r}')
        if around.earlier:
            tables.append(f"EARLIER.update({_data(dict(around.earlier))})")
        tables += [f"PLANS[{name!r}] = {_data(steps)}" for name, steps in plans.items()]
        parts = (
            f'"""{about}"""\n{imports.partition(chr(10))[2]}# What the steps call.\n',
            *(self._function(*called) for called in self._callees),
            f"{mark}{rules}",
            "# What is called, and the plan.\n",
            "\n".join(tables),
            '\nif __name__ == "__main__":\n    sys.exit(main())\n',
        )
        return "\n\n".join(parts)

    def _tool(self, kind: str, name: str) -> str:
        tool = self._around.tools.get(name) if kind == "tool" else None
        spec = self._around.agents.get(name) if kind == "agent" else tool
        entry = [self._callees[kind, name]]
        if kind == "reply" or (spec is not None and spec.effect is Effect.READ):
            entry.append("reads=True")
        if tool is not None and tool.idempotent:
            entry.append("keyed=True")
        if tool is not None and tool.timeout_s:
            entry.append(f"timeout_s={tool.timeout_s!r}")
        return f"TOOLS[{f'{kind}:{name}' if name else kind!r}] = Tool({', '.join(entry)})"

    def _function(self, kind: str, name: str) -> str:
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
        function = self._callees[kind, name]
        head = f"async def {function}(arguments: dict[str, Json], call: Call) -> Json:"
        return f"{head}\n    {about!r}\n    {body}\n"

    def _callee(self, kind: str, name: str) -> None:
        if (kind, name) in self._callees:
            return
        plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower() or "x"
        plain = made = f"{kind}_{plain}"[:80] if name else "write_text"
        taken, number = {*self._callees.values(), *vars(runtime)}, 1
        while made in taken:
            number += 1
            made = f"{plain}_{number}"
        self._callees[kind, name] = made

    def _step(self, step: AnyStep, plan: str) -> dict[str, Any]:
        """Returns a step as data, with tuples in the place of references."""
        given = step.to_json()
        made: dict[str, Any] = {"kind": step.kind, "id": step.id}
        made |= {name: given[name] for name in _RULES if name in given}
        private = step.kind == "tool"  # only inputs of tools may name secrets
        for name in _TEMPLATES:
            if hasattr(step, name):
                made[name] = self._value(getattr(step, name), private=private)
        match step:
            case MapStep():
                made |= {"each": self._step(step.each, plan), "width": step.width}
            case AskStep() if (plan, step.id) in self._gates:
                made["agrees"] = _agreeing(step, only_yes=self._gates[plan, step.id])
            case ReplyStep():
                made |= self._reply(step)
            case _ if step.kind in ("tool", "agent"):
                self._callee(step.kind, made[step.kind])
            case _:
                pass
        made |= {"retry": step.retry.model_dump()} if step.retry else {}
        made |= {"when": self._condition(step.when)} if step.when is not None else {}
        if step.repeat is not None:
            until = self._condition(step.repeat.until)
            made["repeat"] = step.repeat.model_dump() | {"until": until}
        return made

    def _reply(self, step: ReplyStep) -> dict[str, Any]:
        """Returns the text of a reply, and whether a model words it: not where it is filled in."""
        parts = refs.pieces(step.instruction)
        own = "".join(each for each in parts if isinstance(each, str))
        is_filled = len(own) < len(step.instruction) and not any(map(str.isalpha, own))
        is_worded = step.style != "exact" and not is_filled
        if is_worded:
            self._worded.append(step.id)
            self._callee("reply", "")
        return {"instruction": self._joined(parts), "worded": is_worded}

    def _value(self, given: Json, *, private: bool = False) -> Any:
        """Returns a value with references as tuples; `private` ones may name secrets."""

        def own(leaf: Json) -> Any:
            return self._joined([leaf], private=True) if isinstance(leaf, str) else leaf

        match given:
            case str():
                parts = refs.pieces(given)
                alone = len(parts) == 1 and isinstance(parts[0], Ref)
                return _ref(parts[0]) if alone else self._joined(parts, private=private)
            case list():
                return [self._value(each, private=private) for each in given]
            case dict() if refs.FROM in given:
                return _ref(refs.ref_of(given))
            case dict() if given.keys() == {refs.LITERAL}:
                # Secrets are put into the plan's own text, wherever that stands.
                return map_leaves(given[refs.LITERAL], own) if private else given[refs.LITERAL]
            case dict() if FIRST in given:
                return ("first", [*map(_ref, refs.first_refs(given))])
            case dict():
                return {key: self._value(each, private=private) for key, each in given.items()}
            case _:
                return given

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
        match name:
            case "not":
                return {name: self._condition(given)}
            case "all" | "any":
                return {name: [self._condition(each) for each in given]}
            case "empty":
                return {name: self._value(given)}
            case _:
                measured = [isinstance(each, dict) and each.keys() == {LENGTH} for each in given]
                sides = zip(given, measured, strict=True)
                return {
                    name: [
                        ("length", self._value(each[LENGTH])) if is_length else self._value(each)
                        for each, is_length in sides
                    ]
                }

    def notes(self) -> Iterator[str]:
        for called in self._callees:
            yield from self._call_note(*called)
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

    def _call_note(self, kind: str, name: str) -> Iterator[str]:
        named = {"function": self._callees[kind, name], "name": name}
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
        raise refused("a reference of this plan cannot be read", hint="plansmith check")
    return ("from", ref.step, [*ref.path])


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
    reserved = refs.RESERVED
    off = {each.id for each in plan.steps if each.disabled}
    before = {e.id: e.needed - reserved if e.disabled else frozenset[str]() for e in plan.steps}
    needed = step.needed - reserved
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
    """Prints a program; on stderr, what it lacks. Refuses bad plans."""
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
            name = step.template
            raise refused("there is no template '{name}'", hint="plansmith templates", name=name)
        if isinstance(step, PlanStep) and step.content not in (None, templates[step.template].hash):
            raise refused("'{name}' is not what was approved", name=step.template)
    in_files, builtin = await _known_code(session)
    around = Surroundings(
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
    written = write_program(plan, around)
    for note in written.notes:
        warn(note)
    sys.stdout.write(written.source)


async def _known_code(session: Session) -> tuple[dict[str, tuple[str, str]], set[str]]:
    """Returns the Python file of each tool of the settings with its name there; built-in tools."""
    settings, folder = session.settings, session.journals.folder
    in_files: dict[str, tuple[str, str]] = {}
    for path in (Path(folder) / each for each in settings.tools if each.suffix == ".py"):
        place = path.relative_to(folder) if path.is_relative_to(folder) else path
        for name, function in python_functions(path).items():
            in_files[function.spec.name] = (place.as_posix(), name)
    builtin: set[str] = set()
    for source in builtin_tools(settings) if settings.builtin.enabled else ():
        builtin |= {spec.name for spec in await source.tools()}
    return in_files, builtin


async def _earlier(session: Session, plan: Plan, run: Run | None) -> dict[str, Json]:
    used = {
        found.ref.step
        for step in plan.steps
        for found in step.references
        if found.ref is not None and refs.is_earlier(found.ref.step)
    }
    missing = sorted(used - run.earlier.keys() if run is not None else used)
    if missing:
        raise refused(
            "the plan uses {name}, a result of an earlier run", "convert the run", name=missing[0]
        )
    values = await load_values(session.smith.store, run) if run is not None and used else {}
    return {name: values[name] for name in sorted(used)}
