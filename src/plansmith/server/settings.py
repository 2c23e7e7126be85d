"""Settings of a server: where it listens, to whom, and how; loaded without any web library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Serve:
    """Where and how to serve; `rules` are those of the gate.

    `tokens_file` keeps the tokens and log-ins, beside the token file if it is not said.
    `connections` is how many there may be; 0 is as many as the limit of open files allows.
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
    rules: Mapping[str, Any] = field(default_factory=dict[str, Any])
