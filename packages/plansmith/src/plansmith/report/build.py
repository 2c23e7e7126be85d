"""Builds the report of a run from its journal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from plansmith.engine.journal import whole_run
from plansmith.errors import JournalDamaged, NotFound, Refused
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_of, full_hash, json_text
from plansmith.plan.earlier import FROM_EARLIER
from plansmith.plan.fold import fold
from plansmith.plan.ids import parent_of
from plansmith.plan.refs import RESERVED, is_earlier
from plansmith.plan.run import ReportText, Run, RunStatus, StepStatus, was_refused
from plansmith.plan.sentence import Sentence, in_language, in_language_if, with_hint
from plansmith.plan.steps import AgentStep, ReplyStep
from plansmith.ports import Store
from plansmith.report.data import Answer, Evidence, Failure, Report, Took, Words, words_for
from plansmith.report.history import check_claims, decisions, deviations
from plansmith.report.markdown import to_markdown

_MAX_NAMED: Final = 5
_MAX_ANSWER: Final = 200_000
_ITEMS: Final = 40  # of a list that is clipped
_MAX_LENGTH: Final = 12_000
_MAX_TEXT: Final = 2_000
_SHORTEST: Final = 80
_ALL_RESULTS: Final = 200_000
_PRICED: Final = (e.StepDone, e.StepFailed, e.PlanningBody)


def with_report(run: Run, events: Sequence[e.Event]) -> Run:
    """Returns a run with its report as Markdown in its language, made when it is read.

    One that is not over, or that neither started nor was cancelled, has nothing to tell. Answers
    without a plan are stored.
    """
    has_begun = run.started_at is not None or run.cancel_asked
    if run.answer_hash or not run.phase.over or not has_begun:
        return run
    text = ReportText(make=lambda: to_markdown(report_of(run, events)))
    return run.replace(report_text=text)


def report_of(run: Run, events: Sequence[e.Event], locale: str = "") -> Report:
    """Builds the report of a run with its results; of those, only what was recorded counts."""
    kept: dict[str, Json] = {}
    for name, state in run.steps.items():
        # It may not have been read, or whoever got the run may have changed it.
        with suppress(TypeError, ValueError):
            if state.counts_as_done and content_of(state.result).digest == state.result_hash:
                kept[name] = state.result
    return make_report(run, kept, events, locale)


async def load_report(store: Store, run_id: str, *, locale: str = "") -> Report:
    """Builds the report of a run that is over, from the store; in its language if none is given."""
    try:
        events = await store.events(run_id)
        run = fold(events) if events else None
    except JournalDamaged as damage:
        reason = with_hint(damage.message, damage.hint)
        why = Sentence("run {run} is damaged: {damage}", run=run_id, damage=reason)
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
    return report_of(await whole_run(store, run), events, locale)


def make_report(
    run: Run, results: Mapping[str, Json], events: Sequence[e.Event] = (), locale: str = ""
) -> Report:
    """Builds the report of a run that has ended."""
    plan = run.plan
    # The goal is that of the approved plan: a revision cannot change it silently.
    approved = run.approved_plan.plan if run.approved_plan else plan
    locale = locale or (plan.locale if plan else run.locale)
    words = words_for(locale)
    ending = _Ending(run, results, events, words)
    answer, notes = ending.answer()
    if plan and (why := in_language_if(plan.degraded or "", "show.by_rules", locale)):
        notes = (words["degraded"].format(reason=why), *notes)
    return Report(
        run=run.id,
        title=(approved.goal if approved else "") or run.request or words["report"],
        request=run.request,
        locale=locale,
        status=run.status.value,
        head=ending.head(),
        made_by=ending.proposed[-1].origin if ending.proposed else "",
        plan=run.running_hash or (plan.hash if plan else ""),
        answer=answer,
        notes=notes,
        evidence=tuple(ending.evidence()),
        deviations=tuple(deviations(events, words)),
        assumptions=plan.assumptions if plan else (),
        failures=tuple(
            Failure(name, ending.outcome(name), in_language(state.error, locale))
            for name, state in run.steps.items()
            if not state.counts_as_done or state.rule == "error"
        ),
        decisions=tuple(decisions(events, words)),
        took=ending.took(),
        dropped=tuple(in_language(each, locale) for each in run.drops_approved),
    )


@dataclass(frozen=True)
class _Ending:
    run: Run
    results: Mapping[str, Json]
    events: Sequence[e.Event]
    words: Words

    @cached_property
    def proposed(self) -> list[e.PlanProposed]:
        return [each.body for each in self.events if isinstance(each.body, e.PlanProposed)]

    def outcome(self, step: str) -> str:
        """Returns how a step ended, for readers: what a person refused did not fail."""
        status = self.run.steps[step].status
        refused = status is StepStatus.FAILED and was_refused(self.run, step)
        return "refused" if refused else status.value

    def head(self) -> tuple[str, ...]:
        """Returns the first lines of a report: what is missing comes before anything else."""
        run, status, words = self.run, self.run.status, self.words
        if run.plan is None and status is RunStatus.FAILED:
            return (words["status_no_plan"],)
        lines = [words[f"status_{status.value}"]]
        if status is RunStatus.DONE:
            lines = self._done_lines()
        unsure, not_done = self._missing()
        dropped = [in_language(call, words["locale"]) for call in run.drops_approved]
        lacking = [words["dropped"].format(call=call) for call in dropped]
        lacking += [words["not_known"].format(step=step) for step in unsure]
        if not_done:
            lacking.append(words["not_done"].format(steps=", ".join(not_done)))
        if status is RunStatus.CANCELLED or not lacking:
            return (*lines, *lacking)
        # What is missing comes first; a status line that contradicts it is left out.
        contradicted = status is RunStatus.DONE or (status is RunStatus.FAILED and unsure)
        return (*lacking, *(() if contradicted else lines))

    def _done_lines(self) -> list[str]:
        """Returns what a run that is done did, and what it did not do because its plan says so."""
        run, words = self.run, self.words
        taken = [state for state in run.steps.values() if state.reused_from]
        if taken:
            total = sum(not step.disabled for step in run.plan.steps) if run.plan else 0
            lines = [words["status_done_continued"].format(done=len(taken), total=total)]
        else:
            lines = [words["status_done"]]
        not_run: list[str] = []
        for key, rules in (
            ("status_done_skipped", ("when", "need")),
            ("status_done_left_out", ("left_out",)),
            ("status_done_passed", ("error",)),
        ):
            names = [name for name, state in run.steps.items() if state.rule in rules]
            more = ", …" if len(names) > _MAX_NAMED else ""
            if names:
                not_run.append(words[key].format(steps=", ".join(names[:_MAX_NAMED]) + more))
        return [*(lines if taken or not not_run else ()), *not_run]

    def _missing(self) -> tuple[list[str], list[str]]:
        """Returns the steps that should have changed something and may have, and that have not."""
        run, words = self.run, self.words
        acts = {name for body in self.proposed for name in body.acts}
        unsure: list[str] = []
        not_done: list[str] = []
        for step in run.plan.steps if run.plan else ():
            state = run.steps.get(step.id)
            if step.disabled or state is None or (state.counts_as_done and state.rule != "error"):
                continue
            if step.id not in acts and state.status is not StepStatus.UNKNOWN:
                continue
            label = f"{step.id} — {step.title}" if step.title else step.id
            parts = [each for name, each in run.steps.items() if name.startswith(f"{step.id}/")]
            # A call that was cancelled may have taken effect, too.
            if any(
                each.status is StepStatus.UNKNOWN
                or (each.status is StepStatus.CANCELLED and bool(each.inputs))
                for each in (state, *parts)
            ):
                unsure.append(label)
                continue
            done = sum(each.status is StepStatus.DONE for each in parts)
            some = words["parts_done"].format(done=done, total=len(parts))
            outcome = words[f"is_{self.outcome(step.id)}"]
            not_done.append(f"{label} ({outcome}; {some})" if done else f"{label} ({outcome})")
        return unsure, not_done

    def answer(self) -> tuple[Answer, tuple[str, ...]]:
        """Returns the last reply, with every citation checked, and notes about it."""
        run, words, plan = self.run, self.words, self.run.plan
        if run.status is RunStatus.ANSWERED:
            return Answer(run.report or in_language(run.reason, words["locale"])), ()
        if plan is None:
            return Answer(), (in_language(run.reason, words["locale"]),) if run.reason else ()
        replies = [step for step in plan.steps if isinstance(step, ReplyStep)]
        made = [step for step in replies if step.id in self.results]
        if not made:
            lost = any(run.steps[step.id].status is StepStatus.DONE for step in replies)
            some = any(state.status is StepStatus.DONE for state in run.steps.values())
            without = "no_reply" if some else "no_results"
            key = without if not replies else "lost_reply" if lost else "nothing"
            return Answer(), (words[key],)
        step, text = made[-1], str(self.results[made[-1].id])
        refs = dict.fromkeys(ref.step for ref in step.input_refs())
        earlier = [name for name in refs if is_earlier(name)]
        seen = (step.needed - RESERVED).union(earlier)
        checked = check_claims(text[:_MAX_ANSWER], run, seen)
        notes = [words[f"cites_{flaw}"].format(step=name) for name, flaw in checked.wrong]
        # The text of a reply that another step gets has no marks of sources.
        is_used = any(ref.step == step.id for other in plan.steps for ref in other.input_refs())
        if checked.uncited and not is_used:
            notes.append(words["uncited"].format(count=checked.uncited))
        if len(text) > _MAX_ANSWER:
            notes.append(words["clipped"].format(size=f"{len(text):,}"))
        used = [each.message for each in run.problems if each.code == FROM_EARLIER]
        notes += dict.fromkeys(in_language(each, words["locale"]) for each in used)
        sources = (*(name for name in run.steps if name in seen), *earlier)
        return Answer(checked.text, checked.claims, sources), tuple(notes)

    def evidence(self) -> Iterator[Evidence]:
        """Yields the results of the finished steps, shorter the more there are."""
        run = self.run
        done = {name for name, state in run.steps.items() if state.status is StepStatus.DONE}
        # The result of a finished step contains those of its parts.
        names = [name for name in run.steps if name in done and parent_of(name) not in done]
        share = max(_SHORTEST, min(_MAX_LENGTH, _ALL_RESULTS // max(len(names), 1)))
        for name in names:
            state, step = run.steps[name], run.plan.by_id.get(name) if run.plan else None
            value = self.results.get(name, self.words["lost"])
            full = _text(value)
            width = min(share, _MAX_TEXT) if isinstance(value, str) else share
            yield Evidence(
                step=name,
                title=step.title if step else "",
                callee=(step.callee or step.kind) if step else "",
                result_hash=full_hash(state.result_hash),
                result=(full if len(full) <= width else _text(_shortened(value)))[:width],
                characters=len(full),
                clipped=len(full) > width,
                at=state.finished_at,
                taken_from=state.reused_from or None,
                given_by=state.given_by,
                is_prose=isinstance(value, str) and isinstance(step, AgentStep | ReplyStep),
            )

    def took(self) -> Took:
        run = self.run
        priced = [each.body for each in self.events if isinstance(each.body, _PRICED)]
        unknown = any(each.tokens and not each.cost for each in priced)
        tokens: int | None = run.tokens
        if not tokens and run.plan and any(isinstance(step, AgentStep) for step in run.plan.steps):
            tokens = None
        return Took(
            calls=run.calls or sum(state.attempts for state in run.steps.values()),
            tokens=tokens,
            money_usd=None if unknown and not run.money else run.money,
            some_prices_unknown=unknown or tokens is None,
            seconds=run.times.working if self.events else None,
            times=run.times,
        )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json_text(value, indent=1)


def _shortened(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _shortened(child) for key, child in value.items()}
    if not isinstance(value, list):
        return value
    more = [f"… {len(value) - _ITEMS:,} more"] if len(value) > _ITEMS else []
    return [*(_shortened(child) for child in value[:_ITEMS]), *more]
