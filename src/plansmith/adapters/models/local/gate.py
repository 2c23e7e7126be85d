"""The gate: whether any offered tool is to be called at all, decided before one is drafted."""

from __future__ import annotations

from typing import Final

# Log-odds of a reply against calls, where the draft begins: below this, calls are drafted.
# Measured with `scripts/bench planning --gate`: see docs/model.md.
REPLY_FROM: Final = -1.0


def is_reply(odds: float, *, threshold: float = REPLY_FROM) -> bool:
    """Whether a draft should only reply; small models call a tool too readily, so it takes less."""
    return odds > threshold
