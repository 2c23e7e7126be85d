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
_KEYED_NAMES: Final = """
    alibaba anthropic cerebras cohere deepseek google groq mistral moonshotai openai openai-chat
    openai-responses openrouter xai zai
"""
_KEYED: Final = frozenset(_KEYED_NAMES.split())
_OTHERS: Final = ("azure", "bedrock", "huggingface", "litellm", "ollama", "vllm")
_OTHER_KEYS: Final[Mapping[str, str]] = {"alibaba": "ALIBABA_API_KEY", "google": "GEMINI_API_KEY"}
# How the names of a provider's models begin.
_FAMILIES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("gpt", "o1", "o3", "o4"), "openai"),
    "claude": "anthropic",
    "gemini": "google",
    "deepseek": "deepseek",
    "mistral": "mistral",
}


def need_usable(name: str, *, environment: Mapping[str, str], has_server: bool = False) -> None:
    """Raises `Misconfigured` if a model named `provider:name` cannot be called as things are.

    `has_server`: a server or a key was given with the name, so that the environment needs none.
    """
    provider, colon, rest = name.partition(":")
    if not colon or not rest:
        plain = name.strip(":").lower()
        meant = next((each for start, each in _FAMILIES.items() if plain.startswith(start)), "")
        hint = f"write {meant}:{name}" if meant else _FORM
        raise Misconfigured(Sentence("'{name}' is not the name of a model", name=name), hint=hint)
    if find_spec("pydantic_ai") is None:
        missing = Sentence("{name} needs a library that is not installed", name=name)
        raise Misconfigured(missing, hint=INSTALL)
    known = {*_KEYED, *_OTHERS}
    if provider not in known and not _is_known(provider):
        near = difflib.get_close_matches(provider.lower(), sorted(known), n=1)
        meant = Sentence("did you mean {provider}:{name}?", provider="".join(near), name=rest)
        unknown = Sentence("no provider of models is called '{name}'", name=provider)
        raise Misconfigured(unknown, hint=meant if near else _FORM)
    if provider in ("openai", "openai-chat") and environment.get("OPENAI_BASE_URL"):
        return
    key = key_variable(provider)
    given = environment.get(key) or environment.get(_OTHER_KEYS.get(provider, key))
    if provider in _KEYED and not has_server and not given:
        hint = Sentence(
            "export {variable}=…, or give model('{name}', api_key=…)", variable=key, name=name
        )
        keyless = Sentence("{name} needs a key, and {variable} is not set", name=name, variable=key)
        raise Misconfigured(keyless, hint=hint)


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
