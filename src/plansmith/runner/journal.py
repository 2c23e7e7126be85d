"""Journal: one run's events, written one after the other and folded as they are written."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from plansmith.errors import PlansmithError
from plansmith.plan.data import Content, Json
from plansmith.plan.events import Actor, AnyBody, Event, StepDone, StepReplied, next_event
from plansmith.plan.fold import RunFold
from plansmith.plan.run import Run, StepState, StepStatus
from plansmith.ports import Clock, PlanStore, Reply

SYSTEM: Final = Actor(kind="system")
Entry = AnyBody | tuple[AnyBody, Actor]


class Journal:
    """Appends to a run; a stale writer is refused and learns so from `StaleWriter`."""

    def __init__(
        self,
        run: str,
        *,
        store: PlanStore,
        clock: Clock,
    ) -> None:
        self.id = run
        self._store = store
        self._clock = clock
        self._fold = RunFold(Run(id=run))
        self.events: list[Event] = []

    @classmethod
    async def load(
        cls,
        run: str,
        *,
        store: PlanStore,
        clock: Clock,
    ) -> Journal:
        """The journal of a run that is in the store."""
        journal = cls(run, store=store, clock=clock)
        await journal.catch_up()
        if not journal.events:
            raise PlansmithError(f"there is no run {run!r}", hint="plansmith runs lists all runs")
        return journal

    async def catch_up(self) -> Sequence[Event]:
        """Take in what others have written since, and return it."""
        events = await self._store.events(self.id, after=len(self.events))
        for event in events:
            self._take(event)
        return events

    async def wait(self) -> None:
        """Return when there is an event that was not taken in yet."""
        await self._store.wait(self.id, after=len(self.events))

    async def value_of(self, body: AnyBody) -> Json:
        """The value that an event speaks of, if it speaks of one."""
        match body:
            case StepDone(result=digest) | StepReplied(state=digest, permit=False):
                return await self._store.get(digest)
            case _:
                return None

    async def append(
        self, *bodies: Entry, by: Actor = SYSTEM, values: Sequence[Json | Content] = ()
    ) -> list[Event]:
        """Write events and the values they speak of, all or none, durable on return.

        An entry may name who caused it; for the others it is `by`.
        """
        events: list[Event] = []
        last, now = self.events[-1] if self.events else None, self._clock.now()
        for entry in bodies:
            body, actor = entry if isinstance(entry, tuple) else (entry, by)
            last = next_event(body, run=self.id, by=actor, at=now, last=last)
            events.append(last)
        await self._store.append(events, values)
        for event in events:
            self._take(event)
        return events

    def program_of(self, step: str) -> str:
        """The program whose answer a step's result is, or nothing."""
        state = self._fold.steps.get(step)
        return state.program if state else ""

    @property
    def plan_hash(self) -> str:
        """The hash of the run's plan as it was written."""
        return self._fold.plan_hash

    @property
    def run(self) -> Run:
        """The run as it stands."""
        return self._fold.result()

    def _take(self, event: Event) -> None:
        self._fold.take(event)
        self.events.append(event)


async def load_results(store: PlanStore, run: Run) -> dict[str, Json]:
    """The results of all steps that are done, asked for at once."""
    done = {
        name: step.result_hash
        for name, step in run.steps.items()
        if step.status is StepStatus.DONE and step.result_hash
    }
    values = await asyncio.gather(*map(store.get, done.values()))
    return dict(zip(done, values, strict=True))


async def load_replies(store: PlanStore, run: Run) -> dict[str, Reply]:
    """What persons answered to calls that asked, with the state those left."""
    return {
        name: Reply(step.reply.answer, await store.get(step.reply.state))
        for name, step in run.steps.items()
        if step.reply is not None and not step.reply.permit
    }


def _has_result(name: str, step: StepState, results: Mapping[str, Json]) -> bool:
    return step.status is StepStatus.DONE and name in results


async def whole_run(store: PlanStore, run: Run, results: Mapping[str, Json] | None = None) -> Run:
    """A run with its results, unless they are at hand already, and its report filled in."""
    if results is None:
        results = await load_results(store, run)
    steps = {
        name: replace(step, result=results[name]) if _has_result(name, step, results) else step
        for name, step in run.steps.items()
    }
    text = await store.get(run.report_hash) if run.report_hash else ""
    return replace(run, steps=steps, report=str(text))
