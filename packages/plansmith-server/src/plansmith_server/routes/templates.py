"""Routes of templates: list, save, use, remove."""

from __future__ import annotations

from starlette.responses import Response

from plansmith.errors import NotFound
from plansmith.plan.data import Json
from plansmith.runs.intake import SEEN_FIRST
from plansmith.templates.book import Template
from plansmith_server.errors import not_found
from plansmith_server.openapi import Answer, Ask, Nothing
from plansmith_server.plan_bodies import plan_of
from plansmith_server.schemas import requests as b
from plansmith_server.serialize import moment, run_view


async def listing(ask: Ask, _: Nothing) -> Answer:
    """Lists the newest version of every template; `ready` are those that come with Plansmith."""
    book = ask.server_state.smith.templates
    known = await book.all()
    ready = [each for name, each in book.shipped(ask.language).items() if name not in known]
    return {
        "items": [_row(each) for name, each in known.items() if "@" not in name],
        "ready": [_row(each) for each in ready],
    }


def _row(template: Template) -> dict[str, Json]:
    return {
        "name": template.name,
        "version": template.version,
        "goal": template.plan.goal,
        "request": template.request,
        "parameters": dict(template.parameters),
        "needed": [*template.needed],
        "saved_by": template.saved_by,
        "saved_at": moment(template.saved_at),
        "run": template.run,
    }


def _whole(template: Template) -> dict[str, Json]:
    whole: dict[str, Json] = {"plan": template.plan.to_json(), "hash": template.plan.hash}
    return _row(template) | whole


async def create(ask: Ask, given: b.NewTemplate) -> Answer:
    """Saves a plan as a template, or as the next version of one."""
    book = ask.server_state.smith.templates
    made = await book.save(
        plan_of(given.plan),
        given.name,
        parameters=given.parameters,
        required=given.required,
        by=ask.by,
    )
    return _whole(made)


async def of_run(ask: Ask, given: b.TemplateOfRun) -> Answer:
    """Saves the plan of a finished run as a template."""
    run = await ask.server_state.run(ask.run)
    book = ask.server_state.smith.templates
    made = await book.save(
        run, given.name, parameters=given.parameters, required=given.required, by=ask.by
    )
    return _whole(made)


async def show(ask: Ask, _: Nothing) -> Answer:
    """Returns a template with its plan."""
    return _whole(await _found(ask))


async def remove(ask: Ask, _: Nothing) -> Answer:
    """Removes a template, or one version of it."""
    await _found(ask)
    await ask.server_state.smith.templates.remove(ask.path("name"))
    return Response(status_code=204)


async def use(ask: Ask, given: b.TemplateUse) -> Answer:
    """Creates a run of a template, which is reviewed like any other plan."""
    server_state = ask.server_state
    await _found(ask)
    book = server_state.smith.templates
    run = await book.use(ask.path("name"), given.parameters, by=ask.by, language=ask.language)
    await server_state.smith.runs.ask_for_review(run.id, SEEN_FIRST)
    return await run_view(server_state.smith, run.id)


async def _found(ask: Ask) -> Template:
    name = ask.path("name")
    try:
        return await ask.server_state.smith.templates.get(name, language=ask.language)
    except NotFound:
        raise not_found("template", name) from None
