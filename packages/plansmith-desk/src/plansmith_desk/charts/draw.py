"""Draws charts as SVG: bars, lines, points and shares."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from plansmith.errors import ToolFailed
from plansmith.plan.sentence import Sentence
from plansmith.text import HAN, clip

# Told apart also by people who do not see all colours, in this order.
COLOURS: Final = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"),
    *("#7A5195", "#4D4D4D", "#B2182B", "#1B7837", "#8C510A", "#01665E"),
)
INK: Final = "#222222"
SOFT: Final = "#5F5F5F"
GRID: Final = "#DDDDDD"
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def element(name: str, *children: str, **attributes: str | float) -> str:
    """Returns an SVG element; `_` in attribute names becomes `-`."""
    written = ""
    for key, value in attributes.items():
        shown = value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
        written += f' {key.replace("_", "-")}="{plain(shown)}"'
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def plain(text: str) -> str:
    """Escapes a text for SVG."""
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))


def label(text: str, x: float, y: float, **attributes: str | float) -> str:
    """Returns a text at a position."""
    return element("text", plain(text), x=x, y=y, **({"fill": INK} | attributes))


def tip(text: str) -> str:
    """Returns the tooltip of a mark, which screen readers read."""
    return element("title", plain(text))


def marker(kind: int, x: float, y: float, colour: str, *children: str) -> str:
    """Returns a mark for a point; each series has its own shape and colour."""
    size = 4.0
    if kind % 4 == 0:
        return element("circle", *children, cx=x, cy=y, r=size, fill=colour)
    corners = {
        1: ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        2: ((0, -1.2), (1.2, 1), (-1.2, 1)),
        3: ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
    }[kind % 4]
    points = " ".join(f"{x + dx * size:.1f},{y + dy * size:.1f}" for dx, dy in corners)
    return element("polygon", *children, points=points, fill=colour)


def page(width: int, height: int, title: str, about: str, parts: Sequence[str]) -> str:
    """Returns the whole drawing, with a title and a description for screen readers."""
    body = [
        element("title", plain(title), id="title"),
        element("desc", plain(about), id="about"),
        element("rect", width=width, height=height, fill="#FFFFFF"),
        *parts,
    ]
    drawn = element(
        "svg",
        "\n".join(["", *body, ""]),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_labelledby="title about",
        font_family="system-ui, 'DejaVu Sans', 'Noto Sans', Arial, sans-serif",
        font_size=13,
    )
    return f"{drawn}\n"


_LARGEST: Final = 1e300
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps a range of values to a range of positions."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Returns the position of a value."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def scale(values: Sequence[float], start: float, end: float, *, zero: bool) -> Scale:
    """Returns a scale with room for all values, and with zero if `zero`."""
    low, high = min(values), max(values)
    if max(abs(low), abs(high)) > _LARGEST:
        raise ToolFailed(Sentence("the values are too large to be drawn"))
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        # One value alone has no range: give it some room on both sides.
        low, high = (low - 1, high + 1) if low == 0 else (low - abs(low) / 2, high + abs(high) / 2)
        low = 0.0 if zero and high > 0 else low
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in _STEPS if each * power >= rough * 0.999_999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(number * step for number in range(first, last + 1))
    return Scale(ticks[0], ticks[-1], start, end, ticks)


def number(value: float) -> str:
    """Formats a number: with thousands separators, without needless digits."""
    if value == 0:
        return "0"
    if abs(value) >= 1e15 or abs(value) < 1e-4:
        return f"{value:.4g}"
    text = f"{value:,.6f}" if abs(value) < 1e6 else f"{value:,.2f}"
    return text.rstrip("0").rstrip(".")


WIDTH: Final = 800
HEIGHT: Final = 460
_TOP: Final = 64
_BOTTOM: Final = 84
_RIGHT: Final = 24
_LETTER: Final = 7.2  # approximate width of a letter
_MOST_LABELS: Final = 16


@dataclass(frozen=True, slots=True)
class Series:
    """Named values; None where one is missing."""

    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn: a kind, labels along x (numbers if `numeric`), series along y."""

    kind: str
    title: str
    x_name: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]
    numeric: tuple[float, ...] | None = None

    def about(self) -> str:
        """Describes the chart for people who do not see it, in the language of its columns."""
        values = [v for each in self.series for v in each.values if v is not None]
        names, count = [each.name for each in self.series], len(values)
        low, high = number(min(values)), number(max(values))
        shown = heading(names, self.x_name)
        if HAN.search(shown):
            return f"{_KINDS[self.kind]}：{shown}，共 {count} 个值，从 {low} 到 {high}。"
        counted = f"{count} value{'s' if count > 1 else ''}"
        return f"{self.kind.capitalize()} chart of {shown}: {counted} from {low} to {high}."


