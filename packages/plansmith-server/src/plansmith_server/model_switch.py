"""The model that plans, which can be changed while the server runs, and model downloads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final, Literal

from plansmith.errors import Misconfigured, PlansmithError, Refused
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.ports import ChatModel, Clock, Delta, Prompt
from plansmith_planner.make import make_model
from plansmith_planner.models.choose import (
    KEYS,
    KeptModel,
    ModelShelf,
    ask_servers,
    found_keys,
    installed_shelf,
    is_offline,
    usual_places,
)
from plansmith_planner.models.wrappers import closing
from plansmith_planner.settings import ModelSettings

Kind = Literal["auto", "key", "server", "embedded", "rules"]
_PROVIDERS: Final = {
    "OPENAI_API_KEY": "OpenAI",
    "ANTHROPIC_API_KEY": "Anthropic",
    "GEMINI_API_KEY": "Google Gemini",
    "GOOGLE_API_KEY": "Google",
    "DEEPSEEK_API_KEY": "DeepSeek",
    "DASHSCOPE_API_KEY": "Alibaba (Qwen)",
    "MOONSHOTAI_API_KEY": "Moonshot (Kimi)",
    "ZAI_API_KEY": "Z.ai (GLM)",
    "MISTRAL_API_KEY": "Mistral",
    "GROQ_API_KEY": "Groq",
    "XAI_API_KEY": "xAI",
    "OPENROUTER_API_KEY": "OpenRouter",
}
_LIBRARY: Final = "pydantic_ai"


class ModelSwitch:
    """A model that stands for another one, which can be replaced between two calls."""

    def __init__(
        self, model: ChatModel, settings: ModelSettings, clock: Clock, *, is_given: bool = False
    ) -> None:
        self._model = model
        self._settings = settings
        self._clock = clock
        # A program that starts the server may give it a model, whatever the settings say.
        self.is_given = is_given
        # Set once a person has chosen on the page; the settings decide until then.
        self.chosen = ""

    @property
    def name(self) -> str:
        """The name of the model in use."""
        return self._model.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Returns the answer of the model in use when the call begins."""
        pieces = self._model.stream(prompt)
        async with closing(pieces):
            async for delta in pieces:
                yield delta

    async def use(
        self, kind: Kind, *, model: str = "", url: str = "", variable: str = "", api_key: str = ""
    ) -> None:
        """Plans with another model from the next call on; checks what can be checked at once."""
        fields = await _fields(kind, model, url, variable, has_key=bool(api_key))
        limits = {"timeout_s": self._settings.timeout_s, "silence_s": self._settings.silence_s}
        settings = ModelSettings.model_validate({**fields, **limits})
        made = make_model(settings, clock=self._clock, api_key=api_key or None)
        self._model, self.chosen = made, settings.model


async def _fields(
    kind: Kind, model: str, url: str, variable: str, *, has_key: bool
) -> dict[str, str | None]:
    """Returns the settings of a model that a person chose, of what this machine offers."""
    match kind:
        case "auto" | "rules":
            return {"model": kind}
        case "embedded":
            known = _shelf().model(model)
            if not known.is_here:
                why = Sentence("the file of {model} is not on this machine", model=known.name)
                raise Refused(why, hint=Sentence("download it first"))
            return {"model": f"local:{known.name}"}
        case "server":
            place = next((each for each in usual_places(os.environ) if each.url == url), None)
            servers = await ask_servers([place]) if place else []
            if not servers or model not in servers[0].models:
                why = Sentence(
                    "{server} has no model '{model}' now", server=url or "the server", model=model
                )
                raise Refused(why, hint=Sentence("start it, and look again"))
            return {"model": f"openai:{model}", "base_url": servers[0].place.base_url}
        case "key":
            return _keyed(variable, model, has_key=has_key)


def _keyed(variable: str, model: str, *, has_key: bool) -> dict[str, str | None]:
    key = next((each for each in KEYS if each.variable == variable), None)
    if key is None:
        hint = Sentence("use {names}", names=[each.variable for each in KEYS])
        raise Misconfigured(
            Sentence("'{name}' is not the key of a known provider", name=variable), hint=hint
        )
    if not has_key and not os.environ.get(variable, "").strip():
        why = Sentence("{variable} is not set, and no key was given", variable=variable)
        raise Refused(why, hint=Sentence("enter the key"))
    name = f"{key.provider}:{model.strip() or key.model}"
    return {
        "model": name,
        "base_url": key.base_url,
        "api_key_env": None if has_key else variable,
    }


@dataclass(slots=True)
class Download:
    """One download of an embedded model: how far it is, or why it stopped."""

    name: str
    total: int
    done: int = 0
    state: Literal["loading", "checking", "done", "failed"] = "loading"
    error: str = ""
    hint: str = ""

    def to_json(self) -> dict[str, Json]:
        """Returns the download for clients."""
        return {
            "name": self.name,
            "total": self.total,
            "done": self.done,
            "state": self.state,
            "error": self.error,
            "hint": self.hint,
        }


class ModelDownloads:
    """Downloads embedded models in the background, one at a time."""

    def __init__(self) -> None:
        self.current: Download | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self, name: str) -> Download:
        """Starts a download; returns the one that runs already, if it is the same."""
        model = _shelf().model(name)
        if self.current is not None and self.current.state in ("loading", "checking"):
            if self.current.name == model.name:
                return self.current
            why = Sentence("{model} is being downloaded", model=self.current.name)
            raise Refused(why, hint=Sentence("wait for it to end"))
        self.current = Download(model.name, model.size)
        self._task = asyncio.create_task(self._load(model, self.current))
        return self.current

    async def _load(self, model: KeptModel, download: Download) -> None:
        def progress(done: int, total: int) -> None:
            download.done = done
            download.state = "checking" if done >= total else "loading"

        try:
            await asyncio.to_thread(_shelf().pull, model.name, progress)
        except PlansmithError as error:
            download.state, download.error, download.hint = "failed", error.message, error.hint
        except OSError as error:
            download.state, download.error = "failed", str(error)
        else:
            download.done, download.state = download.total, "done"


def _shelf() -> ModelShelf:
    shelf = installed_shelf()
    if shelf is None:
        hint = "pip install packages/* 'plansmith[desk]'"
        raise Misconfigured("no installed package runs models in this process", hint=hint)
    return shelf


async def found_models(environment: Mapping[str, str]) -> dict[str, Json]:
    """Returns what can plan here: keys, servers on this machine, embedded models."""
    shelf, keys = installed_shelf(), dict(found_keys(environment))
    servers = await ask_servers(usual_places(environment)) if find_spec(_LIBRARY) else []
    set_here = {key.variable for key in keys}
    return {
        "library": find_spec(_LIBRARY) is not None,
        "runtime": shelf is not None and shelf.has_runtime,
        "offline": is_offline(environment),
        "keys": [
            {
                "variable": key.variable,
                "provider": _PROVIDERS.get(key.variable, key.provider),
                "model": environment.get(key.chosen_by, "").strip() or key.model,
                "set": key.variable in set_here,
            }
            for key in KEYS
        ],
        "servers": [
            {"program": each.place.program, "url": each.place.url, "models": [*each.models]}
            for each in servers
            if each.models
        ],
        "embedded": [
            {
                "name": each.name,
                "about": each.about,
                "size": each.size,
                "licence": each.licence,
                "here": each.is_here,
                "default": each.is_default,
            }
            for each in (shelf.models() if shelf is not None else ())
        ],
    }
