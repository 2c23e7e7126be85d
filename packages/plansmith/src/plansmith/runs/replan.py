"""Says when a run gets a new plan, and which steps and calls of the run that plan keeps."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, NamedTuple, cast

from plansmith.engine import units as u
from plansmith.engine.outcome import was_refused
from plansmith.errors import ReferenceFailed, Refused
from plansmith.plan import events as e
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json, call_mark
from plansmith.plan.diff import rename_steps
from plansmith.plan.graph import downstream
from plansmith.plan.ids import is_part, mark_in, root_of
from plansmith.plan.limits import Limits
from plansmith.plan.plan import Plan, differ
from plansmith.plan.problem import Problem, problem
from plansmith.plan.run import NOT_STARTED, Run, RunStatus, StepState, StepStatus
from plansmith.plan.sentence import Sentence, joined
from plansmith.plan.steps import MAX_NESTING, AgentStep, AnyStep, MapStep, PlanStep, ToolStep
from plansmith.ports import ContextBlock
from plansmith.text import clip

_PLAN_CHANGED: Final = Sentence("the plan was changed")
_WHY: Final = {
    "tool": "the tool failed",
    "time": "it took too long",
    "reference": "a value it needs was not there",
    "result": "its result was not usable",
    "person": "a person says it did not happen",
    "refused": "a person refused its values",
    "": "it did not finish",
}
_RETRIED: Final = frozenset({StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELLED})
_WORK: Final = frozenset({"tool", "agent", "map", "plan"})
_MAX_REPEATS: Final = 2
_MAX_ITEMS: Final = 1000
_MOST_TEXTS: Final = 20
_LONGEST_ERROR: Final = 2_000
_LONGEST_RESULT: Final = 4_000
CallKey = tuple[str, str]  # what is called, and the mark of its arguments


class Cause(NamedTuple):
    """Why a run gets a new plan; `limit` is set if a person must be asked first."""

    kind: Literal["failure", "advice", "iteration", "rethink"]
    text: str
    limit: e.LimitName | None = None


@dataclass(frozen=True, slots=True)
class Rounds:
    """How a run is planned again once all steps of a plan have run.

    `join` makes the next plan from the previous and the new one. With `end_at_limit` a run ends
    after its last round instead of asking a person for more; with `end_at_replans`, after its last
    new plan for a failure. With `partial_reply` the last reply of a plan is written from what
    there is when a step failed and no other plan was found.
    """

    end_at_limit: bool = False
    end_at_replans: bool = False
    partial_reply: bool = False
    join: Callable[[Plan, Plan], Plan] | None = None


def cause_to_revise(run: Run, limits: Limits, events: Sequence[e.Event]) -> Cause | None:
    """Returns why an idle run needs a new plan, or None."""
    if run.plan is None or not _may_change(run):
        return None
    advised = run.advice is not None and run.advice.advice == "replan"
    broken = failed_steps(run)
    failed = [name for name in broken if not was_refused(run, name)]
    if (advised or failed) and limits.max_replans and _when(run, limits) != "never":
        full = run.replans >= _most(limits.max_replans, run, "replans")
        cause = Cause("advice", Sentence("a step asks for another plan"))
        if failed:
            cause = Cause("failure", Sentence("failed: {steps}", steps=failed))
        return cause._replace(limit="replans") if full else cause
    if ended := ended_since(run, limits, events):
        text = Sentence("thinking the plan over after {steps}", steps=ended)
        return Cause("rethink", text)
    if broken or run.advice is not None or _is_last(run.plan, limits):
        return None
    full = _no_more_rounds(run, limits)
    return Cause("iteration", Sentence("all steps have run"), "iterations" if full else None)


def _may_change(run: Run) -> bool:
    """Tells whether a run may get another plan; a schedule keeps the one that was approved."""
    return not run.limit_refused and run.origin.kind != "schedule"


def _when(run: Run, limits: Limits) -> str:
    """Returns when the plan of a run is made anew: the run's own setting, or that of all."""
    return run.options.replan or limits.replan


def _most(limit: int, run: Run, name: e.LimitName) -> int:
    return limit + run.grants.get(name, 0)


def _is_last(plan: Plan, limits: Limits) -> bool:
    return limits.max_iterations < 2 or plan.enough_context


def _no_more_rounds(run: Run, limits: Limits) -> bool:
    return run.iterations + 1 >= _most(limits.max_iterations, run, "iterations")


def failed_steps(run: Run) -> list[str]:
    """Returns the steps of the plan that failed, without parts."""
    failed = (name for name, step in run.steps.items() if step.status is StepStatus.FAILED)
    return [name for name in failed if not is_part(name)]


def may_iterate(run: Run, limits: Limits, rounds: Rounds) -> bool:
    """Tells whether another plan may follow when all steps of the present one have run."""
    if run.plan is None or not _may_change(run) or _is_last(run.plan, limits):
        return False
    return not (rounds.end_at_limit and _no_more_rounds(run, limits))


def ended_since(run: Run, limits: Limits, events: Sequence[e.Event]) -> tuple[str, ...] | None:
    """Returns the steps that ended since the plan was thought over, which is due if there are any.

    None if nobody thinks it over: no setting says so, or `max_replans` answers have changed the
    plan.
    """
    if _when(run, limits) != "after_each" or run.plan is None or not _may_change(run):
        return None
    names = {step.id for step in run.plan.steps if step.kind in _WORK}
    ended: list[str] = []
    changes, thinking = 0, False
    for event in events:
        body = event.body
        if isinstance(body, e.ReplanStarted):
            # One that a crash interrupted is still due: what has ended is not forgotten here.
            thinking = body.kind == "rethink"
        elif isinstance(body, (e.PlanProposed, e.RunStarted)):
            changes += thinking and isinstance(body, e.PlanProposed)
            ended, thinking = [], False
        elif isinstance(body, (e.StepDone, e.StepReused)) and body.step in names:
            ended.append(body.step)
    if changes >= _most(limits.max_replans, run, "replans"):
        return None
    is_open = any(run.steps[step.id].status in NOT_STARTED for step in run.plan.steps)
    return tuple(ended) if is_open else ()


