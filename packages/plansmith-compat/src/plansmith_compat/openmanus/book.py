"""The plans of a planning tool: kept in the store, as text, and as dictionaries for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import count
from typing import Any, Final, NamedTuple, cast

from plansmith.clock import SystemClock
from plansmith.engine.journal import Journal, whole_run
from plansmith.formats.dialect import data_of, in_order
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.plan.run_options import Origin, RunOptions
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep
from plansmith.ports import Clock, PlanStore
from plansmith.runs.journals import Journals
from plansmith.runs.noted import NotedRuns
from plansmith.store.urls import open_store
from plansmith_compat.calling import in_own_loop
from plansmith_compat.openmanus.dialect import NOT_STARTED, STATUSES, plan_steps, step_text, write
from plansmith_compat.openmanus.tools import ToolError

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


COMMANDS: Final = ("create", "update", "list", "get", "set_active", "mark_step", "delete")
_TOLD: Final = ("completed", "in_progress", "blocked", "not_started")


class PlanStepStatus(StrEnum):
    """The status of a step."""

    NOT_STARTED = "not_started"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    BLOCKED = "blocked"

    @classmethod
    def get_all_statuses(cls) -> list[str]:
        """Returns all statuses as texts."""
        return [each.value for each in cls]

    @classmethod
    def get_active_statuses(cls) -> list[str]:
        """Returns the statuses of steps that are not finished."""
        return [cls.NOT_STARTED.value, cls.IN_PROGRESS.value]

    @classmethod
    def get_status_marks(cls) -> dict[str, str]:
        """Returns the mark of each status in a plan that is shown."""
        return dict(zip(cls.get_all_statuses(), ("[ ]", "[→]", "[✓]", "[!]"), strict=True))


def parameters() -> dict[str, Any]:
    """Returns the JSON Schema of the arguments of `execute`."""
    texts = {
        "plan_id": "The plan's id. Needed by create, update, set_active and delete; get and "
        "mark_step take the active plan without it.",
        "title": "The plan's title. Needed by create; update changes it.",
        "step_notes": "Notes on the step, for mark_step.",
    }
    properties: dict[str, Any] = {
        "command": {
            "description": f"What to do: {', '.join(COMMANDS)}.",
            "enum": [*COMMANDS],
            "type": "string",
        },
        "steps": {
            "description": "What is to be done, a text for each step. Needed by create; update "
            "changes them.",
            "type": "array",
            "items": {"type": "string"},
        },
        "step_index": {
            "description": "The place of the step, from 0. Needed by mark_step.",
            "type": "integer",
        },
        "step_status": {
            "description": "The status that mark_step sets.",
            "enum": PlanStepStatus.get_all_statuses(),
            "type": "string",
        },
    }
    properties |= {name: {"description": a, "type": "string"} for name, a in texts.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": ["command"],
        "additionalProperties": False,
    }


def plan_row(plan: Kept, active: str | None) -> str:
    """Returns a plan as a row of a list."""
    mark = " (active)" if plan.plan_id == active else ""
    progress = f"{plan.completed}/{len(plan.steps)} steps completed"
    return f"• {plan.plan_id}{mark}: {plan.title} - {progress}\n"


def plan_text(plan: Kept) -> str:
    """Returns a plan as text for people and agents."""
    head = f"Plan: {plan.title} (ID: {plan.plan_id})\n"
    total = len(plan.steps)
    share = f"{plan.completed / total * 100:.1f}%" if total else "0%"
    standing = ", ".join(f"{plan.statuses.count(name)} {name.replace('_', ' ')}" for name in _TOLD)
    lines = [
        head + "=" * len(head) + "\n",
        f"Progress: {plan.completed}/{total} steps completed ({share})",
        f"Status: {standing}\n",
        "Steps:",
    ]
    marks = PlanStepStatus.get_status_marks()
    for place, step in enumerate(plan.steps):
        lines.append(f"{place}. {marks[plan.statuses[place]]} {step}")
        lines += [f"   Notes: {plan.notes[place]}"] if plan.notes[place] else []
    return "\n".join(lines) + "\n"


PlanDict = dict[str, Any]


class PlanViews:
    """Holds one dictionary per plan; says what a program has written into them since.

    The dictionaries stay the same objects, so that a program may hold on to them.
    """

    def __init__(self) -> None:
        self.plans: dict[str, PlanDict] = {}
        self._known: dict[str, Kept] = {}

    def show(self, plan: Kept) -> None:
        """Brings the dictionary of a plan up to date."""
        self._known[plan.plan_id] = plan
        self.plans.setdefault(plan.plan_id, {}).update(dictionary(plan))

    def forget(self, plan_id: str) -> None:
        """Removes a plan that is no more."""
        self._known.pop(plan_id, None)
        self.plans.pop(plan_id, None)

    def show_all(self, plans: Iterable[Kept]) -> None:
        """Brings all dictionaries up to date."""
        shown = {plan.plan_id: plan for plan in plans}
        for plan_id in self.plans.keys() - shown.keys():
            self.forget(plan_id)
        for plan in shown.values():
            self.show(plan)

    @property
    def is_changed(self) -> bool:
        """Whether a program has written into the dictionaries."""
        if self.plans.keys() != self._known.keys():
            return True
        return any(_differs(plan, self._known[name]) for name, plan in self.plans.items())

    async def write_to(self, book: PlanBook) -> None:
        """Writes what a program has changed into the store."""
        for plan_id in [each for each in self._known if each not in self.plans]:
            _need_own(self._known[plan_id])
            await book.remove(plan_id)
            self.forget(plan_id)
        for plan_id, plan in list(self.plans.items()):
            before = self._known.get(plan_id)
            if before is None or _differs(plan, before):
                await _write(book, plan_id, plan, before)
                kept = await book.find(plan_id)
                assert kept is not None  # noqa: S101
                self.show(kept)


def dictionary(plan: Kept) -> PlanDict:
    """Returns a plan as the dictionary that programs of OpenManus read."""
    return {
        "plan_id": plan.plan_id,
        "title": plan.title,
        "steps": [*plan.steps],
        "step_statuses": [*plan.statuses],
        "step_notes": [*plan.notes],
    }


def _differs(plan: Mapping[str, Any], kept: Kept) -> bool:
    return any(plan.get(name) != value for name, value in dictionary(kept).items())


async def _write(book: PlanBook, plan_id: str, plan: PlanDict, before: Kept | None) -> None:
    steps = plan.get("steps")
    if not isinstance(steps, list) or not all(
        isinstance(each, str) for each in cast("list[object]", steps)
    ):
        raise ToolError(f"plans[{plan_id!r}]['steps'] must be a list of strings")
    want = Kept.of(plan_id, plan)
    unknown = [each for each in want.statuses if each not in STATUSES.values()]
    if unknown:
        raise ToolError(f"plans[{plan_id!r}]['step_statuses'] has an unknown status: {unknown[0]}")
    if before is None:
        await book.create(plan_id, want.title, want.steps)
    else:
        _need_own(before)
        await book.revise(plan_id, want.title, want.steps)
    now = await book.find(plan_id)
    assert now is not None  # noqa: S101
    for index, (status, note) in enumerate(zip(want.statuses, want.notes, strict=True)):
        if (status, note) != (now.statuses[index], now.notes[index]):
            await book.mark(plan_id, index, status, note)


def _need_own(plan: Kept) -> None:
    if not plan.own:
        raise ToolError(f"Plan '{plan.plan_id}' is run by a flow: only its run changes it.")


class Everything(NamedTuple):
    """All plans of a store, and which is the active one."""

    plans: list[Kept]
    active: str | None


def read_beside(url: str) -> Everything:
    """Reads a store in a thread of its own, for code that cannot wait."""

    async def read() -> Everything:
        store = open_store(url)
        try:
            return await everything(PlanBook(store, SystemClock()))
        finally:
            await store.close()

    return in_own_loop(read())


def read_memory(book: PlanBook) -> Everything:
    """Reads a store in memory, which needs no waiting, save for an event loop with results."""
    reading = everything(book)
    try:
        reading.send(None)
    except StopIteration as done:
        return cast("Everything", done.value)
    except RuntimeError:
        pass
    reading.close()
    # Nobody else uses the store meanwhile: this thread waits.
    return in_own_loop(everything(book))


async def everything(book: PlanBook) -> Everything:
    """Reads all plans and the active one."""
    return Everything(await book.all(), await book.active())
