"""Questions: an agent that waits for the person, as a question; and the answer, as a message."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

from plansmith.adapters.agents.a2a.speech import Message, Part, State, Task
from plansmith.errors import InputNeeded, ToolFailed
from plansmith.plan.data import Json, content_hash
from plansmith.planner.checking.schemas import BadSchema, validator
from plansmith.ports import Reply

LOOK, SEND, GIVE_UP = "look again", "send again", "give up"
SIGNED_IN, CANNOT = "done", "cannot"
LOST: Final = "lost"
_LONGEST: Final = 4000
_LINK: Final = re.compile(r"https?://[^\s<>\"'`)\]}]+")


class Asked(NamedTuple):
    """What a question left behind: which task waits for which answer, and nothing secret."""

    task: str
    context: str
    why: str
    question: str = ""
    times: int = 0
    known: Sequence[str] = ()


def question_of(task: Task) -> str:
    """Which question a waiting task asks, so that no answer reaches another one."""
    message = task.message or Message()
    return message.id or content_hash([task.state.value, message.text])[:32]


def need_of(
    task: Task, *, who: str, times: int, links: Iterable[str], note: str = ""
) -> InputNeeded:
    """The question that a waiting task asks the person."""
    asked = Asked(task.id, task.context, task.state.value, question_of(task), times + 1)
    message = task.message or Message()
    text, schema, options = _read(message)
    text = f"{note}{text}".strip()
    if task.state is State.AUTH:
        link = _link([*_LINK.findall(message.text), *_addresses(message), *links])
        told = text or f"{who} wants you to sign in"
        # Only these words are taken, so that nobody types a password into the journal.
        return InputNeeded(
            told[:_LONGEST], options=(SIGNED_IN, CANNOT), state=_state(asked), link=link
        )
    told = (text or f"{who} waits for an answer and does not say to what")[:_LONGEST]
    return InputNeeded(told, schema=schema, options=options, state=_state(asked))


def lost(asked: Asked, why: str, *, who: str) -> InputNeeded:
    """Ask the person what to do when nobody knows what became of the work."""
    if asked.task:
        text = f"What became of the work of {who} is not to be found out: {why}. "
        text += f"Its task {asked.task} was under way."
        return InputNeeded(text, options=(LOOK, GIVE_UP), state=_state(asked))
    text = f"The answer of {who} was lost: {why}. Nobody knows whether it has begun the work."
    return InputNeeded(text, options=(LOOK, SEND, GIVE_UP), state=_state(asked))


def _state(asked: Asked) -> dict[str, Json]:
    return {**asked._asdict(), "known": list(asked.known)}


def asked_by(reply: Reply) -> Asked:
    """What the question was about that a reply answers."""
    try:
        return Asked(**cast("dict[str, Any]", reply.state))
    except TypeError:
        raise ToolFailed("the answer belongs to no question of this agent") from None


def gave_up(reply: Reply) -> bool:
    """Whether a person wants no more of work that was lost; that needs no word to the agent."""
    return reply.answer == GIVE_UP and asked_by(reply).why == LOST


def answer_parts(answer: Json, *, as_data: bool) -> list[Part]:
    """A person's answer as a message."""
    if isinstance(answer, str):
        return [Part(text=answer)]
    if as_data:
        return [Part(data=answer)]
    return [Part(text=json.dumps(answer, ensure_ascii=False), kind="application/json")]


def _read(message: Message) -> tuple[str, dict[str, Any] | None, tuple[str, ...]]:
    """The words of a question, and the form of its answer where the agent gives one."""
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
    """A schema an answer can be checked with; one that is huge or must be fetched is left out."""
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
    """Addresses in the parts of a message that hold values or links."""
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