def describe_outcomes(run: Run, specs: Mapping[str, ToolSpec]) -> str:
    """Describes to the planner how each step ended, without any text from tools.

    Of results it names only the fields that the tool's schema declares.
    """
    lines: list[str] = []
    for name, state in run.steps.items():
        if is_part(name):
            continue
        line: dict[str, Json] = {"step": name, "status": state.status.value}
        if state.status in _RETRIED:
            line["why"] = _WHY[state.error_kind]
        step = run.plan.by_id.get(name) if run.plan else None
        spec = specs.get(step.tool) if isinstance(step, ToolStep) else None
        if state.status is StepStatus.DONE and spec is not None and spec.output_schema is not None:
            fields = cast("Mapping[str, Json]", spec.output_schema.get("properties") or {})
            line["gives"] = [*sorted(fields)]
        lines.append(json.dumps(line, ensure_ascii=False))
    return "\n".join(lines)


def texts_of(run: Run, results: Mapping[str, Json]) -> tuple[ContextBlock, ...]:
    """Returns the errors of failed steps and some results, as data for the planner.

    Secrets are hidden in what a journal stores, and so in these texts.
    """
    failed = [
        (name, state) for name, state in run.steps.items() if state.status is StepStatus.FAILED
    ]
    errors: list[dict[str, Json]] = [
        {
            "step": name,
            "calls": state.callee,
            "arguments": state.call_mark,
            "tries": state.attempts,
            "error": clip(str(state.error), _LONGEST_ERROR),
        }
        for name, state in failed[:_MOST_TEXTS]
    ]
    if len(failed) > _MOST_TEXTS:
        errors.append({"more": len(failed) - _MOST_TEXTS})
    found: list[dict[str, Json]] = []
    names = [name for name in results if name in run.steps and not is_part(name)]
    for name in names[-_MOST_TEXTS:]:
        value = results[name]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        short = value if len(text) <= _LONGEST_RESULT else clip(text, _LONGEST_RESULT)
        found.append({"step": name, "result": short})
    blocks = {"errors of failed steps": errors, "results of finished steps": found}
    return tuple(
        ContextBlock(title, "\n".join(json.dumps(line, ensure_ascii=False) for line in lines))
        for title, lines in blocks.items()
        if lines
    )


def is_left_out(state: StepState) -> bool:
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
        # A condition that did not hold is looked at again; what comes after it is not new for that.
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

    Their questions close, also if only an earlier step changes: the question may be about that.
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
    again = _with_downstream({name for name in plan.by_id if _is_changed(name, run, plan)}, plan)
    yield from _withdrawals(run, plan, again)
    going_on = set[str]()
    if by_person:
        # A plan that went on without a step goes on without it still, with what it did meanwhile.
        done_already = {name for name, state in run.steps.items() if state.counts_as_done}
        going_on = {
            name
            for name in plan.by_id.keys() - again
            if name in run.steps and run.steps[name].status is StepStatus.RUNNING
        }
        again |= _with_downstream(plan.by_id.keys() - done_already, plan)
        # The rounds of a step that is being repeated stay, if nothing changes what they do.
        again -= {name for name in going_on if plan.by_id[name].repeat is not None}
    for name, state in run.steps.items():
        root = root_of(name)
        wanted = by_person and root in plan.by_id and _is_changed(root, run, plan)
        if root not in plan.by_id or (is_left_out(state) and not wanted):
            continue
        if root in going_on and (state.counts_as_done or state.wakes_at is not None):
            continue  # the step goes on where it was, with the parts that it has done
        is_broken = state.status in _RETRIED and (root in again or not (by_person or state.rule))
        is_done = state.status is StepStatus.DONE and (by_person or name != root)
        if is_broken or (is_done and root in again):
            yield e.StepReset(step=name, reason=_PLAN_CHANGED)
        elif root in again and state.wakes_at is not None:
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
                under_way[name] = started.callee, mark_in(started.key)
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
            tried[call][end.result if isinstance(end, e.StepDone) else end.error] += 1
    for name, unit in u.plan_units(plan).items():
        if name in run.steps and run.steps[name].status is StepStatus.DONE:
            continue
        try:
            call = unit.callee, call_mark(u.resolved(unit, results))
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
    pending = [(unit, unit.name) for unit in u.plan_units(plan).values()]
    while pending:
        unit, place = pending.pop()
        parts: Iterable[u.Unit] = ()
        try:
            inputs = u.resolved(unit, results)
            match unit.step:
                case ToolStep() | AgentStep():
                    calls[place].add((unit.callee, call_mark(inputs)))
                case MapStep() if unit.depth < MAX_NESTING:
                    parts = u.map_units(unit, inputs["over"], {}).values()
                case PlanStep(template=name) if name in templates and unit.depth < MAX_NESTING:
                    parts = u.template_units(unit, templates[name], inputs).values()
                case _:
                    pass
        except ReferenceFailed:
            continue
        pending += [(part, f"{place}/{part.step.id}") for part in islice(parts, _MAX_ITEMS)]
    return calls
