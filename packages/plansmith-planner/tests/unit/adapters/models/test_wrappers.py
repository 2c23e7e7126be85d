"""Wrappers of models: retries, a limit of silence, a limit of length."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any

import pytest
from genai_prices import Usage as Tokens
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.models import override_allow_model_requests

from plansmith.errors import ModelBusy, ModelFailed, ModelRefused, PromptTooLong
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import ChatModel, Delta, Message, ModelDone, Prompt, TextDelta, Usage
from plansmith.testing import FakeClock, ScriptedModel
from plansmith.testing.fakes import settle
from plansmith_planner.models.provider_output import as_failure, error_text, price_of, refused_setup
from plansmith_planner.models.tokens import count_tokens
from plansmith_planner.models.wrappers import ResilientModel

HELLO = [Message("user", "hello")]
BIG: dict[str, Json] = {"type": "object", "description": "word " * 1000}


SILENCE_S = 1000.0


class HastyClock(FakeClock):
    """Does not wait between tries, but writes down how long it would have."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        if seconds == SILENCE_S:
            await asyncio.Event().wait()
        self.slept.append(seconds)


class FaltersModel:
    """Says some pieces, then fails."""

    name = "falters"

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces
        self.calls = 0

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        self.calls += 1
        for piece in self.pieces:
            yield TextDelta(piece)
        raise ModelBusy("cut")


class SlowModel:
    """Takes a while before each piece, by the clock; closed tells whether it was let go."""

    name = "slow"

    def __init__(self, clock: FakeClock, *pauses: float) -> None:
        self.clock = clock
        self.pauses = pauses
        self.calls = 0
        self.closed = False

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        self.calls += 1
        try:
            for pause in self.pauses:
                await self.clock.sleep(pause)
                yield TextDelta(f"{pause:g} ")
            yield ModelDone(Usage())
        finally:
            self.closed = True


@pytest.fixture(autouse=True)
def real_requests() -> Iterator[None]:
    with override_allow_model_requests(True):
        yield


async def listen(model: ChatModel, deltas: list[Delta]) -> None:
    async for delta in model.stream(Prompt(HELLO)):
        deltas.append(delta)  # noqa: PERF401 - kept when the stream fails


async def answer_of(model: ChatModel) -> str:
    deltas = [delta async for delta in model.stream(Prompt(HELLO))]
    return "".join(each.text for each in deltas if isinstance(each, TextDelta))


def retrying(model: ChatModel, clock: HastyClock) -> ResilientModel:
    return ResilientModel(model, clock=clock, silence_s=SILENCE_S, chance=lambda: 0.5)


async def test_a_busy_model_is_asked_three_times_with_growing_waits() -> None:
    clock = HastyClock()
    busy = ScriptedModel(ModelBusy("1"), ModelBusy("2"), "fine")
    assert await answer_of(retrying(busy, clock)) == "fine"
    assert clock.slept == [0.5, 1.0]


@pytest.mark.parametrize("failure", [ModelRefused("no"), ModelFailed("what")])
async def test_other_failures_are_not_tried_again(failure: ModelFailed) -> None:
    clock = HastyClock()
    with pytest.raises(type(failure)):
        await answer_of(retrying(ScriptedModel(failure), clock))
    assert clock.slept == []


@pytest.mark.parametrize(("wish", "wait"), [(7.0, 7.0), (0.1, 0.5), (900.0, 60.0), (None, 0.5)])
async def test_the_providers_wish_is_kept_up_to_a_limit(wish: Any, wait: float) -> None:
    clock = HastyClock()
    await answer_of(retrying(ScriptedModel(ModelBusy("1", retry_after=wish), "fine"), clock))
    assert clock.slept == [wait]


async def test_what_was_said_is_never_said_twice() -> None:
    model = FaltersModel("half an ")
    heard: list[Delta] = []
    with pytest.raises(ModelBusy):
        await listen(retrying(model, HastyClock()), heard)
    assert heard == [TextDelta("half an ")]
    assert model.calls == 1


