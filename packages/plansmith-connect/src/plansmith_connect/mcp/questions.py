"""Turns what an MCP server asks during a call into a question to the person."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlsplit

import mcp_types as types
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from pydantic import ValidationError

from plansmith.check.schemas import compiled
from plansmith.errors import InputNeeded, ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.text import clip, safe
from plansmith_connect.mcp.connection import Reply
from plansmith_connect.mcp.listing import is_sound

DECLINE: Final = "decline"
ACCEPT: Final = "accept"
DONE: Final = "done"
_MAX_LETTERS: Final = 2000
_MAX_SCHEMA: Final = 16_000

Asked = dict[str, Any]
_MAX_STATE: Final = 64 * 1024


def question_json(params: types.ElicitRequestParams) -> Asked:
    """Returns a server's question as JSON."""
    return params.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta"})


def input_needed(server: str, asked: Asked, state: Json) -> InputNeeded:
    """Makes the question to the person; quotes the server and allows to decline."""
    question = f"{safe(server)} asks: {clip(safe(str(asked.get('message', ''))), _MAX_LETTERS)}"
    if asked.get("mode") == "url":
        link = str(asked.get("url", ""))
        if urlsplit(link).scheme not in ("http", "https"):
            why = Sentence(
                "it wants to open a page with an invalid address: {link}", link=clip(safe(link))
            )
            raise ToolFailed(why)
        return InputNeeded(question, options=(DONE, DECLINE), state=state, link=link)
    schema = _schema(asked)
    if len(str(schema)) > _MAX_SCHEMA or not is_sound(schema):
        raise ToolFailed(Sentence("it asks for an answer in an unusable form"))
    if not schema.get("properties"):
        return InputNeeded(question, options=(ACCEPT, DECLINE), state=state)
    # The person may decline: then the answer is a word and not the form.
    form = {"anyOf": [schema, {"const": DECLINE, "title": "Decline to answer"}]}
    return InputNeeded(question, schema=form, state=state)


def _schema(asked: Asked) -> dict[str, Any]:
    schema = asked.get("requestedSchema")
    return cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}


def elicit_result(asked: Asked, answer: Json) -> types.ElicitResult:
    """Returns the person's answer for the server; adds nothing to it."""
    if answer == DECLINE:
        return types.ElicitResult(action="decline")
    schema, is_page = _schema(asked), asked.get("mode") == "url"
    if is_page or not schema.get("properties"):
        word = DONE if is_page else ACCEPT
        if answer != word:
            raise ToolFailed(
                Sentence("the answer has to be '{first}' or '{second}'", first=word, second=DECLINE)
            )
        return types.ElicitResult(action="accept", content=None if is_page else {})
    check = compiled(schema).validator
    try:
        if isinstance(answer, dict) and (check is None or check.is_valid(answer)):
            return types.ElicitResult.model_validate({"action": "accept", "content": answer})
    except ValidationError:
        pass
    raise ToolFailed(Sentence("the answer does not fit what was asked"))


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a server that waits for its answer during a call."""

    asked: Asked
    answer: asyncio.Future[types.ElicitResult | types.ErrorData]

    def settle(self, answer: types.ElicitResult | types.ErrorData) -> None:
        """Gives the answer, unless no one waits for it."""
        if not self.answer.done():
            self.answer.set_result(answer)


class Exchange:
    """A running call and the questions it raised (protocols before 2026)."""

    def __init__(
        self,
        begin: Callable[[Exchange], Coroutine[Any, Any, Reply]],
        *,
        progress: Callable[[str], None],
        most: int,
    ) -> None:
        self.progress = progress
        self.fault = ""
        self._call = asyncio.ensure_future(begin(self))
        self.expiry: asyncio.Task[None] | None = None
        self.open: list[Question] = []
        self._most, self._asked = most, 0
        self._news = asyncio.Event()

    async def ask(self, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """Waits for the person's answer; too many questions end the call."""
        self._asked += 1
        if self._asked > self._most:
            self.fault = Sentence(
                "it asked more than {most} questions in one call", most=self._most
            )
            self._call.cancel()
            return refusal(self.fault)
        question = Question(question_json(params), asyncio.get_running_loop().create_future())
        self.open.append(question)
        self._news.set()
        return await question.answer

    def answer(self, answer: Json) -> None:
        result = elicit_result(self.open[0].asked, answer)
        self.open.pop(0).settle(result)
        if not self.open:
            self._news.clear()

    def go_on(self, progress: Callable[[str], None]) -> None:
        """Reports progress to a new caller; the call no longer expires."""
        self.progress = progress
        if self.expiry is not None:
            self.expiry.cancel()

    async def next(self, seconds: float) -> Reply | Question:
        """Returns the result, or a question that must be answered first."""
        news = asyncio.ensure_future(self._news.wait())
        try:
            either = {self._call, news}
            await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
        if self._call.cancelled():
            raise ToolFailed(self.fault or Sentence("the call was given up"))
        if self._call.done():
            self._refuse_rest()
            return self._call.result()
        if not self.open:
            raise TimeoutError
        return self.open[0]

    async def drop(self) -> None:
        """Cancels the call, also at the server; reports nothing more."""
        self.go_on(lambda _: None)
        self._refuse_rest()
        if not self._call.done():
            self._call.cancel()
            await asyncio.wait({self._call})
        if not self._call.cancelled():
            self._call.exception()

    def _refuse_rest(self) -> None:
        for question in self.open:
            question.settle(refusal("the call is over"))
        self.open.clear()


