"""Finds what is allowed in a plan but looks like a mistake."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Final

from plansmith.check.flow import Flow
from plansmith.check.names import Catalogue
from plansmith.errors import PlanInvalid
from plansmith.plan.capability import Tools
from plansmith.plan.data import canonical_json
from plansmith.plan.graph import order, upstream
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, PlanStep, ToolStep, has_rules

_REFER: Final = Sentence("refer to its output, or leave the step out")
_WIDE: Final = 32
_BOUNDED: Final = 100
# The kinds of steps that may use all earlier results without referring to them.
_SEE_ALL: Final = frozenset({"reply", "agent", "plan", "ask"})


def lint_plan(plan: Plan, tools: Tools | Catalogue, *, advice: bool = False) -> list[Problem]:
    """Returns warnings and notes, or with `advice` what makes a plan slow; none with a cycle."""
    try:
        linter = _Linter(plan, Catalogue.of(tools), order(plan.needs))
    except PlanInvalid:
        return []
    if advice:
        return [*linter.hidden_serialisation(), *linter.unused_outputs()]
    return [
        *(linter.dead_steps() if linter.replies else ()),
        *linter.duplicate_work(),
        *(linter.unbounded_fan_out() if "map" in plan.features else ()),
        *linter.missing_reply(),
        *linter.rival_writers(),
        *(linter.passed_over_changes() if "rules" in plan.features else ()),
    ]


class _Linter:
    """A plan, the order of its steps, and which of them only read."""

    def __init__(self, plan: Plan, tools: Catalogue, sequence: list[str]) -> None:
        self.plan, self.tools, self.graph, self.sequence = plan, tools, plan.needs, sequence
        self.by_id = {name: step for name, step in plan.by_id.items() if not step.disabled}
        self.steps = [*self.by_id.values()]
        self.followers = plan.needed_by
        self.replies = any(step.kind == "reply" for step in self.steps)
        ruled = "rules" in plan.features
        self.ruled = {step.id for step in self.steps if ruled and has_rules(step)}
        self.called = {
            name: tools.tool(call.tool) if (call := step.inner).kind == "tool" else None
            for name, step in self.by_id.items()
        }
        self.reading = {name for name, each in self.called.items() if each and each.seems_to_read}
        # The steps that reply or change something.
        self.goals = [
            step for step in self.steps if step.id not in self.reading and step.kind != "ask"
        ]

    def dead_steps(self) -> Iterator[Problem]:
        """Yields reading steps that no reply and no change depends on."""
        goals = [step.id for step in self.goals]
        alive = upstream(self.graph, goals).union(goals)
        for step in self.steps:
            if step.id not in alive:
                message = Sentence("nothing that replies or acts uses '{step}'", step=step.id)
                yield problem("PS401", message, hint=_REFER, step=step.id)

    def hidden_serialisation(self) -> Iterator[Problem]:
        """Yields an `after` between two reading steps that share no data."""
        for step in self.steps:
            uses = {found.ref.step for found in step.references if found.ref}
            for position, before in enumerate(step.after if step.id in self.reading else ()):
                if before not in self.reading or before in uses:
                    continue
                if any(self.above[each] & self.bit[before] for each in self.graph[step.id]):
                    continue
                message = Sentence(
                    "'{step}' waits for '{earlier}' and uses nothing of it",
                    step=step.id,
                    earlier=before,
                )
                hint = Sentence("take '{step}' out of `after`: both only read", step=before)
                place = ("after", position)
                yield problem("PS402", message, hint=hint, step=step.id, path=place)

    def unused_outputs(self) -> Iterator[Problem]:
        """Yields reading steps that others wait for without using the output."""
        found = (each.ref for step in self.steps for each in step.references)
        used = {ref.step for ref in found if ref}
        for step in self.steps:
            if step.id in used or step.id not in self.reading:
                continue
            waiting = [self.by_id[each] for each in self.followers[step.id] if each in self.by_id]
            if waiting and not any(each.kind in _SEE_ALL for each in waiting):
                message = Sentence(
                    "steps wait for '{step}', and none uses its output", step=step.id
                )
                yield problem("PS403", message, hint=_REFER, step=step.id)

    def duplicate_work(self) -> Iterator[Problem]:
        """Yields the same call made twice, with no change in between."""
        seen: dict[tuple[str, str, bytes], str] = {}
        for name in self.sequence:
            # Under a condition the same call may be meant for another case.
            step = self.by_id.get(name)
            if step is None or name in self.ruled:
                continue
            match step:
                case ToolStep():
                    work = ("tool", step.tool, canonical_json(step.inputs))
                case AgentStep():
                    work = ("agent", step.agent, canonical_json([step.task, step.inputs]))
                case PlanStep():
                    work = ("plan", step.template, canonical_json(step.inputs))
                case _:
                    continue
            first = seen.get(work)
            if first and not self.below[first] & self.above[name] & self.acting:
                # If the second call is ordered after the first, it may be meant to look again.
                again = self.above[name] & self.bit[first]
                severity = Severity.NOTE if again else Severity.WARNING
                message = Sentence("'{step}' does the same as '{first}'", step=name, first=first)
                hint = Sentence("leave it out and use the output of '{step}'", step=first)
                yield problem("PS404", message, hint=hint, step=name, severity=severity)
            seen[work] = name

    def unbounded_fan_out(self) -> Iterator[Problem]:
        """Yields map steps over lists of unknown length that change things or run very wide."""
        flow = Flow(self.plan, self.tools)
        for step in self.steps:
            if step.kind != "map" or isinstance(step.over, list):
                continue
            acts, source = step.id not in self.reading, flow.over(step)
            bounds = [form.get("maxItems") for form in source.forms] if source else []
            bounded = bounds and all(isinstance(most, int) and most <= _BOUNDED for most in bounds)
            if not bounded and (acts or step.width > _WIDE):
                message = Sentence(
                    "'{step}' makes a change for every item of a list of unknown length"
                    if acts
                    else "'{step}' runs {width} at a time of a list of unknown length",
                    step=step.id,
                    width=step.width,
                )
                hint = Sentence("take a limited part of the list, or ask first")
                yield problem("PS405", message, hint=hint, step=step.id, path=("over",))

    def missing_reply(self) -> Iterator[Problem]:
        last = (each for each in self.by_id if each in self.reading and not self.followers[each])
        if not self.replies and (name := next(last, "")):
            message = Sentence("nothing uses or shows what '{step}' finds", step=name)
            hint = Sentence("add a reply step that refers to it")
            yield problem("PS407", message, hint=hint, step=name)

    def passed_over_changes(self) -> Iterator[Problem]:
        for step in self.goals:
            inner = step.inner
            if step.on_error == inner.on_error == "fail":
                continue
            if inner.kind in ("tool", "agent", "plan"):
                message = Sentence(
                    "if '{step}' fails, the plan goes on without what it should change",
                    step=step.id,
                )
                hint = Sentence("make sure that a later step or the reply tells it")
                yield problem("PS408", message, hint=hint, step=step.id, path=("on_error",))

    # Sets of steps are bits of one number: 10,000 steps take only a few megabytes.
    @cached_property
    def bit(self) -> dict[str, int]:
        return {name: 1 << place for place, name in enumerate(self.sequence)}

    @cached_property
    def above(self) -> dict[str, int]:
        return self._reach(self.sequence, self.graph)

    @cached_property
    def below(self) -> dict[str, int]:
        return self._reach(self.sequence[::-1], self.followers)

    @cached_property
    def acting(self) -> int:
        return sum(self.bit[step.id] for step in self.goals if step.kind != "reply")

    def _reach(self, sequence: list[str], edges: Mapping[str, Collection[str]]) -> dict[str, int]:
        reached: dict[str, int] = {}
        for name in sequence:
            reached[name] = 0
            for other in edges[name]:
                reached[name] |= reached[other] | self.bit[other]
        return reached

    def rival_writers(self) -> Iterator[Problem]:
        """Yields steps that write the same file as another step, in no order."""
        writers: dict[str, list[str]] = {}
        for step in self.goals:
            if step.kind != "tool" or step.id in self.ruled:
                continue
            path = step.inputs.get("path")
            if not isinstance(path, str):
                continue
            for first in writers.setdefault(path, []):
                if (
                    not self.above[step.id] & self.bit[first]
                    | self.above[first] & self.bit[step.id]
                ):
                    message = Sentence(
                        "'{step}' and '{first}' both write {path}, in no order",
                        step=step.id,
                        first=first,
                        path=path,
                    )
                    hint = Sentence(
                        "put '{step}' into its `after`, or write another file", step=first
                    )
                    place = ("inputs", "path")
                    yield problem("PS410", message, hint=hint, step=step.id, path=place)
                    break
            writers[path].append(step.id)
