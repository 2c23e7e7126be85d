"""ValueCell's plan service: plans in the background, and keeps the questions of planning."""

from __future__ import annotations

import asyncio

from plansmith.plan.run import Run
from plansmith_compat.valuecell.connections import Connections
from plansmith_compat.valuecell.conversations import is_asked
from plansmith_compat.valuecell.models import ExecutionPlan, UserInput
from plansmith_compat.valuecell.planner import ExecutionPlanner
from plansmith_compat.valuecell.planning_agent import Ask
from plansmith_compat.valuecell.user_input import UserInputRegistry, UserInputRequest


class PlanService:
    """Plans in the background, and passes questions and answers on."""

    def __init__(
        self,
        agent_connections: Connections,
        execution_planner: ExecutionPlanner | None = None,
        user_input_registry: UserInputRegistry | None = None,
    ) -> None:
        self._planner = execution_planner or ExecutionPlanner(agent_connections)
        self._registry = user_input_registry or UserInputRegistry()
        self._resumed: dict[str, asyncio.Task[ExecutionPlan]] = {}

    @property
    def planner(self) -> ExecutionPlanner:
        """The planner that is used."""
        return self._planner

    def register_user_input(self, conversation_id: str, request: UserInputRequest) -> None:
        """Adds a question of a conversation."""
        self._registry.add_request(conversation_id, request)

    def has_pending_request(self, conversation_id: str) -> bool:
        """Whether a conversation waits for an answer."""
        return self._registry.has_request(conversation_id)

    def get_request_prompt(self, conversation_id: str) -> str | None:
        """Returns the open question of a conversation."""
        return self._registry.get_prompt(conversation_id)

    def provide_user_response(self, conversation_id: str, response: str) -> bool:
        """Answers the question of a conversation; false if there is none."""
        return self._registry.provide_response(conversation_id, response)

    def clear_pending_request(self, conversation_id: str) -> None:
        """Removes the question of a conversation."""
        self._registry.clear(conversation_id)

    def start_planning_task(
        self, user_input: UserInput, thread_id: str, callback: Ask | None = None
    ) -> asyncio.Task[ExecutionPlan]:
        """Plans in the background; the registry and the callback get every question."""
        asked = self._asker(user_input.meta.conversation_id, callback)
        return asyncio.create_task(self._planner.create_plan(user_input, asked, thread_id))

    async def resume(self) -> dict[str, asyncio.Task[ExecutionPlan]]:
        """Continues waiting plans after a restart; returns the tasks by conversation.

        An orchestrator needs none of this: its next message finds the question by itself.
        """
        found: dict[str, asyncio.Task[ExecutionPlan]] = {}
        for run in await self._planner.conversations.waiting_runs():
            if is_asked(run):
                found[run.origin.id] = asyncio.create_task(self.go_on(run, run.origin.id))
        # Lets every task register its question, so that it can be answered.
        await asyncio.sleep(0)
        self._resumed |= found
        return found

    def take_over(self, conversation_id: str) -> None:
        """Stops a resumed plan of a conversation, because its question is answered elsewhere."""
        resumed = self._resumed.pop(conversation_id, None)
        if resumed is not None and not resumed.done():
            resumed.cancel()
            self._registry.clear(conversation_id)

    async def go_on(
        self, run: Run, conversation_id: str, callback: Ask | None = None
    ) -> ExecutionPlan:
        """Asks the further questions of a run about its request; returns its plan."""
        ask = self._asker(conversation_id, callback)
        return await self._planner.plan_of(await self._planner.asked(run, ask))

    def _asker(self, conversation_id: str, callback: Ask | None = None) -> Ask:
        async def ask(request: UserInputRequest) -> None:
            self._registry.add_request(conversation_id, request)
            if callback is not None:
                await callback(request)

        return ask
