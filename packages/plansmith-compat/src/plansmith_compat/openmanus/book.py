"""Stores plans that an agent marks by itself, each as a paused run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Any, Final, cast

from plansmith.engine.journal import Journal, whole_run
from plansmith.formats.dialect import data_of, in_order
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.origin import Origin
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.plan.run_options import RunOptions
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep
from plansmith.ports import Clock, PlanStore
from plansmith.runs.journals import Journals
from plansmith.runs.noted import NotedRuns
from plansmith_compat.openmanus.dialect import NOT_STARTED, STATUSES, plan_steps, step_text, write

ORIGIN: Final = Origin(kind="notes")
_PREFIX: Final = "openmanus"
_DELETED: Final = Sentence("the plan was deleted")
AGENT_KEEPS: Final = Sentence("an agent keeps this plan and marks its steps by itself")
AGENT: Final = e.Actor(kind="model", name="planning")
_WANTED: Final = {
    "not_started": StepStatus.WAITING,
    "in_progress": StepStatus.RUNNING,
    "completed": StepStatus.DONE,
    "blocked": StepStatus.FAILED,
}


def run_id(plan_id: str, edition: int = 1) -> str:
    """Returns the run of a plan; a deleted plan that is made again is the next edition."""
    return f"{_PREFIX}:{edition}:{plan_id}"


@dataclass(frozen=True, slots=True)
class Kept:
    """A plan as the planning tool shows it.

    `own`: an agent may mark it, since no flow runs it. `fell_short`: its run ended otherwise than
    done. `degraded` says why it only stands in for a plan.
    """

    plan_id: str
    title: str
    steps: tuple[str, ...]
    statuses: tuple[str, ...]
    notes: tuple[str, ...]
    own: bool
    degraded: str = ""
    fell_short: bool = False

    @classmethod
    def of(cls, plan_id: str, plan: Mapping[str, Any]) -> Kept:
        """Makes a plan of the dictionary that a program sees; what it lacks is not started."""
        steps = tuple(str(each) for each in plan.get("steps") or ())
        statuses = [str(each) for each in plan.get("step_statuses") or ()]
        notes = [str(each) for each in plan.get("step_notes") or ()]
        missing = len(steps) - len(statuses)
        return cls(
            plan_id=plan_id,
            title=str(plan.get("title") or "Untitled Plan"),
            steps=steps,
            statuses=(*statuses, *[NOT_STARTED] * missing)[: len(steps)],
            notes=(*notes, *[""] * len(steps))[: len(steps)],
            own=False,
        )

    @property
    def completed(self) -> int:
        """The number of finished steps."""
        return self.statuses.count("completed")

    @property
    def is_completed(self) -> bool:
        """Whether everything is done that was to be done."""
        return self.completed == len(self.steps) and not self.fell_short


class PlanBook:
    """Stores plans under ids that the caller chooses; shares them with other processes."""

    def __init__(self, store: PlanStore, clock: Clock, *, by: e.Actor = AGENT) -> None:
        self._store = store
        self._runs = NotedRuns(journals=Journals(store=store, clock=clock), by=by)

    async def all(self) -> list[Kept]:
        """Returns every plan, oldest first."""
        names = [each for each in await self._store.runs() if each.startswith(f"{_PREFIX}:")]
        found = [await self._runs.read(name) for name in names]
        return [await self._kept(each) for each in found if not _is_deleted(each.run)]

    async def find(self, plan_id: str) -> Kept | None:
        """Returns the plan with an id."""
        journal = await self._journal(plan_id)
        return await self._kept(journal) if journal.run.plan is not None else None

    async def active(self) -> str | None:
        """Returns the plan that any process activated last; None if it is deleted."""
        names = [each for each in await self._store.runs() if each.startswith(f"{_PREFIX}:")]
        journals = [await self._runs.read(name) for name in names]
        made = [(at, each) for each in journals if (at := _made_active(each)) is not None]
        _, newest = max(made, key=lambda pair: pair[0], default=(None, None))
        if newest is None or _is_deleted(newest.run):
            return None
        return newest.id.split(":", 2)[2]

    async def run_of(self, plan_id: str) -> str:
        """Returns the id of a plan's run; if there is no such plan, the id for a new one."""
        return (await self._journal(plan_id)).id

    async def make_active(self, plan_id: str) -> None:
        """Makes this plan the active one."""
        journal = await self._journal(plan_id)
        await self._runs.pause(journal, AGENT_KEEPS)

    async def create(self, plan_id: str, title: str, steps: Sequence[str]) -> None:
        """Creates a plan and makes it the active one."""
        journal = await self._journal(plan_id)
        texts = {f"s{place}": text for place, text in enumerate(steps, start=1)}
        plan, options = _plan(plan_id, title, texts, {}), RunOptions(dialect=_PREFIX)
        await self._runs.create(journal, plan, origin=ORIGIN, options=options, reason=AGENT_KEEPS)

    async def revise(self, plan_id: str, title: str | None, steps: Sequence[str] | None) -> None:
        """Changes title or steps; a step whose text stays keeps its status and notes."""
        journal = await self._journal(plan_id)
        old = _plan_of(journal)
        before = _shown_texts(journal)
        texts = before if steps is None else _matched(before, steps)
        why = {step.id: step.why for step in old.steps}
        plan = _plan(plan_id, title or old.goal, texts, why)
        await self._runs.propose(journal, plan)

    async def mark(self, plan_id: str, index: int, status: str | None, notes: str | None) -> None:
        """Changes the status or the notes of a step."""
        journal = await self._journal(plan_id)
        plan = _plan_of(journal)
        step = plan.steps[index]
        if notes is not None:
            steps = [s.replace(why=notes) if s.id == step.id else s for s in plan.steps]
            await self._runs.propose(journal, plan.replace(steps=tuple(steps)))
        if status and STATUSES[journal.run.steps[step.id].status] != status:
            await self._runs.note(journal, step.id, _WANTED[status])

    async def resolve(self, plan_id: str, agents: Mapping[str, str], first: str) -> None:
        """Gives each step to an agent that there is: by its tag in any case, else to the first."""
        journal = await self._journal(plan_id)
        plan = _plan_of(journal)
        steps = tuple(_given_to(step, agents, first) for step in plan.steps)
        if steps != plan.steps:
            await self._runs.propose(journal, plan.replace(steps=steps))

    async def remove(self, plan_id: str) -> None:
        """Deletes a plan; its journal stays."""
        journal = await self._journal(plan_id)
        await self._runs.end(journal, _DELETED)

    async def _journal(self, plan_id: str) -> Journal:
        """Returns the journal of a plan's last edition; a new one if there is none in use."""
        edition = 1
        while True:
            journal = await self._runs.read(run_id(plan_id, edition))
            if not _is_deleted(journal.run):
                return journal
            edition += 1

    async def _kept(self, journal: Journal) -> Kept:
        run = await whole_run(self._store, journal.run)
        value = cast("Mapping[str, list[str]]", write(_plan_of(journal), run).value)
        return Kept(
            plan_id=journal.id.split(":", 2)[2],
            title=str(value["title"]),
            steps=tuple(value["steps"]),
            statuses=tuple(value["step_statuses"]),
            notes=tuple(value["step_notes"]),
            own=run.paused and run.reason == AGENT_KEEPS,
            degraded=(run.plan.degraded if run.plan else "") or "",
            fell_short=run.status.over and run.status is not RunStatus.DONE,
        )


