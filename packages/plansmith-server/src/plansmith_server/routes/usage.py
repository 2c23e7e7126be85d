"""Routes of usage and settings: what runs cost, which settings and model are in use."""

from __future__ import annotations

import os
from decimal import Decimal

from starlette.responses import Response

from plansmith.errors import Refused
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith_planner.models.choose import choose, installed_shelf
from plansmith_server.openapi import Answer, Ask, Nothing
from plansmith_server.shown_settings import HIDDEN, rows
from plansmith_server.team.tenant_book import Tenant


async def metrics(ask: Ask, __: Nothing) -> Answer:
    """Sums up tokens and costs of all runs, by status, day and model."""
    sums = await ask.server_state.smith.runs.lists.sums()
    days = sums.days
    return {
        "runs": {**sums.statuses},
        "tokens": sum(each.tokens for each in days.values()),
        "cost_usd": str(sum((each.money for each in days.values()), Decimal(0))),
        "by_day": [
            {
                "day": day,
                "runs": days[day].runs,
                "tokens": days[day].tokens,
                "cost_usd": str(days[day].money),
            }
            for day in sorted(days)
        ],
        "by_model": [
            {"model": name, **sums.models[name]._asdict()} for name in sorted(sums.models)
        ],
        "planning": sums.planning.to_json(),
    }


async def settings(ask: Ask, _: Nothing) -> Answer:
    """Lists the settings, each with where it was set; shows no secret."""
    wiring = ask.server_state.wiring
    items: list[Json] = [
        {"name": name, "value": _within(wiring.tenant, name, value), "source": source}
        for name, value, source in rows(wiring.settings.stages())
    ]
    return {"items": items}


def _within(tenant: Tenant | None, name: str, value: Json) -> Json:
    """Returns a value as a tenant may see it: where its store and its folder are, it may not."""
    if tenant is None:
        return value
    if name == "store":
        return HIDDEN
    if isinstance(value, list):
        return [_within(tenant, "", each) for each in value]
    return value.removeprefix(f"{tenant.home}/") if isinstance(value, str) else value


async def log_out(ask: Ask, _: Nothing) -> Answer:
    """Ends the log-in of this browser; its cookie stops working."""
    grant, auth = ask.grant, ask.request.app.state.auth
    if grant.login is None:
        hint = Sentence("plansmith tokens revoke {name} revokes a token", name=grant.name or "NAME")
        raise Refused(Sentence("this is a token, not the log-in of a browser"), hint=hint)
    auth.log_out(grant.login)
    response = Response(status_code=204)
    response.delete_cookie(auth.cookie_name, httponly=True, samesite="strict")
    return response


async def model(ask: Ask, _: Nothing) -> Answer:
    """Says which model plans; for `auto`, also why that one was chosen."""
    server_state = ask.server_state
    wanted, switch = server_state.settings.models.plan, server_state.models
    if switch is not None and switch.chosen:
        why = Sentence("it was chosen on the page")
        return {"model": switch.chosen, "chosen": switch.name, "why": why, "tried": []}
    is_given = switch is not None and switch.is_given
    if is_given or wanted.model != "auto" or wanted.base_url:
        chosen = server_state.smith.runs.planning.need_planner().name
        return {
            "model": chosen if is_given else wanted.model,
            "chosen": chosen,
            "why": Sentence("it is set"),
            "tried": [],
        }
    choice = await choose(os.environ, shelf=installed_shelf())
    tried: list[Json] = [
        {"kind": each.kind, "name": each.what, "why": each.flaw} for each in choice.tried
    ]
    return {"model": "auto", "chosen": choice.model, "why": choice.why, "tried": tried}
