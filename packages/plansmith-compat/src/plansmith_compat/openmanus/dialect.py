"""OpenManus' plan format: a title and steps in words, with status, notes and agent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Final

from plansmith.formats import native
from plansmith.plan import steps as s
from plansmith.plan.conditions import rule_sentences
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem
from plansmith.plan.refs import escape_text, find_refs, value_text
from plansmith.plan.run import Run, StepState, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep, AskStep, ReplyStep, ToolStep
from plansmith.text import clip
from plansmith_compat.reading import TEXT, choice, drop_entry, listed, loads, unwrap_literal
from plansmith_planner import dialect
from plansmith_planner.dialect import PRIMARY, Dialect, Reading, Writing, in_order
from plansmith_planner.parse.habits import Notes, not_a_plan, objects, raw_text, text_of

NAME: Final = "openmanus"
TITLE: Final = "OpenManus"
FUNCTION: Final = "planning"
NOT_STARTED: Final = "not_started"
STATUSES: Final[Mapping[StepStatus, str]] = dict.fromkeys(StepStatus, "blocked") | {
    StepStatus.WAITING: NOT_STARTED,
    StepStatus.READY: NOT_STARTED,
    StepStatus.RUNNING: "in_progress",
    StepStatus.DONE: "completed",
}
_HINT: Final = Sentence("give {form}", form='{"title": …, "steps": ["[agent] what to do", …]}')
_FIELDS: Final = ["command", "plan_id", "title", "steps", "step_statuses", "step_notes", "name"]
_NAMES: Final = ("title", "plan_id", "command")
_TEXTS: Final = ("step", "text", "title", "description", "content", "name")
_MAX_RESULT: Final = 2000
_NOTHING: Final = '{{""}}'  # a task has a text: this one is empty when it is filled in
_NUMBERED: Final = re.compile(r"^\s*(?:[-*•]|\d+[.)、:])\s+")
_LEADING_TAG: Final = re.compile(r"\[([^\W\d][\w-]*)\] (?=\s*\S)")
_CAPITAL_TAG: Final = re.compile(r"\[([A-Z][A-Z_]+)\]")


def recognises(value: Json) -> bool:
    """Whether a value looks like a plan of OpenManus' planning tool."""
    fields = _fields(value) if isinstance(value, dict) else None
    if fields is None:
        return False
    steps = fields.get("steps")
    named = any(fields.get(name) for name in _NAMES)
    texts = isinstance(steps, list) and all(isinstance(each, str) for each in steps)
    return bool(named and steps and texts)


def _fields(value: Json) -> dict[str, Json] | None:
    """Returns the arguments of the planning function, also from a whole call of it."""
    for _ in range(4):
        if isinstance(value, str):
            value = loads(value)
        if not isinstance(value, dict):
            return None
        calls = value.get("tool_calls")
        inner = value.get("function", value.get("arguments"))
        if isinstance(calls, list) and calls:
            value = next((each for each in calls if not _is_other_call(each)), None)
        elif _is_other_call(value):
            return None
        elif "steps" not in value and inner is not None:
            value = value["arguments"] if isinstance(inner, str) and "arguments" in value else inner
        else:
            return value
    return None


def _is_other_call(value: Json) -> bool:
    call = value.get("function", value) if isinstance(value, dict) else None
    if not isinstance(call, dict) or "arguments" not in call:
        return False
    return call.get("name") not in (None, "", FUNCTION)


def read(value: Json) -> Reading:
    """Reads a call of the planning function, or a stored plan."""
    fields = _fields(value)
    notes = Notes()
    texts = _texts(fields, notes) if fields is not None else None
    if fields is None or not texts:
        return Reading(None, not_a_plan(TITLE, _HINT))
    for name, each in fields.items():
        if name not in _FIELDS:
            notes.leave_out(name, each)
    calls = value.get("tool_calls") if isinstance(value, dict) else None
    if isinstance(calls, list) and len(calls) > 1:
        message = Sentence("only the first of {count} calls is read as the plan", count=len(calls))
        notes.say(message, path=("tool_calls",))
    if any(each != NOT_STARTED for each in objects(fields.get("step_statuses")) or ()):
        notes.say(Sentence("'step_statuses' belong to a run and not to a plan: they are left out"))
    remarks = objects(fields.get("step_notes")) or []
    document: dict[str, Json] = {"goal": raw_text(fields.get("title")), "steps": []}
    if fields.get("plan_id"):
        document["id"] = text_of(fields["plan_id"])
    document["steps"] = [*plan_steps(texts, [text_of(each) for each in remarks])]
    return notes.reading(document)


