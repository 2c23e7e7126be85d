"""Converts results of MCP calls to JSON, and errors to failures that say if a retry may help."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError

from plansmith.errors import ToolBusy, ToolFailed
from plansmith.plan.data import Json, flaws
from plansmith.plan.sentence import Sentence
from plansmith.text import clip, safe
from plansmith_connect.mcp.delivery import Delivery

_MAX_LETTERS: Final = 1000
_PASSING: Final = (
    *(HTTPStatus.NOT_FOUND, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY),
    *(HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_GATEWAY),
    *(HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT),
)
_NOT_ALLOWED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_MAX_WORDS = 2000


def call_failure(error: MCPError, name: str, delivery: Delivery, *, message: str) -> ToolFailed:
    """Makes the failure for an error reply or a missing reply; busy if another try may help."""
    text = clip(safe(message), _MAX_LETTERS)
    if not delivery.sent:
        return ToolBusy(Sentence("{name} was not called: {why}", name=name, why=text))
    why = Sentence("{name} gave no result: {why}", name=name, why=text)
    if (
        error.code in (types.CONNECTION_CLOSED, types.HEADER_MISMATCH)
        or delivery.status in _PASSING
    ):
        return ToolBusy(why, retry_after=delivery.retry_after)
    if delivery.status in _NOT_ALLOWED:
        return ToolFailed(why, hint=Sentence("check the headers of the server"))
    if error.code == types.PARSE_ERROR:
        return ToolFailed(
            Sentence("{name} was called, and its reply cannot be read: {why}", name=name, why=text)
        )
    return ToolFailed(f"{name}: {text}")


def result_json(
    result: types.CallToolResult,
    *,
    has_schema: bool,
    binary_bytes: int,
    note: Callable[[str], None],
) -> Json:
    """Returns the result of a call: structured content, else text, else its parts.

    Text alone is a text. With images, sounds or resources it is `{"text", "parts"}`. Whether a
    result fits the tool's schema is for whoever called.
    """
    if result.is_error:
        raise ToolFailed(
            clip(safe(_text(result)), _MAX_WORDS) or Sentence("it failed without a message")
        )
    structured = cast("Json", result.structured_content)
    has_structured = structured is not None or "structured_content" in result.model_fields_set
    others = [each for each in result.content if not isinstance(each, types.TextContent)]
    parts: list[Json] = [_part(each, binary_bytes) for each in others]
    value: Json = {"text": _text(result), "parts": parts} if parts else _text(result)
    if has_structured and (structured is not None or has_schema):
        if parts:
            note(f"{len(parts)} parts beside the structured result are left out")
        value = structured
    flaw = next(flaws(value), None)
    if flaw is not None:
        raise ToolFailed(Sentence("its result cannot be stored as JSON: {why}", why=flaw.message))
    return value


def _text(result: types.CallToolResult) -> str:
    return "\n".join(each.text for each in result.content if isinstance(each, types.TextContent))


def _part(part: object, most: int) -> Json:
    match part:
        case types.ImageContent() | types.AudioContent():
            return {"kind": part.type, **_binary(part.data, part.mime_type, most)}
        case types.ResourceLink():
            names = ("uri", "name", "mime_type", "description")
            return _known(kind="link", **{name: getattr(part, name) for name in names})
        case types.EmbeddedResource(resource=types.TextResourceContents() as held):
            return _known(kind="resource", uri=held.uri, mime_type=held.mime_type, text=held.text)
        case types.EmbeddedResource(resource=types.BlobResourceContents() as blob):
            binary = _binary(blob.blob, blob.mime_type or "", most)
            return {"kind": "resource", "uri": blob.uri, **binary}
        case _:
            return {"kind": "unknown", "left_out": type(part).__name__}


def _known(**fields: str | None) -> Json:
    return {key: value for key, value in fields.items() if value is not None}


def _binary(data: str, mime_type: str, most: int) -> dict[str, Json]:
    """Returns binary data with size and hash, and in base64 if it is not too large."""
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
