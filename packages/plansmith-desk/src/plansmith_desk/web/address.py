"""Checks web addresses: which hosts are allowed, and that they do not lead to private networks."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

from plansmith.errors import Misconfigured, ToolBusy, ToolFailed
from plansmith.plan.sentence import Sentence

_LONGEST: Final = 4_000
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
        """The address as text."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.target}"


def address_of(url: str) -> Address:
    """Parses an address; refuses misleading ones."""
    if len(url) > _LONGEST or any(ord(char) < 33 for char in url):
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
        """Refuses a host that is not allowed."""
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
