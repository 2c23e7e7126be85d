"""Records of what a remote agent sends: messages, task states, results and questions."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

from plansmith.check.schemas import BadSchema, validator
from plansmith.errors import InputNeeded, ToolFailed
from plansmith.plan.data import Json, content_hash
from plansmith.plan.sentence import Sentence
from plansmith.ports import Reply

_MOST_CITATIONS: Final = 200
_WORDS: Final = {"title": "title", "name": "title", "url": "url", "uri": "url", "href": "url"}
_QUOTES: Final = ("quote", "snippet", "text")
LOOK, SEND, GIVE_UP = "look again", "send again", "give up"
SIGNED_IN, CANNOT = "done", "cannot"
_LONGEST: Final = 4000
_LINK: Final = re.compile(r"https?://[^\s<>\"'`)\]}]+")


class State(StrEnum):
    """The state of a task; `unknown` is any state that the protocol does not define."""

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
    """A message in parts; `extra` is the sender's own metadata."""

    id: str = ""
    parts: tuple[Part, ...] = ()
    extra: Json = None

    @property
    def text(self) -> str:
        """The text of the message."""
        return "\n".join(part.text for part in self.parts if part.text)


@dataclass(slots=True)
class Artifact:
    """Output of a task; more may still be appended to it."""

    id: str
    name: str = ""
    parts: list[Part] = field(default_factory=list[Part])
    extra: Json = None

    @property
    def text(self) -> str:
        """The text of the artifact: its parts joined without separators."""
        return "".join(part.text for part in self.parts if part.text)


@dataclass(frozen=True, slots=True)
class StatusNews:
    """An update: a task changed its state."""

    task: str
    context: str
    state: State
    message: Message | None = None


@dataclass(frozen=True, slots=True)
class ArtifactNews:
    """An update: a task has new output, or more of it."""

    task: str
    context: str
    artifact: Artifact
    append: bool = False


@dataclass(slots=True)
class Task:
    """A task, as far as updates have told us about it."""

    id: str = ""
    context: str = ""
    state: State = State.UNKNOWN
    message: Message | None = None
    artifacts: dict[str, Artifact] = field(default_factory=dict[str, Artifact])
    changed_at: int = 0


News = Task | Message | StatusNews | ArtifactNews


def add(task: Task, news: StatusNews | ArtifactNews) -> None:
    """Applies an update to a task."""
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
    """Sorts tasks, the last changed first."""
    return sorted(tasks, key=lambda each: each.changed_at, reverse=True)


def task_result(task: Task, *, binary_bytes: int) -> Json:
    """Returns the result of a completed task: its artifacts, else its last message."""
    last = task.message or Message()
    made = list(task.artifacts.values())
    written = "\n\n".join(text for each in made if (text := each.text))
    closing = Artifact("", parts=list(last.parts), extra=last.extra)
    return _result(written or last.text, last.text, [*made, closing], binary_bytes)


def message_result(message: Message, *, binary_bytes: int) -> Json:
    """Returns the result of an agent that answered with a message and no task."""
    only = Artifact("", parts=list(message.parts), extra=message.extra)
    return _result(message.text, message.text, [only], binary_bytes)


def _result(text: str, message: str, made: list[Artifact], binary_bytes: int) -> Json:
    data: list[Json] = []
    files: list[Json] = []
    notes: list[Json] = []
    left = binary_bytes
    for each in made:
        for part in each.parts:
            if part.raw is not None or part.url:
                entry, left = _file(part, each.name, left, notes)
                files.append(entry)
            elif part.text is None:
                data.append(part.data)
    return {
        "text": text,
        "message": message,
        "data": data,
        "files": files,
        "citations": list(_citations(made)),
        "notes": notes,
    }


def _file(part: Part, artifact: str, left: int, notes: list[Json]) -> tuple[Json, int]:
    """Makes the entry of a file: size and hash always, its content while the size limit allows."""
    name = part.name or artifact
    entry: dict[str, Json] = {"name": name, "type": part.kind}
    if part.raw is None:
        # An address is handed on, never fetched: it may lead anywhere.
        return {**entry, "url": part.url}, left
    size = len(part.raw)
    entry |= {"size": size, "sha256": hashlib.sha256(part.raw).hexdigest()}
    if size > left:
        note = f"the content of {name or 'a file'} ({size} bytes) is not kept: {left} bytes left"
        notes.append(note)
        return {**entry, "note": "not kept: too large"}, left
    text = _as_text(part)
    content: dict[str, Json] = (
        {"base64": base64.b64encode(part.raw).decode()} if text is None else {"text": text}
    )
    return entry | content, left - size


def _as_text(part: Part) -> str | None:
    """Returns a file's content as text, if its media type is text and it decodes."""
    kind = part.kind.partition(";")[0].strip().lower()
    if not (kind.startswith("text/") or kind in ("application/json", "application/xml")):
        return None
    try:
        return (part.raw or b"").decode()
    except UnicodeDecodeError:
        return None


def _citations(made: Iterable[Artifact]) -> list[Json]:
    """Returns the sources that the agent lists under `citations`, each once."""
    found: dict[str, Json] = {}
    for each in made:
        for holder in (each.extra, *(part.data for part in each.parts)):
            listed = holder.get("citations") if isinstance(holder, dict) else None
            for entry in listed if isinstance(listed, list) else []:
                cited = _citation(entry)
                if cited:
                    found[json.dumps(cited, sort_keys=True)] = cited
    return list(found.values())[:_MOST_CITATIONS]


