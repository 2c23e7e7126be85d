"""The first lines of a report: what is missing, and what the plan itself left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plansmith.engine.outcome import was_refused
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.run import Run, RunStatus, StepState, StepStatus
from plansmith.plan.sentence import in_language
from plansmith.plan.steps import ReplyStep
from plansmith.report.words import Words

_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Missing:
    """A step that should have changed something and is not done; `parts` is (done, total)."""

    step: str
    status: str
    title: str = ""
    parts: tuple[int, int] = (0, 0)


def missing(run: Run, events: Sequence[e.Event]) -> tuple[Missing, ...]:
    """Returns the steps of the plan that should have changed something and are not done."""
    return tuple(_missing_steps(run, events))


def _missing_steps(run: Run, events: Sequence[e.Event]) -> Iterator[Missing]:
    proposed = [each.body for each in events if isinstance(each.body, e.PlanProposed)]
    acts = {name for body in proposed for name in body.acts}
    for step in run.plan.steps if run.plan else ():
        state = run.steps.get(step.id)
        if step.disabled or state is None or (state.settled and state.rule != "error"):
            continue
        parts = [each for name, each in run.steps.items() if name.startswith(f"{step.id}/")]
        unsure = any(map(_is_unsure, [state, *parts]))
        if step.id in acts or state.status is StepStatus.UNKNOWN:
            status = StepStatus.UNKNOWN.value if unsure else outcome_of(run, step.id)
            done = sum(each.status is StepStatus.DONE for each in parts)
            yield Missing(step.id, status, step.title, (done, len(parts)))


def outcome_of(run: Run, step: str) -> str:
    """Returns how a step ended, for readers: what a person refused did not fail."""
    status = run.steps[step].status
    refused = status is StepStatus.FAILED and was_refused(run, step)
    return "refused" if refused else status.value


def found_nothing(
    run: Run, events: Sequence[e.Event], results: Mapping[str, Json], told: Sequence[str]
) -> bool:
    """Whether a run that changed nothing has only empty lists to tell: nothing was there."""
    acts = any(each.body.acts for each in events if isinstance(each.body, e.PlanProposed))
    steps = run.plan.steps if run.plan and not acts else ()
    looked = [step.id for step in steps if not isinstance(step, ReplyStep) and step.id in results]
    asked = [name for name in looked if name in told] or looked
    return bool(asked) and all(_is_empty(results[name]) for name in asked)


def _is_empty(value: Json) -> bool:
    """Whether a result is a list without items, or an object that says nothing else."""
    if not isinstance(value, dict):
        return value == []
    said = [each for key, each in value.items() if key not in ("columns", "notes")]
    return [] in said and not any(said)


def _is_unsure(state: StepState) -> bool:
    """Tells whether a call may have taken effect: its end is unknown, or it was cancelled."""
    stopped = state.status is StepStatus.CANCELLED and bool(state.inputs)
    return stopped or state.status is StepStatus.UNKNOWN


def head(
    run: Run,
    status: RunStatus,
    missing_steps: Sequence[Missing],
    words: Words,
    *,
    is_empty: bool = False,
) -> tuple[str, ...]:
    """Returns the first lines of a report: what is missing comes before anything else."""
    if run.plan is None and status is RunStatus.FAILED:
        # Reads may have been made while the plan was still being written.
        return (words["status_no_plan_read" if run.prefetches else "status_no_plan"],)
    taken = [state for state in run.steps.values() if state.reused_from]
    empty = "_empty" if is_empty and status is RunStatus.DONE else ""
    lines = [words[f"status_{status.value}{empty}"]]
    if taken and not empty and status is RunStatus.DONE:
        total = sum(not step.disabled for step in run.plan.steps) if run.plan else 0
        lines = [words["status_done_continued"].format(done=len(taken), total=total)]
    if status is RunStatus.DONE and (not_run := [*_not_run(run, words)]):
        lines = [*(lines if taken else ()), *not_run]
    sure = [each for each in missing_steps if each.status != StepStatus.UNKNOWN.value]
    unsure = [each for each in missing_steps if each.status == StepStatus.UNKNOWN.value]
    locale = words["locale"]
    missing_lines = [
        words["dropped"].format(call=in_language(call, locale)) for call in run.dropped
    ]
    missing_lines += [words["not_known"].format(step=_named(each)) for each in unsure]
    if sure:
        each = ", ".join(f"{_named(one)} ({_state(one, words)})" for one in sure)
        missing_lines.append(words["not_done"].format(steps=each))
    if status is RunStatus.CANCELLED or not missing_lines:
        return (*lines, *missing_lines)
    # What is missing comes first; a status line that contradicts it is left out.
    contradicted = status is RunStatus.DONE or (status is RunStatus.FAILED and unsure)
    return (*missing_lines, *(() if contradicted else lines))


def _not_run(run: Run, words: Words) -> Iterator[str]:
    """Yields what a run did not do although it is done: its plan says so."""
    skipped = [name for name, state in run.steps.items() if state.rule in ("when", "need")]
    failed = [name for name, state in run.steps.items() if state.rule == "error"]
    for key, names in (("status_done_skipped", skipped), ("status_done_passed", failed)):
        if names:
            more = ", …" if len(names) > _MOST_NAMED else ""
            yield words[key].format(steps=", ".join(names[:_MOST_NAMED]) + more)


def _state(each: Missing, words: Words) -> str:
    done, total = each.parts
    state = words[f"is_{each.status}"]
    return f"{state}; {words['parts_done'].format(done=done, total=total)}" if done else state


def _named(each: Missing) -> str:
    return f"{each.step} — {each.title}" if each.title else each.step
