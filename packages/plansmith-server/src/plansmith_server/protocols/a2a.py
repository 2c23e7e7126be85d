"""The A2A server: serves an agent card, and makes a run for each task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from importlib.metadata import version
from typing import Any, Final, cast
from uuid import uuid4

from a2a import types as t
from a2a.helpers.proto_helpers import get_message_text
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.agent_execution.simple_request_context_builder import SimpleRequestContextBuilder
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.id_generator import IDGenerator, IDGeneratorContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.utils.errors import InvalidParamsError
from google.protobuf import json_format  # type: ignore[import-untyped]
from starlette.requests import Request
from starlette.routing import BaseRoute

from plansmith.errors import PlansmithError, Refused
from plansmith.plan.data import Json
from plansmith.plan.events import Actor, QuestionAsked
from plansmith.plan.ids import Ids
from plansmith.plan.next_move import goes_on
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.run_options import Origin
from plansmith.plan.sentence import Sentence, in_language
from plansmith.runs.decisions import ONLY_PERSONS
from plansmith_planner.threads.thread import Turn
from plansmith_server.errors import HttpProblem
from plansmith_server.protocols.programs import ProgramAccess, program_of
from plansmith_server.routes.conversations import ANSWERED
from plansmith_server.state import ServerState
from plansmith_server.team.auth import grant_of

PATH: Final = "/a2a"
_TURN: Final = "plansmith_turn"
_CALLER: Final = "plansmith_caller"
# The run that a message has begun, until its task is made of it.
_BEGUN: Final = "plansmith_begun"
# What is kept of a tenant's tasks.
MAX_BYTES: Final = 16_000_000
_TASK_BYTES: Final = 5_000
# A task that waits so long for a person holds nothing until somebody answers.
_RELEASED_S: Final = 60.0
_STATES: Final = {
    RunStatus.DONE: t.TaskState.TASK_STATE_COMPLETED,
    RunStatus.PARTLY_DONE: t.TaskState.TASK_STATE_COMPLETED,
    RunStatus.ANSWERED: t.TaskState.TASK_STATE_COMPLETED,
    RunStatus.FAILED: t.TaskState.TASK_STATE_FAILED,
    RunStatus.CANCELLED: t.TaskState.TASK_STATE_CANCELED,
}


def a2a_routes(state: ServerState, base: str) -> tuple[Sequence[BaseRoute], Sequence[Any]]:
    """Returns the routes of the card and of messages, and the resources to close."""
    bearer = t.SecurityScheme(http_auth_security_scheme=t.HTTPAuthSecurityScheme(scheme="bearer"))
    place = t.AgentInterface(
        protocol_binding="JSONRPC", protocol_version="1.0", url=f"{base}{PATH}"
    )
    planning = t.AgentSkill(
        id="plan",
        name="Plan and run",
        description="Makes a plan for a request in words, runs it and reports.",
        tags=["planning"],
        examples=["Compare the weather in Oslo and Rome"],
    )
    card = t.AgentCard(
        name="Plansmith",
        description="Plans a request, has the plan approved by a person, runs it and reports.",
        version=version("plansmith"),
        supported_interfaces=[place],
        capabilities=t.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["text/markdown"],
        security_schemes={"token": bearer},
        security_requirements=[t.SecurityRequirement(schemes={"token": t.StringList()})],
        skills=[planning],
    )
    handler = DefaultRequestHandler(
        RunExecutor(state),
        RunTasks(state),
        card,
        request_context_builder=ContextMessages(state),
        interrupted_task_timeout=_RELEASED_S,
    )
    routes = [
        *create_agent_card_routes(card, card_modifier=partial(_with_templates, state)),
        *create_jsonrpc_routes(handler, PATH, context_builder=CallerContext()),
    ]
    return routes, [partial(aclosing, handler)]


async def _with_templates(state: ServerState, card: t.AgentCard) -> t.AgentCard:
    copy = t.AgentCard()
    copy.CopyFrom(card)
    known = await state.smith.templates.all()
    for each in (each for name, each in known.items() if "@" not in name):
        forms = ", ".join(each.properties) or "no parameters"
        about = each.plan.goal or each.request or each.name
        copy.skills.append(
            t.AgentSkill(
                id=f"template:{each.name}",
                name=each.name,
                description=f"{about} (parameters: {forms})",
                tags=["template"],
                examples=[json.dumps({"template": each.name, "parameters": {}})],
            )
        )
    return copy


class CallerContext(DefaultServerCallContextBuilder):
    """Records which program's token a request came with."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state[_CALLER] = program_of("A2A", grant_of(request.scope))
        return context


