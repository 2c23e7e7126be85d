"""Lists all routes of the server, which the modules of `routes/` define."""

from __future__ import annotations

from typing import Final

from plansmith_server import api
from plansmith_server.routes import (
    conversations,
    decisions,
    documentation,
    events,
    files,
    folder,
    models,
    plans,
    runs,
    schedules,
    server,
    templates,
    tools,
)

_MODULES: Final = (
    *(runs, events, plans, decisions, files, templates, conversations, schedules, tools, models),
    *(folder, server, documentation),
)
_NOT_API: Final = ("/help", "/help/{path:path}", "/", "/{path:path}")
_FOUND: Final = [each for each in api.ROUTES if each.path in _NOT_API]
ROUTES: Final = tuple(each for each in api.ROUTES if each.path not in _NOT_API)
# The web page is served, but is not part of the API; what fits no other route is for it.
PAGES: Final = tuple(sorted(_FOUND, key=lambda each: _NOT_API.index(each.path)))
