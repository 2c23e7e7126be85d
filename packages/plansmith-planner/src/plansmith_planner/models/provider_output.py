"""What is known of model providers: names, keys, output modes, errors and prices."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, cast

from plansmith.errors import Misconfigured, ModelBusy, ModelFailed, ModelRefused, PromptTooLong
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence, did_you_mean, joined
from plansmith.ports import Message
from plansmith.text import clip

Mode = Literal["json_schema", "tool", "text"]
MODES: Final[tuple[Mode, ...]] = ("json_schema", "tool", "text")

# What servers say when they cannot (OpenAI, vLLM, Ollama, llama.cpp, OpenRouter, LiteLLM, TGI),
# and pydantic-ai before it asks them.
_REFUSAL_WORDS: Final[Mapping[Mode, tuple[str, ...]]] = {
    "json_schema": (
        *("response_format", "response format", "json_schema", "json schema", "json mode"),
        *("json_object", "structured output", "guided", "grammar", "invalid schema", "text.format"),
        "nativeoutput",
    ),
    "tool": ("tool", "function"),
    "text": (),
}
# llama.cpp and some proxies answer 500 or 404 to a parameter they do not know.
_STATUSES: Final = (400, 404, 405, 415, 422, 500, 501)
_NO_SCHEMAS: Final = ("const", "default", "enum", "examples", "required")


def is_mode_refusal(status: int | None, text: str, mode: Mode) -> bool:
    """Whether a server's error is about the output mode."""
    lowered = text.lower()
    return status in _STATUSES and any(word in lowered for word in _REFUSAL_WORDS[mode])


def takes_object(schema: Mapping[str, Json]) -> bool:
    """Whether a schema's value is an object, as tools and some providers require."""
    return schema.get("type", "object") == "object"


def is_closed(schema: Mapping[str, Json]) -> bool:
    """Whether all objects of a schema forbid additional properties."""
    return all(each.get("additionalProperties") is False for each in _objects(schema))


