"""The model that plans, which can be changed while the server runs, and model downloads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from importlib.util import find_spec
from typing import Any, Final

from plansmith.errors import Misconfigured, PlansmithError, Refused
from plansmith.plan.sentence import Sentence
from plansmith.ports import ChatModel, Clock, Delta, Prompt
from plansmith_planner.make import make_model
from plansmith_planner.models import choose
from plansmith_planner.models.wrappers import closing
from plansmith_planner.settings import ModelSettings
from plansmith_server.bodies import ModelChoice

_LIBRARY: Final = "pydantic_ai"
_SHOWN: Final = ("name", "about", "size", "licence")


class ModelDownloads:
    """Downloads embedded models in the background, one at a time."""

    def __init__(self) -> None:
        # How far the newest one is, or why it stopped.
        self.current: dict[str, Any] | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self, name: str) -> None:
        """Starts a download, unless it is under way."""
        model = _shelf().model(name)
        if self.current is not None and self.current["state"] in ("loading", "checking"):
            if self.current["name"] == model.name:
                return
            why = Sentence("{model} is being downloaded", model=self.current["name"])
            raise Refused(why, hint=Sentence("wait for it to end"))
        self.current = {"name": model.name, "total": model.size, "done": 0, "state": "loading"}
        self.current |= {"error": "", "hint": ""}
        self._task = asyncio.create_task(_load(model, self.current))


async def _load(model: choose.KeptModel, download: dict[str, Any]) -> None:
    def progress(done: int, total: int) -> None:
        download.update(done=done, state="checking" if done >= total else "loading")

    try:
        await asyncio.to_thread(_shelf().pull, model.name, progress)
    except PlansmithError as error:
        download.update(state="failed", error=error.message, hint=error.hint)
    except OSError as error:
        download.update(state="failed", error=str(error))
    else:
        download.update(state="done", done=download["total"])


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
        self.downloads = ModelDownloads()

    @property
    def name(self) -> str:
        return self._model.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Returns the answer of the model in use when the call begins."""
        pieces = self._model.stream(prompt)
        async with closing(pieces):
            async for delta in pieces:
                yield delta

    async def use(self, given: ModelChoice) -> None:
        """Plans with another model from the next call on; checks what can be checked at once."""
        key = given.api_key.get_secret_value().strip()
        fields = await _fields(given, has_key=bool(key))
        limits = {"timeout_s": self._settings.timeout_s, "silence_s": self._settings.silence_s}
        settings = ModelSettings.model_validate({**fields, **limits})
        self._model = make_model(settings, clock=self._clock, api_key=key or None)
        self.chosen = settings.model


async def _fields(given: ModelChoice, *, has_key: bool) -> dict[str, str | None]:
    """Returns the settings of a model that a person chose, of what this machine offers."""
    model = given.model
    match given.kind:
        case "auto" | "rules":
            return {"model": given.kind}
        case "embedded":
            known = _shelf().model(model)
            if not known.is_here:
                why = Sentence("the file of {model} is not on this machine", model=known.name)
                raise Refused(why, hint=Sentence("download it first"))
            return {"model": f"local:{known.name}"}
        case "server":
            places = [each for each in choose.usual_places(os.environ) if each.url == given.url]
            servers = await choose.ask_servers(places) if places else []
            if not servers or model not in servers[0].models:
                server = given.url or "the server"
                why = Sentence("{server} has no model '{model}' now", server=server, model=model)
                raise Refused(why, hint=Sentence("start it, and look again"))
            return {"model": f"openai:{model}", "base_url": servers[0].place.base_url}
        case "key":
            return _keyed(given.variable, model.strip(), has_key=has_key)


def _keyed(variable: str, model: str, *, has_key: bool) -> dict[str, str | None]:
    key = next((each for each in choose.KEYS if each.variable == variable), None)
    if key is None:
        why = Sentence("'{name}' is not the key of a known provider", name=variable)
        names = [each.variable for each in choose.KEYS]
        raise Misconfigured(why, hint=Sentence("use {names}", names=names))
    if not has_key and not os.environ.get(variable, "").strip():
        why = Sentence("{variable} is not set, and no key was given", variable=variable)
        raise Refused(why, hint=Sentence("enter the key"))
    name = f"{key.provider}:{model or key.model}"
    return {"model": name, "base_url": key.base_url, "api_key_env": None if has_key else variable}


def _shelf() -> choose.ModelShelf:
    shelf = choose.installed_shelf()
    if shelf is None:
        hint = "pip install packages/* 'plansmith[desk]'"
        raise Misconfigured("no installed package runs models in this process", hint=hint)
    return shelf


async def found_models(environment: Mapping[str, str]) -> dict[str, Any]:
    """Returns what can plan here: keys, servers on this machine, embedded models."""
    shelf, library = choose.installed_shelf(), find_spec(_LIBRARY) is not None
    servers = await choose.ask_servers(choose.usual_places(environment)) if library else []
    return {
        "library": library,
        "runtime": shelf is not None and shelf.has_runtime,
        "offline": choose.is_offline(environment),
        "keys": [
            {
                "variable": key.variable,
                "provider": key.variable.removesuffix("_API_KEY").capitalize(),
                "model": environment.get(key.chosen_by, "").strip() or key.model,
                "set": bool(environment.get(key.variable, "").strip()),
            }
            for key in choose.KEYS
        ],
        "servers": [
            {"program": each.place.program, "url": each.place.url, "models": each.models}
            for each in servers
            if each.models
        ],
        "embedded": [
            {name: getattr(each, name) for name in _SHOWN}
            | {"here": each.is_here, "default": each.is_default}
            for each in (shelf.models() if shelf is not None else ())
        ],
    }
