"""Settings of a server: where it listens, to whom, and how; loaded without any web library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Serve:
    """Where and how to serve; `rules` are those of the gate."""

    token_file: Path
    host: str = "127.0.0.1"
    port: int = 0
    allow_hosts: tuple[str, ...] = ()
    remote: bool = False
    telemetry: bool = False
    rules: Mapping[str, Any] = field(default_factory=dict[str, Any])