async def test_silence_is_given_up_and_the_stream_let_go() -> None:
    clock = FakeClock()
    slow = SlowModel(clock, 1, 100)
    task = asyncio.create_task(answer_of(ResilientModel(slow, clock=clock, silence_s=5, tries=1)))
    await clock.advance(5.9)
    assert not task.done()
    await clock.advance(0.2)
    with pytest.raises(ModelBusy, match="slow said nothing for 5 s"):
        await task
    assert slow.closed


async def test_a_cancelled_caller_stays_cancelled() -> None:
    clock = FakeClock()
    slow = SlowModel(clock, 100)
    task = asyncio.create_task(answer_of(ResilientModel(slow, clock=clock, silence_s=5, tries=1)))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert slow.closed


@pytest.mark.parametrize(
    "prompt",
    [
        Prompt([Message("user", "word " * 1000)]),
        Prompt(HELLO, schema=BIG),
        Prompt(HELLO, tools=[ToolSpec(name="t", input_schema=BIG)]),
    ],
)
async def test_a_prompt_that_does_not_fit_is_not_sent_and_the_numbers_are_named(
    prompt: Prompt,
) -> None:
    inner = ScriptedModel("never")
    with pytest.raises(PromptTooLong) as caught:
        _ = [
            delta
            async for delta in ResilientModel(inner, clock=FakeClock(), context_tokens=4896).stream(
                prompt
            )
        ]
    assert inner.prompts == []
    assert "scripted has room for 800 (4,896 less 4,096 for the answer)" in str(caught.value)
    assert "larger context" in str(caught.value)


# The right column is the largest count of GPT-4, GPT-4o, Qwen, DeepSeek and Claude 2, measured
# once with their vocabularies.
MEASURED: dict[str, tuple[str, int]] = {
    "English prose": (
        (
            "The planner reads a person's request, chooses the tools it needs, and writes "
            "a plan that is checked before anyone approves it. Nothing is dropped "
            "silently: every change is shown to the reviewer."
        ),
        41,
    ),
    "Chinese": (
        "今天天气很好，我们一起去公园散步。请帮我查询北京到上海的航班，并预订一家价格合适的酒店，然后把行程发到我的邮箱。",
        61,
    ),
    "German": (
        (
            "Die Geschwindigkeitsbegrenzung gilt für alle Verkehrsteilnehmer, die außerhalb "
            "geschlossener Ortschaften unterwegs sind."
        ),
        39,
    ),
    "Japanese": ("明日の天気を調べて、雨が降りそうなら会議をオンラインに変更してください。", 40),
    "Korean": ("내일 서울의 날씨를 확인하고 비가 오면 회의를 온라인으로 바꿔 주세요.", 41),
    "Russian": ("Проверьте погоду на завтра и перенесите встречу, если будет дождь.", 33),
    "JSON": (
        '{"steps":[{"id":"find","tool":"search_flights","inputs":{"from":"BER","to":"LIS","date":"2026-03-14","max_price":250}},{"id":"mail","tool":"send_email","after":["find"],"inputs":{"to":"ann@example.com","body":{"$from":"find","$path":["items",0,"title"]}}}]}',
        84,
    ),
    "Python": (
        (
            "def total(prices: list[float], *, tax: float = 0.19) -> float:\n"
            '    """The sum with tax."""\n'
            "    result = 0.0\n"
            "    for price in prices:\n"
            "        result += price * (1 + tax)\n"
            "    return round(result, 2)\n"
        ),
        61,
    ),
    "numbers": ("3.14159 2718 1000000 42 1999-12-31 23:59:59", 43),
    "base64": (
        "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg==",
        69,
    ),
    "emoji": ("well done 🎉🚀👍🏽", 14),
}


@pytest.mark.parametrize("kind", MEASURED)
def test_the_estimate_is_on_the_high_side_but_not_far_off(kind: str) -> None:
    text, most = MEASURED[kind]
    assert most <= count_tokens(text) <= 1.5 * most + 3


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.text())
def test_any_text_has_a_count_and_more_text_never_has_a_much_smaller_one(a: str, b: str) -> None:
    # Two words may grow together at the seam.
    assert count_tokens(a + b) + 3 >= max(count_tokens(a), count_tokens(b))


