"""A person's edits to the plan of a run: edit, undo, redo, ask for changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from plansmith.engine.budget import limit_question
from plansmith.errors import Refused, StaleDecision, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import Sentence
from plansmith.runs.carry_over import check_unknown, events_to_repeat

if TYPE_CHECKING:
    from plansmith.plan.problem import Problem
    from plansmith.plan.run import Run
    from plansmith.runs.execution import RunExecution
    from plansmith.runs.revising import PlanReviser
    from plansmith.runs.stopping import RunStopping


class PlanEditing:
    """Changes the plan of a run that is not over; finished steps are kept."""

    def __init__(
        self, reviser: PlanReviser, execution: RunExecution, stopping: RunStopping
    ) -> None:
        self._reviser, self._execution, self._stopping = reviser, execution, stopping
        self._journals, self._intake = reviser.journals, reviser.intake

    async def edit(
        self,
        run_id: str,
        plan: Plan,
        *,
        by: e.Who = "",
        notes: Sequence[Problem] = (),
        why: str = "",
        restores: int = 0,
    ) -> Run:
        """Replaces the plan by a person's version; it is checked and reviewed like any other.

        `notes` are about how the plan was read; with `why`, it is reviewed in any case. `restores`
        is the event of the earlier plan that it is.
        """
        journal, who = await self._journals.own(run_id), e.actor(by)
        run = journal.run
        busy = not run.paused and run.calls_open
        if self._execution.of(run_id) is not None or busy or run.status.over:
            status = Sentence(f"status.{run.status.value}")
            hint = Sentence("pause it first, or retry it with your plan")
            raise Refused(Sentence("run {run} is {status}", run=run_id, status=status), hint=hint)
        taken = await self._intake.take_in(plan, run.options, run.earlier, notes)
        edited = taken.plan.replace(revision=(run.plan.revision if run.plan else 0) + 1)
        check_unknown(run, edited)
        more: tuple[str, ...] = (why,) if why else ()
        more += await self._reviser.repeated(journal, edited, names=True)
        more += await self._reviser.repeats_of_origin(run, edited)
        origin = "person" if who.kind == "person" else "program"
        proposal = replace(
            taken,
            plan=edited,
            then=events_to_repeat(run, edited),
            reviewed=await self._intake.review(edited, run, more=more) if more else None,
            about={"origin": origin, "restores": restores},
            by=who,
        )
        try:
            await self._intake.propose(journal, proposal)
        except StaleWriter:
            raise StaleDecision(
                Sentence("someone else changed run {run} first", run=run_id)
            ) from None
        return await self._journals.whole(journal)

    async def undo(self, run_id: str, *, by: e.Who = "") -> Run:
        """Goes back to the previous plan; called again, to the one before that.

        Args:
            run_id: The id of the run.
            by: Who acts.

        Raises:
            Refused: There is no such plan.
        """
        found = versions(await self._journals.store.events(run_id)).before
        if found is None:
            raise Refused(Sentence("run {run} has no earlier plan", run=run_id))
        why = Sentence("review.went_back")
        return await self.edit(run_id, found.plan, by=by, restores=found.number, why=why)

    async def redo(self, run_id: str, *, by: e.Who = "") -> Run:
        """Goes forward again to the plan that was undone last.

        Args:
            run_id: The id of the run.
            by: Who acts.

        Raises:
            Refused: There is no such plan.
        """
        found = versions(await self._journals.store.events(run_id)).after
        if found is None:
            raise Refused(Sentence("run {run} has no undone plan to return to", run=run_id))
        why = Sentence("review.went_forward")
        return await self.edit(run_id, found.plan, by=by, restores=found.number, why=why)

    async def request_changes(self, run_id: str, text: str, *, by: e.Who = "") -> Run:
        """Asks the planner to change the plan as `text` says.

        A run that is executing is paused first; finished steps are kept.
        """
        self._reviser.planning.need_planner()
        await self._journals.own(run_id)
        if self._execution.of(run_id) is not None:
            await self._stopping.pause(run_id, by=by, reason=text)
        journal = await self._journals.load(run_id)
        run = journal.run
        if run.plan is None or run.status.over:
            status = Sentence(f"status.{run.status.value}")
            why = Sentence(
                "run {run} has no plan to change: it is {status}", run=run_id, status=status
            )
            raise Refused(why)
        most = self._reviser.limits.max_rejections + run.grants.get("rejections", 0)
        if run.rejections >= most:
            if not any(each.limit == "rejections" for each in run.questions.values()):
                question = Sentence(
                    "{count} plans were sent back. Make another one?", count=run.rejections
                )
                await journal.append(limit_question(run, "rejections", question))
            return await self._journals.whole(journal)
        async with self._journals.owners.owning(run_id) as journal.fence:
            await journal.append(e.ChangesAsked(text=text), by=e.actor(by))
            await self._reviser.change(journal)
        return await self._journals.whole(journal)


class Version(NamedTuple):
    """A plan of a run, and the number of the event that proposed it."""

    number: int
    plan: Plan


class Versions(NamedTuple):
    """The plans that undo and redo lead to, if any; `current` is the event of the one now."""

    before: Version | None
    after: Version | None
    current: int = 0


def versions(events: Iterable[e.Event]) -> Versions:
    """Returns the plans that undo and redo lead to; after a new plan there is nothing to redo."""
    known: dict[int, Version] = {}
    before: dict[int, int] = {}
    current, undone = 0, list[int]()
    for event in events:
        body = event.body
        if not isinstance(body, e.PlanProposed):
            continue
        if not body.restores:
            known[event.number] = Version(event.number, body.plan)
            before[event.number] = current
            current, undone = event.number, []
            continue
        if body.restores == before.get(current):
            undone.append(current)
        elif undone:
            undone.pop()
        current = body.restores
    return Versions(
        known.get(before.get(current, 0)), known.get(undone[-1] if undone else 0), current
    )
