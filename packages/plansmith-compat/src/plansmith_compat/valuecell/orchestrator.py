"""ValueCell's super agent, which answers or hands over, and its orchestrator of messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast
from uuid import uuid4

from plansmith.app import Plansmith
from plansmith.clock import SystemClock
from plansmith.errors import PlansmithError
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.plan.planning import Decision
from plansmith.ports import ChatModel, ContextBlock
from plansmith.schedules.schedule import Schedule
from plansmith_compat.calling import events_during
from plansmith_compat.valuecell import conversations, models
from plansmith_compat.valuecell.conversations import Conversations, is_asked, place_of, times_of
from plansmith_compat.valuecell.models import Response, SuperAgentOutcome, UserInput
from plansmith_compat.valuecell.planner import PlanService, RemoteConnections
from plansmith_planner.context.gather import TIME, time_text
from plansmith_planner.context.history import TITLE, recall
from plansmith_planner.language.locales import locale_of
from plansmith_planner.make import model_of
from plansmith_planner.model_planner import ModelPlanner
from plansmith_planner.threads.entries import MessageRead
from plansmith_planner.triage import triage

if TYPE_CHECKING:
    from plansmith_planner.threads.thread import Thread

UNAVAILABLE: Final = "SuperAgent unavailable: no model is set"
_TOKENS: Final = 2000
OutcomeOrText = str | SuperAgentOutcome
_S = TypeVar("_S")


class Outcomes(Generic[_S]):
    """What a super agent says: read with `async for`, or awaited for the last of it."""

    def __init__(self, outcomes: AsyncIterator[_S] | Awaitable[_S]) -> None:
        self._outcomes = outcomes

    async def __aiter__(self) -> AsyncIterator[_S]:
        if isinstance(self._outcomes, AsyncIterator):
            async for each in self._outcomes:
                yield each
        else:
            yield await self._outcomes

    def __await__(self) -> Generator[Any, None, _S]:
        async def last() -> _S:
            return [each async for each in self][-1]

        return last().__await__()


class AnySuperAgent(Protocol):
    """A super agent of a program's own; `run` may also return an awaitable, as it once did."""

    @property
    def name(self) -> str: ...
    def run(self, user_input: UserInput, /) -> Any: ...


class SuperAgent:
    """Answers simple requests at once and passes the rest to the planner.

    Without a model it takes the one of the orchestrator's Plansmith; alone, the automatic choice.
    """

    name: str = "ValueCellAgent"

    def __init__(self, model: ChatModel | str | None = None) -> None:
        self._given = model
        self.conversations: Conversations | None = None
        self._alone = Conversations(Plansmith())

    def run(self, user_input: UserInput) -> AsyncIterator[SuperAgentOutcome]:
        """Yields one outcome: an answer, or the request for the planner; it can be awaited too."""
        return cast("AsyncIterator[SuperAgentOutcome]", Outcomes(self._run(user_input)))

    async def _run(self, user_input: UserInput) -> SuperAgentOutcome:
        model, query = self._model(), user_input.query
        if model is None:
            return _handoff(query, UNAVAILABLE)
        known = await self._known(user_input.meta.conversation_id)
        decided = await triage(query, model=model, locale=locale_of(query), known=known)
        if decided.decision is Decision.PLAN:
            # Triage takes out the words that say when, and the planner needs them.
            return _handoff(query if decided.schedule else decided.query, decided.reason)
        if self.conversations is None:  # else the orchestrator keeps it
            await self._alone.keep_reply(user_input, decided.answer)
        return SuperAgentOutcome(
            decision=models.SuperAgentDecision.ANSWER,
            answer_content=decided.answer,
            reason=decided.reason,
        )

    def _model(self) -> ChatModel | None:
        if self._given is None and self.conversations is not None:
            planner = self.conversations.smith.runs.planning.planner
            return planner.model if isinstance(planner, ModelPlanner) else None
        try:
            return model_of(self._given)
        except PlansmithError:
            return None

    async def _known(self, conversation_id: str) -> list[ContextBlock]:
        history = await (self.conversations or self._alone).history(conversation_id)
        conversation = recall(history, tokens=_TOKENS)
        blocks = [ContextBlock(TITLE, conversation.text)] if conversation.text else []
        return [*blocks, ContextBlock(TIME, time_text(SystemClock()))]


def _handoff(query: str, reason: str) -> SuperAgentOutcome:
    return SuperAgentOutcome(
        decision=models.SuperAgentDecision.HANDOFF_TO_PLANNER,
        enriched_query=query,
        # Rules pass on whatever they are asked, and say no more about it.
        reason=reason or "the request needs a plan",
    )


