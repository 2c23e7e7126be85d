"""Turns every failure into problem+json (RFC 9457) with a code and a hint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError
from starlette.responses import JSONResponse

from plansmith import errors as err
from plansmith.plan.data import Json
from plansmith.plan.limits import broken_rule
from plansmith.plan.problem import Problem
from plansmith.plan.sentence import LANGUAGES, Sentence, in_language, language_of

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
    err.InputNeeded: 409,
    err.NotFound: 404,
    err.Refused: 409,
    err.StoreAway: 503,
    err.JournalDamaged: 500,
    err.JournalError: 409,
}
# Codes that programs know by an earlier name of the error.
_CODES: Final = {"plan_invalid": "invalid_plan"}
_TITLES: Final = {
    400: "Bad request",
    401: "Token required",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict with the current state",
    412: "Precondition failed",
    413: "Too large",
    415: "Unsupported media type",
    421: "Wrong host",
    422: "Invalid content",
    428: "Precondition required",
    429: "Too many requests",
    500: "Internal server error",
    502: "A model or tool failed",
    503: "Temporarily unavailable",
}


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


class HttpProblem(Exception):
    """An error with its HTTP status."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        hint: str = "",
        problems: Sequence[Mapping[str, Json]] = (),
        headers: Mapping[str, str] | None = None,
        digest: str = "",
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.hint = hint
        self.problems = problems
        self.headers = dict(headers or {})
        self.digest = digest

    def response(self, language: str = "en") -> JSONResponse:
        """Makes the response, in the client's language as far as it is made of sentences."""
        body = ProblemBody(
            type=f"urn:plansmith:{self.code}",
            title=_TITLES.get(self.status, "Request failed"),
            status=self.status,
            detail=in_language(self.detail, language),
            code=self.code,
            hint=in_language(self.hint, language),
            problems=[dict(in_reader_language(each, language)) for each in self.problems],
            hash=self.digest,
        )
        content = body.model_dump(mode="json", exclude_defaults=True)
        return JSONResponse(content, self.status, self.headers, MEDIA_TYPE)


def wanted_language(accepted: str) -> str:
    """Returns the known language that an Accept-Language header prefers."""
    ranked: list[tuple[float, str]] = []
    for each in accepted[:1000].split(","):
        name, _, quality = each.partition(";q=")
        try:
            ranked.append((-float(quality or 1), name.strip()))
        except ValueError:
            continue
    known = [
        name
        for _, name in sorted(ranked, key=lambda each: each[0])
        if name[:2].lower() in LANGUAGES
    ]
    return language_of(known[0] if known else "")


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
    status = next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), 409)
    code = re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()
    code = _CODES.get(code, code)
    headers: dict[str, str] = {}
    if isinstance(error, err.ModelBusy) and error.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    found = error.problems if isinstance(error, err.PlanInvalid) else ()
    problems = [problem_json(each) for each in found if isinstance(each, Problem)]
    return HttpProblem(
        status, code, error.message, hint=error.hint, problems=problems, headers=headers
    )


def of_validation(error: ValidationError, where: str) -> HttpProblem:
    """Turns a validation error of a body or a query into an HTTP error."""
    first = error.errors(include_url=False, include_input=False)[:20]
    told: list[dict[str, Json]] = [
        {"path": [str(part) for part in each["loc"]], "message": broken_rule(each)}
        for each in first
    ]
    place = ".".join(map(str, first[0]["loc"]))
    rule = broken_rule(first[0])
    named = f"{where} ({place})" if place else where
    detail = Sentence("{where}: {rule}", where=named, rule=rule)
    hint = Sentence("see /openapi.json")
    return HttpProblem(422, "invalid_input", detail, hint=hint, problems=told)


def problem_json(found: Problem) -> dict[str, Json]:
    """Returns a problem of a plan as JSON, with all its fields."""
    return {
        "code": found.code,
        "name": found.name,
        "severity": found.severity.value,
        "step": found.step,
        "path": list(found.path),
        "message": found.message,
        "hint": found.hint,
    }
