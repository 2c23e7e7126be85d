"""DeerFlow's and deer-go's plan format: research and processing steps, and a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from plansmith.formats.dialect import (
    Dialect,
    Reading,
    Writing,
    closed,
    id_losses,
    in_order,
    plan_schema,
)
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.refs import escape_text
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep, ReplyStep
from plansmith_planner.parse.habits import (
    Ids,
    Notes,
    export_text,
    inputs_loss,
    losses,
    no_such_step,
    not_a_plan,
    objects,
    raw_text,
    result_inputs,
    result_text,
    snake,
    step_losses,
    text_of,
)

REPORT: Final = "report"
RESEARCHER: Final = "researcher"
CODER: Final = "coder"
ANALYST: Final = "analyst"
_TYPES: Final = {RESEARCHER: "research", CODER: "processing", ANALYST: "analysis"}
_HINT: Final = Sentence(
    "give {form}", form='{"has_enough_context", "thought", "title", "steps": [{"title", …}]}'
)
_PLAN_FIELDS: Final = frozenset({"locale", "has_enough_context", "thought", "title", "steps"})
_STEP_FIELDS: Final = frozenset(
    {"need_web_search", "title", "description", "step_type", "execution_res", "execution_status"}
)
_ALIASES: Final = {
    "enough_context": "has_enough_context",
    "goal": "title",
    "plan": "steps",
    "needs_web_search": "need_web_search",
    "need_search": "need_web_search",
    "type": "step_type",
    "task": "description",
    "result": "execution_res",
}
_STEP_MARKS: Final = frozenset({"need_web_search", "step_type", "execution_res"})
_OURS: Final = frozenset({"kind", "tool", "agent", "inputs", "instruction", "question"})


@dataclass(frozen=True, slots=True)
class Manner:
    """How a system runs such a plan: all steps in turn, or the research steps in parallel.

    `analyst` takes the steps of analysis; in a system without one it is the coder.
    """

    title: str
    in_turn: bool
    analyst: str = CODER

    def agents(self) -> Mapping[str, str]:
        """Returns who does the steps of each type."""
        return {"research": RESEARCHER, "processing": CODER, "analysis": self.analyst}


DEERFLOW: Final = Manner("DeerFlow", in_turn=True, analyst=ANALYST)


def recognises(value: Json) -> bool:
    """Whether a value looks like DeerFlow's format."""
    if isinstance(value, list):
        return _are_steps(value)
    if not isinstance(value, dict):
        return False
    if "has_enough_context" in {snake(name) for name in value}:
        return True
    steps = value.get("steps")
    return isinstance(steps, list) and _are_steps(steps)


def _are_steps(values: Sequence[Json]) -> bool:
    """Whether one of them has DeerFlow's fields, and none is a step of our own language."""
    names = [{snake(name) for name in each} for each in values if isinstance(each, dict)]
    return any(each & _STEP_MARKS for each in names) and not any(each & _OURS for each in names)


def read(value: Json) -> Reading:
    """Reads a plan, or a bare list of its steps."""
    return read_research(value, DEERFLOW)


def read_research(value: Json, manner: Manner) -> Reading:
    """Reads a research plan; results that a step needs become its inputs."""
    notes = Notes()
    head: dict[str, Json] | None = {"steps": value} if recognises(value) else None
    if isinstance(value, dict):
        head = notes.fields(value, _PLAN_FIELDS, aliases=_ALIASES)
    given = objects(head.get("steps", [])) if head else None
    steps = _steps(given or [], manner, notes)
    # A plan that says whether it has enough context may have no list of steps at all.
    if head is None or given is None or not (steps or "has_enough_context" in head):
        return Reading(None, (*not_a_plan(manner.title, _HINT), *notes.problems))
    enough = notes.flag(head.get("has_enough_context", False), "has_enough_context")
    title, thought = raw_text(head.get("title")), raw_text(head.get("thought"))
    ids = [str(step["id"]) for step in steps]
    report: dict[str, Json] = {
        "id": REPORT,
        "kind": "reply",
        "instruction": report_instruction(title or thought, ids),
    }
    document: dict[str, Json] = {
        "goal": title,
        "thought": thought,
        "enough_context": bool(enough),
        "steps": [*steps, report],
    }
    if text_of(head.get("locale")):
        document["locale"] = text_of(head["locale"])
    return notes.reading(document)


def report_instruction(about: str, names: Sequence[str]) -> str:
    """Returns the reporter's instruction: the subject, and the result of every step."""
    subject = f": {escape_text(about)}" if about else "."
    if not names:
        return f"Answer from what is known already{subject}"
    results = "\n".join("{{" + name + "}}" for name in names)
    return f"Write the report{subject}\nRest it on these results:\n{results}"


def _steps(given: Sequence[Json], manner: Manner, notes: Notes) -> list[dict[str, Json]]:
    ids, steps = Ids(), list[dict[str, Json]]()
    for place, each in enumerate(given, start=1):
        if isinstance(each, str) and each.strip():
            notes.say(
                Sentence("step {place} is a text: it is read as its description", place=place)
            )
            each = {"description": each}  # noqa: PLW2901 - the same step, written out
        if not isinstance(each, dict):
            hint = Sentence("write each step as an object with a title and a description")
            notes.drop(
                Sentence(
                    "entry {place} is not a step: {text}", place=place, text=repr(str(each)[:80])
                ),
                hint=hint,
            )
            continue
        name = ids.make(f"s{place}", place)
        fields = notes.fields(each, _STEP_FIELDS, aliases=_ALIASES, step=name)
        title, words = raw_text(fields.get("title")), raw_text(fields.get("description"))
        if not (title or words):
            notes.drop(
                Sentence("step {place} does not say what to do", place=place),
                hint=Sentence("give its description"),
            )
            continue
        if fields.get("execution_res") is not None:
            notes.say(Sentence("its result belongs to a run: it is left out"), step=name)
        step: dict[str, Json] = {
            "id": name,
            "title": title,
            "agent": _agent(fields, name, manner, notes),
            "task": escape_text(words or title),
        }
        earlier = _earlier(steps, str(step["agent"]), manner)
        if earlier:
            step["inputs"] = result_inputs(earlier)
        steps.append(step)
    return steps