def _caller(context: ServerCallContext) -> Actor:
    found: Actor = context.state[_CALLER]
    return found


class _RunIds(IDGenerator):
    """A task has the id of its run."""

    _ids = Ids()

    def generate(self, context: IDGeneratorContext) -> str:
        del context
        return self._ids()


class ContextMessages(SimpleRequestContextBuilder):
    """Takes a message without a task as one of its context, which is a conversation.

    The message decides the task: that of its new run, or of the run that it answers or changes.
    """

    def __init__(self, state: ServerState) -> None:
        super().__init__(task_id_generator=_RunIds())
        self._state = state

    async def build(
        self,
        context: ServerCallContext,
        params: t.SendMessageRequest | None = None,
        task_id: str | None = None,
        context_id: str | None = None,
        task: t.Task | None = None,
    ) -> RequestContext:
        """Makes the context of a request, after reading what its message is for."""
        message = params.message if params is not None else t.Message()
        text = get_message_text(message)
        if not task_id and text.strip() and _template_of(message) is None:
            context_id = context_id or str(uuid4())
            try:
                _, turn = await ProgramAccess(self._state, _caller(context)).say(
                    text,
                    conversation=f"a2a:{context_id}",
                    key=message.message_id,
                    origin=Origin(kind="a2a", id=context_id),
                    mode="read_only",
                )
            except PlansmithError as error:
                raise InvalidParamsError(message=str(error)) from None
            context.state[_TURN] = turn
            if turn.run is not None and turn.kind not in ANSWERED:
                task_id = turn.run.id
            if turn.run is not None and turn.kind == "request":
                context.state[_BEGUN] = turn.run.id
        return await super().build(context, params, task_id, context_id, task)


def _template_of(message: t.Message) -> dict[str, Json] | None:
    return next((each for each in _data_of(message) if "template" in each), None)


def _data_of(message: t.Message) -> Iterator[dict[str, Json]]:
    for part in message.parts:
        if part.HasField("data"):
            value = cast("Json", json_format.MessageToDict(part.data))
            if isinstance(value, dict):
                yield value


class RunTasks(InMemoryTaskStore):
    """Stores tasks; those of an earlier process are rebuilt from their runs."""

    def __init__(self, state: ServerState) -> None:
        super().__init__(owner_resolver=lambda context: _caller(context).label)
        self._state = state
        self._saved: dict[str, tuple[int, Any]] = {}

    @property
    def size(self) -> int:
        return sum(size for size, _ in self._saved.values())

    async def save(self, task: t.Task, context: Any) -> None:
        """Stores a task; the oldest ones are rebuilt from their runs when somebody asks."""
        if (
            task.status.state == t.TaskState.TASK_STATE_CANCELED
        ):  # perhaps one of an earlier process
            await ProgramAccess(self._state, _caller(context)).cancel(task.id)
        await super().save(task, context)
        context.state.pop(_BEGUN, None)
        self._saved.pop(task.id, None)
        self._saved[task.id] = task.ByteSize() + _TASK_BYTES, context
        while self.size > MAX_BYTES:
            oldest = next(iter(self._saved))
            await super().delete(oldest, self._saved.pop(oldest)[1])

    async def get(self, task_id: str, context: Any) -> t.Task | None:
        kept = await super().get(task_id, context)
        if context.state.get(_BEGUN) == task_id:
            return None  # the run is created before the task
        try:
            journal = await self._state.journal(task_id)
        except (HttpProblem, PlansmithError):
            return kept
        run = journal.run
        if journal.events[0].by.label != _caller(context).label:
            return None  # runs of persons and of other programs are hidden from this client
        if kept is not None and (goes_on(run) or kept.status.state == _state(run)):
            return kept
        context_id = run.origin.id if run.origin.kind == "a2a" else task_id
        task = t.Task(id=task_id, context_id=kept.context_id if kept else context_id)
        task.status.CopyFrom(t.TaskStatus(state=_state(run)))
        if run.phase.over and (report := (await self._state.smith.get(task_id)).report):
            part = t.Part(text=report, media_type="text/markdown")
            task.artifacts.append(t.Artifact(artifact_id="report", name="report", parts=[part]))
        return task


