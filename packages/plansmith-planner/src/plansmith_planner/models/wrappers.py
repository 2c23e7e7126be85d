"""Wrappers around a model: limits and retries, and what stands for a model that is missing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from typing import Any, Final, cast

from plansmith.errors import ModelBusy, ModelRefused, PromptTooLong
from plansmith.plan.sentence import Sentence
from plansmith.ports import ChatModel, Clock, Delta, Prompt, TextDelta
from plansmith_planner.models.tokens import count_prompt_tokens

_FOR_THE_ANSWER: Final = 4096  # tokens


def closing(pieces: AsyncIterator[Delta]) -> AbstractAsyncContextManager[object]:
    """Closes a stream at the end, so that one left half-way frees its resources at once."""
    return aclosing(cast("Any", pieces)) if hasattr(pieces, "aclose") else AsyncExitStack()


class Wrapper:
    """What is around a model and has its name."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name


class ResilientModel(Wrapper):
    """Refuses prompts that are too long, ends silence, and tries again what may succeed later.

    A prompt has to leave room in the context for the answer. When a model says nothing for too
    long, it is busy; the time that the caller takes to handle a piece is no silence. A busy one is
    tried again as long as no piece has arrived, because another try would repeat the piece: after
    a random part of a second, doubled with each try up to a minute, or after the wait that the
    provider asks for if that is longer.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        clock: Clock,
        context_tokens: int = 32_000,
        silence_s: float = 60.0,
        tries: int = 3,
        chance: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(model)
        self._clock = clock
        self._context_tokens = context_tokens
        self._silence_s = silence_s
        self._tries = tries
        self._chance = chance

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        self._require_room(prompt)
        for number in range(self._tries):
            has_text = False
            pieces = self._model.stream(prompt)
            try:
                async with closing(pieces):
                    while (delta := await self._next(pieces)) is not None:
                        has_text = has_text or delta != TextDelta("")
                        yield delta
            except ModelBusy as busy:
                if has_text or number + 1 == self._tries:
                    raise
                wait = max(self._chance() * 2.0**number, busy.retry_after or 0.0)
            else:
                return
            await self._clock.sleep(min(wait, 60.0))

    def _require_room(self, prompt: Prompt) -> None:
        needed = count_prompt_tokens(prompt.messages, schema=prompt.schema, tools=prompt.tools)
        limit = self._context_tokens - _FOR_THE_ANSWER
        if needed > limit:
            message = Sentence(
                "the prompt has about {needed} tokens, and {name} has room "
                "for {limit} ({whole} less {kept} for the answer)",
                needed=needed,
                name=self.name,
                limit=limit,
                whole=self._context_tokens,
                kept=_FOR_THE_ANSWER,
            )
            hint = Sentence(
                "give it fewer tools, documents or messages, choose a model "
                "with a larger context, or correct context_tokens"
            )
            raise PromptTooLong(message, hint=hint)

    async def _next(self, pieces: AsyncIterator[Delta]) -> Delta | None:
        """Waits for a piece in this very task, as some libraries demand; an alarm cancels it."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        alarm = asyncio.ensure_future(self._clock.sleep(self._silence_s))
        asked, late, waiting = task.cancelling(), False, True

        def ring(_: object) -> None:
            nonlocal late
            if waiting and not alarm.cancelled():
                late = task.cancel()

        alarm.add_done_callback(ring)
        try:
            return await anext(pieces, None)
        except asyncio.CancelledError:
            # Somebody else may have cancelled too; then that is what happened.
            if not late or task.uncancel() > asked:
                raise
            fields = {"name": self.name, "seconds": f"{self._silence_s:g}"}
            raise ModelBusy(Sentence("{name} said nothing for {seconds} s", **fields)) from None
        finally:
            waiting = False
            alarm.cancel()


class RefusingModel:
    """Takes the place of a model that is not set up, so that the program can start."""

    def __init__(self, name: str, *, why: str, hint: str) -> None:
        self.name = name
        self._why = why
        self._hint = hint

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        del prompt
        if self._why:
            raise ModelRefused(self._why, hint=self._hint)
        yield TextDelta("")
