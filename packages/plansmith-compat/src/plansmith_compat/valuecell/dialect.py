"""ValueCell's plan formats: its planner's answer, and the execution plan with its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from typing import Final, cast

from plansmith.formats import native
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.refs import escape_text
from plansmith.plan.run import Run, StepState, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AskStep
from plansmith.plan.timed_plans import timing_of
from plansmith_compat.reading import FLAG, TEXT, choice, listed, names_of, without_run
from plansmith_planner import dialect
from plansmith_planner.dialect import Dialect, Reading, Writing
from plansmith_planner.parse import habits
from plansmith_planner.parse.habits import Notes, raw_text, snake

TITLE: Final = "ValueCell"
GUIDANCE: Final = "guidance"
STATUSES: Final[Mapping[StepStatus, str]] = dict.fromkeys(StepStatus, "pending") | {
    StepStatus.RUNNING: "running",
    StepStatus.ASKING: "waiting_input",
    StepStatus.UNKNOWN: "waiting_input",
    StepStatus.DONE: "completed",
    StepStatus.FAILED: "failed",
    StepStatus.SKIPPED: "cancelled",
    StepStatus.CANCELLED: "cancelled",
}
_UNCLEAR: Final = "The request is not clear enough to be carried out. What should be done?"
_HINT: Final = Sentence(
    "give {form}", form='{"tasks": [{"title", "query", "agent_name"}], "adequate", "reason"}'
)
_FIELD: Final = "field_"
_CONFIG: Final[Mapping[str, Json]] = {
    "interval_minutes": {"type": "integer", "minimum": 1},
    "daily_time": {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"},
}
_NEEDED: Final = ("title", "query", "agent_name")
_TASK: Final[Mapping[str, Json]] = {
    **dict.fromkeys(_NEEDED, TEXT),
    "pattern": choice("once", "recurring"),
    "schedule_config": native.closed(_CONFIG, ()),
}
_PLAN: Final[Mapping[str, Json]] = {
    "tasks": listed(native.closed(_TASK, _NEEDED)),
    "adequate": FLAG,
    "reason": TEXT,
    "guidance_message": TEXT,
    "user_input": listed(native.closed({"name": TEXT, "description": TEXT})),
}
# Fields of a run and its conversation; a plan does not need them.
_OF_THE_RUN: Final = frozenset(
    {
        *("conversation_id", "thread_id", "user_id", "session_id", "status", "created_at"),
        *("started_at", "completed_at", "updated_at", "error_message", "remote_task_ids"),
        "handoff_from_super_agent",
    }
)
_ALIASES: Final = habits.aliases("valuecell", "plansmith_compat")


def recognises(value: Json) -> bool:
    """Whether a value looks like ValueCell's format."""
    names = names_of(value)
    if "tasks" in names and names & {"adequate", "guidance_message", "orig_query"}:
        return True
    tasks = value.get("tasks") if isinstance(value, dict) else value
    return isinstance(tasks, list) and bool(tasks) and all(map(_is_task, tasks))


def _is_task(value: Json) -> bool:
    names = names_of(value)
    return "agent_name" in names and bool(names & {"query", "pattern", "task_id"})


def read(value: Json) -> Reading:
    """Reads an answer of ValueCell's planner, an execution plan, or a list of tasks."""
    notes = Notes()
    head = _head(value, notes)
    tasks = habits.objects(head.get("tasks"))
    # An answer without tasks says what is missing.
    refuses = head.get("guidance_message") or habits.decides("adequate", head.get("adequate"))
    if tasks is None and not refuses:
        return Reading(None, habits.not_a_plan(TITLE, _HINT))
    if tasks is None and head.get("tasks"):
        message = Sentence("the tasks are not a list of objects")
        notes.refuse("PS005", message, hint=_HINT, path=("tasks",))
    steps, schedules = _tasks(tasks or [], notes)
    adequate = notes.consent(head.get("adequate", True), "adequate")
    guidance = raw_text(head.get("guidance_message"))
    if guidance and adequate and steps:
        message = Sentence("the plan is adequate: its guidance_message is left out")
        notes.say(message, path=("guidance_message",))
    if not steps and not notes.problems and not guidance:
        guidance = raw_text(head.get("reason"))
    if not adequate:
        # Must not run as it is: every task waits for an answer first.
        guidance = guidance or raw_text(head.get("reason")) or _UNCLEAR
        answer: Json = [GUIDANCE]
        steps = [{**step, "after": answer} for step in steps]
    if guidance and not (adequate and steps):
        steps.append({"id": GUIDANCE, "kind": "ask", "question": escape_text(guidance)})
    document: dict[str, Json] = {
        "goal": raw_text(head.get("orig_query")),
        "thought": raw_text(head.get("reason")),
        "enough_context": adequate and bool(tasks),
        "steps": [*steps, *_input_questions(steps, head.get("user_input"), notes)],
    }
    if head.get("plan_id"):
        document["id"] = habits.text_of(head["plan_id"])
    return notes.reading(document | _when(steps, schedules))


