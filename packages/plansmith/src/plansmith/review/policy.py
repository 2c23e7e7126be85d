"""Decides when a person has to review a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from plansmith.check.arguments import Placeholders
from plansmith.plan import steps as st
from plansmith.plan.capability import Capabilities, Effect, is_freed
from plansmith.plan.conditions import when_sentence
from plansmith.plan.earlier import source_name
from plansmith.plan.plan import Plan
from plansmith.plan.refs import RESERVED, find_refs, is_earlier, value_line
from plansmith.plan.sentence import Sentence
from plansmith.review.settings import MAX_ITEMS, ReviewPolicy
from plansmith.text import clip


class ActiveStep(msgspec.Struct, frozen=True):
    """A step that would run, its plan, and the map steps around it, the innermost last.

    `root` is the step of the outermost plan that it is or belongs to. `limits` say under which
    conditions and how often it and the steps around it run. `times` is how often it runs at most: a
    list that is not known yet counts as `most` items of its map step, or else as `MAX_ITEMS`.
    """

    root: str
    step: st.AnyStep
    plan: Plan
    maps: tuple[tuple[st.MapStep, Plan], ...] = ()
    limits: tuple[Sentence, ...] = ()
    times: int = 1


class ActingCall(NamedTuple):
    """A call of a plan that changes something: the step that makes it, the callee, its effect."""

    active: ActiveStep
    callee: str
    effect: Effect


def acting_calls(plan: Plan, capabilities: Capabilities) -> tuple[ActingCall, ...]:
    """Returns the calls of a plan that change something."""
    return tuple(
        ActingCall(active, active.step.callee, effect)
        for active in walk_active_steps(plan, capabilities.templates)
        if (effect := capabilities.effect(active.step)) is not Effect.READ
    )


def reasons_to_ask(
    plan: Plan, policy: ReviewPolicy, changes: Iterable[ActingCall]
) -> tuple[str, ...]:
    """Returns the reasons why a person must review a plan; empty if it may run at once."""
    reasons: list[str] = [
        _reason(each, policy)
        for each in changes
        if not is_freed(each.callee, each.effect, policy.never_for)
    ]
    if plan.degraded:
        reasons.append(Sentence("review.degraded"))
    if policy.ask == "always" and not reasons:
        reasons = [Sentence("review.always")]
    if policy.second_person == "always" and not reasons:
        reasons = [Sentence("review.second_person")]
    return tuple(reasons)


def _reason(change: ActingCall, policy: ReviewPolicy) -> Sentence:
    """Says what a step would do, with which values, and how often."""
    active, tool, effect = change
    step, plan = active.step, active.plan
    sources: list[str] = []
    for name in dict.fromkeys(ref.step for ref in step.input_refs() if ref.step not in RESERVED):
        source = plan.by_id.get(name)
        if is_earlier(name):
            sources.append(source_name(name))
        elif not isinstance(source, st.AskStep):
            title = clip(source.title, 60) if source and source.title else ""
            code = "review.step_titled" if title else "review.step"
            sources.append(Sentence(code, name=name, **({"title": title} if title else {})))
    items = [*(_how_often(each, around, policy) for each, around in active.maps), *active.limits]
    # The file that it writes, if the plan names it; both files of a copy or a move.
    given = Placeholders(step.inputs if isinstance(step, st.ToolStep) else {})
    inputs = given.value if isinstance(given.value, dict) else {}
    overwrites = inputs.get("overwrite") is True
    names = ("path", "file", "filename", "to")
    known = (inputs.get(name) for name in names if not given.has_placeholders((name,)))
    files = [each for each in known if isinstance(each, str)]
    if overwrites:
        files = files[-1:]
    elif not any(map(inputs.get, names[:3])):
        files = []  # `to` alone may be a person
    file = " → ".join(files)
    kind = "final" if effect is Effect.FINAL else "replace" if file and overwrites else "write"
    return Sentence(
        f"review.{kind}_file" if file else f"review.{kind}",
        step=step.id,
        tool=tool,
        sources=Sentence("review.sources", steps=sources) if sources else "",
        items=Sentence("review.items", items=items) if items else "",
        **({"file": file} if file else {}),
    )


def _how_often(step: st.MapStep, plan: Plan, policy: ReviewPolicy) -> Sentence:
    if isinstance(step.over, list):
        return Sentence("review.each_of", count=len(step.over))
    over = value_line(step.over)
    names = {found.ref.step for found in find_refs(step.over) if found.ref is not None}
    # A list that comes from the plan or a person is as long as they want it.
    if all(isinstance(plan.by_id.get(name), st.AskStep) for name in names):
        return Sentence("review.each", list=over)
    return Sentence("review.each_bounded", list=over, most=step.most or policy.most_items)


def active_steps(plan: Plan, templates: Mapping[str, Plan]) -> Iterator[st.AnyStep]:
    """Yields every step that would run, also inside templates and map steps."""
    return (active.step for active in walk_active_steps(plan, templates))


def walk_active_steps(
    plan: Plan, templates: Mapping[str, Plan], outer: ActiveStep | None = None, depth: int = 0
) -> Iterator[ActiveStep]:
    """Yields every step that would run, with what is around it."""
    maps, limits = (outer.maps, outer.limits) if outer else ((), ())
    for step in plan.steps:
        if step.disabled:
            continue
        around = (*maps, (step, plan)) if step.kind == "map" else maps
        inner: st.AnyStep = step.inner
        within = (*limits, *_limits(step), *(_limits(inner) if inner is not step else ()))
        times = _times(step) * (outer.times if outer else 1)
        active = ActiveStep(outer.root if outer else step.id, inner, plan, around, within, times)
        yield active
        if inner.kind == "plan" and inner.template in templates and depth < st.MAX_NESTING:
            yield from walk_active_steps(templates[inner.template], templates, active, depth + 1)


def _times(step: st.AnyStep) -> int:
    rounds = step.repeat.at_most if step.repeat is not None else 1
    if step.kind != "map":
        return rounds
    items = len(step.over) if isinstance(step.over, list) else step.most or MAX_ITEMS
    return rounds * items * _times(step.each)


def _limits(step: st.StepFields) -> Iterator[Sentence]:
    """Yields under which condition and how often a step runs, where it says so."""
    if step.repeat is not None:
        yield Sentence("review.rounds", most=step.repeat.at_most)
    if step.when is not None:
        yield when_sentence(step.when)


def acting_steps(changes: Iterable[ActingCall]) -> tuple[str, ...]:
    """Returns the steps of a plan that change something, themselves or in a part, in its order."""
    return tuple(dict.fromkeys(each.active.root for each in changes))
