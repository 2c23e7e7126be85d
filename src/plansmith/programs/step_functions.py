"""Writes the steps of a plan as Python functions, and the table of their rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from plansmith.plan.conditions import condition_text
from plansmith.plan.plan import Plan
from plansmith.plan.refs import FIRST, RESERVED, Ref, pieces
from plansmith.plan.step_rules import Instead
from plansmith.plan.steps import (
    AgentStep,
    AnyStep,
    AskStep,
    MapStep,
    PlanStep,
    ReplyStep,
    ToolStep,
)
from plansmith.programs.expressions import (
    Expressions,
    Node,
    call,
    literal,
    quoted,
    sequence,
    table,
    written,
)
from plansmith.text import clip, safe

_TITLE: Final = 90


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
    """What the steps call: tools, agents, and whether texts are worded."""

    tools: dict[str, None] = field(default_factory=dict[str, None])
    agents: dict[str, None] = field(default_factory=dict[str, None])
    words: list[str] = field(default_factory=list[str])


class StepWriter:
    """Writes the steps of one plan, and notes what they call."""

    def __init__(
        self,
        plan: Plan,
        name: str,
        *,
        names: Names,
        expressions: Expressions,
        callees: Callees,
        gates: Mapping[str, str],
    ) -> None:
        self._plan, self._name, self._names = plan, name, names
        self._expressions, self._callees, self._gates = expressions, callees, gates
        self._off = _disabled(plan)
        self.functions: list[str] = []

    def table(self) -> str:
        """Writes the functions of all steps; returns the table of the steps."""
        steps = [each for each in self._plan.steps if not each.disabled]
        found = table({each.id: self._step(each, each.id) for each in steps})
        return f"PLANS[{quoted(self._name)}] = {written(found, 0, 20)}\n"

    def _step(self, step: AnyStep, path: str) -> Node:
        place = f"{self._name}/{path}" if self._name else path
        function = self._names.of("step", place)
        rules = self._rules(step)
        if isinstance(step, MapStep):
            rules["each"] = self._step(step.each, f"{path}/each")
        self.functions.append(self._function(function, step))
        return call("Step", function, **rules)

    def _function(self, name: str, step: AnyStep) -> str:
        about = quoted(clip(safe(step.title or f"{step.id}: a {step.kind} step"), _TITLE))
        body = written(self._body(step), 4, 13)
        head = f"async def {name}(step: Running, v: Values) -> Json:"
        return f"{head}\n    {about}\n    return await {body}\n"

    def _body(self, step: AnyStep) -> Node:
        make = self._expressions
        match step:
            case ToolStep():
                self._callees.tools.setdefault(step.tool)
                inputs = {
                    name: make.value(each, private=True) for name, each in step.inputs.items()
                }
                return call("step.tool", quoted(step.tool), table(inputs))
            case AgentStep():
                self._callees.agents.setdefault(step.agent)
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

    def _question(self, step: AskStep) -> Node:
        more: dict[str, Node] = {}
        if step.options:
            more["options"] = sequence(map(quoted, step.options))
        if step.answer_schema is not None:
            more["schema"] = literal(step.answer_schema)
        if step.id in self._gates:
            more["gate"] = quoted(self._gates[step.id])
        return call("Question", self._expressions.text(step.question), **more)

    def _reply(self, step: ReplyStep) -> Node:
        own = "".join(each for each in pieces(step.instruction) if isinstance(each, str))
        has_refs = any(isinstance(each, Ref) for each in pieces(step.instruction))
        filled = step.style == "worded" and has_refs and not any(map(str.isalpha, own))
        words = self._expressions.text(step.instruction)
        if step.style == "exact" or filled:
            return call("step.reply", words)
        self._callees.words.append(step.id)
        return call("step.word", words)

    def _rules(self, step: AnyStep) -> dict[str, Node]:
        make = self._expressions
        # The inner step of a map waits for nothing: the map does.
        found = self._needs(step) if self._plan.by_id.get(step.id) is step else {}
        if step.when is not None:
            found["when"] = f"lambda v: {_inline(make.condition(step.when))}"
        if step.otherwise is not None:
            found["otherwise"] = call("Value", literal(step.otherwise.value))
        if step.repeat is not None:
            until = f"lambda v: {_inline(make.condition(step.repeat.until))}"
            said = quoted(condition_text(step.repeat.until))
            limits = repr(step.repeat.at_most), repr(step.repeat.every)
            found["repeat"] = call("Repeat", quoted(step.id), until, said, *limits)
        return found | _failure_rules(step)

    def _needs(self, step: AnyStep) -> dict[str, Node]:
        needed = step.needed - RESERVED
        through = {each for need in needed for each in self._off.get(need, ())}
        needs = [each for each in self._plan.by_id if each in needed - self._off.keys() | through]
        alone, groups = _skips(step)
        alone += [each for each in needs if each in through]
        alone = [each for each in dict.fromkeys(alone) if each in needs]
        found: dict[str, Node] = {}
        if needs:
            found["needs"] = sequence(map(quoted, needs))
        if alone:
            found["skipped_with"] = sequence(map(quoted, alone))
        if groups:
            found["skipped_with_all"] = sequence(sequence(map(quoted, each)) for each in groups)
        return found


def _failure_rules(step: AnyStep) -> dict[str, Node]:
    """Returns the rules for when a call takes too long or fails, and whether it is a reply."""
    found: dict[str, Node] = {}
    if isinstance(step.on_error, Instead):
        found["on_error"] = call("Value", literal(step.on_error.value))
    elif step.on_error != "fail":
        found["on_error"] = quoted(step.on_error)
    if step.retry is not None:
        found["retry"] = call("Again", repr(step.retry.at_most), repr(step.retry.every))
    if step.timeout_s is not None:
        found["timeout_s"] = repr(step.timeout_s)
    if isinstance(step, ReplyStep):
        found["tells"] = "True"
    return found


def _inline(node: Node) -> str:
    """Returns an expression on one line, for a lambda."""
    return written(node, -1_000_000)


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


def _disabled(plan: Plan) -> Mapping[str, frozenset[str]]:
    """Returns the steps that are switched off, each with the active steps before it."""
    off = {each.id: each.needed - RESERVED for each in plan.steps if each.disabled}
    found: dict[str, frozenset[str]] = {}
    for name in off:
        seen: set[str] = set()
        todo = [name]
        while todo:
            for need in _new(off[todo.pop()], seen):
                todo += [need] if need in off else []
        found[name] = frozenset(seen - off.keys())
    return found


def _new(names: Iterable[str], seen: set[str]) -> list[str]:
    found = [each for each in names if each not in seen]
    seen.update(found)
    return found
