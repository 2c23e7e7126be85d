"""Tells people by webhook, Slack or mail what waits for them; tries again, and never blocks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from plansmith.errors import PlansmithError, ToolBusy
from plansmith.plan.sentence import Sentence, in_language
from plansmith.ports import Clock
from plansmith.secrets import SecretBox
from plansmith_server.notices.senders import Notice, send
from plansmith_server.notices.settings import NoticeSettings
from plansmith_server.ops.logs import Log

# Seconds before each try; after the last one the notice is given up.
WAITS: Final = (0.0, 5.0, 30.0, 120.0)
_MOST: Final = 20


@dataclass(slots=True)
class Channel:
    """One place where notices go, and what became of those sent there."""

    name: str
    settings: NoticeSettings
    queue: asyncio.Queue[Notice] = field(default_factory=lambda: asyncio.Queue[Notice](_MOST))
    sent: int = 0
    failed: int = 0
    error: str = ""
    at: datetime | None = None


class Notices:
    """The channels of the settings; each sends by itself, so that none holds up another."""

    def __init__(
        self,
        settings: Mapping[str, NoticeSettings],
        *,
        secrets: SecretBox,
        clock: Clock,
        log: Log,
    ) -> None:
        self.channels = {name: Channel(name, each) for name, each in settings.items()}
        self._secrets, self._clock, self._log = secrets, clock, log

    @asynccontextmanager
    async def sending(self) -> AsyncGenerator[None]:
        """Sends what is queued, as long as the context is open."""
        tasks = [asyncio.create_task(self._work(each)) for each in self.channels.values()]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def tell(self, channel: Channel, notice: Notice) -> None:
        """Queues a notice; drops it if far too many wait already."""
        try:
            channel.queue.put_nowait(self._hidden(notice))
        except asyncio.QueueFull:
            self._failed(channel, "too many notices wait to be sent there")

    def _hidden(self, notice: Notice) -> Notice:
        """Returns a notice without any secret of the settings."""
        hide, data = self._secrets.hide, self._secrets.hide({**notice.data})
        told = data if isinstance(data, dict) else {}
        return Notice(str(hide(notice.title)), str(hide(notice.text)), told)

    async def test(self, name: str) -> None:
        """Sends a test, once; raises why it failed."""
        channel = self.channels[name]
        text = in_language(
            Sentence("This is a test. Notices from Plansmith arrive here."),
            channel.settings.language,
        )
        await self._once(channel, Notice("Plansmith", text, {"event": "test"}))

    async def _work(self, channel: Channel) -> None:
        while True:
            notice = await channel.queue.get()
            await self._deliver(channel, notice)

    async def _deliver(self, channel: Channel, notice: Notice) -> None:
        for wait in WAITS:
            await self._clock.sleep(wait)
            try:
                await self._once(channel, notice)
            except ToolBusy as error:
                self._log.warning("notice_delayed", channel=channel.name, error=str(error))
                channel.error, channel.at = str(error), self._clock.now()
            except PlansmithError as error:
                self._failed(channel, str(error))
                return
            else:
                return
        self._failed(channel, channel.error)

    async def _once(self, channel: Channel, notice: Notice) -> None:
        await asyncio.to_thread(send, channel.name, channel.settings, notice, self._secrets)
        channel.sent += 1
        channel.error, channel.at = "", self._clock.now()

    def _failed(self, channel: Channel, why: str) -> None:
        channel.failed += 1
        channel.error, channel.at = why, self._clock.now()
        self._log.failure("notice_not_sent", channel=channel.name, error=why)
