"""Rounds: questions a server gives back instead of a result, and the state that answers them.

A server of the 2026 protocol forgets the call meanwhile, so all of this is plain JSON in the
journal and outlives a restart on either side.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types import ElicitRequest, ElicitResult, InputRequiredResult
from pydantic import ValidationError

from plansmith.adapters.tools.mcp.questions import DECLINE, asked_of, elicited, need
from plansmith.errors import InputNeeded, ToolFailed
from plansmith.plan.data import Json

_MOST_STATE: Final = 64 * 1024


class Again(NamedTuple):
    """What the next try of a call takes along."""

    responses: dict[str, Any] | None
    state: str | None
    rounds: int


def questions_of(
    server: str, result: InputRequiredResult, *, rounds: int, most: int
) -> InputNeeded:
    """The first question of a server that wants answers before it works."""
    asked = dict[str, Any]()
    for key, each in (result.input_requests or {}).items():
        if not isinstance(each, ElicitRequest):
            raise ToolFailed(f"it asks for {each.method}, which is not given here")
        asked[key] = asked_of(each.params)
    return _ask(server, asked, rounds=rounds, most=most, more={"state": result.request_state})


def pages_of(server: str, error: MCPError, *, rounds: int, most: int) -> InputNeeded:
    """The first page of a server (2025) that refuses a call until pages have been opened."""
    try:
        pages = UrlElicitationRequiredError.from_error(error.error).elicitations
    except (ValidationError, AttributeError):
        pages = []
    if not pages:
        raise ToolFailed("it asks for pages to be opened, and names none")
    asked = {f"page {number}": asked_of(each) for number, each in enumerate(pages, start=1)}
    return _ask(server, asked, rounds=rounds, most=most, more={"pages": True})


def _ask(
    server: str, asked: dict[str, Any], *, rounds: int, most: int, more: dict[str, Any]
) -> InputNeeded:
    state = {"asked": asked, "answers": {}, "rounds": rounds, **more}
    if len(asked) > most or len(str(state)) > _MOST_STATE:
        raise ToolFailed("it asks for more than can be kept")
    return need(server, next(iter(asked.values())), state)


def take_answer(server: str, state: Json, answer: Json) -> Again:
    """Take one answer in; another question is raised, or the call can be made again."""
    try:
        held = cast("dict[str, Any]", state)
        left = [key for key in held["asked"] if key not in held["answers"]]
        made = elicited(held["asked"][left[0]], answer)
        given = made.model_dump(mode="json", by_alias=True, exclude_none=True)
        answers = {**held["answers"], left[0]: given}
        if len(left) > 1:
            raise need(server, held["asked"][left[1]], {**held, "answers": answers})
        if held.get("pages"):
            return _opened(answers, int(held["rounds"]))
        responses = {key: ElicitResult.model_validate(each) for key, each in answers.items()}
        return Again(responses, held["state"], int(held["rounds"]))
    except (KeyError, IndexError, TypeError, ValidationError):
        raise ToolFailed("the answer is to no question that was asked") from None


def _opened(answers: dict[str, Any], rounds: int) -> Again:
    if any(each["action"] != "accept" for each in answers.values()):
        raise ToolFailed(f"you answered {DECLINE}")
    return Again(None, None, rounds)
