"""Decides whether a model that is not tuned should reply or call tools, before it drafts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from plansmith.adapters.models.local.signatures import Offered

# Log-odds of a reply against calls, where the draft begins: below this, calls are drafted.
# Measured with `scripts/bench planning --gate`: see docs/model.md.
REPLY_FROM: Final = -1.5
_WITH_EVIDENCE: Final = 3.0
# Things a request can name, and the arguments that take them.
_NAMED: Final = (
    (
        re.compile(r"(?:^|[\s\"'“‘《(（])[\w./~-]*\w{2}\.[a-z][a-z0-9]{1,4}\b|\w/\w"),
        re.compile(r"path|file|folder|dir|doc|database|image|source|input|output", re.IGNORECASE),
    ),
    (re.compile(r"https?://\S"), re.compile(r"url|link|page|site|address", re.IGNORECASE)),
    (re.compile(r"\S@\S+\.\S"), re.compile(r"to|mail|recipient|address|user", re.IGNORECASE)),
)


def is_reply(odds: float, *, evidence: bool = False) -> bool:
    """Whether a draft should only reply; corrects that small models call tools too readily.

    With evidence that a tool is meant, a reply needs much better odds.
    """
    return odds > (_WITH_EVIDENCE if evidence else REPLY_FROM)


def has_evidence(request: str, tools: Sequence[Offered]) -> bool:
    """Whether a request names a file, an address or the like that a tool takes."""
    names = [name for tool in tools for name in tool.fields]
    return any(
        thing.search(request) and any(argument.search(name) for name in names)
        for thing, argument in _NAMED
    )
