from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.errors import ToolFailed
from plansmith.ports import Call
from plansmith_desk.charts import SPEC, Chart, ChartTools, Series, draw, scale

SVG = "{http://www.w3.org/2000/svg}"
ROWS = [
    {"month": f"M{n}", "a": n * 3 - 4, "b": None if n == 4 else (n * 7) % 11} for n in range(12)
]


async def use(root: Path, **words: Any) -> Any:
    given = {"kind": "bar", "rows": ROWS, "x": "month", "y": "a", "title": "T", "path": "c.svg"}
    return await draw_alone(root, **given | words)


async def draw_alone(root: Path, **words: Any) -> Any:
    found = await ChartTools(root).call("charts.draw", words, Call(key="k"))
    jsonschema_rs.validate(SPEC.output_schema or {}, found)
    return found


def draw_chart(root: Path, name: str = "c.svg") -> ET.Element:
    return ET.fromstring((root / name).read_text(encoding="utf-8"))


def tips(page: ET.Element, tag: str) -> list[str]:
    return [str(each.findtext(f"{SVG}title")) for each in page.iter(f"{SVG}{tag}") if len(each)]


async def test_every_value_is_a_bar_from_zero(tmp_path: Path) -> None:
    done = await use(tmp_path, y=["a", "b"])
    assert (done["path"], done["created"]) == ("c.svg", True)
    assert done["description"] == "Bar chart of a, b by month: 23 values from -4 to 29."
    page = draw_chart(tmp_path)
    bars = [each for each in page.iter(f"{SVG}rect") if len(each)]
    assert len(bars) == 23
    assert "M0, a: -4" in tips(page, "rect")
    assert all(float(each.get("height", "-1")) >= 0 for each in bars)


async def test_a_chart_says_what_it_shows_to_those_who_do_not_see_it(tmp_path: Path) -> None:
    await use(tmp_path, title="Sales by month")
    page = draw_chart(tmp_path)
    assert page.get("role") == "img"
    assert page.findtext(f"{SVG}title") == "Sales by month"
    assert "12 values" in str(page.findtext(f"{SVG}desc"))
    assert set(str(page.get("aria-labelledby")).split()) == {
        each.get("id") for each in page if each.get("id")
    }


async def test_a_line_has_a_gap_where_a_value_is_missing(tmp_path: Path) -> None:
    await use(tmp_path, kind="line", y="b")
    path = next(each for each in draw_chart(tmp_path).iter(f"{SVG}path"))
    assert str(path.get("d")).count("M") == 2


async def test_a_line_over_numbers_goes_from_left_to_right(tmp_path: Path) -> None:
    await use(tmp_path, kind="line", rows=[{"x": x, "y": x * x} for x in (3, 1, 2)], x="x", y="y")
    path = str(next(each for each in draw_chart(tmp_path).iter(f"{SVG}path")).get("d"))
    places = [float(part.split()[0]) for part in path[1:].split("L")]
    assert places == sorted(places)


async def test_a_point_for_every_pair(tmp_path: Path) -> None:
    rows = [{"x": n / 3, "y": n * n} for n in range(20)]
    await use(tmp_path, kind="scatter", rows=rows, x="x", y="y")
    assert len(tips(draw_chart(tmp_path), "circle")) == 20


async def test_shares_are_of_the_whole_and_small_ones_are_joined(tmp_path: Path) -> None:
    rows = [{"k": f"K{n}", "v": n + 1} for n in range(20)]
    assert "9 smallest" in (await use(tmp_path, kind="pie", rows=rows, x="k", y="v"))["notes"][0]
    shares = tips(draw_chart(tmp_path), "path")
    assert len(shares) == 12
    assert "other: 45 (21.4%)" in shares
    await use(tmp_path, kind="donut", rows=[{"k": "one", "v": 5}], x="k", y="v", path="d.svg")
    assert tips(draw_chart(tmp_path, "d.svg"), "circle") == ["one: 5 (100.0%)"]


HOSTILE = "</text><script>alert(1)</script>\0\x1b\ud7ff\" onload='x' &amp;"


async def test_no_text_becomes_part_of_the_drawing(tmp_path: Path) -> None:
    rows = [{HOSTILE: HOSTILE, f"{HOSTILE}2": 3}]
    for kind in ("bar", "line", "pie"):
        words = {"x": HOSTILE, "y": f"{HOSTILE}2", "title": HOSTILE, "path": f"{kind}.svg"}
        await use(tmp_path, kind=kind, rows=rows, **words)
        page = draw_chart(tmp_path, f"{kind}.svg")
        tags = {each.tag.removeprefix(SVG) for each in page.iter()}
        assert tags <= {"svg", "title", "desc", "rect", "text", "line", "path", "circle"}
        assert not [
            each for each in page.iter() if any(key.startswith("on") for key in each.attrib)
        ]


async def test_what_is_left_out_follows_from_the_rows(tmp_path: Path) -> None:
    rows: Any = [{"region": "North", "total": 3}, {"region": "South", "total": None}]
    done = await draw_alone(tmp_path, rows=rows, path="c.svg")
    assert done["description"] == "Bar chart of total by region: 1 value from 3 to 3."
    assert "notes" not in done
    assert draw_chart(tmp_path).findtext(f"{SVG}title") == "Total by region"


