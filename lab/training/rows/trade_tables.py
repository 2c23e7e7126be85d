"""Questions about several tables, about stock, and about papers beside tables."""

from __future__ import annotations

from typing import Any

from lab.training.rows.trade_words import PAPERS
from lab.training.rows.trade_world import (
    Asked,
    World,
    day_of,
    label_of,
    path_of,
    quoted,
    sql,
    sql_name,
    stem_of,
    values_of,
    worth_of,
)


def by_group(made: World) -> Asked:
    """Joined with the table of things: of a category or a supplier, or for each."""
    rng, d = made.rng, made.domain
    name = quoted(made.col["name"])
    measure, total = rng.choice(
        (("count", f"SUM(a.{quoted(made.col['count'])})"), ("worth", worth_of(made, "a.")))
    )
    key, values = rng.choice(
        (("group", made.groups), ("supplier", list(d.suppliers[1 if made.files_zh else 0])))
    )
    column = quoted(made.col[key])
    join = f"FROM {sql_name(made.deals)} a JOIN {sql_name(made.things)} b ON a.{name} = b.{name}"
    value = rng.choice(values)
    said = rng.choice(d.worth[1 if made.zh else 0]) if measure == "worth" else d.sold[1]
    if rng.random() < 0.35:
        query = f"SELECT b.{column}, {total} AS total {join} GROUP BY b.{column}"
        label = label_of(made, key)
        request = (
            rng.choice((f"各{label}的{said}", f"按{label}汇总{said}"))
            if made.zh
            else rng.choice(
                (
                    f"{said if measure == 'worth' else 'units ' + d.past} per {label}",
                    f"How much {said if measure == 'worth' else 'did we ' + d.verb[0]} for each {label}?",
                )
            )
        )
    else:
        is_it = f"b.{column} = '{value}'" if key == "group" else f"b.{column} LIKE '%{value}%'"
        query = f"SELECT {total} AS total {join} WHERE {is_it}"
        kind_en = f"in the {label_of(made, 'group')} {value}" if key == "group" else f"from {value}"
        kind_zh = f"{value}类" if key == "group" else f"{value}供应的"
        if made.zh:
            request = rng.choice(
                (
                    f"{kind_zh}{d.thing[1]}的{said}是多少？",
                    f"{kind_zh}{d.thing[1]}一共{d.verb[1]}了多少？"
                    if measure == "count"
                    else f"{kind_zh}{d.thing[1]}的{said}一共多少？",
                )
            )
        else:
            request = (
                rng.choice(
                    (
                        f"How many units of {d.thing[0]} {kind_en} were {d.past}?",
                        f"total units of {value} {d.thing[0]} {d.past}",
                    )
                )
                if measure == "count"
                else rng.choice(
                    (
                        f"What {said} did {d.thing[0]} {kind_en} bring?",
                        f"{said} of {d.thing[0]} {kind_en}",
                    )
                )
            )
    return Asked("join trade", request, [sql(query)])


