"""Passes on the plans that models are writing now, to the clients of the event stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep
from plansmith.ports import ArgumentsDelta, ChatModel, Clock, Delta, ModelDone, Prompt, TextDelta
from plansmith_planner.draft import StepStream
from plansmith_planner.stages import StageLine
from plansmith_server.conversation_news import Row, put

_WAITING: Final = 100
_EVERY_S: Final = 0.1
_LETTERS_A_TOKEN: Final = 4
_run: Final[ContextVar[str]] = ContextVar("plansmith_run", default="")


@dataclass(slots=True)
class _Draft:
    began: float
    phase: str = ""
    about: str = ""
    steps: list[Any] = field(default_factory=list[Any])
    tokens: int = 0


class Drafts:
    """Collects the progress of planning and sends it to every listener.

    `otherwise` receives the texts that belong to no run.
    """

    def __init__(self, clock: Clock, otherwise: Callable[[str], None]) -> None:
        self._clock = clock
        self._otherwise = otherwise
        self._drafts: dict[str, _Draft] = {}
        self._listeners: set[asyncio.Queue[Row]] = set()

    @contextmanager
    def of(self, run: str) -> Generator[None]:
        """Assigns the planning inside the `with` block to a run."""
        mark = _run.set(run)
        try:
            yield
        finally:
            _run.reset(mark)
            self._drafts.pop(run, None)

    @contextmanager
    def listening(self) -> Generator[asyncio.Queue[Row]]:
        """Opens a queue of events, beginning with the current drafts."""
        queue: asyncio.Queue[Row] = asyncio.Queue(_WAITING)
        for run, draft in self._drafts.items():
            put(queue, self._event(run, draft, text=draft.about, begins=True))
            for step in draft.steps:
                put(queue, self._event(run, draft, step=step))
        self._listeners.add(queue)
        try:
            yield queue
        finally:
            self._listeners.discard(queue)

    def tell(self, text: str) -> None:
        """Records that a stage of planning begins; the text is `stage: details`."""
        draft = self.current
        if draft is None:
            self._otherwise(text)
            return
        if isinstance(text, StageLine):
            if not text.begins:
                return  # the model itself tells how far it is
            draft.phase, draft.about = text.stage, text.about
        else:
            draft.phase, _, about = text.partition(":")
            draft.about = about.strip()
        if draft.phase == "draft":
            draft.steps.clear()
        self.send(text=draft.about, begins=True)

    @property
    def current(self) -> _Draft | None:
        """What is drafted for the run that is being planned here."""
        run = _run.get()
        return self._drafts.setdefault(run, _Draft(self._clock.monotonic())) if run else None

    def send(self, **told: Any) -> None:
        """Sends something about the current draft to the listeners."""
        draft = self.current
        if draft is not None:
            event = self._event(_run.get(), draft, **told)
            for queue in self._listeners:
                put(queue, event)

    def _event(self, run: str, draft: _Draft, **more: Any) -> Row:
        elapsed = round((self._clock.monotonic() - draft.began) * 1000)
        head = {"run": run, "phase": draft.phase, "tokens": draft.tokens}
        return {**head, "elapsed_ms": elapsed, **more}

    def observed(self, model: ChatModel) -> ChatModel:
        """Wraps a model so that its output is sent to the listeners as it is written."""
        return _ObservedModel(model, self, self._clock)


@dataclass(slots=True)
class _ObservedModel:
    model: ChatModel
    drafts: Drafts
    clock: Clock

    @property
    def name(self) -> str:
        return self.model.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        steps = StepStream(self._add_step)
        sent_at, letters, waiting = self.clock.monotonic(), 0, ""
        async for delta in self.model.stream(prompt):
            match delta:
                case TextDelta("", progress) if progress:
                    self._add_progress(progress)
                case TextDelta(text) | ArgumentsDelta(_, text):
                    letters += len(text)
                    waiting += text
                    steps.feed(text)
                    if self.clock.monotonic() - sent_at >= _EVERY_S:
                        self._add_text(waiting, letters)
                        sent_at, waiting = self.clock.monotonic(), ""
                case ModelDone(usage, _):
                    counted = usage.input_tokens + usage.output_tokens
                    if (draft := self.drafts.current) is not None:
                        draft.tokens = counted or letters // _LETTERS_A_TOKEN
            yield delta
        self._add_text(waiting, letters)

    def _add_text(self, text: str, letters: int) -> None:
        draft = self.drafts.current
        if draft is not None and text:
            draft.tokens = max(draft.tokens, letters // _LETTERS_A_TOKEN)
            self.drafts.send(text=text)

    def _add_step(self, step: AnyStep) -> None:
        draft = self.drafts.current
        if draft is not None:
            draft.steps.append(step.to_json())
            self.drafts.send(step=step.to_json())

    def _add_progress(self, text: str) -> None:
        """Sends how far a slow model is: how much of the prompt it has read, how fast it writes."""
        fields: Mapping[str, Any] = text.fields if isinstance(text, Sentence) else {}
        more: dict[str, Any] = {}
        if "whole" in fields:
            more["share"] = round(100 * int(fields["done"]) / max(1, int(fields["whole"])))
        if "pace" in fields:
            more["pace"] = str(fields["pace"])
        self.drafts.send(progress=text, **more)
