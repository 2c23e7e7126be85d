"""Varies rows: other tools at hand, and answers that have to be changed or mended."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from lab.training.rows.builtin import DEEDS, WORDS, builtin_tools
from lab.training.rows.domains import Part
from lab.training.rows.foreign import foreign_ask, foreign_behind, foreign_tools, some_foreign
from lab.training.rows.row import Call, Row, Spec, call, compact
from lab.training.rows.tables import identifier
from lab.training.rows.voice import Voice

_SUBSET: Final = 0.10
_FOREIGN: Final = 0.10
_REMARK: Final = 0.065
_KINDS: Final = (
    ("pie", "pie chart", "饼图"),
    ("line", "line chart", "折线图"),
    ("bar", "bar chart", "柱状图"),
    ("donut", "donut chart", "环形图"),
)
_FUNCTIONS: Final = {"sum": "SUM", "average": "AVG", "max": "MAX", "min": "MIN"}
_ALIAS: Final = {"sum": "total", "average": "average", "max": "maximum", "min": "minimum"}
_WRONG: Final = (
    "value",
    "price_total",
    "name_1",
    "revenue",
    "category_name",
    "id2",
    "qty",
    "数值",
    "名称1",
)


def varied(row: Row, rng: Random, part: Part) -> Row:
    """Returns a row as it is, with other tools, or with a remark."""
    roll = rng.random()
    if roll < _SUBSET:
        return _with_less(row, rng)
    if roll < _SUBSET + _FOREIGN:
        return _with_foreign(row, rng, part)
    if roll < _SUBSET + _FOREIGN + _REMARK and row.calls:
        return _with_remark(row, rng) or row
    return row


# -- tools


def _used(row: Row) -> set[str]:
    return {str(each["tool"]) for each in row.calls}


def _with_less(row: Row, rng: Random) -> Row:
    """Leaves out tools: some that are not needed, or one that is."""
    names, used = list(builtin_tools()), _used(row)
    if rng.random() < 0.3:
        made = _otherwise(row) or _impossible(row)
        if made is not None:
            return made
    kept = rng.randint(4, len(names) - 2)
    chosen = {*rng.sample(names, kept), *used, *(("files.write",) if WORDS in used else ())}
    return replace(row, tools=tuple(name for name in names if name in chosen))


def _without(gone: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in builtin_tools() if name not in gone)


def _otherwise(row: Row) -> Row | None:
    """Returns the row without its first tool, answered by another one."""
    if len(row.calls) != 1:
        return None
    args, sources = row.calls[0]["args"], dict(row.sources)
    source = sources.get(str(args.get("table")))
    match row.calls[0]["tool"]:
        case "tables.top" if source:
            order = f"ORDER BY {identifier(args['column'])}{'' if args.get('lowest') else ' DESC'}"
            query = f"SELECT * FROM {source} {order} LIMIT {args['count']}"
        case "tables.group" if source and args["by"] not in ("month", "year", "weekday", "quarter"):
            by, value = identifier(args["by"]), args.get("value")
            made = "COUNT(*) AS count"
            if value:
                made = f"{_FUNCTIONS[args['how']]}({identifier(value)}) AS {_ALIAS[args['how']]}"
            query = f"SELECT {by}, {made} FROM {source} GROUP BY {by}"
        case "files.lookup" if "." in str(args.get("path", "")).rpartition("/")[2]:
            path = args["path"]
            gone = ("files.lookup", "files.read_all")
            return replace(row, calls=(call("files.read", path=path),), tools=_without(gone))
        case "tables.sql" if str(row.columns[:1] and row.columns[0][0]).endswith((".csv", ".json")):
            others = [name for name in builtin_tools() if not name.startswith("tables.")]
            return replace(
                row,
                calls=(call("files.read", path=row.columns[0][0]),),
                tools=tuple(others),
                kind="read",
            )
        case _:
            return None
    tools = _without(("tables.top", "tables.group"))
    return replace(row, calls=(call("tables.sql", query=query),), tools=tools, kind="sql otherwise")


def _impossible(row: Row) -> Row | None:
    """Returns the row without anything that does what it asks."""
    used = [str(each["tool"]) for each in row.calls]
    fitting = [deed for deed in DEEDS if used and used[0] in deed[2]]
    if len(used) > 1:
        fitting = [deed for deed in DEEDS if used[-1] in deed[2]]
    if not fitting:
        return None
    en, zh, gone = fitting[0]
    reply = f"这里没有能{zh}的工具。" if row.lang == "zh" else f"None of the tools here can {en}."
    return replace(row, calls=(), reply=reply, tools=_without(gone), kind="impossible without")


def _with_foreign(row: Row, rng: Random, part: Part) -> Row:
    """Adds foreign tools; half of the rows need one of them."""
    voice = Voice(rng, row.lang, part)
    names, used = list(builtin_tools()), _used(row)
    wanted = rng.choice(foreign_tools())
    made: tuple[str, Call] | None = None
    calls: tuple[Call, ...] = ()
    request, kind, reply = row.request, row.kind, row.reply
    if rng.random() < 0.35 and len(row.calls) == 1 and row.kind not in ("missing", "impossible"):
        made = foreign_behind(wanted, voice, row.request, 1)
        calls = row.calls
    elif rng.random() < 0.5 or row.kind == "impossible":
        made = foreign_ask(wanted, voice)
        used = used if made is None else set()
    if made is not None:
        request = voice.slips(made[0])
        calls, kind, reply = (*calls, made[1]), "foreign", ""
    elif row.kind == "impossible":
        return row
    else:
        calls = row.calls
    specs: list[Spec] = some_foreign(rng, wanted.name)
    specs += [wanted.spec] if made is not None else []
    rng.shuffle(specs)
    kept = {*rng.sample(names, rng.randint(3, len(names))), *used}
    kept |= {"files.write"} if WORDS in used else set()
    tools: tuple[str | Spec, ...] = (*(name for name in names if name in kept), *specs)
    return replace(row, request=request, calls=calls, kind=kind, reply=reply, tools=tools)


# -- remarks


def _with_remark(row: Row, rng: Random) -> Row | None:
    """Returns the row as a second try: a change that a person wants, or a mistake to mend."""
    if rng.random() < 0.55:
        return _changed(row, rng)
    return _mended(row, rng)


def _changed(row: Row, rng: Random) -> Row | None:
    ways: list[Callable[[Row, Random], tuple[str, tuple[Call, ...]] | None]] = [
        *(_other_chart, _other_path, _other_count, _also_chart, _also_save, _other_way_round),
    ]
    rng.shuffle(ways)
    for way in ways:
        found = way(row, rng)
        if found is not None:
            before = f"Your answer before: {compact(row.answer)}"
            remark = f"{before}\nChange it: {found[0]}"
            return replace(row, calls=found[1], remark=remark, kind="changed")
    return None


def _put(calls: Sequence[Call], place: int, **args: Any) -> tuple[Call, ...]:
    """Returns the calls with other arguments of one of them; None takes one out."""
    merged = {**calls[place]["args"], **args}
    kept = {name: value for name, value in merged.items() if value is not None}
    return (*calls[:place], {"tool": calls[place]["tool"], "args": kept}, *calls[place + 1 :])


def _place(row: Row, *tools: str) -> int | None:
    return next((n for n, each in enumerate(row.calls) if each["tool"] in tools), None)


def _said(row: Row, rng: Random, en: Sequence[str], zh: Sequence[str]) -> str:
    return rng.choice(zh if row.lang == "zh" else en)


def _other_chart(row: Row, rng: Random) -> tuple[str, tuple[Call, ...]] | None:
    place = _place(row, "charts.draw")
    if place is None:
        return None
    kind, en, zh = rng.choice(_KINDS)
    if row.calls[place]["args"].get("kind") == kind:
        return None
    told = _said(
        row,
        rng,
        (f"make it a {en}", f"as a {en} instead", f"I want a {en}"),
        (f"改成{zh}", f"换成{zh}", f"我要{zh}"),
    )
    return told, _put(row.calls, place, kind=kind)


def _other_path(row: Row, rng: Random) -> tuple[str, tuple[Call, ...]] | None:
    place = _place(row, "tables.write", "files.write", "tables.export", "charts.draw")
    path = str(row.calls[place]["args"].get("path", "")) if place is not None else ""
    if place is None or not path:
        return None
    ending = path.rpartition(".")[2]
    new = f"{rng.choice(('final', 'new', 'result2', '新结果', 'out', 'v2'))}.{ending}"
    told = _said(
        row,
        rng,
        (f"save it as {new} instead", f"call the file {new}", f"use the name {new}"),
        (f"改存为{new}", f"文件名用{new}", f"保存到{new}"),
    )
    return told, _put(row.calls, place, path=new)


def _other_count(row: Row, rng: Random) -> tuple[str, tuple[Call, ...]] | None:
    place = _place(row, "tables.top")
    if place is None:
        return None
    count = rng.choice((3, 5, 7, 10, 15, 20))
    if row.calls[place]["args"]["count"] == count:
        return None
    told = _said(
        row,
        rng,
        (f"show {count} of them", f"only {count} please", f"make it {count}"),
        (f"显示{count}个", f"只要{count}个", f"改成{count}个"),
    )
    return told, _put(row.calls, place, count=count)


def _other_way_round(row: Row, rng: Random) -> tuple[str, tuple[Call, ...]] | None:
    place = _place(row, "tables.top")
    if place is None:
        return None
    lowest = row.calls[place]["args"].get("lowest")
    en = (
        ("the highest ones instead", "I mean the highest")
        if lowest
        else ("the lowest ones instead", "I mean the lowest")
    )
    zh = ("改成最高的", "我要最高的") if lowest else ("改成最低的", "我要最低的")
    return _said(row, rng, en, zh), _put(row.calls, place, lowest=None if lowest else True)


def _gives_rows(row: Row) -> bool:
    rows = ("tables.group", "tables.sql", "tables.top")
    return len(row.calls) == 1 and row.calls[0]["tool"] in rows


def _also_chart(row: Row, rng: Random) -> tuple[str, tuple[Call, ...]] | None:
    if not _gives_rows(row) or row.calls[0]["tool"] != "tables.group":
        return None
    kind, en, zh = rng.choice(_KINDS)
    told = _said(
        row,
        rng,
        (f"also draw a {en}", f"show it as a {en} too", f"add a {en}"),
        (f"再画一个{zh}", f"同时画{zh}", f"加一张{zh}"),
    )
    return told, (*row.calls, call("charts.draw", kind=kind, rows="$1"))


def _also_save(row: Row, rng: Random) -> tuple[str, tuple[Call, ...]] | None:
    if not _gives_rows(row):
        return None
    name, ending = rng.choice(("result", "out", "list", "结果")), rng.choice(("csv", "json", "md"))
    path = f"{name}.{ending}"
    told = _said(
        row,
        rng,
        (f"also save it as {path}", f"and write it to {path}", f"save the rows in {path} too"),
        (f"再保存为{path}", f"并写入{path}", f"结果也存到{path}"),
    )
    return told, (*row.calls, call("tables.write", path=path, rows="$1"))


def _mended(row: Row, rng: Random) -> Row | None:
    """Returns a second try after a mistake: a column or a table that is not there."""
    place = _place(row, "tables.sql", "tables.group", "tables.top")
    if place is None or not row.columns:
        return None
    args = row.calls[place]["args"]
    text = str(args.get("query") or args.get("column") or args.get("by"))
    path, names = rng.choice(row.columns)
    inside = [name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
    if not inside:
        return None
    good, wrong = rng.choice(inside), rng.choice(_WRONG)
    bad: dict[str, Any] = {
        key: re.sub(rf"(?<!\w){re.escape(good)}(?!\w)", wrong, value)
        if isinstance(value, str) and key != "table"
        else value
        for key, value in args.items()
    }
    calls = (
        *row.calls[:place],
        {"tool": row.calls[place]["tool"], "args": bad},
        *row.calls[place + 1 :],
    )
    near = f"did you mean {good}? " if rng.random() < 0.3 else ""
    told = f"there is no column {wrong}: {near}{path} has {', '.join(names)}"
    lines = [f"Your answer before: {compact({'calls': list(calls)})}"] if rng.random() < 0.6 else []
    lines.append(f"Your answer before had problems: {told}")
    return replace(row, remark="\n".join(lines), kind="mended")