def opened(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Returns the schema with `additionalProperties` stated for objects without properties.

    Grammars made from schemas (llama.cpp, xgrammar) otherwise allow only an empty object.
    """
    copy = cast("dict[str, Json]", json.loads(json.dumps(schema)))
    for each in _objects(copy):
        if not each.keys() & {"properties", "additionalProperties", "patternProperties", "$ref"}:
            each["additionalProperties"] = True
    return copy


def _objects(schema: object) -> Iterator[dict[str, Json]]:
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            entry = cast("dict[str, Json]", node)
            if entry.get("type") == "object":
                yield entry
            stack += [value for key, value in entry.items() if key not in _NO_SCHEMAS]
        elif isinstance(node, list):
            stack += cast("list[object]", node)


def with_schema_text(messages: Sequence[Message], schema: Mapping[str, Json]) -> list[Message]:
    """Returns the messages with the schema as text, for models without other modes.

    It goes into the first message: the start of the prompt stays the same from call to call,
    and no two messages of one role follow each other, which some chat templates refuse.
    """
    schema_text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    text = f"Answer with JSON only, in the form of this JSON Schema:\n{schema_text}"
    if not messages or messages[0].role == "assistant":
        return [Message("user", text), *messages]
    first = messages[0]
    return [Message(first.role, f"{first.text}\n\n{text}"), *messages[1:]]


INSTALL: Final = "pip install packages/* 'plansmith[models]'"


def providers(kind: str) -> list[list[str]]:
    """Returns the rows of a kind in the list of providers that lies beside this file."""
    text = Path(__file__).with_name("providers.txt").read_text(encoding="utf-8")
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return [row[1:] for row in rows if row[0] == kind]


# What needs nothing but a key in the environment. Others find their key in files and roles, or
# need none: those tell at the first call.
_KEYED: Final = {name: variables for name, *variables in providers("key")}
_KEYLESS: Final = {name: variables for name, *variables in providers("free")}
_KEYS: Final = {
    **{name: variables[0] for name, variables in (_KEYED | _KEYLESS).items() if variables},
    "bedrock": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_BEARER_TOKEN_BEDROCK",
}
_GROUP: Final = re.compile(r"pydantic-ai-slim\[([a-z-]+)\]")
_GROUPS: Final = ("anthropic", "bedrock", "google", "groq", "mistral", "openai")
_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_PASSING: Final = frozenset({408, 409, 425, 429})


def key_variable(provider: str) -> str:
    """Returns the environment variable of a provider's key."""
    return _KEYS.get(provider, provider.upper().replace("-", "_") + "_API_KEY")


def status_of(error: BaseException) -> int | None:
    """Returns the HTTP status of an error."""
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def error_text(error: BaseException) -> str:
    """Returns what the server said in an error."""
    body: object = getattr(error, "body", None)
    if isinstance(body, dict):
        entry = cast("dict[str, Any]", body)
        message = entry.get("message") or entry.get("error") or entry.get("detail") or entry
        text = message if isinstance(message, str) else json.dumps(message, default=str)
    else:
        text = str(body or getattr(error, "message", "") or str(error) or type(error).__name__)
    return clip(text, 500)


def as_failure(error: Exception, *, model: str, own_key: bool = False) -> ModelFailed:
    """Returns our error for one of a provider; `own_key` if the key is from settings.

    Recognizes errors by their class names, so that the library need not be imported.
    """
    if isinstance(error, ModelFailed):
        return error
    kinds = {kind.__name__ for kind in type(error).__mro__}
    about = {"model": model, "error": error_text(error)}
    if "ModelContextWindowExceededError" in kinds:
        message = Sentence("the prompt is too long for {model}: {error}", **about)
        hint = Sentence("give it less context, or choose a model with a larger context")
        return PromptTooLong(message, hint=hint)
    if "ContentFilterError" in kinds:
        return ModelRefused(Sentence("{model} was stopped by its content filter: {error}", **about))
    if "ModelQuotaExceededError" in kinds:
        message = Sentence("the account for {model} has no credit left: {error}", **about)
        hint = Sentence("top it up with the provider, or choose another model")
        return ModelRefused(message, hint=hint)
    status = status_of(error)
    if status is None:
        return _without_status(error, kinds, model)
    if status in _PASSING or status >= 500:
        wish = getattr(error, "retry_after", None)
        message = Sentence("{model} is busy (HTTP {status}): {error}", status=status, **about)
        return ModelBusy(message, retry_after=float(wish) if wish is not None else None)
    message = Sentence(
        "{model} refused the request (HTTP {status}): {error}", status=status, **about
    )
    return ModelRefused(message, hint=_hint(error, status, model, own_key=own_key))


def _hint(error: Exception, status: int, model: str, *, own_key: bool) -> str:
    if status in (401, 403):
        if own_key:
            return Sentence("check or set the model's api_key")
        return Sentence("check or set {variable}", variable=key_variable(model.partition(":")[0]))
    suggestion = getattr(error, "suggested_model_id", None)
    if suggestion:
        return Sentence("did you mean {name}?", name=suggestion)
    return Sentence("check the model's name and the base_url") if status == 404 else ""


def _without_status(error: Exception, kinds: set[str], model: str) -> ModelFailed:
    if kinds & {"ModelTimeoutError", "ModelRequestTimeout", "TimeoutError"}:
        message = Sentence("{model} did not answer in time", model=model)
        return ModelBusy(message, hint=Sentence("raise timeout_s if it is slow"))
    if getattr(error, "phase", None) == "read" or "`finish_reason`" in str(error):
        return broken_off(model)
    if kinds & {"ModelConnectionError", "OSError"}:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        why = str(cause) or type(cause).__name__
        message = Sentence("{model} cannot be reached: {error}", model=model, error=why)
        return ModelBusy(message, hint=Sentence("check the base_url and whether the server runs"))
    if "UserError" in kinds:
        return refused_setup(error, model)
    text = error_text(error)
    if kinds & {"ModelAPIError", "UnexpectedModelBehavior"}:
        text = Sentence(
            "{model} sent something that is not a chat answer: {error}", model=model, error=text
        )
        return ModelBusy(text)
    why = f"{type(error).__name__}: {text}"
    text = Sentence("what {model} sent could not be read ({why})", model=model, why=why)
    return ModelFailed(text)


def broken_off(model: str) -> ModelBusy:
    """Returns the error for an answer that stopped before its end."""
    return ModelBusy(Sentence("the answer of {model} stopped before its end", model=model))


def refused_setup(error: Exception, model: str) -> ModelRefused:
    """Returns the error for a missing library, key, provider or address."""
    why = str(error)
    if isinstance(error, ImportError):
        group = _GROUP.search(why)
        install = INSTALL if group is None or group[1] in _GROUPS else f"pip install '{group[0]}'"
        message = Sentence("{name} needs a library that is not installed", name=model)
        return ModelRefused(message, hint=install)
    variables = list(dict.fromkeys(_VARIABLE.findall(why)))
    if "`region_name`" in why:
        variables.append("AWS_DEFAULT_REGION")
    if variables:
        hint = Sentence("set {names}", names=joined(variables, "text.or"))
        return ModelRefused(Sentence("{model} is not set up", model=model), hint=hint)
    if "Unknown" in why:
        message = Sentence(
            "{model} is not a model that can be reached: {why}", model=model, why=why
        )
        return ModelRefused(message, hint=_FORM)
    message = Sentence("{model} cannot be asked: {why}", model=model, why=why)
    return ModelRefused(message, hint=_FORM if isinstance(error, ValueError) else "")


_FORM: Final = Sentence(
    "write provider:name, such as openai:gpt-5, "
    "anthropic:claude-sonnet-4-5 or ollama:qwen3; for a server "
    "of your own, openai:NAME and its base_url"
)


def price_of(
    tokens: object, name: str, *, provider: str, url: str | None = None, only_url: bool = False
) -> Decimal | None:
    """Returns the price of a usage object of genai-prices' shape.

    `only_url` is for a server of one's own: a local model with the name of a paid one must not be
    billed like it.
    """
    try:
        calc_price: Any = importlib.import_module("genai_prices").calc_price
    except ImportError:
        return None
    references = [{"provider_api_url": url}] if url else []
    if not only_url:
        references.append({"provider_id": provider.removeprefix("gateway/")})
    for reference in references:
        try:
            total = cast("Decimal", calc_price(tokens, name, **reference).total_price)
        # Besides LookupError, odd counts (more cached tokens than tokens) are a ValueError.
        except (LookupError, ValueError):
            continue
        return total if total > 0 else None
    return None


_NAME_FORM: Final = Sentence(
    "write provider:name, such as openai:gpt-5, or auto, local, rules, recorded:FILE"
)


def require_usable(name: str, *, environment: Mapping[str, str], has_server: bool = False) -> None:
    """Raises `Misconfigured` if a model named `provider:name` cannot be called as things are.

    `has_server`: a server or a key was given with the name, so that the environment needs none.
    """
    provider, colon, rest = name.partition(":")
    if not colon or not rest:
        unnamed = Sentence("'{name}' is not the name of a model", name=name)
        raise Misconfigured(unnamed, hint=_NAME_FORM)
    if find_spec("pydantic_ai") is None:
        missing = Sentence("{name} needs a library that is not installed", name=name)
        raise Misconfigured(missing, hint=INSTALL)
    known = {*_KEYED, *_KEYLESS}
    if provider not in known and not _library_knows(provider):
        unknown = Sentence("no provider of models is called '{name}'", name=provider)
        raise Misconfigured(
            unknown, hint=did_you_mean(provider, sorted(known), otherwise=_NAME_FORM)
        )
    if provider in ("openai", "openai-chat") and environment.get("OPENAI_BASE_URL"):
        return
    key = key_variable(provider)
    given = any(environment.get(name) for name in (key, *_KEYED.get(provider, ())))
    if provider in _KEYED and not has_server and not given:
        hint = Sentence(
            "export {variable}=…, or give model('{name}', api_key=…)", variable=key, name=name
        )
        keyless = Sentence("{name} needs a key, and {variable} is not set", name=name, variable=key)
        raise Misconfigured(keyless, hint=hint)


def _library_knows(provider: str) -> bool:
    """Asks the library, which takes a second to load; it has more providers with each release."""
    providers: Any = importlib.import_module("pydantic_ai.providers")
    try:
        providers.infer_provider_class(provider.removeprefix("gateway/"))
    except ImportError:  # known, and its own library is missing: the first call says which
        return True
    except Exception:  # noqa: BLE001 - any other failure of a stranger's table is a no
        return False
    return True
