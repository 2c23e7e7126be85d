"""Known bugs that are planted to show that the simulation finds them."""

# pyright: reportPrivateUsage=false
# Bugs are planted where the promises are kept.
from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from lab.simulation.store import SharedStore, StoreServer
from plansmith.engine.call import Callees
from plansmith.engine.consent import ConsentRules
from plansmith.engine.executor import Executor
from plansmith.engine.journal import Journal
from plansmith.engine.lease import Lease
from plansmith.engine.outcome import Failed
from plansmith.engine.ownership import Ownership
from plansmith.engine.preview import PreviewExecutor
from plansmith.engine.processes import Liveness
from plansmith.engine.ready import ReadyQueue
from plansmith.engine.state import UnitStates
from plansmith.plan import fold
from plansmith.plan.events import PlanApproved, QuestionAnswered, RunResumed
from plansmith.plan.run import StepState
from plansmith.review.coverage import BeyondApproval
from plansmith.runs import journals, revision
from plansmith.runs.execution import RunExecution
from plansmith.runs.intake import PlanIntake
from plansmith.secrets import SecretBox
from plansmith_server import upkeep
from plansmith_server.background import BackgroundRuns

Planted = tuple[Any, str, Any]  # where, which member, and what it is instead
Plant = Callable[[], Planted]


def _answering(value: Any = None) -> Callable[..., Any]:
    return lambda *_, **__: value


def _yes(*_: Any, **__: Any) -> bool:
    return True


def _no(*_: Any, **__: Any) -> bool:
    return False


def _answering_later(value: Any) -> Callable[..., Any]:
    async def answer(*_: Any, **__: Any) -> Any:
        return value

    return answer


def _call_before_intent() -> Planted:
    start = Executor._start

    def eager(self: Executor) -> list[Any]:
        self._calls.launch(start(self))
        return []

    return Executor, "_start", eager


def _certain_failure() -> Planted:
    def failure_after_call(_: Callees, unit: Any, why: str, **__: Any) -> Failed:
        del unit
        return Failed(why, again=True)

    return Callees, "failure_after_call", failure_after_call


def _every_fire_won() -> Planted:
    put = StoreServer.put_documents

    async def put_documents(self: StoreServer, documents: Any) -> bool:
        won = await put(self, documents)
        if not won and documents[0].kind == "fire":
            self._documents[documents[0].kind, documents[0].name] = documents[0]
        return won or documents[0].kind == "fire"

    return StoreServer, "put_documents", put_documents


def _forgotten_needs() -> Planted:
    add = ReadyQueue.add

    def forget(self: ReadyQueue, needs: Any, durations: Any, done: Any = ()) -> None:
        add(self, dict.fromkeys(needs, frozenset()), durations, done)

    return ReadyQueue, "add", forget


def _whoever_lives() -> Planted:
    async def forget(self: Ownership, run: str) -> None:
        found = await self._store.claim_of(run)
        if found is not None:
            await self._store.release(run, found.term)

    return Ownership, "forget", forget


def _decisions_end_replanning() -> Planted:
    async def rest(self: RunExecution, journal: Any, active: Any) -> bool:
        return await self._until_rest(journal, active)

    return RunExecution, "_through_changes", rest


def _late_position() -> Planted:
    follow = upkeep.follow_decisions

    async def late(server_state: Any, after: int) -> None:
        del after
        await follow(server_state, await upkeep._newest_position(server_state))

    return upkeep, "follow_decisions", late


def _only_the_lease() -> Planted:
    def may_be_over(self: Lease, since: float) -> bool:
        del since
        return self.now() - self._renewed > self.seconds

    return Lease, "may_be_over", may_be_over


def _reads_again() -> Planted:
    def forget(self: Any) -> None:
        for name, state in self.steps.items():
            if state.looked_at:
                self.steps[name] = StepState()

    return fold._Fold, "_try_again", forget


