"""Checks the name of a provider's model before its first call: whether it is one, and its key."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from plansmith.errors import Misconfigured
from plansmith.plan.sentence import Sentence
from plansmith_planner.models.provider_output import INSTALL, key_variable

_FORM: Final = Sentence(
    "write provider:name, such as openai:gpt-5, or auto, local, rules, recorded:FILE"
)
# A key in the environment is all that these need. Others find their key in files and roles, or
# need none: those tell at the first call.
_KEYED: Final = frozenset(
    {
        *("alibaba", "anthropic", "cerebras", "cohere", "deepseek", "google", "groq", "mistral"),
        *("moonshotai", "openai", "openai-chat", "openai-responses", "openrouter", "xai", "zai"),
    }
)
_OTHERS: Final = frozenset(
    {"azure", "bedrock", "github", "google-cloud", "huggingface", "litellm", "ollama", "vllm"}
)
_MORE_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "alibaba": ("ALIBABA_API_KEY",),
    "google": ("GEMINI_API_KEY",),
}
_SERVER: Final[Mapping[str, str]] = dict.fromkeys(("openai", "openai-chat"), "OPENAI_BASE_URL")
_FAMILIES: Final[Mapping[str, str]] = {
    "gpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
    "gemini": "google",
    "deepseek": "deepseek",
    "mistral": "mistral",
    "grok": "xai",
    "kimi": "moonshotai",
    "glm": "zai",
}


def need_usable(name: str, *, environment: Mapping[str, str], has_server: bool = False) -> None:
    """Raises `Misconfigured` if a model named `provider:name` cannot be called as things are.

    `has_server`: a server or a key was given with the name, so that the environment needs none.
    """
    provider, colon, rest = name.partition(":")
    if not colon or not rest:
        raise Misconfigured(
            Sentence("'{name}' is not the name of a model", name=name), hint=_suggestion(name)
        )
    if find_spec("pydantic_ai") is None:
        raise Misconfigured(
            Sentence("{name} needs a library that is not installed", name=name), hint=INSTALL
        )
    if provider not in _KEYED | _OTHERS and not _is_known(provider):
        near = difflib.get_close_matches(provider.lower(), sorted(_KEYED | _OTHERS), n=1)
        hint = (
            Sentence("did you mean {provider}:{name}?", provider=near[0], name=rest)
            if near
            else _FORM
        )
        raise Misconfigured(
            Sentence("no provider of models is called '{name}'", name=provider), hint=hint
        )
    if provider not in _KEYED or has_server or environment.get(_SERVER.get(provider, "")):
        return
    variables = (key_variable(provider), *_MORE_KEYS.get(provider, ()))
    if not any(environment.get(each) for each in variables):
        hint = Sentence(
            "export {variable}=…, or give model('{name}', api_key=…)",
            variable=variables[0],
            name=name,
        )
        raise Misconfigured(
            Sentence(
                "{name} needs a key, and {variable} is not set", name=name, variable=variables[0]
            ),
            hint=hint,
        )


def _suggestion(name: str) -> str:
    """Returns what to write instead of a name without its provider."""
    plain = name.strip(":").lower()
    provider = next((each for start, each in _FAMILIES.items() if plain.startswith(start)), "")
    return f"write {provider}:{name}" if provider else _FORM


def _is_known(provider: str) -> bool:
    """Asks the library, which takes a second to load; it has more providers with each release."""
    providers: Any = importlib.import_module("pydantic_ai.providers")
    try:
        providers.infer_provider_class(provider.removeprefix("gateway/"))
    except ImportError:  # known, and its own library is missing: the first call says which
        return True
    except Exception:  # noqa: BLE001 - any other failure of a stranger's table is a no
        return False
    return True
