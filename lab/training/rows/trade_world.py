"""Folders of somebody who sells, makes or lends things, and the parts of queries about them."""

from __future__ import annotations

from random import Random
from typing import Any, Final, NamedTuple

from lab.training.rows.domains import Part
from lab.training.rows.periods import MONTHS
from lab.training.rows.trade_words import DOMAINS, FILES, Domain

# Places and makers that mean the same; what is not here has only words of one meaning.
_SAME: Final = {
    "region": "地区", "area": "区域", "shop": "门店", "store": "门店", "branch": "分店",
    "city": "城市", "channel": "渠道", "market": "市场", "brand": "品牌", "maker": "厂家",
    "vendor": "供应商", "supplier": "供应商", "source": "供货方", "地区": "region",
    "区域": "area", "门店": "shop", "分店": "branch", "城市": "city", "渠道": "channel",
    "供应商": "supplier", "厂家": "maker", "品牌": "brand", "供货方": "supplier", "厂商": "maker",
}  # fmt: skip
_KEYWORDS = frozenset({"group", "when", "left", "order"})


class World(NamedTuple):
    """A folder with a table of dealings, one of things, and one of returns."""

    rng: Random
    domain: Domain
    zh: bool
    """Whether the request is in Chinese."""
    files_zh: bool
    deals: str
    things: str
    returns: str
    col: dict[str, str]
    names: list[str]
    places: list[str]
    groups: list[str]
    reasons: list[str]
    listed: bool
    priced: bool
    lines: list[str]


def path_of(rng: Random, stem: str, database: str) -> str:
    """Returns where a table is kept."""
    if database:
        return f"{database}/{stem}"
    return f"{rng.choice(('', '', 'data/', 'exports/', '数据/'))}{stem}.{rng.choice(('csv', 'csv', 'csv', 'json', 'tsv'))}"


def stem_of(rng: Random, words: list[str]) -> str:
    """Returns a name of a table."""
    word = rng.choice(words)
    return rng.choice(
        (word, word, word, f"{word}_{rng.randrange(2022, 2028)}", f"{rng.choice(FILES)}_{word}")
    )


def sql_name(path: str) -> str:
    """Returns the name of a table in a query."""
    last = path.rpartition("/")[2]
    stem = last.rpartition(".")[0] or last
    return stem if stem.isidentifier() else f'"{path}"'


def values_of(rng: Random, values: list[str], *, whole: bool) -> str:
    """Returns values as a line about a folder tells them."""
    return "/".join(values) if whole else ", ".join(rng.sample(values, 2))


def day_of(rng: Random) -> str:
    """Returns some day."""
    return f"{rng.randrange(2024, 2027)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"


def world(rng: Random, part: Part = "train") -> World:
    """Makes a folder at random; one kind of dealing is only validated on."""
    domain = rng.choice(DOMAINS[:-1]) if part == "train" else DOMAINS[-1]
    zh = rng.random() < 0.55
    files_zh = zh if rng.random() < 0.65 else not zh
    lang = 1 if files_zh else 0
    col = {key: rng.choice(forms[lang]) for key, forms in domain.columns.items()}
    style = rng.random()
    if not files_zh and style < 0.25:
        col = {key: each.title().replace("_", " ") for key, each in col.items()}
    elif not files_zh and style < 0.35:
        col = {key: each.upper() for key, each in col.items()}
    database = (
        rng.choice(("", "", "shop.db", "data.sqlite", "库存.db")) if rng.random() < 0.4 else ""
    )
    deals = path_of(rng, stem_of(rng, domain.deals[lang]), database)
    things = path_of(rng, stem_of(rng, domain.things[lang]), database)
    returns = path_of(rng, stem_of(rng, domain.returns[lang]), database)
    names = rng.sample(domain.names[lang], min(len(domain.names[lang]), rng.randrange(4, 9)))
    places = rng.sample(domain.places[lang], rng.randrange(2, 5))
    groups = rng.sample(domain.groups[lang], rng.randrange(2, 5))
    reasons = rng.sample(domain.reasons[lang], 3)
    listed = len(names) <= 6
    priced = rng.random() < 0.7
    price = col["price"] if priced else col["amount"]

    def number(most: int) -> str:
        return f"{rng.randrange(1, most)}"

    parts = [
        f"{col['id']} ({rng.randrange(100, 9000)})",
        f"{col['date']} ({day_of(rng)})",
        f"{col['place']} ({values_of(rng, places, whole=True)})",
        f"{col['name']} ({values_of(rng, names, whole=listed)})",
        f"{col['count']} ({number(12)})",
        f"{price} ({rng.randrange(3, 400)})",
    ]
    first, rest = parts[:1], parts[1:]
    if rng.random() < 0.3:
        rng.shuffle(rest)
    lines = [f"{deals}: {', '.join([*first, *rest])}"]
    lines.append(
        f"{things}: {col['name']} ({values_of(rng, names, whole=listed)}), "
        f"{col['group']} ({values_of(rng, groups, whole=True)}), {col['stock']} ({number(200)}), "
        f"{col['supplier']} ({values_of(rng, domain.suppliers[lang], whole=False)})"
    )
    if rng.random() < 0.6:
        lines.append(
            f"{returns}: {col['id']} ({rng.randrange(100, 9000)}), {col['back']} ({day_of(rng)}), "
            f"{col['reason']} ({values_of(rng, reasons, whole=True)})"
        )
    else:
        returns = ""
    others = [
        "notes/meeting.md: Team meeting",
        "README.md: How this folder is kept",
        "targets.json",
        "img/logo.png",
        "letters/: 12 files",
        "说明.md: 使用说明",
        "rules.pdf: 3 pages: Terms of delivery",
        "合同/供货合同.txt: 供货合同",
        "app.log",
        "价目表.pdf: 2 pages: 价目表",
    ]
    lines += rng.sample(others, rng.randrange(0, 5))
    rng.shuffle(lines)
    return World(
        rng,
        domain,
        zh,
        files_zh,
        deals,
        things,
        returns,
        col,
        names,
        places,
        groups,
        reasons,
        listed,
        priced,
        lines,
    )


