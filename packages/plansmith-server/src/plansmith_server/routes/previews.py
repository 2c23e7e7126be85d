"""Routes of previews: what a plan would change, with the data of now, before its approval."""

from __future__ import annotations

from pydantic import BaseModel
from starlette.responses import Response

from plansmith.engine.journal import load_preview
from plansmith.plan.preview import CallPreview, OpenCall, Preview, PreviewedCall
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith_server import bodies as b
from plansmith_server.api import Answer, Ask, route
from plansmith_server.errors import not_found
from plansmith_server.routes.files import file_response
from plansmith_server.state import ServerState
from plansmith_server.views import JsonObject, RunView


class PreviewPage(BaseModel):
    """The calls that a plan would make, some at a time; `next` is where the others begin.

    The `hash` approves the plan with exactly these calls. `open` are changes that nobody can show
    yet, with the steps that they wait for.
    """

    hash: str
    count: int
    calls: list[PreviewedCall]
    next: int | None
    open: list[OpenCall]


@route(
    "POST /v1/runs/{id}/preview",
    "answer",
    answer=RunView,
    status=202,
    waits=True,
    conflict="The plan waits for no approval, or a person wants to see it before anything runs",
)
async def make(ask: Ask, given: b.NewPreview) -> Answer:
    """Runs what only reads, to show what a plan would change; nothing else happens."""
    await ask.runs.ask_for_review(ask.run, Sentence("review.undecided"))
    await ask.runs.ask_for_preview(ask.run, given=given.given, fresh=given.fresh, by=ask.by)
    ask.state.background.go_on(ask.run)
    return await ask.run_view()


@route("GET /v1/runs/{id}/preview", "look", answer=PreviewPage)
async def show(ask: Ask, *, after: b.Number = 0, limit: b.Page = 100) -> Answer:
    """Shows what a plan would change: every call with its inputs, and what its tool says."""
    found = await _preview(ask.state, await ask.state.run(ask.run))
    return preview_page(found, after, limit)


@route("GET /v1/runs/{id}/preview/{step:path}", "look", media="text/plain")
async def file(ask: Ask, *, path: b.Short) -> Answer:
    """Returns a new file, or the source of a picture, as a previewed call would write it."""
    found = await _preview(ask.state, await ask.state.run(ask.run))
    calls = {each.step: each for each in found.calls}
    call = calls.get(ask.path("step"))
    return previewed_file(call.shown if call else None, path)


def previewed_file(shown: CallPreview | None, path: str) -> Response:
    """Returns a file as a call would write it, as far as its tool shows it."""
    for each in shown.files if shown else ():
        if each.path == path and each.text:
            return file_response(path, each.text.encode())
    raise not_found("file", path)


def preview_page(found: Preview, after: int = 0, limit: int = 100) -> JsonObject:
    """Returns some calls of a preview, and what is open."""
    some, count = found.calls[after : after + limit], len(found.calls)
    return {
        "hash": found.hash,
        "count": count,
        "calls": [each.to_json() for each in some],
        "next": after + limit if after + limit < count else None,
        "open": [each.to_json() for each in found.open],
    }


async def _preview(state: ServerState, run: Run) -> Preview:
    found = await load_preview(state.smith.store, run)
    if found is None:
        raise not_found("preview of run", run.id)
    return found