def returned(made: World) -> Asked:
    """Joined with what came back."""
    if not made.returns:
        return by_group(made)
    rng, d = made.rng, made.domain
    reason = rng.choice(made.reasons)
    key = quoted(made.col["id"])
    is_it = f"{quoted(made.col['reason'])} = '{reason}'"
    if rng.random() < 0.3:
        query = f"SELECT COUNT(*) AS count FROM {sql_name(made.returns)} WHERE {is_it}"
        request = (
            f"有多少{d.deal[1]}因为{reason}{d.back[1]}？"
            if made.zh
            else f"How many {d.deal[0]} {d.back[0]} with the reason {reason}?"
        )
        return Asked("sql returns", request, [sql(query)])
    join = f"FROM {sql_name(made.deals)} a JOIN {sql_name(made.returns)} b ON a.{key} = b.{key}"
    if rng.random() < 0.3:
        name = quoted(made.col["name"])
        query = f"SELECT a.{name}, COUNT(*) AS count {join} GROUP BY a.{name} ORDER BY count DESC LIMIT 1"
        request = (
            rng.choice((f"哪个{d.thing[1]}{d.back[1]}最多？",))
            if made.zh
            else f"Which {d.thing[0].removesuffix('s')} {d.back[0]} most often?"
        )
        return Asked("join returns", request, [sql(query)])
    query = f"SELECT {worth_of(made, 'a.')} AS total {join} WHERE b.{is_it}"
    word = rng.choice(d.worth[1 if made.zh else 0])
    request = (
        rng.choice(
            (
                f"因{reason}{d.back[1]}的{d.deal[1]}一共值多少钱？",
                f"{reason}{d.back[1]}的{d.deal[1]}{word}合计",
            )
        )
        if made.zh
        else rng.choice(
            (
                f"What were the {d.deal[0]} worth that {d.back[0]} {reason}?",
                f"total {word} of {d.deal[0]} that {d.back[0]} because of {reason}",
            )
        )
    )
    return Asked("join returns", request, [sql(query)])


def in_stock(made: World) -> Asked:
    """What is there, in the table of things alone."""
    rng, d = made.rng, made.domain
    name, stock, table = quoted(made.col["name"]), quoted(made.col["stock"]), sql_name(made.things)
    limit = rng.choice((5, 10, 20, 25, 50))
    query, en, zh = rng.choice(
        (
            (
                f"SELECT {name} FROM {table} WHERE {stock} = 0",
                (
                    "which {t} are out of stock",
                    "What has run out?",
                    "list the {t} we have none left of",
                ),
                ("哪些{t}缺货？", "哪些{t}已经卖完了", "库存为零的{t}有哪些"),
            ),
            (
                f"SELECT {name}, {stock} FROM {table} WHERE {stock} < {limit}",
                (
                    f"which {{t}} have fewer than {limit} in stock",
                    f"{{t}} with less than {limit} left",
                ),
                (f"库存少于{limit}的{{t}}", f"哪些{{t}}的库存不到{limit}？"),
            ),
            (
                f"SELECT SUM({stock}) AS total FROM {table}",
                ("how many {t} do we have in stock in total?", "total stock"),
                ("库存一共有多少？", "{t}的总库存是多少"),
            ),
        )
    )
    return Asked(
        "sql stock",
        rng.choice(zh if made.zh else en).format(t=d.thing[1 if made.zh else 0]),
        [sql(query)],
    )


def plain_group(made: World) -> Asked:
    """One table although others are there."""
    rng, d = made.rng, made.domain
    table, key = rng.choice(
        ((made.things, "group"), (made.deals, "place"), (made.things, "supplier"))
    )
    args: dict[str, Any] = {"table": table, "by": made.col[key]}
    thing = (d.deal if table == made.deals else d.thing)[1 if made.zh else 0]
    label = label_of(made, key)
    request = (
        rng.choice(
            (f"每个{label}各有多少{thing}？", f"各{label}的{thing}数量", f"按{label}统计{thing}数")
        )
        if made.zh
        else rng.choice(
            (
                f"Number of {thing} per {label}",
                f"how many {thing} are there for each {label}?",
                f"{thing} by {label}",
            )
        )
    )
    return Asked("group", request, [{"tool": "tables.group", "args": args}])


