"""Tells people by webhook, Slack or mail what waits for them; tries again, and never blocks.

Notices go to the addresses of the settings alone.
"""

from __future__ import annotations

import asyncio
import html
import http.client
import json
import smtplib
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from email.message import EmailMessage
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from plansmith.errors import Misconfigured, PlansmithError, ToolBusy, ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, in_language
from plansmith.ports import Clock
from plansmith.secrets import SecretBox
from plansmith.text import clip, safe
from plansmith_server.ops.logs import Log
from plansmith_server.ops.tasks import background_tasks
from plansmith_server.settings import SECRET, NoticeSettings, is_secure
from plansmith_server.views import awaits_review

# Seconds before each try; after the last one the notice is given up.
WAITS: Final = (0.0, 5.0, 30.0, 120.0)
TIMEOUT_S: Final = 10.0
_TRY_LATER: Final = (408, 425, 429)
_LISTED: Final = 10
Reveal = Callable[[str], str]
Key = tuple[str, str, str]


class Notice(NamedTuple):
    """A message: a title, its text, and the same as data."""

    title: str
    text: str
    data: Mapping[str, Json]


def send(name: str, settings: NoticeSettings, notice: Notice, secrets: SecretBox) -> None:
    """Sends a notice; raises `ToolBusy` where a later try may succeed, else `ToolFailed`.

    It blocks, so that it belongs into a thread.
    """

    def reveal(value: str) -> str:
        found = SECRET.fullmatch(value)
        return secrets.reveal(found[1], f"notices.{name}") if found else value

    try:
        (_mail if settings.kind == "mail" else _post)(settings, notice, reveal)
    except smtplib.SMTPResponseException as error:
        kind = ToolBusy if 400 <= error.smtp_code < 500 else ToolFailed
        raise kind(f"the mail server answered {error.smtp_code}") from None
    except smtplib.SMTPException as error:
        why = Sentence("the mail server refused: {error}", error=type(error).__name__)
        raise ToolFailed(why) from None
    except ssl.SSLCertVerificationError as error:
        why = Sentence("its certificate is not valid: {error}", error=error.verify_message)
        raise ToolFailed(why) from None
    except (OSError, http.client.HTTPException) as error:
        # Without the address, which may be a secret.
        cause = (error.strerror if isinstance(error, OSError) else "") or type(error).__name__
        raise ToolBusy(Sentence("it cannot be reached: {error}", error=cause)) from None


