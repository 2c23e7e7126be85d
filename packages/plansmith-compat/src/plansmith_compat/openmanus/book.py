"""The plans of a planning tool: kept in the store as runs, shown as tables and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import count
from typing import Any, Final, NamedTuple, cast

from plansmith.engine.journal import Journal, whole_run
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_of
from plansmith.plan.plan import Plan
from plansmith.plan.run import BEGUN, Run, RunStatus, StepState, StepStatus
from plansmith.plan.run_options import Origin, RunOptions
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep
from plansmith.ports import Clock, Store
from plansmith.runs.intake import NewRun
from plansmith.runs.journals import Journals
from plansmith_compat.openmanus import dialect
from plansmith_compat.openmanus.dialect import NAME, write
from plansmith_planner.dialect import data_of, in_order, place_id

_DELETED: Final = Sentence("the plan was deleted")
AGENT_KEEPS: Final = Sentence("an agent keeps this plan and marks its steps by itself")
AGENT: Final = e.Actor(kind="model", name="planning")
_STEP_STATUSES: Final = {
    "not_started": StepStatus.WAITING,
    "in_progress": StepStatus.RUNNING,
    "completed": StepStatus.DONE,
    "blocked": StepStatus.FAILED,
}
_ORDER: Final = ("completed", "in_progress", "blocked", "not_started")
PlanDict = dict[str, Any]  # plan_id, title, steps, step_statuses, step_notes


class PlanStepStatus(StrEnum):
    """The status of a step."""

    NOT_STARTED = "not_started"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    BLOCKED = "blocked"

    @classmethod
    def get_all_statuses(cls) -> list[str]:
        return [each.value for each in cls]

    @classmethod
    def get_active_statuses(cls) -> list[str]:
        """Returns the statuses of steps that are not finished."""
        return [cls.NOT_STARTED.value, cls.IN_PROGRESS.value]

    @classmethod
    def get_status_marks(cls) -> dict[str, str]:
        """Returns the mark of each status in a plan that is shown."""
        return dict(zip(cls.get_all_statuses(), ("[ ]", "[→]", "[✓]", "[!]"), strict=True))


class StoredPlan(NamedTuple):
    """A plan as programs see it, and how it stands.

    `own`: an agent may mark it, since no flow runs it. `fell_short`: its run ended otherwise than
    done. `degraded` says why it only stands in for a plan.
    """

    plan: PlanDict
    own: bool
    degraded: str
    fell_short: bool

    @property
    def plan_id(self) -> str:
        return str(self.plan["plan_id"])

    @property
    def is_completed(self) -> bool:
        return {*self.plan["step_statuses"]} <= {"completed"} and not self.fell_short


def whole(plan_id: str, given: Mapping[str, Any]) -> PlanDict:
    """Returns a plan with all its fields; what a program has left out is not started."""
    steps = [str(each) for each in given.get("steps") or ()]
    statuses = [str(each) for each in given.get("step_statuses") or ()]
    notes = [str(each) for each in given.get("step_notes") or ()]
    return {
        "plan_id": plan_id,
        "title": str(given.get("title") or "Untitled Plan"),
        "steps": steps,
        "step_statuses": [*statuses, *[dialect.NOT_STARTED] * len(steps)][: len(steps)],
        "step_notes": [*notes, *[""] * len(steps)][: len(steps)],
    }


def progress(plan: PlanDict) -> str:
    """Says how many steps of a plan are completed."""
    done = plan["step_statuses"].count("completed")
    return f"{done}/{len(plan['steps'])} steps completed"


def plan_text(plan: PlanDict) -> str:
    """Returns a plan as text for people and agents."""
    head = f"Plan: {plan['title']} (ID: {plan['plan_id']})\n"
    statuses, total = plan["step_statuses"], len(plan["steps"])
    share = f"{statuses.count('completed') / total * 100:.1f}%" if total else "0%"
    standing = ", ".join(f"{statuses.count(name)} {name.replace('_', ' ')}" for name in _ORDER)
    lines = [
        head + "=" * len(head) + "\n",
        f"Progress: {progress(plan)} ({share})",
        f"Status: {standing}\n",
        "Steps:",
    ]
    marks = PlanStepStatus.get_status_marks()
    for place, step in enumerate(plan["steps"]):
        lines.append(f"{place}. {marks[statuses[place]]} {step}")
        lines += [f"   Notes: {plan['step_notes'][place]}"] if plan["step_notes"][place] else []
    return "\n".join(lines) + "\n"


class PlanBook:
    """Stores plans under ids that the caller chooses; shares them with other processes."""

    def __init__(self, store: Store, clock: Clock, *, by: e.Actor = AGENT) -> None:
        self.store = store
        self._journals, self._by = Journals(store=store, clock=clock), by

    async def _read(self, run_id: str) -> Journal:
        """Loads the journal of a run; it is empty if the run does not exist yet."""
        journal = self._journals.new(run_id)
        await journal.catch_up()
        return journal

    async def _propose(self, journal: Journal, plan: Plan) -> None:
        """Writes another version of the plan."""
        again = plan.replace(revision=_plan_of(journal).revision + 1)
        await journal.append(e.PlanProposed(plan=again, origin="submitted"), by=self._by)

    async def _all(self) -> list[Journal]:
        names = [each for each in await self.store.runs() if each.startswith(f"{NAME}:")]
        return [await self._read(name) for name in names]

    async def all(self) -> list[StoredPlan]:
        """Returns every plan, oldest first."""
        return [await self._stored(each) for each in await self._all() if not _is_deleted(each.run)]

    async def find(self, plan_id: str) -> StoredPlan | None:
        journal = await self._journal(plan_id)
        return await self._stored(journal) if journal.run.plan is not None else None

    async def active(self) -> str | None:
        """Returns the plan that any process activated last; None if it is deleted."""
        mark = e.RunPaused(reason=AGENT_KEEPS)
        made = [
            (event.at, journal)
            for journal in await self._all()
            for event in journal.events
            if event.body == mark
        ]
        _, newest = max(made, key=lambda pair: pair[0], default=(None, None))
        return _plan_id(newest) if newest is not None and not _is_deleted(newest.run) else None

    async def run_of(self, plan_id: str) -> str:
        """Returns the id of a plan's run; if there is no such plan, the id for a new one."""
        return (await self._journal(plan_id)).id

    async def make_active(self, plan_id: str) -> None:
        journal = await self._journal(plan_id)
        await journal.append(e.RunPaused(reason=AGENT_KEEPS), by=self._by)

    async def create(self, plan_id: str, title: str, steps: Sequence[str]) -> None:
        journal = await self._journal(plan_id)
        texts = {place_id(place): text for place, text in enumerate(steps, start=1)}
        plan, options = _plan(plan_id, title, texts, {}), RunOptions(dialect=NAME)
        new = NewRun(plan=plan, origin=Origin(kind="notes"), options=options, by=self._by)
        proposed = e.PlanProposed(plan=plan, origin="submitted")
        # Paused: an agent works on it, and nothing else executes it.
        paused = e.RunPaused(reason=AGENT_KEEPS)
        await journal.append(new.created(self._journals), proposed, paused, by=self._by)

    async def revise(self, plan_id: str, title: str | None, steps: Sequence[str] | None) -> None:
        """Changes title or steps; a step whose text stays keeps its status and notes."""
        journal = await self._journal(plan_id)
        old = _plan_of(journal)
        old_texts = cast("PlanDict", write(old, journal.run).value)["steps"]
        names = [step.id for step in in_order(old) if not step.disabled]
        before = dict(zip(names, old_texts, strict=True))
        texts = before if steps is None else dict[str, str]()
        # A text that was there before keeps its id.
        places = count(len(before) + 1)
        fresh = (name for place in places if (name := place_id(place)) not in before)
        for text in steps or ():
            same = [name for name in before if before[name] == text and name not in texts]
            texts[same[0] if same else next(fresh)] = text
        why = {step.id: step.why for step in old.steps}
        await self._propose(journal, _plan(plan_id, title or old.goal, texts, why))

    async def mark(self, plan_id: str, index: int, status: str | None, notes: str | None) -> None:
        journal = await self._journal(plan_id)
        plan = _plan_of(journal)
        step = plan.steps[index]
        if notes is not None:
            steps = [s.replace(why=notes) if s.id == step.id else s for s in plan.steps]
            await self._propose(journal, plan.replace(steps=tuple(steps)))
        if status and dialect.STATUSES[journal.run.steps[step.id].status] != status:
            state = journal.run.steps[step.id]
            bodies = list(_events_to_reach(step.id, state, _STEP_STATUSES[status]))
            if bodies:
                await journal.append(*bodies, by=self._by, values=[None])

    async def resolve(self, plan_id: str, agents: Mapping[str, str], first: str) -> None:
        """Gives each step to an agent that there is: by its tag in any case, else to the first."""
        journal = await self._journal(plan_id)
        plan = _plan_of(journal)
        steps: list[AnyStep] = []
        for step in plan.steps:
            if isinstance(step, AgentStep) and step.agent not in agents.values():
                text = dialect.step_text(step, written=True)
                agent, task = agents.get(step.agent.lower()) or first, data_of(text, ())
                steps.append(step.replace(agent=agent, title=text, task=task or step.task))
            else:
                steps.append(step)
        if tuple(steps) != plan.steps:
            await self._propose(journal, plan.replace(steps=tuple(steps)))

    async def remove(self, plan_id: str) -> None:
        """Deletes a plan; its journal stays."""
        journal = await self._journal(plan_id)
        end = e.RunFinished(status="cancelled", reason=_DELETED)
        await journal.append(end, by=self._by)

    async def _journal(self, plan_id: str) -> Journal:
        """Returns the journal of a plan; a deleted plan that is made again is the next edition."""
        for edition in count(1):
            journal = await self._read(f"{NAME}:{edition}:{plan_id}")
            if not _is_deleted(journal.run):
                return journal
        raise AssertionError  # there is always a next edition

    async def _stored(self, journal: Journal) -> StoredPlan:
        run = await whole_run(self.store, journal.run)
        return StoredPlan(
            plan=cast("PlanDict", write(_plan_of(journal), run).value)
            | {"plan_id": _plan_id(journal)},
            own=run.paused and run.reason == AGENT_KEEPS,
            degraded=(run.plan.degraded if run.plan else "") or "",
            fell_short=run.status.over and run.status is not RunStatus.DONE,
        )