def _state(run: Run) -> t.TaskState:
    if run.status.over:
        return _STATES[run.status]
    return t.TaskState.TASK_STATE_WORKING if goes_on(run) else t.TaskState.TASK_STATE_INPUT_REQUIRED


class RunExecutor(AgentExecutor):
    """Executes a task as a run, which continues whether or not the client is connected."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Starts a run or answers its question, and reports progress until it ends or waits."""
        run_id, context_id = str(context.task_id), str(context.context_id)
        access = ProgramAccess(self._state, _caller(context.call_context))
        updater = TaskUpdater(event_queue, run_id, context_id)
        message = context.message or t.Message()
        turn: Turn | None = context.call_context.state.pop(_TURN, None)
        if turn is not None and turn.kind in ANSWERED:  # it is answered at once
            reply = t.Message(
                role=t.Role.ROLE_AGENT,
                message_id=str(uuid4()),
                context_id=context_id,
                reference_task_ids=[turn.run.id] if turn.run is not None else [],
                parts=[t.Part(text=turn.text)],
            )
            await event_queue.enqueue_event(reply)
            return
        try:
            if context.current_task is None:
                context.call_context.state[_BEGUN] = run_id
                status = t.TaskStatus(state=t.TaskState.TASK_STATE_SUBMITTED)
                task = t.Task(id=run_id, context_id=context_id, status=status)
                await event_queue.enqueue_event(task)
                if turn is None:
                    await self._start(access, run_id, message)
            elif turn is None:
                await self._answer(access, run_id, message, context.get_user_input())
            await self._follow(run_id, updater, access)
        except (HttpProblem, PlansmithError) as error:
            text = error.detail if isinstance(error, HttpProblem) else str(error)
            await updater.failed(updater.new_agent_message([t.Part(text=text)]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        run_id = str(context.task_id)
        await ProgramAccess(self._state, _caller(context.call_context)).cancel(run_id)
        await TaskUpdater(event_queue, run_id, str(context.context_id)).cancel()

    async def _start(self, access: ProgramAccess, run_id: str, message: t.Message) -> None:
        wanted = _template_of(message)
        if wanted is None:
            raise Refused(
                Sentence("the message is empty"), hint=Sentence("say what should be done")
            )
        inputs = wanted.get("parameters")
        given = inputs if isinstance(inputs, dict) else {}
        await access.use(str(wanted["template"]), given, run_id=run_id)

    async def _answer(
        self, access: ProgramAccess, run_id: str, message: t.Message, text: str
    ) -> None:
        open_ = await access.answerable(await self._state.run(run_id))
        if not open_:
            return  # only a person can answer: `_follow` reports that
        given = next((each for each in _data_of(message) if "answer" in each), {"answer": text})
        question = str(given.get("question") or next(iter(open_)))
        await access.answer(run_id, question, given["answer"])

    async def _follow(self, run_id: str, updater: TaskUpdater, access: ProgramAccess) -> None:
        reported = ""
        while goes_on(run := await self._state.run(run_id)):
            done = sum(each.status.value == "done" for each in run.steps.values())
            progress = f"{run.status.value}: {done} of {len(run.steps)} steps done"
            if progress != reported:
                reported = progress
                await updater.start_work(updater.new_agent_message([t.Part(text=progress)]))
            last = run.last.number if run.last else 0
            await self._state.smith.store.wait(run_id, after=last)
        if not run.status.over:
            asked = [*_waiting_for(await access.answerable(run), run.locale)]
            await updater.requires_input(updater.new_agent_message(asked))
            return
        if report := (await self._state.smith.get(run.id)).report:
            part = t.Part(text=report, media_type="text/markdown")
            await updater.add_artifact([part], artifact_id="report", name="report")
        text = in_language(run.reason, run.locale) or run.status.value
        await updater.update_status(_state(run), updater.new_agent_message([t.Part(text=text)]))


def _waiting_for(open_: Mapping[str, QuestionAsked], locale: str) -> Iterator[t.Part]:
    """Yields the questions a task waits for, or says that a person has to decide."""
    if not open_:
        yield t.Part(text=f"{ONLY_PERSONS}. Send any message to check again.")
    for asked in open_.values():
        yield t.Part(text=in_language(asked.text, locale))
        value: dict[str, Json] = {"question": asked.question}
        value |= {"options": list(asked.options)} if asked.options else {}
        value |= {"schema": asked.answer_schema} if asked.answer_schema else {}
        form = t.Part(media_type="application/json")
        json_format.ParseDict(value, form.data)
        yield form
