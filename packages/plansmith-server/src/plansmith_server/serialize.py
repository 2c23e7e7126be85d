"""Turns runs, steps, questions and plans into the JSON of the API."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, cast

from plansmith.app import Plansmith
from plansmith.engine.journal import load_results
from plansmith.errors import PlansmithError
from plansmith.plan import events as e
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.conditions import rule_sentences
from plansmith.plan.data import Json, canonical_json, stored_json
from plansmith.plan.events import PlanningFailed
from plansmith.plan.next_move import AwaitReview, Execute, next_move
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Estimate, stands_in
from plansmith.plan.refs import without_citations
from plansmith.plan.run import Run, RunStatus, StepState
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MapStep, PlanStep
from plansmith.plan.summary import RunSummary, times_of
from plansmith.ports import Records
from plansmith.review.policy import active_steps, effects
from plansmith.runs.carry_over import carried_over, everything_done
from plansmith.runs.undoing import can_be_undone
from plansmith_planner.threads.store import ThreadStore
from plansmith_server.errors import not_found, problem_json
from plansmith_server.provenance import run_origins

CLIP: Final = 20_000
WHOLE: Final = 1_000_000
_HOST: Final = re.compile(rb"\bhttps?://([^/\s\"'\\?#@]+)")
_MOST_HOSTS: Final = 100


async def run_view(smith: Plansmith, run_id: str) -> dict[str, Json]:
    """Returns everything about a run, from one read of its journal."""
    journal = await smith.runs.journals.load(run_id)
    events, run = journal.events, await smith.runs.journals.owners.marked(journal.run)
    steps = await step_views(smith, run, CLIP)
    whole = await smith.runs.journals.whole(journal) if run.phase.over else run
    specs = await known_tools(smith)
    return {
        **_head(run),
        "plan": run.plan.to_json() if run.plan else None,
        "hash": run.plan.hash if run.plan else None,
        "problems": [problem_json(each) for each in run.problems],
        "estimate": estimate_view(run.estimate) if run.estimate else None,
        "effects": await effects_view(
            smith,
            run.plan,
            run.templates,
            done={name for name, state in run.steps.items() if state.reused_from},
        ),
        "origins": _plain(await run_origins(smith, events, specs)),
        "rules": rules_view(run.plan),
        "review": _review(run, events),
        "steps": steps,
        "questions": [question_view(run, each) for each in run.questions.values()],
        "report": whole.report,
        "prefetches": await _prefetches(smith, run),
        "continues": _continues(run),
        "can_be_undone": run.status.over and not run.damage and can_be_undone(run, events),
        "conversation": await conversation_of(smith, run),
        "stand_in": run.plan is not None and stands_in(run.plan, run.metrics),
        "failure": await _failure(smith, events),
        "times": _times(events),
    }


def _times(events: Sequence[e.Event]) -> Json:
    """Returns the seconds that a run planned, ran and waited for a person, and until when."""
    times = times_of(events)
    at = moment(events[-1].at) if events else None
    return {
        "planning": times.planning,
        "running": times.running,
        "waiting": times.waiting,
        "at": at,
    }


async def _failure(smith: Plansmith, events: Sequence[e.Event]) -> Json:
    """Returns why the newest planning gave no plan; None if it gave one."""
    outcomes = (each.body for each in reversed(events))
    kinds = (e.PlanProposed, PlanningFailed)
    last = next((each for each in outcomes if isinstance(each, kinds)), None)
    if not isinstance(last, PlanningFailed):
        return None
    calls = cast("list[dict[str, Json]]", await smith.store.get(last.record) if last.record else [])
    texts = [each for each in calls if each.get("text")] or calls
    wrote = texts[-1] if texts else {}
    output = str(wrote.get("text") or "")[:CLIP]
    return {"reason": last.reason, "model": str(wrote.get("model") or ""), "output": output}


def rules_view(plan: Plan | None) -> dict[str, Json]:
    """Returns the rules of each step that has any, as sentences, with those of a map's items."""
    found: dict[str, Json] = {}
    for step in plan.steps if plan else ():
        rules = rule_sentences(step)
        if isinstance(step, MapStep):
            rules += [Sentence("rule.of_item", rule=each) for each in rule_sentences(step.each)]
        if rules:
            found[step.id] = [*rules]
    return found


async def conversation_of(smith: Plansmith, run: Run) -> str:
    """Returns the conversation that a run belongs to; empty if it belongs to none."""
    store = smith.store
    if run.options.thread or not isinstance(store, Records):
        return run.options.thread
    return await ThreadStore(store).thread_of(run.id)


async def known_tools(smith: Plansmith) -> Mapping[str, ToolSpec]:
    """Returns the current tools; none while they cannot be listed, so that runs can be read."""
    try:
        return (await smith.runs.intake.callees()).specs
    except PlansmithError:
        return {}


