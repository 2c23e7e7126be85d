"""Makes the plan that takes back what a run did; a person reviews it like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from plansmith.engine.journal import load_values
from plansmith.engine.units import Unit, Values, group_of, named_unit, plan_units, resolved
from plansmith.errors import ReferenceFailed, Refused, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.data import Json, call_mark
from plansmith.plan.fold import fold
from plansmith.plan.ids import parent_of, root_of
from plansmith.plan.plan import Plan
from plansmith.plan.refs import FIRST, FROM, LITERAL, SECRET_MARK, fill, find_refs, literal
from plansmith.plan.run import Run, StepState, StepStatus
from plansmith.plan.run_options import Origin, RunOptions
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import Undo
from plansmith.runs.intake import NewRun
from plansmith.runs.journals import wrong_status

if TYPE_CHECKING:
    from plansmith.runs.journals import Journals
    from plansmith.runs.planning import RunPlanning


# A step of an undoing run that may have taken effect is not made again.
_MADE: Final = frozenset({StepStatus.DONE, StepStatus.UNKNOWN})
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class Reversal(NamedTuple):
    """The call that takes back a step or part; `inputs` are None if they cannot be told.

    `left_at` is the event with the plan that left the step out or let it begin anew.
    """

    step: str
    tool: str
    inputs: dict[str, Json] | None
    done_at: datetime
    left_at: int = 0

    @property
    def id(self) -> str:
        """A name for what was done that nothing else of the run has."""
        return f"{self.step}-{self.left_at}" if self.left_at else self.step


class DoneSteps(NamedTuple):
    """The steps and parts that a run has done under one of its plans, and no longer has later.

    The last plan of a run has all that is done at the end; `left_at` is 0 then.
    """

    run: Run
    names: frozenset[str]
    left_at: int = 0


async def undo_effects(planning: RunPlanning, run_id: str, *, by: e.Who = "") -> Run:
    """Creates the run that takes back what a run did, newest first; nothing runs unasked.

    Every effect is taken back at most once, whoever asks for it at the same time.
    """
    journals, registry = planning.journals, planning.registry
    old = await journals.get(run_id)
    journals.require_ours(old)
    if not old.status.over:
        raise wrong_status(old, Sentence("cancel it first, or wait until it is over"))
    done = _done_steps(await journals.store.events(run_id))
    reversals: list[Reversal] = []
    unable: list[str] = []
    for each in done:
        results = await load_values(journals.store, each.run)
        back = [*_reversals(each, results, each.run.templates)]
        plan = each.run.plan
        acts = await registry.acting(plan, each.run.templates) if plan else ()
        left = {root_of(name) for name in each.names} - {root_of(one.step) for one in back}
        unable += [name for name in acts if name in left]
        reversals += back
    reversals.sort(key=lambda each: each.done_at, reverse=True)
    unsure = [name for name, state in old.steps.items() if state.status is StepStatus.UNKNOWN]
    names = _step_names(reversals)
    while True:
        count, undone = await _undone_before(journals, old, names)
        rest = [each for each in reversals if each.id not in undone]
        _require_something_to_undo(old, reversals, rest, count)
        plan = _plan(old, rest, names)
        # What is not taken back is told, so that nobody takes the plan for the whole.
        reasons: list[str] = [Sentence("review.undoes", run=old.id)]
        if not_told := dict.fromkeys([*(one.step for one in rest if one.inputs is None), *unable]):
            reasons.append(Sentence("review.not_undone", steps=[*not_told]))
        if unsure:
            reasons.append(Sentence("review.unsure_undone", steps=unsure))
        new = NewRun(
            plan.goal,
            plan,
            by=by,
            run_id=f"{old.id}-undo{count + 1}",  # the same for all who want to make it
            locale=old.locale,
            options=RunOptions(mode="review", replan="never", team=old.options.team),
            origin=Origin(kind="undo", id=old.id),
            folder=old.folder,
            reasons=reasons,  # with those of the policy: taking back changes things too
        )
        try:
            return await journals.whole(await planning.create(new))
        except StaleWriter:
            continue  # somebody else has just made it: the next round tells so


async def _undone_before(
    journals: Journals, old: Run, names: Mapping[str, str]
) -> tuple[int, set[str]]:
    """Returns how many runs were made before to undo a run, and the effects they took back."""
    count, undone = 0, set[str]()
    while events := await journals.store.events(f"{old.id}-undo{count + 1}"):
        run, count = fold(events), count + 1
        if not run.status.over:
            why = Sentence("run {run} is there to undo run {old}", run=run.id, old=old.id)
            hint = Sentence("decide about it first: plansmith show {run}", run=run.id)
            raise Refused(why, hint=hint)
        made = {name for name, state in run.steps.items() if state.status in _MADE}
        undone |= {effect for effect, step in names.items() if step in made}
    return count, undone


def _require_something_to_undo(
    old: Run, reversals: Sequence[Reversal], rest: Sequence[Reversal], count: int
) -> None:
    if not reversals:
        hint = Sentence("only a step that is done and has undo_with can be taken back")
        why = Sentence("run {run} did nothing that can be taken back", run=old.id)
        raise Refused(why, hint=hint)
    if not rest:
        hint = Sentence("look at run {run}", run=f"{old.id}-undo{count}")
        raise Refused(Sentence("what run {run} did was taken back already", run=old.id), hint=hint)
    if all(each.inputs is None for each in rest):
        steps = [each.step for each in rest]
        why = Sentence("no call can be told that takes back {steps}", steps=steps)
        raise Refused(why, hint=Sentence("take it back by hand"))


def _step_names(reversals: Sequence[Reversal]) -> dict[str, str]:
    """Returns the id of the step that takes back each thing that was done; always the same."""
    names: dict[str, str] = {}
    for name in sorted(each.id for each in reversals):
        wished = f"undo_{name.replace('/', '-')}"[-60:]
        number, free = 2, wished
        while free in names.values():
            free, number = f"{wished[-56:]}_{number}", number + 1
        names[name] = free
    return names


def _plan(old: Run, rest: Sequence[Reversal], names: Mapping[str, str]) -> Plan:
    steps: list[dict[str, object]] = []
    for each in rest:
        if each.inputs is None:
            continue
        code = "undo.title_left" if each.left_at else "undo.title"
        title = in_language(Sentence(code, step=each.step), old.locale)
        after = [steps[-1]["id"]] if steps else []
        call = {"tool": each.tool, "inputs": each.inputs}
        steps.append({"id": names[each.id], "title": title, "after": after, **call})
    goal = in_language(Sentence("Take back what run {run} did", run=old.id), old.locale)
    return Plan.model_validate({"goal": goal, "locale": old.locale, "steps": steps})


def can_be_undone(run: Run, events: Sequence[e.Event]) -> bool:
    """Tells whether a run did anything that has a call which takes it back."""
    done = _done_steps(events) if run.revisions > 1 else [DoneSteps(run, _done(run))]
    units = (
        named_unit(each.run.plan, name, each.run.templates)
        for each in done
        for name in each.names
        if each.run.plan is not None
    )
    return any(unit and not unit.is_group and unit.step.undo_with is not None for unit in units)


def _done_steps(events: Sequence[e.Event]) -> list[DoneSteps]:
    """Returns what a run has done, plan by plan: a later plan may leave out what was done."""
    last = fold(events)
    before = [
        (event.number, fold(events[:place]))
        for place, event in enumerate(events)
        if place and isinstance(event.body, e.PlanProposed)
    ]
    before = [(number, run) for number, run in before if run.plan is not None]
    states = [run for _, run in before] + [last]
    found: list[DoneSteps] = []
    for place, (number, run) in enumerate(before):
        later = states[place + 1 :]
        gone = frozenset(name for name in _done(run) if not _is_kept(run, name, later))
        found += [DoneSteps(run, gone, number)] if gone else []
    return [*found, DoneSteps(last, _done(last))]


def _done(run: Run) -> frozenset[str]:
    """Returns the steps and parts whose calls a run itself has made and that are done."""
    return frozenset(
        name
        for name, state in run.steps.items()
        if state.status is StepStatus.DONE and (state.callee or state.past_calls)
    )


def _is_kept(run: Run, name: str, later: Sequence[Run]) -> bool:
    """Tells whether the next plan has a step as it was, or a later one took its result over."""
    state, following = run.steps[name], later[0].steps.get(name)
    if following is not None and following.finished_at == state.finished_at:
        return following.status is StepStatus.DONE
    found = (each for after in later if (each := after.steps.get(name)) is not None)
    return any(
        (each.status, each.reused_from, each.result_hash)
        == (StepStatus.DONE, run.id, state.result_hash)
        for each in found
    )


def _reversals(
    done: DoneSteps, results: Mapping[str, Json], templates: Mapping[str, Plan]
) -> Iterator[Reversal]:
    """Yields the calls that take back what a run has done under one of its plans."""
    run = done.run
    statuses = {name: state.status for name, state in run.steps.items()}
    units = [*plan_units(run.plan).values()] if run.plan is not None else []
    while units:
        unit = units.pop(0)
        name, state, undo = unit.name, run.steps.get(unit.name), unit.step.undo_with
        if state is not None and unit.is_group:
            started = {
                part: each.item
                for part, each in run.steps.items()
                if parent_of(part) == name and (each.item or each.attempts)
            }
            with suppress(ReferenceFailed):  # then it never came to have any parts
                group = group_of(unit, resolved(unit, results), results, started, templates)
                group.started_parts(statuses, ())
                units[:0] = group.parts.values()
        elif state is not None and undo is not None and name in done.names:
            inputs = _inputs(unit, undo, state, results)
            yield Reversal(name, undo.tool, inputs, state.finished_at or _NEVER, done.left_at)


def _inputs(
    unit: Unit, undo: Undo, state: StepState, results: Mapping[str, Json]
) -> dict[str, Json] | None:
    """Returns the inputs of a call with the recorded values, in which nothing is a reference.

    None where the call cannot be told: a person had other values sent than those of the plan, and
    it would take back something else; or a value of a tool looks like a secret of the plan.
    """
    before = (each.call_mark for each in state.past_calls if each.result == state.result_hash)
    sent = state.call_mark or next(before, "")
    as_planned = not sent
    with suppress(ReferenceFailed):
        as_planned = as_planned or sent == call_mark(resolved(unit, results))
    if not as_planned and not _is_own_result(undo, unit.step.id):
        return None
    own = {**unit.bound, unit.step.id: results.get(unit.name)}
    here = Unit(unit.name, unit.step, scope=unit.scope, bound=own)
    try:
        filled = cast("dict[str, Json]", fill(dict(undo.inputs), Values(results, here)))
    except ReferenceFailed:
        return None
    mark = SECRET_MARK.decode()
    if json.dumps(filled).count(mark) != json.dumps(undo.inputs).count(mark):
        return None
    marks = {FIRST, FROM, LITERAL} & filled.keys()
    return {LITERAL: filled} if marks else {name: literal(each) for name, each in filled.items()}


def _is_own_result(undo: Undo, step: str) -> bool:
    """Tells whether an undo uses nothing of other steps: so it fits whatever values were sent."""
    return all(
        each.ref is not None and each.ref.step == step for each in find_refs(dict(undo.inputs))
    )