# How a column that `tables.group` made is called, in English and in Chinese.
_MADE: Final = re.compile(r"(sum|count|average|min|max)_(.+)", re.IGNORECASE)
_WORDS: Final = {
    "sum": ("sum of {}", "{}合计"),
    "count": ("count of {}", "{}数量"),
    "average": ("average of {}", "{}平均值"),
    "min": ("lowest {}", "{}最小值"),
    "max": ("highest {}", "{}最大值"),
}
_KINDS: Final = {
    "bar": "柱状图", "line": "折线图", "scatter": "散点图", "pie": "饼图", "donut": "环形图",
}  # fmt: skip


def heading(values: Sequence[str], by: str) -> str:
    """Returns what a chart shows, in the language of its columns: `sum of amount by region`."""
    if any(map(HAN.search, (*values, by))):
        return f"按{by}统计的{'、'.join(map(_called, values))}"
    return f"{', '.join(map(_called, values))} by {_called(by)}"


def _called(column: str) -> str:
    made, is_chinese = _MADE.fullmatch(column), HAN.search(column) is not None
    name = (made[2] if made else column).replace("_", " ").strip()
    return _WORDS[made[1].lower()][is_chinese].format(name) if made else name


def draw(chart: Chart) -> str:
    """Returns the chart as SVG."""
    parts = [label(clip(chart.title, 90), 24, 30, font_size=18, font_weight="600")]
    if chart.kind in ("pie", "donut"):
        parts += _shares(chart)
    else:
        parts += _legend(chart.series) if len(chart.series) > 1 else []
        parts += _plotted(chart)
    return page(WIDTH, HEIGHT, chart.title, chart.about(), parts)


def _legend(series: Sequence[Series]) -> Iterator[str]:
    x = 24.0
    for place, each in enumerate(series):
        name = clip(each.name, 24)
        if x + len(name) * _LETTER > WIDTH - _RIGHT:
            return
        yield marker(place, x + 5, 48, COLOURS[place])
        yield label(name, x + 15, 52, font_size=12)
        x += 32 + len(name) * _LETTER


def _plotted(chart: Chart) -> Iterator[str]:
    values = [v for each in chart.series for v in each.values if v is not None]
    rough = scale(values, 0, 1, zero=chart.kind == "bar")
    left = 24 + max(len(number(tick)) for tick in rough.ticks) * _LETTER
    y = scale(values, HEIGHT - _BOTTOM, _TOP, zero=chart.kind == "bar")
    x = _across(chart, left)
    yield from _grid(y, left)
    yield from _x_axis(chart, x, left)
    middle = (left + WIDTH - _RIGHT) / 2
    yield label(clip(_called(chart.x_name), 60), middle, HEIGHT - 10, **_MIDDLE, fill=SOFT)
    if len(chart.series) == 1:
        title = clip(_called(chart.series[0].name), 60)
        yield label(title, 24, _TOP - 14, fill=SOFT, font_size=12)
    marks = {"bar": _bars, "line": _lines, "scatter": _points}[chart.kind]
    yield from marks(chart, x, y)


_MIDDLE: Final = {"text_anchor": "middle"}


def _across(chart: Chart, left: float) -> Scale:
    """Returns the scale along x: of numbers, or of labels with half a step at both ends."""
    if chart.numeric is not None and chart.kind != "bar":
        return scale(chart.numeric, left + 10, WIDTH - _RIGHT - 10, zero=False)
    return Scale(-0.5, len(chart.labels) - 0.5, left, WIDTH - _RIGHT, ())


def _grid(y: Scale, left: float) -> Iterator[str]:
    for tick in y.ticks:
        place = y.place(tick)
        colour = SOFT if tick == 0 else GRID
        yield element("line", x1=left, x2=WIDTH - _RIGHT, y1=place, y2=place, stroke=colour)
        yield label(number(tick), left - 6, place + 4, text_anchor="end", fill=SOFT, font_size=12)


