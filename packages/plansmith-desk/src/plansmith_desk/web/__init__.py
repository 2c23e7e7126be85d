"""The built-in tool that fetches a page: only from allowed hosts, within limits."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from typing import Final
from urllib.parse import urljoin

from plansmith.errors import ToolBusy, ToolFailed
from plansmith.plan.data import Json, flaws
from plansmith.plan.sentence import Sentence
from plansmith.retry_after import retry_after
from plansmith.text import clip
from plansmith.tools.toolset import (
    NOTES,
    TEXT,
    Arguments,
    BuiltIn,
    Job,
    ToolSet,
    items,
    noted,
    string,
    watched,
    whole,
)
from plansmith_desk.tool_specs import YES, record, spec
from plansmith_desk.web.address import Address, Hosts, address_of
from plansmith_desk.web.page import Page, page_of, text_of, unpacked

_TEXTS: Final = ("json", "xml", "javascript", "x-ndjson", "yaml", "toml", "csv", "rtf")
_PAGES: Final = ("text/html", "application/xhtml+xml")
_AGAIN: Final = (408, 425, 429, 500, 502, 503, 504)
_PIECE: Final = 65_536
_MOST_LINKS: Final = 100

SPEC: Final = spec(
    "web.fetch",
    "Fetch a page or a file of text from the web by its address: HTML as readable text with "
    "headings, lists and links, JSON as data. Only hosts that are allowed.",
    record(
        {"url": string("Address, beginning with http:// or https://.", minLength=1)},
        letters=whole("Most letters of the text given.", 1, 200_000),
    ),
    record(
        {
            "url": string("Where it was found in the end."),
            "status": {"type": "integer"},
            "type": TEXT,
            "text": TEXT,
            "complete": {**YES, "description": "Whether the text is all of it."},
        },
        title=TEXT,
        data={"description": "The value, where it is JSON."},
        links=items(record({"text": TEXT, "url": TEXT})),
        notes=NOTES,
    ),
    open_world=True,
    timeout_s=45,
)


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of time, size and redirects of a fetch."""

    seconds: float = 30.0
    bytes_each: int = 3_000_000
    letters: int = 50_000
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class _Answer:
    address: Address
    status: int
    headers: Message
    body: bytes
    complete: bool


