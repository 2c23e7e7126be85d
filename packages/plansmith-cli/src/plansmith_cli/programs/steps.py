"""Writes the steps of a plan as Python functions, and the table of their rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plansmith.plan.conditions import condition_text
from plansmith.plan.graph import upstream
from plansmith.plan.plan import Plan
from plansmith.plan.refs import FIRST, RESERVED, Ref, pieces
from plansmith.plan.steps import (
    AgentStep,
    AnyStep,
    AskStep,
    Instead,
    MapStep,
    PlanStep,
    ReplyStep,
    ToolStep,
)
from plansmith.text import clip, safe
from plansmith_cli.programs.expressions import Expressions, call, literal, quoted, sequence, table
from plansmith_planner.language.yes_or_no import goes_on


@dataclass(slots=True)
class Names:
    """Names of functions, each used once."""

    taken: set[str]
    _made: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    def of(self, kind: str, name: str) -> str:
        """Returns the function's name for a tool or a step."""
        if (kind, name) not in self._made:
            plain = f"{kind}_{re.sub(r'[^A-Za-z0-9]+', '_', name).strip('_').lower() or 'x'}"
            found, number = plain[:80], 2
            while found in self.taken:
                found, number = f"{plain[:80]}_{number}", number + 1
            self.taken.add(found)
            self._made[kind, name] = found
        return self._made[kind, name]


@dataclass(slots=True)
class Callees:
    """What the steps call: tools, agents, and the steps whose texts are worded."""

    tools: dict[str, None] = field(default_factory=dict[str, None])
    agents: dict[str, None] = field(default_factory=dict[str, None])
    words: list[str] = field(default_factory=list[str])


