"""The built-in tool that fetches a page as text: only from allowed hosts, within limits."""

from __future__ import annotations

import http.client
import ipaddress
import json
import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from plansmith.errors import Misconfigured, ToolBusy, ToolFailed
from plansmith.plan.data import Json, flaws
from plansmith.plan.sentence import Sentence
from plansmith.text import clip
from plansmith_connect.retry_after import retry_after
from plansmith_desk import toolset as ts
from plansmith_desk.tool_specs import YES, record, spec
from plansmith_desk.web_page import Page, page_of, text_of, unpacked

_TEXTS: Final = ("json", "xml", "javascript", "x-ndjson", "yaml", "toml", "csv", "rtf")
_PAGES: Final = ("text/html", "application/xhtml+xml")
_AGAIN: Final = (408, 425, 429, 500, 502, 503, 504)
_PIECE: Final = 65_536

SPEC: Final = spec(
    "web.fetch",
    "Fetch a page or a file of text from the web by its address: HTML as readable text with "
    "headings, lists and links, JSON as data. Only hosts that are allowed.",
    record(
        {"url": ts.string("Address, beginning with http:// or https://.", minLength=1)},
        letters=ts.whole("Most letters of the text given.", 1, 200_000),
    ),
    record(
        {
            "url": ts.string("Where it was found in the end."),
            "status": {"type": "integer"},
            "type": ts.TEXT,
            "text": ts.TEXT,
            "complete": {**YES, "description": "Whether the text is all of it."},
        },
        title=ts.TEXT,
        data={"description": "The value, where it is JSON."},
        links=ts.items(record({"text": ts.TEXT, "url": ts.TEXT})),
        notes=ts.NOTES,
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


class FetchTools(ts.ToolSet):
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
        super().__init__([ts.BuiltIn(SPEC, self._fetch)])

    def _fetch(self, given: ts.Arguments, job: ts.Job) -> Json:
        answer = self._follow_redirects(address_of(given["url"]), job)
        if answer.status in _AGAIN:
            wait = retry_after(answer.headers.get("Retry-After"))
            raise ToolBusy(f"{answer.address.host} answers {answer.status}", retry_after=wait)
        if not 200 <= answer.status < 300:
            reason = http.client.responses.get(answer.status, "")
            raise ToolFailed(f"{answer.address.host} answers {answer.status} {reason}".rstrip())
        return self._result(answer, given.get("letters", self._limits.letters))

    def _follow_redirects(self, address: Address, job: ts.Job) -> _Answer:
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

    def _request(self, address: Address, end: float, job: ts.Job) -> _Answer:
        connection = _Checked(address, self._hosts.reachable(address), end, self._tls)
        left = max(0.0, end - time.monotonic())
        try:
            # Time-outs of sockets begin anew with every byte: this one does not.
            with ts.watched(connection.cut, job=job, seconds=left):
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
            some = {url: label for label, url in reversed(page.links[:100])}
            listed = reversed(some.items())
            result["links"] = [{"text": label[:200], "url": url} for url, label in listed]
        if "json" in kind and answer.complete:
            result |= _data(text, notes)
        return ts.noted(result, notes)


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


_MAX_LENGTH: Final = 4_000
_PORTS: Final = {"http": 80, "https": 443}
_HINT: Final = Sentence("such as https://example.com/page")
# Networks that carry an address of another network inside, by which a private one can be reached.
_TUNNELS: Final = tuple(
    ipaddress.ip_network(each)
    for each in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96")
)


@dataclass(frozen=True, slots=True)
class Address:
    """An address in parts; `host` is ASCII in lower case."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.target}"


def address_of(url: str) -> Address:
    """Parses an address; refuses misleading ones."""
    if len(url) > _MAX_LENGTH or any(ord(char) < 33 for char in url):
        raise ToolFailed(Sentence("the address has spaces or is too long"), hint=_HINT)
    try:
        parts = urlsplit(url)
        port, name = parts.port, parts.hostname or ""
    except ValueError:
        raise ToolFailed(Sentence("'{url}' is not an address", url=url[:100]), hint=_HINT) from None
    if parts.scheme not in _PORTS:
        raise ToolFailed(
            Sentence("'{name}' is not fetched", name=parts.scheme or "?"),
            hint=Sentence("only http and https"),
        )
    if "@" in parts.netloc or "\\" in url:
        raise ToolFailed(Sentence("the address has a user or a backslash in it"), hint=_HINT)
    if not name or port == 0:
        raise ToolFailed(Sentence("'{url}' has no host", url=url[:100]), hint=_HINT)
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = quote(parts.query, safe="/?%:@!$&'()*+,;=~-._[]|")
    target = f"{path}?{query}" if query else path
    return Address(parts.scheme, ascii_host(name), port or _PORTS[parts.scheme], target)


def ascii_host(name: str) -> str:
    """Returns a host name in ASCII (IDNA)."""
    plain = name.rstrip(".").lower()
    try:
        return plain if ":" in plain else plain.encode("idna").decode()
    except UnicodeError:
        what = Sentence("'{name}' is not the name of a host", name=name[:100])
        raise ToolFailed(what, hint=_HINT) from None


class Hosts:
    """The allowed hosts: `example.com`, `*.example.com`, `host:8080`, or `*` for all.

    Private machines, including this one, are reached only if `private` names them.
    """

    def __init__(self, allowed: Sequence[str], private: Sequence[str] = ()) -> None:
        self._allowed = [_pattern(each) for each in (*allowed, *private)]
        self._private = [_pattern(each) for each in private]
        if any(host == "*" for host, _ in self._private):
            hint = Sentence("name the private hosts that may be asked")
            raise Misconfigured(Sentence("all private hosts cannot be allowed at once"), hint=hint)

    def check(self, address: Address) -> None:
        if not _fits(address, self._allowed):
            known = ", ".join(host for host, _ in self._allowed) or "none"
            hint = Sentence("allowed are: {names}", names=known[:300])
            place = f"{address.host}:{address.port}"
            raise ToolFailed(Sentence("{place} is not allowed", place=place), hint=hint)

    def reachable(self, address: Address) -> list[str]:
        """Returns the numeric addresses of a host that may be connected to."""
        try:
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise ToolBusy(Sentence("the host {host} is not found", host=address.host)) from None
        numbers = list(dict.fromkeys(str(each[4][0]) for each in found))
        if _fits(address, self._private):
            return numbers
        refused = [each for each in numbers if not is_public(each)]
        if refused:
            # One is enough: a name that leads here and there is not to be trusted with either.
            hint = Sentence("private hosts have to be allowed by name")
            message = f"{address.host} resolves to {refused[0]}, which is not a public address"
            raise ToolFailed(message, hint=hint)
        return numbers


def is_public(number: str) -> bool:
    """Whether a numeric address is on the public internet."""
    found = ipaddress.ip_address(number.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return is_public(str(found.ipv4_mapped))
        if any(found in tunnel for tunnel in _TUNNELS):
            return False
    return found.is_global and not found.is_multicast and not found.is_reserved


def _pattern(text: str) -> tuple[str, int | None]:
    host, _, port = text.rpartition(":") if text.rpartition(":")[2].isdigit() else (text, "", "")
    name = host.strip("[]")
    wild = name.startswith("*.")
    plain = name if name == "*" else ascii_host(name.removeprefix("*."))
    if not plain or ("*" in plain and plain != "*"):
        hint = Sentence("such as example.com, *.example.com or example.com:8080")
        raise Misconfigured(Sentence("'{text}' does not name hosts", text=text), hint=hint)
    return f"*.{plain}" if wild else plain, int(port) if port else None


def _fits(address: Address, patterns: Sequence[tuple[str, int | None]]) -> bool:
    for host, port in patterns:
        if port != address.port and (port is not None or address.port != _PORTS[address.scheme]):
            continue
        if host in ("*", address.host):
            return True
        if host.startswith("*.") and address.host.endswith(host[1:]):
            return True
    return False
