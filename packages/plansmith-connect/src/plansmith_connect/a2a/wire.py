"""HTTP to remote agents: size limits, fetching cards, and readable errors."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, cast

import httpx

from plansmith.errors import ToolBusy, ToolFailed
from plansmith.plan.sentence import Sentence
from plansmith_connect.a2a.cards import Card, card_url, plain_refusal, read_card
from plansmith_connect.a2a.settings import AgentSettings
from plansmith_connect.retry_after import retry_after

_PASSING: Final = (408, 425, 429)
# Only without a connection was a request certainly not sent.
_UNSENT: Final = (
    *(httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout),
    httpx.UnsupportedProtocol,
)


class TooMuch(ToolFailed):
    """The agent sent more than the limit."""


class NotSent(ToolBusy):
    """No connection was made, so the request had no effect."""


class Untrusted(ToolFailed):
    """No connection was made, since the agent's certificate is not trusted."""


class Cut(ToolBusy):
    """The request was sent and its answer was lost: whether it took effect is unknown."""


class _Bounded(httpx.AsyncByteStream):
    """A response body that fails when it grows beyond a limit."""

    def __init__(self, stream: httpx.AsyncByteStream, most: int) -> None:
        self._stream, self._most = stream, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen, most = 0, self._most
        async for piece in self._stream:
            seen += len(piece)
            if seen > most:
                why = Sentence("the agent sent more than {most} bytes in one answer", most=most)
                raise TooMuch(why)
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class BoundedTransport(httpx.AsyncHTTPTransport):
    """An HTTP transport that limits responses and does not decompress them."""

    def __init__(self, *, limit: int, verify: ssl.SSLContext) -> None:
        super().__init__(verify=verify)
        self._limit = limit

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # A packed answer of a few bytes can unpack to gigabytes, so none is asked for or taken.
        request.headers["Accept-Encoding"] = "identity"
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise TooMuch(Sentence("the agent sent a compressed answer, which was not requested"))
        response.stream = _Bounded(cast("httpx.AsyncByteStream", response.stream), self._limit)
        return response


def open_http(
    settings: AgentSettings, *, headers: Mapping[str, str], limit: int
) -> httpx.AsyncClient:
    """Opens an HTTP client for one call: no redirects, no cookies, no proxy from environment."""
    why = plain_refusal(settings.url, settings)
    if why:
        raise ToolFailed(Sentence("the agent cannot be used: {why}", why=why))
    limits = settings.limits
    return httpx.AsyncClient(
        transport=BoundedTransport(limit=limit, verify=_trust(settings.ca_file)),
        headers=dict(headers),
        follow_redirects=False,
        trust_env=False,
        timeout=httpx.Timeout(limits.request_s, connect=limits.connect_s, read=limits.answer_s),
    )


@cache
def _trust(ca_file: Path | None) -> ssl.SSLContext:
    """Returns the TLS context of a CA file; cached, since loading certificates is slow."""
    if ca_file is None:
        return httpx.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        why = Sentence(
            "the certificates in {file} cannot be read: {error}", file=ca_file, error=error
        )
        raise ToolFailed(why) from None


async def fetch_card(settings: AgentSettings) -> Card:
    """Fetches the raw card; follows no redirect, which would lead to another agent."""
    limits, url = settings.limits, card_url(settings.url)
    # No secret goes along: this is asked of addresses that nobody has approved yet.
    client = open_http(settings, headers={"Accept": "application/json"}, limit=limits.card_bytes)
    try:
        async with asyncio.timeout(limits.request_s), client:
            response = await client.get(url)
            response.raise_for_status()
    except TimeoutError:
        seconds = f"{limits.request_s:g}"
        why = Sentence(
            "the card at {url} did not arrive within {seconds} s", url=url, seconds=seconds
        )
        raise ToolBusy(why) from None
    except httpx.HTTPError as error:
        failure = http_failure(error)
        raise type(failure)(
            Sentence("the card at {url} could not be fetched: {why}", url=url, why=failure.message),
            hint=failure.hint,
        ) from None
    return read_card(response.content, url)


def http_failure(error: httpx.HTTPError) -> ToolFailed:
    """Converts an HTTP error to ours; `NotSent` only if there was no connection."""
    if isinstance(error, httpx.HTTPStatusError):
        return _status_failure(error.response)
    what = str(error) or type(error).__name__
    if not isinstance(error, _UNSENT):
        return Cut(Sentence("the connection was lost: {error}", error=what))
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return NotSent(Sentence("no connection: {error}", error=what))
    why = Sentence("the connection is not safe: {error}", error=what)
    hint = Sentence("fix the certificate, or set the agent's ca_file to its issuer")
    return Untrusted(why, hint=hint)


def _status_failure(response: httpx.Response) -> ToolFailed:
    code, reason = response.status_code, response.reason_phrase
    message = Sentence(
        "the agent answered with HTTP {status} {reason}", status=code, reason=reason
    ).rstrip()
    if response.has_redirect_location:
        why = Sentence(
            "{message}, a redirect to {there}, which is not followed",
            message=message,
            there=response.headers["location"][:200],
        )
        return ToolFailed(why)
    if code in (401, 403):
        return ToolFailed(message, hint=Sentence("check the credentials in the agent's headers"))
    if code < 500 and code not in _PASSING:
        return ToolFailed(message)
    return Cut(message, retry_after=retry_after(response.headers.get("retry-after")))