async def _prefetches(smith: Plansmith, run: Run) -> list[Json]:
    """Returns the reads that were made before the plan was complete."""
    return [
        {
            "key": key,
            "tool": each.tool,
            "inputs": clip(await smith.store.get(each.inputs), CLIP),
            "started_at": moment(each.started_at),
            "ended_at": moment(each.ended_at),
            "error": each.error,
            "step": each.step or None,
        }
        for key, each in run.prefetches.items()
    ]


def _continues(run: Run) -> Json:
    """Returns how many steps a continued run would reuse, or None if it cannot continue."""
    if run.plan is None or not run.status.over:
        return None
    kept = carried_over(run, run.plan)
    if everything_done(run.plan, kept):
        return None
    return {"done": len(kept), "total": sum(not step.disabled for step in run.plan.steps)}


def _head(run: Run) -> dict[str, Json]:
    return {
        "id": run.id,
        "status": run.status.value,
        "phase": run.phase.value,
        "request": run.request,
        "locale": run.locale,
        "decision": run.decision,
        "reason": run.reason,
        "damage": run.damage,
        "interrupted": run.interrupted,
        "approved": run.approved,
        "running_hash": run.running_hash,
        "revisions": run.revisions,
        "paused": run.paused,
        "cancel_asked": run.cancel_asked,
        "replans": run.replans,
        "iterations": run.iterations,
        "rejections": run.rejections,
        "tokens": run.tokens,
        "cost_usd": str(run.money),
        "origin": run.origin.to_json(),
        "folder": run.folder,
        "created_at": moment(run.created_at),
        "updated_at": moment(run.updated_at),
        "last": run.last.number if run.last else 0,
    }


def estimate_view(estimate: Estimate) -> dict[str, Json]:
    """Returns the estimate of a plan as JSON."""
    return {**estimate.to_json(), "basis": [*estimate.basis]}


def _plain(found: Mapping[str, Mapping[str, str]]) -> dict[str, Json]:
    return {step: dict(places) for step, places in found.items()}


def _review(run: Run, events: Sequence[e.Event]) -> Json:
    """Returns why a person is or was asked to review the current plan."""
    if run.plan is None:
        return None
    digest = run.plan.hash
    asked = [each.body for each in events if isinstance(each.body, e.ReviewAsked)]
    current = [each for each in asked if each.hash == digest]
    if not current and is_undecided(run):
        return {"asked": True, "hash": digest, "reasons": [Sentence("review.undecided")]}
    if not current:
        return None
    return {"asked": awaits_review(run), "hash": digest, "reasons": list(current[-1].reasons)}


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


async def step_views(smith: Plansmith, run: Run, limit: int) -> dict[str, Json]:
    """Returns every step with its result, cut to `limit` bytes."""
    results = await load_results(smith.store, run)
    started = {name: each.inputs for name, each in run.steps.items() if each.inputs}
    inputs = dict(
        zip(started, await asyncio.gather(*map(smith.store.get, started.values())), strict=True)
    )
    return {
        name: step_view(state, results.get(name), inputs.get(name), limit)
        for name, state in run.steps.items()
    }


def step_view(state: StepState, result: Json, inputs: Json, limit: int) -> dict[str, Json]:
    """Returns the state of a step."""
    text = stored_json(result) if state.settled and state.result_hash else b""
    clipped = len(text) > limit
    return {
        "status": state.status.value,
        "attempts": state.attempts,
        "inputs": clip(inputs, limit),
        "result": clip(result, limit),
        "result_hash": state.result_hash,
        "result_size": len(text),
        "clipped": clipped,
        "error": state.error,
        "error_kind": state.error_kind,
        "progress": state.progress,
        "tokens": state.tokens,
        "started_at": moment(state.started_at),
        "finished_at": moment(state.finished_at),
        "prefetched": bool(state.prefetched),
        "reused_from": state.reused_from,
        "rule": state.rule,
        "wakes_at": moment(state.wakes_at),
    }


def clip(value: Json, limit: int) -> Json:
    """Returns a value without marks of sources, or the beginning of its text if it is too long."""
    if isinstance(value, str):
        value = without_citations(value)
    text = stored_json(value)
    if len(text) <= limit:
        return value
    whole = value if isinstance(value, str) else text.decode()
    return f"{whole[:limit]}…"


def question_view(run: Run, asked: e.QuestionAsked) -> dict[str, Json]:
    """Returns a question for a person, without the saved state of its call."""
    return {
        "question": asked.question,
        "hash": run.question_hash(asked.question),
        "kind": asked.kind,
        "text": asked.text,
        "options": list(asked.options),
        "answer_schema": asked.answer_schema,
        "step": asked.step,
        "expires_at": moment(asked.expires_at),
        "link": asked.link,
        "callee": asked.callee,
        "sources": list(asked.sources),
        "times": asked.times,
    }