def _citation(entry: Json) -> dict[str, Json]:
    if isinstance(entry, str):
        is_link = entry.startswith(("http://", "https://"))
        return {"url" if is_link else "title": entry[:2000]}
    if not isinstance(entry, dict):
        return {}
    cited: dict[str, Json] = {}
    for name, value in entry.items():
        key = "quote" if name in _QUOTES else _WORDS.get(name)
        if key and isinstance(value, str) and value:
            cited.setdefault(key, value[:2000])
    return cited


LOST: Final = "lost"


class Asked(NamedTuple):
    """What a question must remember: which task waits for which answer; holds no secrets."""

    task: str
    context: str
    why: str
    question: str = ""
    times: int = 0
    known: Sequence[str] = ()


def question_of(task: Task) -> str:
    """Returns the id of the question that a task waits on, so that no answer goes astray."""
    message = task.message or Message()
    return message.id or content_hash([task.state.value, message.text])[:32]


def need_of(
    task: Task, *, who: str, times: int, links: Iterable[str], note: str = ""
) -> InputNeeded:
    """Makes the question to the person from a task that waits for input."""
    asked = Asked(task.id, task.context, task.state.value, question_of(task), times + 1)
    message = task.message or Message()
    text, schema, options = _read(message)
    text = f"{note}{text}".strip()
    if task.state is State.AUTH:
        link = _link([*_LINK.findall(message.text), *_addresses(message), *links])
        question = text or f"{who} wants you to sign in"
        # Only these words are taken, so that nobody types a password into the journal.
        return InputNeeded(
            question[:_LONGEST], options=(SIGNED_IN, CANNOT), state=_state(asked), link=link
        )
    question = (text or f"{who} waits for an answer but asks nothing")[:_LONGEST]
    return InputNeeded(question, schema=schema, options=options, state=_state(asked))


def lost(asked: Asked, why: str, *, who: str) -> InputNeeded:
    """Asks the person what to do when it is unknown whether the agent did the work."""
    if asked.task:
        text = f"It is unknown how the work of {who} ended: {why}. "
        text += f"Its task {asked.task} had started."
        return InputNeeded(text, options=(LOOK, GIVE_UP), state=_state(asked))
    text = f"The answer of {who} was lost: {why}. It is unknown whether it has started the work."
    return InputNeeded(text, options=(LOOK, SEND, GIVE_UP), state=_state(asked))


def _state(asked: Asked) -> dict[str, Json]:
    return {**asked._asdict(), "known": list(asked.known)}


def asked_by(reply: Reply) -> Asked:
    """Returns what the answered question was about."""
    try:
        return Asked(**cast("dict[str, Any]", reply.state))
    except TypeError:
        raise ToolFailed(Sentence("the answer belongs to no question of this agent")) from None


def gave_up(reply: Reply) -> bool:
    """Whether the person gave up lost work; the agent need not be told."""
    return reply.answer == GIVE_UP and asked_by(reply).why == LOST


def answer_parts(answer: Json, *, as_data: bool) -> list[Part]:
    """Makes a message of a person's answer."""
    if isinstance(answer, str):
        return [Part(text=answer)]
    if as_data:
        return [Part(data=answer)]
    return [Part(text=json.dumps(answer, ensure_ascii=False), kind="application/json")]


def _read(message: Message) -> tuple[str, dict[str, Any] | None, tuple[str, ...]]:
    """Returns the text of a question and, if the agent gives one, the schema of its answer."""
    schema: dict[str, Any] | None = None
    options: tuple[str, ...] = ()
    texts = [message.text]
    for part in message.parts:
        if part.text is not None or part.raw is not None or part.url:
            continue
        form = part.data if isinstance(part.data, dict) else {}
        schema = schema or _schema(form.get("schema"))
        options = options or _options(form.get("options"))
        if not {"schema", "options"} & set(form):
            texts.append(json.dumps(part.data, ensure_ascii=False))
    return "\n".join(text for text in texts if text), schema, () if schema else options


def _schema(value: Json) -> dict[str, Any] | None:
    """Returns the schema for an answer; none if it is huge or refers to other documents."""
    if not isinstance(value, dict) or not value:
        return None
    text = json.dumps(value)
    if '"$' in text or len(text) > _LONGEST:
        return None
    try:
        validator(value)
    except BadSchema:
        return None
    return value


def _options(value: Json) -> tuple[str, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= 50:
        return ()
    texts = tuple(each for each in value if isinstance(each, str) and 0 < len(each.strip()) <= 200)
    return texts if len(texts) == len(value) else ()


def _addresses(message: Message) -> Iterable[str]:
    """Returns the addresses in a message's data and links."""
    for part in message.parts:
        yield part.url
        if isinstance(part.data, dict):
            yield from (value for value in part.data.values() if isinstance(value, str))


def _link(candidates: Iterable[str]) -> str:
    for each in candidates:
        parts = urlsplit(each.rstrip(".,;")) if len(each) <= 2000 else None
        if parts and parts.scheme in ("http", "https") and parts.hostname and not parts.password:
            return parts.geturl()
    return ""