@pytest.mark.parametrize(
    ("region", "amount", "title"),
    [
        ("region", "sum_amount", "Sum amount by region"),
        ("地区", "sum_金额", "按地区统计的sum 金额"),
    ],
)
async def test_a_chart_is_titled_in_the_language_of_its_columns(
    tmp_path: Path, region: str, amount: str, title: str
) -> None:
    rows: Any = [{region: "a", amount: 3}, {region: "b", amount: 4}]
    done = await draw_alone(tmp_path, rows=rows, path="c.svg")
    assert draw_chart(tmp_path).findtext(f"{SVG}title") == title
    assert title[1:] in done["description"]
    # No axis shows the name of a column as a program writes it, and no two labels overlap.
    labels = {
        str(each.text): float(each.get("y", 0)) for each in draw_chart(tmp_path).iter(f"{SVG}text")
    }
    assert not [text for text in labels if "_" in text]
    (axis,) = [y for text, y in labels.items() if 40 < y < 60 and not text.isdigit()]
    assert min(y for text, y in labels.items() if text.isdigit()) - axis >= 16


async def test_a_wrong_column_is_taken_for_the_only_one_there_can_be(tmp_path: Path) -> None:
    rows = [{"region": "North", "sum_amount": 3}, {"region": "South", "sum_amount": 4}]
    done = await use(tmp_path, rows=rows, x="place", y="amount")
    assert "sum amount by region" in done["description"]
    assert [note.partition(":")[0] for note in done["notes"]] == [
        "there is no column 'place'",
        "there is no column 'amount'",
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"y": "c"}, "no column 'c'"),
        ({"x": "mnth", "rows": [{"month": "x", "name": "y", "a": 1}]}, "did you mean 'month'"),
        ({"y": "month"}, "not a number"),
        ({"rows": [{"month": "x", "a": None}]}, "no values"),
        ({"rows": [{"month": "x", "a": "1e999"}]}, "too large"),
        ({"rows": [{"month": "x", "a": 1e308}, {"month": "y", "a": -1e308}]}, "too large"),
        ({"rows": [{"month": n, "a": 1} for n in range(400)]}, "too many"),
        ({"kind": "scatter"}, "not a column of numbers"),
        ({"kind": "pie"}, "not negative"),
        ({"kind": "pie", "y": ["a", "b"]}, "one column"),
        ({"path": "c.md"}, "path: this does not match"),
        ({"path": "../c.svg"}, "leads out"),
    ],
)
async def test_what_cannot_be_drawn_is_refused(tmp_path: Path, words: Any, why: str) -> None:
    with pytest.raises(ToolFailed, match=why):
        await use(tmp_path, **words)
    assert not (tmp_path / "c.svg").exists()


def test_a_png_is_drawn_or_said_to_need_a_package(tmp_path: Path) -> None:
    try:
        asyncio.run(use(tmp_path, path="c.png"))
    except ToolFailed as error:
        assert error.hint == "pip install resvg_py, or end the path with .svg"  # noqa: PT017
        return
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


FINITE = st.floats(-1e200, 1e200, allow_subnormal=False)


@given(st.lists(FINITE, min_size=1, max_size=30), st.booleans())
def test_a_scale_has_room_for_all_values_and_few_ticks(values: list[float], zero: bool) -> None:
    found = scale(values, 0, 100, zero=zero)
    assert 2 <= len(found.ticks) <= 12
    slack = 1e-6
    assert all(-slack <= found.place(each) <= 100 + slack for each in values)
    assert not zero or found.low <= 0 <= found.high


@given(
    st.sampled_from(["bar", "line"]),
    st.lists(st.tuples(st.text(max_size=5), st.none() | FINITE), min_size=1, max_size=12).filter(
        lambda pairs: any(value is not None for _, value in pairs)
    ),
)
def test_every_drawing_is_well_formed_and_within_the_page(
    kind: str, pairs: list[tuple[str, float | None]]
) -> None:
    labels = tuple(name or "-" for name, _ in pairs)
    series = (Series("s", tuple(value for _, value in pairs)),)
    page = ET.fromstring(draw(Chart(kind, "t", "x", labels, series)))
    for each in page.iter(f"{SVG}rect"):
        assert math.isfinite(float(each.get("height", "nan")))


async def test_a_chart_without_a_path_gets_a_new_name_and_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "chart.svg").write_text("mine", encoding="utf-8")
    first = await draw_alone(tmp_path, rows=[{"a": "x", "n": 1}])
    assert (first["path"], first["created"]) == ("chart-2.svg", True)
    again = await draw_alone(tmp_path, rows=[{"a": "x", "n": 1}])
    assert (again["path"], again["created"], again["changed"]) == ("chart-2.svg", False, False)
    (tmp_path / "chart-3.svg").symlink_to(tmp_path / "nowhere")
    (tmp_path / "chart-4.svg").mkdir()
    assert (await draw_alone(tmp_path, rows=[{"a": "x", "n": 2}]))["path"] == "chart-5.svg"
    assert (tmp_path / "chart.svg").read_text(encoding="utf-8") == "mine"


async def test_identifiers_are_no_values_of_a_chart_unless_they_are_named(tmp_path: Path) -> None:
    rows: Any = [{"order_id": 7, "name": "x", "Unit Price": 2.5, "units": 1}]
    assert "of Unit Price, units by name" in (await draw_alone(tmp_path, rows=rows))["description"]
    pie = await draw_alone(tmp_path, rows=rows, kind="pie")
    assert "of units by name" in pie["description"]
    assert "last column of numbers" in pie["notes"][0]
    found = await draw_alone(tmp_path, rows=rows, x="NAME", y=["unit_price"])
    assert "of Unit Price by name" in found["description"]


async def test_rows_without_any_column_have_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="there are no values to draw"):
        await draw_alone(tmp_path, rows=[{}, {}])
