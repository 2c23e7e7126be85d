"""Report: what came of a run, made after it from its journal and its recorded results alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from plansmith.errors import JournalDamaged, Refused
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.fold import fold
from plansmith.plan.planning_events import PlanningFailed, PrefetchEnded
from plansmith.plan.refs import RESERVED
from plansmith.plan.run import Run, RunStatus, StepState, StepStatus
from plansmith.plan.sentence import in_language
from plansmith.plan.steps import AgentStep, AnyStep, ReplyStep, ToolStep
from plansmith.ports import PlanStore
from plansmith.runner.journal import load_results, whole_run
from plansmith.runner.report_claims import check_claims
from plansmith.runner.report_data import Answer, Evidence, Failure, Report, Took
from plansmith.runner.report_history import decisions, deviations, early_reads
from plansmith.runner.report_markdown import to_markdown
from plansmith.runner.report_missing import head, missing
from plansmith.runner.report_times import times_of
from plansmith.runner.report_words import Words, words_for
from plansmith.runner.requested import missing_in

LONGEST_ANSWER: Final = 200_000
ITEMS: Final = 5
_LONGEST: Final = 2_000
_SHORTEST: Final = 80
_ALL_RESULTS: Final = 200_000
_PRICED: Final = (
    e.StepDone,
    e.StepFailed,
    e.Triaged,
    e.PlanProposed,
    PrefetchEnded,
    PlanningFailed,
)


def report(
    run: Run, status: RunStatus, results: Mapping[str, Json], events: Sequence[e.Event] = ()
) -> str:
    """The report as Markdown, in the run's language: what a run keeps."""
    return to_markdown(make_report(run, status, results, events))


async def load_report(store: PlanStore, run_id: str) -> Report:
    """The report of a run that is over, from what the store has of it."""
    try:
        events = await store.events(run_id)
        run = fold(events) if events else None
    except JournalDamaged as damage:
        hint = f"plansmith repair {run_id} goes on from the last good event"
        raise Refused(f"run {run_id} is damaged: {damage}", hint=hint) from None
    if run is None:
        raise Refused(f"there is no run {run_id!r}", hint="plansmith runs lists all runs")
    if not run.status.over:
        hint = "a report is made when a run is over; plansmith show tells how it stands"
        raise Refused(f"run {run_id} is {run.status}", hint=hint)
    run = await whole_run(store, run)
    return make_report(run, run.status, await load_results(store, run), events)


def make_report(
    run: Run, status: RunStatus, results: Mapping[str, Json], events: Sequence[e.Event] = ()
) -> Report:
    """The report of a run that has ended, or is about to, with this status."""
    plan = run.plan
    locale = plan.locale if plan else run.locale
    words = words_for(locale)
    answer, notes = _answer(run, status, results, words)
    lacks = missing(run, events)
    if plan and plan.degraded:
        notes = (words["degraded"].format(reason=plan.degraded), *notes)
    return Report(
        run=run.id,
        title=_goal(run) or run.request or words["report"],
        request=run.request,
        locale=locale,
        status=status.value,
        head=head(run, status, lacks, words),
        made_by=_made_by(events),
        plan=run.running_hash or (plan.hash if plan else ""),
        answer=answer,
        missing=tuple(in_language(each, locale) for each in missing_in(run.problems)),
        notes=notes,
        evidence=_evidence(run, results),
        deviations=(*early_reads(run, words), *deviations(events, words)),
        assumptions=plan.assumptions if plan else (),
        failures=tuple(
            Failure(name, state.status.value, in_language(state.error, locale))
            for name, state in run.steps.items()
            if state.status is not StepStatus.DONE
        ),
        decisions=tuple(decisions(events, words)),
        took=_took(run, events),
        dropped=tuple(in_language(each, locale) for each in run.dropped),
    )


def _goal(run: Run) -> str:
    """The goal of the plan that a person agreed to: a revision does not change it silently."""
    plan = run.covered.plan if run.covered else run.plan
    return plan.goal if plan else ""


