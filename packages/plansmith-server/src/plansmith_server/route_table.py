"""Lists all routes of the server, which the modules of `routes/` define."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from plansmith_server import api

for _name in (
    *("conversations", "decisions", "documentation", "events", "files", "folder", "models"),
    *("plans", "runs", "schedules", "server", "templates", "tools"),
):
    import_module(f"plansmith_server.routes.{_name}")
_NOT_API: Final = ("/help", "/help/{path:path}", "/", "/{path:path}")
_FOUND: Final = [each for each in api.ROUTES if each.path in _NOT_API]
ROUTES: Final = tuple(each for each in api.ROUTES if each.path not in _NOT_API)
# The web page is served, but is not part of the API; what fits no other route is for it.
PAGES: Final = tuple(sorted(_FOUND, key=lambda each: _NOT_API.index(each.path)))
