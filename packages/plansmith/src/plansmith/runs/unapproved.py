"""What another plan of a run would do that no person has approved, or that was done before."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from plansmith.engine.journal import Journal, load_values
from plansmith.engine.units import place_of
from plansmith.errors import NotFound
from plansmith.plan import events as e
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.review.coverage import BeyondApproval, compare_with_approved
from plansmith.runs import keeping, past_calls

if TYPE_CHECKING:
    from plansmith.plan.plan import Plan
    from plansmith.runs.registry import Registry


async def beyond_approval(registry: Registry, journal: Journal, plan: Plan) -> BeyondApproval:
    """Returns what a revision does that no person has approved.

    It is compared with the plan approved last, not with the previous revision, so that many
    small revisions cannot add up to something new.
    """
    run = journal.run
    assert run.approved_plan is not None and run.plan is not None  # noqa: S101, PT018
    after = (await registry.facts(plan)).calls
    done = [
        after.keys[name]
        for name, state in run.steps.items()
        if state.status is StepStatus.DONE and name in after.keys
    ]
    approved = (await registry.facts(*run.approved_plan)).calls
    beyond = compare_with_approved(approved, after, happened=done)
    again = await repeat_reasons(registry, journal, plan)
    # What a person skipped stays skipped in its step, and must not be done by another one.
    out = {
        place_of(run.plan, name, run.templates)
        for name, state in run.steps.items()
        if keeping.is_left_out(state)
    }

    def is_out(place: str) -> bool:
        return any(place == step or place.startswith(f"{step}/") for step in out if step)

    before = (await registry.facts(run.plan, run.templates)).calls
    keys = {call.key for call in before.acting if is_out(call.place)}
    left_out = [
        Sentence("review.left_out", call=call.text)
        for call in after.acting
        if call.key in keys and not is_out(call.place)
    ]
    made = {call.text for call in after.acting}
    drops = (*(text for text in run.drops_approved if text not in made), *beyond.drops)
    return BeyondApproval((*again, *left_out, *beyond.reasons), tuple(dict.fromkeys(drops)))


async def repeat_reasons(
    registry: Registry, journal: Journal, plan: Plan, *, only_new_places: bool = False
) -> tuple[str, ...]:
    """Returns a reason for each call that a new plan repeats in a step that has not made it.

    Whoever approved two equal calls wants both. Calls are compared by their arguments if these
    are known by now, else by how the plan writes them. A step that now makes a different call
    counts too, unless `only_new_places` is set.
    """
    run = journal.run
    if run.plan is None:
        return ()
    templates = {**registry.templates, **run.templates, **await registry.template_plans(plan)}
    before = (await registry.facts(run.plan, run.templates)).calls
    old = {call.place: call.key for call in before.acting}
    begun = {
        place
        for name, state in run.steps.items()
        if state.status is StepStatus.DONE or state.past_calls or keeping.is_in_doubt(state)
        if (place := place_of(run.plan, name, templates)) in old
    }
    keys = {old[place] for place in begun}
    approved = (await registry.facts(*run.approved_plan)).calls.acting if run.approved_plan else []
    wanted = {(call.place, call.key) for call in approved}
    calls = past_calls.calls_made(journal.events) if run.calls else ()
    made = {call for _, call, end in calls if not isinstance(end, e.StepFailed)}
    results = await load_values(registry.store, run)
    planned = past_calls.resolved_calls(plan, results, templates)
    return tuple(
        Sentence("review.repeats", call=call.text)
        for call in (await registry.facts(plan)).calls.acting
        if (call.place, call.key) not in wanted
        if call.place not in begun or (old[call.place] != call.key and not only_new_places)
        if call.key in keys or planned[call.place] & made
    )


async def repeat_reasons_of_run(
    registry: Registry, journal: Journal, plan: Plan, reused: Collection[e.StepReused]
) -> tuple[str, ...]:
    """Returns the changes that an earlier run has made and the plan of another would repeat."""
    by_step = keeping.repeat_reasons_of_steps(
        journal.run, plan, reused, await registry.acting(plan)
    )
    by_call = await repeat_reasons(registry, journal, plan, only_new_places=True)
    return tuple(dict.fromkeys((*by_step, *by_call)))


async def repeat_reasons_of_origin(registry: Registry, run: Run, plan: Plan) -> tuple[str, ...]:
    """Returns the changes that the repeated run has made and the plan would make again."""
    if run.origin.kind != "run":
        return ()
    try:
        journal = await Journal.load(run.origin.id, store=registry.store, clock=registry.clock)
    except NotFound:
        return ()  # it was deleted
    return await repeat_reasons_of_run(registry, journal, plan, keeping.results_to_reuse(run, plan))
