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
from plansmith.plan.sentence import LANGUAGES, in_language, language_of

MEDIA_TYPE: Final = "application/problem+json"
_STATUSES: Final[Mapping[type[err.PlansmithError], int]] = {
    err.UnreadableText: 400,
    err.InvalidPlan: 422,
    err.ReferenceFailed: 422,
    err.Misconfigured: 422,
    err.ModelBusy: 503,
    err.ModelFailed: 502,
    err.ToolBusy: 503,
    err.ToolFailed: 502,
    err.InputNeeded: 409,
    err.Refused: 409,
    err.StoreAway: 503,
    err.JournalDamaged: 500,
    err.JournalError: 409,
}
_TITLES: Final = {
    400: "The request cannot be read",
    401: "A token is needed",
    403: "Not from there",
    404: "Not found",
    405: "Not that way",
    408: "Too slow",
    409: "Not as things stand",
    412: "Changed meanwhile",
    413: "Too large",
    415: "Not that type",
    421: "Not this host",
    422: "Not usable",
    428: "A condition is needed",
    429: "Too often",
    500: "Something broke",
    502: "Someone we asked failed",
    503: "Not now",
}


class ProblemBody(BaseModel):
    """What every error response says."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str = ""
    problems: list[dict[str, Json]] = []
    hash: str = ""


class HttpProblem(Exception):
    """A failure that has its status already."""

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
        """The response that tells it, with the problems of a plan in the client's language."""
        body = ProblemBody(
            type=f"urn:plansmith:{self.code}",
            title=_TITLES.get(self.status, "Not possible"),
            status=self.status,
            detail=self.detail,
            code=self.code,
            hint=self.hint,
            problems=[dict(in_reader_language(each, language)) for each in self.problems],
            hash=self.digest,
        )
        content = body.model_dump(mode="json", exclude_defaults=True)
        return JSONResponse(content, self.status, self.headers, MEDIA_TYPE)


def wanted_language(accepted: str) -> str:
    """The language of an Accept-Language header that the client likes best."""
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
    """A JSON value whose sentences are texts in the reader's language."""
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
    """Nothing is there under this name."""
    return HttpProblem(404, "not_found", f"there is no {what} {name[:100]!r}")


def of_error(error: err.PlansmithError) -> HttpProblem:
    """One of our own errors, by where it stands in the error tree."""
    status = next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), 409)
    code = re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()
    headers: dict[str, str] = {}
    if isinstance(error, err.ModelBusy) and error.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    found = error.problems if isinstance(error, err.InvalidPlan) else ()
    told = [problem_json(each) for each in found if isinstance(each, Problem)]
    return HttpProblem(status, code, error.message, hint=error.hint, problems=told, headers=headers)


def of_validation(error: ValidationError, where: str) -> HttpProblem:
    """A body or a query that is not of its form."""
    first = error.errors(include_url=False, include_input=False)[:20]
    told: list[dict[str, Json]] = [
        {"path": [str(part) for part in each["loc"]], "message": broken_rule(each)}
        for each in first
    ]
    place = ".".join(map(str, first[0]["loc"]))
    detail = f"{where}{f' ({place})' if place else ''}: {broken_rule(first[0])}"
    return HttpProblem(422, "invalid_input", detail, hint="see /openapi.json", problems=told)


def problem_json(found: Problem) -> dict[str, Json]:
    """What is wrong with a plan, all fields said."""
    return {
        "code": found.code,
        "name": found.name,
        "severity": found.severity.value,
        "step": found.step,
        "path": list(found.path),
        "message": found.message,
        "hint": found.hint,
    }
