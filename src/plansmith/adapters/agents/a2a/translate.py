"""Translate: the SDK's messages to plain values and back; the only place that knows both."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, Final, cast

from a2a import types as proto

from plansmith.adapters.agents.a2a import messages
from plansmith.adapters.agents.a2a.messages import State
from plansmith.adapters.agents.a2a.wire import Cut
from plansmith.plan.data import Json, leaves, map_leaves

_FORMAT: Final[Any] = import_module("google.protobuf.json_format")
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


def news(event: Any) -> messages.News:
    """One event of a stream."""
    if event.HasField("task"):
        return task(event.task)
    if event.HasField("message"):
        return message(event.message)
    if event.HasField("status_update"):
        update = event.status_update
        return messages.StatusNews(
            _id(update.task_id),
            _id(update.context_id),
            _state(update.status),
            _message_of(update.status),
        )
    if event.HasField("artifact_update"):
        made = event.artifact_update
        found = _artifact(made.artifact)
        return messages.ArtifactNews(_id(made.task_id), _id(made.context_id), found, made.append)
    raise Cut("the agent's answer is not A2A: an event says nothing")


def task(given: Any) -> messages.Task:
    """A task, when its ids can be told and used in an address."""
    if not given.id:
        raise Cut("the agent's answer is not A2A: its task has no id")
    artifacts = [_artifact(each) for each in given.artifacts]
    return messages.Task(
        _id(given.id),
        _id(given.context_id),
        _state(given.status),
        _message_of(given.status),
        {each.id: each for each in artifacts},
        given.status.timestamp.ToNanoseconds(),
    )


def tasks(given: Any) -> list[messages.Task]:
    """The tasks of a list."""
    return [task(each) for each in given.tasks]


def message(given: Any) -> messages.Message:
    """A message of the agent."""
    parts = tuple(_part(each) for each in given.parts)
    return messages.Message(str(given.message_id)[:200], parts, _extra(given))


def to_part(part: messages.Part) -> Any:
    """A part of a message of ours."""
    if part.text is not None:
        return proto.Part(text=part.text, media_type=part.kind or "text/plain")
    made: Any = proto.Part(media_type="application/json")
    _FORMAT.ParseDict(part.data, made.data)
    return made


def survives(value: Json) -> bool:
    """Whether a value comes out of the SDK as it went in: it holds all numbers as doubles."""
    return all(not isinstance(each, int) or abs(each) < _EXACT for each in leaves(value))


def _id(text: str) -> str:
    if len(text) > 200 or not text.isprintable() or _ODD & set(text):
        raise Cut("the agent's answer is not A2A: it has an id nobody can use")
    return text


def _state(status: Any) -> State:
    return _STATES.get(int(status.state), State.UNKNOWN)


def _message_of(status: Any) -> messages.Message | None:
    return message(status.message) if status.HasField("message") else None


def _artifact(given: Any) -> messages.Artifact:
    parts = [_part(each) for each in given.parts]
    return messages.Artifact(str(given.artifact_id), str(given.name), parts, _extra(given))


def _part(given: Any) -> messages.Part:
    name, kind = str(given.filename)[:300], str(given.media_type)[:100]
    match given.WhichOneof("content"):
        case "text":
            return messages.Part(text=str(given.text), name=name, kind=kind)
        case "data":
            return messages.Part(data=_json(given.data), name=name, kind=kind)
        case "raw":
            return messages.Part(raw=bytes(given.raw), name=name, kind=kind)
        case "url":
            return messages.Part(url=str(given.url), name=name, kind=kind)
        case _:
            return messages.Part(text="", name=name, kind=kind)


def _extra(given: Any) -> Json:
    return _json(given.metadata) if given.HasField("metadata") else None


def _json(given: Any) -> Json:
    return map_leaves(cast("Json", _FORMAT.MessageToDict(given)), _whole)


def _whole(value: Json) -> Json:
    """Whole numbers as whole numbers again: the SDK makes 3.0 of every 3."""
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value) if abs(value) < _EXACT else value
    return value
