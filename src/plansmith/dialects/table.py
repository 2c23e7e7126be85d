"""Table: the dialects by name, each loaded when it is first used."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final, cast

from plansmith.dialects.dialect import Dialect
from plansmith.errors import Misconfigured
from plansmith.plan.data import Json

# The order in which a value is offered to them: the shapes with the plainest marks first.
DIALECTS: Final = ("spring", "valuecell", "deerflow", "openmanus", "sage")


@cache
def dialect(name: str) -> Dialect:
    """The dialect of a name."""
    if name not in DIALECTS:
        hint = f"known: {', '.join(sorted(DIALECTS))}"
        raise Misconfigured(f"there is no dialect {name!r}", hint=hint)
    return cast("Dialect", import_module(f"plansmith.dialects.{name}").DIALECT)


def recognise(value: Json) -> str | None:
    """The name of the dialect whose marks a value bears, if it bears any."""
    return next((name for name in DIALECTS if dialect(name).recognises(value)), None)
