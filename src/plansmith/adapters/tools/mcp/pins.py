"""Pins: definitions compared with what was approved, and what a person is shown about that."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from plansmith.adapters.approvals import Approval
from plansmith.plan.data import Json, content_hash
from plansmith.review.render import safe


@dataclass(frozen=True, slots=True)
class Pending:
    """Something that waits for a person's approval: a server's start, or one tool of it."""

    name: str
    kind: Literal["server", "tool"]
    hash: str
    text: str
    definition: Mapping[str, Json]
    changed: bool = False


def pinned_hash(definition: Mapping[str, Json]) -> str:
    """The hash that an approval is about."""
    return content_hash(dict(definition))


def is_approved(definition: Mapping[str, Json], approval: Approval | None) -> bool:
    """Whether this very definition was approved."""
    return approval is not None and approval.hash == pinned_hash(definition)


def pending(
    name: str,
    kind: Literal["server", "tool"],
    definition: Mapping[str, Json],
    lines: Iterator[str],
    approval: Approval | None,
) -> Pending | None:
    """What waits for approval, with its text; nothing when it has been approved."""
    if is_approved(definition, approval):
        return None
    shown = [*lines]
    if approval is not None:
        shown += [f"    It changed since {safe(approval.by)} approved it:"]
        shown += [f"      {line}" for line in changes(approval.definition, definition)]
    text = "\n".join(shown)
    return Pending(name, kind, pinned_hash(definition), text, definition, approval is not None)


def changes(before: Mapping[str, Json], after: Mapping[str, Json]) -> Iterator[str]:
    """The difference of two definitions, line by line; only lines that differ."""
    compared = difflib.unified_diff(_lines(before), _lines(after), lineterm="", n=0)
    for number, line in enumerate(compared):
        if number >= 2 and not line.startswith("@@"):
            yield safe(line)


def _lines(definition: Mapping[str, Json]) -> list[str]:
    return json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=False).split("\n")


def tool_lines(name: str, definition: Mapping[str, Json], effect: str) -> Iterator[str]:
    """A tool as a person reads it before approving: its whole definition as it came."""
    yield f"tool {safe(name)}, which counts as: {safe(effect)}"
    description = definition.get("description")
    for line in str(description or "(it says nothing about itself)").split("\n"):
        yield f"    {safe(line)}"
    rest = {key: value for key, value in definition.items() if key != "description"}
    for line in _lines(rest):
        yield f"    {safe(line)}"
