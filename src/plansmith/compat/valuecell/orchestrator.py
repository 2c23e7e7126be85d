"""ValueCell's super agent, plan service and orchestrator: turns requests into responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final
from uuid import uuid4

from plansmith.compat.valuecell.conversations import place_of
from plansmith.compat.valuecell.models import (
    ExecutionPlan,
    RemoteConnections,
    Response,
    SuperAgentDecision,
    SuperAgentOutcome,
    TaskPattern,
    UserInput,
)
from plansmith.compat.valuecell.planner import Ask, ExecutionPlanner, UserInputRequest
from plansmith.errors import PlansmithError
from plansmith.plan import events as e
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.plan.run import Run
from plansmith.plan.schedules import Schedule
from plansmith.planner.context.locales import locale_of
from plansmith.planner.old_models import takes_prompt
from plansmith.planner.triage import Decision, triage
from plansmith.ports import ChatModel

UNAVAILABLE: Final = "SuperAgent unavailable: no model is set"
StepEvent = e.StepStarted | e.StepProgressed | e.StepDone | e.StepFailed | e.StepCancelled
_KINDS: Final[tuple[tuple[type[StepEvent], str], ...]] = (
    (e.StepStarted, "task_started"),
    (e.StepProgressed, "task_running"),
    (e.StepDone, "task_completed"),
    (e.StepFailed, "task_failed"),
    (e.StepCancelled, "task_cancelled"),
)
Send = Callable[..., None]


class SuperAgent:
    """Answers simple requests at once and passes the rest to the planner."""

    name = "ValueCellAgent"

    def __init__(self, model: ChatModel | None = None) -> None:
        self._model = takes_prompt(model) if model else None

    async def run(self, user_input: UserInput) -> AsyncIterator[SuperAgentOutcome]:
        """Yields one outcome: an answer, or the request for the planner."""
        query = user_input.query
        if self._model is None:
            yield _handoff(query, UNAVAILABLE)
            return
        decided = await triage(query, model=self._model, locale=locale_of(query))
        if decided.decision is Decision.PLAN:
            yield _handoff(decided.query, decided.reason)
        else:
            yield SuperAgentOutcome(
                decision=SuperAgentDecision.ANSWER,
                answer_content=decided.answer,
                reason=decided.reason,
            )


def _handoff(query: str, reason: str) -> SuperAgentOutcome:
    return SuperAgentOutcome(
        decision=SuperAgentDecision.HANDOFF_TO_PLANNER, enriched_query=query, reason=reason
    )


class UserInputRegistry:
    """The open questions by conversation; the journal stores them too."""

    def __init__(self) -> None:
        self._pending: dict[str, UserInputRequest] = {}

    def add_request(self, conversation_id: str, request: UserInputRequest) -> None:
        """Adds a question."""
        self._pending[conversation_id] = request

    def has_request(self, conversation_id: str) -> bool:
        """Whether a conversation waits for an answer."""
        return conversation_id in self._pending

    def get_prompt(self, conversation_id: str) -> str | None:
        """Returns the open question of a conversation."""
        request = self._pending.get(conversation_id)
        return request.prompt if request else None

    def provide_response(self, conversation_id: str, response: str) -> bool:
        """Answers a question; false if none is open, also for a second answer."""
        request = self._pending.pop(conversation_id, None)
        if request is None:
            return False
        request.provide_response(response)
        return True

    def clear(self, conversation_id: str) -> None:
        """Removes a question here; it stays open in the journal."""
        self._pending.pop(conversation_id, None)


class PlanService:
    """Plans in the background, and passes questions and answers on."""

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
        """Plans in the background; without a callback, questions stay in the registry."""
        asked = self._asker(user_input.meta.conversation_id, callback)
        return asyncio.create_task(self._planner.create_plan(user_input, asked, thread_id))

    async def resume(self) -> dict[str, asyncio.Task[ExecutionPlan]]:
        """Continues waiting plans after a restart; returns the tasks by conversation."""
        found: dict[str, asyncio.Task[ExecutionPlan]] = {}
        for run in await self._planner.conversations.open_runs():
            place = place_of(run)
            if place is not None:
                found[place.id] = asyncio.create_task(self._go_on(run, self._asker(place.id)))
        # Lets every task register its question, so that it can be answered.
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


class AgentOrchestrator:
    """Handles a client's requests; planning and runs continue if the client disconnects."""

    def __init__(self, plan_service: PlanService, super_agent: SuperAgent | None = None) -> None:
        self.plan_service = plan_service
        self.super_agent = super_agent
        self._smith = plan_service.planner.agent_connections.smith
        self._working: set[asyncio.Task[None]] = set()

    async def process_user_input(
        self, user_input: UserInput, thread_id: str = ""
    ) -> AsyncIterator[Response]:
        """Yields everything that happens with a request; `done` is always the last."""
        thread = thread_id or f"thread-{uuid4()}"
        conversation = user_input.meta.conversation_id
        responses: asyncio.Queue[Response] = asyncio.Queue()

        def send(event: str, **more: str) -> None:
            given = {"event": event, "conversation_id": conversation, "thread_id": thread}
            responses.put_nowait(Response.model_validate(given | more))

        working = asyncio.create_task(self._work(user_input, thread, send))
        self._working.add(working)
        working.add_done_callback(self._working.discard)
        while True:
            response = await responses.get()
            yield response
            if response.event == "done":
                await working
                return

    async def settled(self) -> None:
        """Waits until all requests have ended or wait for a person."""
        await asyncio.gather(*self._working)

    async def _work(self, user_input: UserInput, thread: str, send: Send) -> None:
        send("conversation_started")
        send("thread_started")
        try:
            await self._respond(user_input, thread, send)
        except PlansmithError as error:
            send("system_failed", content=str(error))
        finally:
            send("done")

    async def _respond(self, user_input: UserInput, thread: str, send: Send) -> None:
        if self.super_agent is not None and not user_input.target_agent_name:
            async for outcome in self.super_agent.run(user_input):
                if outcome.decision is SuperAgentDecision.ANSWER:
                    send("message", content=outcome.answer_content or "")
                    return
                query = outcome.enriched_query or user_input.query
                user_input = user_input.model_copy(update={"query": query})

        async def ask(request: UserInputRequest) -> None:
            send("plan_require_user_input", content=request.prompt)

        plan = await self.plan_service.start_planning_task(user_input, thread, ask)
        if plan.guidance_message is not None:
            send("plan_failed", content=plan.guidance_message)
        else:
            await self._execute(plan, send)

    async def _execute(self, plan: ExecutionPlan, send: Send) -> None:
        """Runs a plan and reports its tasks; says so if a person has to decide."""
        if any(task.pattern is TaskPattern.RECURRING for task in plan.tasks):
            content = f"approve the plan {await self._hash(plan)} to set up its schedule"
            send("plan_require_user_input", content=content)
            return
        running = asyncio.ensure_future(self._smith.run(plan.plan_id))
        async for event in self._events(plan.plan_id, running):
            body = event.body
            for kind, name in _KINDS:
                if isinstance(body, kind):
                    send(name, task_id=f"{plan.plan_id}/{body.step}", content=_content(body))
        run = await running
        if run.status.over:
            send("message", content=run.report)
        else:
            send("plan_require_user_input", content=_waiting_for(run))

    async def set_up(self, plan: ExecutionPlan, *, approve: str) -> Schedule:
        """Creates the schedule of a recurring plan with exactly this hash."""
        return await self._smith.schedules.create(
            run=plan.plan_id, approve=approve, by=plan.user_id
        )

    async def _hash(self, plan: ExecutionPlan) -> str:
        made = (await self._smith.get(plan.plan_id)).plan
        return made.hash if made else ""

    async def _events(self, run_id: str, running: asyncio.Future[Run]) -> AsyncIterator[e.Event]:
        """Yields the events of a run until it ends or waits."""
        after = 0
        while True:
            ended = running.done()
            for event in await self._smith.store.events(run_id, after=after):
                after = event.number
                yield event
            if ended:
                return
            news = asyncio.ensure_future(self._smith.store.wait(run_id, after=after))
            either: set[asyncio.Future[Any]] = {running, news}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            news.cancel()
            await asyncio.gather(news, return_exceptions=True)


def _content(body: StepEvent) -> str:
    if isinstance(body, e.StepFailed):
        return body.error
    return body.text if isinstance(body, e.StepProgressed) else ""


def _waiting_for(run: Run) -> str:
    """Describes what a run waits for."""
    if run.questions:
        return "\n".join(question.text for question in run.questions.values())
    move = next_move(run)
    if isinstance(move, AwaitReview):
        return f"approve the plan {move.hash}"
    return run.status.value
