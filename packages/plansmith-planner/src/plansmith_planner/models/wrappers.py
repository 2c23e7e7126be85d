"""Wrappers around a model: retries, time limits, length limits, and a model that is missing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, contextmanager
from typing import Any, Final, cast

from plansmith.errors import ModelBusy, ModelRefused, PromptTooLong
from plansmith.plan.sentence import Sentence
from plansmith.ports import ChatModel, Clock, Delta, Prompt, TextDelta
from plansmith_planner.models.tokens import count_prompt_tokens


def closing(pieces: AsyncIterator[Delta]) -> AbstractAsyncContextManager[object]:
    """Closes a stream at the end, so that one left half-way frees its resources at once."""
    return aclosing(cast("Any", pieces)) if hasattr(pieces, "aclose") else AsyncExitStack()


class LimitedModel:
    """Refuses prompts that leave less than `reserve_tokens` of the context for the answer."""

    def __init__(
        self,
        model: ChatModel,
        *,
        context_tokens: int,
        reserve_tokens: int = 4096,
        count: Callable[..., int] = count_prompt_tokens,
    ) -> None:
        self._model = model
        self._context_tokens = context_tokens
        self._reserve_tokens = reserve_tokens
        self._count = count

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self._model.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Yields the answer if the prompt fits; else raises `PromptTooLong`."""
        needed = self._count(prompt.messages, schema=prompt.schema, tools=prompt.tools)
        limit = self._context_tokens - self._reserve_tokens
        if needed > limit:
            raise PromptTooLong(
                Sentence(
                    "the prompt has about {needed} tokens, and {name} has room "
                    "for {limit} ({whole} less {kept} for the answer)",
                    needed=needed,
                    name=self.name,
                    limit=limit,
                    whole=self._context_tokens,
                    kept=self._reserve_tokens,
                ),
                hint=Sentence(
                    "give it fewer tools, documents or messages, choose a model "
                    "with a larger context, or correct context_tokens"
                ),
            )
        pieces = self._model.stream(prompt)
        async with closing(pieces):
            async for delta in pieces:
                yield delta


class RetryingModel:
    """Retries on `ModelBusy` with growing waits, as long as no piece has arrived.

    A wait is a random part of `first_wait_s`, doubled with each try up to `longest_wait_s`, or the
    wait that the provider asks for if that is longer. After the first piece of an answer the
    failure goes to the caller, because another try would repeat the piece.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        clock: Clock,
        tries: int = 3,
        first_wait_s: float = 1.0,
        longest_wait_s: float = 60.0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._clock = clock
        self._tries = tries
        self._first_wait_s = first_wait_s
        self._longest_wait_s = longest_wait_s
        self._chance = chance

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self._model.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Yields the answer of the first try that says anything."""
        for number in range(1, self._tries + 1):
            has_text = False
            pieces = self._model.stream(prompt)
            try:
                async with closing(pieces):
                    async for delta in pieces:
                        has_text = has_text or delta != TextDelta("")
                        yield delta
            except ModelBusy as busy:
                if has_text or number == self._tries:
                    raise
                wait = self._wait(number, busy.retry_after)
            else:
                return
            await self._clock.sleep(wait)

    def _wait(self, number: int, wish: float | None) -> float:
        longest = min(self._longest_wait_s, self._first_wait_s * 2.0 ** (number - 1))
        return max(self._chance() * longest, min(wish or 0.0, self._longest_wait_s))


_FOREVER: Final = 86_400.0


class TimedModel:
    """Passes calls on; raises `ModelBusy` when an answer takes too long.

    Around a retrying model, `total_s` limits all its tries together; inside one, each try. The time
    that the caller takes to handle a piece does not count.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        clock: Clock,
        silence_s: float | None = None,
        total_s: float | None = None,
    ) -> None:
        self._model = model
        self._clock = clock
        self._silence_s = silence_s
        self._total_s = total_s

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self._model.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Yields the answer within the time limits."""
        pieces = self._model.stream(prompt)
        watch = _Watch(self._clock, self._silence_s, self._total_s, self.name)
        alarm = asyncio.ensure_future(watch.run())
        try:
            async with closing(pieces):
                while True:
                    with watch.listening():
                        delta = await anext(pieces, None)
                    if delta is None:
                        return
                    yield delta
        finally:
            alarm.cancel()


class _Watch:
    """Cancels the waiting task when the time is up, like `asyncio.timeout`, by our clock."""

    def __init__(
        self, clock: Clock, silence_s: float | None, total_s: float | None, name: str
    ) -> None:
        self._clock = clock
        self._silence_s = silence_s
        self._total_s = total_s
        self._name = name
        self._start = self._last = clock.monotonic()
        self._listener: asyncio.Task[object] | None = None
        self._reason = ""

    @contextmanager
    def listening(self) -> Generator[None]:
        """Counts the time inside as silence of the model."""
        task = asyncio.current_task()
        self._last = self._clock.monotonic()
        if task is None or self._is_over():
            raise ModelBusy(self._reason)
        self._listener, asked = task, task.cancelling()
        try:
            yield
        except asyncio.CancelledError:
            # Somebody else may have cancelled too; then that is what happened.
            if not self._is_over() or task.uncancel() > asked:
                raise
            raise ModelBusy(self._reason) from None
        finally:
            self._listener = None

    def _is_over(self) -> bool:
        return bool(self._reason)

    async def run(self) -> None:
        """Waits until time is up."""
        while True:
            left, reason = self._left()
            if left <= 0:
                break
            await self._clock.sleep(left)
        self._reason = reason
        if self._listener is not None:
            self._listener.cancel()

    def _left(self) -> tuple[float, str]:
        now = self._clock.monotonic()
        limits: list[tuple[float, str]] = [(_FOREVER, "")]
        if self._total_s is not None:
            left = self._start + self._total_s - now
            slow = Sentence(
                "{name} took longer than {seconds} s", name=self._name, seconds=f"{self._total_s:g}"
            )
            limits.append((left, slow))
        if self._silence_s is not None:
            since = self._last if self._listener is not None else now
            left = since + self._silence_s - now
            mute = Sentence(
                "{name} said nothing for {seconds} s",
                name=self._name,
                seconds=f"{self._silence_s:g}",
            )
            limits.append((left, mute))
        return min(limits)


class RefusingModel:
    """Takes the place of a model that is not set up, so that the program can start."""

    def __init__(self, name: str, *, why: str, hint: str) -> None:
        self._name = name
        self._why = why
        self._hint = hint

    @property
    def name(self) -> str:
        """The name of the missing model."""
        return self._name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Raises an error that says what to set."""
        del prompt
        if self._why:
            raise ModelRefused(self._why, hint=self._hint)
        yield TextDelta("")