def _made_by(events: Sequence[e.Event]) -> str:
    """Who made the plan that stands, in the journal's word."""
    made = [each.body.origin for each in events if isinstance(each.body, e.PlanProposed)]
    return made[-1] if made else ""


def _answer(
    run: Run, status: RunStatus, results: Mapping[str, Json], words: Words
) -> tuple[Answer, tuple[str, ...]]:
    """The last reply that was composed, checked claim by claim."""
    if status is RunStatus.ANSWERED:
        return Answer(run.report or in_language(run.reason, words["locale"])), ()
    replies = [step for step in run.plan.steps if isinstance(step, ReplyStep)] if run.plan else []
    made = [step for step in replies if step.id in results]
    if run.plan is None:
        return Answer(), (in_language(run.reason, words["locale"]),) if run.reason else ()
    if not made:
        return Answer(), (words["nothing"] if replies else words["no_reply"],)
    step = made[-1]
    text = str(results[step.id])
    seen = step.needs() - RESERVED
    checked = check_claims(text[:LONGEST_ANSWER], run, seen)
    notes = [words[f"cites_{flaw}"].format(step=name) for name, flaw in checked.wrong]
    if checked.uncited:
        notes.append(words["uncited"].format(count=checked.uncited))
    if len(text) > LONGEST_ANSWER:
        notes.append(words["clipped"].format(size=f"{len(text):,}"))
    sources = tuple(name for name in run.steps if name in seen)
    return Answer(checked.text, checked.claims, sources), tuple(notes)


def _evidence(run: Run, results: Mapping[str, Json]) -> tuple[Evidence, ...]:
    done = [
        (name, state)
        for name, state in run.steps.items()
        if state.status is StepStatus.DONE and not _is_told_by_its_whole(name, run)
    ]
    room = max(_SHORTEST, min(_LONGEST, _ALL_RESULTS // max(len(done), 1)))
    return tuple(_shown(run, name, state, results.get(name), room) for name, state in done)


def _is_told_by_its_whole(name: str, run: Run) -> bool:
    """Parts of a map or plan step are in the result of the step, if that is done."""
    whole = run.steps.get(name.rpartition("/")[0])
    return whole is not None and whole.status is StepStatus.DONE


def _shown(run: Run, name: str, state: StepState, value: Json, room: int) -> Evidence:
    whole = _text(value)
    text = whole if len(whole) <= room else _text(_shortened(value))
    step = run.plan.by_id.get(name) if run.plan else None
    return Evidence(
        step=name,
        title=step.title if step else "",
        callee=_callee(step),
        result=state.result_hash,
        shown=text[:room],
        size=len(whole),
        clipped=len(whole) > room,
        at=state.finished_at,
        taken_from=state.reused_from,
        early=bool(state.prefetched),
    )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)


def _shortened(value: Json) -> Json:
    """A value whose long lists show their beginning, so that what stands beside them is seen."""
    if isinstance(value, dict):
        return {key: _shortened(child) for key, child in value.items()}
    if not isinstance(value, list):
        return value
    more = [f"… {len(value) - ITEMS:,} more"] if len(value) > ITEMS else []
    return [*(_shortened(child) for child in value[:ITEMS]), *more]


def _callee(step: AnyStep | None) -> str:
    match step:
        case ToolStep():
            return step.tool
        case AgentStep():
            return step.agent
        case None:
            return ""
        case _:
            return step.kind


def _took(run: Run, events: Sequence[e.Event]) -> Took:
    bodies = [event.body for event in events]
    priced = [each for each in bodies if isinstance(each, _PRICED)]
    unknown = any(each.tokens and not each.cost for each in priced)
    tokens: int | None = run.tokens
    agents = run.plan.steps if run.plan else ()
    if not tokens and any(isinstance(step, AgentStep) for step in agents):
        tokens = None
    times = times_of(events)
    return Took(
        calls=run.calls or sum(state.attempts for state in run.steps.values()),
        tokens=tokens,
        money=None if unknown and not run.money else run.money,
        some_unknown=unknown or tokens is None,
        seconds=times.working if events else None,
        times=times,
    )
