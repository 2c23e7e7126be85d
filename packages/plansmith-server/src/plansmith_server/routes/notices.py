"""Routes of notices: what became of those that were sent, and a test of each channel."""

from __future__ import annotations

from plansmith.plan.data import Json
from plansmith_server.errors import not_found
from plansmith_server.openapi import Answer, Ask, Nothing
from plansmith_server.serialize import moment
from plansmith_server.shown_settings import HIDDEN, address
from plansmith_server.team.notice_settings import SECRET, NoticeSettings
from plansmith_server.team.notices import Channel


async def listing(ask: Ask, _: Nothing) -> Answer:
    """Lists where notices go and what became of the last ones; shows no secret."""
    return {"items": [_row(each) for each in ask.server_state.notices.channels.values()]}


async def test(ask: Ask, _: Nothing) -> Answer:
    """Sends a test to one channel, and says why if that fails."""
    name, notices = ask.path("name"), ask.server_state.notices
    if name not in notices.channels:
        raise not_found("channel of notices", name)
    await notices.test(name)
    return _row(notices.channels[name])


def _row(channel: Channel) -> dict[str, Json]:
    settings = channel.settings
    return {
        "name": channel.name,
        "kind": settings.kind,
        "to": _target(settings),
        "about": [*settings.about],
        "after_s": settings.after_s,
        "sent": channel.sent,
        "failed": channel.failed,
        "error": channel.error,
        "at": moment(channel.at),
    }


def _target(settings: NoticeSettings) -> str:
    """Returns where a channel leads, without user, password, path and query."""
    if settings.kind == "mail":
        return ", ".join(settings.to)
    return HIDDEN if SECRET.fullmatch(settings.url) else address(settings.url)
