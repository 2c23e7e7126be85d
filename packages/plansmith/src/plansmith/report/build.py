"""Builds the report of a run from its journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from plansmith.engine.journal import load_results, results_left, whole_run
from plansmith.engine.outcome import was_refused
from plansmith.errors import JournalDamaged, NotFound, Refused
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_of, json_text
from plansmith.plan.earlier import FROM_EARLIER
from plansmith.plan.events import PlanningFailed, PrefetchEnded
from plansmith.plan.fold import fold
from plansmith.plan.refs import RESERVED, is_earlier
from plansmith.plan.run import Run, RunStatus, StepState, StepStatus
from plansmith.plan.sentence import Sentence, in_language, in_language_if, with_hint
from plansmith.plan.steps import AgentStep, AnyStep, ReplyStep, ToolStep
from plansmith.plan.summary import times_of
from plansmith.ports import PlanStore
from plansmith.report.data import Answer, Evidence, Failure, Report, Took, Words, words_for
from plansmith.report.history import check_claims, decisions, deviations, early_reads
from plansmith.report.markdown import to_markdown

_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Missing:
    """A step that should have changed something and is not done; `parts` is (done, total)."""

    step: str
    status: str
    title: str = ""
    parts: tuple[int, int] = (0, 0)


def missing(run: Run, events: Sequence[e.Event]) -> Iterator[Missing]:
    """Yields the steps of the plan that should have changed something and are not done."""
    proposed = [each.body for each in events if isinstance(each.body, e.PlanProposed)]
    acts = {name for body in proposed for name in body.acts}
    for step in run.plan.steps if run.plan else ():
        state = run.steps.get(step.id)
        if step.disabled or state is None or (state.settled and state.rule != "error"):
            continue
        parts = [each for name, each in run.steps.items() if name.startswith(f"{step.id}/")]
        unsure = any(map(_is_unsure, [state, *parts]))
        if step.id in acts or state.status is StepStatus.UNKNOWN:
            status = StepStatus.UNKNOWN.value if unsure else outcome_of(run, step.id)
            done = sum(each.status is StepStatus.DONE for each in parts)
            yield Missing(step.id, status, step.title, (done, len(parts)))


def outcome_of(run: Run, step: str) -> str:
    """Returns how a step ended, for readers: what a person refused did not fail."""
    status = run.steps[step].status
    refused = status is StepStatus.FAILED and was_refused(run, step)
    return "refused" if refused else status.value


def found_nothing(
    run: Run, events: Sequence[e.Event], results: Mapping[str, Json], told: Sequence[str]
) -> bool:
    """Whether a run that changed nothing has only empty lists to tell: nothing was there."""
    acts = any(each.body.acts for each in events if isinstance(each.body, e.PlanProposed))
    steps = run.plan.steps if run.plan and not acts else ()
    looked = [step.id for step in steps if not isinstance(step, ReplyStep) and step.id in results]
    asked = [name for name in looked if name in told] or looked
    return bool(asked) and all(_is_empty(results[name]) for name in asked)


def _is_empty(value: Json) -> bool:
    """Whether a result is a list without items, or an object that says nothing else."""
    if not isinstance(value, dict):
        return value == []
    said = [each for key, each in value.items() if key not in ("columns", "notes")]
    return [] in said and not any(said)


def _is_unsure(state: StepState) -> bool:
    """Tells whether a call may have taken effect: its end is unknown, or it was cancelled."""
    stopped = state.status is StepStatus.CANCELLED and bool(state.inputs)
    return stopped or state.status is StepStatus.UNKNOWN


def head(
    run: Run,
    status: RunStatus,
    missing_steps: Sequence[Missing],
    words: Words,
    *,
    is_empty: bool = False,
) -> tuple[str, ...]:
    """Returns the first lines of a report: what is missing comes before anything else."""
    if run.plan is None and status is RunStatus.FAILED:
        # Reads may have been made while the plan was still being written.
        return (words["status_no_plan_read" if run.prefetches else "status_no_plan"],)
    taken = [state for state in run.steps.values() if state.reused_from]
    empty = "_empty" if is_empty and status is RunStatus.DONE else ""
    lines = [words[f"status_{status.value}{empty}"]]
    if taken and not empty and status is RunStatus.DONE:
        total = sum(not step.disabled for step in run.plan.steps) if run.plan else 0
        lines = [words["status_done_continued"].format(done=len(taken), total=total)]
    if status is RunStatus.DONE and (not_run := [*_not_run(run, words)]):
        lines = [*(lines if taken else ()), *not_run]
    sure = [each for each in missing_steps if each.status != StepStatus.UNKNOWN.value]
    unsure = [each for each in missing_steps if each.status == StepStatus.UNKNOWN.value]
    locale = words["locale"]
    missing_lines = [
        words["dropped"].format(call=in_language(call, locale)) for call in run.dropped
    ]
    missing_lines += [words["not_known"].format(step=_named(each)) for each in unsure]
    if sure:
        each = ", ".join(f"{_named(one)} ({_state(one, words)})" for one in sure)
        missing_lines.append(words["not_done"].format(steps=each))
    if status is RunStatus.CANCELLED or not missing_lines:
        return (*lines, *missing_lines)
    # What is missing comes first; a status line that contradicts it is left out.
    contradicted = status is RunStatus.DONE or (status is RunStatus.FAILED and unsure)
    return (*missing_lines, *(() if contradicted else lines))


def _not_run(run: Run, words: Words) -> Iterator[str]:
    """Yields what a run did not do although it is done: its plan says so."""
    skipped = [name for name, state in run.steps.items() if state.rule in ("when", "need")]
    failed = [name for name, state in run.steps.items() if state.rule == "error"]
    for key, names in (("status_done_skipped", skipped), ("status_done_passed", failed)):
        if names:
            more = ", …" if len(names) > _MOST_NAMED else ""
            yield words[key].format(steps=", ".join(names[:_MOST_NAMED]) + more)


def _state(each: Missing, words: Words) -> str:
    done, total = each.parts
    state = words[f"is_{each.status}"]
    return f"{state}; {words['parts_done'].format(done=done, total=total)}" if done else state


def _named(each: Missing) -> str:
    return f"{each.step} — {each.title}" if each.title else each.step


# What follows the last thing that a report tells.
_CLOSING: Final = (e.RunFinished, e.ReportMade)
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


def report_maker(run: Run, events: Sequence[e.Event]) -> Callable[[Mapping[str, Json]], str] | None:
    """Returns what makes the report of a run from its results, as Markdown in its language.

    None for a run that is not over, and for one that neither started nor was cancelled: it has
    nothing to tell. Answers without a plan are stored.
    """
    if run.report_hash or not run.phase.over or not _is_concluded(run):
        return None
    return partial(_text_of, run, events)


def _is_concluded(run: Run) -> bool:
    """Tells whether a run that is over came to its end, not only its planning."""
    return run.started_at is not None or run.cancel_asked


def _text_of(run: Run, events: Sequence[e.Event], results: Mapping[str, Json]) -> str:
    kept = {
        name: results[name]
        for name, state in run.steps.items()
        if name in results and _is_recorded(results[name], state)
    }
    return to_markdown(final_report(run, kept, events))


def _is_recorded(result: Json, state: StepState) -> bool:
    """Tells whether a result is still the recorded one: whoever got the run may have changed it."""
    try:
        return content_of(result).digest == state.result_hash
    except (TypeError, ValueError):
        return False


async def load_report(store: PlanStore, run_id: str, *, locale: str = "") -> Report:
    """Builds the report of a run that is over, from the store; in its language if none is given."""
    try:
        events = await store.events(run_id)
        run = fold(events) if events else None
    except JournalDamaged as damage:
        told = with_hint(damage.message, damage.hint)
        why = Sentence("run {run} is damaged: {damage}", run=run_id, damage=told)
        hint = Sentence(
            "plansmith store repair {run} continues after the last good event", run=run_id
        )
        raise Refused(why, hint=hint) from None
    if run is None:
        hint = Sentence("plansmith runs lists them")
        raise NotFound(Sentence("there is no run '{name}'", name=run_id), hint=hint)
    if not run.status.over:
        status = Sentence(f"status.{run.status.value}")
        hint = Sentence("a report is made when a run is over; plansmith show shows its state")
        raise Refused(Sentence("run {run} is {status}", run=run_id, status=status), hint=hint)
    try:
        results = await load_results(store, run)
    except JournalDamaged:
        results = await results_left(store, run)
    return final_report(await whole_run(store, run, results), results, events, locale)


def final_report(
    run: Run, results: Mapping[str, Json], events: Sequence[e.Event], locale: str = ""
) -> Report:
    """Builds the report of a run that is over, as it stood when it ended."""
    if not _is_concluded(run):
        return make_report(run, run.status, results, events, locale)
    told = list(events)
    while len(told) > 1 and isinstance(told[-1].body, _CLOSING):
        told.pop()
    return make_report(fold(told), run.status, results, told, locale)


def make_report(
    run: Run,
    status: RunStatus,
    results: Mapping[str, Json],
    events: Sequence[e.Event] = (),
    locale: str = "",
) -> Report:
    """Builds the report of a run that has ended, or is about to end, with this status."""
    plan = run.plan
    locale = locale or (plan.locale if plan else run.locale)
    words = words_for(locale)
    answer, notes = _answer(run, status, results, words)
    missing_steps = [*missing(run, events)]
    is_empty = found_nothing(run, events, results, answer.sources)
    if plan and (why := in_language_if(plan.degraded or "", "show.by_rules", locale)):
        notes = (words["degraded"].format(reason=why), *notes)
    return Report(
        run=run.id,
        title=_goal(run) or run.request or words["report"],
        request=run.request,
        locale=locale,
        status=status.value,
        head=head(run, status, missing_steps, words, is_empty=is_empty),
        made_by=_made_by(events),
        plan=run.running_hash or (plan.hash if plan else ""),
        answer=answer,
        notes=notes,
        evidence=_evidence(run, results, words),
        deviations=(*early_reads(run, words), *deviations(events, words)),
        assumptions=plan.assumptions if plan else (),
        failures=tuple(
            Failure(name, outcome_of(run, name), in_language(state.error, locale))
            for name, state in run.steps.items()
            if not state.settled or state.rule == "error"
        ),
        decisions=tuple(decisions(events, words)),
        took=_took(run, events),
        dropped=tuple(in_language(each, locale) for each in run.dropped),
    )


def _goal(run: Run) -> str:
    """Returns the goal of the approved plan; a revision cannot change it silently."""
    plan = run.covered.plan if run.covered else run.plan
    return plan.goal if plan else ""


def _made_by(events: Sequence[e.Event]) -> str:
    made = [each.body.origin for each in events if isinstance(each.body, e.PlanProposed)]
    return made[-1] if made else ""


def _answer(
    run: Run, status: RunStatus, results: Mapping[str, Json], words: Words
) -> tuple[Answer, tuple[str, ...]]:
    """Returns the last reply, with every citation checked, and notes about it."""
    if status is RunStatus.ANSWERED:
        return Answer(run.report or in_language(run.reason, words["locale"])), ()
    replies = [step for step in run.plan.steps if isinstance(step, ReplyStep)] if run.plan else []
    made = [step for step in replies if step.id in results]
    if run.plan is None:
        return Answer(), (in_language(run.reason, words["locale"]),) if run.reason else ()
    if not made:
        lost = any(run.steps[step.id].status is StepStatus.DONE for step in replies)
        missing_reply = words["lost_reply"] if lost else words["nothing"]
        return Answer(), (missing_reply if replies else words["no_reply"],)
    step = made[-1]
    text = str(results[step.id])
    earlier = [name for name in dict.fromkeys(ref.step for ref in step.refs()) if is_earlier(name)]
    seen = (step.needs() - RESERVED).union(earlier)
    checked = check_claims(text[:LONGEST_ANSWER], run, seen)
    notes = [words[f"cites_{flaw}"].format(step=name) for name, flaw in checked.wrong]
    if checked.uncited and not _is_used(step, run):
        notes.append(words["uncited"].format(count=checked.uncited))
    if len(text) > LONGEST_ANSWER:
        notes.append(words["clipped"].format(size=f"{len(text):,}"))
    notes += _earlier_notes(run, words["locale"])
    sources = (*(name for name in run.steps if name in seen), *earlier)
    return Answer(checked.text, checked.claims, sources), tuple(notes)


def _is_used(reply: ReplyStep, run: Run) -> bool:
    """Tells whether another step gets the text of a reply, which has no marks of sources then."""
    steps = run.plan.steps if run.plan else ()
    return any(ref.step == reply.id for step in steps for ref in step.refs())


def _earlier_notes(run: Run, locale: str) -> list[str]:
    used = [each.message for each in run.problems if each.code == FROM_EARLIER]
    return [*dict.fromkeys(in_language(each, locale) for each in used)]


def _evidence(run: Run, results: Mapping[str, Json], words: Words) -> tuple[Evidence, ...]:
    done = [
        (name, state)
        for name, state in run.steps.items()
        if state.status is StepStatus.DONE and not _is_part_of_done_step(name, run)
    ]
    width = max(_SHORTEST, min(_LONGEST, _ALL_RESULTS // max(len(done), 1)))
    lost = words["lost"]
    return tuple(
        _shown_result(run, name, state, results.get(name, lost), width) for name, state in done
    )


def _is_part_of_done_step(name: str, run: Run) -> bool:
    """Tells whether a part belongs to a finished step, whose result contains it."""
    step = run.steps.get(name.rpartition("/")[0])
    return step is not None and step.status is StepStatus.DONE


def _shown_result(run: Run, name: str, state: StepState, value: Json, width: int) -> Evidence:
    full = _text(value)
    text = full if len(full) <= width else _text(_shortened(value))
    step = run.plan.by_id.get(name) if run.plan else None
    return Evidence(
        step=name,
        title=step.title if step else "",
        callee=_callee(step),
        result=state.result_hash,
        shown=text[:width],
        size=len(full),
        clipped=len(full) > width,
        at=state.finished_at,
        taken_from=state.reused_from,
        early=bool(state.prefetched),
    )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json_text(value, indent=1)


def _shortened(value: Json) -> Json:
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
