"""The kinds of charts: bars, lines, points and shares, each from the same series."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from plansmith.adapters.tools.charts_scale import Scale, number, scale
from plansmith.adapters.tools.charts_svg import (
    COLOURS,
    GRID,
    INK,
    SOFT,
    element,
    label,
    marker,
    page,
    tip,
)
from plansmith.adapters.tools.toolset import clip

WIDTH: Final = 800
HEIGHT: Final = 460
_TOP: Final = 64
_BOTTOM: Final = 84
_RIGHT: Final = 24
_LETTER: Final = 7.2  # how wide a letter is, near enough to leave room for words
_MOST_LABELS: Final = 16


@dataclass(frozen=True, slots=True)
class Series:
    """Values under one name; None where there is none."""

    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn: a kind, labels along x (numbers where `numeric`), series along y."""

    kind: str
    title: str
    x_name: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]
    numeric: tuple[float, ...] | None = None

    def about(self) -> str:
        """The chart in words."""
        values = [v for each in self.series for v in each.values if v is not None]
        names = ", ".join(each.name for each in self.series)
        return (
            f"{self.kind.capitalize()} chart of {names} by {self.x_name}: {len(values)} values "
            f"from {number(min(values))} to {number(max(values))}."
        )


def draw(chart: Chart) -> str:
    """The chart as SVG."""
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
    name = chart.series[0].name if len(chart.series) == 1 else ""
    yield label(
        clip(chart.x_name, 60), (left + WIDTH - _RIGHT) / 2, HEIGHT - 10, **_MIDDLE, fill=SOFT
    )
    if name:
        yield label(clip(name, 60), 24, _TOP - 8, fill=SOFT, font_size=12)
    marks = {"bar": _bars, "line": _lines, "scatter": _points}[chart.kind]
    yield from marks(chart, x, y)


_MIDDLE: Final = {"text_anchor": "middle"}


def _across(chart: Chart, left: float) -> Scale:
    """The scale along x: of numbers, or of places in a row with half a place at both ends."""
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
    room = (WIDTH - _RIGHT - left) / max(1, math.ceil(len(chart.labels) / every))
    longest = max(len(each) for each in chart.labels)
    tilted = longest * _LETTER > room
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
    room = (x.end - x.start) / len(chart.labels) * 0.8
    width = room / len(chart.series)
    zero = y.place(0)
    for place, each in enumerate(chart.series):
        for at, value in enumerate(each.values):
            if value is None:
                continue
            top = y.place(value)
            yield element(
                "rect",
                tip(f"{chart.labels[at]}, {each.name}: {number(value)}"),
                x=x.place(at) - room / 2 + place * width,
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
                words = tip(f"{chart.labels[at]}, {each.name}: {number(value)}")
                yield marker(place, across, y.place(value), COLOURS[place], words)


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
    x: float, y: float, radius: float, part: tuple[float, float], colour: str, words: str
) -> str:
    start, share = part
    if share > 0.999_999:
        return element("circle", words, cx=x, cy=y, r=radius, fill=colour)
    end = start + share * 2 * math.pi
    ends = [
        f"{x + radius * math.cos(angle):.2f} {y + radius * math.sin(angle):.2f}"
        for angle in (start, end)
    ]
    large = int(share > 0.5)
    path = f"M{x:.1f} {y:.1f}L{ends[0]}A{radius:.1f} {radius:.1f} 0 {large} 1 {ends[1]}Z"
    return element("path", words, d=path, fill=colour, stroke="#FFFFFF", stroke_width=1.5)
