"""DataAgent: answers questions to a database as durable runs, with the graph's state keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from plansmith.app import Plansmith
from plansmith.errors import Refused
from plansmith.plan.fold import GO_ON
from plansmith.plan.next_move import (
    AwaitAnswer,
    AwaitReview,
    Conclude,
    Execute,
    MakePlan,
    Over,
    next_move,
    sees_first,
)
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.runs.intake import SEEN_FIRST
from plansmith_compat.spring import keys
from plansmith_compat.spring.dialects import write_as
from plansmith_compat.spring.dialects.nl2sql import node_of, read
from plansmith_compat.spring.keys import Updates
from plansmith_compat.spring.nodes import REJECTED, error_text, feedback_data, only_nl2sql
from plansmith_compat.turns import begun, changed, planned


class DataAgent:
    """Uses a Plansmith that has a SQL writer, such as that of `plansmith_cli.teams.data`."""

    def __init__(self, smith: Plansmith) -> None:
        self.smith = smith
        self._shown: dict[str, str] = {}  # by run, the plan that a state showed; last the newest

    async def ask(
        self,
        question: str,
        *,
        human_review: bool = False,
        only_sql: bool = False,
        by: str = "",
        thread_id: str = "",
    ) -> Updates:
        """Plans a question and runs the plan, unless a person has to see it first.

        A `thread_id` names a conversation: the question knows what came before in it, or it
        answers what was asked there.
        """
        if only_sql:
            return await self._execute(await self._only_sql(question, thread_id, by))
        given: dict[str, Any] = {"dialect": "spring", "mode": "review" if human_review else ""}
        run = await planned(self.smith, question, thread_id=thread_id, by=by, **given)
        if human_review and not sees_first(run):  # it answered a question that did not ask for it
            await self.smith.runs.ask_for_review(run.id, SEEN_FIRST)
            run = await self.smith.get(run.id)
        return await self._execute(run)

    async def _only_sql(self, question: str, thread_id: str, by: str) -> Run:
        made = read(only_nl2sql(question)).plan
        assert made is not None  # noqa: S101 - it is ours
        plan = made.replace(goal=question)
        if not thread_id:
            return await self.smith.submit(plan, by=by)
        thread = await self.smith.thread(thread_id)
        turn = await begun(self.smith, thread, question, query=question, by=by, plan=plan)
        assert turn.run is not None  # noqa: S101 - it was created with the message
        return turn.run

    async def feedback(self, run_id: str, data: Mapping[str, Any], *, by: str = "") -> Updates:
        """Takes a person's decision on the plan, in the form of `HumanFeedbackNode`.

        For the id of a conversation, on the plan that was shown last in it.
        """
        given_id, run_id = run_id, await self._run_of(run_id)
        run = await self.smith.get(run_id)
        if given_id != run_id and run_id not in self._shown:
            return self.state(run)  # what a conversation has newest need not be what was seen
        limits = {each.limit: name for name, each in run.questions.items()}
        limit_question = limits.get("rejections", "")
        given = feedback_data(data)
        decision, verdict = given.get("decision"), given.get(keys.FEEDBACK)
        if limit_question and (decision or verdict is True):
            # An approval also answers the question whether to make another plan.
            run = await self.smith.answer(run_id, limit_question, decision or GO_ON, by=by)
        move = next_move(run)
        # Feedback on a plan that was changed since is not about this one.
        if not isinstance(move, AwaitReview) or self._shown.get(run_id, move.hash) != move.hash:
            return self.state(run)
        if verdict is True:
            await self.smith.decide(run_id, approve=move.hash, by=by)
            return await self.resume(run_id)
        if verdict is False:
            words = str(given.get(keys.FEEDBACK_CONTENT) or REJECTED)
            return await self._execute(await changed(self.smith, run, words, by=by))
        return self.state(run)

    async def resume(self, run_id: str) -> Updates:
        return self.state(await self.smith.runs.run(await self._run_of(run_id)))

    async def _run_of(self, name: str) -> str:
        """Returns the run that the thread id of a state means: itself, or the one shown last."""
        if await self.smith.store.events(name):
            return name
        runs = (await self.smith.thread(name)).runs
        if not runs:
            raise Refused(f"there is neither a run nor a conversation {name}")
        return next((run for run in reversed(self._shown) if run in runs), runs[-1])

    async def _execute(self, run: Run) -> Updates:
        runs = isinstance(next_move(run), MakePlan | Execute | Conclude)
        return self.state(await self.smith.runs.run(run.id) if runs else run)

    def state(self, run: Run) -> Updates:
        """Returns a run under the keys of the graph's state."""
        plan = run.plan
        self._shown.pop(run.id, None)
        self._shown[run.id] = plan.hash if plan is not None else ""
        head: Updates = {keys.THREAD_ID: run.options.thread or run.id, keys.RUN_ID: run.id}
        head[keys.INPUT_KEY] = run.request
        head[keys.QUERY_REWRITE_NODE_OUTPUT] = (plan.goal if plan else "") or run.request
        if plan is None or plan.degraded:
            error = error_text(run.problems) if run.problems else run.reason
            return head | {
                keys.PLANNER_NODE_OUTPUT: "",
                keys.PLAN_VALIDATION_STATUS: False,
                keys.PLAN_VALIDATION_ERROR: error,
                keys.PLAN_NEXT_NODE: keys.END,
                keys.HUMAN_FEEDBACK_QUESTION: _asked(run),
                keys.RESULT: run.report,
            }
        return head | _planned(plan, run)


def _planned(plan: Plan, run: Run) -> Updates:
    value = write_as("nl2sql", plan, run).value
    assert isinstance(value, dict)  # noqa: S101 - this shape is an object
    results, current = value.pop(keys.SQL_EXECUTE_NODE_OUTPUT), value.pop(keys.PLAN_CURRENT_STEP)
    errors = [f"{name}: {step.error}" for name, step in run.steps.items() if step.error]
    return {
        keys.PLANNER_NODE_OUTPUT: json.dumps(value, ensure_ascii=False),
        keys.PLAN_CURRENT_STEP: current,
        keys.PLAN_NEXT_NODE: _next(plan, run, int(str(current))),
        keys.PLAN_VALIDATION_STATUS: True,
        keys.PLAN_VALIDATION_ERROR: "\n".join(errors),
        keys.HUMAN_REVIEW_ENABLED: isinstance(next_move(run), AwaitReview),
        keys.HUMAN_REJECTION_COUNT: run.rejections,
        keys.HUMAN_FEEDBACK_QUESTION: _asked(run),
        keys.SQL_EXECUTE_NODE_OUTPUT: results,
        keys.RESULT: run.report,
    }


def _asked(run: Run) -> str:
    return "\n".join(each.text for each in run.questions.values())


def _next(plan: Plan, run: Run, current: int) -> str:
    match next_move(run):
        case Over():
            return keys.END
        case AwaitReview() | AwaitAnswer():
            return keys.HUMAN_FEEDBACK_NODE
        case _:
            pass
    if current > len(plan.steps):
        return keys.REPORT_GENERATOR_NODE
    return node_of(plan.steps[current - 1]) or keys.END