def _plan_id(journal: Journal) -> str:
    return journal.id.split(":", 2)[2]


def _plan_of(journal: Journal) -> Plan:
    return journal.run.plan or Plan()


def _is_deleted(run: Run) -> bool:
    return run.phase is RunStatus.CANCELLED and run.reason == _DELETED


def _plan(plan_id: str, title: str, texts: Mapping[str, str], why: Mapping[str, str]) -> Plan:
    notes = [why.get(name, "") for name in texts]
    steps: list[Json] = [*dialect.plan_steps(texts, notes, references=False)]
    return Plan.model_validate({"id": plan_id, "goal": title, "steps": steps})


def _events_to_reach(step: str, state: StepState, status: StepStatus) -> Iterator[e.AnyBody]:
    """Yields the events that take a step from its present status to another."""
    started = state.status in BEGUN
    if state.status is not StepStatus.WAITING and not (
        started and status is not StepStatus.WAITING
    ):
        if started:
            yield e.StepCancelled(step=step, reason=Sentence("it was reset"))
        yield e.StepReset(step=step, reason=Sentence("it was reset"))
        started = False
    if status in (StepStatus.RUNNING, StepStatus.DONE) and not started:
        yield e.StepStarted(step=step)
    if status is StepStatus.DONE:
        yield e.StepDone(step=step, result=content_of(None).digest)
    if status is StepStatus.FAILED:
        yield e.StepFailed(step=step, error="", kind="person")
