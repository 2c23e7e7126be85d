"""Routes of models, the model that plans, which can be changed meanwhile, and downloads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from plansmith.errors import Refused
from plansmith.plan.sentence import Sentence
from plansmith_planner.models import choose
from plansmith_server import bodies as b
from plansmith_server.api import Answer, Ask, route
from plansmith_server.state import ModelSwitch
from plansmith_server.views import JsonObject

_LIBRARY: Final = "pydantic_ai"
_EMBEDDED: Final = ("name", "about", "size", "licence")


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
            {name: getattr(each, name) for name in _EMBEDDED}
            | {"here": each.is_here, "default": each.is_default}
            for each in (shelf.models() if shelf is not None else ())
        ],
    }


@route("GET /v1/models", "look")
async def listing(ask: Ask) -> Answer:
    """Lists what can plan here, which model is in use, and a download that goes on."""
    now = _current_model(ask)
    if _own_switch(ask) is None:
        return {**now, "can_change": False}
    if now["current"] == "auto":  # nothing was planned yet
        now["current"] = (await choose.choose(os.environ, shelf=choose.installed_shelf())).model
    return {**now, "can_change": True, **await found_models(os.environ)}


def _current_model(ask: Ask) -> JsonObject:
    switch = ask.state.models
    return {
        "current": ask.runs.planning.require_planner().name,
        "chosen": switch.chosen if switch else "",
        "download": switch.downloads.current if switch else None,
    }


def _own_switch(ask: Ask) -> ModelSwitch | None:
    """Returns the model, if this client may choose it: here, and not where workers plan."""
    state = ask.state
    is_ours = state.carrier is None and state.wiring.tenant is None and "admin" in ask.grant.rights
    return state.models if is_ours else None


def _require_change(ask: Ask) -> ModelSwitch:
    found = _own_switch(ask)
    if found is None:
        hint = Sentence("set models.plan in the settings of the server")
        raise Refused(Sentence("the model of this server cannot be changed here"), hint=hint)
    return found


@route("POST /v1/model", "admin")
async def use(ask: Ask, given: b.ModelChoice) -> Answer:
    """Plans with another model from now on, until the server stops."""
    switch = _require_change(ask)
    await switch.use(given)
    ask.state.log.info("model_chosen", model=switch.chosen, by=ask.by.name)
    return _current_model(ask)


@route("POST /v1/models/pull", "admin", status=202, example={"name": "qwen2.5-coder-0.5b"})
async def pull(ask: Ask, *, name: b.Text = "") -> Answer:
    """Downloads an embedded model; the list of models tells how far it is."""
    _require_change(ask).downloads.begin(name)
    return _current_model(ask)


@route("GET /v1/model", "look")
async def show(ask: Ask) -> Answer:
    """Says which model plans; for `auto`, also why that one was chosen."""
    wanted, switch = ask.state.settings.models.plan, ask.state.models
    if switch is not None and switch.chosen:
        why = Sentence("it was chosen on the page")
        return {"model": switch.chosen, "tried": [], "chosen": switch.name, "why": why}
    is_given = switch is not None and switch.is_given
    if is_given or wanted.model != "auto" or wanted.base_url:
        name = ask.runs.planning.require_planner().name
        model = name if is_given else wanted.model
        return {"model": model, "tried": [], "chosen": name, "why": Sentence("it is set")}
    choice = await choose.choose(os.environ, shelf=choose.installed_shelf())
    tried = [{"kind": each.kind, "name": each.what, "why": each.flaw} for each in choice.tried]
    return {"model": "auto", "chosen": choice.model, "why": choice.why, "tried": tried}
