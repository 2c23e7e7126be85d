"""Passes on the plans that models are writing now, to the clients of the event stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep
from plansmith.ports import ArgumentsDelta, ChatModel, Clock, Delta, ModelDone, Prompt, TextDelta
from plansmith_planner.draft import StepStream
from plansmith_planner.stages import StageLine

_WAITING: Final = 100
_EVERY_S: Final = 0.1
_LETTERS_A_TOKEN: Final = 4
_run: Final[ContextVar[str]] = ContextVar("plansmith_run", default="")


@dataclass(slots=True)
class _Draft:
    began: float
    phase: str = ""
    about: str = ""
    steps: list[Json] = field(default_factory=list[Json])
    tokens: int = 0


class Drafts:
    """Collects the progress of planning and sends it to every listener.

    `otherwise` receives the texts that belong to no run.
    """

    def __init__(self, clock: Clock, otherwise: Callable[[str], None]) -> None:
        self._clock = clock
        self._otherwise = otherwise
        self._drafts: dict[str, _Draft] = {}
        self._listeners: set[asyncio.Queue[dict[str, Json]]] = set()

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
    def listening(self) -> Generator[asyncio.Queue[dict[str, Json]]]:
        """Opens a queue of events, beginning with the current drafts."""
        queue: asyncio.Queue[dict[str, Json]] = asyncio.Queue(_WAITING)
        for run, draft in self._drafts.items():
            _put(queue, self._event(run, draft, text=draft.about, begins=True))
            for step in draft.steps:
                _put(queue, self._event(run, draft, step=step))
        self._listeners.add(queue)
        try:
            yield queue
        finally:
            self._listeners.discard(queue)

    def tell(self, text: str) -> None:
        """Records that a stage of planning begins; the text is `stage: details`."""
        run = _run.get()
        if not run:
            self._otherwise(text)
            return
        if isinstance(text, StageLine) and not text.begins:
            return  # the model itself tells how far it is
        draft = self._draft(run)
        if isinstance(text, StageLine):
            draft.phase, draft.about = text.stage, text.about
        else:
            draft.phase, _, about = text.partition(":")
            draft.about = about.strip()
        if draft.phase == "draft":
            draft.steps.clear()
        self._send(self._event(run, draft, text=draft.about, begins=True))

    def observed(self, model: ChatModel) -> ChatModel:
        """Wraps a model so that its output is sent to the listeners as it is written."""
        return _ObservedModel(model, self)

    def add_text(self, text: str, letters: int) -> None:
        """Sends a piece of the model's output to the listeners."""
        run = _run.get()
        if run and text:
            draft = self._draft(run)
            draft.tokens = max(draft.tokens, letters // _LETTERS_A_TOKEN)
            self._send(self._event(run, draft, text=text))

    def add_progress(self, text: str) -> None:
        """Sends how far a slow model is: how much of the prompt it has read, how fast it writes."""
        run = _run.get()
        if not run:
            return
        fields: Mapping[str, Any] = text.fields if isinstance(text, Sentence) else {}
        more: dict[str, Json] = {"progress": text}
        if "whole" in fields:
            more["share"] = round(100 * int(fields["done"]) / max(1, int(fields["whole"])))
        if "pace" in fields:
            more["pace"] = str(fields["pace"])
        self._send(self._event(run, self._draft(run), **more))

    def add_step(self, step: AnyStep) -> None:
        """Sends a step that the model has finished."""
        run = _run.get()
        if run:
            draft = self._draft(run)
            draft.steps.append(step.to_json())
            self._send(self._event(run, draft, step=step.to_json()))

    def count(self, tokens: int) -> None:
        """Records the tokens of an answer, as the provider counts them."""
        run = _run.get()
        if run:
            self._draft(run).tokens = tokens

    @property
    def now(self) -> float:
        """The time by the clock."""
        return self._clock.monotonic()

    def _draft(self, run: str) -> _Draft:
        return self._drafts.setdefault(run, _Draft(self.now))

    def _event(self, run: str, draft: _Draft, **more: Json) -> dict[str, Json]:
        elapsed = round((self.now - draft.began) * 1000)
        head: Mapping[str, Json] = {"run": run, "phase": draft.phase, "tokens": draft.tokens}
        return {**head, "elapsed_ms": elapsed, **more}

    def _send(self, event: dict[str, Json]) -> None:
        for queue in self._listeners:
            _put(queue, event)


def _put(queue: asyncio.Queue[dict[str, Json]], event: dict[str, Json]) -> None:
    """Drops the oldest event of a full queue: the plan itself is in the journal."""
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(event)


class _ObservedModel:
    def __init__(self, model: ChatModel, drafts: Drafts) -> None:
        self._model = model
        self._drafts = drafts

    @property
    def name(self) -> str:
        return self._model.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        drafts = self._drafts
        steps = StepStream(drafts.add_step)
        sent_at, letters, waiting = drafts.now, 0, ""
        async for delta in self._model.stream(prompt):
            match delta:
                case TextDelta("", progress) if progress:
                    drafts.add_progress(progress)
                case TextDelta(text) | ArgumentsDelta(_, text):
                    letters += len(text)
                    waiting += text
                    steps.feed(text)
                    if drafts.now - sent_at >= _EVERY_S:
                        drafts.add_text(waiting, letters)
                        sent_at, waiting = drafts.now, ""
                case ModelDone(usage, _):
                    drafts.count(usage.input_tokens + usage.output_tokens or letters // 4)
            yield delta
        drafts.add_text(waiting, letters)
