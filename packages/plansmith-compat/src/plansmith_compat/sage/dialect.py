"""SAGE's plan format: a list of tool calls and replies, run in turn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Final

from plansmith.errors import ReferenceFailed
from plansmith.formats import native
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem
from plansmith.plan.refs import Ref, fill, find_refs
from plansmith.plan.run import Run, StepState, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep, AskStep, ReplyStep, ToolStep
from plansmith_compat.reading import (
    TEXT,
    choice,
    drop_entry,
    listed,
    loads,
    unwrap_literal,
    without_run,
)
from plansmith_planner import dialect
from plansmith_planner.dialect import Dialect, Reading, Writing, in_order
from plansmith_planner.parse.habits import Notes, not_a_plan, text_of

TITLE: Final = "SAGE"
_HINT: Final = Sentence(
    "give {form}",
    form='[{"type": "tool", "name": …, "arguments": {…}}, …, {"type": "reply", "text": …}]',
)
_WRAPPERS: Final = ("steps", "plan")
_OF_THE_RUN: Final = frozenset({"observations", "answer"})
# A step with one of these fields is a step of our own language.
_NATIVE: Final = frozenset({"id", "kind", "inputs", "instruction", "tool", "after"})
_RESULTS: Final = re.compile(r"\n\n\{\{[\w-]+\}\}(?:\n\{\{[\w-]+\}\})*\Z")


def recognises(value: Json) -> bool:
    """Whether a value looks like SAGE's format."""
    steps = [each for each in _steps(value) or () if isinstance(each, dict)]
    return bool(steps) and all(map(is_step, steps))


def is_step(value: Json) -> bool:
    """Whether a value is an object with the fields of a step of SAGE."""
    if not isinstance(value, dict) or value.keys() & _NATIVE:
        return False
    return value.get("type") in ("tool", "reply")


def _steps(value: Json) -> Sequence[Json] | None:
    if isinstance(value, list):
        return value if any(map(is_step, value)) else None
    if not isinstance(value, dict):
        return None
    return next((each for key in _WRAPPERS if isinstance(each := value.get(key), list)), None)


def read(value: Json) -> Reading:
    """Reads a list of SAGE's steps, bare or wrapped; keeps its order."""
    steps, notes = _steps(value), Notes()
    if steps is None:
        return Reading(None, not_a_plan(TITLE, _HINT))
    head = without_run(value, _OF_THE_RUN, notes) if isinstance(value, dict) else {}
    for name, each in head.items():
        if name not in _WRAPPERS or each is not _steps(value):
            notes.leave_out(name, each)
    made: list[dict[str, Json]] = []
    for place, raw in enumerate(steps, start=1):
        before = [str(each["id"]) for each in made]
        step = _step(raw, place, notes, before)
        if step is None:
            continue
        # It waits for the one before it: SAGE has no other order.
        used = _names(step.get("inputs") or step.get("instruction"))
        if {*before[-1:]} - used:
            step["after"] = [*before[-1:]]
        made.append(step)
    return notes.reading({"steps": [*made]})


def _step(raw: Json, place: int, notes: Notes, before: Sequence[str]) -> dict[str, Json] | None:
    """Reads one step; guesses a missing kind from its fields; None with a problem."""
    path, head = ("steps", place - 1), {"id": dialect.place_id(place)}
    if not isinstance(raw, dict):
        drop_entry(raw, place, notes, _HINT, path)
        return None
    kind = raw.get("type") or ("reply" if "text" in raw else "tool")
    if "type" not in raw:
        message = Sentence(
            "step {place} does not say its type; it is read as '{kind}'", place=place, kind=kind
        )
        notes.say(message, path=path)
    fields = ("type", "text") if kind == "reply" else ("type", "name", "arguments")
    for field in (each for each in raw if each not in fields and raw[each] is not None):
        notes.leave_out(field, raw[field], step=dialect.place_id(place))
    if kind == "reply" and text_of(raw.get("text")):
        words = dialect.data_of(text_of(raw["text"]), before)
        if before and not _names(words):
            words = f"{words}\n\n" + "\n".join(str(Ref(each)) for each in before)
        return {**head, "kind": "reply", "instruction": words}
    name, arguments = text_of(raw.get("name")), _arguments(raw.get("arguments"))
    if kind == "tool" and name and arguments is not None:
        inputs = {key: dialect.data_of(each, before) for key, each in arguments.items()}
        return {**head, "kind": "tool", "tool": name, "inputs": inputs}
    why = Sentence("it is neither call nor reply")
    if arguments is None:
        why = Sentence("its arguments are no object")
    message = Sentence("step {place} cannot be used: {why}", place=place, why=why)
    notes.drop(message, hint=_HINT, path=path)
    return None


def _arguments(value: Json) -> dict[str, Json] | None:
    if value in (None, "", "null"):
        return {}
    given = loads(value) if isinstance(value, str) else value
    return given if isinstance(given, dict) else None


def write(plan: Plan, run: Run | None = None) -> Writing:
    """Returns SAGE's list of steps; with a run, also the observations and the answer."""
    steps = in_order(plan)
    written, lost = _writable(steps)
    lost += dialect.order_losses(plan, written, title=TITLE)
    lost += dialect.id_losses(written, title=TITLE)
    head = {key: each for key, each in plan.to_json().items() if key != "steps"}
    lost += dialect.field_losses(head, ("schema_version", "revision"), title=TITLE)
    value: list[Json] = [_written(step) for step in dialect.by_place(written)]
    if run is None:
        return Writing(value, tuple(lost))
    observations: list[Json] = [*observations_of(steps, run)]
    answer: dict[str, Json] = {"plan": value, "observations": observations}
    return Writing(answer | {"answer": reply_of(written, run) or run.report}, tuple(lost))


