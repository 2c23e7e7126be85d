"""Routes of models: what was found on this machine, choosing one, downloading one."""

from __future__ import annotations

import os

from plansmith.errors import Refused
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith_planner.models.choose import choose, installed_shelf
from plansmith_server.model_switch import found_models
from plansmith_server.openapi import Answer, Ask, Nothing
from plansmith_server.schemas import requests as b
from plansmith_server.state import ServerState


async def listing(ask: Ask, _: Nothing) -> Answer:
    """Lists what can plan here, which model is in use, and a download that goes on."""
    state = ask.server_state
    if not may_change(ask):
        return {**_now(state), "can_change": False}
    now = _now(state)
    if now["current"] == "auto":  # nothing was planned yet
        now["current"] = (await choose(os.environ, shelf=installed_shelf())).model
    return {**now, "can_change": True, **await found_models(os.environ)}


def _now(state: ServerState) -> dict[str, Json]:
    download = state.downloads.current
    return {
        "current": state.smith.runs.planning.need_planner().name,
        "chosen": state.models.chosen if state.models else "",
        "download": download.to_json() if download else None,
    }


def may_change(ask: Ask) -> bool:
    """Whether this client may choose the model: here, and not where workers plan."""
    state = ask.server_state
    ours = state.models is not None and state.carrier is None
    return ours and state.wiring.tenant is None and "admin" in ask.grant.scopes


def _need_change(ask: Ask) -> None:
    if not may_change(ask):
        hint = Sentence("set models.plan in the settings of the server")
        raise Refused(Sentence("the model of this server cannot be changed here"), hint=hint)


async def use(ask: Ask, given: b.ModelChoice) -> Answer:
    """Plans with another model from now on, until the server stops."""
    _need_change(ask)
    models = ask.server_state.models
    assert models is not None  # noqa: S101 - checked before
    key = given.api_key.get_secret_value().strip()
    await models.use(
        given.kind, model=given.model, url=given.url, variable=given.variable, api_key=key
    )
    ask.server_state.log.info("model_chosen", model=models.chosen, by=ask.by.name)
    return _now(ask.server_state)


async def pull(ask: Ask, given: b.ModelPull) -> Answer:
    """Starts the download of an embedded model; the list of models tells how far it is."""
    _need_change(ask)
    ask.server_state.downloads.begin(given.name)
    return _now(ask.server_state)
