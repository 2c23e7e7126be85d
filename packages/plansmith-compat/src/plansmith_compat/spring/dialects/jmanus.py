"""JManus' plan format: steps in words with `[AGENT]` in front and `<<parameters>>`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Final

from plansmith.formats import native
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.refs import PARAMS, Ref, escape_text, literal, pieces
from plansmith.plan.run import Run, StepState, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep, ReplyStep
from plansmith_compat.openmanus.dialect import in_words
from plansmith_compat.reading import TEXT, choice, listed, names_of, without_run
from plansmith_planner import dialect
from plansmith_planner.dialect import Dialect, Reading
from plansmith_planner.parse import habits
from plansmith_planner.parse.habits import Notes, raw_text, text_of

TITLE: Final = "JManus"
DEFAULT_AGENT: Final = "DEFAULT_AGENT"
COLUMNS: Final = "terminate_columns"
PLACE: Final = re.compile(r"<<\s*([A-Za-z_]\w{0,63})\s*>>", re.ASCII)
_TAG: Final = re.compile(r"\s*+[\[【]\s*+([^\[\]【】]{1,80}?)\s*[\]】] ?(.*)", re.DOTALL)
_HINT: Final = Sentence(
    "give {form}", form='{"title", "steps": [{"stepRequirement": "[AGENT] what to do"}]}'
)
_PLAN_FIELDS: Final = frozenset(
    {
        *("title", "steps", "plan_id", "thought", "user_request", "direct_response", "response"),
        COLUMNS,
    }
)
_CALL: Final = ("tool_to_use", "tool_parameters")
_STEP_FIELDS: Final = frozenset({"step_requirement", "agent_name", COLUMNS, *_CALL})
# Fields that JManus stores beside a plan, about display and execution.
_ASIDE: Final = frozenset(
    {
        *("step_index", "status", "result", "model_name", "tool_config", "selected_tool_keys"),
        *("root_plan_id", "current_plan_id", "summary", "finished"),
    }
)
_FORM: Final = frozenset({"plan_type", "command", "version"})
_ALIASES: Final = habits.aliases("jmanus", "plansmith_compat")
_MARKS: Final = frozenset(
    {"plan_template_id", "plan_type", "direct_response", "planning_thinking", "root_plan_id"}
)
STATUSES: Final[Mapping[StepStatus, str]] = {
    StepStatus.WAITING: "not_started",
    StepStatus.READY: "not_started",
    StepStatus.RUNNING: "in_progress",
    StepStatus.DONE: "completed",
}


def recognises(value: Json) -> bool:
    """Whether a value looks like JManus' format; steps in words alone are not enough."""
    steps = value.get("steps") if isinstance(value, dict) else None
    return bool(names_of(value) & _MARKS) or _are_steps(steps)


def _are_steps(value: Json) -> bool:
    steps = value if isinstance(value, list) else []
    return bool(steps) and all("step_requirement" in names_of(each) for each in steps)


def read(value: Json) -> Reading:
    """Reads a plan; each step gets the results of those before it."""
    notes = Notes()
    head: dict[str, Json] = {"steps": value} if _are_steps(value) else {}
    if isinstance(value, dict):
        head = _known_fields(value, _PLAN_FIELDS, notes)
    given = habits.objects(head.get("steps", []))
    direct = head.get("direct_response")
    direct = None if text_of(direct).lower() in ("", "false") else direct
    answer = _answer(head, direct) if direct and not given else None
    if given is None or not (given or answer):
        return Reading(None, habits.not_a_plan(TITLE, _HINT))
    if direct and given:
        message = Sentence(
            "the plan has a direct response and steps: it is unclear which of them is meant"
        )
        notes.refuse("PS005", message, path=("directResponse",))
    steps = [answer] if answer else _steps(given, text_of(head.get(COLUMNS)), notes)
    if not steps:
        return Reading(None, (*habits.not_a_plan(TITLE, _HINT), *notes.problems))
    document: dict[str, Json] = {
        "goal": raw_text(head["title"] if "title" in head else head.get("user_request")),
        "thought": raw_text(head.get("thought")),
        "steps": [*steps],
    }
    if head.get("title") and head.get("user_request"):
        notes.say(Sentence("the title is the goal: 'userRequest' is left out"))
    if head.get("plan_id"):
        document["id"] = text_of(head["plan_id"])
    return notes.reading(document)


