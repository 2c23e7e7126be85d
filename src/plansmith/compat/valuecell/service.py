"""PlanService: planning as a task, and the questions that wait, found again after a restart."""

from __future__ import annotations

import asyncio

from plansmith.compat.valuecell.connections import RemoteConnections
from plansmith.compat.valuecell.conversations import place_of
from plansmith.compat.valuecell.models import ExecutionPlan, UserInput
from plansmith.compat.valuecell.planner import Ask, ExecutionPlanner, UserInputRequest
from plansmith.plan.run import Run


class UserInputRegistry:
    """The open questions by conversation; the journal keeps them, this finds them."""

    def __init__(self) -> None:
        self._pending: dict[str, UserInputRequest] = {}

    def add_request(self, conversation_id: str, request: UserInputRequest) -> None:
        """Note a question."""
        self._pending[conversation_id] = request

    def has_request(self, conversation_id: str) -> bool:
        """Whether a conversation waits for an answer."""
        return conversation_id in self._pending

    def get_prompt(self, conversation_id: str) -> str | None:
        """What a conversation waits to be told."""
        request = self._pending.get(conversation_id)
        return request.prompt if request else None

    def provide_response(self, conversation_id: str, response: str) -> bool:
        """Answer; false when nothing is open, so that a second answer is refused."""
        request = self._pending.pop(conversation_id, None)
        if request is None:
            return False
        request.provide_response(response)
        return True

    def clear(self, conversation_id: str) -> None:
        """Forget a question here; it stays open in the journal."""
        self._pending.pop(conversation_id, None)


class PlanService:
    """Plans in the background and keeps the person's questions and answers together."""

    def __init__(
        self,
        agent_connections: RemoteConnections,
        execution_planner: ExecutionPlanner | None = None,
        user_input_registry: UserInputRegistry | None = None,
    ) -> None:
        self._planner = execution_planner or ExecutionPlanner(agent_connections)
        self._registry = user_input_registry or UserInputRegistry()

    @property
    def planner(self) -> ExecutionPlanner:
        """The planner behind it."""
        return self._planner

    def register_user_input(self, conversation_id: str, request: UserInputRequest) -> None:
        """Note a question of a conversation."""
        self._registry.add_request(conversation_id, request)

    def has_pending_request(self, conversation_id: str) -> bool:
        """Whether a conversation waits for an answer."""
        return self._registry.has_request(conversation_id)

    def get_request_prompt(self, conversation_id: str) -> str | None:
        """What a conversation waits to be told."""
        return self._registry.get_prompt(conversation_id)

    def provide_user_response(self, conversation_id: str, response: str) -> bool:
        """Answer the question of a conversation; false when there is none."""
        return self._registry.provide_response(conversation_id, response)

    def clear_pending_request(self, conversation_id: str) -> None:
        """Forget the question of a conversation."""
        self._registry.clear(conversation_id)

    def start_planning_task(
        self, user_input: UserInput, thread_id: str, callback: Ask | None = None
    ) -> asyncio.Task[ExecutionPlan]:
        """Plan in the background; without a callback, questions only wait in the registry."""
        asked = self._asker(user_input.meta.conversation_id, callback)
        return asyncio.create_task(self._planner.create_plan(user_input, asked, thread_id))

    async def resume(self) -> dict[str, asyncio.Task[ExecutionPlan]]:
        """After a restart: planning goes on where it waits, by conversation; questions are back."""
        found: dict[str, asyncio.Task[ExecutionPlan]] = {}
        for run in await self._planner.conversations.open_runs():
            place = place_of(run)
            if place is not None:
                found[place.id] = asyncio.create_task(self._go_on(run, self._asker(place.id)))
        # One turn of the loop lets every task note its question, so that it can be answered.
        await asyncio.sleep(0)
        return found

    async def _go_on(self, run: Run, ask: Ask) -> ExecutionPlan:
        return await self._planner.plan_of(await self._planner.asked(run, ask))

    def _asker(self, conversation_id: str, callback: Ask | None = None) -> Ask:
        async def ask(request: UserInputRequest) -> None:
            self._registry.add_request(conversation_id, request)
            if callback is not None:
                await callback(request)

        return ask
