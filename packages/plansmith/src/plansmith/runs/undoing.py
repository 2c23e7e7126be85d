"""Makes the plan that takes back what a run did; a person reviews it like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from plansmith.engine.undoing import DoneSteps, Reversal, done_steps, reversals
from plansmith.engine.values import load_values
from plansmith.errors import Refused, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.fold import fold
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.run_options import Origin, RunOptions
from plansmith.plan.sentence import Sentence, in_language

if TYPE_CHECKING:
    from plansmith.runs.intake import PlanIntake
    from plansmith.runs.journals import Journals
    from plansmith.runs.repeating import Create

# A step of an undoing run that may have taken effect is not made again.
_MADE = frozenset({StepStatus.DONE, StepStatus.UNKNOWN})


class _Earlier(NamedTuple):
    """The runs that were made before to undo a run: how many, and which steps they took back."""

    runs: int
    undone: frozenset[str]
    last: str = ""


class RunUndoing:
    """Takes runs back: makes a run of the reversing calls, which waits for its approval."""

    def __init__(self, journals: Journals, intake: PlanIntake, create: Create) -> None:
        self._journals = journals
        self._intake = intake
        self._create = create

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
        journal = await self._create(
            plan.goal,
            by=by,
            plan=plan,
            run_id=_id(old, number),
            locale=old.locale,
            options=RunOptions(mode="review", replan="never", team=old.options.team),
            origin=Origin(kind="undo", id=old.id),
            folder=old.folder,
            about={"origin": "rerun"},
            kept=(),
            reviewed=[e.ReviewAsked(hash=plan.hash, reasons=tuple(reasons))],
            pins={},
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
