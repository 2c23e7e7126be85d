"""Sends A2A requests through the SDK within limits; answers come back as A2A's own JSON."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing
from importlib import import_module
from typing import Any, Final, Self, cast

import httpx
from a2a import types as proto
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.client.errors import A2AClientError
from a2a.utils.errors import A2AError, TaskNotFoundError

from plansmith.errors import ToolFailed
from plansmith.plan.data import Json, leaves, map_leaves
from plansmith.plan.sentence import Sentence
from plansmith_connect.a2a.cards import BINDINGS, Card, choose_interface
from plansmith_connect.a2a.messages import Body
from plansmith_connect.a2a.settings import AgentSettings
from plansmith_connect.a2a.wire import Cut, http_failure, open_http

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
# What came (task, message, statusUpdate or artifactUpdate), and its content.
News = tuple[str, Body]


class Gone(ToolFailed):
    """The agent does not know the task (any more)."""


class Exchange:
    """The connection of one call to an agent; uses only the approved card."""

    def __init__(self, card: Card, settings: AgentSettings, *, headers: Mapping[str, str]) -> None:
        # With only the chosen interface the SDK cannot choose another.
        only = copy.deepcopy({**card, "supportedInterfaces": [choose_interface(card, settings)]})
        try:
            parsed = parse_agent_card(cast("dict[str, Any]", only))
        except _GARBLED as error:
            why = Sentence("the agent's card is not an A2A card: {error}", error=_short(error))
            raise ToolFailed(why) from None
        self._limits = settings.limits
        self._http = open_http(settings, headers=headers, limit=self._limits.reply_bytes)
        self.streams: bool = parsed.capabilities.streaming
        self._takes_data = "application/json" in parsed.default_input_modes
        config = ClientConfig(
            httpx_client=self._http, polling=True, supported_protocol_bindings=list(BINDINGS)
        )
        self._client: Any = ClientFactory(config).create(parsed)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    def takes(self, value: Json) -> bool:
        """Whether the agent takes a value as data, and the SDK keeps all of its digits."""
        whole = all(not isinstance(each, int) or abs(each) < _EXACT for each in leaves(value))
        return self._takes_data and whole

    def send(self, parts: list[Body], **ids: str) -> AsyncGenerator[News]:
        """Sends a message once and yields what the agent answers."""
        message = _FORMAT.ParseDict({**ids, "role": "ROLE_USER", "parts": parts}, proto.Message())
        wanted = proto.SendMessageConfiguration(history_length=0)
        request = proto.SendMessageRequest(message=message, configuration=wanted)
        return self._receive(self._client.send_message(request), self._limits.answer_s)

    def subscribe(self, task: str) -> AsyncGenerator[News]:
        request = proto.SubscribeToTaskRequest(id=task)
        return self._receive(self._client.subscribe(request), self._limits.silence_s)

    async def task(self, task: str) -> Body:
        request = proto.GetTaskRequest(id=task, history_length=0)
        [found] = await self._request(self._client.get_task(request))
        if found["id"] != task:
            raise Cut(Sentence("the agent's answer is not A2A: it is about another task"))
        return found

    async def tasks(self, context: str) -> list[Body]:
        """Returns the tasks of a context, newest first; leaves out those of other contexts."""
        request = proto.ListTasksRequest(context_id=context, page_size=50, history_length=0)
        found = await self._request(self._client.list_tasks(request))
        return [each for each in found if each.get("contextId") == context]

    async def cancel(self, task: str) -> None:
        await self._request(self._client.cancel_task(proto.CancelTaskRequest(id=task)))

    async def _request(self, asked: Awaitable[Any]) -> list[Body]:
        """Returns the task of an answer, or its list of tasks with the last changed first."""
        try:
            async with asyncio.timeout(self._limits.request_s):
                answer = await asked
            listed = answer.tasks if isinstance(answer, proto.ListTasksResponse) else [answer]
            made = sorted(listed, key=lambda each: -each.status.timestamp.ToNanoseconds())
            return [_checked("task", _json(each)) for each in made]
        except TimeoutError:
            late = Sentence("no answer within {seconds} s", seconds=f"{self._limits.request_s:g}")
            raise Cut(late) from None
        except _KNOWN as error:
            raise converted_error(error) from error

    async def _receive(self, events: AsyncGenerator[Any], patience: float) -> AsyncGenerator[News]:
        """Yields events; waits longer for the first one, then limits the silence between two."""
        async with aclosing(events) as stream:
            while True:
                try:
                    async with asyncio.timeout(patience):
                        event = await anext(stream, None)
                    news = None if event is None else _json(event)
                except TimeoutError:
                    why = Sentence(
                        "the agent sent nothing for {seconds} s", seconds=f"{patience:g}"
                    )
                    raise Cut(why) from None
                except _KNOWN as error:
                    raise converted_error(error) from error
                if news is None:
                    return
                kind, body = next(iter(news.items()), ("", Body()))
                yield kind, _checked(kind, body)
                patience = self._limits.silence_s


def converted_error(error: Exception) -> ToolFailed:
    """Converts an SDK error to ours; `Cut` if it is unknown whether the request took effect."""
    if isinstance(error, TaskNotFoundError):
        return Gone(Sentence("the agent does not know the task: {error}", error=_short(error)))
    cause = error if isinstance(error, httpx.HTTPError) else error.__cause__
    if isinstance(error, A2AError) and not isinstance(error, A2AClientError):
        return ToolFailed(Sentence("the agent refused: {error}", error=_short(error)))
    if isinstance(cause, httpx.HTTPError):
        return http_failure(cause)
    if isinstance(error, NotImplementedError):
        return ToolFailed(str(error))
    if isinstance(error, A2AClientError) and str(error).startswith("JSON-RPC Error"):
        return ToolFailed(Sentence("the agent refused: {error}", error=_short(error)))
    return Cut(Sentence("the agent's answer is not A2A: {error}", error=_short(error)))


def _short(error: Exception) -> str:
    return str(error)[:500] or type(error).__name__


def _json(given: Any) -> Body:
    return cast("Body", map_leaves(_FORMAT.MessageToDict(given), _whole))


def _whole(value: Json) -> Json:
    """Turns 3.0 back into 3: the SDK makes doubles of all numbers."""
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value) if abs(value) < _EXACT else value
    return value


def _checked(kind: str, body: Body) -> Body:
    """Returns a part of an answer; refuses ids that cannot be used in an address."""
    if not kind:
        raise Cut(Sentence("the agent's answer is not A2A: an event is empty"))
    if kind == "task" and not body.get("id"):
        raise Cut(Sentence("the agent's answer is not A2A: its task has no id"))
    for text in (body.get("id", ""), body.get("taskId", ""), body.get("contextId", "")):
        if kind != "message" and (len(text) > 200 or not text.isprintable() or _ODD & set(text)):
            raise Cut(Sentence("the agent's answer is not A2A: it has an unusable id"))
    if kind == "artifactUpdate":
        body.setdefault("artifact", {})
    return body
