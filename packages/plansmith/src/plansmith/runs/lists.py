"""Lists, counts and adds up runs by their summaries; reads only journals that have none yet."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from plansmith.errors import JournalError, Misconfigured, NotFound
from plansmith.plan.planning import ModelUse
from plansmith.plan.run import RunStatus
from plansmith.plan.summary import NO_STATUS, Headline, RunSummary
from plansmith.runs.journals import Journals

if TYPE_CHECKING:
    from plansmith.plan.data import Json
    from plansmith.plan.planning import PlanningFigures

_PAGE: Final = 500
_RUNS_A_PAGE: Final = 50


@dataclass(slots=True)
class DayUsage:
    """Runs, tokens and cost of the runs of one day."""

    runs: int = 0
    tokens: int = 0
    money: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class RunTotals:
    """What all runs together are and cost, and how they were planned."""

    statuses: Mapping[str, int]
    days: Mapping[str, DayUsage]
    models: Mapping[str, ModelUse]
    planning: Mapping[str, Json]


def average_figures(figures: Sequence[PlanningFigures]) -> dict[str, Json]:
    """Returns averages: parse success, steps, iterations, time, tokens and cost."""
    count = len(figures)
    if not count:
        return {"requests": 0}
    plans = [each for each in figures if each.parsed]
    costs = [each.usage.cost for each in figures]
    known_costs = [cost for cost in costs if cost is not None]
    return {
        "requests": count,
        "parse_success": len(plans) / count,
        "parsed_at_once": sum(each.parsed_at_once for each in figures) / count,
        "enough_context": sum(each.enough_context for each in plans) / max(1, len(plans)),
        "degraded": sum(each.degraded for each in figures) / count,
        "mean_steps": sum(each.steps for each in plans) / max(1, len(plans)),
        "mean_iterations": sum(each.iterations for each in figures) / count,
        "mean_repairs": sum(each.repairs for each in figures) / count,
        "mean_seconds": sum(sum(each.seconds.values()) for each in figures) / count,
        "tokens": sum(each.usage.input_tokens + each.usage.output_tokens for each in figures),
        "cost_usd": str(sum(known_costs, Decimal(0))) if known_costs else None,
        "requests_of_unknown_cost": len(costs) - len(known_costs),
    }


class RunLists:
    """Lists and counts the runs of a store.

    A run that is being executed has no current summary: its journal is read.
    """

    def __init__(self, journals: Journals) -> None:
        self._journals, self._store = journals, journals.store

    async def newest(
        self,
        *,
        statuses: Collection[str] = (),
        before: str = "",
        text: str = "",
        origin: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int,
    ) -> list[RunSummary]:
        """Returns runs, newest first: of these statuses, with this text, older than `before`.

        `origin` is what they were made from; `since` and `until` are about their creation.
        """

        def is_too_old(run: RunSummary) -> bool:
            created = run.created_at
            return since is not None and created is not None and created < since

        def is_wanted(listed: Headline, run: RunSummary) -> bool:
            created, is_listed = run.created_at, (listed.status or run.status) in statuses
            in_time = until is None or (created is not None and created < until)
            fits = run.has(text) and origin in ("", run.origin)
            return (is_listed or not statuses) and fits and in_time and not is_too_old(run)

        runs: list[RunSummary] = []
        asked = {*statuses, NO_STATUS} if statuses else statuses
        text = text.casefold()
        # With a filter, few runs of a page may match.
        size = _PAGE if origin or until else min(limit, _PAGE)
        while len(runs) < limit:
            page = await self._store.headlines(statuses=asked, before=before, text=text, limit=size)
            listed = await self._with_summaries(page)
            runs += [summary for each, summary in listed if is_wanted(each, summary)]
            # Runs come in the order of their creation, but clocks differ and are set back: only
            # after a page on which all are too old are there no more.
            if len(page) < size or (listed and all(is_too_old(run) for _, run in listed)):
                break
            before = page[-1].run
        runs = runs[:limit]
        # Marks the runs whose process is gone.
        working = [each.run for each in runs if each.working and not each.damage]
        lost = set(working) - await self._journals.ownership.in_use(working)
        return [replace(each, interrupted=True) if each.run in lost else each for each in runs]

    async def totals(self) -> RunTotals:
        """Returns the numbers of runs by status and day, their costs, and how they were planned."""
        await self.store_summaries(executing=True)
        by_day, planned = await self._store.day_totals(), await self._store.planned()
        days = defaultdict[str, DayUsage](DayUsage)
        for day, cost, runs, tokens in by_day:
            days[day].runs += runs
            days[day].tokens += tokens
            days[day].money += Decimal(cost) * runs
        calls, spent = Counter[str](), Counter[str]()
        for each in planned:
            for name, use in each.models.items():
                calls[name] += use.calls
                spent[name] += use.tokens
        models = {name: ModelUse(calls[name], spent[name]) for name in calls}
        figures = [each.figures for each in planned if each.figures is not None]
        return RunTotals(await self.status_counts(), days, models, average_figures(figures))

    async def status_counts(self) -> dict[str, int]:
        """Returns how many runs have each status."""
        counts, before = Counter(await self._store.status_counts()), ""
        if counts.pop(NO_STATUS, 0):  # those whose status no writer has told
            store, size = self._store, _RUNS_A_PAGE
            while page := await store.headlines(statuses=[NO_STATUS], before=before, limit=size):
                before = page[-1].run
                counts.update(one.status.value for _, one in await self._with_summaries(page))
        return dict(counts)

    async def store_summaries(self, *, executing: bool = False) -> None:
        """Stores the summaries of all runs that have none of their last event.

        It may be interrupted at any time, and done by several processes at once. Runs that are
        being executed are left out, unless `executing`: theirs are stored when they come to rest.
        """
        every = await self._store.without_summary()
        some = [each for each in every if executing or each.status != RunStatus.RUNNING]
        for start in range(0, len(some), _RUNS_A_PAGE):
            await self._keep(await self._with_summaries(some[start : start + _RUNS_A_PAGE]))

    async def _with_summaries(self, page: Sequence[Headline]) -> list[tuple[Headline, RunSummary]]:
        """Returns the summaries of runs; reads the journals of those without a current one."""
        found = await asyncio.gather(*map(self._summary, page))
        pairs = [(each, one) for each, one in zip(page, found, strict=True) if one is not None]
        # An executed run would need another summary in a moment; a damaged one is read again.
        news = [(each, one) for each, one in pairs if each.summary is None and not one.damage]
        await self._keep([each for each in news if each[0].status != RunStatus.RUNNING])
        return pairs

    async def _keep(self, pairs: Sequence[tuple[Headline, RunSummary]]) -> None:
        # A list can be read where nothing can be written.
        if pairs:
            with suppress(JournalError, Misconfigured):
                await self._store.keep_summaries([(each.last, one) for each, one in pairs])

    async def _summary(self, headline: Headline) -> RunSummary | None:
        """Returns the summary of a run; None if the run was removed a moment ago."""
        if headline.summary is not None:
            return headline.summary
        try:
            return (await self._journals.listed(headline.run))[1]
        except NotFound:
            return None
