"""What clients are shown: each answer is a model, which also says what is taken from its source.

Plans come and go in the plan language, or in the dialect of another system.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from pydantic import BaseModel, Field

from plansmith.app import Plansmith
from plansmith.engine.journal import load_results
from plansmith.errors import PlanInvalid, PlansmithError
from plansmith.formats.native import read_plan
from plansmith.plan import events as e
from plansmith.plan.capability import AgentSpec, Capabilities, Effect, ToolSpec
from plansmith.plan.conditions import rule_sentences
from plansmith.plan.data import Json, canonical_json, stored_json
from plansmith.plan.ids import call_key, root_of
from plansmith.plan.next_move import AwaitReview, Execute, next_move
from plansmith.plan.plan import Plan
from plansmith.plan.planning import is_fallback
from plansmith.plan.problem import Problem, has_errors
from plansmith.plan.refs import without_citations
from plansmith.plan.run import Run, RunStatus, StepState
from plansmith.plan.run_options import Origin
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MapStep, PlanStep
from plansmith.plan.summary import RunSummary
from plansmith.review.policy import active_steps
from plansmith.runs.revision import everything_done, results_to_reuse
from plansmith.runs.undoing import can_be_undone
from plansmith_planner.dialect import dialect
from plansmith_planner.parse.normalize import assigned
from plansmith_planner.threads.entries import Judge, MessageKind
from plansmith_planner.threads.store import thread_of
from plansmith_server.errors import ProblemView, not_found, problem_view
from plansmith_server.provenance import run_origins

JsonObject = dict[str, Any]
CLIP: Final = 20_000
_WHOLE: Final = 1_000_000
_HOST: Final = re.compile(rb"\bhttps?://([^/\s\"'\\?#@]+)")


def view(model: type[BaseModel], source: object, **own: Any) -> JsonObject:
    """Returns an answer of this shape: what is given, and else what its source has by this name."""
    return {
        name: own[name] if name in own else getattr(source, name)
        for name, field in model.model_fields.items()
        if name in own or field.is_required()
    }


class StepView(BaseModel):
    """The state of a step; a large result is cut, the step's own address has it in full."""

    status: str
    attempts: int
    inputs: Json
    result: Json
    result_hash: str
    result_size: int
    clipped: bool
    error: str
    error_kind: str
    progress: str
    tokens: int
    started_at: datetime | None
    finished_at: datetime | None
    reused_from: str = Field(description="the earlier run in which it was done, if not in this one")
    rule: str = Field(description="why the plan itself skipped it: when, need or error")
    wakes_at: datetime | None = Field(description="when it starts, if it waits for a time")
    given_by: str = Field(description="who gave its result for a preview, in place of its own")


class QuestionView(BaseModel):
    """A question that waits for a person; its `hash` is to be sent with the answer."""

    question: str
    hash: str
    kind: e.QuestionKind
    text: str
    options: list[str]
    answer_schema: dict[str, Any] | None
    step: str | None
    expires_at: datetime | None
    link: str
    callee: str
    sources: list[str]
    times: int


class EffectsView(BaseModel):
    """What a plan reads and changes."""

    read: int
    write: int
    final: int
    hosts: list[str]
    by_step: dict[str, str]


class PlanView(BaseModel):
    """A plan with its problems, estimate, effects, origins and rules."""

    plan: dict[str, Any] | None
    hash: str | None
    problems: list[ProblemView]
    estimate: dict[str, Any] | None
    effects: EffectsView
    origins: dict[str, dict[str, str]]
    rules: dict[str, list[str]] = Field(description="the rules of steps, as sentences")


class PreviewHead(BaseModel):
    """The preview of a plan in short: the hash that approves it, and numbers of calls."""

    hash: str
    calls: int
    open: int


class TimesView(BaseModel):
    """Seconds of planning, of running and of waiting for a person, until the moment `at`."""

    planning: float
    running: float
    waiting: float
    at: datetime | None