async def effects_view(
    smith: Plansmith,
    plan: Plan | None,
    templates: Mapping[str, Plan],
    *,
    done: Collection[str] = (),
) -> dict[str, Json]:
    """Returns what a plan changes, by step, and counts of what is not done yet."""
    counts = dict.fromkeys(Effect, 0)
    by_step: dict[str, Json] = {}
    specs = await known_tools(smith)
    agents = {spec.name: spec for spec in smith.runs.intake.agents()}
    for step in plan.steps if plan else ():
        if step.disabled:
            continue
        found: list[Effect] = []
        for inner in active_steps(Plan(steps=(step,)), templates):
            found += [effect for _, effect in effects(inner, tools=specs, agents=agents)]
        for effect in found if step.id not in done else ():
            counts[effect] += 1
        if found or isinstance(step, (MapStep, PlanStep)):
            worst = max(found, key=lambda each: each.rank, default=Effect.READ)
            by_step[step.id] = worst.value
    hosts = _HOST.findall(canonical_json(plan.to_json())) if plan else []
    names = sorted({each.decode(errors="replace").lower() for each in hosts})[:_MOST_HOSTS]
    total: dict[str, Json] = {effect.value: count for effect, count in counts.items()}
    return {**total, "hosts": list(names), "by_step": by_step}


def run_row(run: RunSummary) -> dict[str, Json]:
    """Returns the row of a run in a list."""
    return {
        "id": run.run,
        "status": run.status.value,
        "request": run.request,
        "goal": run.goal,
        "origin": run.origin,
        "folder": run.folder,
        "locale": run.locale,
        "created_at": moment(run.created_at),
        "updated_at": moment(run.updated_at),
        "steps": {**run.steps._asdict()},
        "questions": len(run.questions),
        "tokens": run.tokens,
        "cost_usd": str(run.money),
        "damage": run.damage,
        "planning_seconds": run.times.planning,
        "running_seconds": run.times.running,
        "waiting_seconds": run.times.waiting,
    }


def moment(at: datetime | None) -> str | None:
    """Formats a time as RFC 3339 in UTC."""
    return at.isoformat().replace("+00:00", "Z") if at else None


async def inspected(smith: Plansmith, run_id: str, name: str) -> dict[str, Json]:
    """Returns a step with its inputs, result, attempts and model calls."""
    journal = await smith.runs.journals.load(run_id)
    events, run = journal.events, journal.run
    state = run.steps.get(name)
    if state is None:
        raise not_found("step", name)
    result = await smith.store.get(state.result_hash) if state.result_hash else None
    inputs = await smith.store.get(state.inputs) if state.inputs else None
    step = _step_of(run.plan, name)
    template = step.get("inputs") if step else None
    return {
        "step": step,
        "state": step_view(state, result, inputs, WHOLE),
        "template_inputs": template,
        "resolved_inputs": inputs,
        "attempts": list(_attempts(run, events, name)),
        "exchanges": await _exchanges(smith, events),
    }


def _step_of(plan: Plan | None, name: str) -> dict[str, Json] | None:
    """Returns the step of the plan by its name, or by the name of one of its parts."""
    step = plan.by_id.get(name.split("/", maxsplit=1)[0]) if plan else None
    return step.to_json() if step else None


def _attempts(run: Run, events: Sequence[e.Event], name: str) -> list[Json]:
    """Returns each call of a step; a prefetched one has the times of its prefetch."""
    found: list[dict[str, Json]] = []
    ended: datetime | None = None
    for event in events:
        match event.body:
            case e.StepStarted(step=step, attempt=attempt, key=key) as body if step == name:
                prefetch = run.prefetches.get(body.prefetched)
                began, ended = (
                    (prefetch.started_at, prefetch.ended_at) if prefetch else (event.at, None)
                )
                found.append({"number": attempt, "key": key, "started_at": moment(began)})
                found[-1] |= {"finished_at": None, "error": "", "read_early": prefetch is not None}
            case (
                e.StepDone(step=step)
                | e.StepFailed(step=step)
                | e.StepCancelled(step=step)
                | e.StepUnknown(step=step)
            ) as body if step == name and found:
                found[-1]["finished_at"] = moment(ended or event.at)
                found[-1]["error"] = _error(body)
            case _:
                pass
    return cast("list[Json]", found)


def _error(body: e.StepDone | e.StepFailed | e.StepCancelled | e.StepUnknown) -> str:
    match body:
        case e.StepFailed(error=error):
            return error
        case e.StepCancelled(reason=reason) | e.StepUnknown(reason=reason):
            return reason
        case _:
            return ""


async def _exchanges(smith: Plansmith, events: Sequence[e.Event]) -> list[Json]:
    """Returns the model calls that made the current plan."""
    records = [
        event.body.record
        for event in events
        if isinstance(event.body, (e.Triaged, e.PlanProposed)) and event.body.record
    ]
    if not records:
        return []
    calls = cast("list[dict[str, Json]]", await smith.store.get(records[-1]))
    return [
        {"model": each["model"], "prompt": each["prompt"], "output": each["text"]} for each in calls
    ]