def _post(settings: NoticeSettings, notice: Notice, reveal: Reveal) -> None:
    """Posts JSON; follows no redirection, since only the address of the settings may be asked."""
    body: Mapping[str, Json] = {"title": notice.title, "text": notice.text, **notice.data}
    if settings.kind == "slack":
        # Escaped, so that no text of a plan can call a whole channel or hide where a link leads.
        body = {"text": html.escape(f"{notice.title}\n{notice.text}", quote=False)}
    url = reveal(settings.url)
    if not is_secure(url):
        why = Sentence("the address must begin with https://, unless it is on this machine")
        raise Misconfigured(why)
    parts = urlsplit(url)
    headers = {"Content-Type": "application/json", "User-Agent": "plansmith"}
    if settings.token:
        headers["Authorization"] = f"Bearer {reveal(settings.token)}"
    is_https = parts.scheme == "https"
    make = http.client.HTTPSConnection if is_https else http.client.HTTPConnection
    connection = make(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    try:
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        connection.request("POST", path, json.dumps(body, ensure_ascii=False).encode(), headers)
        status = connection.getresponse().status
    finally:
        connection.close()
    if not 200 <= status < 300:
        kind = ToolBusy if status >= 500 or status in _TRY_LATER else ToolFailed
        raise kind(Sentence("it answered {status}", status=status))


def _mail(settings: NoticeSettings, notice: Notice, reveal: Reveal) -> None:
    message = EmailMessage()
    message["Subject"] = notice.title
    message["From"] = settings.sender
    message["To"] = ", ".join(settings.to)
    message.set_content(notice.text)
    context = ssl.create_default_context()
    password = reveal(settings.password) if settings.user else ""
    with (
        smtplib.SMTP_SSL(settings.host, settings.port, timeout=TIMEOUT_S, context=context)
        if settings.security == "tls"
        else smtplib.SMTP(settings.host, settings.port, timeout=TIMEOUT_S)
    ) as server:
        if settings.security == "starttls":
            server.starttls(context=context)
        if settings.user:
            server.login(settings.user, password)
        server.send_message(message)


@dataclass(slots=True)
class Channel:
    """One place where notices go, and what became of those sent there."""

    name: str
    settings: NoticeSettings
    queue: asyncio.Queue[Notice] = field(default_factory=lambda: asyncio.Queue[Notice](20))
    sent: int = 0
    failed: int = 0
    error: str = ""
    at: datetime | None = None


class Notices:
    """The channels of the settings; each sends by itself, so that none holds up another."""

    def __init__(
        self, settings: Mapping[str, NoticeSettings], *, secrets: SecretBox, clock: Clock, log: Log
    ) -> None:
        self.channels = {name: Channel(name, each) for name, each in settings.items()}
        self._secrets, self._clock, self._log = secrets, clock, log

    def sending(self) -> AbstractAsyncContextManager[None]:
        """Sends what is queued, as long as the context is open."""
        return background_tasks(*(self._send_all(each) for each in self.channels.values()))

    def tell(self, channel: Channel, notice: Notice) -> None:
        """Queues a notice without any secret; drops it if far too many wait already."""
        hide, data = self._secrets.hide, self._secrets.hide({**notice.data})
        title, text = str(hide(notice.title)), str(hide(notice.text))
        try:
            channel.queue.put_nowait(Notice(title, text, data if isinstance(data, dict) else {}))
        except asyncio.QueueFull:
            self._failed(channel, "too many notices wait to be sent there")

    async def test(self, name: str) -> None:
        """Sends a test, once; raises why it failed."""
        channel = self.channels[name]
        text = Sentence("This is a test. Notices from Plansmith arrive here.")
        message = in_language(text, channel.settings.language)
        await self._once(channel, Notice("Plansmith", message, {"event": "test"}))

    async def _send_all(self, channel: Channel) -> None:
        while True:
            notice = await channel.queue.get()
            for wait in WAITS:
                await self._clock.sleep(wait)
                try:
                    await self._once(channel, notice)
                    break
                except ToolBusy as error:
                    self._log.warning("notice_delayed", channel=channel.name, error=str(error))
                    channel.error, channel.at = str(error), self._clock.now()
                except PlansmithError as error:
                    self._failed(channel, str(error))
                    break
            else:
                self._failed(channel, channel.error)

    async def _once(self, channel: Channel, notice: Notice) -> None:
        await asyncio.to_thread(send, channel.name, channel.settings, notice, self._secrets)
        channel.sent += 1
        channel.error, channel.at = "", self._clock.now()

    def _failed(self, channel: Channel, why: str) -> None:
        channel.failed += 1
        channel.error, channel.at = why, self._clock.now()
        self._log.failure("notice_not_sent", channel=channel.name, error=why)


class Waiting(NamedTuple):
    """One thing that waits for a person."""

    kind: Literal["review", "question"]
    run: str
    name: str
    goal: str
    text: str
    since: datetime | None

    @property
    def key(self) -> Key:
        return self.kind, self.run, self.name

    @property
    def sentence(self) -> Sentence:
        goal = clip(safe(self.goal), 120)
        if self.kind == "review":
            return Sentence("A plan waits for your approval: {goal}", goal=goal)
        return Sentence("A question about “{goal}”: {text}", goal=goal, text=self.text)

    def to_json(self, page: str) -> dict[str, Json]:
        return {
            "kind": self.kind,
            "run": self.run,
            "goal": self.goal,
            "text": self.text,
            "since": self.since.isoformat() if self.since else None,
            "link": f"{page.rstrip('/')}/#/runs/{self.run}",
        }


def notice_of(settings: NoticeSettings, items: Sequence[Waiting], base: str) -> Notice:
    """Makes one notice about everything that is due."""
    language = settings.language
    listed = [one.to_json(settings.page or base) for one in items[:_LISTED]]
    lines = [
        f"{in_language(one.sentence, language)}\n{row['link']}"
        for one, row in zip(items, listed, strict=False)
    ]
    if len(items) > _LISTED:
        rest = Sentence("{count} more; the inbox has them all", count=len(items) - _LISTED)
        lines.append(in_language(rest, language))
    title = Sentence("{count} things wait for you in Plansmith", count=len(items))
    if len(items) == 1:
        title = Sentence("Plansmith waits for you: {goal}", goal=clip(safe(items[0].goal), 80))
    data: dict[str, Json] = {"event": "waiting", "items": [*listed]}
    return Notice(in_language(title, language), "\n\n".join(lines), data)


def waiting_items(run: Run) -> Iterator[Waiting]:
    """Yields what a run waits for: the review of its plan, and answers to its questions."""
    goal, since = (run.plan.goal if run.plan else "") or run.request, run.updated_at
    if awaits_review(run) and run.plan is not None:
        yield Waiting("review", run.id, run.plan.hash, goal, "", since)
    for asked in run.questions.values():
        text = clip(safe(asked.text), 300)
        if asked.kind == "consent":  # its values are not told
            text = Sentence(
                "Plansmith asks whether {callee} may be called; the page shows with which values",
                callee=asked.callee,
            )
        yield Waiting("question", run.id, asked.question, goal, text, since)
