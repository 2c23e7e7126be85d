from __future__ import annotations

import sys
from decimal import Decimal

import pytest
from genai_prices import Usage

from plansmith_planner.models.provider_output import price_of

MILLION = Usage(input_tokens=1_000_000, output_tokens=1_000_000)


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
