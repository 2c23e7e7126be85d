"""Keys that stand in the environment, and the model that each of them is good for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Key:
    """A variable that holds a key, and what it opens; `chosen_by` names another model.

    `base_url` is set where the provider is reached as an OpenAI-compatible server.
    """

    variable: str
    provider: str
    model: str
    chosen_by: str
    base_url: str | None = None


def _key(variable: str, provider: str, model: str, base_url: str | None = None) -> Key:
    chosen_by = f"{variable.removesuffix('_API_KEY')}_MODEL"
    return Key(variable, provider, model, chosen_by, base_url)


# In this order; names that providers keep pointing at a current model where there are such.
KEYS: Final = (
    _key("OPENAI_API_KEY", "openai", "gpt-5.4-mini"),
    _key("ANTHROPIC_API_KEY", "anthropic", "claude-sonnet-5"),
    _key("GEMINI_API_KEY", "google", "gemini-flash-latest"),
    _key("GOOGLE_API_KEY", "google", "gemini-flash-latest"),
    _key("DEEPSEEK_API_KEY", "deepseek", "deepseek-chat"),
    _key("DASHSCOPE_API_KEY", "alibaba", "qwen-plus"),
    _key("MOONSHOTAI_API_KEY", "moonshotai", "kimi-latest"),
    _key("ZAI_API_KEY", "zai", "glm-4.7"),
    _key("MISTRAL_API_KEY", "openai", "mistral-large-latest", "https://api.mistral.ai/v1"),
    _key("GROQ_API_KEY", "openai", "openai/gpt-oss-120b", "https://api.groq.com/openai/v1"),
    _key("XAI_API_KEY", "openai", "grok-4", "https://api.x.ai/v1"),
    _key("OPENROUTER_API_KEY", "openrouter", "openrouter/auto"),
)


def found_keys(environment: Mapping[str, str]) -> Iterator[tuple[Key, str]]:
    """The keys that are set, each with its model as `provider:name`."""
    for key in KEYS:
        if environment.get(key.variable, "").strip():
            name = environment.get(key.chosen_by, "").strip() or key.model
            yield key, f"{key.provider}:{name}"