class RunView(PlanView):
    """Everything about a run."""

    id: str
    status: str
    phase: str
    request: str
    locale: str
    decision: str
    reason: str
    damage: str
    interrupted: bool
    approved: str
    cannot_approve: str = ""
    stand_in: bool = Field(description="whether the plan stands in for one that failed")
    failure: dict[str, str] | None = Field(
        description="why planning gave no plan: `reason`, `model`, and the `output` it wrote"
    )
    running_hash: str
    revisions: int
    review: dict[str, Any] | None = Field(
        description="whether a person is `asked` to approve the plan, by its `hash`, and `reasons`"
    )
    preview: PreviewHead | None
    previewing: str = Field(description="the hash of the plan whose preview is being made")
    preview_approved: bool = Field(description="whether the calls of its preview were approved")
    reads_again: bool = Field(description="whether what was read for the preview is read again")
    started_at: datetime | None
    steps: dict[str, StepView]
    questions: list[QuestionView]
    paused: bool
    cancel_asked: bool
    replans: int
    iterations: int
    rejections: int
    tokens: int
    cost_usd: str
    report: str
    continues: dict[str, int] | None = Field(
        description="how many steps are `done` of the `total`, and would not run again"
    )
    can_be_undone: bool
    origin: Origin
    conversation: str = Field(description="the conversation it belongs to; empty if to none")
    folder: str
    created_at: datetime | None
    updated_at: datetime | None
    last: int
    times: TimesView


class TakenView(BaseModel):
    """What a message was taken for; `text` is the answer that it got at once.

    `question` is the one that it answers, `step` the one that the answer is about.
    """

    number: int
    kind: MessageKind
    text: str
    judge: Judge
    reason: str
    question: str
    step: str


class TurnView(RunView):
    """The run of a request or of a message; without a conversation there is no message."""

    message: TakenView | None = None


class RunRow(BaseModel):
    """A run in a list."""

    id: str
    status: str
    request: str
    goal: str
    origin: str = Field(description="what it was made from")
    folder: str
    locale: str
    created_at: datetime | None
    updated_at: datetime | None
    steps: dict[str, int] = Field(description="`total`, `done`, `failed` and `running`")
    questions: int
    tokens: int
    cost_usd: str
    damage: str
    planning_seconds: float
    running_seconds: float
    waiting_seconds: float


class RunPage(BaseModel):
    """Some runs, newest first; `next` is the cursor of the next page."""

    items: list[RunRow]
    next: str | None


class Listed(BaseModel):
    """A list."""

    items: list[dict[str, Any]]


class Plain(BaseModel):
    """An object whose fields the documentation describes."""

    model_config = {"extra": "allow"}


class Inspected(BaseModel):
    """A step with its inputs, result, attempts and model calls."""

    step: dict[str, Any] | None
    state: StepView
    template_inputs: Json
    resolved_inputs: Json
    attempts: list[dict[str, Any]]
    exchanges: list[dict[str, Any]]


async def run_view(smith: Plansmith, run_id: str) -> JsonObject:
    """Returns everything about a run, from one read of its journal."""
    journals = smith.runs.journals
    journal = await journals.load_verified(run_id)
    events, run = journal.events, await journals.ownership.mark_interrupted(journal.run)
    whole = await journals.whole(journal) if run.phase.over else run
    advice = [] if run.plan is None else await smith.runs.intake.advice(run.plan)
    reused = {name for name, each in run.steps.items() if each.reused_from}
    results = await load_results(smith.store, run)
    started = {name: each.inputs for name, each in run.steps.items() if each.inputs}
    values = await asyncio.gather(*map(smith.store.get, started.values()))
    inputs = dict(zip(started, values, strict=True))
    return view(
        RunView,
        run,
        plan=run.plan.to_json() if run.plan else None,
        hash=run.plan.hash if run.plan else None,
        problems=[problem_view(each) for each in (*run.problems, *advice)],
        # With sentences as such.
        estimate=run.estimate and {**run.estimate.to_json(), "basis": run.estimate.basis},
        effects=await effects_view(smith, run.plan, run.templates, done=reused),
        origins=await run_origins(smith, events, await known_tools(smith)),
        rules=rules_view(run.plan),
        stand_in=run.plan is not None and is_fallback(run.plan, run.figures),
        failure=await _failure(smith, events),
        review=_review(run),
        preview=await _preview_head(smith, run),
        preview_approved=bool(run.permits),
        steps={
            name: step_view(state, results.get(name), inputs.get(name))
            for name, state in run.steps.items()
        },
        questions=[question_view(run, each) for each in run.questions.values()],
        cost_usd=str(run.money),
        report=whole.report,
        continues=_continues(run),
        can_be_undone=run.status.over and not run.damage and can_be_undone(run, events),
        origin=run.origin.to_json(),
        conversation=await thread_of(smith.store, run),
        last=run.last.number if run.last else 0,
        times=view(TimesView, run.times, at=events[-1].at if events else None),
    )


