"""Rows over data: rows of a table, JSON files, logs with several errors, results of other tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from lab.training.rows.answers_documents import Kind
from lab.training.rows.answers_rows import Draft, languages
from lab.training.rows.answers_statements import person
from lab.training.rows.answers_words import CITIES, COMPANIES, Language, Pair, pairs

_GROUPS: Final = pairs("""
region | 地区
product | 产品
customer | 客户
city | 城市
supplier | 供应商
branch | 门店
""")
_MEASURES: Final = pairs("""
sales | 销售额
orders | 订单数
units | 数量
profit | 利润
visitors | 访客数
costs | 成本
""")
_SETTINGS: Final = pairs("""
port | 端口
timeout | 超时时间
host | 主机
language | 语言
user | 用户
retries | 重试次数
log level | 日志级别
cache size | 缓存大小
""")
_ERRORS: Final = (
    "disk full on /data",
    "connection to mail server refused",
    "timeout in payment module",
    "cannot read config file",
    "user session expired",
    "backup failed: no space left",
    "invalid token in request",
    "database is locked",
    "printer does not answer",
    "import stopped at row {n}",
)


def table(rng: Random, _: Sequence[Kind]) -> Draft:
    """One row of several is asked for, or the greatest."""
    language, _other = languages(rng)
    group, measure = rng.choice(_GROUPS), rng.choice(_MEASURES)
    names = _names(rng, language)
    values = rng.sample(range(10, 99_999), len(names))
    key, value = group.says(language), measure.says(language)
    rows = [{key: name, value: number} for name, number in zip(names, values, strict=True)]
    at = rng.randrange(len(rows))
    one = Pair(f"What are the {measure.en} of {names[at]}?", f"{names[at]}的{measure.zh}是多少？")
    answer = Pair(
        f"The {measure.en} of {names[at]} are {values[at]}.",
        f"{names[at]}的{measure.zh}是{values[at]}。",
    )
    if rng.random() < 0.6:
        most = rng.random() < 0.6
        at = values.index(max(values) if most else min(values))
        order = ("most", "最高") if most else ("least", "最低")
        one = Pair(
            f"Which {group.en} has the {order[0]} {measure.en}?",
            f"哪个{group.zh}的{measure.zh}{order[1]}？",
        )
        answer = Pair(
            f"{names[at]} has the {order[0]} {measure.en}: {values[at]}.",
            f"{names[at]}的{measure.zh}{order[1]}，为{values[at]}。",
        )
    result: Any = rows
    if rng.random() < 0.5:
        result = {"path": f"{measure.en}.csv", "text": _csv(rows)}
    return _draft(language, one, result, answer)


def _names(rng: Random, language: Language) -> list[str]:
    count = rng.randrange(2, 9)
    if rng.random() < 0.5:
        return [each.says(language) for each in rng.sample(CITIES, count)]
    return rng.sample(COMPANIES, count)


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    return "\n".join(lines)


def _draft(language: Language, ask: Pair, result: Any, answer: Pair) -> Draft:
    return Draft(
        kind="data",
        lang=language,
        request=ask.says(language),
        given=[json.dumps(result, ensure_ascii=False, sort_keys=True)],
        answer=answer.says(language),
        needs=[],
    )


def settings(rng: Random, _: Sequence[Kind]) -> Draft:
    """One field of a JSON file, or of the result of a tool."""
    language, _other = languages(rng)
    chosen = rng.sample(_SETTINGS, rng.randrange(2, 7))
    held: dict[str, Any] = {}
    for each in chosen:
        held[each.en.replace(" ", "_")] = _setting(rng, each.en)
    one = rng.choice(chosen)
    value = held[one.en.replace(" ", "_")]
    name = rng.choice(("config.json", "settings.json", "data/app.json", "conf/server.json"))
    nested = {rng.choice(("server", "app", "main")): held} if rng.random() < 0.4 else held
    result: Any = {"path": name, "text": json.dumps(nested, indent=rng.choice((None, 2)))}
    if rng.random() < 0.3:
        result = held
    ask = Pair(
        rng.choice(
            (f"Which {one.en} is set in {name}?", f"What is the {one.en}?", f"{one.en} in {name}?")
        ),
        rng.choice((f"{name}里的{one.zh}是什么？", f"{one.zh}设置的是多少？", f"{one.zh}是？")),
    )
    answer = Pair(f"The {one.en} is {value}.", f"{one.zh}是{value}。")
    return _draft(language, ask, result, answer)


def _setting(rng: Random, name: str) -> str | int:
    texts: dict[str, tuple[str, ...]] = {
        "host": ("localhost", "db1.example", "10.0.0.7", "files.example"),
        "language": ("en", "zh", "de", "fr"),
        "user": (person(rng, "en").split()[0].lower(), "admin", "guest"),
        "log level": ("info", "debug", "warning"),
    }
    return rng.choice(texts[name]) if name in texts else rng.randrange(2, 9000)


def log(rng: Random, _: Sequence[Kind]) -> Draft:
    """The first or last error of a log, or when something went wrong."""
    language, _other = languages(rng)
    errors = rng.sample(_ERRORS, rng.randrange(2, 5))
    errors = [each.format(n=rng.randrange(2, 900)) for each in errors]
    day = f"2026-0{rng.randrange(1, 10)}-{rng.randrange(10, 29)}"
    times = sorted(rng.sample(range(24 * 60), 3 * len(errors)))
    clocks = [f"{each // 60:02}:{each % 60:02}:{rng.randrange(60):02}" for each in times]
    lines = [f"{day} {clock} INFO ok" for clock in clocks]
    at = sorted(rng.sample(range(len(clocks)), len(errors)))
    for place, error in zip(at, errors, strict=True):
        lines[place] = f"{day} {clocks[place]} ERROR {error}"
    last = rng.random() < 0.5
    which = -1 if last else 0
    word = ("last", "最后一个") if last else ("first", "第一个")
    ask = Pair(f"What was the {word[0]} error in the log?", f"日志里{word[1]}错误是什么？")
    answer = Pair(
        f"The {word[0]} error was: {errors[which]} (at {clocks[at[which]]}).",
        f"{word[1]}错误是：{errors[which]}（{clocks[at[which]]}）。",
    )
    if rng.random() < 0.4:
        ask = Pair(f"When did this happen: {errors[which]}?", f"“{errors[which]}”是几点发生的？")
        answer = Pair(f"It happened at {clocks[at[which]]}.", f"发生在{clocks[at[which]]}。")
    path = rng.choice(("app.log", "logs/server.log", "logs/error.log"))
    return _draft(language, ask, {"path": path, "text": "\n".join(lines)}, answer)
