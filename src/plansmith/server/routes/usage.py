"""Routes of usage and settings: what runs cost, which settings and model are in use."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from starlette.responses import Response

from plansmith.adapters.models.choose import choose
from plansmith.adapters.models.local.files import ModelFolder
from plansmith.config import Settings, load_settings
from plansmith.errors import JournalDamaged, Refused
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.planner.request import MetricTotals, PlanMetrics
from plansmith.server.openapi import Answer, Ask, Nothing
from plansmith.server.settings import leaves, shown
from plansmith.server.state import ServerState

_HOMES: Final = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")


async def metrics(ask: Ask, __: Nothing) -> Answer:
    """Sums up tokens and costs of all runs, by status, day and model."""
    statuses, days = Counter[str](), defaultdict[str, Counter[str]](Counter)
    money, tokens, totals = defaultdict[str, Decimal](Decimal), 0, MetricTotals()
    async for row, _, planning in ask.server_state.rows.newest():
        if planning is not None:
            totals.add(PlanMetrics.of(planning))
        statuses[str(row["status"])] += 1
        day = str(row["created_at"] or "")[:10]
        spent = int(str(row["tokens"]))
        tokens += spent
        days[day].update(runs=1, tokens=spent)
        money[day] += Decimal(str(row["cost_usd"]))
    return {
        "runs": dict(statuses),
        "tokens": tokens,
        "cost_usd": str(sum(money.values(), Decimal(0))),
        "by_day": [
            {"day": day, **dict(days[day]), "cost_usd": str(money[day])} for day in sorted(days)
        ],
        "by_model": await _by_model(ask.server_state),
        "planning": totals.to_json(),
    }


async def _by_model(server_state: ServerState) -> list[Json]:
    """Counts the planning calls and tokens of each model."""
    calls, tokens = Counter[str](), Counter[str]()
    for run_id in await server_state.smith.store.runs():
        for name, spent in await _model_calls(server_state, run_id):
            calls[name] += 1
            tokens[name] += spent
    return [{"model": name, "calls": calls[name], "tokens": tokens[name]} for name in sorted(calls)]


async def _model_calls(server_state: ServerState, run_id: str) -> list[tuple[str, int]]:
    if run_id in server_state.model_calls:
        return server_state.model_calls[run_id]
    try:
        events = await server_state.smith.store.events(run_id)
        found: list[tuple[str, int]] = []
        for event in events:
            if isinstance(event.body, (e.Triaged, e.PlanProposed)) and event.body.record:
                calls: Any = await server_state.smith.store.get(event.body.record)
                found += [(str(each["model"]), int(each.get("tokens") or 0)) for each in calls]
    except JournalDamaged:
        return []
    if events and isinstance(events[-1].body, e.RunFinished):
        server_state.model_calls[run_id] = found
    return found


async def settings(ask: Ask, _: Nothing) -> Answer:
    """Lists the settings, each with where it was set; shows no secret."""
    return {"items": list(_rows(ask.server_state.settings))}


def _rows(effective: Settings) -> Iterator[Json]:
    homes = {name: os.environ[name] for name in _HOMES if name in os.environ}
    nowhere = Path(os.devnull)
    stages = {
        "default": Settings(),
        "person": load_settings(folder=nowhere, environment=homes),
        # Warnings about ignored settings were shown when the server started.
        "project": load_settings(environment=homes, tell=lambda _: None),
        "environment": load_settings(tell=lambda _: None),
        "flag": effective,
    }
    staged = {name: leaves(each) for name, each in stages.items()}
    for name, value in staged["flag"].items():
        source = "flag"
        # The first stage that set the present value.
        for stage in reversed(staged):
            if staged[stage].get(name) != value:
                break
            source = stage
        yield {"name": name, "value": shown(name, value), "source": source}


async def log_out(ask: Ask, _: Nothing) -> Answer:
    """Ends the log-in of this browser; its cookie stops working."""
    grant, auth = ask.grant, ask.request.app.state.auth
    if grant.login is None:
        hint = f"plansmith tokens revoke {grant.name or 'NAME'} revokes a token"
        raise Refused("this is a token, not the log-in of a browser", hint=hint)
    auth.log_out(grant.login)
    response = Response(status_code=204)
    response.delete_cookie(auth.cookie_name, httponly=True, samesite="strict")
    return response


async def model(ask: Ask, _: Nothing) -> Answer:
    """Says which model plans; for `auto`, also why that one was chosen."""
    server_state = ask.server_state
    wanted = server_state.settings.models.plan
    if wanted.model != "auto" or wanted.base_url:
        chosen = server_state.smith.runs.planner.need_model().name
        return {"model": wanted.model, "chosen": chosen, "why": "it is set", "tried": []}
    choice = await choose(os.environ, shelf=ModelFolder())
    tried: list[Json] = [
        {"kind": each.kind, "name": each.what, "why": each.flaw} for each in choice.tried
    ]
    return {"model": "auto", "chosen": choice.model, "why": choice.why, "tried": tried}
