"""Missing: what was to act and did not, or nobody knows, and the lines that say so first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plansmith.plan import events as e
from plansmith.plan.data import canonical_json
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus, StepState, StepStatus
from plansmith.plan.steps import AnyStep
from plansmith.runner.report_words import Words

DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Missing:
    """A step that would have changed something: how it stands; of its parts, how many are done."""

    step: str
    status: str
    title: str = ""
    parts: tuple[int, int] = (0, 0)


def missing(run: Run, events: Sequence[e.Event]) -> tuple[Missing, ...]:
    """The acting steps that are not done, and those of approved plans that were dropped since."""
    return (*_undone(run, events), *_dropped(run, events))


def _undone(run: Run, events: Sequence[e.Event]) -> Iterator[Missing]:
    acts = {name for body in _proposed(events) for name in body.acts}
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


def _dropped(run: Run, events: Sequence[e.Event]) -> Iterator[Missing]:
    """What a person approved and no plan since has kept; the same call by another name counts."""
    plans = {body.plan.hash: body for body in _proposed(events)}
    approved = [plans[each.body.hash] for each in events if isinstance(each.body, e.PlanApproved)]
    steps = run.plan.steps if run.plan else ()
    left = {_call(step) for step in steps if not step.disabled}
    names = run.plan.by_id if run.plan else {}
    told: set[str] = set()
    for body in approved:
        for step in body.plan.steps:
            gone = step.id not in names and _call(step) not in left and step.id not in told
            if gone and step.id in body.acts and not _removed_by_a_person(step, events):
                told.add(step.id)
                yield Missing(step.id, DROPPED, step.title)


def _removed_by_a_person(step: AnyStep, events: Sequence[e.Event]) -> bool:
    """Whether a person's own edit took a step out: then nobody misses it."""
    before: Plan | None = None
    for event in events:
        if isinstance(event.body, e.PlanProposed):
            had = before is not None and step.id in before.by_id
            by_person = event.body.origin == "person"
            if had and by_person and step.id not in event.body.plan.by_id:
                return True
            before = event.body.plan
    return False


def _call(step: AnyStep) -> bytes:
    given = step.to_json()
    prose = ("id", "title", "why", "after")
    return canonical_json({key: each for key, each in given.items() if key not in prose})


def _proposed(events: Sequence[e.Event]) -> list[e.PlanProposed]:
    return [each.body for each in events if isinstance(each.body, e.PlanProposed)]


def head(run: Run, status: RunStatus, lacks: Sequence[Missing], words: Words) -> tuple[str, ...]:
    """The first lines of a report: what is missing before anything else, in plain words."""
    if run.plan is None and status is RunStatus.FAILED:
        return (words["status_no_plan"],)
    taken = [state for state in run.steps.values() if state.reused_from]
    lines = [words[f"status_{status.value}"]]
    if taken and status is RunStatus.DONE:
        total = sum(not step.disabled for step in run.plan.steps) if run.plan else 0
        lines = [words["status_done_continued"].format(done=len(taken), total=total)]
    sure = [each for each in lacks if each.status != StepStatus.UNKNOWN.value]
    unsure = [each for each in lacks if each.status == StepStatus.UNKNOWN.value]
    told = [words["not_known"].format(step=_named(each)) for each in unsure]
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
