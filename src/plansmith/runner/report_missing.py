"""Missing: what was to act and did not, or nobody knows, and the lines that say so first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plansmith.plan import events as e
from plansmith.plan.run import Run, RunStatus, StepState, StepStatus
from plansmith.plan.sentence import in_language
from plansmith.runner.report_words import Words
from plansmith.runner.requested import missing_in


@dataclass(frozen=True, slots=True)
class Missing:
    """A step that would have changed something: how it stands; of its parts, how many are done."""

    step: str
    status: str
    title: str = ""
    parts: tuple[int, int] = (0, 0)


def missing(run: Run, events: Sequence[e.Event]) -> tuple[Missing, ...]:
    """The steps of the plan that would have changed something and are not done."""
    return tuple(_undone(run, events))


def _undone(run: Run, events: Sequence[e.Event]) -> Iterator[Missing]:
    proposed = [each.body for each in events if isinstance(each.body, e.PlanProposed)]
    acts = {name for body in proposed for name in body.acts}
    for step in run.plan.steps if run.plan else ():
        state = run.steps.get(step.id)
        if step.disabled or state is None or state.status is StepStatus.DONE:
            continue
        parts = [each for name, each in run.steps.items() if name.startswith(f"{step.id}/")]
        unsure = any(map(_is_unsure, [state, *parts]))
        if step.id in acts or state.status is StepStatus.UNKNOWN:
            status = StepStatus.UNKNOWN if unsure else state.status
            done = sum(each.status is StepStatus.DONE for each in parts)
            yield Missing(step.id, status.value, step.title, (done, len(parts)))


def _is_unsure(state: StepState) -> bool:
    """Whether nobody knows how a call ended; one that was stopped in its midst may have acted."""
    stopped = state.status is StepStatus.CANCELLED and bool(state.inputs)
    return stopped or state.status is StepStatus.UNKNOWN


def head(run: Run, status: RunStatus, lacks: Sequence[Missing], words: Words) -> tuple[str, ...]:
    """The first lines of a report: what is missing before anything else, in plain words."""
    if run.plan is None and status is RunStatus.FAILED:
        # Reads may have been made while the plan was still being written.
        return (words["status_no_plan_read" if run.prefetches else "status_no_plan"],)
    taken = [state for state in run.steps.values() if state.reused_from]
    lines = [words[f"status_{status.value}"]]
    if taken and status is RunStatus.DONE:
        total = sum(not step.disabled for step in run.plan.steps) if run.plan else 0
        lines = [words["status_done_continued"].format(done=len(taken), total=total)]
    sure = [each for each in lacks if each.status != StepStatus.UNKNOWN.value]
    unsure = [each for each in lacks if each.status == StepStatus.UNKNOWN.value]
    locale = words["locale"]
    told = [words["dropped"].format(call=in_language(call, locale)) for call in run.dropped]
    deeds = (in_language(each, locale) for each in missing_in(run.problems))
    told += [words["left_out"].format(deed=deed) for deed in deeds]
    told += [words["not_known"].format(step=_named(each)) for each in unsure]
    if sure:
        each = ", ".join(f"{_named(one)} ({_state(one, words)})" for one in sure)
        told.append(words["not_done"].format(steps=each))
    if status is RunStatus.CANCELLED or not told:
        return (*lines, *told)
    # What is missing comes first, and nothing that it belies comes after it.
    belied = status is RunStatus.DONE or (status is RunStatus.FAILED and unsure)
    return (*told, *(() if belied else lines))


def _state(each: Missing, words: Words) -> str:
    done, total = each.parts
    state = words[f"is_{each.status}"]
    return f"{state}; {words['parts_done'].format(done=done, total=total)}" if done else state


def _named(each: Missing) -> str:
    return f"{each.step} — {each.title}" if each.title else each.step