def _writable(steps: Sequence[AnyStep]) -> tuple[list[AnyStep], list[Problem]]:
    written, lost, gone = list[AnyStep](), list[Problem](), set[str]()
    for step in steps:
        why = ""
        if step.disabled:
            why = Sentence("it is switched off")
        elif any(ref.step in gone for ref in step.input_refs()):
            why = Sentence("it needs what SAGE cannot give it")
        elif not isinstance(step, (ToolStep, ReplyStep, AskStep)):
            why = Sentence("{title} has no {kind} steps", title=TITLE, kind=step.kind)
        if isinstance(step, AskStep) or why:
            gone.add(step.id)
        if why:
            message = Sentence("{why}: the step is left out", why=why)
            lost.append(dialect.left_behind(message, step=step.id))
        else:
            written.append(step)
            lost += _step_losses(step)
    return written, lost


def _step_losses(step: AnyStep) -> Iterator[Problem]:
    fields = ("id", "kind", "after", "tool", "inputs", "instruction", "question")
    yield from dialect.field_losses(step.to_json(), fields, title=TITLE, step=step.id)
    if isinstance(step, AskStep):
        yield dialect.left_behind(
            Sentence("{title} asks nothing: the question is a reply", title=TITLE), step=step.id
        )
    elif not isinstance(step, ReplyStep):
        yield from dialect.reference_losses(step, title=TITLE)


def _written(step: AnyStep) -> Json:
    if isinstance(step, ToolStep):
        arguments = {key: _value(each) for key, each in step.inputs.items()}
        return {"type": "tool", "name": step.tool, "arguments": arguments}
    text = step.question if isinstance(step, AskStep) else str(getattr(step, "instruction", ""))
    return {"type": "reply", "text": reply_text(text)}


def reply_text(instruction: str) -> str:
    """Returns what a reply says, without the results that are added to word it from."""
    return dialect.plain_text(_RESULTS.sub("", instruction))


def _value(template: Json) -> Json:
    return dialect.plain_text(template) if isinstance(template, str) else unwrap_literal(template)


def observations_of(steps: Sequence[AnyStep], run: Run) -> Iterator[dict[str, Json]]:
    """Yields what was seen of each tool step that ended, or that waits for an argument.

    SAGE's list has no questions, so they do not count as places in it.
    """
    results = {name: each.result for name, each in run.steps.items() if _is_done(each)}
    asked = {step.id for step in steps if isinstance(step, AskStep)} - results.keys()
    listed = [step for step in steps if not isinstance(step, AskStep)]
    for place, step in enumerate(listed):
        row = _observation(step, run, results, asked) if isinstance(step, ToolStep) else {}
        if row:
            yield {"step": place, **row}


def _observation(
    step: ToolStep, run: Run, results: Mapping[str, Json], asked: set[str]
) -> dict[str, Json]:
    """Returns what was seen of a tool step; empty if it has not ended and is not held up."""
    state = run.steps.get(step.id, StepState())
    arguments: dict[str, Json] = {
        key: _filled(each, results) for key, each in step.inputs.items() if not _names(each) & asked
    }
    row: dict[str, Json] = {"tool": step.tool, "ok": _is_done(state), "arguments": arguments}
    missing = [key for key in step.inputs if key not in arguments]
    if missing and run.steps.keys() & asked:
        return {**row, "error": f"Missing required fields: {missing}"}
    if state.status not in (StepStatus.DONE, StepStatus.FAILED, StepStatus.UNKNOWN):
        return {}
    began, ended = state.started_at, state.finished_at
    row["latency_ms"] = round((ended - began).total_seconds() * 1000) if began and ended else 0
    if _is_done(state):
        return {**row, "result": state.result}
    return {**row, "error": state.error}


def _is_done(state: StepState) -> bool:
    return state.status is StepStatus.DONE


def _names(template: Json) -> set[str]:
    return {found.ref.step for found in find_refs(template) if found.ref is not None}


def _filled(template: Json, results: Mapping[str, Json]) -> Json:
    """Returns an argument with the results it uses; as written where one is missing."""
    try:
        return fill(template, results)
    except ReferenceFailed:
        return _value(template)


def reply_of(steps: Sequence[AnyStep], run: Run) -> str:
    """Returns the last reply that was said; empty if none was."""
    replies = [run.steps.get(step.id) for step in steps if isinstance(step, ReplyStep)]
    texts = [text_of(state.result) for state in replies if state is not None and _is_done(state)]
    return texts[-1] if texts else ""


def schema() -> dict[str, Json]:
    """Returns the JSON Schema of a SAGE plan in an object, since many decoders need one."""
    fields: dict[str, Json] = {
        "type": choice("tool", "reply"),
        "name": TEXT,
        "arguments": {"type": "object"},
        "text": TEXT,
    }
    return native.plan_schema("SAGE plan", {"steps": listed(native.closed(fields, ["type"]))})


_PROMPT: Final = files("plansmith_compat.sage") / "prompts" / "sage.md"
DIALECT: Final = Dialect("sage", TITLE, recognises, read, write, schema, _PROMPT, turn=5)