def _input_questions(
    steps: Sequence[dict[str, Json]], value: Json, notes: Notes
) -> list[dict[str, Json]]:
    """Returns the questions for facts that the planner waits for; nothing is done before."""
    questions: list[dict[str, Json]] = []
    for place, each in enumerate(value if isinstance(value, list) else [value], start=1):
        given: Mapping[str, Json] = each if isinstance(each, dict) else {"description": each}
        named = {snake(name).removeprefix(_FIELD): text for name, text in given.items()}
        name = habits.text_of(named.get("name"))
        question = raw_text(named.get("description")) or name
        if question:
            step: dict[str, Json] = {"id": f"{_FIELD}{place}", "kind": "ask", "title": name}
            questions.append(step | {"question": escape_text(question)})
        elif each:
            message = Sentence(
                "field {place} of user_input does not say what is wanted: it is left out",
                place=place,
            )
            notes.drop(message, hint=Sentence("give its {missing}", missing="description"))
    for step in steps if questions else ():
        before = cast("list[Json]", step.get("after", []))
        step["after"] = [*(each["id"] for each in questions), *before]
    return questions


def _head(value: Json, notes: Notes) -> dict[str, Json]:
    if not isinstance(value, dict):
        return {"tasks": value} if recognises(value) else {}
    if _is_task(value):
        return {"tasks": [value]}
    known = (*_PLAN, "plan_id", "orig_query")
    return notes.fields(without_run(value, _OF_THE_RUN, notes), known, aliases=_ALIASES)


def _tasks(
    tasks: Sequence[Json], notes: Notes
) -> tuple[list[dict[str, Json]], list[dict[str, Json]]]:
    """Returns the steps and the schedule of each; an empty one for a task that runs once."""
    ids, steps, schedules = habits.Ids(), list[dict[str, Json]](), list[dict[str, Json]]()
    for place, task in enumerate(tasks, start=1):
        if not isinstance(task, dict):
            text = repr(str(task)[:80])
            message = Sentence("task {place} is not a task: {text}", place=place, text=text)
            notes.drop(message, hint=Sentence("write each task as an object"))
            continue
        known = (*_TASK, "task_id")
        fields = notes.fields(without_run(task, _OF_THE_RUN, notes), known, aliases=_ALIASES)
        title, query = raw_text(fields.get("title")), raw_text(fields.get("query"))
        agent = habits.text_of(fields.get("agent_name"))
        name = ids.make(fields.get("task_id"), place)
        if not agent or not (query or title):
            missing = "agent_name" if not agent else "query"
            message = Sentence("task {place} has no '{missing}'", place=place, missing=missing)
            notes.drop(message, hint=Sentence("give its {missing}", missing=missing))
            continue
        if not query:
            message = Sentence("the task has no query: its title is taken")
            notes.say(message, step=name, path=("query",))
        step: dict[str, Json] = {"id": name, "title": title, "agent": agent}
        steps.append(step | {"task": escape_text(query or title)})
        schedules.append(_schedule(fields, name, notes))
    return steps, schedules


def _schedule(fields: Mapping[str, Json], step: str, notes: Notes) -> dict[str, Json]:
    pattern, config = habits.text_of(fields.get("pattern")).lower(), fields.get("schedule_config")
    times = config.values() if isinstance(config, dict) else [config]
    scheduled = any(each is not None for each in times)
    if pattern == "once" or not (pattern or scheduled):
        if scheduled:
            notes.say(Sentence("a task that runs once has no schedule: it is left out"), step=step)
        return {}
    if pattern != "recurring":
        message = Sentence(
            "the pattern '{pattern}' is neither 'once' nor 'recurring'", pattern=pattern
        )
        hint = Sentence('write "once", or "recurring" with a schedule_config')
        notes.refuse("PS005", message, hint=hint, step=step, path=("pattern",))
        return {}
    made = _timing_of(config, step, notes) if isinstance(config, dict) else {}
    if not made:
        message = Sentence("a recurring task has no schedule")
        hint = Sentence("give interval_minutes or daily_time")
        notes.refuse("PS004", message, hint=hint, step=step, path=("schedule_config",))
    return made


def _timing_of(config: Mapping[str, Json], step: str, notes: Notes) -> dict[str, Json]:
    """Returns when a task repeats; empty if that cannot be read."""
    known = (*_CONFIG, "timezone")
    for name, each in config.items():
        if each is not None and snake(name) not in known:
            message = Sentence(
                "the field '{name}' cannot be read here, and without it the "
                "plan would mean something else",
                name=name,
            )  # such as days on which it rests
            notes.refuse("PS003", message, step=step, path=("schedule_config", name))
    given = notes.fields({n: each for n, each in config.items() if snake(n) in known}, known)
    every = notes.whole(given.get("interval_minutes"), "interval_minutes", step=step)
    daily = habits.text_of(given.get("daily_time"))
    if every is None and not daily:
        return {}
    made: dict[str, Json] = {"every_minutes": every} if every is not None else {}
    made |= {"daily_at": daily.zfill(5)} if daily else {}
    return made | ({"timezone": given["timezone"]} if given.get("timezone") else {})


