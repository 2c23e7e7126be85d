"""Training rows about things that are sold, made or lent."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from itertools import islice

from lab.training.rows.trade import rows
from lab.training.rows.trade_world import sql_name

TABLE = re.compile(r"(.+?(?:\.(?:csv|tsv|json)|\.(?:db|sqlite)/.+?)): (.+)")
COLUMN = re.compile(r"(?:^|, )([^()]+?) \([^()]*\)")


def test_every_query_of_a_trade_row_runs_on_the_tables_of_its_folder() -> None:
    for row in islice(rows(seed=5, count=150), 150):
        with closing(sqlite3.connect(":memory:")) as database:
            for line in (*row["folder"], *row.get("near", ())):
                found = TABLE.fullmatch(line)
                if found:
                    columns = ", ".join(f'"{each}"' for each in COLUMN.findall(found[2]))
                    name = sql_name(found[1]).strip('"')
                    database.execute(f'CREATE TABLE "{name}" ({columns})')
            for call in row["answer"]["calls"]:
                if call["tool"] == "tables.sql":
                    database.execute(call["args"]["query"])


def test_trade_rows_of_a_seed_are_the_same_every_time_and_never_repeat() -> None:
    first, again = (list(rows(seed=2, count=60)) for _ in range(2))
    assert first == again
    asked = [(row["request"], tuple(row["folder"])) for row in first]
    assert len(set(asked)) == len(asked)
    assert {row["lang"] for row in first} == {"en", "zh"}
