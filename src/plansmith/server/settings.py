"""The options of `plansmith serve`, and which settings a client may see."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from plansmith.config import Settings, load_settings
from plansmith.plan.data import Json, Record


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


HIDDEN: Final = "[hidden]"
_MODEL: Final = ("model", "timeout_s", "silence_s", "tries", "context_tokens", "output")
_ROLES: Final = ("plan", "triage", "agents", "report")
_PLANNER: Final = (
    *("top_k", "max_steps", "repairs", "fallback", "ask_for_missing", "semantic", "triage"),
    *("strict_shortlist",),
    *("background_search", "context_tokens", "source_seconds", "timezone", "prompts"),
)
_RUN: Final = (
    *("width", "per_tool", "tries", "first_wait_s", "grace_s", "max_replans"),
    *("max_iterations", "max_rejections", "data", "data_free", "early_start"),
    *("replan", "tool_texts"),
)
# A field that is not named here is never shown, however harmless it looks.
WHOLE: Final = frozenset(
    {
        *(f"models.{role}.{name}" for role in _ROLES for name in _MODEL),
        *(f"planner.{name}" for name in _PLANNER),
        *(f"run.{name}" for name in _RUN),
        *(f"review.{name}" for name in ("ask", "never_for")),
        *(f"budget.{name}" for name in ("money", "tokens", "steps", "seconds")),
        *(f"builtin.{name}" for name in ("enabled", "write", "hosts", "private", "writable")),
        *("mcp.files", "mcp.approvals", "tools", "documents", "profile", "cache"),
    }
)
ADDRESSES: Final = frozenset({"store", *(f"models.{role}.base_url" for role in _ROLES)})
# Of these only the names are shown, not the values.
NAMES: Final = frozenset({"mcp.servers", "agents", "secrets", "notices", "builtin.databases"})
_HOMES: Final = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
_PLAIN_STORES: Final = frozenset({"", "memory"})


def leaves(settings: Record) -> dict[str, Json]:
    """Returns every setting by its dotted name, as JSON."""
    return dict(_walk(settings, settings.model_dump(mode="json"), ""))


def _walk(part: Record, dumped: Mapping[str, Json], place: str) -> Iterator[tuple[str, Json]]:
    for name in type(part).model_fields:
        value, plain = getattr(part, name), dumped[name]
        if isinstance(value, Record) and isinstance(plain, dict):
            yield from _walk(value, plain, f"{place}{name}.")
        else:
            yield f"{place}{name}", plain


def shown(name: str, value: Json) -> Json:
    """Returns what a client may see of a setting."""
    if value in (None, False, "", [], {}) or name in WHOLE:
        return value
    if name in NAMES and isinstance(value, dict):
        return [*sorted(value)]
    return address(str(value)) if name in ADDRESSES else HIDDEN


def address(url: str) -> str:
    """Returns a URL without user, password and query; without the path if it is a web address."""
    if url in _PLAIN_STORES:
        return url
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return HIDDEN
    if not parts.scheme or "://" not in url:
        return HIDDEN
    name = f"[{host}]" if ":" in host else host
    path = "" if parts.scheme in ("http", "https") else parts.path
    return f"{parts.scheme}://{name}{f':{port}' if port else ''}{path}"


def rows_with_sources(effective: Settings) -> Iterator[dict[str, Json]]:
    """Lists the settings, each with where it was set; shows no secret."""
    homes = {name: os.environ[name] for name in _HOMES if name in os.environ}
    nowhere = Path(os.devnull)
    stages = {
        "default": Settings(),
        "person": load_settings(folder=nowhere, environment=homes),
        # Warnings about ignored settings were shown when the server started.
        "project": load_settings(environment=homes, tell=lambda _: None),
        "environment": load_settings(tell=lambda _: None),
        "flag": effective,
    }
    staged = {name: leaves(each) for name, each in stages.items()}
    for name, value in staged["flag"].items():
        source = "flag"
        # The first stage that set the present value.
        for stage in reversed(staged):
            if staged[stage].get(name) != value:
                break
            source = stage
        yield {"name": name, "value": shown(name, value), "source": source}
