"""Results: what an agent said and made, as one value of a fixed shape that plans can refer to."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from typing import Final

from plansmith.adapters.agents.a2a.speech import Artifact, Message, Part, Task
from plansmith.plan.data import Json

_MOST_CITATIONS: Final = 200
_WORDS: Final = {"title": "title", "name": "title", "url": "url", "uri": "url", "href": "url"}
_QUOTES: Final = ("quote", "snippet", "text")


def task_result(task: Task, *, binary_bytes: int) -> Json:
    """What a completed task came to: its artifacts, else its last words."""
    last = task.message or Message()
    made = list(task.artifacts.values())
    written = "\n\n".join(text for each in made if (text := each.text))
    closing = Artifact("", parts=list(last.parts), extra=last.extra)
    return _result(written or last.text, last.text, [*made, closing], binary_bytes)


def message_result(message: Message, *, binary_bytes: int) -> Json:
    """What an agent that answered at once said."""
    only = Artifact("", parts=list(message.parts), extra=message.extra)
    return _result(message.text, message.text, [only], binary_bytes)


def _result(text: str, said: str, made: list[Artifact], binary_bytes: int) -> Json:
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
        "message": said,
        "data": data,
        "files": files,
        "citations": list(_citations(made)),
        "notes": notes,
    }


def _file(part: Part, artifact: str, left: int, notes: list[Json]) -> tuple[Json, int]:
    """A file as an entry: its content while there is room, its size and hash always."""
    name = part.name or artifact
    entry: dict[str, Json] = {"name": name, "type": part.kind}
    if part.raw is None:
        # An address is handed on, never fetched: it may lead anywhere.
        return {**entry, "url": part.url}, left
    size = len(part.raw)
    entry |= {"size": size, "sha256": hashlib.sha256(part.raw).hexdigest()}
    if size > left:
        told = f"the content of {name or 'a file'} ({size} bytes) is not kept: {left} bytes of room"
        notes.append(told)
        return {**entry, "note": "not kept: too large"}, left
    text = _as_text(part)
    kept: dict[str, Json] = (
        {"base64": base64.b64encode(part.raw).decode()} if text is None else {"text": text}
    )
    return entry | kept, left - size


def _as_text(part: Part) -> str | None:
    """The text of a file that says it is one and is."""
    kind = part.kind.partition(";")[0].strip().lower()
    if not (kind.startswith("text/") or kind in ("application/json", "application/xml")):
        return None
    try:
        return (part.raw or b"").decode()
    except UnicodeDecodeError:
        return None


def _citations(made: Iterable[Artifact]) -> list[Json]:
    """Sources the agent names, in metadata or data, under `citations`; each once."""
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