def _when(
    steps: Sequence[Mapping[str, Json]], schedules: Sequence[dict[str, Json]]
) -> dict[str, Json]:
    """Returns when the tasks run again: the schedule of all, or that of each that has one."""
    if schedules and all(each == schedules[0] for each in schedules):
        return {"schedule": schedules[0]} if schedules[0] else {}
    pairs = zip(steps, schedules, strict=False)  # the question of an inadequate plan comes last
    own: dict[str, Json] = {str(step["id"]): timing for step, timing in pairs if timing}
    return {"schedules": own} if own else {}


def write(plan: Plan, run: Run | None = None) -> Writing:
    """Returns the planner's answer for this plan; with a run, the execution plan with its tasks."""
    notes = Notes()
    known = ("goal", "thought", "enough_context", "schedule", "schedules", "id")
    habits.losses(plan, known, title=TITLE, notes=notes)
    tasks: list[Json] = []
    fields: list[Json] = []
    guidance = ""
    for step in dialect.in_order(plan):
        if isinstance(step, AgentStep):
            tasks.append(_task(step, _timing(plan, step.id, notes), run, notes))
        elif isinstance(step, AskStep) and step.id == GUIDANCE:
            guidance = habits.export_text(step.question, notes, step=step.id)
        elif isinstance(step, AskStep) and step.id.startswith(_FIELD):
            question = habits.export_text(step.question, notes, step=step.id)
            fields.append({"name": step.title, "description": question})
        else:
            habits.no_such_step(step, title=TITLE, notes=notes)
    if tasks and plan.enough_context is bool(guidance):
        message = Sentence("{title} calls a plan adequate when it has tasks", title=TITLE)
        notes.lose(message, path=("enough_context",))
    value: dict[str, Json] = {"tasks": tasks, "guidance_message": guidance or None}
    if run is not None:
        value |= {"plan_id": plan.id or run.id, "orig_query": run.request or plan.goal}
        value |= {"created_at": _moment(run.created_at)}
        return Writing(value, tuple(notes.problems))
    value |= {"adequate": bool(tasks) and not guidance, "reason": plan.thought}
    value |= {"user_input": fields} if fields else {}
    if plan.goal or plan.id:
        value |= {"orig_query": plan.goal} | ({"plan_id": plan.id} if plan.id else {})
    return Writing(value, tuple(notes.problems))


def _task(step: AgentStep, timing: dict[str, Json], run: Run | None, notes: Notes) -> Json:
    habits.step_losses(step, ("title", "agent", "task"), title=TITLE, notes=notes)
    task: dict[str, Json] = {
        "task_id": step.id,
        "title": step.title,
        "query": habits.export_text(step.task, notes, step=step.id),
        "agent_name": step.agent,
        "pattern": "recurring" if timing else "once",
        "schedule_config": timing or None,
    }
    if run is not None:
        state = run.steps.get(step.id, StepState())
        task |= {
            "status": STATUSES[state.status],
            "started_at": _moment(state.started_at),
            "completed_at": _moment(state.finished_at),
            "error_message": state.error or None,
        }
    return task


def _timing(plan: Plan, step: str, notes: Notes) -> dict[str, Json]:
    schedule = timing_of(plan, step)
    if schedule is None:
        return {}
    if schedule.every_minutes is not None:
        timing: dict[str, Json] = {"interval_minutes": schedule.every_minutes}
    elif schedule.daily_at is not None:
        timing = {"daily_time": schedule.daily_at}
    else:
        path = ("schedules", step) if step in plan.schedules else ("schedule",)
        notes.lose(Sentence("{title} knows intervals and daily times only", title=TITLE), path=path)
        return {}
    return timing | ({"timezone": schedule.timezone} if schedule.timezone != "UTC" else {})


def _moment(at: datetime | None) -> Json:
    return None if at is None else at.isoformat()


def schema() -> dict[str, Json]:
    """Returns the JSON Schema of the answer of ValueCell's planner."""
    needed = ("tasks", "adequate", "reason")
    return native.plan_schema("ValueCell planner response", _PLAN, needed)


def asks(plan: Plan) -> tuple[str, ...]:
    """Returns the fields that the planner wants from the person before it goes on."""
    questions = [step for step in plan.steps if isinstance(step, AskStep)]
    fields = [step.question for step in questions if step.id.startswith(_FIELD)]
    return tuple(dialect.plain_text(each) for each in fields)


_PROMPT: Final = files("plansmith_compat.valuecell") / "prompts" / "valuecell.md"
_PARTS: Final = ("valuecell", TITLE, recognises, read, write, schema, _PROMPT)
DIALECT: Final = Dialect(*_PARTS, asks=asks, agents_only=True, turn=2)
