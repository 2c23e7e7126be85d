"""What a program's own review function says to a plan: only a plain True approves."""

from __future__ import annotations

import inspect
from typing import Any

from plansmith.errors import Misconfigured


async def verdict_of(answer: Any) -> bool | None:
    """Returns the answer of a review function, also of an async one; refuses anything else.

    Every coroutine and every text counts as true in Python, also one that says no.
    """
    said: object = await answer if inspect.isawaitable(answer) else answer
    if said is None or isinstance(said, bool):
        return said
    hint = "return True to approve the plan, False to reject it"
    raise Misconfigured(f"the review function returned {type(said).__name__}", hint=hint)