def _given_to(step: AnyStep, agents: Mapping[str, str], first: str) -> AnyStep:
    if not isinstance(step, AgentStep) or step.agent in agents.values():
        return step
    found = agents.get(step.agent.lower())
    text = step_text(step, written=True)
    task = data_of(text, ()) or step.task
    return step.replace(agent=found or first, title=text, task=task)


def _made_active(journal: Journal) -> datetime | None:
    """Returns when a plan was last made active."""
    mark = e.RunPaused(reason=AGENT_KEEPS)
    return next((each.at for each in reversed(journal.events) if each.body == mark), None)


def _is_deleted(run: Run) -> bool:
    return run.phase is RunStatus.CANCELLED and run.reason == _DELETED


def _plan_of(journal: Journal) -> Plan:
    return journal.run.plan or Plan()


def _plan(plan_id: str, title: str, texts: Mapping[str, str], why: Mapping[str, str]) -> Plan:
    notes = [why.get(name, "") for name in texts]
    steps: list[Json] = [*plan_steps(texts, notes, references=False)]
    return Plan.model_validate({"id": plan_id, "goal": title, "steps": steps})


def _shown_texts(journal: Journal) -> dict[str, str]:
    """Returns the texts of the steps by id, as the tool shows them."""
    plan = _plan_of(journal)
    names = [step.id for step in in_order(plan) if not step.disabled]
    value = cast("Mapping[str, list[str]]", write(plan, journal.run).value)
    return dict(zip(names, value["steps"], strict=True))


def _matched(before: Mapping[str, str], steps: Sequence[str]) -> dict[str, str]:
    """Assigns ids to new texts: a text that was there before keeps its id."""
    unused = list(before)
    found: list[str | None] = []
    for text in steps:
        same = next((name for name in unused if before[name] == text), None)
        found.append(same)
        if same is not None:
            unused.remove(same)
    fresh = (name for place in count(len(before) + 1) if (name := f"s{place}") not in before)
    return {name or next(fresh): text for name, text in zip(found, steps, strict=True)}
