"""The settings of an OpenID Connect provider, and who a person is by its claims."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, cast
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from plansmith.errors import Refused
from plansmith.plan.data import Number, Record
from plansmith.plan.sentence import Sentence

RoleName = Literal["viewer", "operator", "approver", "admin"]
_USER: Final = re.compile(r"[!-~]{1,128}")


class Claimed(NamedTuple):
    """Who a person is by the claims of a provider; an empty tenant is the server's own."""

    user: str
    role: RoleName
    tenant: str = ""


class OidcSettings(Record):
    """A provider, and how its claims tell the user, the role and the tenant.

    The first entry of `roles` and of `tenants` that fits a value of the claim counts; who fits
    none is refused.

    Attributes:
        issuer: The address of the provider.
        client_id: The id of this server at the provider.
        client_secret_env: The environment variable that has the client's secret.
        url: Where browsers reach this server, if not at its own address.
        scopes: What the provider is asked for.
        user_claim: The claim with the user's name.
        role_claim: The claim with the user's roles or groups.
        roles: The role here for each value of that claim.
        tenant_claim: The claim with the tenant.
        tenants: The tenant here for each value of that claim.
        hours: After how many hours a person logs in again.
    """

    issuer: str = Field(min_length=1)
    client_id: str = Field(min_length=1)
    client_secret_env: str = ""
    url: str = ""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    user_claim: str = "sub"
    role_claim: str = "roles"
    roles: dict[str, RoleName] = {}
    tenant_claim: str = ""
    tenants: dict[str, str] = {}
    hours: Number = Field(default=12.0, gt=0, le=720)

    @field_validator("issuer", "url")
    @classmethod
    def _secure(cls, value: str) -> str:
        if value and not is_secure(value):
            raise ValueError(Sentence("must begin with https://, unless it is on this machine"))
        return value.rstrip("/") if value.endswith("/") and urlsplit(value).path == "/" else value

    def claimed(self, claims: Mapping[str, Any]) -> Claimed:
        """Returns who a person is; refuses one for whom the settings have no role or tenant."""
        user = claims.get(self.user_claim)
        if not isinstance(user, str) or not _USER.fullmatch(user):
            raise Refused(Sentence("the claim '{claim}' is no user name", claim=self.user_claim))
        if self.user_claim == "email" and claims.get("email_verified") is not True:
            raise Refused(Sentence("the provider has not verified the e-mail address"))
        role = _first(self.roles, claims.get(self.role_claim))
        if role is None:
            raise Refused(Sentence("the settings have no role for this user"))
        if not self.tenant_claim:
            return Claimed(user, role)
        tenant = _first(self.tenants, claims.get(self.tenant_claim))
        if not tenant:
            raise Refused(Sentence("the settings have no tenant for this user"))
        return Claimed(user, role, tenant)


def _first(known: Mapping[str, Any], claim: object) -> Any:
    """Returns what the first known value of a claim stands for; a claim may be a list."""
    found = {claim} if isinstance(claim, str) else set[str]()
    if isinstance(claim, list):
        found = {each for each in cast("list[object]", claim) if isinstance(each, str)}
    return next((known[each] for each in known if each in found), None)


def is_secure(url: str) -> bool:
    """Whether an address is encrypted, or of this machine."""
    try:
        parts = urlsplit(url)
        if parts.scheme == "https":
            return bool(parts.hostname)
        return parts.scheme == "http" and ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
