"""Routes of templates: list, save, use, remove."""

from __future__ import annotations

from typing import Any

from plansmith.formats.native import read_plan
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.runs.intake import SEEN_FIRST
from plansmith.templates.template import Template
from plansmith_server import bodies as b
from plansmith_server.api import Answer, Ask, route
from plansmith_server.views import JsonObject, Listed, RunView

_ROW = ("name", "version", "request", "parameters", "needed", "saved_by", "saved_at", "run")


class TemplateList(Listed):
    """The saved templates, and those that come with Plansmith."""

    ready: list[dict[str, Any]]


@route("GET /v1/templates", "look", answer=TemplateList)
async def listing(ask: Ask) -> Answer:
    """Lists the newest version of every template; `ready` are those that come with Plansmith."""
    book = ask.smith.templates
    known = await book.all()
    ready = [each for name, each in book.shipped(ask.language).items() if name not in known]
    return {
        "items": [_row(each) for name, each in known.items() if "@" not in name],
        "ready": [_row(each) for each in ready],
    }


def _row(template: Template) -> JsonObject:
    return {"goal": template.plan.goal, **{name: getattr(template, name) for name in _ROW}}


@route("POST /v1/templates", "propose", status=201)
async def create(ask: Ask, given: b.NewTemplate) -> Answer:
    """Saves a plan as a template, or as the next version of one."""
    return await _save(ask, read_plan(given.plan), given)


@route("POST /v1/runs/{id}/template", "propose", status=201)
async def of_run(ask: Ask, given: b.TemplateOfRun) -> Answer:
    """Saves the plan of a finished run as a template."""
    return await _save(ask, await ask.state.run(ask.run), given)


async def _save(ask: Ask, what: Plan | Run, given: b.TemplateOfRun) -> JsonObject:
    made = await ask.smith.templates.save(
        what, given.name, parameters=given.parameters, required=given.required, by=ask.by
    )
    return _whole(made)


def _whole(template: Template) -> JsonObject:
    return {**_row(template), "plan": template.plan.to_json(), "hash": template.plan.hash}


@route("GET /v1/templates/{name}", "look")
async def show(ask: Ask) -> Answer:
    """Shows a template with its plan."""
    return _whole(await ask.smith.templates.get(ask.path("name"), language=ask.language))


@route("DELETE /v1/templates/{name}", "approve", status=204)
async def remove(ask: Ask) -> None:
    """Removes a template, or one version of it."""
    await ask.smith.templates.remove(ask.path("name"))


@route(
    "POST /v1/templates/{name}/runs",
    "propose",
    answer=RunView,
    status=202,
    example={"parameters": {"city": "Rome"}},
)
async def use(ask: Ask, *, parameters: dict[str, Json] | None = None) -> Answer:
    """Creates a run of a template, which is reviewed like any other plan."""
    book, name = ask.smith.templates, ask.path("name")
    run = await book.use(name, parameters or {}, by=ask.by, language=ask.language)
    await ask.runs.ask_for_review(run.id, SEEN_FIRST)
    return await ask.run_view(run.id)
