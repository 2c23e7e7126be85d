"""Questions about dealings by month, week or year, and charts of what they were worth."""

from __future__ import annotations

from typing import Any, Final

from lab.training.rows.trade_world import (
    Asked,
    World,
    all_of,
    grouped,
    label_of,
    quoted,
    sql,
    sql_name,
    worth_of,
)

# English, Chinese, and the part of a date; only a week is no part that a group knows by its name.
_SPANS: Final = (
    ("month", "月", "substr({0}, 1, 7)"),
    ("month", "月", "substr({0}, 1, 7)"),
    ("month", "月", "substr({0}, 1, 7)"),
    ("year", "年", "substr({0}, 1, 4)"),
    ("week", "周", "strftime('%Y-W%W', {0})"),
)
_CHARTS: Final = (
    ("bar", "bar chart", "柱状图"),
    ("pie", "pie chart", "饼图"),
    ("line", "line chart", "折线图"),
    (None, "chart", "图"),
)


def _measure(made: World) -> tuple[str, str]:
    """Returns what is summed, and its word."""
    rng, d = made.rng, made.domain
    if rng.random() < 0.5:
        return worth_of(made), rng.choice(d.worth[1 if made.zh else 0])
    word = d.sold[1] if made.zh else f"{d.sold[0]} {d.past}"
    return f"SUM({quoted(made.col['count'])})", word


def _place(made: World) -> tuple[str, str, str]:
    """Returns a condition on a place or none: SQL, English, Chinese."""
    if made.rng.random() < 0.55:
        return "", "", ""
    place = made.rng.choice(made.places)
    return f"{quoted(made.col['place'])} = '{place}'", f" in {place}", place


def by_span(made: World) -> Asked:
    """Sums for each month, week or year."""
    rng = made.rng
    en, zh, part = rng.choice(_SPANS)
    what, word = _measure(made)
    where, at_en, at_zh = _place(made)
    date = quoted(made.col["date"])
    span = part.format(date)
    query = (
        f"SELECT {span} AS {en}, {what} AS total FROM {sql_name(made.deals)}{all_of(where)} "
        f"GROUP BY {en}"
    )
    plain = not where and en != "week"
    call = grouped(made, en, what) if plain else sql(query)
    adverb = {"month": "monthly", "year": "yearly", "week": "weekly"}[en]
    request = (
        rng.choice(
            (
                f"每{zh}{at_zh}的{word}",
                f"{at_zh}{word}按{zh}统计",
                f"按{zh}汇总{at_zh}{word}",
                f"{at_zh}各{zh}{'份' if zh == '月' else ''}的{word}是多少？",
                f"每个{'月' if zh == '月' else zh}{at_zh}{word}多少",
            )
        )
        if made.zh
        else rng.choice(
            (
                f"{word} per {en}{at_en}",
                f"{adverb} {word}{at_en}",
                f"How much {word}{at_en} each {en}?",
                f"Show the {word}{at_en} by {en}",
                f"{word}{at_en} for every {en}",
            )
        )
    )
    return Asked("sql months", request, [call])


def best_span(made: World) -> Asked:
    """The month, week or year with most or least."""
    rng = made.rng
    en, zh, part = rng.choice(_SPANS)
    what, word = _measure(made)
    where, at_en, at_zh = _place(made)
    low = rng.random() < 0.3
    span = part.format(quoted(made.col["date"]))
    query = (
        f"SELECT {span} AS {en}, {what} AS total FROM {sql_name(made.deals)}{all_of(where)} "
        f"GROUP BY {en} ORDER BY total{'' if low else ' DESC'} LIMIT 1"
    )
    side = ("最低" if low else "最高") if made.zh else ("lowest" if low else "highest")
    which = {"月": "哪个月", "年": "哪一年", "周": "哪一周"}[zh]
    request = (
        rng.choice((f"{which}{at_zh}{word}{side}？", f"{at_zh}{word}{side}的是{which}"))
        if made.zh
        else rng.choice(
            (f"Which {en} had the {side} {word}{at_en}?", f"{en} with the {side} {word}{at_en}")
        )
    )
    return Asked("sql months", request, [sql(query)])


def drawn(made: World) -> Asked:
    """A chart of what was sold or what it was worth, for each place, thing or month."""
    rng = made.rng
    what, word = _measure(made)
    kind, chart_en, chart_zh = rng.choice(_CHARTS)
    key = rng.choice(("place", "name", "month"))
    month = "月" if made.zh else "month"
    label = month if key == "month" else label_of(made, key)
    ending = rng.choice(("svg", "png"))
    name = rng.choice(("chart", "overview", "plot", "图", "统计图", "revenue"))
    path = f"{name}.{ending}" if rng.random() < 0.35 else None
    if made.zh:
        saved = rng.choice((f"，保存为{path}", f"，存成 {path}")) if path else ""
        request = rng.choice(
            (
                f"画一张各{label}{word}的{chart_zh}{saved}",
                f"用{chart_zh}显示每个{label}的{word}{saved}",
                f"把{word}按{label}画成{chart_zh}{saved}",
            )
        )
    else:
        saved = rng.choice((f" and save it as {path}", f" in {path}")) if path else ""
        request = rng.choice(
            (
                f"Draw a {chart_en} of {word} by {label}{saved}",
                f"{chart_en} of the {word} per {label}{saved}".capitalize()
                if not path
                else f"Make a {chart_en} with the {word} per {label}{saved}",
                f"Show {word} per {label} as a {chart_en}{saved}",
            )
        )
    args: dict[str, Any] = {"kind": kind} if kind else {}
    args |= {"rows": "$1"} | ({"path": path} if path else {})
    return Asked(
        "chart", request, [grouped(made, key, what), {"tool": "charts.draw", "args": args}]
    )