MILLION = Tokens(input_tokens=1_000_000, output_tokens=1_000_000)


class StatusError(Exception):
    def __init__(self, status_code: int, body: object = None) -> None:
        super().__init__("provider's words")
        self.status_code = status_code
        self.body = body


def test_a_wrong_key_names_the_variable() -> None:
    refused = as_failure(StatusError(401), model="anthropic:claude")
    assert isinstance(refused, ModelRefused)
    assert "ANTHROPIC_API_KEY" in str(refused)


@pytest.mark.parametrize("error", [OSError("gone"), TimeoutError(), ConnectionResetError()])
def test_bare_errors_of_the_network_are_busy(error: Exception) -> None:
    assert isinstance(as_failure(error, model="m"), ModelBusy)


def test_an_error_nobody_expected_is_still_ours() -> None:
    failed = as_failure(KeyError("x"), model="m")
    assert type(failed) is ModelFailed
    assert "KeyError" in str(failed)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"message": "m"}, "m"),
        ({"error": {"a": 1}}, '{"a": 1}'),
        ({"detail": "d"}, "d"),
        ({"other": 1}, '{"other": 1}'),
        ("plain", "plain"),
        (None, "provider's words"),
        ("x" * 900, "x" * 499 + "…"),
    ],
)
def test_the_servers_words_are_found_wherever_they_are(body: object, words: str) -> None:
    assert error_text(StatusError(400, body)) == words


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (
            ImportError('`pip install "pydantic-ai-slim[groq]"`'),
            "pip install packages/* 'plansmith[models]'",
        ),
        (ImportError("no pydantic_ai"), "pip install packages/* 'plansmith[models]'"),
        (ImportError('"pydantic-ai-slim[xai]"'), "pip install 'pydantic-ai-slim[xai]'"),
        (RuntimeError("Set the `GROQ_API_KEY` or `X_KEY` variable"), "set GROQ_API_KEY or X_KEY"),
        (RuntimeError("You must provide a `region_name`"), "set AWS_DEFAULT_REGION"),
        (RuntimeError("something else"), ""),
    ],
)
def test_what_is_missing_is_named(error: Exception, hint: str) -> None:
    assert refused_setup(error, "m").hint == hint


def cost_of(usage: Tokens, model: str, *, base_url: str | None = None) -> Decimal | None:
    provider, _, name = model.partition(":")
    return price_of(usage, name, provider=provider, url=base_url, only_url=base_url is not None)


@pytest.mark.parametrize(
    ("model", "usage", "base_url", "cost"),
    [
        ("openai:no-such-model", MILLION, None, None),
        ("nobody:gpt-4o", MILLION, None, None),
        ("ollama:qwen3:8b", MILLION, None, None),
        ("", MILLION, None, None),
        ("openai:gpt-4o", Tokens(input_tokens=1, cache_read_tokens=9), None, None),
        ("openai:gpt-4o", MILLION, "http://127.0.0.1:8000/v1", None),
        ("openai:gpt-4o", MILLION, "https://api.openai.com/v1", Decimal("12.5")),
    ],
)
def test_an_unknown_price_or_that_of_ones_own_server_is_none_and_never_zero(
    model: str, usage: Tokens, base_url: str | None, cost: Decimal | None
) -> None:
    assert cost_of(usage, model, base_url=base_url) == cost


def test_without_the_library_no_price_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert cost_of(MILLION, "openai:gpt-4o") is None


async def test_thinking_aloud_is_nothing_said() -> None:
    model = FaltersModel("", "")
    with pytest.raises(ModelBusy):
        await answer_of(retrying(model, HastyClock()))
    assert model.calls == 3


async def test_the_callers_own_time_is_no_silence() -> None:
    clock = FakeClock()
    stream = ResilientModel(SlowModel(clock, 0, 1), clock=clock, silence_s=5).stream(Prompt(HELLO))
    assert await anext(stream) == TextDelta("0 ")
    await clock.advance(60)
    second = asyncio.ensure_future(anext(stream))
    await clock.advance(1)
    assert await second == TextDelta("1 ")
    await stream.aclose()  # type: ignore[attr-defined]
