"""The options of `plansmith serve`, and the settings of servers, workers, notices and log-ins."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, cast
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, field_validator, model_validator

from plansmith.errors import Misconfigured, Refused
from plansmith.plan.data import Number, Record, StrictInt
from plansmith.plan.sentence import Sentence
from plansmith.run_queue import QueueLimits
from plansmith.store.urls import StoreKind, store_kind

# How long runs are kept that are over: hours, days or weeks; empty for ever.
KeepRuns = Annotated[str, Field(pattern=r"^([1-9]\d{0,4}[hdw])?$")]
RoleName = Literal["viewer", "operator", "approver", "admin"]
OneLine = Annotated[str, StringConstraints(pattern=r"^[^\r\n\x00]*$", max_length=2000)]
SECRET: Final = re.compile(r"\$\{secret:([^}]+)\}")
_USER: Final = re.compile(r"[!-~]{1,128}")


class WorkerSettings(Record):
    """How many runs workers execute: each of them, all together, and how many start in a time.

    Attributes:
        concurrency: How many runs one worker executes at once.
        total: How many runs all workers of a folder execute at once.
        starts: How many runs start in `seconds`.
        seconds: The time for `starts`.
    """

    concurrency: StrictInt = Field(default=10, ge=1, le=1000)
    total: StrictInt | None = Field(default=None, ge=1)
    starts: StrictInt | None = Field(default=None, ge=1)
    seconds: Number = Field(default=60.0, gt=0)

    def limits(self) -> QueueLimits:
        return QueueLimits(self.concurrency, self.total, self.starts, self.seconds)


@dataclass(frozen=True, slots=True)
class Serve:
    """Where and how to serve; `rules` are fields of `GateRules`.

    `tokens_file` keeps tokens and log-ins; by default it is beside the token file.
    `connections` is the most there may be; 0 allows as many as open files permit. `tenants` is the
    folder in which tenants are kept, if the server has any. With an `engine` workers execute the
    runs; the server takes up to `executes` of its own runs too.
    """

    token_file: Path
    tokens_file: Path | None = None
    login_days: float = 30.0
    head_s: float = 10.0
    connections: int = 0
    host: str = "127.0.0.1"
    port: int = 0
    allow_hosts: tuple[str, ...] = ()
    remote: bool = False
    telemetry: bool = False
    tenants: Path | None = None
    engine: str = ""
    executes: int = 0
    rules: Mapping[str, Any] = field(default_factory=dict[str, Any])


class NoticeSettings(Record):
    """Where notices go: a webhook, a Slack-compatible webhook, or mail.

    `url`, `token` and `password` may be `${secret:NAME}`; the secret must be for `notices.NAME`.

    Attributes:
        kind: `webhook`, `slack` (or alike) or `mail`.
        url: The address of the webhook.
        token: The bearer token for it.
        host: The mail server.
        port: Its port.
        security: How the connection to it is encrypted.
        user: The user name at the mail server.
        password: The password.
        sender: The sender of the mail.
        to: Who gets the mail.
        about: What notices are about: plans to review, questions to answer.
        after_s: For how many seconds something waits before a notice is sent.
        language: The language of the notices.
        page: Where people reach this server, for links.
    """

    kind: Literal["webhook", "slack", "mail"] = "webhook"
    url: OneLine = ""
    token: OneLine = ""
    host: OneLine = ""
    port: StrictInt = Field(default=587, ge=1, le=65535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: OneLine = ""
    password: OneLine = ""
    sender: OneLine = ""
    to: tuple[OneLine, ...] = ()
    about: tuple[Literal["review", "question"], ...] = ("review", "question")
    after_s: Number = Field(default=60.0, ge=0, le=86_400)
    language: Literal["en", "zh"] = "en"
    page: OneLine = ""

    @field_validator("url")
    @classmethod
    def _secure(cls, value: str) -> str:
        if value and not SECRET.fullmatch(value) and not is_secure(value):
            why = Sentence("must begin with https://, unless it is on this machine, or be a secret")
            raise ValueError(why)
        return value

    @field_validator("token", "password")
    @classmethod
    def _by_name(cls, value: str) -> str:
        if value and not SECRET.fullmatch(value):
            raise ValueError("must be ${secret:NAME}, with [secrets.NAME] beside it")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "mail":
            if not (self.host and self.sender and self.to):
                raise ValueError(Sentence("mail needs host, sender and to"))
            if self.user and self.security == "none":
                raise ValueError(Sentence("a password is sent over an encrypted connection only"))
        elif not self.url:
            raise ValueError(f"{self.kind} needs a url")
        return self


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


def require_server(url: str) -> StoreKind:
    """Returns what the package of a store brings that several machines share."""
    kind = store_kind(url)
    if kind is None:
        hint = Sentence("name a database that all of them reach: --store postgresql://…")
        raise Misconfigured(Sentence("workers need a store on PostgreSQL"), hint=hint)
    return kind
