"""Turns every failure into problem+json (RFC 9457) with a code and a hint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Literal, cast

from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from plansmith import errors as err
from plansmith.plan.data import Json, stored_json
from plansmith.plan.problem import Problem, unusable
from plansmith.plan.sentence import LANGUAGES, Sentence, in_language, language_of
from plansmith.plan.validation_errors import broken_rule

MEDIA_TYPE: Final = "application/problem+json"
_STATUSES: Final[Mapping[type[err.PlansmithError], int]] = {
    err.UnreadableText: 400,
    err.PlanInvalid: 422,
    err.ReferenceFailed: 422,
    err.Misconfigured: 422,
    err.ModelBusy: 503,
    err.ModelFailed: 502,
    err.ToolBusy: 503,
    err.ToolFailed: 502,
    err.NotFound: 404,
    err.StoreAway: 503,
    err.JournalDamaged: 500,
    err.PlansmithError: 409,
}


class ProblemView(BaseModel):
    """One thing that is wrong with a plan."""

    code: str
    name: str
    severity: Literal["error", "warning", "note"]
    step: str | None
    path: list[str | int]
    message: str
    hint: str


class ProblemBody(BaseModel):
    """The body of every error response."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str = ""
    problems: list[dict[str, Json]] = []
    hash: str = ""


@dataclass(eq=False)
class HttpProblem(Exception):
    """An error with its HTTP status."""

    status: int
    code: str
    detail: str
    hint: str = field(default="", kw_only=True)
    problems: Sequence[Mapping[str, Any]] = field(default=(), kw_only=True)
    headers: Mapping[str, str] | None = field(default=None, kw_only=True)
    hash: str = field(default="", kw_only=True)
    unusable: Sequence[Problem] = field(default=(), kw_only=True)  # of a plan

    def response(self, language: str = "en") -> Response:
        """Makes the response, in the client's language as far as it is made of sentences."""
        body = {
            "type": f"urn:plansmith:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
        }
        if self.unusable and language != "en":
            body["detail"] = unusable(self.unusable, language)
        more = {"hint": self.hint, "problems": self.problems, "hash": self.hash}
        body |= {name: value for name, value in more.items() if value}
        text = stored_json(in_reader_language(body, language))
        return Response(text, self.status, self.headers, MEDIA_TYPE)


def wanted_language(accepted: str) -> str:
    """Returns the known language that an Accept-Language header prefers."""
    ranked: list[tuple[float, str]] = []
    for each in accepted[:1000].split(","):
        name, _, quality = each.partition(";q=")
        try:
            ranked.append((-float(quality or 1), name.strip()))
        except ValueError:
            continue
    ranked.sort(key=lambda each: each[0])
    known = (name for _, name in ranked if name[:2].lower() in LANGUAGES)
    return language_of(next(known, ""))


def in_reader_language(value: Any, language: str) -> Any:
    """Returns a JSON value with its sentences in the reader's language."""
    if language == "en":  # a sentence as a string is its English text
        return value
    if isinstance(value, str):
        return in_language(value, language)
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        return {name: in_reader_language(each, language) for name, each in fields.items()}
    if isinstance(value, (list, tuple)):
        return [in_reader_language(each, language) for each in cast("list[Any]", value)]
    return value


def not_found(what: str, name: str) -> HttpProblem:
    """Makes the error for a name that does not exist."""
    kind = Sentence(f"thing.{what.replace(' ', '_')}")
    detail = Sentence("there is no {what} '{name}'", what=kind, name=repr(name[:100])[1:-1])
    return HttpProblem(404, "not_found", detail)


def of_error(error: err.PlansmithError) -> HttpProblem:
    """Turns one of our errors into an HTTP error, by its class."""
    status = next(_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES)
    code = re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()
    problem = HttpProblem(status, code, error.message, hint=error.hint)
    if isinstance(error, err.ModelBusy) and error.retry_after is not None:
        problem.headers = {"Retry-After": str(max(1, round(error.retry_after)))}
    if isinstance(error, err.PlanInvalid):
        problem.unusable = [each for each in error.problems if isinstance(each, Problem)]
        problem.code, problem.problems = "invalid_plan", [*map(problem_view, problem.unusable)]
    return problem


def of_validation(error: ValidationError, where: str) -> HttpProblem:
    """Turns a validation error of a body or a query into an HTTP error."""
    errors = error.errors(include_url=False, include_input=False)[:20]
    problems = [{"path": [*map(str, each["loc"])], "message": broken_rule(each)} for each in errors]
    place = ".".join(map(str, errors[0]["loc"]))
    rule = broken_rule(errors[0])
    detail = Sentence("{where}: {rule}", where=where, rule=rule)
    if place:
        detail = Sentence("{where} ({place}): {rule}", where=where, place=place, rule=rule)
    hint = Sentence("see /openapi.json")
    return HttpProblem(422, "invalid_input", detail, hint=hint, problems=problems)


def problem_view(found: Problem) -> dict[str, Any]:
    """Returns a problem of a plan, with all its fields."""
    return {name: getattr(found, name) for name in ProblemView.model_fields}