def _earlier(steps: Sequence[Mapping[str, Json]], agent: str, manner: Manner) -> list[str]:
    """Returns the steps whose results a step of this agent gets."""
    if not manner.in_turn and agent == RESEARCHER:
        return []
    return [str(step["id"]) for step in steps]


def _agent(fields: Mapping[str, Json], step: str, manner: Manner, notes: Notes) -> str:
    """Returns who does a step: by its type, else by whether it needs a search."""
    agents = manner.agents()
    kind = text_of(fields.get("step_type")).lower()
    search = notes.flag(fields.get("need_web_search"), "need_web_search", step=step)
    if kind not in agents:
        guess = "research" if search else "processing"
        message = Sentence("there is no step type: it is read as '{known}'", known=guess)
        if kind:
            message = Sentence(
                "the step type '{type}' is read as '{known}'", type=kind, known=guess
            )
        notes.say(message, step=step, path=("step_type",))
        return agents[guess]
    if kind == "analysis" and manner.analyst == CODER:
        notes.say(
            Sentence("a step of analysis is done by the coder"), step=step, path=("step_type",)
        )
    if search is not None and search is not (kind == "research"):
        message = Sentence(
            "need_web_search is {search}, and the type '{kind}' decides", search=search, kind=kind
        )
        notes.say(message, step=step, path=("need_web_search",))
    return agents[kind]


def write(plan: Plan, run: Run | None = None) -> Writing:
    """Returns the plan in DeerFlow's format; with a run, with the results of finished steps."""
    notes = Notes()
    return Writing(write_research(plan, run, DEERFLOW, notes), tuple(notes.problems))


def write_research(plan: Plan, run: Run | None, manner: Manner, notes: Notes) -> dict[str, Json]:
    """Writes the research and processing steps; the final report is implied."""
    held = ("goal", "locale", "thought", "enough_context")
    losses(plan, held, title=manner.title, notes=notes)
    ordered = in_order(plan)
    work = [step for step in ordered if is_work(step)]
    names = [step.id for step in work]
    notes.problems += id_losses(work, title=manner.title)
    steps: list[Json] = []
    for step in ordered:
        if isinstance(step, AgentStep) and is_work(step):
            steps.append(_written(step, names[: names.index(step.id)], run, manner, notes))
        elif not _is_report(step, plan, names):
            no_such_step(step, title=manner.title, notes=notes)
    if not any(_is_report(step, plan, names) for step in ordered):
        notes.lose(
            Sentence("{title} ends every plan with a report of its own", title=manner.title),
            path=("steps",),
        )
    return {
        "locale": plan.locale,
        "has_enough_context": plan.enough_context,
        "thought": plan.thought,
        "title": plan.goal,
        "steps": steps,
    }


def is_work(step: AnyStep) -> bool:
    """Whether a step is for the research team."""
    return isinstance(step, AgentStep) and step.agent in _TYPES


def _is_report(step: AnyStep, plan: Plan, names: Sequence[str]) -> bool:
    """Whether a step is the report that `read` would add again."""
    about = plan.goal or plan.thought
    return isinstance(step, ReplyStep) and step.instruction == report_instruction(about, names)


def _written(
    step: AgentStep, before: Sequence[str], run: Run | None, manner: Manner, notes: Notes
) -> Json:
    implied = result_inputs(before) if manner.in_turn or step.agent != RESEARCHER else {}
    inputs_loss(step, step.inputs, implied, notes)
    step_losses(step, ("title", "agent", "task", "inputs"), title=manner.title, notes=notes)
    state = run.steps.get(step.id) if run else None
    if state is not None and state.status is StepStatus.FAILED:
        notes.lose(
            Sentence(
                "{title} has no place for its error: {error}", title=manner.title, error=state.error
            ),
            step=step.id,
        )
    return {
        "need_web_search": step.agent == RESEARCHER,
        "title": step.title,
        "description": export_text(step.task, notes, step=step.id),
        "step_type": _TYPES[step.agent],
        "execution_res": result_text(run, step.id),
    }


def schema() -> dict[str, Json]:
    """Returns the JSON Schema of a plan in this format."""
    text: Json = {"type": "string"}
    step: dict[str, Json] = {
        "need_web_search": {"type": "boolean"},
        "title": text,
        "description": text,
        "step_type": {"type": "string", "enum": [*_TYPES.values()]},
    }
    fields: dict[str, Json] = {
        "locale": text,
        "has_enough_context": {"type": "boolean"},
        "thought": text,
        "title": text,
        "steps": {"type": "array", "items": closed(step)},
    }
    return plan_schema("DeerFlow plan", fields)


DIALECT: Final = Dialect(
    "deerflow",
    DEERFLOW.title,
    recognises,
    read,
    write,
    schema,
    files("plansmith_compat.deerflow") / "prompts" / "planner.md",
    turn=3,
)
