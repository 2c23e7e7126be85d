"""Says when a run gets a new plan, and what its planner hears of the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, cast

from plansmith.plan import events as e
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.ids import is_part
from plansmith.plan.limits import Limits
from plansmith.plan.plan import Plan
from plansmith.plan.run import NOT_STARTED, UNSUCCESSFUL, Run, StepStatus, was_refused
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import ToolStep
from plansmith.ports import ContextBlock
from plansmith.text import clip

_WHY: Final = {
    "tool": "the tool failed",
    "time": "it took too long",
    "reference": "a value it needs was not there",
    "result": "its result was not usable",
    "person": "a person stopped it, or nobody answered",
    "refused": "a person refused its values",
    "": "it did not finish",
}
_WORK: Final = frozenset({"tool", "agent", "map", "plan"})
_MAX_TEXTS: Final = 20
_MAX_ERROR: Final = 2_000
_MAX_RESULT: Final = 4_000


class Cause(NamedTuple):
    """Why a run gets a new plan; `limit` is set if a person must be asked first."""

    kind: Literal["failure", "advice", "iteration", "rethink"]
    text: str
    limit: e.LimitName | None = None


@dataclass(frozen=True, slots=True)
class IterationRules:
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
    if (advised or failed) and limits.max_replans and _replan_setting(run, limits) != "never":
        full = run.replans >= _with_grants(limits.max_replans, run, "replans")
        cause = Cause("advice", Sentence("a step asks for another plan"))
        if failed:
            cause = Cause("failure", Sentence("failed: {steps}", steps=failed))
        return cause._replace(limit="replans") if full else cause
    if ended := ended_since(run, limits, events):
        text = Sentence("thinking the plan over after {steps}", steps=ended)
        return Cause("rethink", text)
    if broken or run.advice is not None or _is_last(run.plan, limits):
        return None
    full = _no_more_iterations(run, limits)
    return Cause("iteration", Sentence("all steps have run"), "iterations" if full else None)


def _may_change(run: Run) -> bool:
    """Tells whether a run may get another plan; a schedule keeps the one that was approved."""
    return not run.limit_refused and run.origin.kind != "schedule"


def _replan_setting(run: Run, limits: Limits) -> str:
    """Returns when the plan of a run is made anew: the run's own setting, or that of all."""
    return run.options.replan or limits.replan


def _with_grants(limit: int, run: Run, name: e.LimitName) -> int:
    return limit + run.grants.get(name, 0)


def _is_last(plan: Plan, limits: Limits) -> bool:
    return limits.max_iterations < 2 or plan.enough_context


def _no_more_iterations(run: Run, limits: Limits) -> bool:
    return run.iterations + 1 >= _with_grants(limits.max_iterations, run, "iterations")


def failed_steps(run: Run) -> list[str]:
    """Returns the steps of the plan that failed, without parts."""
    failed = (name for name, step in run.steps.items() if step.status is StepStatus.FAILED)
    return [name for name in failed if not is_part(name)]


def may_iterate(run: Run, limits: Limits, iterations: IterationRules) -> bool:
    """Tells whether another plan may follow when all steps of the present one have run."""
    if run.plan is None or not _may_change(run) or _is_last(run.plan, limits):
        return False
    return not (iterations.end_at_limit and _no_more_iterations(run, limits))


def ended_since(run: Run, limits: Limits, events: Sequence[e.Event]) -> tuple[str, ...] | None:
    """Returns the steps that ended since the plan was thought over last; if any did, it is due.

    None if it never is: the settings do not want it, the plan may not change, or thinking it over
    has changed it as often as `max_replans` allows.
    """
    if _replan_setting(run, limits) != "after_each" or run.plan is None or not _may_change(run):
        return None
    names = {step.id for step in run.plan.steps if step.kind in _WORK}
    ended: list[str] = []
    changes, thinking, started = 0, False, False
    for event in events:
        body = event.body
        if isinstance(body, e.ReplanStarted):
            # A crash may cut the thinking off: `ended` is kept, so that it is made up for.
            thinking = body.kind == "rethink"
        elif isinstance(body, (e.PlanProposed, e.RunStarted)):
            changes += thinking and isinstance(body, e.PlanProposed)
            if started or isinstance(body, e.PlanProposed):
                ended = []  # else it was read for a preview, and not thought over yet
            started, thinking = started or isinstance(body, e.RunStarted), False
        elif isinstance(body, e.StepDone | e.StepReused) and body.step in names:
            ended += [body.step] if started or isinstance(body, e.StepDone) else []
    if changes >= _with_grants(limits.max_replans, run, "replans"):
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
        if state.status in UNSUCCESSFUL:
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
            "error": clip(str(state.error), _MAX_ERROR),
        }
        for name, state in failed[:_MAX_TEXTS]
    ]
    if len(failed) > _MAX_TEXTS:
        errors.append({"more": len(failed) - _MAX_TEXTS})
    found: list[dict[str, Json]] = []
    names = [name for name in results if name in run.steps and not is_part(name)]
    for name in names[-_MAX_TEXTS:]:
        value = results[name]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        short = value if len(text) <= _MAX_RESULT else clip(text, _MAX_RESULT)
        found.append({"step": name, "result": short})
    blocks = {"errors of failed steps": errors, "results of finished steps": found}
    return tuple(
        ContextBlock(title, "\n".join(json.dumps(line, ensure_ascii=False) for line in lines))
        for title, lines in blocks.items()
        if lines
    )
