from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.errors import ToolFailed
from plansmith.ports import Call
from plansmith.testing.contracts import ToolSourceContract
from plansmith_desk.calculator import CalculatorTools
from plansmith_desk.calculator.syntax import compute


class TestCalculatorContract(ToolSourceContract):
    good_call = ("calculator.compute", {"expression": "1 + 1"})

    def make_source(self) -> CalculatorTools:
        return CalculatorTools()


async def use(tool: str, **words: Any) -> Any:
    return await CalculatorTools().call(f"calculator.{tool}", words, Call(key="k"))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        *(("0.1 + 0.2", 0.3), ("-7 // 2", -4), ("10 mod 3", 1), ("-2 ^ 2", -4), ("2 ** -3", 0.125)),
        *(("8 ^ (1/3)", 2), ("cbrt(-27)", -3), ("１＋２", 3), ("200 + 15%", 230)),
        *(("200 - 10% - 10%", 162), ("5!", 120)),
        ("√9! + √(9)!", 12),  # a root is of what follows it alone
        *(("√25% of 80", 4), ("100 + √4%", 102), ("100 + (5%)", 100.05), ("3!² + 2^3!", 100)),
        *(("(50%²) + (10%^2) + (5!%) + (50%%)", 1.465), ("round(2.5)", 3)),
        ("round(-2.345, 2)", -2.35),
        ("floor(-1.5) + ceil(1.2) + trunc(-1.9) + abs(-3) + sign(-9)", 1),
        *(("log(8, 2) + log10(1000) + log2(1/4)", 4), ("gcd(12, 18) + lcm(4, 6)", 18)),
        *(("mean(1, 2, 3, 4)", 2.5), ("median(5, 1, 3, 4)", 3.5)),
        *(("pstdev(2, 4, 4, 4, 5, 5, 7, 9)", 2), ("1e3 + 1_000 + .5", 2000.5)),
        *(("17.5 % of 2,340", 409.5), ("max(1,234) + (1,234)", 1468)),
        *(("20 plus 5 times 2 minus 1", 29), ("100 divided by 8 multiplied by 2", 25)),
        *(("2,340的百分之17.5", 409.5), ("（3＋5）×2＝？", 16), ("5的平方加2的10次方", 1049)),
        ("1.5万元加2000元", 17000),
    ],
)
async def test_expressions_are_computed_exactly(expression: str, value: float) -> None:
    found = await use("compute", expression=expression)
    assert found["value"] == value
    assert found["exact"]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("1/3", "0.333333333333333"),
        ("sqrt(2)", "1.4142135623731"),
        ("sin(rad(30))", "0.5"),
        ("10^-400", "1E-400"),
        ("stdev(1, 2)", "0.707106781186548"),
    ],
)
async def test_numbers_without_an_end_are_shown_to_their_digits(expression: str, text: str) -> None:
    found = await use("compute", expression=expression)
    assert found["text"] == text
    assert not found["exact"]