def _any_values() -> Planted:
    needed = ConsentRules.needed

    def agreed(self: ConsentRules, unit: Any, inputs: Any, permit: Any, state: Any) -> Any:
        return None if permit is not None else needed(self, unit, inputs, permit, state)

    return ConsentRules, "needed", agreed


def _nothing_left_out() -> Planted:
    skip = UnitStates.skip_by_plan

    def make(self: UnitStates, unit: Any) -> bool:
        is_out = unit.name in self._journal.run.left_out and unit.step.when is None
        return not is_out and skip(self, unit)

    return UnitStates, "skip_by_plan", make


MUTATIONS: Mapping[str, Plant] = {
    "the store does not compare terms": lambda: (SharedStore, "does_fence", False),
    "a call is made before its intent is stored": _call_before_intent,
    "a call of unknown end is repeated": lambda: (Callees, "is_repeatable", _yes),
    "an exception after a write counts as a certain failure": _certain_failure,
    "a process that wakes does not look at its lease": lambda: (
        Lease,
        "may_be_over",
        _no,
    ),
    "a living process on another machine counts as dead": lambda: (
        Liveness,
        "is_silent",
        _yes,
    ),
    "a living process on this machine counts as dead": lambda: (
        Liveness,
        "is_dead",
        _answering_later(value=True),
    ),
    "no plan needs an approval": lambda: (PlanIntake, "_review", _answering([])),
    "a new plan is not compared with the approved one": lambda: (
        revision,
        "beyond_approval",
        _answering_later(BeyondApproval(())),
    ),
    "two schedulers win the same fire": _every_fire_won,
    "secrets are not hidden": lambda: (SecretBox, "hide", lambda _, value: value),
    "no server looks for runs that were left": lambda: (
        BackgroundRuns,
        "_adopt_orphans",
        _answering_later(None),
    ),
    "the end of another server is not noticed": lambda: (
        Liveness,
        "dead_or_silent_servers",
        _answering_later(set[str]()),
    ),
    "a claim stays when the store loses an answer": lambda: (
        Lease,
        "recheck_claims",
        _answering(None),
    ),
    "a claim goes although its process has renewed its lease": _whoever_lives,
    "a run rests when a person decides while it is planned again": _decisions_end_replanning,
    "decisions are missed while a server starts": _late_position,
    "a cancellation or a wish is left to the process that wrote it": lambda: (
        upkeep,
        "_DECISIONS",
        (PlanApproved, QuestionAnswered, RunResumed),
    ),
    "a short stop is no reason to look, though a run was taken by force": _only_the_lease,
    "a run that is taken up forgets what steps wait for": _forgotten_needs,
    "a run is deleted while a process is at it": lambda: (
        Ownership,
        "require_released",
        _answering_later(None),
    ),
    "a preview makes changes": lambda: (PreviewExecutor, "_acts", _no),
    "a call is made with other values than were shown": _any_values,
    "what was left out is made": _nothing_left_out,
    "what was shown is asked about again": lambda: (
        UnitStates,
        "permit",
        lambda self, unit: self.state_of(unit.name).permit,
    ),
    "nobody looks whether a tool would do what it showed": lambda: (
        Callees,
        "difference",
        _answering_later(None),
    ),
    "a claim is not made sure of after a look": lambda: (
        Journal,
        "keep_claim",
        _answering_later(None),
    ),
    "what a preview has read is read again": _reads_again,
    "a deleted run leaves no tombstone": lambda: (journals, "_tombstones", _answering(())),
}


@contextmanager
def planted(name: str) -> Generator[None]:
    """Plants a bug inside the block."""
    owner, attribute, value = MUTATIONS[name]()
    assert hasattr(owner, attribute), f"{name}: there is no {attribute} any more"
    missing = object()
    getattr(owner, attribute)  # fails where the member that the bug replaces has another name now
    before = vars(owner).get(attribute, missing)
    setattr(owner, attribute, value)
    try:
        yield
    finally:
        if before is missing:  # it was inherited
            delattr(owner, attribute)
        else:
            setattr(owner, attribute, before)
