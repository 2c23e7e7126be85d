"""ExecutionPlanner: turns a request into tasks for agents, or into guidance."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from plansmith.compat.valuecell.conversations import (
    Conversations,
    asked_in,
    guidance_in,
    is_asked,
    place_of,
    short_title,
)
from plansmith.compat.valuecell.models import (
    NOT_FOUND,
    ExecutionPlan,
    RemoteConnections,
    ScheduleConfig,
    Task,
    TaskPattern,
    TaskStatus,
    UserInput,
    agentcard_to_prompt,
)
from plansmith.dialects.valuecell import STATUSES
from plansmith.errors import PlansmithError, Refused
from plansmith.plan.origin import Origin
from plansmith.plan.refs import pieces
from plansmith.plan.run import Run, RunStatus, StepState
from plansmith.plan.steps import AgentStep
from plansmith.planner.context.locales import locale_of
from plansmith.planner.triage import agent_plan


class UserInputRequest:
    """A question to the person, with a way to wait for the answer."""

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self.response: str | None = None
        self.event = asyncio.Event()

    async def wait_for_response(self) -> str:
        """Waits for the answer and returns it."""
        await self.event.wait()
        return self.response or ""

    def provide_response(self, response: str) -> None:
        """Sets the answer and wakes whoever waits for it."""
        self.response = response
        self.event.set()


Ask = Callable[[UserInputRequest], Awaitable[None]]


class ExecutionPlanner:
    """Plans with the agents of the connections; connects at the first request."""

    def __init__(self, agent_connections: RemoteConnections) -> None:
        self.agent_connections = agent_connections
        self.conversations = Conversations(agent_connections.smith)

    async def create_plan(
        self, user_input: UserInput, user_input_callback: Ask, thread_id: str
    ) -> ExecutionPlan:
        """Plans a request; passes questions about it to the callback and awaits answers."""
        try:
            refused = self._refusal(user_input.target_agent_name)
            if refused:
                return self._guidance(user_input, refused)
            run = await self._planned(user_input, thread_id)
            run = await self.asked(run, user_input_callback)
            return await self.plan_of(run)
        except PlansmithError as error:
            return self._guidance(user_input, f"Planner is unavailable: {error}")

    async def asked(self, run: Run, ask: Ask) -> Run:
        """Asks every question about the request; returns the run after the answers."""
        while is_asked(run):
            name, question = next(iter(run.questions.items()))
            request = UserInputRequest(question.text)
            await ask(request)
            answer = await request.wait_for_response()
            place = place_of(run)
            user = place.user if place else ""
            run = await self.agent_connections.smith.answer(run.id, name, answer, by=user)
        return run

    async def plan_of(self, run: Run) -> ExecutionPlan:
        """Returns the plan of a run; cancels a run without tasks."""
        place = place_of(run) or Origin()
        guidance = await self._no_tasks(run)
        if guidance and not run.status.over:
            await self.agent_connections.smith.cancel(run.id, by=place.user)
        return ExecutionPlan(
            plan_id=run.id,
            conversation_id=place.id,
            user_id=place.user,
            orig_query=run.request,
            tasks=[] if guidance else tasks_of(run, place),
            created_at=run.created_at.isoformat() if run.created_at else "",
            guidance_message=guidance or None,
        )

    def _refusal(self, target: str) -> str:
        """Returns why the named agent cannot take the request; empty if it can."""
        if not target or self.agent_connections.get_agent_card(target) is not None:
            return ""
        known = ", ".join(self.agent_connections.get_planable_agent_cards()) or "none"
        return f"The agent {target!r} is not available. Available agents: {known}."

    async def _planned(self, user_input: UserInput, thread_id: str) -> Run:
        """Creates a run for the request; without a model if it names an agent."""
        target = user_input.target_agent_name
        if target:
            plan = agent_plan(target, user_input.query, locale_of(user_input.query))
            return await self.conversations.hand_over(plan, user_input, thread_id)
        self.agent_connections.smith.runs.planner.need_model()
        return await self.conversations.plan(user_input, thread_id)

    async def _no_tasks(self, run: Run) -> str:
        """Returns why a run has no tasks to run; empty if it has."""
        plan = run.plan
        if plan is None and run.status is not RunStatus.FAILED:
            return run.report or run.reason or "Planner gave no plan."
        if plan is None or plan.degraded:
            return _failure(run)
        if plan.schedule is not None and not asked_in(plan):
            try:
                await self.agent_connections.smith.schedules.require_unattended(plan)
            except Refused as refused:
                return str(refused)
        return guidance_in(plan, run.request)

    def _guidance(self, user_input: UserInput, message: str) -> ExecutionPlan:
        smith = self.agent_connections.smith
        return ExecutionPlan(
            plan_id=smith.runs.journals.new().id,
            conversation_id=user_input.meta.conversation_id,
            user_id=user_input.meta.user_id,
            orig_query=user_input.query,
            created_at=smith.runs.journals.clock.now().isoformat(),
            guidance_message=message,
        )

    def tool_get_agent_description(self, agent_name: str) -> str:
        """Returns one agent's card as Markdown."""
        card = self.agent_connections.get_agent_card(agent_name)
        return agentcard_to_prompt(card) if card else NOT_FOUND

    def tool_get_enabled_agents(self) -> str:
        """Returns the cards of all agents that plans may use, as Markdown."""
        return "\n".join(
            f"<{name}>\n{agentcard_to_prompt(card)}\n</{name}>\n"
            for name, card in self.agent_connections.get_planable_agent_cards().items()
        )


def _failure(run: Run) -> str:
    """Returns guidance on why planning failed."""
    codes = {each.code: each for each in reversed(run.problems)}
    if "PS015" in codes:
        failure = codes["PS015"]
        return f"Planner is unavailable: {failure.message} ({failure.hint})"
    if "PS001" in codes:
        return f"Planner produced a malformed response: {codes['PS001'].message}"
    missing = [each for each in run.problems if each.code == "PS102"]
    if missing:
        names = "; ".join(dict.fromkeys(each.message for each in missing))
        return f"The plan was rejected, since it names agents that are not available: {names}"
    why = run.plan.degraded if run.plan is not None else run.reason
    return f"The plan was rejected: {why}"


def tasks_of(run: Run, place: Origin) -> list[Task]:
    """Returns the tasks of a run; a handed-over task has its own conversation."""
    assert run.plan is not None  # noqa: S101 - a run without a plan has no tasks
    config = ScheduleConfig.of(run.plan.schedule)
    tasks: list[Task] = []
    for step in run.plan.steps:
        if not isinstance(step, AgentStep):
            continue
        state = run.steps.get(step.id, StepState())
        created = run.created_at or state.started_at
        known = {"created_at": created, "updated_at": state.finished_at or created}
        tasks.append(
            Task(
                task_id=f"{run.id}/{step.id}",
                title=short_title(step.title),
                query="".join(map(str, pieces(step.task))),
                conversation_id=f"conv-{run.id}-{step.id}" if place.handed_over else place.id,
                thread_id=place.thread,
                user_id=place.user,
                agent_name=step.agent,
                status=TaskStatus(STATUSES[state.status]),
                pattern=TaskPattern.RECURRING if config else TaskPattern.ONCE,
                schedule_config=config,
                handoff_from_super_agent=place.handed_over,
                started_at=state.started_at,
                completed_at=state.finished_at,
                error_message=state.error or None,
                **{name: at for name, at in known.items() if at is not None},
            )
        )
    return tasks
