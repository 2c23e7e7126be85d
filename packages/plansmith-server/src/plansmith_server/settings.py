"""The options of `plansmith serve`, and the settings of a server and its workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from plansmith.engine.run_queue import QueueLimits
from plansmith.plan.data import Number, Record, Whole

# How long runs are kept that are over: hours, days or weeks; empty for ever.
KeepRuns = Annotated[str, Field(pattern=r"^([1-9]\d{0,4}[hdw])?$")]


class WorkerSettings(Record):
    """How many runs workers execute: each of them, all together, and how many start in a time.

    Attributes:
        concurrency: How many runs one worker executes at once.
        total: How many runs all workers of a folder execute at once.
        starts: How many runs start in `seconds`.
        seconds: The time for `starts`.
    """

    concurrency: Whole = Field(default=10, ge=1, le=1000)
    total: Whole | None = Field(default=None, ge=1)
    starts: Whole | None = Field(default=None, ge=1)
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