async def _preview_head(smith: Plansmith, run: Run) -> JsonObject | None:
    if run.previewed is None:
        return None
    found = cast("JsonObject", await smith.store.get(run.previewed.content))
    counts = {name: len(found.get(name, ())) for name in ("calls", "open")}
    return {"hash": run.previewed.approval, **counts}


async def _failure(smith: Plansmith, events: Sequence[e.Event]) -> JsonObject | None:
    kinds = (e.PlanProposed, e.PlanningFailed)
    last = next((x.body for x in reversed(events) if isinstance(x.body, kinds)), None)
    if not isinstance(last, e.PlanningFailed):
        return None
    calls = cast("list[JsonObject]", await smith.store.get(last.record) if last.record else [])
    texts = [each for each in calls if each.get("text")] or calls or [dict[str, Any]()]
    wrote = texts[-1]
    output = str(wrote.get("text") or "")[:CLIP]
    return {"reason": last.reason, "model": str(wrote.get("model") or ""), "output": output}


def rules_view(plan: Plan | None) -> dict[str, list[Sentence]]:
    """Returns the rules of each step that has any, as sentences, with those of a map's items."""
    found: dict[str, list[Sentence]] = {}
    for step in plan.steps if plan else ():
        rules = rule_sentences(step)
        if isinstance(step, MapStep):
            rules += [Sentence("rule.of_item", rule=each) for each in rule_sentences(step.each)]
        if rules:
            found[step.id] = rules
    return found


async def known_tools(smith: Plansmith) -> Mapping[str, ToolSpec]:
    """Returns the current tools; none while they cannot be listed, so that runs can be read."""
    try:
        return (await smith.runs.registry.callees()).specs
    except PlansmithError:
        return {}


def _continues(run: Run) -> JsonObject | None:
    """Returns how many steps a continued run would reuse, or None if it cannot continue."""
    if run.plan is None or not run.status.over:
        return None
    kept = results_to_reuse(run, run.plan)
    if everything_done(run.plan, kept):
        return None
    return {"done": len(kept), "total": sum(not step.disabled for step in run.plan.steps)}


def _review(run: Run) -> JsonObject | None:
    """Returns why a person is or was asked to review the current plan."""
    if run.plan is None:
        return None
    if run.review_reasons is not None:
        reasons = run.review_reasons
    elif is_undecided(run):
        reasons = (Sentence("review.undecided"),)
    else:
        return None
    asked = run.review_reasons is None or awaits_review(run)
    return {"asked": asked, "hash": run.plan.hash, "reasons": reasons}


def awaits_review(run: Run) -> bool:
    """Whether a person has to decide on the current plan."""
    return isinstance(next_move(run), AwaitReview)


def is_undecided(run: Run) -> bool:
    """Whether a plan is ready and nobody was asked to review it."""
    match next_move(run):
        case Execute(needs_start=True) | AwaitReview():
            return run.phase is RunStatus.PLANNING
        case _:
            return False


def step_view(state: StepState, result: Json, inputs: Json, limit: int = CLIP) -> JsonObject:
    """Returns a step with its values, cut if they are too long."""
    size = len(stored_json(result)) if state.counts_as_done and state.result_hash else 0
    return view(
        StepView,
        state,
        inputs=clip(inputs, limit),
        result=clip(result, limit),
        result_size=size,
        clipped=size > limit,
    )


def clip(value: Json, limit: int = CLIP) -> Json:
    """Returns a value without marks of sources, or the beginning of its text if it is too long."""
    if isinstance(value, str):
        value = without_citations(value)
    text = stored_json(value)
    if len(text) <= limit:
        return value
    whole = value if isinstance(value, str) else text.decode()
    return f"{whole[:limit]}…"


def question_view(run: Run, asked: e.QuestionAsked) -> JsonObject:
    """Returns a question for a person, without the saved state of its call."""
    return view(QuestionView, asked, hash=run.question_hash(asked.question))


