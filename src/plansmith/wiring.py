"""From settings to parts: the one table of what is loaded on demand, and its loader (floor 7)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from plansmith.errors import Misconfigured

MODELS: Final = {
    "demo": "plansmith.adapters.models.demo:demo_model",
    "provider": "plansmith.adapters.models.provider:ProviderModel",
    "refusing": "plansmith.adapters.models.refusing:RefusingModel",
    "recorded": "plansmith.adapters.models.recorded:RecordedModel",
    "retrying": "plansmith.adapters.models.retrying:RetryingModel",
    "timed": "plansmith.adapters.models.timed:TimedModel",
    "limited": "plansmith.adapters.models.limited:LimitedModel",
}
CONTEXT: Final = {
    "documents": "plansmith.adapters.context.documents:DocumentSource",
}


def load(dotted: str) -> Any:
    """The object at `package.module:name`, imported now."""
    module, _, name = dotted.partition(":")
    return getattr(import_module(module), name)


def make_model(settings: Any, *, clock: Any) -> Any:
    """A model of the settings: asked again when busy, limited in time and length.

    Nothing is reached before the first call, so a wrong key or name breaks no start.
    """
    name: str = settings.model
    if name == "demo":
        return load(MODELS["demo"])()
    if name.startswith("recorded:"):
        path = Path(name.removeprefix("recorded:"))
        if not path.is_file():
            raise Misconfigured(f"there is no recording {path}", hint="check the path")
        return load(MODELS["recorded"])(path)
    if ":" not in name:
        known = "demo, recorded:FILE, or provider:name such as openai:gpt-5 or anthropic:claude"
        raise Misconfigured(f"{name!r} is not the name of a model", hint=known)
    variable: str | None = settings.api_key_env
    if variable and not os.environ.get(variable):
        why, hint = f"the environment has no {variable}", f"export {variable}=…"
        return load(MODELS["refusing"])(name, why=why, hint=hint)
    provider = load(MODELS["provider"])(
        name,
        base_url=settings.base_url,
        api_key=os.environ[variable] if variable else None,
        timeout_s=settings.timeout_s,
        output=settings.output,
    )
    heard = load(MODELS["timed"])(provider, clock=clock, silence_s=settings.silence_s)
    tried = load(MODELS["retrying"])(heard, clock=clock, tries=settings.tries)
    return load(MODELS["limited"])(tried, context_tokens=settings.context_tokens)


def make_sources(documents: Sequence[Path], *, tell: Callable[[str], None]) -> list[Any]:
    """The context sources of the settings."""
    missing = [path for path in documents if not path.exists()]
    if missing:
        raise Misconfigured(f"there is no file or folder {missing[0]}", hint="check the path")
    return [load(CONTEXT["documents"])(documents, tell=tell)] if documents else []
