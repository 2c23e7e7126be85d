"""The route of the audit export, and who the client is."""

from __future__ import annotations

from typing import Final

from starlette.responses import StreamingResponse

from plansmith.runs.audit import AuditQuery, audit_lines
from plansmith_server.openapi import Answer, Ask, Nothing
from plansmith_server.schemas.requests import AuditExport
from plansmith_server.team.tokens import SCOPES

_MEDIA: Final = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}


async def export(ask: Ask, given: AuditExport) -> Answer:
    """Streams who did what and when over all runs, as JSON lines or CSV."""
    query = AuditQuery(
        since=given.since, until=given.until, user=given.user, everything=given.everything
    )
    store = ask.server_state.smith.store
    lines = audit_lines(store, query, given.format)
    headers = {"Content-Disposition": f'attachment; filename="audit.{given.format}"'}
    return StreamingResponse(lines, media_type=_MEDIA[given.format], headers=headers)


async def me(ask: Ask, _: Nothing) -> Answer:
    """Tells a client who it is here and what it may do."""
    grant = ask.grant
    token = grant.token
    return {
        "user": grant.actor.identity,
        "kind": grant.actor.kind,
        "role": token.role if token else "",
        "tenant": token.tenant.rpartition("_")[0] if token else "",
        "scopes": [each for each in SCOPES if each in grant.scopes],
    }
