"""The settings of notices: where to tell people that something waits for them."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from plansmith.plan.data import Number, Record, Whole
from plansmith.plan.sentence import Sentence
from plansmith_server.team.oidc_settings import is_secure

SECRET: Final = re.compile(r"\$\{secret:([^}]+)\}")
NoticeKind = Literal["webhook", "slack", "mail"]
OneLine = Annotated[str, StringConstraints(pattern=r"^[^\r\n\x00]*$", max_length=2000)]


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

    kind: NoticeKind = "webhook"
    url: OneLine = ""
    token: OneLine = ""
    host: OneLine = ""
    port: Whole = Field(default=587, ge=1, le=65535)
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
            raise ValueError(
                Sentence("must begin with https://, unless it is on this machine, or be a secret")
            )
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