def label_of(made: World, key: str) -> str:
    """Returns what the request calls a column: its name, or a word of the other language."""
    name = made.col[key]
    if made.zh != made.files_zh:
        others = made.domain.columns[key][1 if made.zh else 0]
        name = _SAME.get(name.lower()) or made.rng.choice(others)
    return name if made.zh else name.lower().replace("_", " ")


def grouped(made: World, by: str, what: str) -> dict[str, Any]:
    """Returns the sums of each group: without SQL where they are sums of one column."""
    column = next((made.col[key] for key in ("count", "amount") if what == _sum(made.col[key])), "")
    if column:
        args = {"table": made.deals, "by": made.col.get(by, by), "value": column, "how": "sum"}
        return {"tool": "tables.group", "args": args}
    span = {"month": 7, "year": 4}.get(by)
    head = group = quoted(made.col[by]) if not span else by
    if span:
        head = f"substr({quoted(made.col['date'])}, 1, {span}) AS {by}"
    return sql(f"SELECT {head}, {what} AS total FROM {sql_name(made.deals)} GROUP BY {group}")


def _sum(column: str) -> str:
    return f"SUM({quoted(column)})"


def quoted(name: str) -> str:
    """Returns a column as a query names it."""
    return name if name.isidentifier() and name.lower() not in _KEYWORDS else f'"{name}"'


class Asked(NamedTuple):
    """A request, and the calls that are right."""

    kind: str
    request: str
    calls: list[dict[str, Any]]


def sql(query: str) -> dict[str, Any]:
    """Returns the call of a query."""
    return {"tool": "tables.sql", "args": {"query": query}}


def name_is(made: World, name: str, alias: str = "") -> str:
    """Returns the condition that a thing is meant."""
    column = f"{alias}{quoted(made.col['name'])}"
    if made.listed:
        return f"{column} = '{name}'"
    return f"{column} LIKE '%{name if made.files_zh else name.lower()}%'"


def plural(name: str) -> str:
    """Returns the plural of a thing."""
    low = name.lower()
    if not name.isascii():
        return name
    if low.endswith(("s", "x", "ch", "sh")):
        return f"{low}es"
    return f"{low[:-1]}ies" if low.endswith("y") and low[-2] not in "aeiou" else f"{low}s"


def when(made: World, alias: str = "") -> tuple[str, str, str]:
    """Returns a span of time: in English, in Chinese, as a condition."""
    date = f"{alias}{quoted(made.col['date'])}"
    year = made.rng.randrange(2024, 2027)
    month = made.rng.randrange(1, 13)
    return made.rng.choice(
        (
            ("", "", ""),
            ("", "", ""),
            (f" in {year}", f"{year}年", f"{date} LIKE '{year}%'"),
            (
                f" in {MONTHS[month - 1]} {year}",
                f"{year}年{month}月",
                f"{date} LIKE '{year}-{month:02}%'",
            ),
        )
    )


def all_of(*conditions: str) -> str:
    """Joins conditions."""
    kept = [each for each in conditions if each]
    return f" WHERE {' AND '.join(kept)}" if kept else ""


def worth_of(made: World, alias: str = "") -> str:
    """Returns the sum of what was paid."""
    if not made.priced:
        return f"SUM({alias}{quoted(made.col['amount'])})"
    return f"SUM({alias}{quoted(made.col['count'])} * {alias}{quoted(made.col['price'])})"
