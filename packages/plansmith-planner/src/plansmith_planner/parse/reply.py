"""Reads a plan from a model's text, with a note on everything that was interpreted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final, cast

from plansmith.errors import UnreadableText
from plansmith.formats.native import read
from plansmith.plan.data import MAX_DEPTH, Json, is_deep
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import KINDS
from plansmith_planner.dialect import Reading, dialect, recognise
from plansmith_planner.parse.habits import decides, snake
from plansmith_planner.parse.normalize import Shape
from plansmith_planner.parse.read import read_json

_WRAPPERS: Final = ("steps", "plan", "tasks", "execution_plan", "calls")
_TOO_DEEP: Final = Sentence("values are nested more than {most} levels deep", most=MAX_DEPTH)
_MARKS: Final = ("tool", "agent", "question", "instruction", "over", "template", "tool_to_use")
_THOUGHT: Final = re.compile(
    r"<(think|thinking|reasoning|thought)>(?:(?!<\1>).)*?</\1>", re.IGNORECASE | re.DOTALL
)
# As a field of an object: the same words inside a text, such as a thought, say nothing.
_REFUSAL: Final = re.compile(
    r"[{,]\s*[\"'“]?(adequate|has_?enough_?context)[\"'”]?\s*[:：]\s*[\"'“]?(?:false|no)\b",
    re.IGNORECASE,
)


def parse(text: str, *, goal: str = "", locale: str = "en", shape: str = "") -> Reading:
    """Reads the plan in a text; `goal` and `locale` are used if the text has none.

    `shape` is the dialect that the model was asked for; other dialects are recognised too.
    """
    try:
        value = read_json(text, fits=plan_fit)
    except UnreadableText as error:
        return Reading(None, (_no_plan(text, error.message),))
    reading = parse_value(value, goal=goal, locale=locale, text=text, shape=shape)
    unread = [] if is_deep(value) else _unread_refusals(text, value)
    return Reading(reading.plan, (*reading.problems, *unread))


async def parse_answer(text: str, *, goal: str, locale: str, shape: str) -> Reading:
    """Reads the plan in an answer; a long one in a thread, so that the event loop goes on."""
    if len(text) <= 10_000:
        return parse(text, goal=goal, locale=locale, shape=shape)
    return await asyncio.to_thread(parse, text, goal=goal, locale=locale, shape=shape)


def parse_value(
    value: Json, *, goal: str = "", locale: str = "en", text: str = "", shape: str = ""
) -> Reading:
    """Reads a plan from a value of any usual shape.

    What a dialect recognises it also reads, or its problems stand: a more generous reader would
    drop what it does not know, such as a refusal.
    """
    if is_deep(value):
        return Reading(None, (_no_plan(text, _TOO_DEEP),))
    steps, head = _unwrap(value)
    ours = any(isinstance(step, dict) and step.get("kind") in KINDS for step in steps or ())
    reading = _foreign(value, shape, other=not ours)
    if reading is not None:
        plan = reading.plan
        if plan is None:
            return reading
        own = locale if plan.locale == "en" else plan.locale
        return Reading(plan.replace(goal=plan.goal or goal, locale=own), reading.problems)
    reader = Shape()
    fields = reader.head(head)
    made = [reader.step(step, place) for place, step in enumerate(steps or (), start=1)]
    none = _no_plan(text or str(value), Sentence("there is no list of steps in it"))
    # An object may say that it has no steps; an empty list may be anything.
    if steps is None or (not any(made) and (steps or steps is value)):
        return Reading(None, (none, *reader.problems))
    document: dict[str, Json] = {"goal": goal, "locale": locale}
    document |= fields
    document["steps"] = reader.settle([step for step in made if step is not None])
    made_of = read(document)
    if isinstance(made_of, Plan):
        return Reading(made_of, tuple(reader.problems))
    found = _without_bad_parts(document, made_of, reader.problems)
    return found if found.plan is not None else Reading(None, (none, *found.problems))


def read_plan_value(text: str) -> Json:
    """Returns the JSON value in a text; one nested too deeply for readers of plans is none."""
    value = read_json(text)
    if is_deep(value):
        raise UnreadableText(_TOO_DEEP)
    return value


def _foreign(value: Json, shape: str, *, other: bool) -> Reading | None:
    """Reads a value in another system's shape; None if it has none.

    With `other`, it may also have another shape than the one that was asked for.
    """
    # The value and the plan objects inside it, each with the fields around it.
    layers: list[Json] = []
    for _ in range(4):
        only = value[0] if isinstance(value, list) and len(value) == 1 else None
        if isinstance(only, dict) and only.keys() & _WRAPPERS:
            value = only  # a whole plan in a list is no list of steps
        layers.append(value)
        inner = _wrapped(value) if isinstance(value, dict) else None
        if inner is None:
            break
        value = inner
    if shape:
        asked = dialect(shape)
        known = next((layer for layer in layers if asked.recognises(layer)), None)
        if known is not None:
            return asked.read(known)
        readings = (asked.read(layer) for layer in layers if other)
        found = next((each for each in readings if each.plan is not None), None)
        if found is not None:
            return found
    named = ((recognise(layer), layer) for layer in layers if other)
    return next((dialect(name).read(layer) for name, layer in named if name), None)


def _wrapped(value: dict[str, Json]) -> dict[str, Json] | None:
    """Returns the plan object inside another, with the fields around it; None if there is none."""
    inner = {name: each for name, each in value.items() if isinstance(each, dict)}
    names: list[str] = [name for name in _WRAPPERS if name in inner]
    names = names or [*inner] * (len(value) == 1)
    if not names:
        return None
    around = {name: each for name, each in value.items() if name != names[0]}
    return _merged(around, inner[names[0]])


def _merged(around: dict[str, Json], inner: dict[str, Json]) -> dict[str, Json]:
    """Returns the fields of an object and of the one around it; of two, a refusal stands."""
    firm = {name: each for name, each in around.items() if decides(name, each)}
    return around | inner | firm


def _unread_refusals(text: str, value: Json) -> list[Problem]:
    """Returns an error for each refusal that the text has and the value read from it has not."""
    refusals = {snake(found[1]) for found in _REFUSAL.finditer(_THOUGHT.sub("", text))}
    todo: list[Json] = [value] if refusals else []
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            refusals -= {snake(name) for name, inner in each.items() if decides(name, inner)}
            todo += each.values()
        elif isinstance(each, list):
            todo += each
    hint, found = Sentence("write the plan again"), list[Problem]()
    for name in sorted(refusals):
        no = Sentence(
            "the text says '{name}': false, and the plan that was read does not", name=name
        )
        found.append(problem("PS005", no, hint=hint, path=(name,)))
    return found


def plan_fit(value: Json) -> float:
    """Rates how much a value looks like a plan: share and number of steps."""
    steps, head = _unwrap(value)
    if not steps or not any(isinstance(step, dict) for step in steps):
        texts = [value.get(name) for name in _WRAPPERS] if isinstance(value, dict) else []
        as_text = any(isinstance(each, str) and each.lstrip().startswith("[") for each in texts)
        return 1.0 * (recognise(value) is not None) + 1.5 * as_text
    known = recognise(value) is not None
    good = sum(known or _looks_like_step(step) for step in steps)
    wrapped = value is not steps and isinstance(value, dict) and steps[0] is not value
    return good / len(steps) + min(good, 50) / 100 + wrapped / 2 + ("goal" in head) / 4


def _looks_like_step(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    kind = value.get("kind", value.get("type"))
    return kind in KINDS or any(mark in value for mark in _MARKS) or {"id", "title"} <= value.keys()


def _unwrap(value: Json) -> tuple[Sequence[Json] | None, dict[str, Json]]:
    """Returns the list of steps in a value, and the fields beside it."""
    head: dict[str, Json] = {}
    for _ in range(4):
        if isinstance(value, list):
            return value, head
        if not isinstance(value, dict):
            return None, head
        wrapper = next((key for key in _WRAPPERS if isinstance(value.get(key), (list, dict))), None)
        if wrapper is None:
            return ([value], head) if _looks_like_step(value) else (None, head)
        head = _merged(head, {key: each for key, each in value.items() if key != wrapper})
        value = value[wrapper]
    return None, head


def _without_bad_parts(
    document: dict[str, Json], found: list[Problem], notes: list[Problem]
) -> Reading:
    """Removes the parts that cannot be read, with a problem for each."""
    steps = cast("list[dict[str, Json]]", document["steps"])
    bad_steps = {each.step for each in found if each.step is not None}
    bad_fields = {each.path[0] for each in found if each.step is None and each.path} - {"steps"}
    kept: list[Json] = [step for step in steps if step["id"] not in bad_steps]
    head = {name: each for name, each in document.items() if name not in bad_fields}
    plan = read(head | {"steps": kept}) if kept or not steps else None
    problems = [*notes]
    for each in found:
        name = str(each.path[0]) if each.step is None and each.path else ""
        if name in bad_fields and decides(name, document[name]):
            problems.append(each)
        elif name in bad_fields:
            message = Sentence("{problem}; it is left out", problem=each.message)
            problems.append(problem("PS013", message, hint=each.hint, path=each.path))
    problems += [each for each in found if each.step is not None]
    hint = Sentence("write the step again")
    for name in sorted(map(str, bad_steps)):
        message = Sentence("the step '{name}' cannot be read and is left out", name=name)
        problems.append(problem("PS014", message, hint=hint, step=name))
    return Reading(plan if isinstance(plan, Plan) else None, tuple(problems))


def _no_plan(text: str, why: str) -> Problem:
    fields = {"reason": why, "text": " ".join(text.split())[:200]}
    form = '{"goal": …, "steps": […]}'
    hint = Sentence("answer with one JSON object {example} and nothing else", example=form)
    no_plan = Sentence("no plan could be read: {reason}; the text begins '{text}'", **fields)
    return problem("PS001", no_plan, hint=hint)
