"""DeerFlow's and deer-go's plan format: research and processing steps, and a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Final

from plansmith.formats import native
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.refs import escape_text
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep, ReplyStep
from plansmith_compat.reading import FLAG, TEXT, choice, drop_entry, listed, names_of
from plansmith_planner import dialect
from plansmith_planner.dialect import Dialect, Reading
from plansmith_planner.parse import habits
from plansmith_planner.parse.habits import Notes, raw_text

REPORT: Final = "report"
RESEARCHER: Final = "researcher"
CODER: Final = "coder"
ANALYST: Final = "analyst"
_TYPES: Final = {RESEARCHER: "research", CODER: "processing", ANALYST: "analysis"}
_HINT: Final = Sentence(
    "give {form}", form='{"has_enough_context", "thought", "title", "steps": [{"title", …}]}'
)
_STEP: Final[Mapping[str, Json]] = {
    "need_web_search": FLAG,
    "title": TEXT,
    "description": TEXT,
    "step_type": choice(*_TYPES.values()),
}
_PLAN: Final[Mapping[str, Json]] = {
    "locale": TEXT,
    "has_enough_context": FLAG,
    "thought": TEXT,
    "title": TEXT,
    "steps": listed(native.closed(_STEP)),
}
_RESULTS: Final = ("execution_res", "execution_status")
_ALIASES: Final = habits.aliases("deerflow", "plansmith_compat")
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
        return {"research": RESEARCHER, "processing": CODER, "analysis": self.analyst}


DEERFLOW: Final = Manner("DeerFlow", in_turn=True, analyst=ANALYST)


def recognises(value: Json) -> bool:
    """Whether a value looks like DeerFlow's format."""
    if "has_enough_context" in names_of(value):
        return True
    steps = value.get("steps") if isinstance(value, dict) else value
    # One of them has DeerFlow's fields, and none is a step of our own language.
    names = [names_of(each) for each in steps] if isinstance(steps, list) else []
    return any(each & _STEP_MARKS for each in names) and not any(each & _OURS for each in names)


def read_research(manner: Manner, value: Json) -> Reading:
    """Reads a research plan; results that a step needs become its inputs."""
    notes = Notes()
    head: dict[str, Json] | None = {"steps": value} if recognises(value) else None
    if isinstance(value, dict):
        head = notes.fields(value, _PLAN, aliases=_ALIASES)
    given = habits.objects(head.get("steps", [])) if head else None
    steps = _steps(given or [], manner, notes)
    # A plan that says whether it has enough context may have no list of steps at all.
    if head is None or given is None or not (steps or "has_enough_context" in head):
        return Reading(None, (*habits.not_a_plan(manner.title, _HINT), *notes.problems))
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
    if habits.text_of(head.get("locale")):
        document["locale"] = habits.text_of(head["locale"])
    return notes.reading(document)


def report_instruction(about: str, names: Sequence[str]) -> str:
    """Returns the reporter's instruction: the subject, and the result of every step."""
    subject = f": {escape_text(about)}" if about else "."
    if not names:
        return f"Answer from what is known already{subject}"
    results = "\n".join("{{" + name + "}}" for name in names)
    return f"Write the report{subject}\nRest it on these results:\n{results}"


def _steps(given: Sequence[Json], manner: Manner, notes: Notes) -> list[dict[str, Json]]:
    steps: list[dict[str, Json]] = []
    for place, each in enumerate(given, start=1):
        if isinstance(each, str) and each.strip():
            notes.say(
                Sentence("step {place} is a text: it is read as its description", place=place)
            )
            each = {"description": each}  # noqa: PLW2901 - the same step, written out
        if not isinstance(each, dict):
            hint = Sentence("write each step as an object with a title and a description")
            drop_entry(each, place, notes, hint)
            continue
        name = dialect.place_id(place)
        fields = notes.fields(each, (*_STEP, *_RESULTS), aliases=_ALIASES, step=name)
        title, words = raw_text(fields.get("title")), raw_text(fields.get("description"))
        if not (title or words):
            message = Sentence("step {place} does not say what to do", place=place)
            notes.drop(message, hint=Sentence("give its description"))
            continue
        if fields.get("execution_res") is not None:
            notes.say(Sentence("its result belongs to a run: it is left out"), step=name)
        agent, task = _agent(fields, name, manner, notes), escape_text(words or title)
        step: dict[str, Json] = {"id": name, "title": title, "agent": agent, "task": task}
        if inputs := _inputs(agent, [str(step["id"]) for step in steps], manner):
            step["inputs"] = inputs
        steps.append(step)
    return steps


