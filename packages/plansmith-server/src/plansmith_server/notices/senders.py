"""Sends notices over HTTP and mail: to the addresses of the settings alone, within seconds."""

from __future__ import annotations

import http.client
import json
import smtplib
import ssl
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from plansmith.errors import Misconfigured, ToolBusy, ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.secrets import SecretBox
from plansmith_server.notices.settings import SECRET, NoticeSettings
from plansmith_server.oidc.settings import is_secure

TIMEOUT_S: Final = 10.0
_AGAIN: Final = (408, 425, 429)
_ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


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
        _SENDERS[settings.kind](settings, notice, reveal)
    except smtplib.SMTPResponseException as error:
        kind = ToolBusy if 400 <= error.smtp_code < 500 else ToolFailed
        raise kind(f"the mail server answered {error.smtp_code}") from None
    except smtplib.SMTPException as error:
        raise ToolFailed(
            Sentence("the mail server refused: {error}", error=type(error).__name__)
        ) from None
    except ssl.SSLCertVerificationError as error:
        raise ToolFailed(
            Sentence("its certificate is not valid: {error}", error=error.verify_message)
        ) from None
    except (OSError, http.client.HTTPException) as error:
        raise ToolBusy(Sentence("it cannot be reached: {error}", error=_reason(error))) from None


def _reason(error: Exception) -> str:
    """Returns why, without the address, which may be a secret."""
    return (error.strerror if isinstance(error, OSError) else "") or type(error).__name__


Reveal = Callable[[str], str]


def _webhook(settings: NoticeSettings, notice: Notice, reveal: Reveal) -> None:
    _post(settings, {"title": notice.title, "text": notice.text, **notice.data}, reveal)


def _slack(settings: NoticeSettings, notice: Notice, reveal: Reveal) -> None:
    # Escaped, so that no text of a plan can call a whole channel or hide where a link leads.
    text = "".join(_ESCAPES.get(each, each) for each in f"{notice.title}\n{notice.text}")
    _post(settings, {"text": text}, reveal)


def _post(settings: NoticeSettings, body: Mapping[str, Json], reveal: Reveal) -> None:
    """Posts JSON; follows no redirection, since only the address of the settings may be asked."""
    url = reveal(settings.url)
    if not is_secure(url):
        raise Misconfigured(
            Sentence("the address must begin with https://, unless it is on this machine")
        )
    parts = urlsplit(url)
    headers = {"Content-Type": "application/json", "User-Agent": "plansmith"}
    if settings.token:
        headers["Authorization"] = f"Bearer {reveal(settings.token)}"
    host = parts.hostname or ""
    connection = (
        http.client.HTTPSConnection(host, parts.port, timeout=TIMEOUT_S)
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, parts.port, timeout=TIMEOUT_S)
    )
    try:
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        connection.request("POST", path, json.dumps(body, ensure_ascii=False).encode(), headers)
        status = connection.getresponse().status
    finally:
        connection.close()
    if status >= 500 or status in _AGAIN:
        raise ToolBusy(Sentence("it answered {status}", status=status))
    if not 200 <= status < 300:
        raise ToolFailed(Sentence("it answered {status}", status=status))


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


_SENDERS: Final = {"webhook": _webhook, "slack": _slack, "mail": _mail}
