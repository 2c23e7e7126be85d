"""Models of what clients send to set up a server: its model, and the files of its folder."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import SecretStr, StringConstraints

from plansmith_server.openapi import Input
from plansmith_server.schemas.requests import Short


class ModelChoice(Input):
    """A model to plan with; a key that is given is kept in memory only."""

    kind: Literal["auto", "key", "server", "embedded", "rules"]
    model: Annotated[str, StringConstraints(max_length=200)] = ""
    url: Annotated[str, StringConstraints(max_length=300)] = ""
    variable: Annotated[str, StringConstraints(max_length=100)] = ""
    api_key: SecretStr = SecretStr("")


class ModelPull(Input):
    """An embedded model to download; without a name the default one."""

    name: Annotated[str, StringConstraints(max_length=100)] = ""


class LastResult(Input):
    """The tool whose newest result is wanted."""

    tool: Short


class PutQuery(Input):
    """Whether a file of the same name is replaced."""

    replace: bool = False
