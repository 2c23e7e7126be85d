"""What a plan can be written for."""

from __future__ import annotations

from typing import Final, Literal, get_args

Target = Literal["asyncio", "langgraph", "dbos"]
TARGETS: Final[tuple[str, ...]] = get_args(Target)