def _known_fields(
    value: Mapping[str, Json], known: frozenset[str], notes: Notes, step: str | None = None
) -> dict[str, Json]:
    """Returns the known fields; notes once what JManus stores beside a plan."""
    said = {name: each for name, each in value.items() if habits.snake(name) not in _FORM}
    rest = without_run(said, _ASIDE, notes, step)
    return notes.fields(rest, known, aliases=_ALIASES, step=step)


def _answer(head: Mapping[str, Json], direct: Json) -> dict[str, Json] | None:
    """Reads a direct answer to small talk: its words, or the request that a model answers."""
    has_words = isinstance(direct, str) and text_of(direct).lower() != "true"
    exact = raw_text(direct if has_words else head.get("response"))
    names = ("user_request", "title", "thought")
    request = next((text for name in names if (text := raw_text(head.get(name)))), "")
    if not (exact or request):
        return None
    style = "exact" if exact else "worded"
    words = escape_text(exact or request)
    return {"id": "s1", "kind": "reply", "instruction": words, "style": style}


def _steps(given: Sequence[Json], columns: str, notes: Notes) -> list[dict[str, Json]]:
    """Reads the steps; `columns` of the plan hold for every step that names none itself."""
    steps: list[dict[str, Json]] = []
    for place, each in enumerate(given, start=1):
        fields: dict[str, Json] = {"step_requirement": each if isinstance(each, str) else ""}
        if isinstance(each, dict):
            fields = _known_fields(each, _STEP_FIELDS, notes, f"s{place}")
        before = [str(step["id"]) for step in steps]
        step = _tool_step(fields, before) or _agent_step(fields, place, before, columns, notes)
        steps += [{"id": f"s{place}", **step}] if step else []
    return steps


def _tool_step(fields: Mapping[str, Json], before: Sequence[str]) -> dict[str, Json] | None:
    tool, parameters = text_of(fields.get("tool_to_use")), fields.get("tool_parameters")
    if not tool:
        return None
    named = parameters.items() if isinstance(parameters, dict) else ()
    inputs: Json = {name: literal(each) for name, each in named}
    title = raw_text(fields.get("step_requirement"))
    return {"title": title, "tool": tool, "after": [*before[-1:]], "inputs": inputs}


def _agent_step(
    fields: Mapping[str, Json], place: int, before: Sequence[str], columns: str, notes: Notes
) -> dict[str, Json] | None:
    text = raw_text(fields.get("step_requirement"))
    tag = _TAG.fullmatch(text)
    agent = text_of(fields.get("agent_name")) or (tag[1] if tag else "")
    # If the agent has its own field, a tag in the text stays.
    task = tag[2] if tag and tag[1] == agent else text
    if not task.strip():
        message = Sentence("step {place} does not say what to do", place=place)
        notes.drop(message, hint=Sentence("write what is to be done"))
        return None
    if not agent:
        message = Sentence("no agent is named: {agent} takes the step", agent=DEFAULT_AGENT)
        notes.say(message, step=f"s{place}")
    own_columns = text_of(fields.get(COLUMNS)) or columns
    inputs = habits.result_inputs(before)
    if own_columns:
        inputs[COLUMNS] = own_columns
    # `<<name>>` is a reference to a parameter; everything else is escaped.
    words = PLACE.sub(lambda place: str(Ref(PARAMS, (place[1],))), escape_text(task))
    step: dict[str, Json] = {"agent": agent or DEFAULT_AGENT, "task": words}
    return {**step, "inputs": inputs} if inputs else step


