"""Check: what is wrong with a plan, given the tools, agents and templates there are."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from plansmith.plan.capability import Tools, tool_specs
from plansmith.plan.data import Json
from plansmith.plan.graph import cycle_problems, needs
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import FROM, ITEM, PARAMS, RESERVED, Found, Ref, pieces
from plansmith.plan.steps import AgentStep, AnyStep, MapStep, PlanStep, StepFields, ToolStep

_MOST_GUESSES: Final = 50


def check_plan(
    plan: Plan,
    tools: Tools,
    *,
    agents: Iterable[str] | None = None,
    templates: Iterable[str] | None = None,
    parameters: Collection[str] | None = None,
) -> list[Problem]:
    """Every problem of a plan. Agents and templates are looked up only when they are given.

    A template's plan may refer to its `parameters`.
    """
    names = _Names(
        tools={spec.name for spec in tool_specs(tools)},
        agents=None if agents is None else set(agents),
        templates=None if templates is None else set(templates),
    )
    problems = list(_check_ids(plan))
    for step in plan.steps:
        problems += _check_references(step, plan, parameters)
        problems += _check_map(step)
        problems += names.check(step)
    return problems + cycle_problems(needs(plan))


def _check_ids(plan: Plan) -> Iterator[Problem]:
    if all(step.disabled for step in plan.steps):
        hint = "add a step, or switch one on" if plan.steps else "add a step"
        yield problem("PS307", "the plan has no step that would run", hint=hint, path=("steps",))
    seen: set[str] = set()
    for step in _all_steps(plan):
        if step.id in RESERVED:
            message = f"{step.id!r} has a meaning of its own in references"
            yield problem("PS306", message, hint="choose another id", step=step.id, path=("id",))
        elif step.id in seen:
            message = f"two steps have the id {step.id!r}"
            yield problem("PS304", message, hint="rename one of them", step=step.id, path=("id",))
        seen.add(step.id)


def _all_steps(plan: Plan) -> Iterator[StepFields]:
    for step in plan.steps:
        yield step
        if isinstance(step, MapStep):
            yield step.each


def _check_references(
    step: AnyStep, plan: Plan, parameters: Collection[str] | None
) -> Iterator[Problem]:
    for found in step.found():
        yield from _check_reference(step, found, plan, parameters)
    for position, need in enumerate(step.after):
        if need not in plan.by_id:
            message = f"{step.id!r} comes after {need!r}, which is not a step"
            hint = _near(need, plan.by_id)
            yield problem("PS302", message, hint=hint, step=step.id, path=("after", position))


def _check_reference(
    step: AnyStep, found: Found, plan: Plan, parameters: Collection[str] | None
) -> Iterator[Problem]:
    ref = found.ref
    if ref is None:
        code = "PS311" if found.flaw.startswith("{{") else "PS303"
        hint = _TEXT_HINT if code == "PS311" else _JSON_HINT
        yield problem(code, found.flaw, hint=hint, step=step.id, path=found.where)
    elif ref.step == ITEM and found.where[:1] != ("each",):
        message = f"{ref} has a meaning only inside a map step"
        yield problem("PS302", message, hint="name a step", step=step.id, path=found.where)
    elif ref.step == PARAMS:
        known = parameters or ()
        if not ref.path or ref.path[0] not in known:
            hint = _near(str(ref.path[0]) if ref.path else "", known)
            message = f"{ref} names no parameter of this plan"
            yield problem("PS302", message, hint=hint, step=step.id, path=found.where)
    elif ref.step not in plan.by_id and ref.step != ITEM:
        hint = f"{_near(ref.step, plan.by_id)}; {_TEXT_HINT}"
        yield problem("PS302", f"{ref} names no step", hint=hint, step=step.id, path=found.where)
    elif ref.step in plan.by_id and plan.by_id[ref.step].disabled and not step.disabled:
        message = f"{ref} is the output of a step that is switched off"
        hint = f"switch {ref.step!r} on, or take the reference out"
        yield problem("PS308", message, hint=hint, step=step.id, path=found.where)


_TEXT_HINT: Final = 'braces that are meant as text are written {{"{{"}}'
_JSON_HINT: Final = 'write {"$from": "step", "$path": ["key", 0]}; data goes into {"$literal": …}'


def _check_map(step: AnyStep) -> Iterator[Problem]:
    if not isinstance(step, MapStep):
        return
    if not (isinstance(step.over, list) or _is_reference(step.over)):
        message = "`over` is neither a list nor a reference to one"
        yield problem("PS309", message, hint=_JSON_HINT, step=step.id, path=("over",))
    if step.each.after:
        message = "the inner step of a map step runs once an item and waits for nothing else"
        hint = "put `after` on the map step"
        yield problem("PS310", message, hint=hint, step=step.id, path=("each", "after"))


def _is_reference(value: Json) -> bool:
    if isinstance(value, str):
        parts = pieces(value)
        return len(parts) == 1 and isinstance(parts[0], Ref)
    return isinstance(value, dict) and FROM in value


class _Names:
    """What there is to call, and the nearest names to what there is not."""

    def __init__(
        self, *, tools: set[str], agents: set[str] | None, templates: set[str] | None
    ) -> None:
        self.tools = tools
        self.agents = agents
        self.templates = templates
        self.guesses: dict[tuple[str, str], str] = {}

    def check(self, step: StepFields) -> Iterator[Problem]:
        match step:
            case ToolStep():
                yield from self._look_up(step, "PS101", "tool", step.tool, self.tools)
            case AgentStep():
                yield from self._look_up(step, "PS102", "agent", step.agent, self.agents)
            case PlanStep():
                yield from self._look_up(step, "PS103", "template", step.template, self.templates)
            case MapStep():
                yield from self.check(step.each)
            case _:
                pass

    def _look_up(
        self, step: StepFields, code: str, what: str, name: str, known: set[str] | None
    ) -> Iterator[Problem]:
        if known is None or name in known:
            return
        key = code, name
        # Guessing costs a comparison with every name, so a hopeless plan gets few guesses.
        if key not in self.guesses:
            enough = len(self.guesses) >= _MOST_GUESSES
            self.guesses[key] = f"choose a {what} that exists" if enough else _near(name, known)
        message = f"there is no {what} called {name!r}"
        yield problem(code, message, hint=self.guesses[key], step=step.id, path=(what,))


def _near(name: str, known: Collection[str]) -> str:
    """The known names most like this one, as a hint."""
    if not known:
        return "there is none to choose from"
    folded = {_fold(each): each for each in known}
    if _fold(name) in folded:
        return f"did you mean {folded[_fold(name)]!r}?"
    near = difflib.get_close_matches(_fold(name), folded, n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(repr(folded[each]) for each in near) + "?"
    some = sorted(known)[:8]
    more = f" and {len(known) - 8} more" if len(known) > 8 else ""
    return "there is " + ", ".join(some) + more


def _fold(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
