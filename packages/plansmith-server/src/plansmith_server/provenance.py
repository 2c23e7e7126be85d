"""Finds where each argument of a plan comes from: person, request, model or template."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from plansmith.app import Plansmith
from plansmith.errors import PlansmithError
from plansmith.plan import events as e
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json, same
from plansmith.plan.plan import Plan
from plansmith.plan.refs import FROM, find
from plansmith.plan.run_options import Origin
from plansmith.plan.steps import AnyStep, MapStep, ToolStep
from plansmith.ports import Records

PERSON: Final = "person"
REQUEST: Final = "request"
PROGRAM: Final = "program"
PARAMETER: Final = "parameter"
EARLIER: Final = "rerun"
DEFAULT: Final = "default"
_SHORTEST: Final = 2
_DEEPEST: Final = 20
_MAKERS: Final = ("model", "rules")
Leaves = dict[str, Json]
Origins = dict[str, dict[str, str]]


@dataclass(slots=True)
class Known:
    """The arguments of a plan version, and where each comes from."""

    leaves: dict[str, Leaves] = field(default_factory=dict[str, Leaves])
    marks: Origins = field(default_factory=Origins)


async def run_origins(
    smith: Plansmith, events: Sequence[e.Event], tools: Mapping[str, ToolSpec]
) -> Origins:
    """Returns the origins in a run's plan; values of an earlier run keep their origin there."""
    return (await _known_of(smith, events, tools, 0)).marks


def origins(
    events: Sequence[e.Event], tools: Mapping[str, ToolSpec], before: Known | None = None
) -> Origins:
    """Returns the origin of every argument of the current plan, by step and place.

    `before` describes the plan that the first one was made from.
    """
    return _known(events, tools, before or Known()).marks


def _known(events: Sequence[e.Event], tools: Mapping[str, ToolSpec], known: Known) -> Known:
    texts = {REQUEST: "", PROGRAM: ""}
    for event in events:
        speaker = PROGRAM if event.by.kind == "program" else REQUEST
        match event.body:
            case e.RunCreated(request=text) | e.ChangesAsked(text=text):
                texts[speaker] += f"\n{text.casefold()}"
            case e.QuestionAnswered(answer=answer) if answer is not None:
                texts[speaker] += f"\n{_text(answer)}"
            case e.PlanProposed(plan=plan):
                known = _next(plan, known, _maker(event, event.body, known), texts, tools)
            case _:
                pass
    return known


def _maker(event: e.Event, body: e.PlanProposed, known: Known) -> str:
    """Returns the origin of the values that are new in a plan."""
    editor = PROGRAM if event.by.kind == "program" else PERSON
    match body.origin:
        case "person":
            return editor
        case "rerun":  # new values were entered when the run was repeated
            return editor if known.leaves else EARLIER
        case "template":
            return PARAMETER if known.leaves else "template"
        case _:
            return body.origin


async def _known_of(
    smith: Plansmith, events: Sequence[e.Event], tools: Mapping[str, ToolSpec], depth: int
) -> Known:
    created = events[0].body if events else None
    first = next((each.body for each in events if isinstance(each.body, e.PlanProposed)), None)
    before = Known()
    if isinstance(created, e.RunCreated) and first is not None and depth < _DEEPEST:
        if first.origin == "rerun":
            before = await _earlier(smith, created.origin, tools, depth + 1)
        elif first.origin == "template":
            before = await _template(smith, created.origin, tools)
    return _known(events, tools, before)


async def _earlier(
    smith: Plansmith, origin: Origin, tools: Mapping[str, ToolSpec], depth: int
) -> Known:
    """Returns the origins in the plan of the run that this one repeats, if it still exists."""
    events = await smith.store.events(origin.id) if origin.kind == "run" else ()
    wanted = [each for each in events if not origin.event or each.number <= origin.event]
    return await _known_of(smith, wanted, tools, depth)


async def _template(smith: Plansmith, origin: Origin, tools: Mapping[str, ToolSpec]) -> Known:
    """Returns the values of the template; others were put in as parameters."""
    if origin.kind != "template" or not isinstance(smith.store, Records):
        return Known()
    try:
        template = await smith.templates.get(origin.id)
    except PlansmithError:
        return Known()
    return _next(template.plan, Known(), "template", {}, tools)


def plan_origins(plan: Plan, known: Plan | None, origins_: Origins) -> Origins:
    """Returns the origins in a plan that a person is editing: changed values are the person's."""
    before = {step.id: dict(_leaves(step)) for step in known.steps} if known else {}
    return _next(plan, Known(before, origins_), PERSON, {}, {}).marks


def _next(
    plan: Plan,
    known: Known,
    maker: str,
    texts: Mapping[str, str],
    tools: Mapping[str, ToolSpec],
) -> Known:
    """Returns the origins in the next version of a plan: unchanged values keep theirs."""
    leaves = {step.id: dict(_leaves(step)) for step in plan.steps}
    marks: Origins = {}
    for step in plan.steps:
        old, before = known.leaves.get(step.id, {}), known.marks.get(step.id, {})
        marks[step.id] = {
            place: before[place]
            if place in before and place in old and same(old[place], value)
            else _origin(value, texts, maker, _default(step, place, tools))
            for place, value in leaves[step.id].items()
        }
    return Known(leaves, marks)


def _origin(value: Json, texts: Mapping[str, str], maker: str, default: Json) -> str:
    refs = [found.ref for found in find(value) if found.ref is not None]
    if refs:
        return f"step:{refs[0].step}"
    if maker not in _MAKERS:
        return maker
    text = _text(value)
    speaker = next((who for who, known in texts.items() if text in known), "")
    if len(text) >= _SHORTEST and speaker:
        return speaker
    return DEFAULT if default is not None and same(default, value) else maker


def _default(step: AnyStep, place: str, tools: Mapping[str, ToolSpec]) -> Json:
    """Returns the default of the argument in the tool's schema."""
    inner = step.each if isinstance(step, MapStep) else step
    if not isinstance(inner, ToolStep) or inner.tool not in tools:
        return None
    name = place.removeprefix("each.").removeprefix("inputs.")
    schema = cast("dict[str, dict[str, dict[str, Json]]]", tools[inner.tool].input_schema)
    form = (schema.get("properties") or {}).get(name)
    return form.get("default") if isinstance(form, dict) else None


def _leaves(step: AnyStep) -> Iterator[tuple[str, Json]]:
    """Yields every single value of a step with its place: texts, numbers, references."""
    for path, template in step.templates():
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
