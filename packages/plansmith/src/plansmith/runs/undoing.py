"""Makes the plan that takes back what a run did; a person reviews it like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from plansmith.engine.groups import PartsMaker
from plansmith.engine.journal import load_values
from plansmith.engine.provenance import is_own_result
from plansmith.engine.units import Unit, Values, named_unit, plan_units, resolved
from plansmith.errors import ReferenceFailed, Refused, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.data import Json, call_mark
from plansmith.plan.events import Event, PlanProposed
from plansmith.plan.fold import fold
from plansmith.plan.plan import Plan
from plansmith.plan.refs import SECRET_MARK, fill, literal
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.run_options import Origin, RunOptions
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import Undo

if TYPE_CHECKING:
    from plansmith.runs.creating import RunCreator


# A step of an undoing run that may have taken effect is not made again.
_MADE = frozenset({StepStatus.DONE, StepStatus.UNKNOWN})


class _Earlier(NamedTuple):
    """The runs that were made before to undo a run: how many, and which steps they took back."""

    runs: int
    undone: frozenset[str]
    last: str = ""


class RunUndoing:
    """Takes runs back: makes a run of the reversing calls, which waits for its approval."""

    def __init__(self, creator: RunCreator) -> None:
        self._creator, self._journals, self._intake = creator, creator.journals, creator.intake

    async def undo_plan(self, run_id: str, *, by: e.Who = "") -> Run:
        """Creates the run that takes back what a run did, newest first; nothing runs unasked.

        Every effect is taken back at most once, whoever asks for it at the same time.
        """
        old = await self._journals.get(run_id)
        self._journals.require_ours(old)
        if not old.status.over:
            state = Sentence(f"status.{old.status}")
            hint = Sentence("cancel it first, or wait until it is over")
            raise Refused(Sentence("run {run} is {status}", run=run_id, status=state), hint=hint)
        while True:
            found = await self._found(old)
            earlier = await self._earlier(old, _names(found))
            left = [each for each in found if each.effect not in earlier.undone]
            self._refuse_nothing(old, found, left, earlier)
            try:
                return await self._make(old, found, left, number=earlier.runs + 1, by=by)
            except StaleWriter:
                continue  # somebody else has just made it: the next round tells so

    async def _found(self, old: Run) -> list[Reversal]:
        """Returns the calls that take back what a run did under all its plans, newest first."""
        await self._intake.load_templates()
        found: list[Reversal] = []
        for done in await self._done_steps(old):
            templates = {**self._intake.templates, **done.run.templates}
            values = await load_values(self._journals.store, done.run)
            found += reversals(done, values, templates)
        return sorted(found, key=lambda each: each.done_at, reverse=True)

    async def _done_steps(self, old: Run) -> list[DoneSteps]:
        return done_steps(await self._journals.store.events(old.id))

    async def _earlier(self, old: Run, names: Mapping[str, str]) -> _Earlier:
        count, undone, last = 0, set[str](), ""
        while events := await self._journals.store.events(_id(old, count + 1)):
            run = fold(events)
            count, last = count + 1, run.id
            if not run.status.over:
                hint = Sentence("decide about it first: plansmith show {run}", run=run.id)
                raise Refused(
                    Sentence("run {run} is there to undo run {old}", run=run.id, old=old.id),
                    hint=hint,
                )
            steps = {step: effect for effect, step in names.items()}
            made = {name for name, state in run.steps.items() if state.status in _MADE}
            undone |= {steps[name] for name in made if name in steps}
        return _Earlier(count, frozenset(undone), last)

    def _refuse_nothing(
        self, old: Run, found: Sequence[Reversal], left: Sequence[Reversal], earlier: _Earlier
    ) -> None:
        if not found:
            hint = Sentence("only a step that is done and has undo_with can be taken back")
            raise Refused(
                Sentence("run {run} did nothing that can be taken back", run=old.id), hint=hint
            )
        if not left:
            hint = Sentence("look at run {run}", run=earlier.last)
            raise Refused(
                Sentence("what run {run} did was taken back already", run=old.id), hint=hint
            )
        if not any(each.inputs is not None for each in left):
            steps = [each.step for each in left]
            hint = Sentence(
                "take it back by hand: values that its undo_with refers to are not usable"
            )
            raise Refused(
                Sentence("no call can be told that takes back {steps}", steps=steps), hint=hint
            )

    async def _make(
        self,
        old: Run,
        found: Sequence[Reversal],
        left: Sequence[Reversal],
        *,
        number: int,
        by: e.Who,
    ) -> Run:
        plan = _plan(old, left, _names(found))
        reasons = [Sentence("review.undoes", run=old.id), *await self._reasons(old, found, left)]
        journal = await self._creator.create(
            plan.goal,
            by=by,
            plan=plan,
            run_id=_id(old, number),
            locale=old.locale,
            options=RunOptions(mode="review", replan="never", team=old.options.team),
            origin=Origin(kind="undo", id=old.id),
            folder=old.folder,
            about={"origin": "rerun"},
            reviewed=[e.ReviewAsked(hash=plan.hash, reasons=tuple(reasons))],
        )
        return await self._journals.whole(journal)

    async def _reasons(
        self, old: Run, found: Sequence[Reversal], left: Sequence[Reversal]
    ) -> list[Sentence]:
        """Returns what is not taken back, so that nobody takes the plan for the whole."""
        reasons: list[Sentence] = []
        unable = [each.step for each in left if each.inputs is None]
        for done in await self._done_steps(old):
            plan = done.run.plan
            acts = await self._intake.acting(plan, done.run.templates) if plan else ()
            told = {each.step for each in found if each.left_at == done.left_at}
            roots = {name.split("/", maxsplit=1)[0] for name in told}
            unable += [name for name in acts if name in done.names and name not in roots]
        if unable:
            reasons.append(Sentence("review.not_undone", steps=[*dict.fromkeys(unable)]))
        unsure = [name for name, state in old.steps.items() if state.status is StepStatus.UNKNOWN]
        if unsure:
            reasons.append(Sentence("review.unsure_undone", steps=unsure))
        return reasons


def _id(old: Run, number: int) -> str:
    """The id of a run that undoes another: the same for all who want to make it."""
    return f"{old.id}-undo{number}"


def _names(found: Sequence[Reversal]) -> dict[str, str]:
    """Returns the id of the step that takes back each thing that was done; always the same."""
    names: dict[str, str] = {}
    for name in sorted(each.effect for each in found):
        wished = f"undo_{name.replace('/', '-')}"[-60:]
        number, free = 2, wished
        while free in names.values():
            free, number = f"{wished[-56:]}_{number}", number + 1
        names[name] = free
    return names


def _plan(old: Run, left: Sequence[Reversal], names: Mapping[str, str]) -> Plan:
    """Returns the reversing calls as a plan, each after the one before."""
    steps: list[dict[str, object]] = []
    for each in left:
        if each.inputs is None:
            continue
        said = "undo.title_left" if each.left_at else "undo.title"
        title = in_language(Sentence(said, step=each.step), old.locale)
        after = [steps[-1]["id"]] if steps else []
        call = {"tool": each.tool, "inputs": each.inputs}
        steps.append({"id": names[each.effect], "title": title, "after": after, **call})
    goal = in_language(Sentence("Take back what run {run} did", run=old.id), old.locale)
    return Plan.model_validate({"goal": goal, "locale": old.locale, "steps": steps})


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
    def effect(self) -> str:
        """A name for what was done that nothing else of the run has."""
        return f"{self.step}-{self.left_at}" if self.left_at else self.step


class DoneSteps(NamedTuple):
    """The steps and parts that a run has done under one of its plans, and no longer has later.

    The last plan of a run has all that is done at the end; `left_at` is 0 then.
    """

    run: Run
    names: frozenset[str]
    left_at: int = 0


def done_steps(events: Sequence[Event]) -> list[DoneSteps]:
    """Returns what a run has done, plan by plan: a later plan may leave out what was done."""
    ends = [
        (event.number, place)
        for place, event in enumerate(events)
        if isinstance(event.body, PlanProposed) and place
    ]
    states = [(number, fold(events[:place])) for number, place in ends]
    states = [(number, run) for number, run in states if run.plan is not None]
    last = fold(events)
    later = [*(run for _, run in states[1:]), last]
    found: list[DoneSteps] = []
    for place, (number, run) in enumerate(states):
        gone = {name for name in _done(run) if not _is_kept(run, name, later[place:])}
        found.append(DoneSteps(run, frozenset(gone), number))
    return [*(each for each in found if each.names), DoneSteps(last, _done(last))]


def _done(run: Run) -> frozenset[str]:
    """Returns the steps and parts that a run itself has done; of others it only has the results."""
    return frozenset(
        name
        for name, state in run.steps.items()
        if state.status is StepStatus.DONE and state.reused_from in ("", run.id)
    )


def _is_kept(run: Run, name: str, later: Sequence[Run]) -> bool:
    """Tells whether the next plan has a step as it was, or a later one took its result over."""
    state, following = run.steps[name], later[0].steps.get(name)
    if following is not None and following.finished_at == state.finished_at:
        return following.status is StepStatus.DONE
    return any(
        each.status is StepStatus.DONE
        and each.reused_from == run.id
        and each.result_hash == state.result_hash
        for after in later
        if (each := after.steps.get(name)) is not None
    )


def can_be_undone(run: Run, events: Sequence[Event]) -> bool:
    """Tells whether a run did anything that has a call which takes it back."""
    done = done_steps(events) if run.revisions > 1 else [DoneSteps(run, _done(run))]
    return any(_has_undo(each.run, name) for each in done for name in each.names)


def _has_undo(run: Run, name: str) -> bool:
    unit = named_unit(run.plan, name, run.templates) if run.plan is not None else None
    return unit is not None and not unit.is_group and unit.step.undo_with is not None


def reversals(
    done: DoneSteps, results: Mapping[str, Json], templates: Mapping[str, Plan]
) -> list[Reversal]:
    """Returns the calls that take back what a run has done under one of its plans."""
    if done.run.plan is None:
        return []
    units = plan_units(done.run.plan)
    found = _found(units, done.run, results, PartsMaker(templates))
    return [each._replace(left_at=done.left_at) for each in found if each.step in done.names]


def _found(
    units: Mapping[str, Unit], run: Run, results: Mapping[str, Json], parts: PartsMaker
) -> Iterator[Reversal]:
    for name, unit in units.items():
        state = run.steps.get(name)
        if state is None:
            continue
        if unit.is_group:
            yield from _found(_parts(unit, run, results, parts), run, results, parts)
        elif unit.step.undo_with is not None and state.status is StepStatus.DONE:
            undo = unit.step.undo_with
            # What it would take back may be something else than what a person had sent instead.
            fits = _sent_as_planned(unit, run, results) or is_own_result(undo, unit.step.id)
            inputs = _inputs(unit, undo, results) if fits else None
            yield Reversal(name, undo.tool, inputs, state.finished_at or _NEVER)


def _sent_as_planned(unit: Unit, run: Run, results: Mapping[str, Json]) -> bool:
    """Tells whether a call was made with the values of the plan, and not with a person's own."""
    state = run.steps[unit.name]
    before = (each.call for each in state.made if each.result == state.result_hash)
    sent = state.call or next(before, "")
    try:
        return not sent or sent == call_mark(resolved(unit, results))
    except ReferenceFailed:
        return False


