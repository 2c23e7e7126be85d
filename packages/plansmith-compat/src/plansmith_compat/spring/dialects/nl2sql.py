"""The plan format of Spring AI Alibaba's NL2SQL (DataAgent): SQL, Python and a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Final

from plansmith.formats.native import closed, plan_schema
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.refs import escape_text, find_refs, literal
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep, ReplyStep, ToolStep
from plansmith_compat.reading import (
    TEXT,
    choice,
    drop_entry,
    names_of,
    unwrap_literal,
)
from plansmith_planner.dialect import Dialect, Reading, id_losses, in_order
from plansmith_planner.parse import habits
from plansmith_planner.parse.habits import Notes, raw_text

TITLE: Final = "Spring AI Alibaba's NL2SQL"
SQL: Final = "SQL_GENERATE_NODE"
PYTHON: Final = "PYTHON_GENERATE_NODE"
REPORT: Final = "REPORT_GENERATOR_NODE"
TOOLS: Final = (SQL, PYTHON, REPORT)
AGENTS: Final = {SQL: "sql_writer", PYTHON: "coder"}
PARAMETERS: Final = {
    SQL: "instruction",
    PYTHON: "instruction",
    REPORT: "summary_and_recommendations",
}
_NODES: Final = {agent: node for node, agent in AGENTS.items()}
_HINT: Final = Sentence(
    "give {form}", form='{"thought_process", "execution_plan": [{"step", "tool_to_use", …}]}'
)
_STEP: Final[Mapping[str, Json]] = {
    "step": {"type": "integer", "minimum": 1},
    "tool_to_use": choice(*TOOLS),
    "tool_parameters": closed(dict.fromkeys((*PARAMETERS.values(), "sql_query"), TEXT), ()),
}
_PLAN: Final[Mapping[str, Json]] = {
    "thought_process": TEXT,
    "execution_plan": {"type": "array", "minItems": 1, "items": closed(_STEP)},
}
_ALIASES: Final = habits.aliases("nl2sql", "plansmith_compat")
_REST: Final = "\nRest it on these results:\n"


def recognises(value: Json) -> bool:
    """Whether a value is such a plan, or the list of its steps."""
    steps = value if isinstance(value, list) else []
    listed = bool(steps) and all("tool_to_use" in names_of(each) for each in steps)
    return listed or "execution_plan" in names_of(value)


def read(value: Json) -> Reading:
    """Reads a plan; Python steps and the report get all earlier results, SQL steps none."""
    notes = Notes()
    head: dict[str, Json] = {"execution_plan": value} if recognises(value) else {}
    if isinstance(value, dict):
        head = notes.fields(value, _PLAN, aliases=_ALIASES)
    given = habits.objects(head.get("execution_plan"))
    if given is None:
        return Reading(None, habits.not_a_plan(TITLE, _HINT))
    steps: list[dict[str, Json]] = []
    for place, each in enumerate(_by_number(given, notes), start=1):
        step = _step(each, place, [str(step["id"]) for step in steps], notes)
        steps += [step] if step else []
    for early in (step for step in steps[:-1] if step.get("kind") == "reply"):
        message = Sentence("{tool} is not the last step", tool=REPORT)
        hint, path = Sentence("put the report behind all other steps"), ("tool_to_use",)
        notes.refuse("PS005", message, hint=hint, step=str(early["id"]), path=path)
    thought = raw_text(head.get("thought_process"))
    return notes.reading({"thought": thought, "steps": [*steps]})


def _by_number(given: Sequence[Json], notes: Notes) -> list[Json]:
    numbers = [
        notes.whole(each.get("step"), "step") if isinstance(each, dict) else None for each in given
    ]
    if any(number is None for number in numbers):
        return list(given)
    ranked = sorted(range(len(given)), key=lambda place: (numbers[place] or 0, place))
    if ranked != list(range(len(given))):
        message = Sentence("the steps are put in the order of their numbers")
        notes.say(message, path=("execution_plan",))
    return [given[place] for place in ranked]


def _step(value: Json, place: int, before: Sequence[str], notes: Notes) -> dict[str, Json] | None:
    name = f"s{place}"
    if not isinstance(value, dict):
        drop_entry(value, place, notes, Sentence("write each step as an object"))
        return None
    fields = notes.fields(value, _STEP, aliases=_ALIASES, step=name)
    node = _node(habits.text_of(fields.get("tool_to_use")), name, notes)
    if not node:
        message = Sentence(
            "step {place} cannot be used: {why}", place=place, why=Sentence("it names no tool")
        )
        notes.drop(message, hint=_HINT)
        return None
    parameters = _tool_parameters(fields.get("tool_parameters"), name, notes)
    if node not in PARAMETERS:
        inputs = {key: literal(each) for key, each in parameters.items()}
        return {"id": name, "kind": "tool", "tool": node, "inputs": inputs}
    known = (PARAMETERS[node], "sql_query")
    parameters = notes.fields(parameters, known, aliases=_ALIASES, step=name)
    words = escape_text(raw_text(parameters.get(PARAMETERS[node])))
    if not words:
        field, words = PARAMETERS[node], "?"
        message = Sentence("the field '{field}' of tool_parameters is missing", field=field)
        hint, path = Sentence("add '{field}'", field=field), ("tool_parameters", field)
        notes.refuse("PS004", message, hint=hint, step=name, path=path)
    if node == REPORT:
        results = "\n".join("{{" + each + "}}" for each in before)
        return {"id": name, "kind": "reply", "instruction": words + _REST * bool(before) + results}
    inputs = habits.result_inputs(before) if node == PYTHON else {}
    if parameters.get("sql_query"):
        inputs |= {"sql_query": literal(parameters["sql_query"])}
    step: dict[str, Json] = {"id": name, "agent": AGENTS[node], "task": words}
    if inputs:
        step["inputs"] = inputs
    return step


def _tool_parameters(value: Json, step: str, notes: Notes) -> dict[str, Json]:
    if value and not isinstance(value, dict):
        message = Sentence(
            "the tool_parameters are not an object: {text}", text=repr(str(value)[:80])
        )
        notes.refuse("PS005", message, hint=_HINT, step=step, path=("tool_parameters",))
    return value if isinstance(value, dict) else {}


def _node(name: str, step: str, notes: Notes) -> str:
    """Returns the node of a tool's name, also if the name is slightly wrong."""
    if name in TOOLS:
        return name
    word = name.upper()
    near = next((node for node in TOOLS if node.partition("_")[0] == word.partition("_")[0]), name)
    if near != name:
        message = Sentence("the tool '{name}' is read as '{known}'", name=name, known=near)
        notes.say(message, step=step, path=("tool_to_use",))
    return near


