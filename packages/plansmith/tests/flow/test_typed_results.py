"""Typed results: what a tool returns is checked, referred to by field, and read as its type."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Any, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, Field

from plansmith import NotFound, PlanInvalid, Plansmith, Run, read_plan, tool


class Colour(StrEnum):
    RED = "red"


@dataclass
class Item:
    name: str
    price: float
    colour: Colour = Colour.RED


@dataclass
class Order:
    number: int
    due: date
    items: list[Item] = field(default_factory=list)


class Place(TypedDict):
    town: str
    near: NotRequired[list[str]]


class Person(BaseModel):
    full_name: str = Field(alias="fullName")
    home: str | None = None


@dataclass
class BigOrder(Order):
    weight: int = 7


@tool(effect="read")
def order(kind: str = "") -> Order:
    if kind == "big":
        return BigOrder(2, date(2026, 1, 2))
    number: Any = "two" if kind == "wrong" else 1
    return Order(number, date(2026, 1, 2), [Item("tea", 2.5)])


@tool(effect="read")
def places() -> list[Place]:
    more: Any = {"town": "Oslo", "near": ["Moss"], "height": 23}
    return [more, {"town": "Rome"}]


@tool(effect="read")
def person(known: bool = True) -> Person | None:
    return Person(fullName="Ada L") if known else None


@tool(effect="read")
def untyped() -> Any:
    return {"a": 1}


@tool(effect="write")
def label(text: str, number: int) -> str:
    return f"{text} {number}"


@tool(effect="write", idempotent=True)
def save(path: str) -> dict[str, Any]:
    return {"path": path, "bytes": 3}


TOOLS: list[Any] = [order, places, person, untyped, label, save]


async def ran(*steps: dict[str, Any]) -> Run:
    async with Plansmith(tools=TOOLS) as smith:
        plan = read_plan({"goal": "g", "steps": list(steps)})
        return await smith.do(plan, approve=lambda _: True)


async def problems(*steps: dict[str, Any]) -> list[str]:
    async with Plansmith(tools=TOOLS) as smith:
        found = await smith.check(read_plan({"goal": "g", "steps": list(steps)}))
    return [str(each) for each in found if each.code == "PS208"]


def step(name: str, call: str, **inputs: Any) -> dict[str, Any]:
    return {"id": name, "tool": call, "inputs": inputs}


async def test_the_result_of_a_step_is_read_as_the_type_that_its_tool_returns() -> None:
    run = await ran(step("o", "order"), step("p", "places"), step("a", "person"))
    assert run.result("o", Order) == Order(1, date(2026, 1, 2), [Item("tea", 2.5)])
    assert run.result("p", list[Place])[0].get("near") == ["Moss"]
    assert run.result("a", Person).full_name == "Ada L"
    assert run.result("a") == {"fullName": "Ada L", "home": None}
    assert run.result("p") == [{"town": "Oslo", "near": ["Moss"], "height": 23}, {"town": "Rome"}]


async def test_a_result_of_another_type_and_a_missing_result_say_what_there_is() -> None:
    run = await ran(step("o", "order"), step("w", "order", kind="wrong"))
    with pytest.raises(TypeError, match=r"the result of 'o' is no Place: town: Field required"):
        run.result("o", Place)
    with pytest.raises(NotFound, match=r"has no step 'x' \(its steps: o, w\)"):
        run.result("x")
    with pytest.raises(NotFound, match="'w' has no result: it is failed"):
        run.result("w", Order)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("{{s.itms}}", "has no 'itms' (did you mean 'items'?)"),
        ("{{s.items[0].prize}}", "(did you mean 'price'?)"),
        ("{{s.items[0].price.tax}}", "it is number"),
    ],
)
async def test_a_reference_to_a_field_that_the_return_type_lacks_is_an_error(
    reference: str, message: str
) -> None:
    (found,) = await problems(step("s", "order"), {"id": "r", "say": reference})
    assert found.startswith("error PS208")
    assert message in found
    with pytest.raises(PlanInvalid, match="PS208"):
        await ran(step("s", "order"), {"id": "r", "say": reference})


async def test_the_files_of_a_run_are_the_paths_that_its_writing_steps_returned() -> None:
    each = {"tool": "save", "inputs": {"path": "{{item}}"}}
    run = await ran(
        step("a", "save", path="a.txt"), {"id": "m", "over": ["b.txt", "a.txt"], "each": each}
    )
    assert run.files == ("a.txt", "b.txt")
    assert (await ran(step("o", "order"))).files == ()
