"""Routes of previews: what a plan would change, with the data of now, before its approval."""

from __future__ import annotations

from starlette.responses import Response

from plansmith.engine.journal import load_preview
from plansmith.plan.preview import CallPreview, Preview
from plansmith.plan.sentence import Sentence
from plansmith_server import bodies as b
from plansmith_server.api import Answer, Ask, route
from plansmith_server.errors import not_found
from plansmith_server.routes.files import file_response
from plansmith_server.views import JsonObject, RunView


class PreviewPage(Preview):
    """Some of the calls that a plan would make; `next` is where the others begin."""

    count: int
    next: int | None


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
    found = await _preview(ask)
    return preview_page(found, after, limit)


@route("GET /v1/runs/{id}/preview/{step:path}", "look", media="text/plain")
async def file(ask: Ask, *, path: b.Short) -> Answer:
    """Returns a new file, or the source of a picture, as a previewed call would write it."""
    found = await _preview(ask)
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
    end, count = after + limit, len(found.calls)
    some = found.replace(calls=found.calls[after:end]).to_json()
    return {"calls": [], "open": [], **some, "count": count, "next": end if end < count else None}


async def _preview(ask: Ask) -> Preview:
    found = await load_preview(ask.smith.store, await ask.state.run(ask.run))
    if found is None:
        raise not_found("preview of run", ask.run)
    return found
