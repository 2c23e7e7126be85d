"""Python functions as tools: schemas from hints and docstrings, threads, typed failures."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import date
from math import nan
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from plansmith import Effect, tool
from plansmith.errors import Misconfigured, ToolFailed
from plansmith.ports import Call
from plansmith.tools.functions import FunctionTools

CALL = Call(key="k")


class Place(BaseModel):
    """A place on earth."""

    city: str
    country: str = "no"


@dataclass
class Weather:
    degrees: float
    day: date


@tool(effect="read", timeout_s=5.0, idempotent=True)
def forecast(place: Place, days: Annotated[int, Field(ge=1, le=7)] = 1) -> Weather:
    """Say how the weather will be.

    Args:
        place: where it is wanted
        days (int): how far ahead
            in days

    Returns:
        The weather.
    """
    return Weather(degrees=days * 1.5, day=date(2026, 1, days))


def test_the_spec_comes_from_hints_docstring_and_declaration() -> None:
    spec = forecast.spec
    assert (spec.name, spec.effect, spec.timeout_s, spec.idempotent) == (
        "forecast",
        Effect.READ,
        5.0,
        True,
    )
    assert spec.description == "Say how the weather will be."
    properties: Any = spec.input_schema["properties"]
    assert properties["days"]["maximum"] == 7
    assert properties["days"]["description"] == "how far ahead"
    assert properties["place"]["description"] == "where it is wanted"
    assert spec.input_schema["required"] == ["place"]
    assert spec.output_schema is not None
    assert set(spec.output_schema["properties"]) == {"degrees", "day"}


def test_a_function_without_hints_takes_anything_and_counts_as_writing() -> None:
    def plain(x, y=2):  # type: ignore[no-untyped-def]
        return x, y

    spec = tool(plain).spec
    assert spec.effect is Effect.WRITE
    assert spec.output_schema is None
    assert spec.input_schema["required"] == ["x"]


async def test_arguments_are_converted_for_the_function_and_results_for_the_journal() -> None:
    source = FunctionTools([forecast])
    result = await source.call("forecast", {"place": {"city": "Oslo"}, "days": 3}, CALL)
    assert result == {"degrees": 4.5, "day": "2026-01-03"}
    assert forecast(Place(city="x"), 2) == Weather(3.0, date(2026, 1, 2))
    # What is no JSON number reaches the check of results; it does not become null.
    assert tool(lambda: nan, name="t").to_json([nan, {1}]) == [pytest.approx(nan, nan_ok=True), [1]]


async def test_bad_arguments_and_results_are_failures_that_name_the_place() -> None:
    source = FunctionTools([forecast, unwritable])
    with pytest.raises(ToolFailed, match=r"forecast: days: .*less than or equal to 7"):
        await source.call("forecast", {"place": {"city": "x"}, "days": 8}, CALL)
    with pytest.raises(ToolFailed, match=r"place\.city"):
        await source.call("forecast", {"place": {}}, CALL)
    with pytest.raises(ToolFailed, match="cannot be written as JSON"):
        await source.call("unwritable", {}, CALL)
    with pytest.raises(ToolFailed, match="no tool called 'other'"):
        await source.call("other", {}, CALL)


@tool
def unwritable():  # type: ignore[no-untyped-def]
    """Return what JSON has no word for."""
    return threading.Lock()


def test_what_cannot_be_a_tool_is_refused_with_a_hint() -> None:
    def star(*args: int) -> None: ...

    def unknown(x: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP037

    with pytest.raises(Misconfigured, match="write its parameters out"):
        tool(star)
    with pytest.raises(Misconfigured, match="Nowhere"):
        tool(unknown)
    with pytest.raises(Misconfigured, match="two tools are called 'forecast'"):
        FunctionTools([forecast, forecast])
