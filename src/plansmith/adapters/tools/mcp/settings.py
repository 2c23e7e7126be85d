"""Settings of MCP servers: how each is reached, what a person says of its tools, its limits."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from plansmith.plan.capability import Effect
from plansmith.plan.data import Flag, Number, Record, Whole


class ToolSettings(Record):
    """What a person says of one tool; it stands above what the server says."""

    effect: Effect | None = None
    open_world: Flag | None = None
    idempotent: Flag | None = None
    search: Flag = False
    timeout_s: Number | None = Field(default=None, gt=0)
    enabled: Flag = True


class ServerLimits(Record):
    """How much of a server is borne: time, size and number. Nobody's server is above them."""

    start_s: Number = Field(default=30.0, gt=0)
    list_s: Number = Field(default=30.0, gt=0)
    call_s: Number = Field(default=300.0, gt=0)
    answer_s: Number = Field(default=900.0, gt=0)
    stop_s: Number = Field(default=2.0, gt=0)
    fresh_s: Number = Field(default=60.0, ge=0)
    retry_s: Number = Field(default=30.0, ge=0)
    message_bytes: Whole = Field(default=4 * 1024 * 1024, ge=1024)
    definition_bytes: Whole = Field(default=64 * 1024, ge=1024)
    binary_bytes: Whole = Field(default=256 * 1024, ge=0)
    stderr_bytes: Whole = Field(default=16 * 1024, ge=0)
    tools: Whole = Field(default=500, ge=1)
    questions: Whole = Field(default=5, ge=0)
    requests: Whole = Field(default=64, ge=1)
    progress: Whole = Field(default=200, ge=0)


class ServerSettings(Record):
    """One server: a command to start, or a URL. `${NAME}` stands for a value of the environment.

    `trusted` means that the server's own hints about its tools are believed.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    pass_env: tuple[str, ...] = ()
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    protocol: Literal["auto", "legacy"] = "auto"
    trusted: Flag = False
    enabled: Flag = True
    tools: dict[str, ToolSettings] = {}
    limits: ServerLimits = ServerLimits()

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("give a command or a url, and not both")
        if self.command and self.headers:
            raise ValueError("headers belong to a url, not to a command")
        if self.url and (self.args or self.env or self.pass_env or self.cwd):
            raise ValueError("args, env, pass_env and cwd belong to a command, not to a url")
        return self

    @field_validator("url")
    @classmethod
    def _is_web(cls, url: str) -> str:
        if url and not url.startswith("${") and urlsplit(url).scheme not in ("http", "https"):
            raise ValueError("the url has to begin with http:// or https://")
        return url


class McpSettings(Record):
    """The table `[mcp]`: servers by name, files of the `mcpServers` shape, where approvals are."""

    servers: dict[str, ServerSettings] = {}
    files: tuple[Path, ...] = ()
    approvals: Path | None = None

    @field_validator("servers")
    @classmethod
    def _names(cls, servers: dict[str, ServerSettings]) -> dict[str, ServerSettings]:
        bad = [name for name in servers if not is_server_name(name)]
        if bad:
            raise ValueError(f"{bad[0]!r} is no name for a server: 1 to 64 printable letters")
        return servers


def is_server_name(name: str) -> bool:
    """Whether a server may be called so; odd letters are mapped, see `names`."""
    return 0 < len(name) <= 64 and name.isprintable() and name.strip() == name
