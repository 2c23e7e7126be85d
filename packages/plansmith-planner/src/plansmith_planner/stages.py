"""What the stages of planning share: models, tools and settings, and reports of progress."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from plansmith.check.rehearsal import Rehearse, no_rehearsal
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.earlier import UsableResults
from plansmith.plan.planning import Tell
from plansmith.plan.sentence import Sentence, in_language
from plansmith.ports import ChatModel, Clock, ContextSource, Ranker
from plansmith_planner.settings import PlannerSettings


@dataclass(frozen=True, slots=True)
class PlannerDeps:
    """Everything planning uses that is the same for every request."""

    plan_model: ChatModel
    clock: Clock
    triage_model: ChatModel | None = None
    tools: Sequence[ToolSpec] = ()
    agents: Sequence[AgentSpec] = ()
    templates: Sequence[str] = ()
    sources: Sequence[ContextSource] = ()
    ranker: Ranker | None = None
    settings: PlannerSettings = field(default_factory=PlannerSettings)
    usable: UsableResults | None = None
    rehearse: Rehearse = no_rehearsal


class StageLine(str):
    """A line of progress in the reader's language, with its stage for programs.

    `begins` tells a stage that begins from one that goes on.
    """

    __slots__ = ("about", "begins", "stage")
    stage: str
    about: str
    begins: bool

    def __new__(cls, stage: str, about: str, locale: str, *, begins: bool) -> Self:
        line = Sentence("{stage}: {about}", stage=Sentence(f"stage.{stage}"), about=about)
        made = super().__new__(cls, in_language(line, locale))
        made.stage, made.about, made.begins = stage, in_language(about, locale), begins
        return made


class Watch:
    """Reports each stage as it begins, and measures its time."""

    def __init__(self, clock: Clock, tell: Tell, locale: str = "en") -> None:
        self._clock = clock
        self._tell = tell
        self._locale = locale
        self.seconds: dict[str, float] = {}

    def note(self, stage: str, about: str, *, begins: bool = False) -> None:
        """Reports how far a stage is, in the reader's language."""
        self._tell(StageLine(stage, about, self._locale, begins=begins))

    @contextmanager
    def __call__(self, stage: str, about: str) -> Generator[None]:
        self.note(stage, about, begins=True)
        start = self._clock.monotonic()
        try:
            yield
        finally:
            spent = self._clock.monotonic() - start
            self.seconds[stage] = self.seconds.get(stage, 0.0) + spent
