"""Top rows and totals per group, for people who do not write SQL."""

from __future__ import annotations

from typing import Any, Final

from plansmith.errors import ToolFailed
from plansmith.plan.sentence import Sentence
from plansmith_desk.sql.rows import Data
from plansmith_desk.tables.catalogue import column_of, meant_columns, no_column
from plansmith_desk.tables.database import quoted
from plansmith_desk.tables.query import in_several_cases

_NUMBERS: Final = ("integer", "number", "boolean", "null")
_DATES: Final = ("date", "datetime")
# Parts of a date by their place in its text, so that no zone is converted.
_MONTH: Final = "substr({0}, 1, 7)"
_YEAR: Final = "substr({0}, 1, 4)"
_QUARTER: Final = "substr({0}, 1, 4) || '-Q' || ((substr({0}, 6, 2) + 2) / 3)"
_DAY: Final = "substr({0}, 1, 10)"
_WEEKDAY: Final = (
    "CASE strftime('%w', substr({0}, 1, 10)) WHEN '1' THEN 'Monday' WHEN '2' THEN 'Tuesday' "
    "WHEN '3' THEN 'Wednesday' WHEN '4' THEN 'Thursday' WHEN '5' THEN 'Friday' "
    "WHEN '6' THEN 'Saturday' WHEN '0' THEN 'Sunday' END"
)
# Monday first; every other part of time sorts by its text.
_ORDERS: Final = {_WEEKDAY: "(strftime('%w', substr({0}, 1, 10)) + 6) % 7"}
_PARTS: Final = {
    **dict.fromkeys(("month", "months", "月", "月份", "每月"), _MONTH),
    **dict.fromkeys(("year", "years", "年", "年份", "每年"), _YEAR),
    **dict.fromkeys(("quarter", "quarters", "季度"), _QUARTER),
    **dict.fromkeys(("day", "days", "date", "日", "天", "日期", "每天"), _DAY),
    **dict.fromkeys(("weekday", "weekdays", "星期", "周几"), _WEEKDAY),
}


def top_rows(data: Data, column: str, count: int, *, lowest: bool) -> Data:
    """Returns the rows with the greatest or lowest values; notes missing values and ties."""
    place = data.names.index(column)
    there = [row for row in data.rows if row[place] is not None]
    missing = len(data.rows) - len(there)
    notes = [f"left out: {_rows(missing)} without {column}"] if missing else []
    if data.columns[place][1] == "text":
        notes.append(f"{column} holds texts: they are in the order of the alphabet")
    there.sort(key=lambda row: _key(row[place]), reverse=not lowest)
    if len(there) > count and there[count][place] == there[count - 1][place]:
        value = there[count][place]
        same = sum(row[place] == value for row in there[count:])
        notes.append(f"left out: {_rows(same)} with the same {column} as the last one, {value}")
    return Data(data.columns, there[:count], [*notes, *data.notes])


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count:,} rows"


def _key(value: Any) -> tuple[bool, Any]:
    return (True, value.casefold()) if isinstance(value, str) else (False, value)


def grouped(data: Data, by: str, value: str | None, how: str | None) -> str:
    """Returns the query of totals per group over the table called rows."""
    groups, part = _groups(data, by)
    how = how or ("sum" if value else "count")
    if value is None and how != "count":
        numbers = ", ".join(name for name, kind in data.columns if kind in _NUMBERS)
        raise ToolFailed(
            Sentence("{how} of which column?", how=how),
            hint=Sentence("give value: one of {names}", names=numbers or Sentence("none")),
        )
    column = column_of(value, data) if value else ""
    if column and how in ("sum", "average"):
        _check_numbers(data, column)
    made = f"{how.replace('average', 'avg')}({quoted(column) if column else '*'})"
    title = quoted(f"{how}_{column}" if column else "count")
    chosen = ", ".join(f"{each} AS {quoted(name)}" for name, each in groups)
    places = ", ".join(str(place + 1) for place in range(len(groups)))
    order = _ORDERS.get(part, "1").format(quoted(_dates(data)[0])) if part else f"{made} DESC"
    return (
        f"SELECT {chosen}, {made} AS {title} FROM rows "  # noqa: S608
        f"GROUP BY {places} ORDER BY {order}, {places}"
    )


def _groups(data: Data, by: str) -> tuple[list[tuple[str, str]], str]:
    """Returns names and expressions of the groups, and the part of time if they are such."""
    if len(meant_columns(by, [data])) == 1:
        column = column_of(by, data)
        if in_several_cases(data, data.names.index(column)):
            data.notes.append(f"some groups of {column} differ in letter case alone")
        return [(column, quoted(column))], ""
    part = _PARTS.get(by.strip().casefold(), "")
    dates = _dates(data)
    if part and len(dates) == 1:
        return [(by.strip(), part.format(quoted(dates[0])))], part
    several = [each.strip() for each in by.replace("，", ",").split(",") if each.strip()]
    if len(several) > 1:
        names = [column_of(each, data) for each in several]
        return [(name, quoted(name)) for name in names], ""
    raise no_column(by, {data.source or "the table": data})


def _dates(data: Data) -> list[str]:
    return [name for name, kind in data.columns if kind in _DATES]


def _check_numbers(data: Data, column: str) -> None:
    kind = dict(data.columns)[column]
    if kind in _NUMBERS:
        return
    numbers = [name for name, each in data.columns if each in _NUMBERS]
    hint = (
        Sentence("columns of numbers: {names}", names=numbers)
        if numbers
        else Sentence("count the rows instead")
    )
    raise ToolFailed(
        Sentence("{column} holds {kind}, not numbers", column=column, kind=kind), hint=hint
    )
