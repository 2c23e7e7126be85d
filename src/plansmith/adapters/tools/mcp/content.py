"""Content: the result of a call as JSON; binary parts are bounded, and what is left out is told."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from typing import Any, cast

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from plansmith.errors import ToolFailed
from plansmith.plan.data import Json, flaws
from plansmith.planner.checking.schemas import compiled
from plansmith.review.render import clip, safe

_MOST_WORDS = 2000


def result_json(
    result: CallToolResult,
    *,
    schema: dict[str, Json] | None,
    binary_bytes: int,
    note: Callable[[str], None],
) -> Json:
    """What a call gave: its structured content if there is some, else its text, else its parts.

    Text alone is a text. With images, sounds or resources it is `{"text", "parts"}`.
    """
    if result.is_error:
        raise ToolFailed(clip(safe(_text(result)), _MOST_WORDS) or "it failed without a word")
    structured = cast("Json", result.structured_content)
    has_structured = structured is not None or "structured_content" in result.model_fields_set
    if schema is not None:
        _check(structured, schema, given=has_structured)
    value: Json
    parts: list[Json] = [_part(each, binary_bytes) for each in _others(result)]
    if has_structured and (structured is not None or schema is not None):
        if parts:
            note(f"{len(parts)} parts beside the structured result are left out")
        value = structured
    elif parts:
        value = {"text": _text(result), "parts": parts}
    else:
        value = _text(result)
    flaw = next(flaws(value), None)
    if flaw is not None:
        raise ToolFailed(f"its result is not JSON that can be kept: {flaw.message}")
    return value


def _check(value: Json, schema: dict[str, Json], *, given: bool) -> None:
    if not given:
        raise ToolFailed("it promises a structured result, and gave none")
    validator, _ = compiled(schema)
    error = next(validator.iter_errors(value), None) if validator is not None else None
    if error is not None:
        raise ToolFailed(f"its result does not fit its own schema: {clip(safe(error.message))}")


def _text(result: CallToolResult) -> str:
    return "\n".join(each.text for each in result.content if isinstance(each, TextContent))


def _others(result: CallToolResult) -> list[Any]:
    return [each for each in result.content if not isinstance(each, TextContent)]


def _part(part: object, most: int) -> Json:
    match part:
        case ImageContent() | AudioContent():
            return {"kind": part.type, **_binary(part.data, part.mime_type, most)}
        case ResourceLink():
            return _known(
                kind="link",
                uri=part.uri,
                name=part.name,
                mime_type=part.mime_type,
                description=part.description,
            )
        case EmbeddedResource(resource=TextResourceContents() as held):
            return _known(kind="resource", uri=held.uri, mime_type=held.mime_type, text=held.text)
        case EmbeddedResource(resource=BlobResourceContents() as blob):
            binary = _binary(blob.blob, blob.mime_type or "", most)
            return {"kind": "resource", "uri": blob.uri, **binary}
        case _:
            return {"kind": "unknown", "left_out": type(part).__name__}


def _known(**fields: str | None) -> Json:
    return {key: value for key, value in fields.items() if value is not None}


def _binary(data: str, mime_type: str, most: int) -> dict[str, Json]:
    """Binary data in base64 if it is not too large, and always its size and hash."""
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return {"mime_type": mime_type, "left_out": "it is not base64"}
    about: dict[str, Json] = {
        "mime_type": mime_type,
        "bytes": len(raw),
        "sha256": hashlib.sha256(raw).hexdigest(),
    }
    if len(raw) > most:
        return {**about, "left_out": f"it is larger than {most:,} bytes"}
    return {**about, "data": data}
