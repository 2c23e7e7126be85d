"""What must hold, whatever happened: effects, guards, endings, fires."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from lab.simulation.bank import SECRET
from lab.simulation.plans import (
    WRITES,
    Facts,
    effects_of,
    guards_of,
    needs_of,
    questions_before,
)
from lab.simulation.previews import check_previews
from plansmith import Plan, RunStatus
from plansmith.plan import events as e
from plansmith.plan.events import verify_chain
from plansmith.plan.fold import fold
from plansmith.plan.ids import call_key
from plansmith.schedules.schedule import Schedule

if TYPE_CHECKING:
    from lab.simulation.world import World


class Agreed(NamedTuple):
    """A plan that a person approved last for a run, and what its templates consisted of."""

    plan: Plan
    templates: Mapping[str, Plan]


@dataclass
class Known:
    """What the journal tells up to an event: the plan, and what is done and answered."""

    plan: Plan = field(default_factory=Plan)
    templates: Mapping[str, Plan] = field(default_factory=dict[str, Plan])
    agreed: Agreed = field(default_factory=lambda: Agreed(Plan(), {}))
    done: set[str] = field(default_factory=set[str])
    answered: set[str] = field(default_factory=set[str])
    passed: set[str] = field(default_factory=set[str])
    # What a failure passed over in a preview: it is tried again when the plan is approved.
    _failed: set[str] = field(default_factory=set[str])
    _is_preview: bool = False
    is_given: bool = False

    def _skip(self, body: e.StepSkipped | e.StepFailed) -> None:
        """The plan itself skips a step: what needs it does not run, unless a value stands in."""
        skips = body.passed if isinstance(body, e.StepFailed) else bool(body.rule)
        if skips:
            (self.done if body.result else self.passed).add(body.step)
            if self._is_preview:
                self._failed.add(body.step)

    def _begin(self, body: e.PreviewStarted | e.RunStarted) -> None:
        self._is_preview = isinstance(body, e.PreviewStarted)
        given = body.given if isinstance(body, e.PreviewStarted) else {}
        self.is_given = self.is_given or bool(given)
        self.done = (self.done - self._failed) | given.keys()
        self.passed -= self._failed
        self._failed.clear()

    def _reuse(self, event: e.Event, body: e.StepReused) -> None:
        self.done.add(body.step)
        if body.run != event.run:  # it was asked in that run
            self.answered.add(body.step)

    def _end(self, body: e.StepDone | e.StepReset) -> None:
        if isinstance(body, e.StepDone):
            self.done.add(body.step)
            return
        for each in (self.done, self.passed, self.answered):
            each.discard(body.step)

    def _answer(self, event: e.Event, body: e.QuestionAnswered) -> None:
        if event.by.kind == "person" and not body.no_answer:
            self.answered.add(body.question)

    def take(self, event: e.Event) -> None:
        """Read on."""
        match event.body:
            case e.StepSkipped() | e.StepFailed() as body:
                self._skip(body)
            case e.PlanProposed(plan=plan, templates=templates):
                self.plan, self.templates = plan, templates
            case e.PlanApproved():
                self.agreed = Agreed(self.plan, self.templates)
            case e.PreviewStarted() | e.RunStarted() as body:
                self._begin(body)
            case e.StepReused() as body:
                self._reuse(event, body)
            case e.StepDone() | e.StepReset() as body:
                self._end(body)
            case e.QuestionAnswered() as body:
                self._answer(event, body)
            case _:
                pass


def check_run(world: World, run_id: str, agreed: Agreed | None) -> None:
    """The journal of a run is whole, and tells what happened."""
    events = world.journals()[run_id]
    verify_chain(events)
    run = fold(events)
    facts = check_previews(world, events)
    _check_guards(events, world, facts)
    _check_results(events, world)
    _check_stop(events, world)
    if run.status is RunStatus.DONE and agreed is not None:
        bodies = [each.body for each in events if each.by.kind == "person"]
        hers = [each for each in bodies if isinstance(each, e.PlanApproved | e.PlanProposed)]
        if isinstance(hers[-1], e.PlanProposed):  # what drops effects needs no approval
            agreed = Agreed(hers[-1].plan, run.templates)
        chain = world.chain(run.id)
        made = {(each.tool, each.id) for each in world.bank.made if each.chain == chain}
        missing = set(effects_of(agreed.plan, agreed.templates, facts)) - made
        if missing:
            world.fail(f"{run.id} is done, and this never happened: {sorted(missing)}")


def _check_guards(events: Sequence[e.Event], world: World, facts: Facts) -> None:
    """Nothing started before all that it needs was done, questions by a person's answer.

    No effect took place before the questions that came before it in the plan she approved.
    """
    known = Known()
    for event in events:
        known.take(event)
        body = event.body
        if not isinstance(body, e.StepStarted) or not body.inputs:
            continue
        if known.is_given and body.basis == "read":
            continue  # what is given stands for all that comes before it
        guards = guards_of(known.plan, known.templates, body.step)
        # What was skipped further up is not missing if a value stands in on the way.
        open_ = {name for name, _ in guards if name not in known.done | known.passed}
        open_ |= {name for name, asks in guards if asks and name not in known.answered}
        open_ -= known.passed
        open_ |= needs_of(known.plan, body.step) & known.passed
        if body.callee in WRITES:
            given = world.value(body.inputs)
            effect = body.callee, str(given.get("id", given.get("task")))
            before = questions_before(*known.agreed, facts, effect)
            open_ |= before - known.answered - known.passed
        if open_:
            world.fail(f"{event.run}, event {event.number}: {body.step} before {sorted(open_)}")


def _check_results(events: Sequence[e.Event], world: World) -> None:
    """What the journal says of an effect is what the bank said."""
    keys: dict[str, str] = {}
    for event in events:
        body = event.body
        if isinstance(body, e.StepStarted) and body.callee in WRITES:
            keys[body.step] = call_key(event.run, body.step, body.call_mark)
        elif isinstance(body, e.StepDone) and body.step in keys and event.by.kind == "system":
            told = world.bank.replies.get(keys[body.step], ())
            if world.value(body.result) not in told:
                world.fail(f"{event.run}, event {event.number}: the bank never said so")


def _check_stop(events: Sequence[e.Event], world: World) -> None:
    """Nothing starts once the run is to be cancelled."""
    is_cancelled = False
    for event in events:
        is_cancelled = is_cancelled or isinstance(event.body, e.CancelAsked)
        if is_cancelled and isinstance(event.body, e.StepStarted) and event.body.inputs:
            world.fail(f"{event.run}, event {event.number}: starts after the cancellation")


def check_told(
    world: World,
    run_id: str,
    tried: Mapping[tuple[str, str], int],
    told: Mapping[tuple[str, str], int],
) -> None:
    """What a person was told is in the journal, and nobody else spoke for her."""
    if _fired(world.journals()[run_id][0]):
        return  # approved once, for all runs of the schedule
    found = Counter(
        event.body.type for event in world.journals()[run_id] if event.by.kind == "person"
    )
    for kind in ("plan_approved", "plan_rejected", "question_answered"):
        count = found[kind]
        if told.get((run_id, kind), 0) > count:
            world.fail(f"{run_id}: a person was told {kind}, and the journal has it not")
        if count > tried.get((run_id, kind), 0):
            world.fail(f"{run_id}: {kind} stands there {count} times, and nobody said it")


def check_said(world: World, run_id: str, said: Collection[tuple[str, str, str]]) -> None:
    """Each approval stands in the journal as the person gave it."""
    events = world.journals()[run_id]
    approvals = [each.body for each in events if isinstance(each.body, e.PlanApproved)]
    for body in approvals if not _fired(events[0]) else ():
        details = [
            json.loads(text)
            for run, approve, text in said
            if run == run_id and approve == (body.preview or body.hash)
        ]
        if not any(
            [*body.left_out] == each.get("leave_out", [])
            and body.changed.keys() == each.get("change", {}).keys()
            and all(
                new.items() <= cast("Any", body.changed[name]).items()
                for name, new in each.get("change", {}).items()
            )
            and body.fresh == each.get("fresh", False)
            for each in details
        ):
            world.fail(f"{run_id}: nobody approved it like this: {body}")


def check_secrets(world: World) -> None:
    """No value and no event has the secret that calls were given."""
    if any(SECRET.encode() in text for text in world.store.server.texts.values()):
        world.fail("a stored value has the secret")
    for run, events in world.journals().items():
        if any(SECRET in repr(each.body) for each in events):
            world.fail(f"the journal of {run} has the secret")


def check_fires(world: World, schedule: Schedule) -> None:
    """Each due time is there once, has one run at most, and each run of the schedule its time."""
    fires = world.store.server.all_fires(schedule.id)
    named = Counter(fire.run for fire in fires if fire.run)
    if any(count > 1 for count in named.values()):
        world.fail(f"a run stands for two times: {named}")
    ours = {run for run, (first, *_) in world.journals().items() if _fired(first)}
    if ours - named.keys():
        world.fail(f"nothing asked for these runs: {sorted(ours - named.keys())}")
    since = [(fire.due - schedule.created).total_seconds() for fire in fires]
    if any(seconds % 60 for seconds in since):
        world.fail(f"fires at times that the schedule does not have: {since}")
    # In the calm before this check a minute has passed.
    passed = (world.clock.now() - schedule.created).total_seconds()
    paused = any(each.paused for each in world.store.server.all_schedules())
    if not paused and max(since, default=0.0) < passed - 65.0:
        world.fail(f"nothing was fired for a minute: {since} of {passed}")


def _fired(first: e.Event) -> bool:
    return isinstance(first.body, e.RunCreated) and first.body.origin.kind == "schedule"
