"""Sends A2A requests through the SDK within limits, and converts its objects to our records."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

import httpx
from a2a import types as proto
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.client.errors import A2AClientError
from a2a.utils.errors import (
    A2AError,
    MethodNotFoundError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from plansmith.errors import ToolFailed
from plansmith.plan.data import Json, leaves, map_leaves
from plansmith.plan.sentence import Sentence
from plansmith_connect.a2a.cards import BINDINGS, Card, choose_interface
from plansmith_connect.a2a.messages import (
    Artifact,
    ArtifactNews,
    Message,
    News,
    Part,
    State,
    StatusNews,
    Task,
    newest,
)
from plansmith_connect.a2a.settings import AgentSettings
from plansmith_connect.a2a.wire import Cut, explain, open_http

T = TypeVar("T")
# Protobuf ships no types; a module loaded by name has none either, and says so.
_FORMAT: Final[Any] = import_module("google.protobuf.json_format")
# What the SDK and its parsers raise on an answer that is not A2A.
_GARBLED: Final[tuple[type[Exception], ...]] = (
    *(_FORMAT.Error, ValueError, KeyError, TypeError),
    *(AttributeError, RecursionError),
)
_KNOWN: Final[tuple[type[Exception], ...]] = (
    *(A2AError, httpx.HTTPError, NotImplementedError),
    *_GARBLED,
)
_ODD: Final = frozenset("/\\?#%")
_EXACT: Final = 2**53
_STATES: Final[dict[int, State]] = {
    int(proto.TaskState.TASK_STATE_SUBMITTED): State.SUBMITTED,
    int(proto.TaskState.TASK_STATE_WORKING): State.WORKING,
    int(proto.TaskState.TASK_STATE_COMPLETED): State.COMPLETED,
    int(proto.TaskState.TASK_STATE_FAILED): State.FAILED,
    int(proto.TaskState.TASK_STATE_CANCELED): State.CANCELED,
    int(proto.TaskState.TASK_STATE_REJECTED): State.REJECTED,
    int(proto.TaskState.TASK_STATE_INPUT_REQUIRED): State.INPUT,
    int(proto.TaskState.TASK_STATE_AUTH_REQUIRED): State.AUTH,
}


class Unsupported(ToolFailed):
    """The agent does not know this kind of request."""


class Gone(ToolFailed):
    """The agent does not know the task (any more)."""


class Exchange:
    """The connection of one call to an agent; uses only the approved card."""

    def __init__(self, card: Card, settings: AgentSettings, *, headers: Mapping[str, str]) -> None:
        parsed = _with_one_interface(card, settings)
        self._limits = settings.limits
        self._http = open_http(settings, headers=headers, limit=self._limits.reply_bytes)
        self.streams: bool = parsed.capabilities.streaming
        self.takes_data = "application/json" in parsed.default_input_modes
        config = ClientConfig(
            httpx_client=self._http, polling=True, supported_protocol_bindings=list(BINDINGS)
        )
        self._client: Any = ClientFactory(config).create(parsed)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    def send(
        self, parts: list[Part], *, message: str, context: str, task: str = ""
    ) -> AsyncGenerator[News]:
        """Sends a message once and yields what the agent answers."""
        outgoing = proto.Message(
            message_id=message,
            context_id=context,
            task_id=task,
            role=proto.Role.ROLE_USER,
            parts=[to_part(each) for each in parts],
        )
        wanted = proto.SendMessageConfiguration(history_length=0)
        request = proto.SendMessageRequest(message=outgoing, configuration=wanted)
        return self._receive(self._client.send_message(request), self._limits.answer_s)

    def subscribe(self, task: str) -> AsyncGenerator[News]:
        """Yields the updates of a running task."""
        request = proto.SubscribeToTaskRequest(id=task)
        return self._receive(self._client.subscribe(request), self._limits.silence_s)

    async def task(self, task: str) -> Task:
        """Returns the current state of a task."""
        request = proto.GetTaskRequest(id=task, history_length=0)
        found = await self._request(self._client.get_task(request), read_task)
        if found.id != task:
            raise Cut(Sentence("the agent's answer is not A2A: it is about another task"))
        return found

    async def tasks(self, context: str) -> list[Task]:
        """Returns the tasks of a context, newest first; leaves out those of other contexts."""
        request = proto.ListTasksRequest(context_id=context, page_size=50, history_length=0)
        found = await self._request(self._client.list_tasks(request), read_tasks)
        return newest([each for each in found if each.context == context])

    async def cancel(self, task: str) -> None:
        """Asks the agent to cancel a task."""
        request = proto.CancelTaskRequest(id=task)
        await self._request(self._client.cancel_task(request), read_task)

    async def _request(self, asked: Awaitable[Any], read: Callable[[Any], T]) -> T:
        try:
            async with asyncio.timeout(self._limits.request_s):
                return read(await asked)
        except TimeoutError:
            raise Cut(
                Sentence("no answer within {seconds} s", seconds=f"{self._limits.request_s:g}")
            ) from None
        except _KNOWN as error:
            raise converted_error(error) from error

    async def _receive(self, events: AsyncGenerator[Any], patience: float) -> AsyncGenerator[News]:
        """Yields events; waits longer for the first one, then limits the silence between two."""
        async with aclosing(events) as stream:
            while True:
                try:
                    async with asyncio.timeout(patience):
                        event = await anext(stream, None)
                    update = None if event is None else read_news(event)
                except TimeoutError:
                    raise Cut(
                        Sentence("the agent sent nothing for {seconds} s", seconds=f"{patience:g}")
                    ) from None
                except _KNOWN as error:
                    raise converted_error(error) from error
                if update is None:
                    return
                yield update
                patience = self._limits.silence_s


def _with_one_interface(card: Card, settings: AgentSettings) -> Any:
    """Returns the card with only the chosen interface, so that the SDK cannot choose another."""
    chosen = choose_interface(card, settings)
    offered = {
        "url": chosen.url,
        "protocolBinding": chosen.binding,
        "protocolVersion": chosen.version,
        "tenant": chosen.tenant,
    }
    only = copy.deepcopy({**card, "supportedInterfaces": [offered]})
    try:
        return parse_agent_card(cast("dict[str, Any]", only))
    except _GARBLED as error:
        raise ToolFailed(
            Sentence("the agent's card is not an A2A card: {error}", error=_short(error))
        ) from None


def converted_error(error: Exception) -> ToolFailed:
    """Converts an SDK error to ours; `Cut` if it is unknown whether the request took effect."""
    if isinstance(error, A2AError) and not isinstance(error, A2AClientError):
        return _reported_error(error)
    cause = error if isinstance(error, httpx.HTTPError) else error.__cause__
    if isinstance(cause, httpx.HTTPError):
        return explain(cause)
    if isinstance(error, NotImplementedError):
        return Unsupported(str(error))
    if isinstance(error, A2AClientError) and str(error).startswith("JSON-RPC Error"):
        return ToolFailed(Sentence("the agent refused: {error}", error=_short(error)))
    return Cut(Sentence("the agent's answer is not A2A: {error}", error=_short(error)))


def _reported_error(error: A2AError) -> ToolFailed:
    """Converts an error that the agent itself reports."""
    if isinstance(error, TaskNotFoundError):
        return Gone(Sentence("the agent does not know the task: {error}", error=_short(error)))
    if isinstance(error, (MethodNotFoundError, UnsupportedOperationError)):
        return Unsupported(
            Sentence("the agent does not support that: {error}", error=_short(error))
        )
    return ToolFailed(Sentence("the agent refused: {error}", error=_short(error)))


def _short(error: Exception) -> str:
    return str(error)[:500] or type(error).__name__


def read_news(event: Any) -> News:
    """Converts one event of a stream."""
    if event.HasField("task"):
        return read_task(event.task)
    if event.HasField("message"):
        return read_message(event.message)
    if event.HasField("status_update"):
        update = event.status_update
        return StatusNews(
            _id(update.task_id),
            _id(update.context_id),
            _state(update.status),
            _message_of(update.status),
        )
    if event.HasField("artifact_update"):
        made = event.artifact_update
        found = _artifact(made.artifact)
        return ArtifactNews(_id(made.task_id), _id(made.context_id), found, made.append)
    raise Cut(Sentence("the agent's answer is not A2A: an event is empty"))


def read_task(given: Any) -> Task:
    """Converts a task; refuses ids that cannot be used in an address."""
    if not given.id:
        raise Cut(Sentence("the agent's answer is not A2A: its task has no id"))
    artifacts = [_artifact(each) for each in given.artifacts]
    return Task(
        _id(given.id),
        _id(given.context_id),
        _state(given.status),
        _message_of(given.status),
        {each.id: each for each in artifacts},
        given.status.timestamp.ToNanoseconds(),
    )


def read_tasks(given: Any) -> list[Task]:
    """Converts a list of tasks."""
    return [read_task(each) for each in given.tasks]


def read_message(given: Any) -> Message:
    """Converts a message of the agent."""
    parts = tuple(_part(each) for each in given.parts)
    return Message(str(given.message_id)[:200], parts, _extra(given))


def to_part(part: Part) -> Any:
    """Converts a part of one of our messages for the SDK."""
    if part.text is not None:
        return proto.Part(text=part.text, media_type=part.kind or "text/plain")
    made: Any = proto.Part(media_type="application/json")
    _FORMAT.ParseDict(part.data, made.data)
    return made


def survives(value: Json) -> bool:
    """Whether the SDK keeps a value unchanged: it stores all numbers as doubles."""
    return all(not isinstance(each, int) or abs(each) < _EXACT for each in leaves(value))


def _id(text: str) -> str:
    if len(text) > 200 or not text.isprintable() or _ODD & set(text):
        raise Cut(Sentence("the agent's answer is not A2A: it has an unusable id"))
    return text


def _state(status: Any) -> State:
    return _STATES.get(int(status.state), State.UNKNOWN)


def _message_of(status: Any) -> Message | None:
    return read_message(status.message) if status.HasField("message") else None


def _artifact(given: Any) -> Artifact:
    parts = [_part(each) for each in given.parts]
    return Artifact(str(given.artifact_id), str(given.name), parts, _extra(given))


def _part(given: Any) -> Part:
    name, kind = str(given.filename)[:300], str(given.media_type)[:100]
    match given.WhichOneof("content"):
        case "text":
            return Part(text=str(given.text), name=name, kind=kind)
        case "data":
            return Part(data=_json(given.data), name=name, kind=kind)
        case "raw":
            return Part(raw=bytes(given.raw), name=name, kind=kind)
        case "url":
            return Part(url=str(given.url), name=name, kind=kind)
        case _:
            return Part(text="", name=name, kind=kind)


def _extra(given: Any) -> Json:
    return _json(given.metadata) if given.HasField("metadata") else None


def _json(given: Any) -> Json:
    return map_leaves(cast("Json", _FORMAT.MessageToDict(given)), _whole)


def _whole(value: Json) -> Json:
    """Turns 3.0 back into 3: the SDK makes doubles of all numbers."""
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value) if abs(value) < _EXACT else value
    return value
