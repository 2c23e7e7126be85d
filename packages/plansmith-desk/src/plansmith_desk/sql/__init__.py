"""Built-in tools for SQL on SQLite, PostgreSQL and DuckDB: show the schema, query, write."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from plansmith.errors import Misconfigured, ToolFailed
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence, did_you_mean
from plansmith.ports import ContextBlock
from plansmith.tools.toolset import (
    NOTES,
    TEXT,
    Arguments,
    BuiltIn,
    Job,
    ToolSet,
    fields,
    items,
    noted,
    string,
    whole,
)
from plansmith_desk.sql.engines import HINT, Database
from plansmith_desk.sql.rows import ROWS, RowLimits, parameters_of
from plansmith_desk.sql.schema import Table, schema_blocks

_MOST_TABLES: Final = 500
_TABLE: Final = fields(
    {"name": TEXT, "kind": TEXT, "columns": {"type": "integer"}, "comment": TEXT},
    *("name", "kind", "columns"),
)
_COLUMN: Final = fields(
    {
        "name": TEXT,
        "type": TEXT,
        "primary": {"type": "boolean"},
        "required": {"type": "boolean"},
        "comment": TEXT,
        "samples": items(TEXT),
    },
    *("name", "type", "primary", "required"),
)
_KEY: Final = fields(
    {"columns": items(TEXT), "table": TEXT, "targets": items(TEXT)},
    *("columns", "table", "targets"),
)
_PARAMETERS: Final[dict[str, Any]] = {
    "type": ["array", "object"],
    "description": "Values for the placeholders: ? (SQLite, DuckDB) or $1 (PostgreSQL).",
}


class SqlTools(ToolSet):
    """The tools for some databases by name; can write only to those in `writable`.

    It is a context source too: a planner sees the tables that fit a request.
    """

    def __init__(
        self,
        databases: Mapping[str, str],
        *,
        writable: Sequence[str] = (),
        limits: RowLimits | None = None,
    ) -> None:
        self._limits = limits or RowLimits()
        if not databases:
            raise Misconfigured(Sentence("there is no database"), hint=HINT)
        strange = [name for name in writable if name not in databases]
        if strange:
            raise Misconfigured(
                Sentence("there is no database '{name}'", name=strange[0]),
                hint=Sentence("name one of yours"),
            )
        self._engines = {name: Database(url, self._limits) for name, url in databases.items()}
        self.kinds = {name: each.kind for name, each in self._engines.items()}
        self._writable = {name: self._engines[name] for name in writable}
        tools = [
            BuiltIn(self._spec_tables(), self._tables),
            BuiltIn(self._spec_describe(), self._describe),
            BuiltIn(self._spec_query(), self._query),
        ]
        writing = [BuiltIn(self._spec_execute(), self._execute)] if writable else []
        super().__init__([*tools, *writing])

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        """Returns the tables that fit a request, with their relations, as context."""
        blocks: list[ContextBlock] = []
        share = token_limit // len(self._engines)
        for name, each in self._engines.items():
            tables = await asyncio.to_thread(each.schema)
            blocks += schema_blocks(tables, query, token_limit=share, source=f"{name}, {each.kind}")
        return blocks

    def _tables(self, given: Arguments, job: Job) -> Json:
        del job
        tables = self._engine(given).schema()
        listed: list[Json] = []
        for each in tables[:_MOST_TABLES]:
            comment: dict[str, Json] = {"comment": each.comment} if each.comment else {}
            listed.append(
                {"name": each.name, "kind": each.kind, "columns": len(each.columns), **comment}
            )
        left = len(tables) - len(listed)
        return noted({"tables": listed}, [f"{left} more tables are left out"] if left else [])

    def _describe(self, given: Arguments, job: Job) -> Json:
        del job
        tables = {each.name: each for each in self._engine(given).schema()}
        wanted = given["table"]
        found = tables.get(wanted) or next(
            (each for name, each in tables.items() if name.lower() == wanted.lower()), None
        )
        if found is None:
            there = Sentence("there are {names}", names=", ".join(tables)[:200])
            hint = did_you_mean(str(wanted), tables, otherwise=there)
            raise ToolFailed(Sentence("there is no table '{name}'", name=wanted[:80]), hint=hint)
        return _described(found)

    def _query(self, given: Arguments, job: Job) -> Json:
        rows = given.get("limit", self._limits.rows)
        parameters = parameters_of(given.get("parameters", []))
        return self._engine(given).query(given["query"], parameters, rows, job)

    def _execute(self, given: Arguments, job: Job) -> Json:
        parameters = parameters_of(given.get("parameters", []))
        changed = self._engine(given, self._writable).execute(given["statement"], parameters, job)
        return {"changed": changed}

    def _engine(self, given: Arguments, among: Mapping[str, Database] | None = None) -> Database:
        engines = self._engines if among is None else among
        name = given.get("database")
        return engines[name] if name is not None else next(iter(engines.values()))

    def _spec_tables(self) -> ToolSpec:
        return self._spec(
            "sql.tables",
            "List the tables and views of a database (数据库有哪些表).",
            {},
            gives=fields({"tables": items(_TABLE), "notes": NOTES}, "tables"),
        )

    def _spec_describe(self) -> ToolSpec:
        return self._spec(
            "sql.describe",
            "The columns of a database table: types, keys, relations, some values (表的列).",
            {"table": string("Name of the table.", minLength=1)},
            gives=fields(
                {"table": TEXT, "kind": TEXT, "columns": items(_COLUMN), "keys": items(_KEY)},
                *("table", "kind", "columns", "keys"),
            ),
        )

    def _spec_query(self) -> ToolSpec:
        kinds = " or ".join(sorted(set(self.kinds.values())))
        return self._spec(
            "sql.query",
            f"Answer a question from a database with one SELECT ({kinds}): find, count, sum, join "
            "(用 SQL 查询数据库).",
            {
                "query": string("One SELECT.", minLength=1, maxLength=100_000, format="sql"),
                "parameters": _PARAMETERS,
                "limit": whole("Most rows given.", 1, self._limits.most_rows),
            },
            needs=("query",),
            gives=ROWS,
        )

    def _spec_execute(self) -> ToolSpec:
        statement = string("One statement that writes.", minLength=1, maxLength=100_000)
        return self._spec(
            "sql.execute",
            "Change a database with one INSERT, UPDATE, DELETE, CREATE or other statement.",
            {"statement": statement, "parameters": _PARAMETERS},
            needs=("statement",),
            gives=fields({"changed": {"type": "integer"}}, "changed"),
            among=tuple(self._writable),
        )

    def _spec(
        self,
        name: str,
        description: str,
        takes: dict[str, Any],
        *,
        gives: dict[str, Any],
        needs: Sequence[str] = ("table",),
        among: Sequence[str] = (),
    ) -> ToolSpec:
        """Makes a spec; has an argument for the database only if there are several."""
        names = list(among or self._engines)
        choice = {"database": string("Which database.", enum=names)} if len(names) > 1 else {}
        required = [each for each in (*choice, *needs) if each in {**choice, **takes}]
        return ToolSpec(
            name=name,
            description=description,
            input_schema=fields({**choice, **takes}, *required),
            output_schema=gives,
            effect=Effect.WRITE if among else Effect.READ,
            open_world=False,
            idempotent=not among,
            timeout_s=2 * self._limits.seconds + 25,
        )


def _described(table: Table) -> Json:
    columns: list[Json] = []
    for each in table.columns:
        one: dict[str, Json] = {
            "name": each.name,
            "type": each.type,
            "primary": each.primary,
            "required": each.required,
        }
        if each.comment:
            one["comment"] = each.comment
        if each.samples:
            one["samples"] = [*each.samples]
        columns.append(one)
    keys: list[Json] = [
        {"columns": [*key.columns], "table": key.table, "targets": [*key.targets]}
        for key in table.foreign_keys
    ]
    return {"table": table.name, "kind": table.kind, "columns": columns, "keys": keys}