def _texts(fields: Mapping[str, Json], notes: Notes) -> dict[str, str] | None:
    """Returns the step texts by id, from texts, objects, or one text with a line per step."""
    steps = fields.get("steps")
    if isinstance(steps, str) and steps.lstrip().startswith("["):
        steps = objects(steps)
    if isinstance(steps, str) and any(fields.get(name) for name in _NAMES):
        lines = [_NUMBERED.sub("", line).strip() for line in steps.splitlines()]
        steps = [line for line in lines if line]
        notes.say(Sentence("the steps are one text: a line is read as a step"), path=("steps",))
    if not isinstance(steps, list):
        return None
    found: dict[str, str] = {}
    for place, step in enumerate(steps, start=1):
        path = ("steps", place - 1)
        text = step if isinstance(step, str) else ""
        if isinstance(step, dict):
            text = _text_in(step, place, notes)
        if text.strip():
            found[dialect.place_id(place)] = text
        elif isinstance(step, (str, dict)):
            notes.drop(Sentence("step {place} is empty", place=place), hint=_HINT, path=path)
        else:
            drop_entry(step, place, notes, _HINT, path)
    return found


def _text_in(step: Mapping[str, Json], place: int, notes: Notes) -> str:
    name = next((each for each in _TEXTS if text_of(step.get(each))), None)
    if name is not None:
        note = Sentence("step {place} is an object: its '{name}' is read", place=place, name=name)
        notes.say(note, path=("steps", place - 1))
    for field in (each for each in step if each not in (name, "agent", "agent_name")):
        notes.leave_out(field, step[field], step=dialect.place_id(place))
    agent = text_of(step.get("agent") or step.get("agent_name"))
    return (f"[{agent}] " if agent else "") + text_of(step.get(name) if name else "")


def plan_steps(
    texts: Mapping[str, str], notes: Sequence[str] = (), *, references: bool = True
) -> list[dict[str, Json]]:
    """Returns texts, by id and in order, as agent steps that follow each other.

    Without `references` braces are plain text, and texts are read back unchanged.
    """
    made: list[dict[str, Json]] = []
    for place, (name, text) in enumerate(texts.items()):
        agent, task = split_tag(text)
        ids = [str(each["id"]) for each in made]
        step: dict[str, Json] = {"id": name, "kind": "agent", "agent": agent or PRIMARY}
        known = ids if references else ()
        step |= {"task": dialect.data_of(task, known) or _NOTHING, "after": [*ids[-1:]]}
        step |= {"why": notes[place]} if place < len(notes) and notes[place] else {}
        made.append(step)
    return made


def split_tag(text: str) -> tuple[str, str]:
    """Splits a step into the agent that it names first, if any, and the task."""
    leading = _LEADING_TAG.match(text)
    if leading:
        agent, rest = leading.group(1), text[leading.end() :]
        # A tag that could not be written back unchanged stays in the text.
        return agent, text if agent == PRIMARY or f"[{agent}]" in rest else rest
    inside = _CAPITAL_TAG.search(text)
    return (inside.group(1) if inside else ""), text


def step_text(step: AnyStep, *, degraded: bool = False, written: bool = False) -> str:
    """Returns a step as text, with its agent in front if the text does not name it.

    The general steps of a fallback plan are written as their titles only; with `written`, so are
    steps whose titles are their texts as somebody wrote them.
    """
    if step.title and (degraded or (written and _is_as_written(step))):
        return step.title
    words = dialect.plain_text(in_words(step))
    if not isinstance(step, AgentStep) or step.agent == PRIMARY:
        return words
    return words if f"[{step.agent}]" in words else f"[{step.agent}] {words}"


def _is_as_written(step: AnyStep) -> bool:
    """Tells whether the title of a step is its text, with or without the agent's tag."""
    return dialect.plain_text(in_words(step)) in (step.title, split_tag(step.title)[1])