@dataclass(slots=True, kw_only=True)
class StepWriter:
    """Writes the steps of one plan, and notes what they call.

    `gates` has the questions that what acts waits for, and whether for nothing but a yes.
    """

    plan: Plan
    name: str
    names: Names
    expressions: Expressions
    callees: Callees
    gates: Mapping[str, bool]
    functions: list[str] = field(default_factory=list[str])

    def table(self) -> str:
        """Writes the functions of all steps; returns the table of the steps."""
        steps = [each for each in self.plan.steps if not each.disabled]
        found = table({each.id: self._step(each, each.id) for each in steps})
        return f"PLANS[{quoted(self.name)}] = {found}"

    def _step(self, step: AnyStep, path: str) -> str:
        function = self.names.of("step", f"{self.name}/{path}" if self.name else path)
        rules = self._rules(step)
        if isinstance(step, MapStep):
            rules["each"] = self._step(step.each, f"{path}/each")
        about = quoted(clip(safe(step.title or f"{step.id}: a {step.kind} step"), 90))
        body = self._body(step).replace("\n", "\n    ")
        head = f"async def {function}(step: Running, v: Values) -> Json:"
        self.functions.append(f"{head}\n    {about}\n    return await {body}\n")
        return call("Step", function, **rules)

    def _body(self, step: AnyStep) -> str:
        make = self.expressions
        match step:
            case ToolStep():
                self.callees.tools.setdefault(step.tool)
                inputs = {key: make.value(each, private=True) for key, each in step.inputs.items()}
                return call("step.tool", quoted(step.tool), table(inputs))
            case AgentStep():
                self.callees.agents.setdefault(step.agent)
                task, given = make.text(step.task), make.value(step.inputs)
                return call("step.agent", quoted(step.agent), task, given)
            case AskStep():
                return call("step.ask", self._question(step))
            case PlanStep():
                parameters = table({key: make.value(each) for key, each in step.inputs.items()})
                return call("step.run_template", quoted(step.template), parameters)
            case MapStep():
                return call("step.map_items", make.value(step.over), width=repr(step.width))
            case ReplyStep():
                return self._reply(step)

    def _question(self, step: AskStep) -> str:
        more: dict[str, str] = {}
        if step.options:
            more["options"] = sequence(map(quoted, step.options))
        if step.answer_schema is not None:
            more["schema"] = literal(step.answer_schema)
        if step.id in self.gates:
            only_yes = self.gates[step.id]
            more["gates"] = "True"
            if only_yes:
                more["only_yes"] = "True"
            listed = (step.answer_schema or {}).get("enum")
            given = step.options or (listed if isinstance(listed, list) else ())
            options = [each for each in given if isinstance(each, str)]
            agreed = {each: goes_on(each, step.question, options) for each in options}
            if options:
                refused = [o for o, yes in agreed.items() if yes is False or (only_yes and not yes)]
                more["refuses"] = sequence(map(quoted, refused))
        return call("Question", self.expressions.text(step.question), **more)

    def _reply(self, step: ReplyStep) -> str:
        own = "".join(each for each in pieces(step.instruction) if isinstance(each, str))
        has_refs = any(isinstance(each, Ref) for each in pieces(step.instruction))
        filled = step.style == "worded" and has_refs and not any(map(str.isalpha, own))
        words = self.expressions.text(step.instruction)
        if step.style == "exact" or filled:
            return call("step.reply", words)
        self.callees.words.append(step.id)
        return call("step.word", words)

    def _rules(self, step: AnyStep) -> dict[str, str]:
        make = self.expressions
        # The inner step of a map waits for nothing: the map does.
        found = self._needs(step) if self.plan.by_id.get(step.id) is step else {}
        if step.when is not None:
            found["when"] = f"lambda v: {make.condition(step.when)}"
        if step.otherwise is not None:
            found["otherwise"] = call("Value", literal(step.otherwise.value))
        if step.repeat is not None:
            until = f"lambda v: {make.condition(step.repeat.until)}"
            said = quoted(condition_text(step.repeat.until))
            limits = repr(step.repeat.at_most), repr(step.repeat.every)
            found["repeat"] = call("Repeat", quoted(step.id), until, said, *limits)
        return found | _failure_rules(step)

    def _needs(self, step: AnyStep) -> dict[str, str]:
        """Returns what a step waits for; in place of what is disabled, what that waits for."""
        off = {each.id for each in self.plan.steps if each.disabled}
        before = {
            each.id: each.needed - RESERVED if each.disabled else frozenset[str]()
            for each in self.plan.steps
        }
        needed = step.needed - RESERVED
        through = upstream(before, needed & off) - off
        needs = [each for each in self.plan.by_id if each in needed - off | through]
        alone, groups = _skips(step)
        alone = [each for each in needs if each in through or each in alone]
        found: dict[str, str] = {}
        if needs:
            found["needs"] = sequence(map(quoted, needs))
        if alone:
            found["skipped_with"] = sequence(map(quoted, alone))
        if groups:
            found["skipped_with_all"] = sequence(sequence(map(quoted, each)) for each in groups)
        return found


def _failure_rules(step: AnyStep) -> dict[str, str]:
    """Returns the rules for when a call takes too long or fails, and whether it is a reply."""
    found: dict[str, str] = {}
    if isinstance(step.on_error, Instead):
        found["on_error"] = call("Value", literal(step.on_error.value))
    elif step.on_error != "fail":
        found["on_error"] = quoted(step.on_error)
    if step.retry is not None:
        found["retry"] = call("Retry", repr(step.retry.at_most), repr(step.retry.every))
    if step.timeout_s is not None:
        found["timeout_s"] = repr(step.timeout_s)
    if isinstance(step, ReplyStep):
        found["tells"] = "True"
    return found


def _skips(step: AnyStep) -> tuple[list[str], list[list[str]]]:
    """Returns the steps with which a step is skipped: each alone, and groups all together."""
    if isinstance(step, ReplyStep):
        return [], [sorted(step.needed)] if step.needed else []
    alone: list[str] = []
    firsts: dict[Any, list[str]] = {}
    for found in step.references:
        if found.ref is None or step.is_own(found):
            continue
        if FIRST in found.where:
            group = found.where[: found.where.index(FIRST)]
            firsts.setdefault(group, []).append(found.ref.step)
        else:
            alone.append(found.ref.step)
    return [*alone, *step.after], [*firsts.values()]
