"""What went wrong behind a provider's library, in the words of our own error tree."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from plansmith.errors import ModelBusy, ModelFailed, ModelRefused, PromptTooLong

INSTALL: Final = "pip install 'plansmith[models]'"

# Most are NAME_API_KEY.
_KEYS: Final[Mapping[str, str]] = {
    "alibaba": "DASHSCOPE_API_KEY",
    "azure": "AZURE_OPENAI_API_KEY",
    "bedrock": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_BEARER_TOKEN_BEDROCK",
    "cohere": "CO_API_KEY",
    "google": "GOOGLE_API_KEY",
    "google-cloud": "GOOGLE_API_KEY",
    "heroku": "HEROKU_INFERENCE_KEY",
    "huggingface": "HF_TOKEN",
    "openai-chat": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "vercel": "VERCEL_AI_GATEWAY_API_KEY",
}
_GROUP: Final = re.compile(r"pydantic-ai-slim\[([a-z-]+)\]")
_GROUPS: Final = ("anthropic", "bedrock", "google", "groq", "mistral", "openai")
_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_PASSING: Final = frozenset({408, 409, 425, 429})
_LONGEST_QUOTE: Final = 500


def key_variable(provider: str) -> str:
    """The environment variable that holds a provider's key."""
    return _KEYS.get(provider, provider.upper().replace("-", "_") + "_API_KEY")


def status_of(error: BaseException) -> int | None:
    """The HTTP status an error tells of."""
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def words_of(error: BaseException) -> str:
    """What a server said about an error, as text."""
    body: object = getattr(error, "body", None)
    if isinstance(body, dict):
        entry = cast("dict[str, Any]", body)
        said = entry.get("message") or entry.get("error") or entry.get("detail") or entry
        text = said if isinstance(said, str) else json.dumps(said, default=str)
    else:
        text = str(body or getattr(error, "message", "") or str(error) or type(error).__name__)
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"


def as_failure(error: Exception, *, model: str, own_key: bool = False) -> ModelFailed:
    """Our error for one of a provider's library; `own_key` when the key comes from settings.

    Errors are told apart by the names of their classes: the library stays unimported here.
    """
    if isinstance(error, ModelFailed):
        return error
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "ModelContextWindowExceededError" in kinds:
        return PromptTooLong(
            f"the prompt is too long for {model}: {words_of(error)}",
            hint="give it less context, or choose a model with a larger context",
        )
    if "ContentFilterError" in kinds:
        return ModelRefused(f"{model} did not answer for reasons of content: {words_of(error)}")
    if "ModelQuotaExceededError" in kinds:
        return ModelRefused(
            f"the account behind {model} is used up: {words_of(error)}",
            hint="top it up with the provider, or choose another model",
        )
    return _from_status(error, kinds, model, own_key=own_key)


def _from_status(error: Exception, kinds: set[str], model: str, *, own_key: bool) -> ModelFailed:
    status = status_of(error)
    if status is not None and (status in _PASSING or status >= 500):
        wish = getattr(error, "retry_after", None)
        said = f"{model} is busy (HTTP {status}): {words_of(error)}"
        return ModelBusy(said, retry_after=float(wish) if wish is not None else None)
    if status is not None:
        said = f"{model} refused the request (HTTP {status}): {words_of(error)}"
        return ModelRefused(said, hint=_hint(error, status, model, own_key=own_key))
    return _from_kind(error, kinds, model)


def _hint(error: Exception, status: int, model: str, *, own_key: bool) -> str:
    if status in (401, 403):
        variable = key_variable(model.partition(":")[0])
        return "check or set the model's api_key" if own_key else f"check or set {variable}"
    suggestion = getattr(error, "suggested_model_id", None)
    if suggestion:
        return f"did you mean {suggestion}?"
    return "check the model's name and the base_url" if status == 404 else ""


def _from_kind(error: Exception, kinds: set[str], model: str) -> ModelFailed:
    if kinds & {"ModelTimeoutError", "ModelRequestTimeout", "TimeoutError"}:
        return ModelBusy(f"{model} did not answer in time", hint="raise timeout_s if it is slow")
    if getattr(error, "phase", None) == "read" or "`finish_reason`" in str(error):
        return broken_off(model)
    if kinds & {"ModelConnectionError", "OSError"}:
        said = f"{model} cannot be reached: {_first_cause(error)}"
        return ModelBusy(said, hint="check the base_url and whether the server runs")
    if "UserError" in kinds:
        return refused_setup(error, model)
    if kinds & {"ModelAPIError", "UnexpectedModelBehavior"}:
        return ModelBusy(f"{model} sent something that is no chat answer: {words_of(error)}")
    said = f"{type(error).__name__}: {words_of(error)}"
    return ModelFailed(f"what {model} sent could not be read ({said})")


def broken_off(model: str) -> ModelBusy:
    """An answer without an end."""
    return ModelBusy(f"the answer of {model} broke off before its end")


def _first_cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error) or type(error).__name__


def refused_setup(error: Exception, model: str) -> ModelRefused:
    """A model that cannot even be asked: no library, key, provider or address."""
    said = str(error)
    if isinstance(error, ImportError):
        group = _GROUP.search(said)
        install = INSTALL if group is None or group[1] in _GROUPS else f"pip install '{group[0]}'"
        return ModelRefused(f"{model} needs a library that is not installed", hint=install)
    variables = list(dict.fromkeys(_VARIABLE.findall(said)))
    if "`region_name`" in said:
        variables.append("AWS_DEFAULT_REGION")
    if variables:
        return ModelRefused(f"{model} is not set up", hint=f"set {' or '.join(variables)}")
    if "Unknown" in said:
        return ModelRefused(f"{model} is not a model that can be reached: {said}", hint=_FORM)
    hint = _FORM if isinstance(error, ValueError) else ""
    return ModelRefused(f"{model} cannot be asked: {said}", hint=hint)


_FORM: Final = (
    "write provider:name, such as openai:gpt-5, anthropic:claude-sonnet-4-5 or ollama:qwen3; "
    "for a server of your own, openai:NAME and its base_url"
)