def write(plan: Plan, run: Run | None, notes: Notes) -> dict[str, Json]:
    """Writes the plan in JManus' format; with a run, with status and result of each step."""
    habits.losses(plan, ("goal", "thought", "id"), title=TITLE, notes=notes)
    value: dict[str, Json] = {"planType": "simple", "title": plan.goal}
    value |= {"planTemplateId": plan.id} if plan.id else {}
    value |= {"planningThinking": plan.thought} if plan.thought else {}
    only = plan.steps[0] if len(plan.steps) == 1 else None
    if isinstance(only, ReplyStep):
        notes.problems += dialect.id_losses([only], title=TITLE)
        habits.step_losses(only, ("instruction", "style"), title=TITLE, notes=notes)
        answer = _template_text(only.instruction, only.id, notes)
        worded: dict[str, Json] = {"directResponse": True, "userRequest": answer}
        direct: dict[str, Json] = {"directResponse": answer}
        return value | (direct if only.style == "exact" else worded) | {"steps": []}
    steps = [step for step in dialect.in_order(plan) if not isinstance(step, ReplyStep)]
    notes.problems += dialect.id_losses(steps, title=TITLE)
    # For agent steps, `inputs_loss` notes differing inputs one by one.
    if not all(isinstance(step, AgentStep) for step in steps):
        notes.problems += dialect.order_losses(plan, steps, title=TITLE)
    for step in plan.steps:
        if isinstance(step, ReplyStep):
            habits.no_such_step(step, title=TITLE, notes=notes)
    value["steps"] = [
        _written(step, [each.id for each in steps[:place]], run, notes)
        for place, step in enumerate(steps)
    ]
    if run is not None and run.status.over:
        value |= {"finished": True, "summary": run.report}
    return value


def _written(step: AnyStep, before: Sequence[str], run: Run | None, notes: Notes) -> Json:
    value: dict[str, Json]
    if isinstance(step, AgentStep):
        value = _for_agent(step, before, notes)
    else:  # a call or a question is a task: an agent with tools has to make it
        message = Sentence(
            "a {kind} step becomes a task in words for {agent}", kind=step.kind, agent=DEFAULT_AGENT
        )
        notes.lose(message, step=step.id)
        text = _template_text(in_words(step), step.id, notes)
        value = {"stepRequirement": f"[{DEFAULT_AGENT}] {text}"}
    if run is None:
        return value
    state = run.steps.get(step.id, StepState())
    return value | {
        "stepIndex": len(before),
        "status": STATUSES.get(state.status, "blocked"),
        "result": habits.result_text(run, step.id) if not state.error else state.error,
    }


def _for_agent(step: AgentStep, before: Sequence[str], notes: Notes) -> dict[str, Json]:
    columns = step.inputs.get(COLUMNS)
    rest = {name: each for name, each in step.inputs.items() if name != COLUMNS}
    habits.inputs_loss(step, rest, habits.result_inputs(before), notes)
    habits.step_losses(step, ("agent", "task", "inputs"), title=TITLE, notes=notes)
    text = f"[{step.agent}] {_template_text(step.task, step.id, notes)}"
    fields: dict[str, Json] = {"terminateColumns": columns} if isinstance(columns, str) else {}
    return {"stepRequirement": text, **fields}


def _template_text(text: str, step: str, notes: Notes) -> str:
    """Writes a text with `<<name>>` for parameters; other references become plain text."""
    parts: list[str] = []
    for piece in pieces(text):
        if isinstance(piece, str):
            parts.append(piece)
        elif piece.step == PARAMS and len(piece.path) == 1:
            parts.append(f"<<{piece.path[0]}>>")
        else:
            message = Sentence("references become plain text: {piece}", piece=str(piece))
            notes.lose(message, step=step)
            parts.append(str(piece))
    return "".join(parts)


def schema() -> dict[str, Json]:
    """Returns the JSON Schema of the planning function's arguments for a new plan."""
    fields = {
        "command": choice("create"),
        "planningThinking": TEXT,
        "title": TEXT,
        "steps": listed(native.closed({"stepRequirement": TEXT, "terminateColumns": TEXT})),
        "directResponse": TEXT,
    }
    return native.plan_schema("JManus plan", fields)


_PROMPT: Final = files("plansmith_compat.spring") / "prompts" / "jmanus.md"
DIALECT: Final = Dialect(
    "jmanus", TITLE, recognises, read, habits.with_notes(write), schema, _PROMPT, turn=None
)
