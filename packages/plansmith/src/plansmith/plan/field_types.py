"""Types of fields that hold texts and JSON values, with what JSON can hold checked."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from plansmith.plan.data import Json, need_plain


def _plain(value: object) -> object:
    """Refuses values that JSON cannot hold, before pydantic converts them."""
    need_plain(value)
    return value


def _text(value: str) -> str:
    if not value.isascii():
        need_plain(value)
    return value


Text = Annotated[str, AfterValidator(_text)]
Filled = Annotated[str, AfterValidator(_text), Field(min_length=1)]
Value = Annotated[Json, BeforeValidator(_plain)]
Inputs = Annotated[dict[str, Json], BeforeValidator(_plain)]