class FetchTools(ToolSet):
    """The tool for some hosts; one in a private network must be named in `private`."""

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        private: Sequence[str] = (),
        limits: FetchLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._hosts = Hosts(hosts, private)
        self._limits = limits or FetchLimits()
        self._tls = tls
        super().__init__([BuiltIn(SPEC, self._fetch)])

    def _fetch(self, given: Arguments, job: Job) -> Json:
        answer = self._follow_redirects(address_of(given["url"]), job)
        if answer.status in _AGAIN:
            wait = retry_after(answer.headers.get("Retry-After"))
            raise ToolBusy(f"{answer.address.host} answers {answer.status}", retry_after=wait)
        if not 200 <= answer.status < 300:
            reason = http.client.responses.get(answer.status, "")
            raise ToolFailed(f"{answer.address.host} answers {answer.status} {reason}".rstrip())
        return self._result(answer, given.get("letters", self._limits.letters))

    def _follow_redirects(self, address: Address, job: Job) -> _Answer:
        """Returns the last answer of a chain of redirects; checks every address."""
        end = time.monotonic() + self._limits.seconds
        for _ in range(self._limits.redirects + 1):
            self._hosts.check(address)
            answer = self._request(address, end, job)
            target = answer.headers.get("Location")
            if answer.status not in (301, 302, 303, 307, 308) or not target:
                return answer
            following = address_of(urljoin(address.url, str(target).strip()))
            if address.scheme == "https" and following.scheme == "http":
                hint = Sentence("fetch the http address itself if that is wanted")
                raise ToolFailed(Sentence("a secure page redirects to one that is not"), hint=hint)
            address = following
        most = self._limits.redirects
        raise ToolFailed(Sentence("it redirects more than {most} times", most=most))

    def _request(self, address: Address, end: float, job: Job) -> _Answer:
        """Makes one request to a checked address."""
        connection = _Checked(address, self._hosts.reachable(address), end, self._tls)
        left = max(0.0, end - time.monotonic())
        try:
            # Time-outs of sockets begin anew with every byte: this one does not.
            with watched(connection.cut, job=job, seconds=left):
                connection.request("GET", address.target, headers=_HEADERS)
                answer = self._read_answer(address, connection)
            connection.left()
        except TimeoutError:
            raise self._timeout(address) from None
        except ssl.SSLError as error:
            what = f"{address.host} has no trusted certificate: {error.reason}"
            raise ToolFailed(what) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            if time.monotonic() >= end:
                raise self._timeout(address) from None
            why = clip(str(error)) or type(error).__name__
            what = Sentence("{host} sent an invalid answer: {why}", host=address.host, why=why)
            raise ToolBusy(what) from None
        finally:
            connection.close()
        return answer

    def _read_answer(self, address: Address, connection: http.client.HTTPConnection) -> _Answer:
        found = connection.getresponse()
        if found.status // 100 != 2:
            return _Answer(address, found.status, found.headers, b"", complete=True)
        packed = str(found.headers.get("Content-Encoding") or "").strip().lower()
        pieces = iter(lambda: found.read1(_PIECE), b"")
        body, complete = unpacked(pieces, packed, most=self._limits.bytes_each)
        if complete and found.length:
            raise http.client.IncompleteRead(body, found.length)
        return _Answer(address, found.status, found.headers, body, complete)

    def _timeout(self, address: Address) -> ToolBusy:
        host, seconds = address.host, f"{self._limits.seconds:g}"
        return ToolBusy(Sentence("{host} took longer than {seconds} s", host=host, seconds=seconds))

    def _result(self, answer: _Answer, letters: int) -> Json:
        kind = answer.headers.get_content_type().lower()
        if not (kind.startswith("text/") or any(word in kind for word in _TEXTS)):
            hint = Sentence("only text, HTML, JSON and XML are fetched")
            raise ToolFailed(f"{answer.address.url} is {kind}", hint=hint)
        is_page = kind in _PAGES
        charset = answer.headers.get_content_charset() or ""
        text, notes = text_of(answer.body, charset, html=is_page)
        page = page_of(text, answer.address.url, seconds=5.0) if is_page else Page(text=text)
        complete = answer.complete and page.complete and len(page.text) <= letters
        if not answer.complete:
            notes.append(f"only the first {self._limits.bytes_each:,} bytes were read")
        if not page.complete:
            notes.append("reading all of the page takes too long")
        if len(page.text) > letters:
            notes.append(f"cut after {letters:,} of {len(page.text):,} letters")
        result: dict[str, Json] = {
            "url": answer.address.url,
            "status": answer.status,
            "type": kind,
            "text": page.text[:letters],
            "complete": complete,
        }
        if page.title:
            result["title"] = page.title[:500]
        if page.links:
            some = {url: label for label, url in reversed(page.links[:_MOST_LINKS])}
            listed = reversed(some.items())
            result["links"] = [{"text": label[:200], "url": url} for url, label in listed]
        if "json" in kind and answer.complete:
            result |= _data(text, notes)
        return noted(result, notes)


class _Checked(http.client.HTTPConnection):
    """A connection to one of the checked numeric addresses; never resolves the name again."""

    def __init__(
        self, address: Address, numbers: Sequence[str], end: float, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(address.host, address.port)
        self._address = address
        self._numbers = numbers
        self._end = end
        self._tls = tls
        # The library forgets its own when the answer begins.
        self._wire: socket.socket | None = None

    def connect(self) -> None:
        """Tries the addresses in turn, without another lookup."""
        failure: OSError = OSError("no address")
        for number in self._numbers:
            try:
                plain = socket.create_connection((number, self._address.port), self.left())
            except TimeoutError:
                raise
            except OSError as error:
                failure = error
                continue
            self.sock = self._wire = plain
            if self._address.scheme == "https":
                context = self._tls or ssl.create_default_context()
                self.sock = context.wrap_socket(plain, server_hostname=self._address.host)
                self._wire = self.sock
            return
        raise failure

    def left(self) -> float:
        """Returns the seconds left; raises a time-out if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def cut(self) -> None:
        """Closes the connection, which ends any wait for it."""
        if self._wire is not None:
            with suppress(OSError):
                self._wire.shutdown(socket.SHUT_RDWR)


def _data(text: str, notes: list[str]) -> dict[str, Json]:
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        notes.append("it claims to be JSON and is not")
        return {}
    flaw = next(flaws(value), None)
    if flaw is not None:
        notes.append(f"its data is left out: {flaw.message}")
        return {}
    return {"data": value}


_HEADERS: Final = {
    "User-Agent": "plansmith",
    "Accept": "text/html, application/json, text/*;q=0.9, application/xml;q=0.8, */*;q=0.1",
    "Accept-Encoding": "gzip",
    "Connection": "close",
}