def _parts(
    unit: Unit, run: Run, results: Mapping[str, Json], parts: PartsMaker
) -> Mapping[str, Unit]:
    """Returns the parts that a unit had; none if it never came to have any."""
    known = {
        name: state.item
        for name, state in run.steps.items()
        if name.rpartition("/")[0] == unit.name and (state.item or state.attempts)
    }
    try:
        group = parts.group(unit, resolved(unit, results), results, known)
    except ReferenceFailed:
        return {}
    group.started_parts({name: state.status for name, state in run.steps.items()}, ())
    return group.parts


def _inputs(unit: Unit, undo: Undo, results: Mapping[str, Json]) -> dict[str, Json] | None:
    """Returns the inputs of a call with the recorded values, in which nothing is a reference.

    A value of a tool that looks like a secret would be taken for one that the plan names: then
    the call cannot be told.
    """
    own = {**unit.bound, unit.step.id: results.get(unit.name)}
    here = Unit(unit.name, unit.step, scope=unit.scope, bound=own)
    try:
        filled = cast("dict[str, Json]", fill(dict(undo.inputs), Values(results, here)))
    except ReferenceFailed:
        return None
    mark = SECRET_MARK.decode()
    if json.dumps(filled).count(mark) != json.dumps(undo.inputs).count(mark):
        return None
    return {name: literal(value) for name, value in filled.items()}