def saved(made: World) -> Asked:
    """Rows or totals as a file."""
    rng, d = made.rng, made.domain
    end = rng.choice(("csv", "csv", "json", "md"))
    path = f"{rng.choice(('north', 'out', 'result', 'totals', 'export', 'list', '结果', '汇总', 'report-1'))}.{end}"
    write = {"tool": "tables.write", "args": {"path": path, "rows": "$1"}}
    if rng.random() < 0.5:
        place = rng.choice(made.places)
        query = (
            f"SELECT * FROM {sql_name(made.deals)} WHERE {quoted(made.col['place'])} = '{place}'"
        )
        label = label_of(made, "place")
        request = (
            rng.choice(
                (
                    f"把{place}的所有{d.deal[1]}保存为 {path}",
                    f"将{label}为{place}的{d.deal[1]}导出到{path}",
                )
            )
            if made.zh
            else rng.choice(
                (
                    f"Save all {d.deal[0]} of the {place} {label} as {path}",
                    f"write the {d.deal[0]} from {place} to {path}",
                    f"Put all {d.deal[0]} of {place} into {path}",
                )
            )
        )
        return Asked("save", request, [sql(query), write])
    args = {"table": made.deals, "by": made.col["name"], "value": made.col["count"], "how": "sum"}
    request = (
        rng.choice(
            (
                f"把每种{d.thing[1]}的总{d.sold[1]}保存为 {path}",
                f"统计各{d.thing[1]}{d.sold[1]}并存到{path}",
            )
        )
        if made.zh
        else rng.choice(
            (
                f"Save the total units per {d.thing[0].removesuffix('s')} as {path}",
                f"write how many of each {d.thing[0].removesuffix('s')} were {d.past} to {path}",
            )
        )
    )
    return Asked("save", request, [{"tool": "tables.group", "args": args}, write])


def in_papers(made: World) -> Asked:
    """What only a paper says, though tables lie beside it."""
    english, chinese = made.rng.choice(PAPERS)
    asked = chinese if made.rng.random() < (0.8 if made.zh else 0.2) else english
    question = asked.rstrip("?？")
    titles = (
        "rules.md: Rules",
        "letter.txt: Dear Ms Berg",
        "minutes.docx: Minutes",
        "handbook.pdf: 12 pages: Handbook",
        "合同.txt: 合同",
        "通知.md: 通知",
        "faq.html: FAQ",
        "notes/2026-02-03.md: Notes",
        "offer.pdf: 1 pages: Offer",
        "邮件/回复.eml: 回复",
    )
    made.lines.extend(made.rng.sample(titles, made.rng.randrange(1, 5)))
    made.rng.shuffle(made.lines)
    return Asked("lookup", asked, [{"tool": "files.lookup", "args": {"question": question}}])


def not_back(made: World) -> Asked:
    """What has no date of its end yet."""
    rng = made.rng
    table, column, en, zh = rng.choice(
        (
            (
                "loans",
                "returned",
                ("How many loans have not been returned yet?", "number of books still out"),
                ("还有多少本书没有归还？", "未归还的借阅有几条"),
            ),
            (
                "invoices",
                "paid_on",
                ("How many invoices are still unpaid?", "how many invoices have not been paid"),
                ("还有多少发票没付款？", "未支付的发票有几张"),
            ),
            (
                "tickets",
                "closed_at",
                ("How many tickets are still open?", "number of tickets that are not closed"),
                ("还有多少工单没有关闭？", "未关闭的工单有几个"),
            ),
            (
                "staff",
                "left_on",
                ("How many people still work here?", "how many employees have not left"),
                ("现在还有多少在职员工？", "没有离职的员工有几个"),
            ),
            (
                "借阅",
                "归还日期",
                ("How many loans are not back yet?", "loans without a return"),
                ("多少借阅还没归还？", "还没还的书有多少本？"),
            ),
            (
                "任务",
                "完成日期",
                ("How many tasks are unfinished?", "open tasks: how many?"),
                ("还有多少任务没完成？", "未完成的任务有几个"),
            ),
        )
    )
    path = path_of(rng, stem_of(rng, [table]), rng.choice(("", "library.db", "data.db")))
    made.lines.append(
        f"{path}: id (1), {made.col['name']} ({values_of(rng, made.names, whole=False)}), {column} ({day_of(rng)})"
    )
    rng.shuffle(made.lines)
    return Asked(
        "sql open",
        rng.choice(zh if made.zh else en),
        [sql(f"SELECT COUNT(*) AS count FROM {sql_name(path)} WHERE COALESCE({column}, '') = ''")],
    )
