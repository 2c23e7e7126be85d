"""Writes the tables of a made-up world as real files."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path

from lab.training.rows.tables import Table, identifier
from lab.training.rows.world import World


def write_world(world: World, folder: Path) -> None:
    for table in world.tables:
        path, name = folder / table.path, table.path.rpartition("/")[2]
        if path.parent.suffix in (".db", ".sqlite"):
            path.parent.parent.mkdir(parents=True, exist_ok=True)
            _database(table, path.parent, name)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in (".csv", ".tsv"):
            with path.open("w", encoding="utf-8", newline="") as file:
                mark = "," if path.suffix == ".csv" else "\t"
                writer = csv.writer(file, delimiter=mark)
                writer.writerows([[each.name for each in table.columns], *table.rows])
        else:
            names = [each.name for each in table.columns]
            rows = [dict(zip(names, row, strict=True)) for row in table.rows]
            text = json.dumps(rows) if path.suffix == ".json" else "\n".join(map(json.dumps, rows))
            path.write_text(text, encoding="utf-8")


def _database(table: Table, file: Path, name: str) -> None:
    columns = ", ".join(each.sql for each in table.columns)
    with closing(sqlite3.connect(file)) as made, made:
        made.execute(f"CREATE TABLE {identifier(name)} ({columns})")
        places = ", ".join("?" * len(table.columns))
        made.executemany(f"INSERT INTO {identifier(name)} VALUES ({places})", table.rows)