async def effects_view(
    smith: Plansmith,
    plan: Plan | None,
    templates: Mapping[str, Plan],
    *,
    done: Collection[str] = (),
) -> JsonObject:
    """Returns what a plan changes, by step, and counts of what is not done yet."""
    counts = {effect.value: 0 for effect in Effect}
    by_step: dict[str, str] = {}
    specs = await known_tools(smith)
    agents = {spec.name: spec for spec in smith.runs.registry.agents()}
    known = Capabilities(specs, agents)
    for step in plan.steps if plan else ():
        if step.disabled:
            continue
        inner = active_steps(Plan(steps=(step,)), templates)
        found = [known.effect(each) for each in inner if each.callee]
        for effect in found if step.id not in done else ():
            counts[effect.value] += 1
        if found or isinstance(step, (MapStep, PlanStep)):
            worst = max(found, key=lambda each: each.rank, default=Effect.READ)
            by_step[step.id] = worst.value
    hosts = _HOST.findall(canonical_json(plan.to_json())) if plan else []
    names = sorted({each.decode(errors="replace").lower() for each in hosts})[:100]
    return {**counts, "hosts": names, "by_step": by_step}


def run_row(run: RunSummary) -> JsonObject:
    """Returns the row of a run in a list."""
    return view(
        RunRow,
        run,
        id=run.run,
        steps=run.steps._asdict(),
        questions=len(run.questions),
        cost_usd=str(run.money),
        planning_seconds=run.times.planning,
        running_seconds=run.times.running,
        waiting_seconds=run.times.waiting,
    )


async def step_details(smith: Plansmith, run_id: str, name: str) -> JsonObject:
    """Returns a step with its inputs, result, attempts and model calls."""
    journal = await smith.runs.journals.load_verified(run_id)
    run, store = journal.run, smith.store
    state = run.steps.get(name)
    if state is None:
        raise not_found("step", name)
    result = await store.get(state.result_hash) if state.result_hash else None
    inputs = await store.get(state.inputs) if state.inputs else None
    # A part of a step is called by the name of the step and its own.
    planned = run.plan.by_id.get(root_of(name)) if run.plan else None
    step = planned.to_json() if planned else None
    return {
        "step": step,
        "state": step_view(state, result, inputs, _WHOLE),
        "template_inputs": step.get("inputs") if step else None,
        "resolved_inputs": inputs,
        "attempts": _attempts(run, journal.events, name),
        "exchanges": await _exchanges(smith, journal.events),
    }


def _attempts(run: Run, events: Sequence[e.Event], name: str) -> list[JsonObject]:
    """Returns each call of a step."""
    found: list[JsonObject] = []
    for event in events:
        body = event.body
        if getattr(body, "step", None) != name:
            continue
        if isinstance(body, e.StepStarted):
            key = call_key(run.id, name, body.call_mark)
            found.append({"number": body.attempt, "key": key, "started_at": event.at})
            found[-1] |= {"finished_at": None, "error": ""}
        elif found and isinstance(
            body, e.StepDone | e.StepFailed | e.StepCancelled | e.StepUnknown
        ):
            found[-1]["finished_at"] = event.at
            found[-1]["error"] = getattr(body, "error", "") or getattr(body, "reason", "")
    return found


async def _exchanges(smith: Plansmith, events: Sequence[e.Event]) -> list[JsonObject]:
    bodies = (event.body for event in reversed(events))
    makers = (each for each in bodies if isinstance(each, e.Triaged | e.PlanProposed))
    record = next((each.record for each in makers if each.record), "")
    calls = cast("list[JsonObject]", await smith.store.get(record) if record else [])
    return [{"model": x["model"], "prompt": x["prompt"], "output": x["text"]} for x in calls]


def parse_plan(
    value: Any, name: str | None, *, goal: str = "", agents: Sequence[AgentSpec]
) -> tuple[Plan, tuple[Problem, ...]]:
    """Reads a plan in a dialect, or in the plan language, with notes on what is written otherwise.

    A step that names no agent goes to the first one; `goal` is used if the format has none.
    `PlanInvalid` lists what is wrong.
    """
    if not name:
        return read_plan(value), ()
    form = dialect(name)
    reading = form.read(value)
    if reading.plan is None or has_errors(list(reading.problems)):
        raise PlanInvalid(reading.problems)
    plan, notes = assigned(reading.plan, agents, form.step_text)
    return plan.replace(goal=plan.goal or goal), (*reading.problems, *notes)


def export_plan(plan: Plan, name: str, run: Run | None = None) -> dict[str, Any]:
    """Returns a plan in a dialect, and what that cannot hold; with a run, also its results."""
    writing = dialect(name).write(plan, run)
    lost = [problem_view(each) for each in writing.lost]
    return {"dialect": name, "hash": plan.hash, "plan": writing.value, "lost": lost}
