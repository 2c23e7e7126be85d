"""The A2A server: an agent card, and a run for each task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from importlib.metadata import version
from typing import Any, Final, cast

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.agent_execution.simple_request_context_builder import SimpleRequestContextBuilder
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.id_generator import IDGenerator, IDGeneratorContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.routes.common import DefaultServerCallContextBuilder
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
    SecurityRequirement,
    SecurityScheme,
    StringList,
    Task,
    TaskState,
    TaskStatus,
)
from google.protobuf import json_format  # type: ignore[import-untyped]
from starlette.requests import Request
from starlette.routing import BaseRoute

from plansmith.engine.answers import ONLY_PERSONS
from plansmith.errors import PlansmithError
from plansmith.plan.data import Json
from plansmith.plan.events import Actor, QuestionAsked
from plansmith.plan.ids import Ids
from plansmith.plan.next_move import goes_on
from plansmith.plan.origin import Origin
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.sentence import in_language
from plansmith.server.auth import grant_of
from plansmith.server.errors import HttpProblem
from plansmith.server.protocols.programs import ProgramAccess, program
from plansmith.server.state import ServerState
from plansmith.templates.book import Template, keeps_templates

PATH: Final = "/a2a"
_PLAN: Final = "plan"
_CALLER: Final = "plansmith_caller"
_STATES: Final = {
    RunStatus.DONE: TaskState.TASK_STATE_COMPLETED,
    RunStatus.PARTLY_DONE: TaskState.TASK_STATE_COMPLETED,
    RunStatus.ANSWERED: TaskState.TASK_STATE_COMPLETED,
    RunStatus.FAILED: TaskState.TASK_STATE_FAILED,
    RunStatus.CANCELLED: TaskState.TASK_STATE_CANCELED,
}


def a2a_routes(server_state: ServerState, base: str) -> tuple[Sequence[BaseRoute], Sequence[Any]]:
    """The card's route and the one for messages, and the tasks that are open meanwhile."""
    card = _card(base)

    async def with_templates(_: AgentCard) -> AgentCard:
        return _with_skills(card, await _templates(server_state))

    begun: set[str] = set()
    handler = DefaultRequestHandler(
        RunExecutor(server_state, begun),
        RunTasks(server_state, begun),
        card,
        request_context_builder=SimpleRequestContextBuilder(task_id_generator=_RunIds()),
    )
    routes = [
        *create_agent_card_routes(card, card_modifier=with_templates),
        *create_jsonrpc_routes(handler, PATH, context_builder=_Callers()),
    ]
    return routes, [partial(aclosing, handler)]


class _Callers(DefaultServerCallContextBuilder):
    """Notes whose token a request came with, for all that is done for it."""

    def build(self, request: Request) -> ServerCallContext:
        """The context of a call, with the program that makes it."""
        context = super().build(request)
        context.state[_CALLER] = program("A2A", grant_of(request.scope).name)
        return context


def _caller(context: ServerCallContext) -> Actor:
    found: Actor = context.state[_CALLER]
    return found


class _RunIds(IDGenerator):
    """A task has the id of its run."""

    def __init__(self) -> None:
        self._ids = Ids()

    def generate(self, context: IDGeneratorContext) -> str:
        del context
        return self._ids()


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
    """The card with one skill for each template."""
    made = AgentCard()
    made.CopyFrom(card)
    for each in templates:
        forms = ", ".join(each.properties) or "no parameters"
        about = each.plan.goal or each.request or each.name
        made.skills.append(
            AgentSkill(
                id=f"template:{each.name}",
                name=each.name,
                description=f"{about} (parameters: {forms})",
                tags=["template"],
                examples=[json.dumps({"template": each.name, "parameters": {}})],
            )
        )
    return made


async def _templates(server_state: ServerState) -> list[Template]:
    if not keeps_templates(server_state.smith.store):
        return []
    known = await server_state.smith.templates.all()
    return [each for name, each in known.items() if "@" not in name]


