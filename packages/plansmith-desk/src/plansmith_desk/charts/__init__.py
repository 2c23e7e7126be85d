"""The built-in tool that draws charts of rows as SVG, or as PNG where resvg_py is installed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from plansmith.errors import ToolFailed
from plansmith.plan.capability import Effect
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.text import clip
from plansmith.tools.toolset import (
    NOTES,
    TEXT,
    Arguments,
    BuiltIn,
    Job,
    ToolSet,
    fields,
    flag,
    items,
    known,
    noted,
    string,
)
from plansmith_desk.charts.draw import COLOURS, Chart, Series, draw, heading
from plansmith_desk.folder import Folder
from plansmith_desk.tables.catalogue import loose
from plansmith_desk.tool_specs import YES, record, spec

_KINDS: Final = ("bar", "line", "scatter", "pie", "donut")
_MOST_BARS: Final = 300
_MOST_SLICES: Final = 12
_MOST_BYTES: Final = 20_000_000
_DEFAULT: Final = "chart.svg"
_ID: Final = re.compile(r"(?:.*[\W_])?id|.*编号", re.IGNORECASE)
_COLUMN: Final = string("A column of the rows.", minLength=1)

SPEC: Final = spec(
    "charts.draw",
    "Draw a bar, line, scatter, pie or donut chart of rows as an SVG or PNG file "
    "(画图表：柱状图、折线图、饼图).",
    fields(
        {
            "kind": {"enum": list(_KINDS), "default": "bar"},
            "rows": {
                **items({"type": "object"}, "Such as the rows of tables.sql.", most=5_000),
                "minItems": 1,
            },
            "x": {**_COLUMN, "description": "Column along x; the first if left out."},
            "y": {
                "anyOf": [_COLUMN, {**items(_COLUMN, most=len(COLOURS)), "minItems": 1}],
                "description": "Column of values, or several; all numbers if left out.",
            },
            "title": string("What is shown; the columns if left out.", minLength=1, maxLength=200),
            "path": string(
                "File to write, ending in .svg or .png; a new chart.svg if left out.",
                minLength=1,
                pattern=r"\.([sS][vV][gG]|[pP][nN][gG])$",
            ),
            "overwrite": flag("Replace a file that is there."),
        },
        "rows",
    ),
    record(
        {
            "path": TEXT,
            "bytes": {"type": "integer"},
            "description": string("The chart in words."),
            "created": YES,
            "changed": YES,
        },
        notes=NOTES,
    ),
    Effect.WRITE,
)


class ChartTools(ToolSet):
    """The tool that writes charts into one folder."""

    def __init__(self, root: Path | Folder) -> None:
        self._folder = Folder.of(root)
        super().__init__([BuiltIn(SPEC, self._draw)])

    def _draw(self, given: Arguments, job: Job) -> Json:
        del job
        ending = given.get("path", _DEFAULT).lower().rpartition(".")[2]
        notes: list[str] = []
        chart = _chart(given, notes)
        svg = draw(chart)
        data = svg.encode() if ending == "svg" else _png(svg)
        over = given.get("overwrite", False)
        path: str = given.get("path") or (_DEFAULT if over else self._free(data))
        done = self._folder.write(path, data, overwrite=over, most=_MOST_BYTES)
        result: dict[str, Json] = {
            "path": "/".join(self._folder.parts(path)),
            "bytes": len(data),
            "description": chart.about(),
            "created": done.created,
            "changed": done.changed,
        }
        return noted(result, notes)

    def _free(self, data: bytes) -> str:
        """Returns the first name that nothing else has; a call repeated finds its own file."""
        name, number = _DEFAULT, 1
        while os.path.lexists(self._folder.root / name):
            with suppress(ToolFailed):  # a folder, a link, or a file too large to be ours
                if self._folder.read(name, most=_MOST_BYTES) == data:
                    break
            number += 1
            name = f"chart-{number}.svg"
        return name


def _chart(given: Arguments, notes: list[str]) -> Chart:
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
    if kind == "bar" and (count := len(labels) * len(series)) > _MOST_BARS:
        hint = Sentence("group or limit the rows, or draw a line")
        raise ToolFailed(Sentence("{count} bars are too many to be read", count=count), hint=hint)
    numeric = _numeric(rows, x)
    if kind == "scatter" and numeric is None:
        hint = Sentence("a scatter chart has numbers on both sides: draw bars or a line")
        raise ToolFailed(Sentence("'{name}' is not a column of numbers", name=x), hint=hint)
    shown = heading(columns, x)
    title = clip(given.get("title") or f"{shown[:1].upper()}{shown[1:]}", 200)
    return Chart(kind, title, x, labels, tuple(series), numeric)


def _columns(given: Arguments, kind: str, notes: list[str]) -> tuple[str, list[str]]:
    """Returns the columns for x and y: what is missing follows from the rows.

    A wrong one is corrected if only one is possible.
    """
    rows: Sequence[Mapping[str, Any]] = given["rows"]
    names = list(dict.fromkeys(key for row in rows for key in row))
    there = {name: [row for row in rows if row.get(name) is not None] for name in names}
    numbers = [name for name in names if there[name] and _numeric(there[name], name) is not None]
    labels = [name for name in names if name not in numbers]
    x: str = _meant(given.get("x"), names) or next(iter([*labels, *names]))
    if x not in names and len(labels) == 1:
        notes.append(f"there is no column {clip(x, 40)!r}: {labels[0]!r} is along x")
        x = labels[0]
    values = [name for name in numbers if name != x]
    wished: Any = given.get("y") or _drawn(values, kind, notes) or names[-1]
    y = [_meant(each, names) for each in ([wished] if isinstance(wished, str) else wished)]
    if isinstance(wished, str) and y[0] not in names and len(values) == 1:
        notes.append(f"there is no column {clip(y[0], 40)!r}: {values[0]!r} is drawn")
        y = values
    for name in (x, *y):
        known(name, names)
    return x, y


def _meant(name: Any, names: Sequence[str]) -> Any:
    """Returns the one column that a name means in another case or with other spaces."""
    near = [each for each in names if isinstance(name, str) and loose(each) == loose(name)]
    return near[0] if len(near) == 1 and name not in names else name


def _drawn(numbers: Sequence[str], kind: str, notes: list[str]) -> list[str]:
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
        shown = {"row": row, "name": clip(name, 40), "value": clip(str(value), 40)}
        hint = Sentence("choose a column of numbers for y")
        message = Sentence("row {row}: '{name}' is '{value}', not a number", **shown)
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
    if len(pairs) > _MOST_SLICES:
        pairs.sort(key=lambda pair: -pair[1])
        rest = pairs[_MOST_SLICES - 1 :]
        pairs = [*pairs[: _MOST_SLICES - 1], ("other", sum(value for _, value in rest))]
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
