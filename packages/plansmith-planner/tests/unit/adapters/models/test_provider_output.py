"""What is known of providers without asking one: their failures, and their prices."""

from __future__ import annotations

import sys
from decimal import Decimal

import pytest
from genai_prices import Usage

from plansmith.errors import ModelBusy, ModelFailed, ModelRefused
from plansmith_planner.models.provider_output import (
    as_failure,
    error_text,
    price_of,
    refused_setup,
)

MILLION = Usage(input_tokens=1_000_000, output_tokens=1_000_000)


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


def cost_of(usage: Usage, model: str, *, base_url: str | None = None) -> Decimal | None:
    provider, _, name = model.partition(":")
    return price_of(usage, name, provider=provider, url=base_url, only_url=base_url is not None)


@pytest.mark.parametrize("model", ["openai:no-such-model", "nobody:gpt-4o", "ollama:qwen3:8b", ""])
def test_an_unknown_price_is_none_and_never_zero(model: str) -> None:
    assert cost_of(MILLION, model) is None


def test_counts_that_contradict_each_other_have_no_price() -> None:
    assert cost_of(Usage(input_tokens=1, cache_read_tokens=9), "openai:gpt-4o") is None


def test_a_server_of_ones_own_has_no_price_but_a_providers_address_has() -> None:
    assert cost_of(MILLION, "openai:gpt-4o", base_url="http://127.0.0.1:8000/v1") is None
    assert cost_of(MILLION, "openai:gpt-4o", base_url="https://api.openai.com/v1") == Decimal(
        "12.5"
    )


def test_without_the_library_no_price_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert cost_of(MILLION, "openai:gpt-4o") is None
