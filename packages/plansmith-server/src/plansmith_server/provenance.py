"""Finds where each argument of a plan comes from: person, request, model or template."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from plansmith.app import Plansmith
from plansmith.errors import PlansmithError
from plansmith.plan import events as e
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json, same
from plansmith.plan.plan import Plan
from plansmith.plan.refs import FROM, find_refs
from plansmith.plan.steps import RULES, AnyStep, ToolStep

Origins = dict[str, dict[str, str]]
Tools = Mapping[str, ToolSpec]


class Known(NamedTuple):
    """A plan version, and where each of its arguments comes from, by step and place."""

    plan: Plan | None = None
    marks: Origins = {}


async def run_origins(smith: Plansmith, events: Sequence[e.Event], tools: Tools) -> Origins:
    """Returns the origins in a run's plan; values of an earlier run keep their origin there."""
    return (await _known_of(smith, events, tools, 0)).marks


async def _known_of(smith: Plansmith, events: Sequence[e.Event], tools: Tools, depth: int) -> Known:
    created = events[0].body if events else None
    first = next((each.body for each in events if isinstance(each.body, e.PlanProposed)), None)
    before = Known()
    if isinstance(created, e.RunCreated) and first is not None and depth < 20:
        made = created.origin
        if first.origin == "rerun" and made.kind == "run":  # if that run still exists
            found = await smith.store.events(made.id)
            before = await _known_of(smith, found, tools, depth + 1)
        elif first.origin == made.kind == "template":
            try:
                template = (await smith.templates.get(made.id)).plan
                before = _next(template, Known(), "template", {}, tools)
            except PlansmithError:
                pass  # it was removed
    return known_after(events, tools, before)


def known_after(events: Sequence[e.Event], tools: Tools, known: Known) -> Known:
    """Returns the plan after events, and where each of its arguments comes from."""
    texts = {"request": "", "program": ""}
    for event in events:
        by_program = event.by.kind == "program"
        speaker = "program" if by_program else "request"
        match event.body:
            case e.RunCreated(request=text) | e.ChangesAsked(text=text):
                texts[speaker] += f"\n{text.casefold()}"
            case e.QuestionAnswered(answer=answer) if answer is not None:
                texts[speaker] += f"\n{_text(answer)}"
            case e.PlanProposed(plan=plan) as body:
                maker: str = body.origin
                if maker == "person" or (maker == "rerun" and known.plan):
                    # New values were entered, also when the run was repeated.
                    maker = "program" if by_program else "person"
                elif maker == "template" and known.plan:
                    maker = "parameter"
                known = _next(plan, known, maker, texts, tools)
            case _:
                pass
    return known


def plan_origins(plan: Plan, known: Plan | None, marks: Origins) -> Origins:
    """Returns the origins in a plan that a person is editing: changed values are the person's."""
    return _next(plan, Known(known, marks), "person", {}, {}).marks


def _next(plan: Plan, known: Known, maker: str, texts: Mapping[str, str], tools: Tools) -> Known:
    """Returns the origins in the next version of a plan: unchanged values keep theirs."""
    olds = {step.id: dict(_leaves(step)) for step in known.plan.steps} if known.plan else {}
    marks: Origins = {}
    for step in plan.steps:
        old, before = olds.get(step.id, {}), known.marks.get(step.id, {})
        marks[step.id] = {
            place: before[place]
            if place in before and place in old and same(old[place], value)
            else _origin(value, texts, maker, step, place, tools)
            for place, value in _leaves(step)
        }
    return Known(plan, marks)


def _origin(
    value: Json, texts: Mapping[str, str], maker: str, step: AnyStep, place: str, tools: Tools
) -> str:
    refs = [found.ref for found in find_refs(value) if found.ref is not None]
    if refs:
        return f"step:{refs[0].step}"
    if maker not in ("model", "rules"):
        return maker
    text = _text(value)
    speaker = next((who for who, known in texts.items() if text in known), "")
    if len(text) >= 2 and speaker:
        return speaker
    # Perhaps the default of the argument in the tool's schema.
    inner = step.inner
    if not isinstance(inner, ToolStep) or inner.tool not in tools:
        return maker
    name = place.removeprefix("each.").removeprefix("inputs.")
    known = cast("dict[str, Json]", tools[inner.tool].input_schema.get("properties") or {})
    form = known.get(name)  # of a schema `true` nothing is known
    default = form.get("default") if isinstance(form, dict) else None
    return "default" if default is not None and same(default, value) else maker


def _leaves(step: AnyStep) -> Iterator[tuple[str, Json]]:
    """Yields every single value of a step with its place: texts, numbers, references."""
    for path, template in step.values_with_refs():
        if RULES.isdisjoint(path[:2]):
            yield from _walk(".".join(map(str, path)), template)


def _walk(place: str, value: Json) -> Iterator[tuple[str, Json]]:
    if isinstance(value, dict) and FROM not in value and value:
        for key, child in value.items():
            yield from _walk(f"{place}.{key}", child)
    elif isinstance(value, list) and value:
        for index, child in enumerate(value):
            yield from _walk(f"{place}.{index}", child)
    else:
        yield place, value


def _text(value: Json) -> str:
    whole = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return whole.casefold()
