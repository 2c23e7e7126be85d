"""Writes a plan as a plain Python program on asyncio."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from plansmith.engine.answers import is_used, permits
from plansmith.engine.units import Known
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.events import QuestionAsked
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, language_of, template
from plansmith.plan.steps import AskStep, MapStep, PlanStep
from plansmith.text import clip, safe
from plansmith_cli.programs import calling, runtime, values
from plansmith_cli.programs.expressions import Expressions, call, literal, quoted, table
from plansmith_cli.programs.steps import Callees, Names, StepWriter

_PARTS: Final = (values, calling, runtime)
_DEEPEST: Final = 5


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
    """Writes one program."""

    def __init__(self, plan: Plan, around: Surroundings) -> None:
        self._plan, self._around = plan, around
        self._names = Names({"write_text", *(name for part in _PARTS for name in vars(part))})
        self._expressions = Expressions(around.secrets)
        self._callees = Callees()

    def source(self) -> str:
        gates = _gates(self._plan, self._around)
        writers = [
            StepWriter(
                plan=plan,
                name=name,
                names=self._names,
                expressions=self._expressions,
                callees=self._callees,
                gates={step: gate for (of, step), gate in gates.items() if of == name},
            )
            for name, plan in {"": self._plan, **self._around.templates}.items()
        ]
        tables = [each.table() for each in writers]
        functions = [text for each in writers for text in each.functions]
        imports, rules = _parts()
        return "\n\n".join(
            [
                f"{self._header()}\n{imports}\n# The steps of the plan.\n",
                *functions,
                "# What the steps call.\n",
                *self._tools(),
                f"# The rules of steps.\n\n{rules}",
                "# What is run: the steps with their rules, and what they call.\n",
                "\n".join([*self._registry(), *tables]),
                '\nif __name__ == "__main__":\n    sys.exit(main())\n',
            ]
        )

    def _header(self) -> str:
        goal = clip(safe(self._plan.goal or "A plan"), 400)
        lines = [
            goal,
            "",
            f"Written by `plansmith convert --to python` from plan {self._plan.hash[:16]}.",
            "It needs: pip install pydantic",
            "It prints the results as JSON; the exit code is 1 if a step failed.",
            "Nothing is kept: after a crash, run it from the beginning.",
            "It does not ask for approval, nor before values out of tools reach what acts; it",
            "keeps no journal and has no budget. A call that may have taken effect and failed is",
            "not made again: it counts as failed.",
        ]
        text = "\n".join(lines).replace("\\", "\\\\").replace('"', '\\"')
        return f'"""{text}\n"""\n'

    def _tools(self) -> Iterator[str]:
        for name in self._callees.tools:
            yield self._tool(name)
        for name in self._callees.agents:
            function = self._names.of("agent", name)
            why = quoted(f"the agent {name} is to be filled in")
            yield _function(function, f"To fill in: the agent {name}.", _raising(why))
        if self._callees.words:
            about = "To fill in: a text as instructed. Without a model, it is the instruction."
            yield _function("write_text", about, 'return arguments["instruction"]')

    def _tool(self, name: str) -> str:
        function, spec = self._names.of("tool", name), self._around.tools.get(name)
        about = safe(spec.description).strip() if spec else ""
        about = clip(about.split(". ")[0], 80) if about else name
        found = self._around.functions.in_files.get(name)
        if found is not None:
            path, called = map(quoted, found)
            given = f"{path}, {called}, arguments, call, tool={quoted(name)}"
            return _function(function, about, f"return await call_function({given})")
        if name in self._around.functions.builtin:
            inner = f"return await call_builtin({quoted(name)}, arguments, call)"
            return _function(function, about, inner)
        why = quoted(f"{name} is to be filled in")
        return _function(function, f"To fill in: {about}", _raising(why))

    def _registry(self) -> Iterator[str]:
        found = {f"tool:{name}": self._tool_entry(name) for name in self._callees.tools}
        for name in self._callees.agents:
            agent = self._around.agents.get(name)
            reads = agent is not None and agent.effect is Effect.READ
            more = {"reads": "True"} if reads else {}
            found[f"agent:{name}"] = call("Tool", self._names.of("agent", name), **more)
        if self._callees.words:
            found["reply"] = call("Tool", "write_text", reads="True")
        if found:
            yield f"TOOLS.update({table(found)})"
        if language_of(self._around.locale or self._plan.locale) != "en":
            yield f'WORDS["skipped"] = {quoted(template("reply.skipped", "zh"))}'
        if self._around.earlier:
            yield f"EARLIER.update({literal(dict(self._around.earlier))})"

    def _tool_entry(self, name: str) -> str:
        spec, more = self._around.tools.get(name), dict[str, str]()
        if spec is not None and spec.effect is Effect.READ:
            more["reads"] = "True"
        if spec is not None and spec.idempotent:
            more["keyed"] = "True"
        if spec is not None and spec.timeout_s:
            more["timeout_s"] = repr(spec.timeout_s)
        return call("Tool", self._names.of("tool", name), **more)

    def notes(self) -> Iterator[str]:
        """Yields what a person has to do, or should know."""
        yield from self._tool_notes()
        for name in self._callees.agents:
            yield Sentence(
                "fill in {function}: it stands for the agent {name}",
                function=self._names.of("agent", name),
                name=name,
            )
        if self._callees.words:
            steps = ", ".join(self._callees.words)
            yield Sentence(
                "fill in write_text: no model words the text of {steps} in the program", steps=steps
            )
        for name, variable in self._expressions.used.items():
            yield Sentence(
                "the secret {name} is read from the environment: {variable}",
                name=name,
                variable=variable,
            )
        if self._plan.schedule or self._plan.schedules:
            yield Sentence("the schedule is not in the program: start it by cron or the like")
        if any(each.undo_with for each in self._plan.steps):
            yield Sentence("undo_with is not in the program: it takes nothing back")

    def _tool_notes(self) -> Iterator[str]:
        functions = self._around.functions
        for name in self._callees.tools:
            if name in functions.builtin:
                yield Sentence(
                    "{name} is a tool of plansmith: the program needs it installed, as a library",
                    name=name,
                )
            elif name not in functions.in_files:
                yield Sentence(
                    "fill in {function}: the code of {name} is not known",
                    function=self._names.of("tool", name),
                    name=name,
                )


def _function(name: str, about: str, body: str) -> str:
    head = f"async def {name}(arguments: dict[str, Json], call: Call) -> Json:"
    return f"{head}\n    {quoted(about)}\n    {body}\n"


def _raising(why: str) -> str:
    return f'raise StepError({why}, "tool")'


def _parts() -> tuple[str, str]:
    """Returns the imports of the parts that every program has, and their text."""
    whole, single, texts = set[str](), dict[str, set[str]](), list[str]()
    for part in _PARTS:
        text = inspect.getsource(part)
        tree = ast.parse(text)
        found = [each for each in tree.body if isinstance(each, (ast.Import, ast.ImportFrom))]
        texts.append("\n".join(text.split("\n")[found[-1].end_lineno :]).strip("\n") + "\n")
        for each in found:
            names = {alias.name for alias in each.names}
            if isinstance(each, ast.Import):
                whole |= names
            elif not (each.module or "").startswith(("__future__", "plansmith_cli.programs")):
                single.setdefault(each.module or "", set()).update(names)
    lines = [f"import {name}" for name in sorted(whole)]
    lines += [f"from {name} import {', '.join(sorted(single[name]))}" for name in sorted(single)]
    foreign = [line for line in lines if "pydantic" in line]
    lines = [line for line in lines if line not in foreign]
    head = ["from __future__ import annotations", "", *lines, "", *foreign, ""]
    return "\n".join(head), "\n\n".join(texts)


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
            template = templates[inner.template]
            yield from _asking(template, inner.template, f"{path}/", templates, depth + 1)
