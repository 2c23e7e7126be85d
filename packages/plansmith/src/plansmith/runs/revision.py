"""A run under another plan: what stays, what it would repeat, and what nobody has approved."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from plansmith.engine.journal import Journal, load_values
from plansmith.engine.units import Unit, map_units, place_of, plan_units, resolved, template_units
from plansmith.errors import NotFound, ReferenceFailed, Refused
from plansmith.plan import events as e
from plansmith.plan.data import Json, call_mark, full_hash
from plansmith.plan.diff import rename_steps
from plansmith.plan.graph import downstream
from plansmith.plan.ids import root_of
from plansmith.plan.plan import Plan, differ
from plansmith.plan.problem import Problem, problem
from plansmith.plan.run import UNSUCCESSFUL, Run, RunStatus, StepState, StepStatus
from plansmith.plan.sentence import Sentence, joined
from plansmith.plan.steps import MAX_NESTING, AgentStep, AnyStep, MapStep, PlanStep, ToolStep
from plansmith.review.coverage import BeyondApproval, PlanCalls, compare_with_approved

if TYPE_CHECKING:
    from plansmith.runs.registry import Registry

_MAX_REPEATS: Final = 2
_MAX_ITEMS: Final = 1000
_PLAN_CHANGED: Final = Sentence("the plan was changed")
CallKey = tuple[str, str]  # what is called, and the mark of its arguments


def calls_made(
    events: Iterable[e.Event],
) -> Iterator[tuple[int, CallKey, e.StepDone | e.StepFailed | None]]:
    """Yields every call of a run: under which of its plans, what it was, and how it ended.

    Those that did not end come last, with None: nobody knows whether they took effect.
    """
    revision = 0
    under_way: dict[str, CallKey] = {}
    for event in events:
        match event.body:
            case e.PlanProposed():
                revision += 1
            case e.StepStarted(step=name) as started if started.inputs:
                under_way[name] = started.callee, started.call_mark
            case e.StepDone(step=name) | e.StepFailed(step=name) as end if name in under_way:
                yield revision, under_way.pop(name), end
            case _:
                pass
    for call in under_way.values():
        yield revision, call, None


def loop_in(events: Iterable[e.Event], plan: Plan, run: Run, results: Mapping[str, Json]) -> str:
    """Says why a new plan only repeats what was tried before; empty if it does not.

    It does if a call with the same arguments has ended in the same way twice. A map's parts count
    once a plan.
    """
    tried: dict[CallKey, Counter[str]] = defaultdict(Counter)
    seen: set[tuple[int, CallKey]] = set()
    for revision, call, end in calls_made(events):
        if end is None or (isinstance(end, e.StepFailed) and end.again):
            continue
        if (revision, call) not in seen:
            seen.add((revision, call))
            outcome = full_hash(end.result) if isinstance(end, e.StepDone) else end.error
            tried[call][outcome] += 1
    for name, unit in plan_units(plan).items():
        if name in run.steps and run.steps[name].status is StepStatus.DONE:
            continue
        try:
            call = unit.callee, call_mark(resolved(unit, results))
        except ReferenceFailed:
            continue
        times = max(tried[call].values(), default=0)
        if times >= _MAX_REPEATS:
            return Sentence(
                "{callee} gave the same outcome {count} times for the same arguments",
                callee=unit.callee,
                count=times,
            )
    return ""


def resolved_calls(
    plan: Plan, results: Mapping[str, Json], templates: Mapping[str, Plan]
) -> dict[str, set[CallKey]]:
    """Returns the calls of a plan whose arguments are known by now, by place."""
    calls: dict[str, set[CallKey]] = defaultdict(set)
    pending = [(unit, unit.name) for unit in plan_units(plan).values()]
    while pending:
        unit, place = pending.pop()
        parts: Iterable[Unit] = ()
        try:
            inputs = resolved(unit, results)
            match unit.step:
                case ToolStep() | AgentStep():
                    calls[place].add((unit.callee, call_mark(inputs)))
                case MapStep() if unit.depth < MAX_NESTING:
                    parts = map_units(unit, inputs["over"], {}).values()
                case PlanStep(template=name) if name in templates and unit.depth < MAX_NESTING:
                    parts = template_units(unit, templates[name], inputs).values()
                case _:
                    pass
        except ReferenceFailed:
            continue
        pending += [(part, f"{place}/{part.step.id}") for part in islice(parts, _MAX_ITEMS)]
    return calls


def is_skipped_by_person(state: StepState) -> bool:
    """Tells whether a person skipped a step."""
    return state.status is StepStatus.SKIPPED and state.error_kind == "person"


def is_in_doubt(state: StepState) -> bool:
    """Tells whether a call is running, or nobody knows whether it took effect."""
    in_flight = state.status is StepStatus.RUNNING and bool(state.inputs)
    return in_flight or state.status is StepStatus.UNKNOWN


def _unknown_steps(run: Run) -> dict[str, str]:
    """Returns the steps that may have taken effect, each with the step or part in doubt."""
    names: dict[str, str] = {}
    for name, state in run.steps.items():
        if state.status is StepStatus.UNKNOWN or state.unsure:
            names.setdefault(root_of(name), name)
    return names


def require_known_outcomes(run: Run, plan: Plan) -> None:
    """Refuses a plan that changes a step while nobody knows whether it took effect."""
    for root, name in _unknown_steps(run).items():
        if root not in plan.by_id or _is_changed(root, run, plan):
            why = Sentence("it is not known whether '{step}' took effect", step=name)
            hint = Sentence(
                "answer the question about '{step}' first: done, not_done or retry", step=name
            )
            raise Refused(why, hint=hint)


def _is_changed(name: str, old: Run, plan: Plan) -> bool:
    """Tells whether a step of the plan is new or does something else."""
    before = old.plan.by_id.get(name) if old.plan else None
    return before is None or differ(before, plan.by_id[name])


def _with_downstream(names: Collection[str], plan: Plan) -> set[str]:
    graph = plan.needs
    return {*names, *downstream(graph, [name for name in names if name in graph])}


def results_to_reuse(old: Run, plan: Plan, *, again: Collection[str] = ()) -> list[e.StepReused]:
    """Returns the steps whose result is reused: done, unchanged, and all before them unchanged.

    `again` names steps that run once more, with all that depend on them.
    """
    if old.plan is None:
        return []
    stale = {*again}
    for name in plan.by_id:
        # A step whose condition did not hold is decided anew; what follows it is unchanged.
        state = old.steps.get(name)
        is_done = state is not None and state.counts_as_done and state.rule != "error"
        if not is_done or _lacks_parts(name, old) or _is_changed(name, old, plan):
            stale.add(name)
    repeated = _with_downstream(stale, plan)
    return [
        e.StepReused(
            step=step.id,
            result=state.result_hash,
            run=state.reused_from or old.id,  # the run that first made it
            program=state.program,
            done_at=state.finished_at,
        )
        for step in plan.steps
        if step.id not in repeated and not step.disabled
        if (state := old.steps[step.id]).status is StepStatus.DONE
    ]


def everything_done(plan: Plan, reused: Collection[e.StepReused]) -> bool:
    """Tells whether no step of a plan is left to run."""
    return len(reused) == sum(not step.disabled for step in plan.steps)


def repeat_reasons_of_steps(
    old: Run, plan: Plan, reused: Collection[e.StepReused], acting: Collection[str]
) -> tuple[str, ...]:
    """Describes each step that changes something, was done or perhaps done, and would run again."""
    names, doubts = {each.step for each in reused}, _unknown_steps(old)
    again: list[str] = []
    for step in plan.steps:
        name, text, doubt = step.id, "", ""
        if name in names or step.disabled or name not in acting:
            continue
        parts = [state for each, state in old.steps.items() if each.startswith(f"{name}/")]
        done = sum(_has_acted(state) for state in parts)
        if name in old.steps and _has_acted(old.steps[name]) and not _lacks_parts(name, old):
            text = Sentence("review.done_again", step=name, run=old.id)
        elif done:
            text = Sentence(
                "review.parts_again", step=name, done=done, total=len(parts), run=old.id
            )
        if name in doubts:
            doubt = Sentence("review.doubt_again", step=doubts[name], run=old.id)
        if text or doubt:
            again.append(joined([text, doubt]) if doubt else text)
    return tuple(again)


def _has_acted(state: StepState) -> bool:
    """Tells whether a step is done, or was done before a changed plan reset it."""
    return state.status is StepStatus.DONE or bool(state.past_calls)


def _lacks_parts(name: str, old: Run) -> bool:
    """Tells whether a run that is not wholly done went on without a part of a step."""
    return old.status is not RunStatus.DONE and any(
        state.rule == "error" and each.startswith(f"{name}/") for each, state in old.steps.items()
    )


def _withdrawals(run: Run, plan: Plan, changed: Collection[str]) -> Iterator[e.AnyBody]:
    """Yields the events that reset open steps which another plan changes or removes.

    Their questions close, even if only an earlier step changes: the question may be about that.
    A question whether a call took effect stays open until a person answers it.
    """
    for asked in run.questions.values():
        root = root_of(asked.step) if asked.step is not None and asked.kind != "unknown" else None
        if root is not None and (root in changed or root not in plan.by_id):
            yield e.QuestionWithdrawn(question=asked.question, reason=_PLAN_CHANGED)
    calls = run.calls_open
    for name, state in run.steps.items():
        holds = state.status is StepStatus.RUNNING and name not in calls
        if root_of(name) in changed and (holds or state.status is StepStatus.ASKING):
            yield e.StepCancelled(step=name, reason=_PLAN_CHANGED)
            yield e.StepReset(step=name, reason=_PLAN_CHANGED)


def resets(run: Run, plan: Plan, *, by_person: bool = False) -> Iterator[e.AnyBody]:
    """Yields the events that close questions and let steps wait again for another plan.

    These are what has failed, and what the plan changes; a part that makes the same call as before
    reuses its result. What a person skipped stays skipped, unless a person changes it: then all
    that follows on an open step waits again, too.
    """
    changed = {name for name in plan.by_id if _is_changed(name, run, plan)}
    again = _with_downstream(changed, plan)
    yield from _withdrawals(run, plan, again)
    if by_person:
        yield from _resets_by_person(run, plan, changed, again)
    else:
        yield from _resets_by_planner(run, plan, again)


def _resets_by_planner(run: Run, plan: Plan, again: Collection[str]) -> Iterator[e.AnyBody]:
    for name, state in run.steps.items():
        root = root_of(name)
        if root not in plan.by_id or is_skipped_by_person(state):
            continue
        if root in again:
            yield from _wait_again(name, state, if_done=name != root)
        elif state.status in UNSUCCESSFUL and not state.rule:  # not what the old plan passed by
            yield e.StepReset(step=name, reason=_PLAN_CHANGED)


def _resets_by_person(
    run: Run, plan: Plan, changed: Collection[str], again: Collection[str]
) -> Iterator[e.AnyBody]:
    # Where the run went on after a failed step, what it did since stays.
    done = {name for name, state in run.steps.items() if state.counts_as_done}
    running = {name for name, state in run.steps.items() if state.status is StepStatus.RUNNING}
    going_on = {name for name in plan.by_id if name in running and name not in again}
    again = {*again, *_with_downstream(plan.by_id.keys() - done, plan)}
    # The rounds of a step that is being repeated stay, if nothing changes what they do.
    again -= {name for name in going_on if plan.by_id[name].repeat is not None}
    for name, state in run.steps.items():
        root = root_of(name)
        # A step that goes on keeps its finished parts.
        stays = root in going_on and (state.counts_as_done or state.wakes_at is not None)
        stays = stays or (is_skipped_by_person(state) and root not in changed)
        if root in again and not stays:
            yield from _wait_again(name, state, if_done=True)


def _wait_again(name: str, state: StepState, *, if_done: bool) -> Iterator[e.AnyBody]:
    if state.status in UNSUCCESSFUL or (if_done and state.status is StepStatus.DONE):
        yield e.StepReset(step=name, reason=_PLAN_CHANGED)
    elif state.wakes_at is not None:
        yield e.StepWaits(step=name)


def fixed_steps(run: Run) -> list[AnyStep]:
    """Returns the steps that stay in every new plan of a run."""
    # Steps that may have taken effect stay until a person has said whether they did.
    doubts = {root_of(name) for name, state in run.steps.items() if is_in_doubt(state)}
    doubts |= _unknown_steps(run).keys()
    steps = run.plan.steps if run.plan else ()
    return [step for step in steps if run.steps[step.id].counts_as_done or step.id in doubts]


def with_fixed_steps(
    run: Run, answer: Plan, *, iterating: bool = False
) -> tuple[Plan, Sequence[Problem]]:
    """Returns the new plan with every finished step unchanged, and its problems.

    Running steps, and those that may have taken effect, are kept as well. If the planner changed
    one, that is a problem; in a new iteration it is another step and gets a new name.
    """
    if run.plan is None:
        return answer, ()
    done = fixed_steps(run)
    names = {step.id for step in done}
    other = [s.id for s in answer.steps if s.id in names and _is_changed(s.id, run, answer)]
    problems: list[Problem] = []
    if iterating:
        # A step that uses a renamed step is another step itself.
        behind = downstream(answer.needs, other)
        other += [name for name in answer.by_id if name in behind & names and name not in other]
        fresh, taken = dict[str, str](), {*names, *answer.by_id}
        for name in other:
            number = 2
            while f"{name[:58]}_{number}" in taken:
                number += 1
            fresh[name] = f"{name[:58]}_{number}"
            taken.add(fresh[name])
        answer = rename_steps(answer, fresh)
    else:
        text = Sentence("the step is finished and stays as it was")
        problems = [problem("PS312", text, step=name) for name in other]
    rest = [step for step in answer.steps if step.id not in names]
    revision = run.plan.revision + 1
    return answer.replace(steps=(*done, *rest), id=run.plan.id, revision=revision), problems


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
    # What a person skipped stays skipped in its step, and must not be done by another one; likewise
    # what was left out or changed in an approval, in a step that is the same.
    skipped = [name for name, state in run.steps.items() if is_skipped_by_person(state)]
    own = [*run.left_out, *(name for name, each in run.permits.items() if each.instead_of)]
    same = [
        name
        for name in own
        if root_of(name) in plan.by_id and not _is_changed(root_of(name), run, plan)
    ]
    before = (await registry.facts(run.plan, run.templates)).calls
    out = _places(run, (*skipped, *own), before)
    kept = _places(run, (*skipped, *same), after)
    keys = {call.key for call in before.acting if call.place in out}
    left_out = [
        Sentence("review.left_out", call=call.text)
        for call in after.acting
        if call.key in keys and call.place not in kept
    ]
    made = {call.text for call in after.acting}
    drops = (*(text for text in run.drops_approved if text not in made), *beyond.drops)
    return BeyondApproval((*again, *left_out, *beyond.reasons), tuple(dict.fromkeys(drops)))


def _places(run: Run, names: Iterable[str], calls: PlanCalls) -> set[str]:
    """Returns the places of the calls that some steps or parts of a run make."""
    assert run.plan is not None  # noqa: S101
    steps = {place_of(run.plan, name, run.templates) for name in names} - {""}
    return {
        call.place
        for call in calls.acting
        if any(f"{call.place}/".startswith(f"{step}/") for step in steps)
    }


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
    before = (await registry.facts(run.plan, run.templates)).calls
    old = {call.place: call.key for call in before.acting}
    begun = {
        place
        for name, state in run.steps.items()
        if state.status is StepStatus.DONE or state.past_calls or is_in_doubt(state)
        if (place := place_of(run.plan, name, run.templates)) in old
    }
    keys = {old[place] for place in begun}
    approved = (await registry.facts(*run.approved_plan)).calls.acting if run.approved_plan else []
    wanted = {(call.place, call.key) for call in approved}
    calls = calls_made(journal.events) if run.calls else ()
    made = {call for _, call, end in calls if not isinstance(end, e.StepFailed)}
    results = await load_values(registry.store, run)
    planned = resolved_calls(plan, results, await registry.template_plans(plan))
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
    by_step = repeat_reasons_of_steps(journal.run, plan, reused, await registry.acting(plan))
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
    return await repeat_reasons_of_run(registry, journal, plan, results_to_reuse(run, plan))