def write(plan: Plan, run: Run | None, notes: Notes) -> dict[str, Json]:
    """Writes the plan in this format; with a run, with results and the next step."""
    habits.losses(plan, ("thought",), title=TITLE, notes=notes)
    written = [step for step in in_order(plan) if _tool_of(step)]
    notes.problems += id_losses(written, title=TITLE)
    steps: list[Json] = []
    for step in in_order(plan):
        node = _tool_of(step)
        if node is None:
            habits.no_such_step(step, title=TITLE, notes=notes)
            continue
        before = [each.id for each in written[: written.index(step)]]
        parameters = _parameters(step, before, notes)
        steps.append({"step": len(steps) + 1, "tool_to_use": node, "tool_parameters": parameters})
    value: dict[str, Json] = {"thought_process": plan.thought, "execution_plan": steps}
    return value | (_state(written, run) if run else {})


def node_of(step: AnyStep) -> str | None:
    """Returns the node that can do a step, or None."""
    if isinstance(step, ReplyStep):
        return REPORT
    return _NODES.get(step.agent) if isinstance(step, AgentStep) else None


def _tool_of(step: AnyStep) -> str | None:
    """Returns what a step has as its `tool_to_use`: its node, or a tool that no node has."""
    return step.tool if isinstance(step, ToolStep) else node_of(step)


def _parameters(step: AnyStep, before: Sequence[str], notes: Notes) -> dict[str, Json]:
    if isinstance(step, ToolStep):
        habits.step_losses(step, ("tool", "inputs"), title=TITLE, notes=notes)
        if refs := [str(each.ref) for each in find_refs(step.inputs) if each.ref]:
            notes.lose(Sentence("references become plain text: {refs}", refs=[*refs]), step=step.id)
        return {name: unwrap_literal(each) for name, each in step.inputs.items()}
    if isinstance(step, ReplyStep):
        habits.step_losses(step, ("instruction",), title=TITLE, notes=notes)
        results = _REST + "\n".join("{{" + each + "}}" for each in before)
        words = step.instruction.removesuffix(results) if before else step.instruction
        if before and words == step.instruction:
            message = Sentence("{title} reports on every step before", title=TITLE)
            notes.lose(message, step=step.id, path=("instruction",))
        return {PARAMETERS[REPORT]: habits.export_text(words, notes, step=step.id)}
    assert isinstance(step, AgentStep)  # noqa: S101 - `node_of` knows no other
    statement = step.inputs.get("sql_query")
    rest = {name: each for name, each in step.inputs.items() if name != "sql_query"}
    habits.inputs_loss(
        step, rest, habits.result_inputs(before) if step.agent == AGENTS[PYTHON] else {}, notes
    )
    habits.step_losses(step, ("agent", "task", "inputs"), title=TITLE, notes=notes)
    given: dict[str, Json] = {"instruction": habits.export_text(step.task, notes, step=step.id)}
    return given | ({"sql_query": statement} if isinstance(statement, str) else {})


def _state(steps: Sequence[AnyStep], run: Run) -> dict[str, Json]:
    states = [run.steps.get(step.id) for step in steps]
    done = [state is not None and state.status is StepStatus.DONE for state in states]
    results: dict[str, Json] = {
        f"step_{place}": state.result
        for place, state in enumerate(states, start=1)
        if state is not None and state.status is StepStatus.DONE
    }
    following = done.index(False) + 1 if False in done else len(done) + 1
    return {"SQL_EXECUTE_NODE_OUTPUT": results, "PLAN_CURRENT_STEP": following}


def schema() -> dict[str, Json]:
    """Returns the JSON Schema of such a plan."""
    return plan_schema("NL2SQL plan", _PLAN)


_PROMPT: Final = files("plansmith_compat.spring") / "prompts" / "spring.md"
DIALECT: Final = Dialect(
    "nl2sql", TITLE, recognises, read, habits.with_notes(write), schema, _PROMPT
)
