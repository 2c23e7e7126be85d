"""The embedded model as a ChatModel, and a check that it answers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, cast

from plansmith.errors import ModelFailed, PlansmithError, PromptTooLong
from plansmith.plan.sentence import Sentence, with_hint
from plansmith.ports import Delta, Message, ModelDone, Prompt, TextDelta, Usage
from plansmith_desk.model.engine import Engine, OnPiece, fitting_threads, usable_cores
from plansmith_desk.model.grammar import grammar_of
from plansmith_planner.model_calls import read_answer

MAX_TOKENS: Final = 1024
_TELL_S: Final = 1.0  # between two messages about the pace of writing


class LocalModel:
    """A model in this process; a `schema` constrains the answer by a grammar.

    The longest known start of a prompt is not read again. A call that the caller leaves stops as
    soon as possible, even in the queue or while its prompt is read.
    """

    def __init__(
        self, engine: Callable[[], Engine], *, name: str, max_tokens: int = MAX_TOKENS
    ) -> None:
        self.name = name
        self._engine = engine
        self._max_tokens = max_tokens

    def stream(self, prompt: Prompt) -> AsyncGenerator[Delta]:
        """Yields the answer in pieces; empty ones while the prompt is read."""
        # Tools are not offered here: their calls are drafted as plans, see `calls_to_plan`.
        grammar = grammar_of(prompt.schema) if prompt.schema is not None else ""
        return self.constrained(prompt, grammar=grammar)

    async def constrained(self, prompt: Prompt, *, grammar: str = "") -> AsyncGenerator[Delta]:
        limit = prompt.max_tokens or self._max_tokens
        body = _body(prompt.messages, limit) | ({"grammar": grammar} if grammar else {})
        timings: dict[str, Any] = {}
        reason, tokens, start, reported = "", 0, 0.0, 0.0
        async with aclosing(_pieces(lambda hear: self._engine().submit(body, hear))) as pieces:
            async for piece in pieces:
                timings = piece.get("timings") or timings
                choices = cast("list[dict[str, Any]]", piece.get("choices") or [{}])
                reason = str(choices[0].get("finish_reason") or reason)
                delta = cast("dict[str, Any]", choices[0].get("delta") or {})
                progress = _reading(piece)
                if text := str(delta.get("content") or ""):
                    yield TextDelta(text)
                    tokens, now = tokens + 1, time.monotonic()
                    start, reported = start or now, reported or now
                    if now - reported >= _TELL_S:
                        reported, pace = now, f"{tokens / (now - start):.0f}"
                        progress = Sentence(
                            "writing, {count} tokens, {pace} a second", count=tokens, pace=pace
                        )
                if progress:
                    yield TextDelta("", progress)
        if reason == "length":
            raise ModelFailed(
                Sentence(
                    "{name} stopped after {limit} tokens, unfinished", name=self.name, limit=limit
                ),
                hint=Sentence("ask for less, or give the model a larger context"),
            )
        cached = int(timings.get("cache_n", 0))
        read, written = cached + int(timings.get("prompt_n", 0)), int(timings.get("predicted_n", 0))
        yield ModelDone(Usage(read, written, cached_tokens=cached, cost=Decimal(0)), self.name)

    async def prime(self, messages: Sequence[Message]) -> AsyncGenerator[TextDelta]:
        """Reads the start of later prompts into the cache, once for all processes."""
        body = _body(messages, 1)
        async with aclosing(_pieces(lambda hear: self._engine().prime(body, hear))) as pieces:
            async for piece in pieces:
                if progress := _reading(piece):
                    yield TextDelta("", progress)


def _reading(piece: Mapping[str, Any]) -> str:
    """Returns how much of a prompt is read, without what was known before.

    Before the first prompt the model itself may be prepared, which says so in its own words.
    """
    if "loading" in piece:
        return Sentence("loading the model, {size} MB", size=f"{piece['loading'] / 1e6:,.0f}")
    if "preparing" in piece:
        return str(piece["preparing"])
    counts = cast("Mapping[str, int]", piece.get("prompt_progress") or {})
    known, done, whole = (int(counts.get(name, 0)) for name in ("cache", "processed", "total"))
    if whole <= known:
        return ""
    return Sentence("reading, {done} of {whole} tokens", done=done - known, whole=whole - known)


async def _pieces(
    submit: Callable[[OnPiece], Future[None]],
) -> AsyncGenerator[dict[str, Any]]:
    """Yields what the engine's thread sends; leaving early stops the engine."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    stop = threading.Event()

    def put(piece: dict[str, Any] | None) -> bool:
        try:
            loop.call_soon_threadsafe(queue.put_nowait, piece)
        except RuntimeError:
            return True  # the loop is closed
        return stop.is_set()

    # Finding the weights may mean hashing them: not in the event loop.
    future = await asyncio.to_thread(submit, put)
    future.add_done_callback(lambda _: put(None))
    try:
        while (piece := await queue.get()) is not None:
            if "error" in piece:
                raise _failure(piece["error"])
            yield piece
        await asyncio.wrap_future(future)
    finally:
        stop.set()
        future.cancel()


def _body(messages: Sequence[Message], limit: int) -> dict[str, Any]:
    return {
        "messages": [{"role": each.role, "content": each.text} for each in messages],
        "max_tokens": limit,
        "temperature": 0,
        "stream": True,
        "return_progress": True,
        "cache_prompt": True,
    }


def _failure(error: Mapping[str, Any]) -> ModelFailed:
    message = error.get("message") or Sentence("no reason was given")
    if error.get("type") == "exceed_context_size_error":
        return PromptTooLong(
            Sentence(
                "the prompt has {count} tokens, and the context of the embedded model {most}",
                count=error.get("n_prompt_tokens"),
                most=error.get("n_ctx"),
            ),
            hint=Sentence("give it fewer tools, documents or messages, or raise context_tokens"),
        )
    return ModelFailed(Sentence("the embedded model gave no answer: {why}", why=message))


_ASKED = "Is water wet? Answer yes or no."
_GRAMMAR = 'root ::= "yes" | "no"\n'


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a trial; `flaw` is empty if the model answered."""

    answer: str = ""
    load_s: float = 0.0
    answer_s: float = 0.0
    flaw: str = ""


async def try_model(path: Path, adapter: Path | None = None) -> Trial:
    """Loads the weights in an engine of their own and asks one question under a grammar."""
    threads = fitting_threads(usable_cores())
    engine = Engine(path, context=512, threads=threads, adapter=adapter)
    model = LocalModel(lambda: engine, name=path.name)
    asked = [Message("user", _ASKED)]
    start = time.monotonic()
    try:
        await read_answer(model.constrained(Prompt(asked), grammar=_GRAMMAR))
        loaded = time.monotonic()
        answer = await read_answer(model.constrained(Prompt(asked), grammar=_GRAMMAR))
    except PlansmithError as error:
        return Trial(flaw=with_hint(error.message, error.hint))
    finally:
        engine.close()
    return Trial(answer.text, round(loaded - start, 2), round(time.monotonic() - loaded, 2))
