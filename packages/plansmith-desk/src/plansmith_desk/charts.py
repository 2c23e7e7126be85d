"""The built-in tool that draws charts of rows as SVG, or as PNG where resvg_py is installed."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from plansmith.errors import ToolFailed
from plansmith.plan.capability import Effect
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.text import clip
from plansmith_desk import toolset as ts
from plansmith_desk.folder import Folder
from plansmith_desk.tables.catalogue import matching_names
from plansmith_desk.tool_specs import YES, record, spec
from plansmith_planner.language.characters import HAN

# Told apart also by people who do not see all colours, in this order.
COLOURS: Final = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"),
    *("#7A5195", "#4D4D4D", "#B2182B", "#1B7837", "#8C510A", "#01665E"),
)
_KINDS: Final = ("bar", "line", "scatter", "pie", "donut")
_MAX_SLICES: Final = 12
_MAX_BYTES: Final = 20_000_000
_DEFAULT: Final = "chart.svg"
_ID: Final = re.compile(r"(?:.*[\W_])?id|.*编号", re.IGNORECASE)
_COLUMN: Final = ts.string("A column of the rows.", minLength=1)

SPEC: Final = spec(
    "charts.draw",
    "Draw a bar, line, scatter, pie or donut chart of rows as an SVG or PNG file "
    "(画图表：柱状图、折线图、饼图).",
    ts.fields(
        {
            "kind": {"enum": list(_KINDS), "default": "bar"},
            "rows": {
                **ts.items({"type": "object"}, "Such as the rows of tables.sql.", most=5_000),
                "minItems": 1,
            },
            "x": {**_COLUMN, "description": "Column along x; the first if left out."},
            "y": {
                "anyOf": [_COLUMN, {**ts.items(_COLUMN, most=len(COLOURS)), "minItems": 1}],
                "description": "Column of values, or several; all numbers if left out.",
            },
            "title": ts.string(
                "What is shown; the columns if left out.", minLength=1, maxLength=200
            ),
            "path": ts.string(
                "File to write, ending in .svg or .png; a new chart.svg if left out.",
                minLength=1,
                pattern=r"\.([sS][vV][gG]|[pP][nN][gG])$",
            ),
            "overwrite": ts.flag("Replace a file that is there."),
        },
        "rows",
    ),
    record(
        {
            "path": ts.TEXT,
            "bytes": {"type": "integer"},
            "description": ts.string("The chart in words."),
            "created": YES,
            "changed": YES,
        },
        notes=ts.NOTES,
    ),
    Effect.WRITE,
)


class ChartTools(ts.ToolSet):
    """The tool that writes charts into one folder."""

    def __init__(self, root: Path | Folder) -> None:
        self._folder = Folder.of(root)
        super().__init__([ts.BuiltIn(SPEC, self._draw)])

    def _draw(self, given: ts.Arguments, _: ts.Job) -> Json:
        ending = given.get("path", _DEFAULT).lower().rpartition(".")[2]
        notes: list[str] = []
        kind: str = given.get("kind", "bar")
        rows: Sequence[Mapping[str, Any]] = given["rows"]
        x, columns = _columns(given, kind, notes)
        if kind == "line" and _numeric(rows, x) is not None:
            # A line over numbers goes from left to right, however the rows come.
            rows = sorted(rows, key=lambda row: float(row[x]))
        series = [
            Series(name, tuple(_value(row.get(name), name, at) for at, row in enumerate(rows, 1)))
            for name in columns
        ]
        if all(value is None for each in series for value in each.values):
            raise ToolFailed(Sentence("there are no values to draw"))
        cells = (row.get(x) for row in rows)
        labels = tuple("(empty)" if cell is None else " ".join(str(cell).split()) for cell in cells)
        if kind in ("pie", "donut"):
            labels, series = _slices(labels, series, notes)
        if kind == "bar" and (count := len(labels) * len(series)) > 300:
            hint = Sentence("group or limit the rows, or draw a line")
            raise ToolFailed(
                Sentence("{count} bars are too many to be read", count=count), hint=hint
            )
        numeric = _numeric(rows, x)
        if kind == "scatter" and numeric is None:
            hint = Sentence("a scatter chart has numbers on both sides: draw bars or a line")
            raise ToolFailed(Sentence("'{name}' is not a column of numbers", name=x), hint=hint)
        heading = _heading(columns, x)
        title = clip(given.get("title") or f"{heading[:1].upper()}{heading[1:]}", 200)
        chart = Chart(kind, title, x, labels, tuple(series), numeric)
        svg = draw(chart)
        data = svg.encode() if ending == "svg" else _png(svg)
        over = given.get("overwrite", False)
        path: str = given.get("path") or (_DEFAULT if over else self._free(data))
        done = self._folder.write(path, data, overwrite=over, most=_MAX_BYTES)
        result: dict[str, Json] = {
            "path": self._folder.plain(path),
            "bytes": len(data),
            "description": chart.about(),
            "created": done.created,
            "changed": done.changed,
        }
        return ts.noted(result, notes)

    def _free(self, data: bytes) -> str:
        """Returns the first name that nothing else has; a call repeated finds its own file."""
        name, number = _DEFAULT, 1
        while os.path.lexists(self._folder.root / name):
            with suppress(ToolFailed):  # a folder, a link, or a file too large to be ours
                if self._folder.read(name, most=_MAX_BYTES) == data:
                    break
            number += 1
            name = f"chart-{number}.svg"
        return name


def _columns(given: ts.Arguments, kind: str, notes: list[str]) -> tuple[str, list[str]]:
    """Returns the columns for x and y: what is missing follows from the rows.

    A wrong one is corrected if only one is possible.
    """
    rows: Sequence[Mapping[str, Any]] = given["rows"]
    names = list(dict.fromkeys(key for row in rows for key in row))
    if not names:
        raise ToolFailed(Sentence("there are no values to draw"))
    there = {name: [row for row in rows if row.get(name) is not None] for name in names}
    numbers = [name for name in names if there[name] and _numeric(there[name], name) is not None]
    labels = [name for name in names if name not in numbers]
    x = _matching(given.get("x") or next(iter([*labels, *names])), names)
    if x not in names and len(labels) == 1:
        notes.append(f"there is no column {clip(x, 40)!r}: {labels[0]!r} is along x")
        x = labels[0]
    values = [name for name in numbers if name != x]
    wished: Any = given.get("y") or _value_columns(values, kind, notes) or names[-1]
    y = [_matching(each, names) for each in ([wished] if isinstance(wished, str) else wished)]
    if isinstance(wished, str) and y[0] not in names and len(values) == 1:
        notes.append(f"there is no column {clip(y[0], 40)!r}: {values[0]!r} is drawn")
        y = values
    for name in (x, *y):
        ts.known(name, names)
    return x, y


def _matching(name: str, names: Sequence[str]) -> str:
    found = matching_names(name, names)
    return found[0] if len(found) == 1 else name


def _value_columns(numbers: Sequence[str], kind: str, notes: list[str]) -> list[str]:
    """Returns the columns of numbers that are worth drawing: no identifiers, one for shares."""
    values = [name for name in numbers if not _ID.fullmatch(name)] or list(numbers)
    if kind in ("pie", "donut") and len(values) > 1:
        notes.append(f"the shares are those of {values[-1]!r}, the last column of numbers")
        values = values[-1:]
    return values


def _value(value: Any, name: str, row: int) -> float | None:
    if value is None:
        return None
    try:
        found = float(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        found = None
    if found is None or isinstance(value, bool):
        details = {"row": row, "name": clip(name, 40), "value": clip(str(value), 40)}
        hint = Sentence("choose a column of numbers for y")
        message = Sentence("row {row}: '{name}' is '{value}', not a number", **details)
        raise ToolFailed(message, hint=hint)
    if not abs(found) < float("inf"):
        raise ToolFailed(Sentence("the values are too large to be drawn"))
    return found


def _numeric(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[float, ...] | None:
    values = [row.get(name) for row in rows]
    if any(isinstance(each, bool) or not isinstance(each, int | float) for each in values):
        return None
    return tuple(float(each) for each in values if each is not None)


def _slices(
    labels: tuple[str, ...], series: list[Series], notes: list[str]
) -> tuple[tuple[str, ...], list[Series]]:
    """Returns the shares of one column; joins small ones if there are too many."""
    if len(series) > 1:
        raise ToolFailed(Sentence("a pie shows one column"), hint=Sentence("draw bars instead"))
    pairs = [(name, value or 0.0) for name, value in zip(labels, series[0].values, strict=True)]
    if any(value < 0 for _, value in pairs) or not any(value for _, value in pairs):
        message = Sentence("shares need values that are not negative, and not all zero")
        raise ToolFailed(message, hint=Sentence("draw bars instead"))
    if len(pairs) > _MAX_SLICES:
        pairs.sort(key=lambda pair: -pair[1])
        rest = pairs[_MAX_SLICES - 1 :]
        pairs = [*pairs[: _MAX_SLICES - 1], ("other", sum(value for _, value in rest))]
        notes.append(f"the {len(rest)} smallest shares are drawn together as other")
    names = tuple(name for name, _ in pairs)
    return names, [Series(series[0].name, tuple(value for _, value in pairs))]


def _png(svg: str) -> bytes:
    try:
        resvg = import_module("resvg_py")
    except ImportError:
        hint = Sentence("run pip install resvg_py, or end the path with .svg")
        message = Sentence("PNG needs resvg_py, which is not installed")
        raise ToolFailed(message, hint=hint) from None
    return bytes(resvg.svg_to_bytes(svg_string=svg, zoom=2.0))


_INK: Final = "#222222"
_SOFT: Final = "#5F5F5F"
_GRID: Final = "#DDDDDD"
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LARGEST: Final = 1e300
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_WIDTH: Final = 800
_HEIGHT: Final = 460
_TOP: Final = 64
_BOTTOM: Final = _HEIGHT - 84
_RIGHT: Final = _WIDTH - 24
_LETTER: Final = 7.2  # approximate width of a letter
_MIDDLE: Final = {"text_anchor": "middle"}
_KINDS_IN_CHINESE: Final = {
    "bar": "柱状图", "line": "折线图", "scatter": "散点图", "pie": "饼图", "donut": "环形图",
}  # fmt: skip


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

    @property
    def values(self) -> list[float]:
        return [value for each in self.series for value in each.values if value is not None]

    def marks(self) -> Iterator[tuple[int, int, float, str]]:
        """Yields every value: its series, its place in it, itself, and its words as a tooltip."""
        for series, each in enumerate(self.series):
            for at, value in enumerate(each.values):
                if value is not None:
                    text = f"{self.labels[at]}, {each.name}: {_number(value)}"
                    yield series, at, value, _element("title", text)

    def about(self) -> str:
        """Describes the chart for people who do not see it, in the language of its columns."""
        count, low, high = len(self.values), _number(min(self.values)), _number(max(self.values))
        heading = _heading([each.name for each in self.series], self.x_name)
        if HAN.search(heading):
            kind = _KINDS_IN_CHINESE[self.kind]
            return f"{kind}：{heading}，共 {count} 个值，从 {low} 到 {high}。"
        count_text = f"{count} value{'s' if count > 1 else ''}"
        return f"{self.kind.capitalize()} chart of {heading}: {count_text} from {low} to {high}."


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps a range of values to a range of positions."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
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


def draw(chart: Chart) -> str:
    """Returns the chart as SVG, with a title and a description for screen readers."""
    parts = [
        _element("title", chart.title, id="title"),
        _element("desc", chart.about(), id="about"),
        _element("rect", width=_WIDTH, height=_HEIGHT, fill="#FFFFFF"),
        _label(clip(chart.title, 90), 24, 30, font_size=18, font_weight="600"),
    ]
    parts += _shares(chart) if chart.kind in ("pie", "donut") else _plotted(chart)
    svg = _element(
        "svg",
        inside="\n".join(["", *parts, ""]),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        width=_WIDTH,
        height=_HEIGHT,
        role="img",
        aria_labelledby="title about",
        font_family="system-ui, 'DejaVu Sans', 'Noto Sans', Arial, sans-serif",
        font_size=13,
    )
    return f"{svg}\n"


def _element(name: str, text: str = "", *, inside: str = "", **attributes: str | float) -> str:
    """Returns an SVG element with a text or elements in it; `_` in attributes becomes `-`."""
    written = ""
    for key, value in attributes.items():
        text_value = value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
        written += f' {key.replace("_", "-")}="{_plain(text_value)}"'
    inside += _plain(text)
    return f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>"


def _plain(text: str) -> str:
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))


def _label(text: str, x: float, y: float, *, fill: str = _INK, **attributes: str | float) -> str:
    return _element("text", text, inside="", x=x, y=y, fill=fill, **attributes)


def _marker(series: int, x: float, y: float, tip: str = "") -> str:
    return _element("circle", inside=tip, cx=x, cy=y, r=4, fill=COLOURS[series])


def _number(value: float) -> str:
    """Formats a number: with thousands separators, without needless digits."""
    if value and not 1e-4 <= abs(value) < 1e15:
        return f"{value:.4g}"
    return f"{value:,.4f}".rstrip("0").rstrip(".")


def _heading(values: Sequence[str], by: str) -> str:
    """Returns what a chart shows, in the language of its columns: `sum amount by region`."""
    if any(map(HAN.search, (*values, by))):
        return f"按{by}统计的{'、'.join(map(_label_of, values))}"
    return f"{', '.join(map(_label_of, values))} by {_label_of(by)}"


def _label_of(column: str) -> str:
    return column.replace("_", " ").strip()


def _plotted(chart: Chart) -> Iterator[str]:
    at = 24.0
    for series, each in enumerate(chart.series if len(chart.series) > 1 else ()):
        name = clip(each.name, 24)
        if at + len(name) * _LETTER > _RIGHT:
            break
        yield _marker(series, at + 5, 48)
        yield _label(name, at + 15, 52, font_size=12)
        at += 32 + len(name) * _LETTER
    y = scale(chart.values, _BOTTOM, _TOP, zero=chart.kind == "bar")
    left = 24 + max(len(_number(tick)) for tick in y.ticks) * _LETTER
    for tick in y.ticks:
        place, colour = y.place(tick), _SOFT if tick == 0 else _GRID
        yield _element("line", x1=left, x2=_RIGHT, y1=place, y2=place, stroke=colour)
        yield _label(
            _number(tick), left - 6, place + 4, text_anchor="end", fill=_SOFT, font_size=12
        )
    # Along x are numbers, or labels with half a step at both ends.
    x = Scale(-0.5, len(chart.labels) - 0.5, left, _RIGHT, ())
    if chart.numeric is not None and chart.kind != "bar":
        x = scale(chart.numeric, left + 10, _RIGHT - 10, zero=False)
    yield from _x_axis(chart, x, left)
    middle = (left + _RIGHT) / 2
    yield _label(clip(_label_of(chart.x_name), 60), middle, _HEIGHT - 10, **_MIDDLE, fill=_SOFT)
    if len(chart.series) == 1:
        title = clip(_label_of(chart.series[0].name), 60)
        yield _label(title, 24, _TOP - 14, fill=_SOFT, font_size=12)
    yield from {"bar": _bars, "line": _lines, "scatter": _points}[chart.kind](chart, x, y)


def _x_axis(chart: Chart, x: Scale, left: float) -> Iterator[str]:
    for tick in x.ticks:
        place = x.place(tick)
        yield _element("line", x1=place, x2=place, y1=_BOTTOM, y2=_BOTTOM + 5, stroke=_SOFT)
        yield _label(_number(tick), place, _BOTTOM + 20, **_MIDDLE, fill=_SOFT, font_size=12)
    if x.ticks:
        return
    every = math.ceil(len(chart.labels) / 16)
    space = (_RIGHT - left) / max(1, math.ceil(len(chart.labels) / every))
    tilted = max(map(len, chart.labels)) * _LETTER > space
    for place in range(0, len(chart.labels), every):
        at, text = x.place(place), chart.labels[place]
        if tilted:
            turn = f"rotate(-35 {at:.1f} {_BOTTOM + 14:.1f})"
            short = clip(text, 12)
            yield _label(short, at, _BOTTOM + 14, text_anchor="end", transform=turn, font_size=11)
        else:
            yield _label(clip(text, 30), at, _BOTTOM + 20, **_MIDDLE, font_size=12)


def _bars(chart: Chart, x: Scale, y: Scale) -> Iterator[str]:
    space = (x.end - x.start) / len(chart.labels) * 0.8
    width = space / len(chart.series)
    zero = y.place(0)
    for series, at, value, tip in chart.marks():
        top = y.place(value)
        yield _element(
            "rect",
            inside=tip,
            x=x.place(at) - space / 2 + series * width,
            y=min(top, zero),
            width=max(0.5, width - 1),
            height=abs(zero - top),
            fill=COLOURS[series],
        )


def _lines(chart: Chart, x: Scale, y: Scale) -> Iterator[str]:
    for series, each in enumerate(chart.series):
        path, broken = "", True
        for at, value in enumerate(each.values):
            if value is not None:
                across = x.place(chart.numeric[at] if chart.numeric else at)
                path += f"{'M' if broken else 'L'}{across:.1f} {y.place(value):.1f}"
            # Where a value is missing the line has a gap, and no guess.
            broken = value is None
        yield _element("path", d=path, fill="none", stroke=COLOURS[series], stroke_width=2)
    if len(chart.labels) * len(chart.series) <= 120:
        yield from _points(chart, x, y)


def _points(chart: Chart, x: Scale, y: Scale) -> Iterator[str]:
    for series, at, value, tip in chart.marks():
        across = x.place(chart.numeric[at] if chart.numeric else at)
        yield _marker(series, across, y.place(value), tip)


def _shares(chart: Chart) -> Iterator[str]:
    values = [value or 0.0 for value in chart.series[0].values]
    total = math.fsum(values)
    x, y, radius, angle = 230.0, 255.0, 170.0, -math.pi / 2
    for place, (text, value) in enumerate(zip(chart.labels, values, strict=True)):
        share, colour = value / total, COLOURS[place % len(COLOURS)]
        tip = _element("title", f"{text}: {_number(value)} ({share:.1%})")
        angles = angle, angle + share * 2 * math.pi
        angle = angles[1]
        if share > 0.999_999:
            yield _element("circle", inside=tip, cx=x, cy=y, r=radius, fill=colour)
        else:
            start, end = (
                f"{x + radius * math.cos(each):.2f} {y + radius * math.sin(each):.2f}"
                for each in angles
            )
            arc = f"A{radius:.1f} {radius:.1f} 0 {int(share > 0.5)} 1 {end}Z"
            path = f"M{x:.1f} {y:.1f}L{start}{arc}"
            yield _element(
                "path", inside=tip, d=path, fill=colour, stroke="#FFFFFF", stroke_width=1.5
            )
        line = 90 + place * 27.0
        yield _element("rect", x=450, y=line - 11, width=14, height=14, fill=colour)
        yield _label(f"{clip(text, 26)}: {_number(value)} ({share:.1%})", 472, line + 1)
    if chart.kind == "donut":
        yield _element("circle", cx=x, cy=y, r=radius * 0.55, fill="#FFFFFF")
        yield _label(_number(total), x, y + 6, **_MIDDLE, font_size=18)