def in_words(step: AnyStep) -> str:
    """Describes what a step of any kind does, with its rules, as a task for an agent."""
    rules = "; ".join(map(escape_text, rule_sentences(step)))
    return _action_text(step) + (f" ({rules})" if rules else "")


def _action_text(step: AnyStep) -> str:
    match step:
        case AgentStep():
            return step.task
        case ToolStep():
            return f"Call {step.tool} with {_inputs(step.inputs)}"
        case AskStep():
            return f"Ask: {step.question}"
        case ReplyStep():
            return step.instruction
        case s.PlanStep():
            return f"Run {step.template} with {_inputs(step.inputs)}"
        case s.MapStep():
            return f"For each of {value_text(step.over)}: {in_words(step.each)}"


def _inputs(inputs: Mapping[str, Json]) -> str:
    """Returns inputs without `$literal`, save for data that looks like a reference."""
    data = {name: unwrap_literal(each) for name, each in inputs.items()}
    odd = [name for name, each in data.items() if any(find_refs(each)) or "{{" in value_text(each)]
    return value_text({name: inputs[name] if name in odd else data[name] for name in inputs})


def write(plan: Plan, run: Run | None = None) -> Writing:
    """Returns the plan as the planning tool stores it; with a run, with statuses and results."""
    steps = [step for step in in_order(plan) if not step.disabled]
    off = Sentence("it is switched off: the step is left out")
    lost = [dialect.left_behind(off, step=step.id) for step in plan.steps if step.disabled]
    lost += dialect.order_losses(plan, steps, title=TITLE)
    lost += dialect.id_losses(steps, title=TITLE)
    head = {key: each for key, each in plan.to_json().items() if key != "steps"}
    lost += dialect.field_losses(head, ("schema_version", "revision", "goal", "id"), title=TITLE)
    for step in steps:
        lost += _step_losses(step)
    states = [run.steps.get(step.id, StepState()) if run else StepState() for step in steps]
    how = {"degraded": bool(plan.degraded), "written": bool(run and run.options.dialect == NAME)}
    value: dict[str, Json] = {
        "plan_id": plan.id or (run.id if run else ""),
        "title": plan.goal,
        "steps": [step_text(step, **how) for step in dialect.by_place(steps)],
        "step_statuses": [STATUSES[state.status] for state in states],
        # The person's note is whole; else it is the result or error of the step.
        "step_notes": [
            step.why or clip(state.error or text_of(state.result), _MAX_RESULT)
            for step, state in zip(steps, states, strict=True)
        ],
    }
    return Writing(value, tuple(lost))


def _step_losses(step: AnyStep) -> Iterator[Problem]:
    fields: tuple[str, ...] = ("id", "kind", "after", "agent", "task", "why")
    if step.title and _is_as_written(step):
        fields = (*fields, "title")
    if not isinstance(step, AgentStep):
        message = Sentence("a {kind} step becomes a task in words for an agent", kind=step.kind)
        yield dialect.left_behind(message, step=step.id)
        fields = tuple(name for name in step.to_json() if name not in ("title", "timeout_s"))
    rules = [*rule_sentences(step), *(rule_sentences(step.each) if step.kind == "map" else ())]
    if rules:
        message = Sentence(
            "{title} has no rules: they are words for the agent: {rules}", title=TITLE, rules=rules
        )
        yield dialect.left_behind(message, step=step.id)
    fields = (*fields, *s.RULES)
    yield from dialect.field_losses(step.to_json(), fields, title=TITLE, step=step.id)
    yield from dialect.reference_losses(step, title=TITLE)


def schema() -> dict[str, Json]:
    """Returns the JSON Schema of the planning function's arguments for a new plan."""
    fields = {"command": choice("create"), "title": TEXT, "steps": listed(TEXT)}
    return native.plan_schema("OpenManus plan", fields)


_PROMPT: Final = files("plansmith_compat.openmanus") / "prompts" / "openmanus.md"
# Programs of OpenManus know steps by their texts, and those of a fallback plan by English ones.
_PARTS: Final = (NAME, TITLE, recognises, read, write, schema, _PROMPT)
DIALECT: Final = Dialect(*_PARTS, step_text=step_text, language="en", turn=4)
