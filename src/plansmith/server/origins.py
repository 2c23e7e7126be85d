"""Origins: where each argument of a plan came from: person, program, model, step, default."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from plansmith.plan import events as e
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json, same
from plansmith.plan.plan import Plan
from plansmith.plan.refs import FROM, find
from plansmith.plan.steps import AnyStep, MapStep, ToolStep

PERSON: Final = "person"
PROGRAM: Final = "program"
MODEL: Final = "model"
DEFAULT: Final = "default"
_SHORTEST: Final = 2
Leaves = dict[str, Json]
Origins = dict[str, dict[str, str]]


def origins(events: Sequence[e.Event], tools: Mapping[str, ToolSpec]) -> Origins:
    """The origin of every argument of the current plan, by step and place."""
    found, before = Origins(), dict[str, Leaves]()
    said = {PERSON: "", PROGRAM: ""}
    for event in events:
        speaker = PROGRAM if event.by.kind == "program" else PERSON
        match event.body:
            case e.RunCreated(request=text) | e.ChangesAsked(text=text):
                said[speaker] += f"\n{text.casefold()}"
            case e.QuestionAnswered(answer=answer) if answer is not None:
                said[speaker] += f"\n{_text(answer)}"
            case e.PlanProposed(plan=plan, origin=origin):
                leaves = {step.id: dict(_leaves(step)) for step in plan.steps}
                writer = speaker if origin in ("person", "submitted") else ""
                found = _carried(plan, leaves, before, found, (said, writer, tools))
                before = leaves
            case _:
                pass
    return found


def plan_origins(plan: Plan, known: Plan | None, origins_: Origins) -> Origins:
    """The origins in a plan that a person is editing: what differs is the person's."""
    before = {step.id: dict(_leaves(step)) for step in known.steps} if known else {}
    leaves = {step.id: dict(_leaves(step)) for step in plan.steps}
    return _carried(plan, leaves, before, origins_, ({}, PERSON, {}))


def _carried(
    plan: Plan,
    leaves: Mapping[str, Leaves],
    before: Mapping[str, Leaves],
    known: Origins,
    about: tuple[Mapping[str, str], str, Mapping[str, ToolSpec]],
) -> Origins:
    """What is as it was keeps its origin; what is new has one of its own."""
    said, writer, tools = about
    result: Origins = {}
    for step in plan.steps:
        old, marks = before.get(step.id, {}), known.get(step.id, {})
        result[step.id] = {
            place: marks[place]
            if place in marks and place in old and same(old[place], value)
            else _origin(value, said, writer=writer, default=_default(step, place, tools))
            for place, value in leaves[step.id].items()
        }
    return result


def _origin(value: Json, said: Mapping[str, str], *, writer: str, default: Json) -> str:
    refs = [found.ref for found in find(value) if found.ref is not None]
    if refs:
        return f"step:{refs[0].step}"
    if writer:
        return writer
    text = _text(value)
    speaker = next((who for who, words in said.items() if text in words), "")
    if len(text) >= _SHORTEST and speaker:
        return speaker
    return DEFAULT if default is not None and same(default, value) else MODEL


def _default(step: AnyStep, place: str, tools: Mapping[str, ToolSpec]) -> Json:
    """What the tool itself would take for this argument."""
    inner = step.each if isinstance(step, MapStep) else step
    if not isinstance(inner, ToolStep) or inner.tool not in tools:
        return None
    name = place.removeprefix("each.").removeprefix("inputs.")
    schema = cast("dict[str, dict[str, dict[str, Json]]]", tools[inner.tool].input_schema)
    form = (schema.get("properties") or {}).get(name)
    return form.get("default") if isinstance(form, dict) else None


def _leaves(step: AnyStep) -> Iterator[tuple[str, Json]]:
    """Every value of a step that stands for itself: texts, numbers, references."""
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