def refusal(why: str) -> types.ErrorData:
    """Returns a refusal to answer: the server learns that no one answered."""
    return types.ErrorData(code=types.INVALID_REQUEST, message=why)


def questions_of(
    server: str, result: types.InputRequiredResult, *, rounds: int, most: int
) -> InputNeeded:
    """Makes the first question of a server that needs answers before it works."""
    asked = dict[str, Any]()
    for key, each in (result.input_requests or {}).items():
        if not isinstance(each, types.ElicitRequest):
            why = Sentence("it asks for {method}, which is not supported here", method=each.method)
            raise ToolFailed(why)
        asked[key] = question_json(each.params)
    return _ask(server, asked, rounds=rounds, most=most, more={"state": result.request_state})


def pages_of(server: str, error: MCPError, *, rounds: int, most: int) -> InputNeeded:
    """Makes the first question of a server (2025) that needs pages opened before a call."""
    try:
        pages = UrlElicitationRequiredError.from_error(error.error).elicitations
    except (ValidationError, AttributeError):
        pages = []
    if not pages:
        raise ToolFailed(Sentence("it asks for pages to be opened, and names none"))
    asked = {f"page {number}": question_json(each) for number, each in enumerate(pages, start=1)}
    return _ask(server, asked, rounds=rounds, most=most, more={"pages": True})


def _ask(
    server: str, asked: dict[str, Any], *, rounds: int, most: int, more: dict[str, Any]
) -> InputNeeded:
    state = {"asked": asked, "answers": {}, "rounds": rounds, **more}
    if len(asked) > most or len(str(state)) > _MAX_STATE:
        raise ToolFailed(Sentence("its question is too large to be stored"))
    return input_needed(server, next(iter(asked.values())), state)


def take_answer(server: str, state: Json, answer: Json) -> dict[str, Any]:
    """Adds an answer; raises the next question, or returns what the call is made again with."""
    try:
        held = cast("dict[str, Any]", state)
        left = [key for key in held["asked"] if key not in held["answers"]]
        made = elicit_result(held["asked"][left[0]], answer)
        given = made.model_dump(mode="json", by_alias=True, exclude_none=True)
        answers = {**held["answers"], left[0]: given}
        if len(left) > 1:
            raise input_needed(server, held["asked"][left[1]], {**held, "answers": answers})
        rounds = int(held["rounds"])
        if not held.get("pages"):
            responses = {
                key: types.ElicitResult.model_validate(each) for key, each in answers.items()
            }
            return {"responses": responses, "state": held["state"], "rounds": rounds}
    except (KeyError, IndexError, TypeError, ValidationError):
        raise ToolFailed(Sentence("the answer belongs to no open question")) from None
    if any(each["action"] != "accept" for each in answers.values()):
        raise ToolFailed(Sentence("you answered {answer}", answer=DECLINE))
    return {"rounds": rounds}
