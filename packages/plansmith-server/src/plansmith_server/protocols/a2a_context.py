"""What a message over A2A belongs to: its caller, its conversation and its task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from a2a.helpers.proto_helpers import get_message_text
from a2a.server.agent_execution import RequestContext
from a2a.server.agent_execution.simple_request_context_builder import SimpleRequestContextBuilder
from a2a.server.context import ServerCallContext
from a2a.server.id_generator import IDGenerator, IDGeneratorContext, UUIDGenerator
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.types import Message, SendMessageRequest, Task
from a2a.utils.errors import InvalidParamsError
from google.protobuf import json_format  # type: ignore[import-untyped]
from starlette.requests import Request

from plansmith.errors import PlansmithError
from plansmith.plan.data import Json
from plansmith.plan.events import Actor
from plansmith.plan.ids import Ids
from plansmith.plan.run_options import Origin
from plansmith_planner.threads.turn import Turn
from plansmith_server.conversations import ANSWERED
from plansmith_server.protocols.programs import ProgramAccess, program
from plansmith_server.state import ServerState
from plansmith_server.team.auth import grant_of

TURN: Final = "plansmith_turn"
_CALLER: Final = "plansmith_caller"


class CallerContext(DefaultServerCallContextBuilder):
    """Records which program's token a request came with."""

    def build(self, request: Request) -> ServerCallContext:
        """Makes the context of a call, with the calling program."""
        context = super().build(request)
        context.state[_CALLER] = _program(request)
        return context


def _program(request: Request) -> Actor:
    grant = grant_of(request.scope)
    return program("A2A", grant.name, grant.actor.identity)


def caller(context: ServerCallContext) -> Actor:
    """Returns the program that made a call."""
    found: Actor = context.state[_CALLER]
    return found


class _RunIds(IDGenerator):
    """Makes task ids: a task has the id of its run."""

    def __init__(self) -> None:
        self._ids = Ids()

    def generate(self, context: IDGeneratorContext) -> str:
        del context
        return self._ids()


class ContextMessages(SimpleRequestContextBuilder):
    """Takes a message without a task as one of its context, which is a conversation.

    The message decides the task: that of its new run, or of the run that it answers or changes.
    """

    def __init__(self, state: ServerState, created: set[str]) -> None:
        super().__init__(task_id_generator=_RunIds())
        self._state = state
        self._created = created

    async def build(
        self,
        context: ServerCallContext,
        params: SendMessageRequest | None = None,
        task_id: str | None = None,
        context_id: str | None = None,
        task: Task | None = None,
    ) -> RequestContext:
        """Makes the context of a request, after reading what its message is for."""
        message = params.message if params is not None else Message()
        text = get_message_text(message)
        if not task_id and text.strip() and template_of(message) is None:
            context_id = context_id or UUIDGenerator().generate(IDGeneratorContext())
            turn = await self._said(caller(context), context_id, message.message_id, text)
            context.state[TURN] = turn
            if turn.run is not None and turn.kind not in ANSWERED:
                task_id = turn.run.id
            if turn.run is not None and turn.kind == "request":
                self._created.add(turn.run.id)
        return await super().build(context, params, task_id, context_id, task)

    async def _said(self, who: Actor, context_id: str, key: str, text: str) -> Turn:
        access = ProgramAccess(self._state, who)
        try:
            _, turn = await access.say(
                text,
                conversation=f"a2a:{context_id}",
                key=key,
                origin=Origin(kind="a2a", id=context_id),
                mode="read_only",
            )
        except PlansmithError as error:
            raise InvalidParamsError(message=str(error)) from None
        return turn


def template_of(message: Message) -> dict[str, Json] | None:
    """Returns the part of a message that names a template."""
    return next((each for each in data_of(message) if "template" in each), None)


def data_of(message: Message) -> Iterator[dict[str, Json]]:
    """Yields the JSON objects of a message."""
    for part in message.parts:
        if part.HasField("data"):
            value = cast("Json", json_format.MessageToDict(part.data))
            if isinstance(value, dict):
                yield value
