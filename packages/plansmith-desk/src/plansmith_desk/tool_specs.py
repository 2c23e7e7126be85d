"""Writes the specs of built-in tools shortly: most differ in a few fields only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from plansmith.plan.capability import Effect, ToolSpec
from plansmith_desk.toolset import fields

COUNT: Final[dict[str, Any]] = {"type": "integer", "minimum": 0}
YES: Final[dict[str, Any]] = {"type": "boolean"}


def record(needed: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    """Returns the schema of an object: fields that it needs, and others that it may have."""
    return fields({**needed, **optional}, *needed)


def spec(
    name: str,
    description: str,
    takes: dict[str, Any],
    gives: dict[str, Any],
    effect: Effect = Effect.READ,
    **more: Any,
) -> ToolSpec:
    """Returns the spec of a tool of this machine, which may be called again if it reads."""
    usual: dict[str, Any] = {"open_world": False, "idempotent": True, "timeout_s": 60.0}
    return ToolSpec(
        name=name,
        description=description,
        input_schema=takes,
        output_schema=gives,
        effect=effect,
        **usual | more,
    )
