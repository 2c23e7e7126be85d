"""Which settings a client may see, and how they are listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from plansmith.plan.data import Json, Record
from plansmith_planner.settings import ROLES

HIDDEN: Final = "[hidden]"
_MODEL: Final = ("model", "timeout_s", "silence_s", "tries", "context_tokens", "output")
_PLANNER: Final = (
    *("top_k", "max_steps", "repairs", "fallback", "ask_for_missing", "semantic", "triage"),
    *("strict_shortlist",),
    *("background_search", "context_tokens", "source_seconds", "timezone", "prompts"),
)
_RUN: Final = (
    *("width", "per_tool", "tries", "first_wait_s", "grace_s", "max_replans"),
    *("max_iterations", "max_rejections", "data", "data_free"),
    *("replan", "tool_texts"),
)
# A field that is not named here is never shown, however harmless it looks.
WHOLE: Final = frozenset(
    {
        *(f"models.{role}.{name}" for role in ROLES for name in _MODEL),
        *(f"planner.{name}" for name in _PLANNER),
        *(f"run.{name}" for name in _RUN),
        *(f"review.{name}" for name in ("ask", "never_for")),
        *(f"budget.{name}" for name in ("money", "tokens", "steps", "seconds")),
        *(f"builtin.{name}" for name in ("enabled", "write", "hosts", "private", "writable")),
        *("mcp.files", "mcp.approvals", "tools", "documents", "profile"),
    }
)
ADDRESSES: Final = frozenset({"store", *(f"models.{role}.base_url" for role in ROLES)})
# Of these only the names are shown, not the values.
NAMES: Final = frozenset({"mcp.servers", "agents", "secrets", "notices", "builtin.databases"})
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


def visible_value(name: str, value: Json) -> Json:
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


def rows(stages: Mapping[str, Record]) -> Iterator[tuple[str, Json, str]]:
    """Lists the settings: name, what may be seen of the value, and which stage has set it.

    `stages` are the settings after each source of them; the last ones are in use.
    """
    staged = {stage: leaves(each) for stage, each in stages.items()}
    for name, value in staged[[*staged][-1]].items():
        source = ""
        # The first stage that set the present value.
        for stage in reversed(staged):
            if staged[stage].get(name) != value:
                break
            source = stage
        yield name, visible_value(name, value), source