def _inputs(agent: str, before: Sequence[str], manner: Manner) -> dict[str, Json]:
    """Returns the results that a step of this agent gets by its place."""
    return habits.result_inputs(before) if manner.in_turn or agent != RESEARCHER else {}


def _agent(fields: Mapping[str, Json], step: str, manner: Manner, notes: Notes) -> str:
    """Returns who does a step: by its type, else by whether it needs a search."""
    agents = manner.agents()
    kind = habits.text_of(fields.get("step_type")).lower()
    search = notes.flag(fields.get("need_web_search"), "need_web_search", step=step)
    if kind not in agents:
        guess = "research" if search else "processing"
        note = Sentence("there is no step type: it is read as '{known}'", known=guess)
        if kind:
            note = Sentence("the step type '{type}' is read as '{known}'", type=kind, known=guess)
        notes.say(note, step=step, path=("step_type",))
        return agents[guess]
    if kind == "analysis" and manner.analyst == CODER:
        note = Sentence("a step of analysis is done by the coder")
        notes.say(note, step=step, path=("step_type",))
    if search is not None and search is not (kind == "research"):
        note = Sentence(
            "need_web_search is {search}, and the type '{kind}' decides", search=search, kind=kind
        )
        notes.say(note, step=step, path=("need_web_search",))
    return agents[kind]


def write_research(manner: Manner, plan: Plan, run: Run | None, notes: Notes) -> dict[str, Json]:
    """Writes the research and processing steps; the final report is implied."""
    fields = ("goal", "locale", "thought", "enough_context")
    habits.losses(plan, fields, title=manner.title, notes=notes)
    ordered = dialect.in_order(plan)
    work = [step for step in ordered if is_work(step)]
    names = [step.id for step in work]
    notes.problems += dialect.id_losses(work, title=manner.title)
    steps: list[Json] = []
    for step in ordered:
        if isinstance(step, AgentStep) and is_work(step):
            steps.append(_written(step, names[: names.index(step.id)], run, manner, notes))
        elif not _is_report(step, plan, names):
            habits.no_such_step(step, title=manner.title, notes=notes)
    if not any(_is_report(step, plan, names) for step in ordered):
        message = Sentence("{title} ends every plan with a report of its own", title=manner.title)
        notes.lose(message, path=("steps",))
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
    habits.inputs_loss(step, step.inputs, _inputs(step.agent, before, manner), notes)
    habits.step_losses(step, ("title", "agent", "task", "inputs"), title=manner.title, notes=notes)
    state = run.steps.get(step.id) if run else None
    if state is not None and state.status is StepStatus.FAILED:
        message = Sentence(
            "{title} has no place for its error: {error}", title=manner.title, error=state.error
        )
        notes.lose(message, step=step.id)
    return {
        "need_web_search": step.agent == RESEARCHER,
        "title": step.title,
        "description": habits.export_text(step.task, notes, step=step.id),
        "step_type": _TYPES[step.agent],
        "execution_res": habits.result_text(run, step.id),
    }


# Reads a bare list of steps too; with a run, writes the results of finished steps.
read: Final = partial(read_research, DEERFLOW)
write: Final = habits.with_notes(partial(write_research, DEERFLOW))


def schema() -> dict[str, Json]:
    """Returns the JSON Schema of a plan in this format."""
    return native.plan_schema("DeerFlow plan", _PLAN)


_PROMPT: Final = files("plansmith_compat.deerflow") / "prompts" / "planner.md"
DIALECT: Final = Dialect(
    "deerflow", DEERFLOW.title, recognises, read, write, schema, _PROMPT, turn=3
)