def _x_axis(chart: Chart, x: Scale, left: float) -> Iterator[str]:
    base = HEIGHT - _BOTTOM
    if x.ticks:
        for tick in x.ticks:
            place = x.place(tick)
            yield element("line", x1=place, x2=place, y1=base, y2=base + 5, stroke=SOFT)
            yield label(number(tick), place, base + 20, **_MIDDLE, fill=SOFT, font_size=12)
        return
    every = math.ceil(len(chart.labels) / _MOST_LABELS)
    space = (WIDTH - _RIGHT - left) / max(1, math.ceil(len(chart.labels) / every))
    longest = max(len(each) for each in chart.labels)
    tilted = longest * _LETTER > space
    for place, text in enumerate(chart.labels):
        if place % every:
            continue
        at = x.place(place)
        if tilted:
            turn = f"rotate(-35 {at:.1f} {base + 14:.1f})"
            shown = clip(text, 12)
            yield label(shown, at, base + 14, text_anchor="end", transform=turn, font_size=11)
        else:
            yield label(clip(text, 30), at, base + 20, **_MIDDLE, font_size=12)


def _bars(chart: Chart, x: Scale, y: Scale) -> Iterator[str]:
    space = (x.end - x.start) / len(chart.labels) * 0.8
    width = space / len(chart.series)
    zero = y.place(0)
    for place, each in enumerate(chart.series):
        for at, value in enumerate(each.values):
            if value is None:
                continue
            top = y.place(value)
            yield element(
                "rect",
                tip(f"{chart.labels[at]}, {each.name}: {number(value)}"),
                x=x.place(at) - space / 2 + place * width,
                y=min(top, zero),
                width=max(0.5, width - 1),
                height=abs(zero - top),
                fill=COLOURS[place],
            )


def _lines(chart: Chart, x: Scale, y: Scale) -> Iterator[str]:
    for place, each in enumerate(chart.series):
        path, broken = "", True
        for at, value in enumerate(each.values):
            if value is not None:
                across = x.place(chart.numeric[at] if chart.numeric else at)
                path += f"{'M' if broken else 'L'}{across:.1f} {y.place(value):.1f}"
            # Where a value is missing the line has a gap, and no guess.
            broken = value is None
        yield element("path", d=path, fill="none", stroke=COLOURS[place], stroke_width=2)
    if len(chart.labels) * len(chart.series) <= 120:
        yield from _points(chart, x, y)


def _points(chart: Chart, x: Scale, y: Scale) -> Iterator[str]:
    for place, each in enumerate(chart.series):
        for at, value in enumerate(each.values):
            if value is not None:
                across = x.place(chart.numeric[at] if chart.numeric else at)
                text = tip(f"{chart.labels[at]}, {each.name}: {number(value)}")
                yield marker(place, across, y.place(value), COLOURS[place], text)


def _shares(chart: Chart) -> Iterator[str]:
    values = [value or 0.0 for value in chart.series[0].values]
    total = math.fsum(values)
    middle_x, middle_y, radius = 230.0, 255.0, 170.0
    angle = -math.pi / 2
    for place, (text, value) in enumerate(zip(chart.labels, values, strict=True)):
        share = value / total
        colour = COLOURS[place % len(COLOURS)]
        words = f"{text}: {number(value)} ({share:.1%})"
        yield _slice(middle_x, middle_y, radius, (angle, share), colour, tip(words))
        angle += share * 2 * math.pi
        y = 90 + place * 27.0
        yield element("rect", x=450, y=y - 11, width=14, height=14, fill=colour)
        yield label(f"{clip(text, 26)}: {number(value)} ({share:.1%})", 472, y + 1, fill=INK)
    if chart.kind == "donut":
        yield element("circle", cx=middle_x, cy=middle_y, r=radius * 0.55, fill="#FFFFFF")
        yield label(number(total), middle_x, middle_y + 6, **_MIDDLE, font_size=18)


def _slice(
    x: float, y: float, radius: float, part: tuple[float, float], colour: str, text: str
) -> str:
    start, share = part
    if share > 0.999_999:
        return element("circle", text, cx=x, cy=y, r=radius, fill=colour)
    end = start + share * 2 * math.pi
    ends = [
        f"{x + radius * math.cos(angle):.2f} {y + radius * math.sin(angle):.2f}"
        for angle in (start, end)
    ]
    large = int(share > 0.5)
    path = f"M{x:.1f} {y:.1f}L{ends[0]}A{radius:.1f} {radius:.1f} 0 {large} 1 {ends[1]}Z"
    return element("path", text, d=path, fill=colour, stroke="#FFFFFF", stroke_width=1.5)
