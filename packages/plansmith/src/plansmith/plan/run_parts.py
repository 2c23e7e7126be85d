"""Parts of a run's state: what a person agreed to, early reads, and the text of its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from plansmith.plan.event_body import FrozenStruct
from plansmith.plan.plan import Plan


class Covered(NamedTuple):
    """What a person has agreed to: a plan, and the plans of its templates."""

    plan: Plan
    templates: Mapping[str, Plan]


class Made(NamedTuple):
    """A call that was made, by the mark of its inputs, and the hash of its result."""

    callee: str
    call: str
    result: str


class Prefetch(FrozenStruct, frozen=True, kw_only=True):
    """A read made before its plan was complete; `step` is the step that uses its result."""

    tool: str
    inputs: str
    started_at: datetime
    ended_at: datetime | None = None
    over: bool = False
    result: str = ""
    error: str = ""
    step: str = ""


class ReportText:
    """The text of a report, made when it is first read."""

    __slots__ = ("_make", "_text")

    def __init__(self, text: str = "", *, make: Callable[[], str] | None = None) -> None:
        self._text, self._make = text, make

    def __str__(self) -> str:
        make = self._make  # another thread may be reading it too
        if make is not None:
            self._text, self._make = make(), None
        return self._text

    # Runs are compared and shown without their reports.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReportText)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "ReportText()"


NO_REPORT: Final = ReportText()
