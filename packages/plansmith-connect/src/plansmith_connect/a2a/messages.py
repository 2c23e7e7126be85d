"""Reads what a remote agent sends, in A2A's own JSON: states, results and questions."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

from plansmith.check.schemas import BadSchema, validator
from plansmith.errors import InputNeeded, ToolFailed
from plansmith.plan.data import Json, canonical_hash
from plansmith.plan.sentence import Sentence
from plansmith.ports import Reply

# A task, a message or an artifact, as it is in JSON.
Body = dict[str, Any]

INPUT, AUTH, COMPLETED, REJECTED = "input required", "auth required", "completed", "rejected"
ENDED_BADLY: Final = frozenset({"failed", "canceled", REJECTED})
WAITING: Final = frozenset({INPUT, AUTH})
SETTLED: Final = ENDED_BADLY | WAITING | {COMPLETED}
UNKNOWN: Final = "unknown"
SIGNED_IN, CANNOT = "done", "cannot"
_MAX_CITATIONS: Final = 200
_CITED: Final = {
    **dict.fromkeys(("title", "name"), "title"),
    **dict.fromkeys(("url", "uri", "href"), "url"),
    **dict.fromkeys(("quote", "snippet", "text"), "quote"),
}
_TEXTS: Final = ("application/json", "application/xml")
_MAX_LENGTH: Final = 4000
_LINK: Final = re.compile(r"https?://[^\s<>\"'`)\]}]+")


def state_of(body: Body) -> str:
    """Returns the state of a task or an update, such as `working`; unknown if A2A has none such."""
    name = str(body.get("status", {}).get("state", ""))
    state = name.removeprefix("TASK_STATE_").lower().replace("_", " ")
    return state if state in SETTLED | {"submitted", "working"} else UNKNOWN


def message_of(body: Body) -> Body:
    """Returns the message beside the state; empty if there is none."""
    message: Body = body.get("status", {}).get("message", {})
    return message


def text_of(body: Body, between: str = "\n") -> str:
    """Returns the text of a message or an artifact."""
    return between.join(part["text"] for part in body.get("parts", ()) if part.get("text"))


def completed(message: Body) -> Body:
    """Returns a task for what an agent answered at once, without one."""
    return {"status": {"state": "TASK_STATE_COMPLETED", "message": message}}


def add(task: Body, update: Body) -> None:
    """Applies an update of its state or of an artifact to a task."""
    task["id"] = task.get("id") or update.get("taskId", "")
    task["contextId"] = task.get("contextId") or update.get("contextId", "")
    if "artifact" not in update:
        task["status"] = update.get("status", {})
        return
    made, artifacts = update["artifact"], task.setdefault("artifacts", [])
    name = made.get("artifactId", "")
    known = next((each for each in artifacts if each.get("artifactId", "") == name), None)
    if known is None:
        artifacts.append(made)
    elif update.get("append"):
        known["parts"] = [*known.get("parts", ()), *made.get("parts", ())]
        known["metadata"] = made.get("metadata") or known.get("metadata")
    else:
        artifacts[artifacts.index(known)] = made


def result_of(task: Body, *, binary_bytes: int) -> Json:
    """Returns the result of a completed task: its artifacts, else its last message."""
    last, made = message_of(task), task.get("artifacts", [])
    written = "\n\n".join(text for each in made if (text := text_of(each, "")))
    data, files, notes = list[Json](), list[Json](), list[Json]()
    for each in (*made, last):
        for part in each.get("parts", ()):
            if "data" in part:
                data.append(part["data"])
            elif "raw" in part or "url" in part:
                entry = _file(part, str(each.get("name", "")), binary_bytes, notes)
                binary_bytes -= entry["size"] if "text" in entry or "base64" in entry else 0
                files.append(entry)
    return {
        "text": written or text_of(last),
        "message": text_of(last),
        "data": data,
        "files": files,
        "citations": _citations([*made, last]),
        "notes": notes,
    }


def _file(part: Body, artifact: str, left: int, notes: list[Json]) -> Body:
    """Makes the entry of a file: size and hash always, its content while the size limit allows."""
    name, kind = str(part.get("filename") or artifact)[:300], str(part.get("mediaType", ""))[:100]
    entry: Body = {"name": name, "type": kind}
    if "raw" not in part:
        # An address is handed on, never fetched: it may lead anywhere.
        return {**entry, "url": part["url"]}
    raw = base64.b64decode(part["raw"])
    entry |= {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    if len(raw) > left:
        what = f"the content of {name or 'a file'} ({len(raw)} bytes)"
        notes.append(f"{what} is not kept: {left} bytes left")
        return {**entry, "note": "not kept: too large"}
    plain = kind.partition(";")[0].strip().lower()
    if plain.startswith("text/") or plain in _TEXTS:
        try:
            return {**entry, "text": raw.decode()}
        except UnicodeDecodeError:
            pass
    return {**entry, "base64": part["raw"]}


def _citations(made: Iterable[Body]) -> list[Json]:
    """Returns the sources that the agent lists under `citations`, each once."""
    found: dict[str, Json] = {}
    for each in made:
        for holder in (each.get("metadata"), *(part.get("data") for part in each.get("parts", ()))):
            listed = cast("Body", holder).get("citations") if isinstance(holder, dict) else None
            for entry in cast("list[Json]", listed) if isinstance(listed, list) else ():
                if cited := _citation(entry):
                    found[json.dumps(cited, sort_keys=True)] = cited
    return list(found.values())[:_MAX_CITATIONS]


def _citation(entry: Json) -> dict[str, Json]:
    if isinstance(entry, str):
        is_link = entry.startswith(("http://", "https://"))
        return {"url" if is_link else "title": entry[:2000]}
    cited: dict[str, Json] = {}
    for name, value in entry.items() if isinstance(entry, dict) else ():
        if name in _CITED and isinstance(value, str) and value:
            cited.setdefault(_CITED[name], value[:2000])
    return cited


class Asked(NamedTuple):
    """What a question must remember: which task waits for which answer; holds no secrets."""

    task: str
    context: str
    why: str
    question: str = ""
    times: int = 0


def asked_by(reply: Reply) -> Asked:
    """Returns what the answered question was about."""
    try:
        return Asked(**cast("dict[str, Any]", reply.state))
    except TypeError:
        raise ToolFailed(Sentence("the answer belongs to no question of this agent")) from None


def question_of(task: Body) -> str:
    """Returns the id of the question that a task waits on, so that no answer goes astray."""
    message = message_of(task)
    named = str(message.get("messageId", ""))[:200]
    return named or canonical_hash([state_of(task), text_of(message)])[:32]


def need_of(
    task: Body, *, who: str, times: int, links: Iterable[str], note: str = ""
) -> InputNeeded:
    """Makes the question to the person from a task that waits for input."""
    message, why = message_of(task), state_of(task)
    context = task.get("contextId", "")
    state = Asked(task.get("id", ""), context, why, question_of(task), times + 1)._asdict()
    text, schema, options = _read(message)
    text = f"{note}{text}".strip()
    if why == AUTH:
        question = text or f"{who} wants you to sign in"
        # Only these words are taken, so that nobody types a password into the journal.
        words, link = (SIGNED_IN, CANNOT), _link([*_LINK.findall(text_of(message)), *links])
        return InputNeeded(question[:_MAX_LENGTH], options=words, state=state, link=link)
    question = text or f"{who} waits for an answer but asks nothing"
    return InputNeeded(question[:_MAX_LENGTH], schema=schema, options=options, state=state)


def _read(message: Body) -> tuple[str, dict[str, Any] | None, tuple[str, ...]]:
    """Returns the text of a question and, if the agent gives one, the schema of its answer."""
    schema: dict[str, Any] | None = None
    options: tuple[str, ...] = ()
    texts = [text_of(message)]
    for data in (part["data"] for part in message.get("parts", ()) if "data" in part):
        form: Body = cast("Body", data) if isinstance(data, dict) else {}
        schema = schema or _schema(form.get("schema"))
        options = options or _options(form.get("options"))
        if not {"schema", "options"} & set(form):
            texts.append(json.dumps(data, ensure_ascii=False))
    return "\n".join(filter(None, texts)), schema, () if schema else options


def _schema(value: Json) -> dict[str, Any] | None:
    """Returns the schema for an answer; none if it is huge or refers to other documents."""
    if not isinstance(value, dict) or not value:
        return None
    text = json.dumps(value)
    if '"$' in text or len(text) > _MAX_LENGTH:
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


def _link(candidates: Iterable[str]) -> str:
    for each in candidates:
        parts = urlsplit(each.rstrip(".,;")) if len(each) <= 2000 else None
        if parts and parts.scheme in ("http", "https") and parts.hostname and not parts.password:
            return parts.geturl()
    return ""
