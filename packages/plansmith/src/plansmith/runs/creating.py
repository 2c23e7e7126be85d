"""Creates runs: from a request, or from a plan that is checked and proposed at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plansmith.engine.journal import Entry, Journal
from plansmith.plan import events as e
from plansmith.runs.answering import with_rule
from plansmith.runs.journals import Journals, run_created, submitted

if TYPE_CHECKING:
    from plansmith.plan.plan import Plan
    from plansmith.plan.problem import Problem
    from plansmith.plan.run_options import Origin, RunOptions
    from plansmith.runs.intake import PlanIntake
    from plansmith.runs.planning import RunPlanning


class RunCreator:
    """Creates runs."""

    def __init__(self, journals: Journals, intake: PlanIntake, planning: RunPlanning) -> None:
        self.journals, self.intake, self._planning = journals, intake, planning

    async def create(  # noqa: PLR0913 - all by name
        self,
        request: str = "",
        *,
        by: e.Who,
        plan: Plan | None = None,
        run_id: str = "",
        locale: str = "",
        options: RunOptions | None = None,
        origin: Origin | None = None,
        folder: str = "",
        about: Mapping[str, Any] | None = None,
        kept: Sequence[e.StepReused] = (),
        reviewed: Sequence[Entry] | None = None,
        checked: bool = True,
        notes: Sequence[Problem] = (),
        pins: Mapping[str, str] | None = None,
    ) -> Journal:
        """Creates a run: checks and proposes its plan; without a plan, planning comes later.

        `kept` are results to reuse, `notes` is what reading the plan told, `reviewed` its review,
        `pins` the contents of earlier runs that the repeated run uses.
        """
        who, journal = e.actor(by), self.journals.new(run_id)
        if self.intake.policy.second_person != "never":
            options = with_rule(options, self.intake.policy)
        where = {"locale": locale, "folder": folder}
        start = [(run_created(request, plan, options=options, origin=origin, **where), who)]
        if plan is None:
            self._planning.need_planner()
            await journal.append(*start)
            return journal
        about = about or submitted(who)
        taken = await self.intake.take_in(plan, options, pins, notes=notes, checked=checked)
        await self.intake.propose(
            journal, *taken, start=start, then=kept, reviewed=reviewed, about=about, by=who
        )
        return self.journals.keep(journal)
