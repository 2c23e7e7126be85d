"""Built-in tools for SQL on SQLite, PostgreSQL and DuckDB: show the schema, query, write."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Final, cast

from plansmith.errors import Misconfigured, ToolFailed
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json, canonical_hash
from plansmith.plan.preview import CallPreview
from plansmith.plan.sentence import Sentence, did_you_mean
from plansmith.ports import Call, ContextBlock
from plansmith.tools.threads import run_in_thread
from plansmith_desk import toolset as ts
from plansmith_desk.sql.engines import HINT, Database
from plansmith_desk.sql.rows import ROWS, RowLimits, parameters_of
from plansmith_desk.sql.schema import schema_blocks
from plansmith_desk.tool_specs import YES, record, spec

_NUMBER: Final = {"type": "integer"}
_TABLES: Final = record(
    {
        "tables": ts.items(
            record({"name": ts.TEXT, "kind": ts.TEXT, "columns": _NUMBER}, comment=ts.TEXT)
        )
    },
    notes=ts.NOTES,
)
_COLUMN: Final = record(
    {"name": ts.TEXT, "type": ts.TEXT, "primary": YES, "required": YES},
    comment=ts.TEXT,
    samples=ts.items(ts.TEXT),
)
_KEY: Final = record({"columns": ts.items(ts.TEXT), "table": ts.TEXT, "targets": ts.items(ts.TEXT)})
_TABLE: Final = record(
    {"table": ts.TEXT, "kind": ts.TEXT, "columns": ts.items(_COLUMN), "keys": ts.items(_KEY)}
)
_PARAMETERS: Final[dict[str, Any]] = {
    "type": ["array", "object"],
    "description": "Values for the placeholders: ? (SQLite, DuckDB) or $1 (PostgreSQL).",
}
# The table that a statement changes, as far as that can be read off its words.
_TARGET: Final = re.compile(
    r"\b(?:INTO|FROM|UPDATE(?:\s+OR\s+\w+)?|TABLE|VIEW|INDEX)"
    r"(?:\s+(?:IF|NOT|EXISTS|ONLY)\b)*\s+([^\s(;,]+)",
    re.IGNORECASE,
)
_UNQUOTED: Final = str.maketrans("", "", '"`[]')


class SqlTools(ts.ToolSet):
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
            raise Misconfigured(Sentence("there is no database '{name}'", name=strange[0]))
        self._engines = {name: Database(url, self._limits) for name, url in databases.items()}
        self._writable = writable
        # A file of DuckDB is open in one process at a time.
        self._turn = threading.Lock()
        self.kinds = {name: each.kind for name, each in self._engines.items()}
        works = (self._tables, self._describe, self._query, self._execute)
        tools = [ts.BuiltIn(*each) for each in zip(self._specs(), works, strict=False)]
        super().__init__(tools)

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        """Returns the tables that fit a request, with their relations, as context."""
        blocks: list[ContextBlock] = []
        share = token_limit // len(self._engines)
        for name, each in self._engines.items():
            tables = await asyncio.to_thread(each.schema)
            blocks += schema_blocks(tables, query, token_limit=share, source=f"{name}, {each.kind}")
        return blocks

    async def preview(self, tool: str, inputs: Mapping[str, Json]) -> CallPreview | None:
        """Returns the rows that a statement would change: it is run twice, and not kept.

        What differs between the two, such as the time or a number given by the database, does not
        count when the preview is compared with a later one.
        """
        if tool != "sql.execute":
            return None
        look = partial(self._change, "preview", inputs, ts.Job(Call(key="preview")))
        tries: list[Any] = [await run_in_thread(look) for _ in range(2)]
        rows: list[dict[str, Json]] = tries[0]["rows"]
        pairs, count = [*zip(rows, tries[1]["rows"], strict=False)], tries[0]["count"]
        names = rows[0] if rows else ()
        same = [name for name in names if all(a[name] == b[name] for a, b in pairs)]
        found = _TARGET.search(str(inputs["statement"]))
        table = found[1].translate(_UNQUOTED).casefold() if found is not None else ""
        touches = f"{inputs.get('database', self._writable[0])}.{table}"
        seen = canonical_hash([touches, count, [[row[name] for name in same] for row in rows]])
        return CallPreview(rows=tuple(rows), count=count, touches=(touches,), seen=seen)

    def _tables(self, given: ts.Arguments, _: ts.Job) -> Json:
        tables = self._engine(given).schema()
        listed: list[Json] = []
        for each in tables[:500]:
            comment: dict[str, Json] = {"comment": each.comment} if each.comment else {}
            listed.append(
                {"name": each.name, "kind": each.kind, "columns": len(each.columns), **comment}
            )
        left = len(tables) - len(listed)
        return ts.noted({"tables": listed}, [f"{left} more tables are left out"] if left else [])

    def _describe(self, given: ts.Arguments, _: ts.Job) -> Json:
        tables = {each.name: each for each in self._engine(given).schema()}
        wanted = given["table"]
        lower = {name.lower(): each for name, each in tables.items()}
        found = tables.get(wanted) or lower.get(wanted.lower())
        if found is None:
            there = Sentence("there are {names}", names=", ".join(tables)[:200])
            hint = did_you_mean(str(wanted), tables, otherwise=there)
            raise ToolFailed(Sentence("there is no table '{name}'", name=wanted[:80]), hint=hint)
        columns = [
            {key: value for key, value in asdict(each).items() if value not in ("", [])}
            for each in found.columns
        ]
        return {
            "table": found.name,
            "kind": found.kind,
            "columns": cast("Json", [{"type": "", **each} for each in columns]),
            "keys": cast("Json", [asdict(key) for key in found.foreign_keys]),
        }

    def _query(self, given: ts.Arguments, job: ts.Job) -> Json:
        rows = given.get("limit", self._limits.rows)
        parameters = parameters_of(given.get("parameters", []))
        arguments = {"sql": given["query"], "parameters": parameters, "rows": rows}
        return self._engine(given).do("query", job, **arguments)

    def _execute(self, given: ts.Arguments, job: ts.Job) -> Json:
        return {"changed": self._change("execute", given, job)}

    def _change(self, act: str, given: ts.Arguments, job: ts.Job) -> Json:
        parameters = parameters_of(given.get("parameters", []))
        engine = self._engine(given, self._writable[0])
        with self._turn:
            return engine.do(act, job, sql=given["statement"], parameters=parameters)

    def _engine(self, given: ts.Arguments, first: str = "") -> Database:
        return self._engines[given.get("database", first or next(iter(self._engines)))]

    def _specs(self) -> list[ToolSpec]:
        kinds = " or ".join(sorted(set(self.kinds.values())))
        found = [
            self._spec(
                "tables", "List the tables and views of a database (数据库有哪些表).", _TABLES
            ),
            self._spec(
                "describe",
                "The columns of a database table: types, keys, relations, some values (表的列).",
                _TABLE,
                table=ts.string("Name of the table.", minLength=1),
            ),
            self._spec(
                "query",
                f"Answer a question from a database with one SELECT ({kinds}): find, count, sum, "
                "join (用 SQL 查询数据库).",
                ROWS,
                query=ts.string("One SELECT.", minLength=1, maxLength=100_000, format="sql"),
                parameters=_PARAMETERS,
                limit=ts.whole("Most rows given.", 1, self._limits.most_rows),
            ),
        ]
        if self._writable:
            statement = ts.string("One statement that writes.", minLength=1, maxLength=100_000)
            found.append(
                self._spec(
                    "execute",
                    "Change a database with one INSERT, UPDATE, DELETE, CREATE or other statement.",
                    record({"changed": _NUMBER}),
                    among=self._writable,
                    statement=statement,
                    parameters=_PARAMETERS,
                )
            )
        return found

    def _spec(
        self,
        name: str,
        description: str,
        gives: dict[str, Any],
        *,
        among: Sequence[str] = (),
        **takes: Any,
    ) -> ToolSpec:
        """Makes a spec; the first field is needed, and the database if there are several."""
        names = list(among or self._engines)
        needed = {"database": ts.string("Which database.", enum=names)} if len(names) > 1 else {}
        needed |= dict(list(takes.items())[:1])
        return spec(
            f"sql.{name}",
            description,
            record(needed, **{key: each for key, each in takes.items() if key not in needed}),
            gives,
            Effect.WRITE if among else Effect.READ,
            idempotent=not among,
            timeout_s=2 * self._limits.seconds + 25,
        )
