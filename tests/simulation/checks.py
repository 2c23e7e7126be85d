"""What must hold, whatever happened: effects, guards, endings, fires."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from tests.simulation.plans import (
    WRITES,
    effects_of,
    guards_of,
    needs_of,
    questions_before,
)
from tests.simulation.world import World

from plansmith import Plan, RunStatus
from plansmith.plan import events as e
from plansmith.plan.events import verify_chain
from plansmith.plan.fold import fold
from plansmith.plan.schedules import Fire


class BrokenPromiseError(AssertionError):
    """Something happened that no seed may bring about."""


class Agreed(NamedTuple):
    """A plan that a person approved last for a run, and what its templates consisted of."""

    plan: Plan
    templates: Mapping[str, Plan]


def check_effects(world: World, approved: Collection[tuple[str, str]]) -> None:
    """Every effect was approved, and none took place twice, also where a run was continued."""
    for made in world.made:
        if (made.tool, made.id) not in approved:
            raise BrokenPromiseError(f"{made} was never approved")
    times = Counter((made.tool, made.id, made.chain) for made in world.made)
    twice = [each for each, count in times.items() if count > 1]
    if twice:
        raise BrokenPromiseError(f"took place twice: {twice}")


@dataclass
class Known:
    """What the journal tells up to an event: the plan, and what is done and answered."""

    plan: Plan = field(default_factory=Plan)
    templates: Mapping[str, Plan] = field(default_factory=dict[str, Plan])
    agreed: Agreed = field(default_factory=lambda: Agreed(Plan(), {}))
    done: set[str] = field(default_factory=set[str])
    answered: set[str] = field(default_factory=set[str])
    passed: set[str] = field(default_factory=set[str])

    def _skip(self, body: e.StepSkipped | e.StepFailed) -> None:
        """The plan itself skips a step: what needs it does not run, unless a value stands in."""
        skips = body.passed if isinstance(body, e.StepFailed) else bool(body.rule)
        if skips:
            (self.done if body.result else self.passed).add(body.step)

    def take(self, event: e.Event) -> None:
        """Read on."""
        match event.body:
            case e.StepSkipped() | e.StepFailed() as body:
                self._skip(body)
            case e.PlanProposed(plan=plan, templates=templates):
                self.plan, self.templates = plan, templates
            case e.PlanApproved():
                self.agreed = Agreed(self.plan, self.templates)
            case e.StepReused(step=step, run=run):
                self.done.add(step)
                self.answered |= {step} if run != event.run else set()  # it was asked in that run
            case e.StepDone(step=step):
                self.done.add(step)
            case e.StepReset(step=step):
                self.done.discard(step)
                self.passed.discard(step)
                self.answered.discard(step)
            case e.QuestionAnswered(question=question, no_answer=False):
                self.answered |= {question} if event.by.kind == "person" else set()
            case _:
                pass


async def check_guards(events: Sequence[e.Event], world: World) -> None:
    """Nothing started before all that it needs was done, questions by a person's answer.

    No effect took place before the questions that came before it in the plan she approved.
    """
    known = Known()
    for event in events:
        known.take(event)
        body = event.body
        if not isinstance(body, e.StepStarted) or not body.inputs:
            continue
        guards = guards_of(known.plan, known.templates, body.step)
        # What was skipped further up is not missing if a value stands in on the way.
        open_ = {name for name, _ in guards if name not in known.done | known.passed}
        open_ |= {name for name, asks in guards if asks and name not in known.answered}
        open_ -= known.passed
        open_ |= needs_of(known.plan, body.step) & known.passed
        if body.callee in WRITES:
            given = cast("dict[str, Any]", await world.store.get(body.inputs))
            effect = body.callee, str(given.get("id", given.get("task")))
            open_ |= questions_before(*known.agreed, effect) - known.answered - known.passed
        if open_:
            raise BrokenPromiseError(f"event {event.number}: {body.step} before {open_}")


def check_ending(events: Sequence[e.Event], world: World, agreed: Agreed | None) -> None:
    """The journal folds, its chain is whole, and `done` means that all that was agreed happened."""
    verify_chain(events)
    run = fold(events)
    if run.status is not RunStatus.DONE or agreed is None:
        return
    made = {(each.tool, each.id) for each in world.made if each.chain == world.chain(run.id)}
    missing = set(effects_of(*agreed)) - made
    if missing:
        raise BrokenPromiseError(f"the run is done, and this never happened: {sorted(missing)}")


def check_fires(fires: Sequence[Fire], runs: Sequence[str]) -> None:
    """Each instant has one run at most, and each run of the schedule its instant."""
    named = Counter(fire.run for fire in fires if fire.run)
    if any(count > 1 for count in named.values()):
        raise BrokenPromiseError(f"a run stands for two instants: {named}")
    if set(runs) - named.keys():
        raise BrokenPromiseError(f"nothing asked for these runs: {set(runs) - named.keys()}")
