"""Decides when a run gets a new plan and what it keeps; finds plans that only repeat failures."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

from plansmith.engine.budget import limit_question
from plansmith.engine.outcome import was_refused
from plansmith.engine.units import named_unit, plan_units, resolved
from plansmith.errors import ReferenceFailed
from plansmith.plan import events as e
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json, call_mark
from plansmith.plan.diff import rename_steps
from plansmith.plan.graph import downstream, needs
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import sees_first
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep, ToolStep
from plansmith.ports import ContextBlock
from plansmith.runs.carry_over import (
    SKIPPED_BY_PERSON,
    CallKey,
    calls_made,
    changed_steps,
    events_to_withdraw,
    is_in_doubt,
    root_of,
    unknown_steps,
)
from plansmith.text import clip

if TYPE_CHECKING:
    from plansmith.review.settings import ReviewPolicy


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
_OPEN: Final = frozenset({StepStatus.WAITING, StepStatus.READY})
_WORK: Final = frozenset({"tool", "agent", "map", "plan"})
_MAX_REPEATS: Final = 2
_MOST_TEXTS: Final = 20
_LONGEST_ERROR: Final = 2_000
_LONGEST_RESULT: Final = 4_000
_DIGEST: Final = 16


class Cause(NamedTuple):
    """Why a run gets a new plan; `limit` is set if a person must be asked first."""

    kind: Literal["failure", "advice", "person", "iteration", "rethink"]
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


def cause_to_revise(run: Run, limits: Limits) -> Cause | None:
    """Returns why an idle run needs a new plan, or None.

    A run of a schedule keeps the plan that was approved for it.
    """
    if run.cancel_asked or run.closing or run.plan is None or run.origin.kind == "schedule":
        return None
    advised = run.advice is not None and run.advice.advice == "replan"
    broken = failed_steps(run)
    failed = [name for name in broken if not was_refused(run, name)]
    is_off = (run.options.replan or limits.replan) == "never"
    if (advised or failed) and limits.max_replans and not is_off:
        full = run.replans >= _most(limits.max_replans, run, "replans")
        cause = Cause("advice", Sentence("a step asks for another plan"))
        if failed:
            cause = Cause("failure", Sentence("failed: {steps}", steps=failed))
        return cause._replace(limit="replans") if full else cause
    is_last = limits.max_iterations < 2 or run.plan.enough_context
    if broken or run.advice is not None or is_last:
        return None
    full = run.iterations + 1 >= _most(limits.max_iterations, run, "iterations")
    return Cause("iteration", Sentence("all steps have run"), "iterations" if full else None)


def _most(limit: int, run: Run, name: e.LimitName) -> int:
    return limit + run.grants.get(name, 0)


def failed_steps(run: Run) -> list[str]:
    """Returns the steps of the plan that failed, without parts."""
    return [
        name
        for name, step in run.steps.items()
        if step.status is StepStatus.FAILED and "/" not in name
    ]


def may_iterate(run: Run, limits: Limits, rounds: Rounds) -> bool:
    """Tells whether another plan may follow when all steps of the present one have run."""
    if limits.max_iterations < 2 or run.plan is None or run.plan.enough_context:
        return False
    most = _most(limits.max_iterations, run, "iterations")
    is_last = run.iterations + 1 >= most and rounds.end_at_limit
    return not is_last and not run.closing and run.origin.kind != "schedule"


def ask_about(run: Run, cause: Cause) -> e.QuestionAsked:
    """Returns the question whether a run may make more plans than its limit."""
    if cause.limit == "replans":
        text = Sentence(
            "{count} plans did not succeed ({reason}). Make another one?",
            count=run.replans,
            reason=cause.text,
        )
    else:
        text = Sentence(
            "{count} plans do not seem to be enough ({reason}). Make another one?",
            count=run.iterations + 1,
            reason=cause.text,
        )
    return limit_question(run, cause.limit or "iterations", text)


class Rethinking(NamedTuple):
    """Where a run stands whose plan is thought over after each step.

    `ended` are the steps that ended since the last time. `left` is false once `max_replans`
    answers have changed the plan: then nobody thinks it over any more.
    """

    left: bool = False
    ended: tuple[str, ...] = ()

    @property
    def is_due(self) -> bool:
        """Whether the plan is thought over before another step starts."""
        return self.left and bool(self.ended)


def rethinking(run: Run, limits: Limits, events: Sequence[e.Event]) -> Rethinking:
    """Returns where a run stands; a run of a schedule keeps the plan that was approved for it."""
    when = run.options.replan or limits.replan
    if when != "after_each" or run.plan is None or run.origin.kind == "schedule" or run.closing:
        return Rethinking()
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
    left = changes < _most(limits.max_replans, run, "replans")
    is_open = any(run.steps[step.id].status in _OPEN for step in run.plan.steps)
    return Rethinking(left, tuple(ended) if is_open else ())


def describe_outcomes(run: Run, specs: Mapping[str, ToolSpec]) -> str:
    """Describes to the planner how each step ended, without any text from tools.

    Of results it names only the fields that the tool's schema declares.
    """
    lines: list[str] = []
    for name, state in run.steps.items():
        if "/" in name:
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


def may_read_texts(run: Run, limits: Limits, policy: ReviewPolicy) -> bool:
    """Tells whether a planner that plans again may read what tools said."""
    return limits.tool_texts != "reviewed" or sees_first(run) or policy.ask == "always"


def texts_of(
    run: Run, templates: Mapping[str, Plan], results: Mapping[str, Json]
) -> tuple[ContextBlock, ...]:
    """Returns the errors of failed steps and some results, as data for the planner.

    Secrets are hidden in what a journal stores, and so in these texts.
    """
    failed = [name for name, step in run.steps.items() if step.status is StepStatus.FAILED]
    errors: list[dict[str, Json]] = []
    for name in failed[:_MOST_TEXTS]:
        state = run.steps[name]
        unit = named_unit(run.plan, name, templates) if run.plan else None
        errors.append(
            {
                "step": name,
                "calls": state.callee or (unit.callee if unit else ""),
                "arguments": state.call[:_DIGEST],
                "tries": state.attempts,
                "error": clip(str(state.error), _LONGEST_ERROR),
            }
        )
    if len(failed) > _MOST_TEXTS:
        errors.append({"more": len(failed) - _MOST_TEXTS})
    found: list[dict[str, Json]] = []
    names = [name for name in results if name in run.steps and "/" not in name]
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


class Kept(NamedTuple):
    """A new plan with the finished steps in it, and problems with what it wanted to change."""

    plan: Plan
    problems: list[Problem]


def kept_steps(run: Run) -> list[AnyStep]:
    """Returns the steps that stay in every new plan of a run."""
    # Steps that may have taken effect stay until a person has said whether they did.
    doubts = {root_of(name) for name, state in run.steps.items() if is_in_doubt(state)}
    doubts |= unknown_steps(run).keys()
    steps = run.plan.steps if run.plan else ()
    return [step for step in steps if run.steps[step.id].settled or step.id in doubts]


def keep_finished(run: Run, answer: Plan, *, iterating: bool = False) -> Kept:
    """Returns the new plan with every finished step unchanged.

    Running steps, and those that may have taken effect, are kept as well. If the planner changed
    one, that is a problem; in a new iteration it is another step and gets a new name.
    """
    if run.plan is None:
        return Kept(answer, [])
    done = kept_steps(run)
    names = {step.id for step in done}
    other = [s.id for s in answer.steps if s.id in names and s != run.plan.by_id[s.id]]
    problems: list[Problem] = []
    if iterating:
        # A step that uses a renamed step is another step itself.
        behind = downstream(needs(answer), other)
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
    return Kept(answer.replace(steps=(*done, *rest), id=run.plan.id, revision=revision), problems)


def resets(run: Run, plan: Plan) -> Iterator[e.AnyBody]:
    """Yields the events that reset steps for a new plan: failed steps, and changed ones that ask.

    Parts of a changed step wait again too, and reuse the result of an identical earlier call.
    Steps that a person skipped stay skipped.
    """
    yield from events_to_withdraw(run, plan)
    changed = changed_steps(run, plan)
    for name, step in run.steps.items():
        root = root_of(name)
        if root not in plan.by_id or (step.status, step.error_kind) == SKIPPED_BY_PERSON:
            continue
        is_part = name != root and root in changed
        again = step.status in _RETRIED and (not step.rule or root in changed)
        if again or (is_part and step.status is StepStatus.DONE):
            yield e.StepReset(step=name, reason=Sentence("the plan was revised"))
        elif root in changed and step.wakes_at is not None:
            yield e.StepWaits(step=name)


def is_same(before: Plan, after: Plan) -> bool:
    """Tells whether two plans run the same steps, in whatever order they are listed."""
    if before.by_id.keys() != after.by_id.keys():
        return False
    ordered = after.replace(steps=tuple(after.by_id[name] for name in before.by_id))
    # Goal and times are the person's: a new plan does not change them.
    own = {"goal": before.goal, "schedule": before.schedule, "schedules": before.schedules}
    return ordered.replace(**own).hash == before.hash


def loop_in(
    events: Iterable[e.Event],
    plan: Plan,
    *,
    run: Run,
    results: Mapping[str, Json],
    templates: Mapping[str, Plan],
) -> str:
    """Says why a new plan only repeats what was tried before; empty if it does not.

    It does if a call with the same arguments has ended in the same way twice. A map's parts count
    once a plan.
    """
    tried: dict[CallKey, Counter[str]] = defaultdict(Counter)
    seen: set[tuple[int, CallKey]] = set()
    for revision, call, end in calls_made(events, templates):
        if end is None or (isinstance(end, e.StepFailed) and end.again):
            continue
        if (revision, call) not in seen:
            seen.add((revision, call))
            tried[call][end.result if isinstance(end, e.StepDone) else end.error] += 1
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
