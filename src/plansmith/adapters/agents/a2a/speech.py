"""What an agent says, as plain values: states, messages, artifacts, and the task they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from plansmith.plan.data import Json


class State(StrEnum):
    """Where a task stands; `unknown` is whatever the protocol has no word for."""

    SUBMITTED = "submitted"
    WORKING = "working"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"
    INPUT = "input required"
    AUTH = "auth required"
    UNKNOWN = "unknown"


ENDED_BADLY: Final = frozenset({State.FAILED, State.CANCELED, State.REJECTED})
WAITING: Final = frozenset({State.INPUT, State.AUTH})
SETTLED: Final = ENDED_BADLY | WAITING | {State.COMPLETED}


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a message or an artifact: a text, a value, bytes, or an address."""

    text: str | None = None
    data: Json = None
    raw: bytes | None = None
    url: str = ""
    name: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """Something said, in parts; `extra` is the sender's own metadata."""

    id: str = ""
    parts: tuple[Part, ...] = ()
    extra: Json = None

    @property
    def text(self) -> str:
        """The words of the message."""
        return "\n".join(part.text for part in self.parts if part.text)


@dataclass(slots=True)
class Artifact:
    """Something made, which may still grow."""

    id: str
    name: str = ""
    parts: list[Part] = field(default_factory=list[Part])
    extra: Json = None

    @property
    def text(self) -> str:
        """The words of the artifact; its pieces are parts of one text, so nothing goes between."""
        return "".join(part.text for part in self.parts if part.text)


@dataclass(frozen=True, slots=True)
class StatusNews:
    """A task has come to a state."""

    task: str
    context: str
    state: State
    message: Message | None = None


@dataclass(frozen=True, slots=True)
class ArtifactNews:
    """A task has made something, or more of it."""

    task: str
    context: str
    artifact: Artifact
    append: bool = False


@dataclass(slots=True)
class Task:
    """A task as far as it is known."""

    id: str = ""
    context: str = ""
    state: State = State.UNKNOWN
    message: Message | None = None
    artifacts: dict[str, Artifact] = field(default_factory=dict[str, Artifact])
    changed_at: int = 0


News = Task | Message | StatusNews | ArtifactNews


def add(task: Task, news: StatusNews | ArtifactNews) -> None:
    """Bring a task up to date."""
    task.id, task.context = task.id or news.task, task.context or news.context
    if isinstance(news, StatusNews):
        task.state, task.message = news.state, news.message
        return
    made = news.artifact
    known = task.artifacts.get(made.id)
    if news.append and known is not None:
        known.parts.extend(made.parts)
        known.extra = made.extra or known.extra
    else:
        task.artifacts[made.id] = made


def newest(tasks: Sequence[Task]) -> list[Task]:
    """Tasks, the one that changed last first."""
    return sorted(tasks, key=lambda each: each.changed_at, reverse=True)