async def test_values_of_other_steps_go_in_as_they_are_written() -> None:
    found = await use(
        "compute",
        expression="sum(prices) * (1 + rate)",
        values={"prices": [0.1, "0.20", 3], "rate": "25e-2"},
    )
    assert (found["value"], found["text"]) == (4.125, "4.125")
    found = await use("compute", expression="a + 1", values={"a": "2,340.50"})
    assert found["value"] == 2341.5
    found = await use("compute", expression="times * 2 plus x", values={"times": 3, "x": 1})
    assert found["value"] == 7  # a name that is also a word is the value
    found = await use("compute", expression="1/7 + 1/7", digits=3)
    assert (found["fraction"], found["text"]) == ("2/7", "0.286")


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        *(("10 % 3", "mod"), ("1.234,5", "decimals have a point.*1,234.5")),
        *(("$5 + €3", "two currencies"), ("100除4", "除以")),
        *(("sqrt(2,340)", "takes 1 numbers, not 2"), ("(1", "not closed")),
        *(("1 +", "ends too early"), ("   ", "nothing to compute")),
        *(("2 x", "operator may be missing"), ("x", "no value called 'x'")),
        *(("sqr(4)", "did you mean .sqrt"), ("abs", r"write abs\("), ("mean()", "1 or more")),
        *(("1 / 0", "zero"), ("(-8) ^ 0.5", "not a real number"), ("ln(0)", "positive")),
        *(("gcd(1.5, 2)", "whole"), ("5!!", "two things"), ("5 + %", "not understood")),
        *(("√(-4)^2", "negative"), ("0.5!", "whole"), ("factorial(1001)", "0 to 1,000")),
        *(("9 ^ 9 ^ 9", "digits"), ("1e9999", "too long"), ("10^999 + 0.5", "too large")),
        *(("(" * 1000 + "1" + ")" * 1000, "not understood|nested"), ("2^" * 1000 + "2", "nested")),
        *(("round(1, 999)", "places"), ("__import__('os').system('id')", "not understood")),
        *(("\u0663", "not understood"), ("1" + "+1" * 4000, "longer than 4000")),
    ],
)
async def test_what_cannot_be_computed_is_refused_with_a_reason(expression: str, why: str) -> None:
    with pytest.raises(ToolFailed, match=why):
        await use("compute", expression=expression)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"x y": 1}, "cannot name"),
        ({"x": "12 kg"}, "not a number"),
        ({"x": {"y": 1}}, "values"),
        ({"x": [1, 2]}, r"sum\("),
    ],
)
async def test_values_have_to_be_numbers(values: Any, why: str) -> None:
    with pytest.raises(ToolFailed, match=why):
        await use("compute", expression="x", values=values)


NUMBERS = st.fractions(-1000, 1000, max_denominator=1000)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_arithmetic_is_that_of_fractions(a: Fraction, b: Fraction, c: Fraction) -> None:
    assert compute(f"({a}) + ({b}) * (-({c}))", {}).value == a + b * -c


@given(st.decimals(-10_000, 10_000, places=4))
def test_a_decimal_comes_back_digit_for_digit(number: Decimal) -> None:
    assert compute(f"({number:f})", {}).value == Fraction(number)


@given(st.text(max_size=60))
def test_no_text_does_anything_but_compute_or_fail_clearly(text: str) -> None:
    with suppress(ToolFailed):
        compute(text, {})


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        *((100, "°C", "°F", 212), ("1,500", "m", "km", 1.5), ("98.6", "F", "celsius", 37)),
        *((0, "K", "°C", -273.15), (1, "GiB", "MB", 1073.741824), (8, "Mbps", "MB/s", 1)),
        *((60, "mph", "km/h", 96.56064), (1, "acre", "m^2", 4046.8564224)),
        *((1, "cubic metres", "litres", 1000), (1, "stone", "lbs", 14), (1, "kWh", "MJ", 3.6)),
        *((1, "kg*m/s^2", "N", 1), (1, "/s", "Hz", 1), (1, "KILOMETERS", "m", 1000)),
    ],
)
async def test_units_are_converted_exactly(
    value: Any, source: str, target: str, expected: float
) -> None:
    found = await use("convert", value=value, **{"from": source, "to": target})
    assert found["value"] == expected
    assert found["exact"]


@pytest.mark.parametrize(
    ("value", "source", "target", "why"),
    [
        (1, "kg", "m", "kg is mass and m is length"),
        (1, "ton", "kg", "short_ton"),
        (1, "years", "days", "differ in length"),
        (1, "mb", "B", "MB or Mb"),
        (1, "klometre", "m", "did you mean"),
        (1, "???", "m", "not a unit"),
        (1, "°C/s", "K/s", "product"),
        (-300, "°C", "K", "absolute zero"),
        (1, "m" * 200, "m", "too long"),
        ("1,5", "m", "km", "not a number"),
        (1, "m^99", "m", "not a unit"),
    ],
)
async def test_conversions_that_make_no_sense_are_refused(
    value: Any, source: str, target: str, why: str
) -> None:
    with pytest.raises(ToolFailed, match=why):
        await use("convert", value=value, **{"from": source, "to": target})
