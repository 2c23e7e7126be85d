"""Failures: what an error of a call means, so that nothing is repeated that may have happened."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final, cast

from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
)

from plansmith.errors import OutcomeUnknown, ToolBusy, ToolFailed
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.review.render import clip, safe

_MOST_LETTERS: Final = 1000
_SESSION_ENDED: Final = "Session terminated"
_TURNED_AWAY: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_HALF_WAY: Final = (HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT)
_NEVER_MADE: Final = (INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND)
_NOT_ALLOWED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def lost(spec: ToolSpec, why: str) -> ToolFailed:
    """A call whose end nobody saw: a read is worth another try, the runner decides the others."""
    if spec.effect is Effect.READ:
        return ToolBusy(f"{spec.name} gave no result: {why}")
    unknown = f"{spec.name} gave no result, and may have done its work: {why}"
    return OutcomeUnknown(unknown)


def went_wrong(spec: ToolSpec, why: str, *, hint: str = "") -> ToolFailed:
    """A call that was made and gave no result: what changes things may have changed them."""
    failure = ToolFailed if spec.effect is Effect.READ else OutcomeUnknown
    return failure(why, hint=hint)


def is_repeatable(spec: ToolSpec) -> bool:
    """Whether a call may be made twice."""
    return spec.effect is Effect.READ or spec.idempotent


def is_session_end(error: MCPError) -> bool:
    """Whether a server has forgotten us, and has to be greeted again."""
    return error.code == INVALID_REQUEST and error.message == _SESSION_ENDED


def call_failure(error: MCPError, spec: ToolSpec, *, words: str) -> ToolFailed:
    """The failure that an error reply, or none at all, stands for."""
    data: Any = error.data
    about = cast("dict[str, Any]", data if isinstance(data, dict) else {})
    http = about.get("http")
    text = clip(safe(words), _MOST_LETTERS)
    if is_session_end(error) or error.code == HEADER_MISMATCH:
        return ToolBusy(f"{spec.name} was not called: its server wants to be greeted again")
    if error.code == CONNECTION_CLOSED:
        return lost(spec, text)
    if http is not None and (about.get("sent") is False or http in _TURNED_AWAY):
        return ToolBusy(f"{spec.name} was not called: {text}")
    if http in _HALF_WAY:
        return lost(spec, text)
    if http in _NOT_ALLOWED:
        return ToolFailed(f"{spec.name}: {text}", hint="check the headers of the server")
    if error.code == PARSE_ERROR:
        return went_wrong(spec, f"{spec.name} was called, and its reply cannot be read: {text}")
    if error.code in _NEVER_MADE:
        return ToolFailed(f"{spec.name}: {text}")
    return went_wrong(spec, f"{spec.name}: {text}")
