"""Names that only copying gets right: files, tables, columns and people of made-up folders."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from lab.training.rows.domains import ColumnKind, Domain
from lab.training.rows.row import Lang
from lab.training.rows.texts import texts

BOOK: Final = "names"
_PLAIN_FILE: Final = 0.2
_PLAIN_COLUMN: Final = 0.45
_SHORT: Final = {
    "amount": "amt", "quantity": "qty", "number": "no", "customer": "cust", "department": "dept",
    "date": "dt", "description": "descr", "category": "cat", "product": "prod", "status": "stat",
    "average": "avg", "minutes": "min", "hours": "hrs", "employee": "empl", "address": "addr",
    "total": "tot", "price": "prc", "account": "acct", "supplier": "suppl", "temperature": "temp",
}  # fmt: skip
_MONEY: Final = {
    "en": ("{}_eur", "{}_usd", "{} (EUR)", "{}_gbp", "{} in EUR", "net_{}", "{} ($)"),
    "zh": ("{}_元", "{}(元)", "{}（元）", "{}元", "含税{}", "{}_人民币", "{} (元)"),
}  # fmt: skip
_COUNTED: Final = {
    "en": ("{}_count", "n_{}", "num_{}", "{} #", "no_of_{}", "{}_n"),
    "zh": ("{}_个", "{}数", "{}(个)", "{}合计"),
}


def file_name(rng: Random, domain: Domain, lang: Lang) -> str:
    """Returns a path without its ending: the subject with a place, a year, a person or a code."""
    bases = domain.files_en if lang == "en" else domain.files_zh
    base = rng.choice(bases)
    if rng.random() < _PLAIN_FILE:
        return base
    subject = base.rpartition("/")[2]
    if rng.random() < 0.3:
        subject = domain.rows.replace(" ", "_") if lang == "en" else domain.rows_zh
    if rng.random() < 0.12:
        subject = _word(rng, lang)
    name = (_english if lang == "en" else _chinese)(rng, subject)
    if rng.random() < 0.15:
        return f"{_word(rng, lang)}/{name}"
    return name


def _word(rng: Random, lang: Lang) -> str:
    return rng.choice(texts(BOOK)["words", lang])


def _code(rng: Random) -> str:
    letters = "".join(rng.choice("ABCDEFGHKLMNPRSTXZ") for _ in range(rng.choice((1, 2, 3))))
    return rng.choice((f"{letters}{rng.randrange(1, 99)}", f"{letters}-{rng.randrange(10, 9999)}"))


def _time(rng: Random, lang: Lang) -> str:
    year, month = rng.randrange(2019, 2029), rng.randrange(1, 13)
    if lang == "zh":
        ways = (
            f"{year}",
            f"{year}年",
            f"{year}年{month}月",
            f"{month}月",
            f"{year}Q{month % 4 + 1}",
        )
        return rng.choice((*ways, "上半年", "下半年", f"{year}{month:02}"))
    months = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
    said = (f"{year}", f"{year}-{month:02}", f"{months[month - 1]}_{year}", f"Q{month % 4 + 1}")
    return rng.choice(
        (*said, f"FY{year % 100}", f"{months[month - 1]}{year % 100}", "H1", f"w{month:02}")
    )


def _english(rng: Random, subject: str) -> str:
    book = texts(BOOK)
    makers: Sequence[Callable[[], str]] = (
        lambda: _time(rng, "en"),
        lambda: _time(rng, "en"),
        lambda: rng.choice(book["cities", "en"]),
        lambda: _word(rng, "en"),
        lambda: _code(rng),
        lambda: rng.choice(book["first", "en"]),
    )
    parts = [subject, *(make() for make in rng.sample(makers, rng.choice((1, 1, 1, 2))))]
    if rng.random() < 0.5:
        rng.shuffle(parts)
    mark = rng.choices(("_", "-", " ", ""), (60, 16, 18, 6))[0]
    text = mark.join(each.replace(" ", mark or "_") for each in parts)
    style = rng.random()
    if style < 0.6:
        return text.lower()
    return text.upper() if style < 0.64 else text


def _chinese(rng: Random, subject: str) -> str:
    book = texts(BOOK)
    person = rng.choice(book["last", "zh"]) + rng.choice(book["first", "zh"])
    makers: Sequence[Callable[[], str]] = (
        lambda: _time(rng, "zh"),
        lambda: rng.choice(book["cities", "zh"]),
        lambda: _word(rng, "zh"),
        lambda: _word(rng, "zh") + _word(rng, "zh"),
        lambda: _code(rng),
        lambda: person,
    )
    parts = [make() for make in rng.sample(makers, rng.choice((1, 1, 1, 2)))]
    ends = ("", "", "", "表", "明细", "汇总", "台账", "登记", "清单", "数据", "记录", "一览")
    end = rng.choice(ends)
    parts.append(subject if subject.endswith(end or "?") else subject + end)
    if rng.random() < 0.3:
        rng.shuffle(parts)
    mark = rng.choices(("", "_", "-", " "), (60, 26, 9, 5))[0]
    text = mark.join(parts)
    return f"{text}（{_time(rng, 'zh')}）" if rng.random() < 0.05 else text


def column_names(rng: Random, domain: Domain, kinds: Sequence[ColumnKind], lang: Lang) -> list[str]:
    """Returns a name for each column, none twice, each one fit to say what its column is."""
    found: list[str] = []
    for kind in kinds:
        plain = kind.en if lang == "en" else kind.zh
        others = {
            word.casefold()
            for each in kinds
            if each is not kind
            for word in (each.en, each.zh, *each.words_en, *each.words_zh)
        }
        name = _column(rng, domain, kind, lang)
        taken = {each.casefold() for each in found}
        if name.casefold().replace("_", " ") in {*others, *taken} or name.casefold() in taken:
            name = plain
        found.append(name if name.casefold() not in taken else f"{plain}_2")
    return found


def _column(rng: Random, domain: Domain, kind: ColumnKind, lang: Lang) -> str:
    plain = kind.en if lang == "en" else kind.zh
    if rng.random() < _PLAIN_COLUMN:
        return plain
    words = kind.words_en if lang == "en" else kind.words_zh
    base = rng.choice((plain, *words))
    base = re.sub(r"[^\w]+", "_", base) if lang == "en" else base
    if len(base) > 18:
        base = plain
    roll = rng.random()
    if kind.kind == "money" and roll < 0.4:
        return rng.choice(_MONEY[lang]).replace("{}", base)
    if kind.kind in ("int", "int0") and kind.adds_up and roll < 0.15:
        return rng.choice(_COUNTED[lang]).replace("{}", base)
    if lang == "en" and roll > 0.8:
        return "_".join(_SHORT.get(each, each) for each in base.split("_"))
    if roll > 0.93:
        return f"{domain.rows_zh}{base}" if lang == "zh" else f"{domain.row.split()[0]}_{base}"
    return base


def people(rng: Random, lang: Lang, count: int) -> list[str]:
    """Returns so many different names of people."""
    book, found = texts(BOOK), dict[str, None]()
    firsts, lasts = book["first", lang], book["last", lang]
    while len(found) < count:
        first, last = rng.choice(firsts), rng.choice(lasts)
        found[last + first if lang == "zh" else f"{first} {last}"] = None
    return list(found)


def cities(rng: Random, lang: Lang, count: int) -> list[str]:
    """Returns so many different cities."""
    return rng.sample(texts(BOOK)["cities", lang], count)
