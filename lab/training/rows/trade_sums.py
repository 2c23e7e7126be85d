"""Questions about one table: how many were sold, what is best, what it was worth."""

from __future__ import annotations

from lab.training.rows.trade_world import (
    Asked,
    World,
    all_of,
    grouped,
    label_of,
    name_is,
    plural,
    quoted,
    sql,
    sql_name,
    when,
    worth_of,
)


def how_many(made: World) -> Asked:
    """How many were sold: the sum of the count."""
    rng, d = made.rng, made.domain
    name = rng.choice(made.names)
    en, zh, time = when(made)
    place = rng.choice(made.places) if rng.random() < 0.4 else ""
    where = all_of(
        name_is(made, name), f"{quoted(made.col['place'])} = '{place}'" if place else "", time
    )
    query = f"SELECT SUM({quoted(made.col['count'])}) AS total FROM {sql_name(made.deals)}{where}"
    at_en, at_zh = (f" in {place}", f"在{place}") if place else ("", "")
    if made.zh:
        request = rng.choice(
            (
                f"{zh}{at_zh}{d.verb[1]}了多少{name}？",
                f"{zh}{at_zh}一共{d.verb[1]}多少个{name}",
                f"{name}{zh}{at_zh}的{d.sold[1]}是多少",
                f"请问{zh}{at_zh}{name}总共{d.verb[1]}了几件？",
                f"统计{zh}{at_zh}{name}的总{d.sold[1]}",
            )
        )
    else:
        request = rng.choice(
            (
                f"how many {plural(name)} did we {d.verb[0]}{at_en}{en}",
                f"How many {plural(name)} were {d.past}{at_en}{en}?",
                f"number of {plural(name)} {d.past}{at_en}{en}",
                f"Units of {name} {d.past}{at_en}{en}?",
                f"What is the total quantity of {plural(name)} {d.past}{at_en}{en}?",
            )
        )
    return Asked("sql sold", request, [sql(query)])


def how_many_deals(made: World) -> Asked:
    """How many rows: a count."""
    rng, d = made.rng, made.domain
    place = rng.choice(made.places)
    en, zh, time = when(made)
    where = all_of(f"{quoted(made.col['place'])} = '{place}'", time)
    query = f"SELECT COUNT(*) AS count FROM {sql_name(made.deals)}{where}"
    request = (
        rng.choice((f"{zh}{place}有多少{d.deal[1]}？", f"{zh}{place}一共几条{d.deal[1]}记录"))
        if made.zh
        else rng.choice(
            (
                f"How many {d.deal[0]} came from {place}{en}?",
                f"number of {d.deal[0]} in {place}{en}",
                f"how many {d.deal[0]} do we have for {place}{en}",
            )
        )
    )
    return Asked("sql deals", request, [sql(query)])


def best(made: World) -> Asked:
    """The best things: a group, then the first."""
    rng, d = made.rng, made.domain
    n = rng.randrange(1, 6)
    by_worth = rng.random() < 0.4
    what = worth_of(made) if by_worth else f"SUM({quoted(made.col['count'])})"
    low = rng.random() < 0.2
    en, zh, time = when(made)
    name = quoted(made.col["name"])
    query = (
        f"SELECT {name}, {what} AS total FROM {sql_name(made.deals)}{all_of(time)} GROUP BY {name} "
        f"ORDER BY total{'' if low else ' DESC'} LIMIT {n}"
    )
    if made.zh:
        measure = rng.choice(d.worth[1]) if by_worth else d.sold[1]
        side = "最低" if low else "最高"
        request = rng.choice(
            (
                f"{zh}{measure}{side}的{n}种{d.thing[1]}是哪些？",
                f"{zh}哪{n if n > 1 else '个'}{'个' if n > 1 else ''}{d.thing[1]}{measure}{side}？",
                f"列出{zh}{measure}{side}的前{n}个{d.thing[1]}",
            )
        )
    else:
        measure = rng.choice(d.worth[0]) if by_worth else "units"
        things = d.thing[0] if n > 1 else d.thing[0].removesuffix("s")
        side = rng.choice(("least", "lowest")) if low else rng.choice(("most", "highest"))
        lead = f"{n} {things}" if n > 1 else things
        least = "fewest" if low else "most"
        request = rng.choice(
            (
                f"Which {lead} {d.past} the {least} units{en}?"
                if not by_worth
                else f"Which {lead} brought the {side} {measure}{en}?",
                f"{'bottom' if low else 'top'} {n} {d.thing[0]} by {measure}{en}",
                f"What {'are' if n > 1 else 'is'} our {lead} with the {side} {measure}{en}?",
            )
        )
    return Asked("sql best things", request, [sql(query)])


def worth(made: World) -> Asked:
    """Revenue, in all, of a place, or for each."""
    rng, d = made.rng, made.domain
    en, zh, time = when(made)
    word = rng.choice(d.worth[1 if made.zh else 0])
    table = sql_name(made.deals)
    each = rng.choice(("", "place", "name", "one"))
    if each in ("place", "name"):
        by = quoted(made.col[each])
        query = f"SELECT {by}, {worth_of(made)} AS total FROM {table}{all_of(time)} GROUP BY {by}"
        call = sql(query) if time else grouped(made, each, worth_of(made))
        shown = label_of(made, each)
        request = (
            rng.choice(
                (
                    f"{zh}各{shown}的{word}",
                    f"按{shown}统计{zh}{word}",
                    f"每个{shown}{zh}的{word}是多少？",
                )
            )
            if made.zh
            else rng.choice(
                (
                    f"{word} per {shown}{en} please".capitalize(),
                    f"{word} by {shown}{en}",
                    f"What is the {word} for each {shown}{en}?",
                )
            )
        )
    else:
        place = rng.choice(made.places) if each else ""
        where = all_of(f"{quoted(made.col['place'])} = '{place}'" if place else "", time)
        call = sql(f"SELECT {worth_of(made)} AS total FROM {table}{where}")
        request = (
            rng.choice(
                (
                    f"{zh}{place}的总{word}是多少？",
                    f"{zh}{place}{word}一共多少",
                    f"算一下{zh}{place}的{word}",
                )
            )
            if made.zh
            else rng.choice(
                (
                    f"What is our total {word}{f' in {place}' if place else ''}{en}?",
                    f"total {word}{f' of {place}' if place else ''}{en}",
                    f"How much {word} did we make{f' in {place}' if place else ''}{en}?",
                )
            )
        )
    return Asked("sql worth", request, [call])
