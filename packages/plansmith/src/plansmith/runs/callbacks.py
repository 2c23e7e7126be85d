"""Takes a run to its end: functions of the program decide on its plans and answer its questions."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from plansmith.errors import Misconfigured, NotApproved
from plansmith.plan import next_move as moves
from plansmith.plan.data import Json
from plansmith.plan.events import QuestionAsked
from plansmith.plan.plan import Plan
from plansmith.plan.preview import Preview
from plansmith.plan.run import Run

if TYPE_CHECKING:
    from plansmith.plan.events import Who
    from plansmith.runs.service import RunService

Approve: TypeAlias = Callable[[Plan], "bool | Plan | Awaitable[bool | Plan]"]
ApproveChanges: TypeAlias = Callable[[Preview], "bool | Awaitable[bool]"]
Answer: TypeAlias = Callable[[QuestionAsked], "Json | Awaitable[Json]"]


class CallbackRun:
    """Asks the callbacks whenever a run waits; without a callback, the run is left waiting."""

    def __init__(
        self,
        runs: RunService,
        *,
        approve: Approve | None,
        answer: Answer | None,
        approve_changes: ApproveChanges | None = None,
        by: Who,
    ) -> None:
        given: dict[str, object] = {
            "approve": approve,
            "approve_changes": approve_changes,
            "answer": answer,
        }
        for name, each in given.items():
            if each is not None and not callable(each):
                hint = f"write a function, such as {name}=lambda asked: …"
                raise Misconfigured(f"{name} takes a function, not {each!r}", hint=hint)
        self._runs = runs
        self._approve, self._approve_changes = approve, approve_changes
        self._answer = answer
        self._by: Who = by
        self._agreed = ""  # the hash of a plan that the callback itself wrote

    async def finish(self, run: Run) -> Run:
        """Runs until the run is over, or waits for something that no callback decides."""
        while True:
            before = run.last
            match moves.next_move(run):
                case moves.AwaitReview(hash=digest):
                    run = await self._review(run, digest)
                case moves.AwaitAnswer(questions=names) | moves.Paused(questions=names) if names:
                    run = await self._reply(run, names)
                case moves.Execute() | moves.EndOrReplan() | moves.MakePlan():
                    run = await self._runs.run(run.id)
                case _:
                    return run
            if run.last is None or (before is not None and run.last.number == before.number):
                return run

    async def _review(self, run: Run, digest: str) -> Run:
        """Asks for a decision on exactly the plan with this hash.

        A plan that drops approved calls is left to a person: the plan alone does not show them.
        """
        agreed, self._agreed = self._agreed, ""
        if digest == agreed:
            return await self._runs.decide(run.id, approve=digest, by=self._by)
        if run.plan is None or run.drops_in_review:
            return run
        if self._approve_changes is not None:
            return await self._review_changes(run, self._approve_changes)
        if self._approve is None:
            return run
        decision = await _result(self._approve(run.plan))
        if decision is True or (isinstance(decision, Plan) and decision.hash == digest):
            return await self._runs.decide(run.id, approve=digest, by=self._by)
        if decision is False:
            return await self._runs.decide(run.id, reject=True, by=self._by)
        if not isinstance(decision, Plan):
            message = f"approve returned {decision!r}: nothing was approved"
            raise TypeError(f"{message}; return True, False or the plan to run instead")
        edited = await self._runs.editing.edit(run.id, decision, by=self._by)
        # Where something was filled in, such as a template's content, the callback is asked again.
        self._agreed = decision.hash
        return edited

    async def _review_changes(self, run: Run, approve: ApproveChanges) -> Run:
        """Asks for a decision on what the plan would change."""
        if run.preview is None:
            run = await self._runs.preview(run.id, by=self._by)
        if run.preview is None:
            return run  # somebody else has decided, or a read asks
        decision = await _result(approve(run.preview))
        if not isinstance(decision, bool):
            message = f"approve_changes returned {decision!r}: nothing was approved"
            raise TypeError(f"{message}; return True or False")
        approved = run.preview.hash if decision else None
        return await self._runs.decide(run.id, approve=approved, reject=not decision, by=self._by)

    async def _reply(self, run: Run, names: tuple[str, ...]) -> Run:
        """Answers the first question that the callback has an answer for; None leaves it open."""
        if self._answer is None:
            return run
        for name in names:
            seen = run.question_hash(name)
            value = await _result(self._answer(run.questions[name]))
            if value is not None:
                answered = await self._runs.answer(run.id, name, value, by=self._by, of=seen)
                return await self._runs.plan_if_next(answered)
        return run


async def _result(returned: object) -> Any:
    """Awaits what an async callback returned, which can be anything."""
    return await returned if inspect.isawaitable(returned) else returned


def require_approval_given(run: Run) -> Run:
    """Returns the run; raises `NotApproved` if it has not begun and waits for an approval."""
    if isinstance(moves.next_move(run), moves.AwaitReview) and run.started_at is None:
        hint = f"look at run.plan, then: await smith.decide({run.id!r}, approve=run.plan.hash)"
        raise NotApproved(f"run {run.id} waits for the approval of its plan", hint=hint)
    return run
