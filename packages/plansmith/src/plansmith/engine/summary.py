"""Makes the summary of a run as it is written, from its fold and its new events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from plansmith.engine.timings import calls_of
from plansmith.errors import JournalDamaged
from plansmith.plan import events as e
from plansmith.plan.data import Content, Json, content_of
from plansmith.plan.fold import RunFold
from plansmith.plan.plan import Plan
from plansmith.plan.planning import PlanningFigures
from plansmith.plan.run import RunStatus, StepState, StepStatus, open_calls, status_of
from plansmith.plan.summary import ModelUse, RunClock, RunSummary, StepCounts

Get = Callable[[str], Awaitable[Json]]


class SummaryMaker:
    """Makes the summaries of one run; looks at each of its events once."""

    def __init__(self) -> None:
        self._clock = RunClock()
        self._records: list[str] = []
        self._known: dict[str, list[tuple[str, int]]] = {}
        self._taken = 0
        # The plan that the last stored summary tells.
        self.plan: Plan | None = None

    def copy(self) -> SummaryMaker:
        """Returns one that has looked at the same events."""
        copied = SummaryMaker()
        copied._clock, copied._records = self._clock.copy(), [*self._records]
        copied._known, copied._taken, copied.plan = self._known, self._taken, self.plan
        return copied

    def look(
        self, fold: RunFold, events: Sequence[e.Event], new: Sequence[e.Event]
    ) -> tuple[str, RunSummary | None]:
        """Returns the status after the new events; the summary too, unless steps are running."""
        run = fold.run
        status = status_of(run, fold.steps, fold.questions)
        if status is RunStatus.RUNNING and run.plan is self.plan:
            return status.value, None
        self.plan = run.plan
        return status.value, self.summary(fold, events, new)

    def summary(
        self, fold: RunFold, events: Sequence[e.Event], new: Sequence[e.Event] = ()
    ) -> RunSummary:
        """Returns the summary of a run after these events and the new ones, without models."""
        clock, steps = self._clock_after(events, new), fold.steps
        run, questions = fold.run, tuple(fold.questions)
        status = status_of(run, steps, fold.questions)
        over = status.over
        planning = run.plan is None and not questions and not run.paused
        figures = run.metrics
        if run.plan is None and status is RunStatus.FAILED:
            figures = PlanningFigures(input_tokens=run.tokens)  # it got no plan, which counts too
        return RunSummary(
            run=run.id,
            number=len(events) + len(new),
            status=status,
            request=run.request,
            goal=run.plan.goal if run.plan else "",
            folder=run.folder,
            locale=run.locale,
            origin=run.origin.kind,
            reason=run.reason,
            created_at=run.created_at,
            updated_at=fold.updated_at,
            steps=_counts(run.plan, steps),
            questions=questions,
            tokens=run.tokens,
            money=run.money,
            times=clock.times,
            working=not over and (planning or bool(open_calls(steps))),
            figures=figures,
            calls=calls_of(run, steps) if over else {},
        )

    def _clock_after(self, events: Sequence[e.Event], new: Sequence[e.Event]) -> RunClock:
        """Takes the stored events for good, and the new ones for now: they may not be stored."""
        some = events[self._taken :]
        self._taken = len(events)
        self._clock.take(some)
        self._records += _records(some)
        if not new:
            return self._clock
        clock = self._clock.copy()
        clock.take(new)
        return clock

    async def with_models(
        self,
        summary: RunSummary,
        new: Sequence[e.Event],
        values: Sequence[Json | Content],
        get: Get,
    ) -> RunSummary:
        """Returns the summary with the calls of models; `values` are stored with the new events."""
        fresh = _records(new)
        records = [*self._records, *fresh]
        if not records:
            return summary
        brought = dict(map(content_of, values)) if fresh else {}
        calls, tokens = Counter[str](), Counter[str]()
        for record in records:
            if record not in self._known:
                self._known[record] = await _model_calls(record, brought, get)
            for model, spent in self._known[record]:
                calls[model] += 1
                tokens[model] += spent
        models = {name: ModelUse(calls[name], tokens[name]) for name in calls}
        return replace(summary, models=models)


def _records(events: Sequence[e.Event]) -> list[str]:
    """Returns the hashes of what models were asked and said."""
    found: list[str] = []
    for event in events:
        body = event.body
        # By class: nearly all events are those of steps.
        if (type(body) is e.Triaged or type(body) is e.PlanProposed) and body.record:
            found.append(body.record)
    return found


async def _model_calls(
    record: str, brought: Mapping[str, bytes], get: Get
) -> list[tuple[str, int]]:
    try:
        text = brought.get(record)
        found = Content(record, text).value() if text is not None else await get(record)
    except JournalDamaged:
        return []  # the plan counts without it
    exchanges = (
        [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    )
    return [(str(each.get("model") or ""), _whole(each.get("tokens"))) for each in exchanges]


def _whole(value: Json) -> int:
    return value if isinstance(value, int) else 0


def _counts(plan: Plan | None, steps: Mapping[str, StepState]) -> StepCounts:
    states = [steps[step.id].status for step in plan.steps if step.id in steps] if plan else []
    wanted = StepStatus.DONE, StepStatus.FAILED, StepStatus.RUNNING
    return StepCounts(len(states), *map(states.count, wanted))