class SuperAgentService:
    """A super agent as a service: yours, or one with the automatic choice of a model."""

    def __init__(self, super_agent: AnySuperAgent | None = None) -> None:
        self.super_agent = super_agent or SuperAgent()

    @property
    def name(self) -> str:
        return self.super_agent.name

    def run(self, user_input: UserInput) -> AsyncIterator[OutcomeOrText]:
        outcomes = self.super_agent.run(user_input)
        outcomes = outcomes.__aiter__() if hasattr(outcomes, "__aiter__") else outcomes
        return cast("AsyncIterator[OutcomeOrText]", Outcomes(outcomes))


_TOLD: Final = {
    "step_started": "task_started",
    "step_progressed": "task_running",
    "step_done": "task_completed",
    "step_failed": "task_failed",
    "step_cancelled": "task_cancelled",
}
_ASKS: Final = "plan_require_user_input"
_NOT_YOURS: Final = "The question of this conversation is for another user."


@dataclass
class Talk:
    """What is under way for one message; `done` is always the last response."""

    conversation: str
    thread: str
    user: str
    responses: asyncio.Queue[Response]

    def send(self, event: str, **more: str) -> None:
        self.responses.put_nowait(self.response(event, **more))

    def response(self, event: str, **more: str) -> Response:
        known = {"conversation_id": self.conversation, "thread_id": self.thread}
        return Response.model_validate({"event": event} | known | more)

    async def ask(self, request: models.UserInputRequest) -> None:
        self.send(_ASKS, content=request.prompt)

    def forget(self) -> None:
        while not self.responses.empty():
            self.responses.get_nowait()


