"""The data of a report: steps, results, figures and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, cast

from plansmith.plan.data import Json
from plansmith.plan.planning import Times
from plansmith.plan.refs import without_citations
from plansmith.plan.sentence import language_of, texts_under

Words = Mapping[str, str]


def words_for(locale: str) -> Words:
    """Returns the report texts of a language, or the English ones."""
    return texts_under("report.", language_of(locale))


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a report: what happened, to which step, by whom and when."""

    text: str
    step: str = ""
    by: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage without its citations, and the finished steps that it cites."""

    text: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The reply to the person, with its claims and the steps it was made from."""

    text: str = ""
    claims: tuple[Passage, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """The result of a finished step as text, clipped if it is long.

    What an agent or a reply writes is Markdown (`is_prose`); a text of a tool is data.
    """

    step: str
    title: str
    callee: str
    result_hash: str
    result: str
    characters: int
    clipped: bool
    at: datetime | None
    taken_from: str | None = None
    given_by: str = ""
    is_prose: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A step that is not done, and why."""

    step: str
    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class Took:
    """What a run used; None is unknown, and `some_prices_unknown` means that it cost more.

    `seconds` is planning and running; the waiting for a person is only in `times`.
    """

    calls: int
    tokens: int | None
    money_usd: Decimal | None
    some_prices_unknown: bool
    seconds: float | None
    times: Times = field(default_factory=Times)


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a report, in its order."""

    run: str
    title: str
    request: str
    locale: str
    status: str
    head: tuple[str, ...]
    made_by: str
    plan: str
    answer: Answer
    notes: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    deviations: tuple[Line, ...]
    assumptions: tuple[str, ...]
    failures: tuple[Failure, ...]
    decisions: tuple[Line, ...]
    took: Took
    dropped: tuple[str, ...] = ()

    @property
    def is_answered(self) -> bool:
        """Whether all was done and there is an answer, so that nothing is said before it."""
        lacking = self.dropped or self.failures
        return self.status == "done" and bool(self.answer.text) and not lacking

    @property
    def words(self) -> Words:
        return words_for(self.locale)

    def to_json(self) -> dict[str, Json]:
        """Returns the report as JSON; long results are clipped and named by their hash."""
        value = {name: _json(getattr(self, name)) for name in self.__slots__}
        value["answer"]["text"] = without_citations(self.answer.text)
        times: dict[str, Json] = value["took"].pop("times")
        value["took"] |= {f"{name}_seconds": seconds for name, seconds in times.items()}
        return value


def _json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json(each) for each in cast("Sequence[Any]", value)]
    if is_dataclass(value):
        return {each.name: _json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