class RunTasks(InMemoryTaskStore):
    """Tasks of this process; those of an earlier one, and what changed, are read from runs."""

    def __init__(self, server_state: ServerState, begun: set[str]) -> None:
        super().__init__()
        self._state = server_state
        self._begun = begun

    async def get(self, task_id: str, context: Any) -> Task | None:
        """The task as its run stands now."""
        kept = await super().get(task_id, context)
        if kept is None and task_id in self._begun:
            return None  # it is just being made: the run may be there before the task
        try:
            journal = await self._state.journal(task_id)
        except (HttpProblem, PlansmithError):
            return kept
        run = journal.run
        if journal.events[0].by != _caller(context):
            return None  # the run of a person, or of another program, is no task of this client
        if kept is not None and (goes_on(run) or kept.status.state == _state(run)):
            return kept
        where = run.origin.id if run.origin.kind == "a2a" else task_id
        task = Task(id=task_id, context_id=kept.context_id if kept else where)
        task.status.CopyFrom(TaskStatus(state=_state(run)))
        if run.report_hash:
            report = str(await self._state.smith.store.get(run.report_hash))
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
    """Carries a task out as a run, which goes on whether or not the client listens."""

    def __init__(self, server_state: ServerState, begun: set[str]) -> None:
        self._state = server_state
        self._begun = begun

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Begin a run, or answer its question, and tell what happens until it rests."""
        run_id, where = str(context.task_id), str(context.context_id)
        delegate = ProgramAccess(self._state, _caller(context.call_context))
        intake = TaskUpdater(event_queue, run_id, where)
        message = context.message or Message()
        try:
            if context.current_task is None:
                self._begun.add(run_id)
                status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
                await event_queue.enqueue_event(Task(id=run_id, context_id=where, status=status))
                await self._begin(delegate, run_id, where, message, context.get_user_input())
            else:
                await self._answer(delegate, run_id, message, context.get_user_input())
            await self._follow(run_id, intake, delegate)
        except HttpProblem as problem:
            await intake.failed(intake.new_agent_message([Part(text=problem.detail)]))
        except PlansmithError as error:
            await intake.failed(intake.new_agent_message([Part(text=str(error))]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop the run."""
        run_id = str(context.task_id)
        await ProgramAccess(self._state, _caller(context.call_context)).cancel(run_id)
        await TaskUpdater(event_queue, run_id, str(context.context_id)).cancel()

    async def _begin(
        self, delegate: ProgramAccess, run_id: str, where: str, message: Message, text: str
    ) -> None:
        wanted = next((each for each in _data(message) if "template" in each), None)
        if wanted is None:
            origin = Origin(kind="a2a", id=where)
            await delegate.plan(text, run_id=run_id, origin=origin, runs_on=True)
            return
        given = wanted.get("parameters")
        inputs = given if isinstance(given, dict) else {}
        await delegate.use(str(wanted["template"]), inputs, run_id=run_id)

    async def _answer(
        self, delegate: ProgramAccess, run_id: str, message: Message, text: str
    ) -> None:
        """A message to a task that waits is the answer to its question, if it has one for us."""
        open_ = await delegate.answerable(await self._state.run(run_id))
        if not open_:
            return  # what waits is a person's: look again, and tell so
        given = next((each for each in _data(message) if "answer" in each), {"answer": text})
        question = str(given.get("question") or next(iter(open_)))
        await delegate.answer(run_id, question, given["answer"])

    async def _follow(self, run_id: str, intake: TaskUpdater, delegate: ProgramAccess) -> None:
        """Tell each new stand until the run is over or waits for someone."""
        told = ""
        while goes_on(run := await self._state.run(run_id)):
            words = _progress(run)
            if words != told:
                told = words
                await intake.start_work(intake.new_agent_message([Part(text=words)]))
            last = run.last.number if run.last else 0
            await self._state.smith.store.wait(run_id, after=last)
        if run.status.over:
            await self._end(run, intake)
        else:
            await intake.requires_input(
                intake.new_agent_message([*_asked(await delegate.answerable(run), run.locale)])
            )

    async def _end(self, run: Run, intake: TaskUpdater) -> None:
        if run.report_hash:
            report = str(await self._state.smith.store.get(run.report_hash))
            part = Part(text=report, media_type="text/markdown")
            await intake.add_artifact([part], artifact_id="report", name="report")
        words = in_language(run.reason, run.locale) or run.status.value
        await intake.update_status(_state(run), intake.new_agent_message([Part(text=words)]))


def _progress(run: Run) -> str:
    steps = run.steps.values()
    done = sum(each.status.value == "done" for each in steps)
    return f"{run.status.value}: {done} of {len(run.steps)} steps done"


def _asked(open_: Mapping[str, QuestionAsked], locale: str) -> Iterator[Part]:
    """What a task waits for: its questions, or the word that a person has to decide."""
    if not open_:
        yield Part(text=f"{ONLY_PERSONS}. Send any message to look again.")
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


def _data(message: Message) -> Iterator[dict[str, Json]]:
    """The objects a message carries beside its words."""
    for part in message.parts:
        if part.HasField("data"):
            value = cast("Json", json_format.MessageToDict(part.data))
            if isinstance(value, dict):
                yield value
