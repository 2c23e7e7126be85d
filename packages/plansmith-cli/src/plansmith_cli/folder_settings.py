"""Decides which settings of a project folder are harmless, so that they need no trust."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

# Settings that name files; their paths are relative to the settings file.
_PATHS: Final = (
    *(("tools",), ("documents",), ("profile",), ("planner", "prompts")),
    *(("mcp", "files"), ("mcp", "approvals"), ("agents", "*", "ca_file"), ("secrets", "*", "file")),
)
# Tables whose entries are reported by name and not key by key.
_TABLES: Final = {("mcp", "servers"): 3, ("agents",): 2, ("secrets",): 2, ("notices",): 2}

Table = dict[str, Any]
Rule = Callable[[Any, Any, Path], bool]


def _lower(value: Any, now: Any, _: Path) -> bool:
    return bool(now is None or value <= now)


def _stricter(value: Any, now: Any, _: Path) -> bool:
    order = ("show", "ask", "deny")
    return order.index(value) >= order.index(now)


def _on(value: Any, _: Any, __: Path) -> bool:
    return value is True


def _off(value: Any, _: Any, __: Path) -> bool:
    return value is False


def _always(value: Any, _: Any, __: Path) -> bool:
    return bool(value == "always")


def _zone(value: Any, _: Any, __: Path) -> bool:
    try:
        return bool(ZoneInfo(value).key)
    except (KeyError, ValueError, OSError):
        return False


def _inside(value: Any, _: Any, folder: Path) -> bool:
    """Tells whether all documents are inside the folder, not behind a link and not hidden."""
    root = folder.resolve()
    try:
        found = [at(root, each).resolve() for each in value]
    except (ValueError, RuntimeError):
        return False
    return all(
        each.is_relative_to(root) and not any(p[0] == "." for p in each.relative_to(root).parts)
        for each in found
    )


# What an untrusted project may set: smaller and stricter values. Anything else needs trust.
_HARMLESS: Final[Mapping[tuple[str, ...], Rule]] = {
    ("planner", "timezone"): _zone,
    **{
        ("planner", each): _lower
        for each in ("top_k", "max_steps", "repairs", "context_tokens", "source_seconds")
    },
    ("planner", "ask_for_missing"): _on,
    ("planner", "strict_shortlist"): _on,
    ("planner", "background_search"): _off,
    ("planner", "semantic"): _off,
    ("review", "ask"): _always,
    **{("budget", each): _lower for each in ("money", "tokens", "steps", "seconds")},
    **{
        ("run", each): _lower
        for each in ("width", "tries", "max_replans", "max_iterations", "max_rejections")
    },
    ("run", "per_tool", "*"): _lower,
    ("run", "data"): _stricter,
    ("run", "early_start"): _off,
    ("builtin", "enabled"): _off,
    ("builtin", "write"): _off,
    ("documents",): _inside,
}


def harmless(found: Table, base: object, folder: Path) -> tuple[Table, list[str]]:
    """Returns the settings of a project that need no trust, and the names of all others."""
    kept: Table = {}
    left: list[str] = []
    for path, value in _leaves(found):
        rule = _HARMLESS.get(path) or _HARMLESS.get((*path[:-1], "*"))
        now = _at(base, path)
        if value == now or (rule is not None and rule(value, now, folder)):
            place = kept
            for key in path[:-1]:
                place = place.setdefault(key, {})
            place[path[-1]] = value
        else:
            depth = next((n for at, n in _TABLES.items() if path[: len(at)] == at), len(path))
            left.append(".".join(path[:depth]))
    return kept, list(dict.fromkeys(left))


def _leaves(found: Table, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in found.items():
        if isinstance(value, dict):
            yield from _leaves(cast("Table", value), (*path, key))
        else:
            yield (*path, key), value


def _at(base: object, path: tuple[str, ...]) -> Any:
    found: Any = base
    for key in path:
        held = isinstance(found, dict)
        found = cast("Table", found).get(key) if held else getattr(found, key, None)
    return list(cast("tuple[object, ...]", found)) if isinstance(found, tuple) else found


def with_paths(found: Table, change: Callable[[tuple[str, ...], str], str]) -> Table:
    """Returns the settings with `change` applied to every file path in them."""
    for path in _PATHS:
        found = _changed(found, path, lambda name, at=path: change(at, name))  # type: ignore[misc]
    return found


def _changed(value: Any, path: tuple[str, ...], change: Callable[[str], str]) -> Any:
    if not path:
        names = cast("list[str]", value)
        return [change(each) for each in names] if isinstance(value, list) else change(value)
    if not isinstance(value, dict):
        return value
    return {
        key: _changed(child, path[1:], change) if path[0] in (key, "*") else child
        for key, child in cast("Table", value).items()
    }


def at(folder: Path, name: str) -> Path:
    """Returns the path of a file that settings name, relative to their folder."""
    return folder / Path(name).expanduser()