class AgentOrchestrator:
    """Handles a client's messages; planning and runs continue if the client disconnects.

    A message to a conversation with an open question is the answer to it, also after a restart.
    """

    def __init__(
        self,
        plan_service: PlanService | None = None,
        super_agent: AnySuperAgent | None = None,
        *,
        super_agent_service: SuperAgentService | None = None,
    ) -> None:
        self.plan_service = plan_service or PlanService(RemoteConnections())
        service = super_agent_service or (SuperAgentService(super_agent) if super_agent else None)
        self.super_agent_service = service
        self._conversations = self.plan_service.planner.conversations
        self._smith = self._conversations.smith
        agent = service.super_agent if service else None
        if isinstance(agent, SuperAgent) and agent.conversations is None:
            agent.conversations = self._conversations
        self._talks: dict[str, Talk] = {}
        self._working: set[asyncio.Task[None]] = set()

    async def process_user_input(
        self, user_input: UserInput, thread_id: str = ""
    ) -> AsyncIterator[Response]:
        """Yields everything that happens with a message; `done` is always the last.

        It ends at a question that nobody has answered: the next message answers it.
        """
        meta, thread = user_input.meta, thread_id or f"thread-{uuid4()}"
        talk = self._talks.get(meta.conversation_id)
        pending = self.plan_service.has_pending_request(meta.conversation_id)
        if talk is None or not pending:
            talk = Talk(meta.conversation_id, thread, meta.user_id, asyncio.Queue())
            self._talks[meta.conversation_id] = talk
            working = asyncio.create_task(self._work(user_input, talk))
            self._working.add(working)
            working.add_done_callback(self._working.discard)
        elif talk.user != meta.user_id:
            yield talk.response("system_failed", content=_NOT_YOURS)
            yield talk.response("done")
            return
        else:
            talk.forget()
            talk.send("thread_started")
            self.plan_service.provide_user_response(meta.conversation_id, user_input.query)
        while True:
            response = await talk.responses.get()
            yield response
            # Whoever listens may have answered already, before asking for the next response.
            asks = response.event == _ASKS
            if asks and self.plan_service.has_pending_request(talk.conversation):
                yield talk.response("done")
                return
            if response.event == "done":
                return

    async def _work(self, user_input: UserInput, talk: Talk) -> None:
        try:
            thread = await self._smith.thread(talk.conversation)
            if not thread.history:
                talk.send("conversation_started")
            talk.send("thread_started")
            reading = await thread.in_turn(user_input.query, by=talk.user)
            if reading.kind == "request":
                handed = await self._triage(user_input, talk)
                if handed is not None:
                    start = self.plan_service.start_planning_task
                    plan = await start(handed, talk.thread, talk.ask)
                    await self._carry_out(plan, talk)
            else:
                self.plan_service.take_over(talk.conversation)
                await self._answer(thread, user_input.query, reading, talk)
        except PlansmithError as error:
            talk.send("system_failed", content=str(error))
        except Exception as error:  # noqa: BLE001 - of a planner or super agent of the program
            talk.send("system_failed", content=f"(Error) {error}")
        finally:
            talk.send("done")
            if self._talks.get(talk.conversation) is talk:
                del self._talks[talk.conversation]

    async def _triage(self, user_input: UserInput, talk: Talk) -> UserInput | None:
        """Returns the request for the planner; None if the super agent has answered it."""
        service, target = self.super_agent_service, user_input.target_agent_name
        if service is None or target not in ("", service.name):
            return user_input
        async for outcome in service.run(user_input):
            if not isinstance(outcome, SuperAgentOutcome):
                talk.send("message", content=outcome)
            elif outcome.decision is models.SuperAgentDecision.ANSWER:
                answer = outcome.answer_content or outcome.reason or ""
                talk.send("message", content=answer)
                await self._conversations.keep_reply(user_input, answer)
                return None
            else:
                query = conversations.handed_over(outcome.enriched_query or "", user_input.query)
                known = {"query": query, "own_words": user_input.own_words or user_input.query}
                user_input = user_input.model_copy(update=known)
        return user_input.model_copy(update={"target_agent_name": "", "triaged": True})

    async def _answer(self, thread: Thread, text: str, reading: MessageRead, talk: Talk) -> None:
        run = await self._smith.get(reading.run)
        place = place_of(run)
        if place is not None and place.user != talk.user:
            talk.send("system_failed", content=_NOT_YOURS)
            return
        planning = is_asked(run)
        try:
            turn = await thread.plan(await thread.record(text, reading, by=talk.user))
        except PlansmithError as error:  # such as an answer that is none of the options
            talk.send(_ASKS, content=f"{run.questions[reading.question].text}\n({error})")
            return
        if reading.kind == "review" or turn.run is None:
            talk.send(_ASKS, task_id=run.id, content=turn.text)
            return
        run = turn.run
        if not planning:
            await self._follow(run.id, talk)
            return
        plan = await self.plan_service.go_on(run, talk.conversation, talk.ask)
        await self._carry_out(plan, talk)

    async def _carry_out(self, plan: models.ExecutionPlan, talk: Talk) -> None:
        """Runs a plan; says so if a person has to do something first."""
        if plan.guidance_message is not None:
            answered = await self._conversations.is_answered(plan.plan_id)
            talk.send("message" if answered else "plan_failed", content=plan.guidance_message)
        elif any(task.pattern is models.TaskPattern.RECURRING for task in plan.tasks):
            made = (await self._smith.get(plan.plan_id)).plan
            assert made is not None  # noqa: S101 - it has tasks
            content = f"approve the plan {made.hash} to set up its schedule: {times_of(made)}"
            talk.send(_ASKS, task_id=plan.plan_id, content=content)
        else:
            await self._follow(plan.plan_id, talk)

    async def _follow(self, run_id: str, talk: Talk) -> None:
        after = (await self._smith.store.events(run_id))[-1].number
        running = asyncio.ensure_future(self._smith.runs.run(run_id))
        async for event in events_during(running, self._smith.store, run_id, after):
            body: Any = event.body
            if body.type in _TOLD:
                text = str(getattr(body, "error", "") or getattr(body, "text", ""))
                talk.send(_TOLD[body.type], task_id=f"{run_id}/{body.step}", content=text)
        run = await running
        if run.status.over:
            talk.send("message", content=run.report)
            return
        waits, move = "\n".join(each.text for each in run.questions.values()), next_move(run)
        if not waits and isinstance(move, AwaitReview):
            waits = f"approve the plan {move.hash}"
        talk.send(_ASKS, task_id=run.id, content=waits or run.status.value)

    async def set_up_each(
        self, plan: models.ExecutionPlan | str, *, approve: str
    ) -> list[Schedule]:
        """Creates a schedule for each time at which tasks of a plan run, under its hash.

        The plan may be given by its id. Tasks that run once stay in the plan's run, approved:
        `smith.run(plan_id)` runs them.
        """
        run = await self._smith.get(plan if isinstance(plan, str) else plan.plan_id)
        place = place_of(run)
        schedules, by = self._smith.schedules, place.user if place else ""
        if run.plan is not None and run.plan.schedules:
            return await schedules.create_each(run.id, approve=approve, by=by)
        return [await schedules.create(run=run.id, approve=approve, by=by)]
