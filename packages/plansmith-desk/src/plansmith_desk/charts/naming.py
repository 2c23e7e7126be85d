"""What a chart shows, in words: made of the names of its columns, in their language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from plansmith.text import HAN

_MADE: Final = re.compile(r"(sum|total|count|avg|average|mean|min|max|median)_(.+)", re.IGNORECASE)
_ENGLISH: Final = {
    **dict.fromkeys(("avg", "average", "mean"), "average of {name}"),
    "min": "lowest {name}",
    "max": "highest {name}",
}
_CHINESE: Final = {
    **dict.fromkeys(("sum", "total"), "{name}合计"),
    **dict.fromkeys(("avg", "average", "mean"), "{name}平均值"),
    "count": "{name}数量",
    "min": "{name}最小值",
    "max": "{name}最大值",
    "median": "{name}中位数",
}
_KINDS: Final = {
    "bar": "柱状图",
    "line": "折线图",
    "scatter": "散点图",
    "pie": "饼图",
    "donut": "环形图",
}


def heading(values: Sequence[str], by: str) -> str:
    """Returns the title of a chart that has none: `Sum of amount by region`."""
    if _is_chinese(values, by):
        return f"按{by}统计的{'、'.join(map(_chinese, values))}"
    title = _by(values, by)
    return f"{title[:1].upper()}{title[1:]}"


def description(
    kind: str, values: Sequence[str], by: str, *, count: int, reach: tuple[str, str]
) -> str:
    """Describes a chart for people who do not see it; `reach` are its lowest and highest value."""
    lowest, highest = reach
    if _is_chinese(values, by):
        return f"{_KINDS[kind]}：{heading(values, by)}，共 {count} 个值，从 {lowest} 到 {highest}。"
    counted = f"{count} value{'s' if count > 1 else ''}"
    head = f"{kind.capitalize()} chart of {_by(values, by)}"
    return f"{head}: {counted} from {lowest} to {highest}."


def axis_title(column: str) -> str:
    """Returns the title of an axis: `sum of amount` for the column `sum_amount`."""
    return _chinese(column) if _is_chinese([], column) else _english(column)


def _is_chinese(values: Sequence[str], by: str) -> bool:
    return any(map(HAN.search, (*values, by)))


def _by(values: Sequence[str], by: str) -> str:
    return f"{', '.join(map(_english, values))} by {_spaced(by)}"


def _english(column: str) -> str:
    made = _MADE.fullmatch(column)
    if made is None:
        return _spaced(column)
    how = made[1].lower()
    return _ENGLISH.get(how, f"{how} of {{name}}").format(name=_spaced(made[2]))


def _chinese(column: str) -> str:
    made = _MADE.fullmatch(column)
    return _CHINESE[made[1].lower()].format(name=made[2]) if made else column


def _spaced(column: str) -> str:
    return column.replace("_", " ").strip()
