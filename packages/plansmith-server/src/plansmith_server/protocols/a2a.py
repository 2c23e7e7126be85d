"""The A2A server: serves an agent card, and makes a run for each task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.id_generator import IDGeneratorContext, UUIDGenerator
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Artifact,
    HTTPAuthSecurityScheme,
    Message,
    Part,
    Role,
    SecurityRequirement,
    SecurityScheme,
    StringList,
    Task,
    TaskState,
    TaskStatus,
)
from google.protobuf import json_format  # type: ignore[import-untyped]
from starlette.routing import BaseRoute

from plansmith.engine.answers import ONLY_PERSONS
from plansmith.errors import PlansmithError, Refused
from plansmith.plan.data import Json
from plansmith.plan.events import QuestionAsked
from plansmith.plan.next_move import goes_on
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.sentence import Sentence, in_language
from plansmith.ports import Records
from plansmith.templates.book import Template
from plansmith_planner.threads.turn import Turn
from plansmith_server.conversations import ANSWERED
from plansmith_server.errors import HttpProblem
from plansmith_server.protocols.a2a_context import (
    TURN,
    CallerContext,
    ContextMessages,
    caller,
    data_of,
    template_of,
)
from plansmith_server.protocols.programs import ProgramAccess
from plansmith_server.state import ServerState

PATH: Final = "/a2a"
_PLAN: Final = "plan"
# What is kept of a tenant's tasks.
MOST_BYTES: Final = 16_000_000
_TASK_BYTES: Final = 5_000
_STATES: Final = {
    RunStatus.DONE: TaskState.TASK_STATE_COMPLETED,
    RunStatus.PARTLY_DONE: TaskState.TASK_STATE_COMPLETED,
    RunStatus.ANSWERED: TaskState.TASK_STATE_COMPLETED,
    RunStatus.FAILED: TaskState.TASK_STATE_FAILED,
    RunStatus.CANCELLED: TaskState.TASK_STATE_CANCELED,
}


def a2a_routes(state: ServerState, base: str) -> tuple[Sequence[BaseRoute], Sequence[Any]]:
    """Returns the routes of the card and of messages, and the resources to close."""
    card = _card(base)

    async def with_templates(_: AgentCard) -> AgentCard:
        return _with_skills(card, await _templates(state))

    created: set[str] = set()
    handler = DefaultRequestHandler(
        RunExecutor(state, created),
        RunTasks(state, created),
        card,
        request_context_builder=ContextMessages(state, created),
    )
    routes = [
        *create_agent_card_routes(card, card_modifier=with_templates),
        *create_jsonrpc_routes(handler, PATH, context_builder=CallerContext()),
    ]
    return routes, [partial(aclosing, handler)]


def _card(base: str) -> AgentCard:
    bearer = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="bearer"))
    return AgentCard(
        name="Plansmith",
        description="Plans a request, has the plan approved by a person, runs it and reports.",
        version=version("plansmith"),
        supported_interfaces=[
            AgentInterface(protocol_binding="JSONRPC", protocol_version="1.0", url=f"{base}{PATH}")
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["text/markdown"],
        security_schemes={"token": bearer},
        security_requirements=[SecurityRequirement(schemes={"token": StringList()})],
        skills=[
            AgentSkill(
                id=_PLAN,
                name="Plan and run",
                description="Makes a plan for a request in words, runs it and reports.",
                tags=["planning"],
                examples=["Compare the weather in Oslo and Rome"],
            )
        ],
    )


def _with_skills(card: AgentCard, templates: Sequence[Template]) -> AgentCard:
    """Returns a copy of the card with a skill for each template."""
    copy = AgentCard()
    copy.CopyFrom(card)
    for each in templates:
        forms = ", ".join(each.properties) or "no parameters"
        about = each.plan.goal or each.request or each.name
        copy.skills.append(
            AgentSkill(
                id=f"template:{each.name}",
                name=each.name,
                description=f"{about} (parameters: {forms})",
                tags=["template"],
                examples=[json.dumps({"template": each.name, "parameters": {}})],
            )
        )
    return copy


async def _templates(state: ServerState) -> list[Template]:
    if not isinstance(state.smith.store, Records):
        return []
    known = await state.smith.templates.all()
    return [each for name, each in known.items() if "@" not in name]


class RunTasks(InMemoryTaskStore):
    """Stores tasks; those of an earlier process are rebuilt from their runs."""

    def __init__(self, state: ServerState, created: set[str]) -> None:
        super().__init__()
        self._state = state
        self._created = created
        self._saved: dict[str, tuple[int, Any]] = {}

    @property
    def size(self) -> int:
        """About how many bytes the tasks take."""
        return sum(size for size, _ in self._saved.values())

    async def save(self, task: Task, context: Any) -> None:
        """Stores a task; the oldest ones are rebuilt from their runs when somebody asks."""
        await super().save(task, context)
        self._created.discard(task.id)
        self._saved.pop(task.id, None)
        self._saved[task.id] = task.ByteSize() + _TASK_BYTES, context
        while self.size > MOST_BYTES:
            oldest = next(iter(self._saved))
            await super().delete(oldest, self._saved.pop(oldest)[1])

    async def get(self, task_id: str, context: Any) -> Task | None:
        """Returns the task in the current state of its run."""
        kept = await super().get(task_id, context)
        if kept is None and task_id in self._created:
            return None  # the run is created before the task
        try:
            journal = await self._state.journal(task_id)
        except (HttpProblem, PlansmithError):
            return kept
        run = journal.run
        if journal.events[0].by.label != caller(context).label:
            return None  # runs of persons and of other programs are hidden from this client
        if kept is not None and (goes_on(run) or kept.status.state == _state(run)):
            return kept
        context_id = run.origin.id if run.origin.kind == "a2a" else task_id
        task = Task(id=task_id, context_id=kept.context_id if kept else context_id)
        task.status.CopyFrom(TaskStatus(state=_state(run)))
        if run.phase.over and (report := (await self._state.smith.get(task_id)).report):
            task.artifacts.append(_artifact(report))
        return task


def _artifact(report: str) -> Artifact:
    part = Part(text=report, media_type="text/markdown")
    return Artifact(artifact_id="report", name="report", parts=[part])


def _state(run: Run) -> TaskState:
    if run.status.over:
        return _STATES[run.status]
    return TaskState.TASK_STATE_WORKING if goes_on(run) else TaskState.TASK_STATE_INPUT_REQUIRED


class RunExecutor(AgentExecutor):
    """Executes a task as a run, which continues whether or not the client is connected."""

    def __init__(self, state: ServerState, created: set[str]) -> None:
        self._state = state
        self._created = created

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Starts a run or answers its question, and reports progress until it ends or waits."""
        run_id, context_id = str(context.task_id), str(context.context_id)
        access = ProgramAccess(self._state, caller(context.call_context))
        updater = TaskUpdater(event_queue, run_id, context_id)
        message = context.message or Message()
        turn: Turn | None = context.call_context.state.pop(TURN, None)
        if turn is not None and turn.kind in ANSWERED:
            await event_queue.enqueue_event(_reply(turn, context_id))
            return
        try:
            if context.current_task is None:
                self._created.add(run_id)
                status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
                await event_queue.enqueue_event(
                    Task(id=run_id, context_id=context_id, status=status)
                )
                if turn is None:
                    await self._start(access, run_id, message)
            elif turn is None:
                await self._answer(access, run_id, message, context.get_user_input())
            await self._follow(run_id, updater, access)
        except HttpProblem as problem:
            await updater.failed(updater.new_agent_message([Part(text=problem.detail)]))
        except PlansmithError as error:
            await updater.failed(updater.new_agent_message([Part(text=str(error))]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Cancels the run."""
        run_id = str(context.task_id)
        await ProgramAccess(self._state, caller(context.call_context)).cancel(run_id)
        await TaskUpdater(event_queue, run_id, str(context.context_id)).cancel()

    async def _start(self, access: ProgramAccess, run_id: str, message: Message) -> None:
        """Starts a run of the template that a message names."""
        wanted = template_of(message)
        if wanted is None:
            raise Refused(
                Sentence("the message is empty"), hint=Sentence("say what should be done")
            )
        given = wanted.get("parameters")
        inputs = given if isinstance(given, dict) else {}
        await access.use(str(wanted["template"]), inputs, run_id=run_id)

    async def _answer(
        self, access: ProgramAccess, run_id: str, message: Message, text: str
    ) -> None:
        """Takes a message to a waiting task as the answer to its question."""
        open_ = await access.answerable(await self._state.run(run_id))
        if not open_:
            return  # only a person can answer: `_follow` reports that
        given = next((each for each in data_of(message) if "answer" in each), {"answer": text})
        question = str(given.get("question") or next(iter(open_)))
        await access.answer(run_id, question, given["answer"])

    async def _follow(self, run_id: str, updater: TaskUpdater, access: ProgramAccess) -> None:
        """Reports progress until the run is over or waits for someone."""
        reported = ""
        while goes_on(run := await self._state.run(run_id)):
            progress = _progress(run)
            if progress != reported:
                reported = progress
                await updater.start_work(updater.new_agent_message([Part(text=progress)]))
            last = run.last.number if run.last else 0
            await self._state.smith.store.wait(run_id, after=last)
        if run.status.over:
            await self._end(run, updater)
        else:
            await updater.requires_input(
                updater.new_agent_message([*_waiting_for(await access.answerable(run), run.locale)])
            )

    async def _end(self, run: Run, updater: TaskUpdater) -> None:
        if report := (await self._state.smith.get(run.id)).report:
            part = Part(text=report, media_type="text/markdown")
            await updater.add_artifact([part], artifact_id="report", name="report")
        text = in_language(run.reason, run.locale) or run.status.value
        await updater.update_status(_state(run), updater.new_agent_message([Part(text=text)]))


def _progress(run: Run) -> str:
    steps = run.steps.values()
    done = sum(each.status.value == "done" for each in steps)
    return f"{run.status.value}: {done} of {len(run.steps)} steps done"


def _waiting_for(open_: Mapping[str, QuestionAsked], locale: str) -> Iterator[Part]:
    """Yields the questions a task waits for, or says that a person has to decide."""
    if not open_:
        yield Part(text=f"{ONLY_PERSONS}. Send any message to check again.")
    for asked in open_.values():
        yield Part(text=in_language(asked.text, locale))
        yield _form(asked)


def _form(asked: QuestionAsked) -> Part:
    value: dict[str, Json] = {"question": asked.question}
    value |= {"options": list(asked.options)} if asked.options else {}
    value |= {"schema": asked.answer_schema} if asked.answer_schema else {}
    part = Part(media_type="application/json")
    json_format.ParseDict(value, part.data)
    return part


def _reply(turn: Turn, context_id: str) -> Message:
    """Returns the answer that a message gets at once, and the task that it is about."""
    about = [turn.run.id] if turn.run is not None else []
    return Message(
        role=Role.ROLE_AGENT,
        message_id=UUIDGenerator().generate(IDGeneratorContext()),
        context_id=context_id,
        reference_task_ids=about,
        parts=[Part(text=turn.text)],
    )
