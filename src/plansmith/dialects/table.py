"""The dialects by name, each loaded when it is first used."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final, cast

from plansmith.dialects.dialect import Dialect
from plansmith.errors import Misconfigured
from plansmith.plan.data import Json

# The order in which a value is offered to them: the shapes with the plainest marks first.
_OFFERED: Final = ("spring", "valuecell", "deerflow", "openmanus", "sage")
# Two of Spring AI Alibaba's three shapes can also be asked for by name; it recognises all three.
_PARTS: Final = {"jmanus": "spring.jmanus", "deepresearch": "spring.research"}
DIALECTS: Final = (*_OFFERED, *_PARTS)


@cache
def dialect(name: str) -> Dialect:
    """The dialect of a name."""
    if name not in DIALECTS:
        hint = f"known: {', '.join(sorted(DIALECTS))}"
        raise Misconfigured(f"there is no dialect {name!r}", hint=hint)
    module = import_module(f"plansmith.dialects.{_PARTS.get(name, name)}")
    return cast("Dialect", module.DIALECT)


def recognise(value: Json) -> str | None:
    """The name of the dialect whose marks a value bears, if it bears any."""
    return next((name for name in _OFFERED if dialect(name).recognises(value)), None)
