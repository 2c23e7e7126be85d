"""ValueCell's planner turns a request into tasks or guidance; its service does so beside others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, cast

from plansmith import plugins
from plansmith.app import Plansmith
from plansmith.errors import ModelFailed, PlansmithError, Refused
from plansmith.plan.capability import AgentSpec
from plansmith.plan.events import PlanningFailed
from plansmith.plan.problem import Problem, has_errors
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.run_options import Origin
from plansmith.plan.steps import AgentStep
from plansmith.plan.timed_plans import plans_by_time, timing_of
from plansmith.ports import Agent, ChatModel
from plansmith_compat import turns
from plansmith_compat.calling import await_value
from plansmith_compat.reading import json_in
from plansmith_compat.valuecell import conversations, models
from plansmith_compat.valuecell.conversations import Conversations
from plansmith_compat.valuecell.dialect import write
from plansmith_compat.valuecell.models import ExecutionPlan, Task, UserInput, UserInputRequest
from plansmith_connect.a2a.cards import NAMESPACE
from plansmith_planner.dialect import dialect
from plansmith_planner.language.characters import HAN
from plansmith_planner.language.locales import locale_of
from plansmith_planner.make import model_of
from plansmith_planner.parse.habits import decides, text_of
from plansmith_planner.triage import agent_plan


class RemoteConnections:
    """The available agents, and the Plansmith that calls them.

    Give a Plansmith, or a model (itself or its name) and agents of your own. With neither, it is
    the one of this machine's settings, with its agents and the model that it finds.
    """

    def __init__(
        self,
        smith: Plansmith | None = None,
        *,
        model: ChatModel | str | None = None,
        agents: Sequence[Agent] = (),
    ) -> None:
        if smith is None and (model is not None or agents):
            smith = Plansmith(model=model_of(model), agents=agents)
        self.smith = smith or plugins.load("settings", "smith")()

    def get_agent_card(self, agent_name: str) -> AgentSpec | None:
        """Returns the card of an enabled agent; one over A2A also by its name in ValueCell."""
        # A name that is taken, also by an agent that is off, never means another agent.
        names = [card.name for card in self.smith.runs.registry.agents()]
        remote = f"{NAMESPACE}{agent_name}".lower()
        same = [name for name in names if name.lower() == remote and agent_name not in names]
        return self.get_all_agent_cards().get(next(iter(same), agent_name))

    def get_all_agent_cards(self) -> dict[str, AgentSpec]:
        return {card.name: card for card in self.smith.runs.registry.agents() if card.enabled}

    def get_planable_agent_cards(self) -> dict[str, AgentSpec]:
        """Returns the cards a planner may use: neither hidden nor passthrough."""
        cards = self.get_all_agent_cards().values()
        return {card.name: card for card in cards if not card.hidden and not card.passthrough}

    def is_planner_passthrough(self, agent_name: str) -> bool:
        card = self.get_agent_card(agent_name)
        return card is not None and card.passthrough

    def list_available_agents(self) -> list[str]:
        return list(self.get_all_agent_cards())


# Ours, or connections of a program's own, with `get_all_agent_cards` and `get_agent_card`.
Connections = Any


def smith_of(connections: Connections) -> Plansmith:
    """Returns the Plansmith of the connections; for foreign ones, one without model and agents."""
    found = getattr(connections, "smith", None)
    return found if isinstance(found, Plansmith) else Plansmith()


def planable(connections: Connections) -> Mapping[str, Any]:
    """Returns the cards a planner may use; older connections do not tell them apart."""
    everything = getattr(connections, "get_all_agent_cards", dict)
    return cast("Mapping[str, Any]", getattr(connections, "get_planable_agent_cards", everything)())


def agentcard_to_prompt(card: Any) -> str:
    """Returns a card as Markdown: description, skills, examples and tags."""
    if isinstance(card, Mapping):
        return str(cast("object", card))
    lines = [f"# Agent: {card.name}", "", f"**Description:** {card.description}"]
    skills: Sequence[Any] = getattr(card, "skills", None) or ()
    if skills:
        lines += ["", "## Available Skills"]
    for number, skill in enumerate(skills, start=1):
        name = getattr(skill, "id", "")
        lines += ["", f"### {number}. {skill.name}" + (f" (`{name}`)" if name else "")]
        lines += ["", f"**Description:** {skill.description}"]
        if skill.examples:
            lines += ["", "**Examples:**", *(f"- {example}" for example in skill.examples)]
        if skill.tags:
            lines += ["", "**Tags:** " + ", ".join(f"`{tag}`" for tag in skill.tags)]
    return "\n".join(lines)


Ask = Callable[[UserInputRequest], Awaitable[None]]
MAX_WORDS: Final = 10
MAX_CHARACTERS: Final = 20
# A planner that asks more than this will not stop asking.
MAX_QUESTIONS: Final = 12
_UNKNOWN_MODEL: Final = "unknown model/provider"
_MALFORMED: Final = (
    "Planner produced a malformed response: {what}. "
    "The model {model} may be too small for this, or not made for JSON."
)
_UNSUPPORTED: Final = (
    "The plan was rejected, since it names unsupported agents that are not available: {what}. "
    "The model {model} may have made them up."
)
_NOT_FOUND: Final = "The requested agent could not be found or is not available."


class PlanningAgent(Protocol):
    """What plans instead of Plansmith's own planner; both methods may be async.

    They return an object with `is_paused`, `tools_requiring_user_input`, `tools` and `content`.
    """

    def run(
        self, planner_input: models.PlannerInput, /, *, session_id: str, user_id: str
    ) -> Any: ...
    def continue_run(self, *, run_response: Any, updated_tools: Any) -> Any: ...


class ExecutionPlanner:
    """Plans with the agents of the connections; connects at the first request.

    With an `agent` of your own, that one plans; what it returns is checked and kept all the same.
    """

    def __init__(
        self, agent_connections: Connections, *, agent: PlanningAgent | None = None
    ) -> None:
        self.agent_connections = agent_connections
        self.agent = agent
        self.conversations = Conversations(smith_of(agent_connections))

    async def create_plan(
        self, user_input: UserInput, user_input_callback: Ask, thread_id: str
    ) -> ExecutionPlan:
        """Plans a request; passes questions about it to the callback and awaits answers."""
        target = user_input.target_agent_name
        try:
            if self.agent is not None:
                return await self._by_agent(self.agent, user_input, user_input_callback, thread_id)
            card = self.agent_connections.get_agent_card(target) if target else None
            if target and card is None:
                known = ", ".join(planable(self.agent_connections)) or "none"
                refusal = f"The agent {target!r} is not available. Available agents: {known}."
                return await self._refuse(user_input, refusal)
            plan = None
            if target:
                name = card.name if isinstance(card, AgentSpec) else target
                plan = agent_plan(name, user_input.query, locale_of(user_input.query))
            else:
                self.conversations.smith.runs.planning.require_planner()
            run = await self.conversations.begin(user_input, thread_id, plan)
            return await self.plan_of(await self.asked(run, user_input_callback))
        except PlansmithError as error:
            return self._guidance(user_input, f"Planner is unavailable: {error}")

    async def asked(self, run: Run, ask: Ask) -> Run:
        """Asks every question about the request; returns the run after the answers."""
        for _ in range(MAX_QUESTIONS):
            if not conversations.is_asked(run):
                break
            name, question = next(iter(run.questions.items()))
            answer, place = await _answer_to(question.text, ask), conversations.place_of(run)
            user = place.user if place else ""
            run = await turns.answer(self.conversations.smith, run, name, answer, by=user)
        return run

    async def plan_of(self, run: Run) -> ExecutionPlan:
        """Returns the plan of a run; cancels a run without tasks."""
        place = conversations.place_of(run) or Origin(id=run.options.thread)
        guidance = await self._no_tasks(run)
        if guidance:
            await self.conversations.keep_guidance(run, guidance)
            if not run.status.over:
                await self.conversations.smith.cancel(run.id, by=place.user)
        return ExecutionPlan(
            plan_id=run.id,
            conversation_id=place.id,
            user_id=place.user,
            orig_query=run.request,
            tasks=[] if guidance else _tasks_of(run, place),
            created_at=run.created_at.isoformat() if run.created_at else "",
            guidance_message=guidance or None,
        )

    async def _by_agent(
        self, agent: PlanningAgent, user_input: UserInput, ask: Ask, thread_id: str
    ) -> ExecutionPlan:
        """Lets an agent of the program plan, and keeps its plan like any other."""
        try:
            content = await _ask_agent(agent, user_input, ask)
        except Exception as error:  # noqa: BLE001 - whatever it raises is told as guidance
            return await self._refuse(user_input, f"Planner failed: {error}")
        model, locale = _model_name(agent), locale_of(user_input.query)
        if not isinstance(content, models.PlannerResponse):
            return await self._refuse(user_input, _MALFORMED.format(what=str(content), model=model))
        found = dialect("valuecell").read(content.model_dump(mode="json"))
        if found.plan is None or has_errors(list(found.problems)):
            own = content.guidance_message
            return await self._refuse(user_input, own or _rejected(found.problems, model, locale))
        steps = [step for step in found.plan.steps if isinstance(step, AgentStep)]
        missing = sorted({step.agent for step in steps} - planable(self.agent_connections).keys())
        if missing:
            message = _UNSUPPORTED.format(what=", ".join(missing), model=model)
            return await self._refuse(user_input, message)
        plan = found.plan.replace(locale=locale, goal=user_input.query)
        return await self.plan_of(await self.conversations.begin(user_input, thread_id, plan))

    async def _no_tasks(self, run: Run) -> str:
        plan, smith, place = run.plan, self.conversations.smith, conversations.place_of(run)
        if run.questions and conversations.is_asked(run):
            return "Planner keeps asking: " + next(iter(run.questions.values())).text
        if plan is None and run.status is not RunStatus.FAILED:
            return run.report or run.reason or "Planner gave no plan."
        if plan is None or plan.degraded:
            return await self._own_words(run) or self._failure(run)
        if not plan.steps:
            return plan.thought or "Planner gave no tasks."
        if question := conversations.guidance_in(plan):
            return question
        for timed in (each for each in plans_by_time(plan) if each.timing is not None):
            try:
                await smith.schedules.require_unattended(timed.plan)
            except Refused as refused:
                return str(refused)
        # A named agent gets the words as they are, also those that say when.
        named = place is not None and not place.handed_over and not conversations.times_of(plan)
        return "" if named else conversations.schedule_guidance(plan, run.request)

    async def _own_words(self, run: Run) -> str:
        """Returns what the model itself asked, if it gave no draft that can be used."""
        store = self.conversations.smith.store
        bodies = [event.body for event in await store.events(run.id)]
        records = [each.record for each in bodies if isinstance(each, PlanningFailed)]
        exchanges: Any = await store.get(records[-1]) if records and records[-1] else []
        for exchange in reversed(exchanges):
            value = json_in(str(exchange["text"]))
            if isinstance(value, dict) and decides("adequate", value.get("adequate")):
                return text_of(value.get("guidance_message"))
        return ""

    def _failure(self, run: Run) -> str:
        planner = self.conversations.smith.runs.planning.planner
        model = planner.name if planner else _UNKNOWN_MODEL
        codes = {each.code: each for each in reversed(run.problems)}
        if failure := codes.get("PS015"):
            return f"Planner is unavailable: {failure.message} ({failure.hint})"
        if unreadable := codes.get("PS001"):
            return _MALFORMED.format(what=unreadable.message, model=model)
        why = run.plan.degraded if run.plan is not None else run.reason
        found = _rejected(run.problems, model, locale_of(run.request))
        return found or f"The plan was rejected: {why}"

    async def _refuse(self, user_input: UserInput, message: str) -> ExecutionPlan:
        """Tells why a request gets no run, and keeps that in its conversation."""
        await self.conversations.keep_reply(user_input, message)
        return self._guidance(user_input, message)

    def _guidance(self, user_input: UserInput, message: str) -> ExecutionPlan:
        journals = self.conversations.smith.runs.journals
        return ExecutionPlan(
            plan_id=journals.new().id,
            conversation_id=user_input.meta.conversation_id,
            user_id=user_input.meta.user_id,
            orig_query=user_input.query,
            created_at=journals.clock.now().isoformat(),
            guidance_message=message,
        )

    def tool_get_agent_description(self, agent_name: str) -> str:
        card = self.agent_connections.get_agent_card(agent_name)
        return agentcard_to_prompt(card) if card else _NOT_FOUND

    def tool_get_enabled_agents(self) -> str:
        return "\n".join(
            f"<{name}>\n{agentcard_to_prompt(card)}\n</{name}>\n"
            for name, card in planable(self.agent_connections).items()
        )


async def _answer_to(question: str, ask: Ask) -> str:
    request = UserInputRequest(question)
    await ask(request)
    return await request.wait_for_response()


async def _ask_agent(agent: PlanningAgent, user_input: UserInput, ask: Ask) -> object:
    planner_input = models.PlannerInput(
        query=user_input.query, target_agent_name=user_input.target_agent_name
    )
    meta = user_input.meta
    response = await await_value(
        agent.run(planner_input, session_id=meta.conversation_id, user_id=meta.user_id)
    )
    for _ in range(MAX_QUESTIONS):
        if not response.is_paused:
            return response.content
        for tool in response.tools_requiring_user_input:
            for field in tool.user_input_schema:
                field.value = await _answer_to(field.description, ask)
        going_on = agent.continue_run(run_response=response, updated_tools=response.tools)
        response = await await_value(going_on)
    if response.is_paused:
        raise ModelFailed(f"it paused more than {MAX_QUESTIONS} times")
    return response.content


def _model_name(agent: object) -> str:
    model = getattr(agent, "model", None)
    name = getattr(model, "id", None) or getattr(model, "name", None)
    provider = getattr(model, "provider", None)
    return f"{name} (via {provider})" if name and provider else str(name or _UNKNOWN_MODEL)


def _rejected(problems: Sequence[Problem], model: str, locale: str) -> str:
    """Returns guidance on what is wrong with a plan; empty if it does not say so."""
    missing = dict.fromkeys(each.message for each in problems if each.code == "PS102")
    if missing:
        return _UNSUPPORTED.format(what="; ".join(missing), model=model)
    flaws = [each for each in problems if each.severity == "error"]
    if any(
        each.path[:1] in (("schedule_config",), ("schedule",), ("schedules",)) for each in flaws
    ):
        return conversations.ASK_FOR_TIME[locale.startswith("zh")]
    return f"The plan was rejected: {flaws[0].message}" if flaws else ""


def short_title(title: str) -> str:
    """Returns a title of at most ten words, or twenty characters in Chinese."""
    plain, words = title.strip(), title.split()
    if HAN.search(title):
        return plain if len(plain) <= MAX_CHARACTERS else f"{plain[: MAX_CHARACTERS - 1]}…"
    return plain if len(words) <= MAX_WORDS else " ".join(words[:MAX_WORDS]) + "…"


def _tasks_of(run: Run, place: Origin) -> list[Task]:
    """Returns the tasks of a run; a handed-over task has its own conversation."""
    assert run.plan is not None  # noqa: S101 - a run without a plan has no tasks
    tasks: list[Task] = []
    for written in cast("Any", write(run.plan, run).value)["tasks"]:
        name = written["task_id"]
        own = {
            "task_id": f"{run.id}/{name}",
            "title": short_title(written["title"]),
            "conversation_id": f"conv-{run.id}-{name}" if place.handed_over else place.id,
            "thread_id": place.thread,
            "user_id": place.user,
            "handoff_from_super_agent": place.handed_over,
            "created_at": run.created_at,
            "updated_at": written["completed_at"] or run.created_at,
        }
        if timing_of(run.plan, name):  # also at times that ValueCell's format has no words for
            own["pattern"] = models.TaskPattern.RECURRING
        tasks.append(Task.model_validate(written | own))
    return tasks


class PlanService:
    """Plans in the background, and passes questions and answers on."""

    def __init__(
        self,
        agent_connections: Connections,
        execution_planner: ExecutionPlanner | None = None,
        user_input_registry: models.UserInputRegistry | None = None,
    ) -> None:
        self.planner = execution_planner or ExecutionPlanner(agent_connections)
        self._registry = user_input_registry or models.UserInputRegistry()
        self._resumed: dict[str, asyncio.Task[ExecutionPlan]] = {}

    def register_user_input(self, conversation_id: str, request: UserInputRequest) -> None:
        self._registry.add_request(conversation_id, request)

    def has_pending_request(self, conversation_id: str) -> bool:
        return self._registry.has_request(conversation_id)

    def get_request_prompt(self, conversation_id: str) -> str | None:
        return self._registry.get_prompt(conversation_id)

    def provide_user_response(self, conversation_id: str, response: str) -> bool:
        return self._registry.provide_response(conversation_id, response)

    def clear_pending_request(self, conversation_id: str) -> None:
        self._registry.clear(conversation_id)

    def start_planning_task(
        self, user_input: UserInput, thread_id: str, callback: Ask | None = None
    ) -> asyncio.Task[ExecutionPlan]:
        """Plans in the background; the registry and the callback get every question."""
        ask = self._asker(user_input.meta.conversation_id, callback)
        return asyncio.create_task(self.planner.create_plan(user_input, ask, thread_id))

    async def resume(self) -> dict[str, asyncio.Task[ExecutionPlan]]:
        """Continues waiting plans after a restart; returns the tasks by conversation.

        An orchestrator needs none of this: its next message finds the question by itself.
        """
        found: dict[str, asyncio.Task[ExecutionPlan]] = {}
        for run in await self.planner.conversations.asking_runs():
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
            self.clear_pending_request(conversation_id)

    async def go_on(
        self, run: Run, conversation_id: str, callback: Ask | None = None
    ) -> ExecutionPlan:
        """Asks the further questions of a run about its request; returns its plan."""
        ask = self._asker(conversation_id, callback)
        return await self.planner.plan_of(await self.planner.asked(run, ask))

    def _asker(self, conversation_id: str, callback: Ask | None) -> Ask:
        async def ask(request: UserInputRequest) -> None:
            self.register_user_input(conversation_id, request)
            if callback is not None:
                await callback(request)

        return ask
