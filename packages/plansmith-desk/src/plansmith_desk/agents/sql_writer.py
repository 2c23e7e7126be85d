"""An agent that writes SQL for a question, runs it, and corrects it if the database refuses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from pydantic import ValidationError

from plansmith.clock import SystemClock
from plansmith.errors import ModelBusy, ModelFailed, ToolBusy, ToolFailed, UnreadableText
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json, Record, json_text
from plansmith.plan.sentence import Sentence
from plansmith.ports import Call, ChatModel, Clock, ContextSource, Message, Prompt
from plansmith_desk.agents.local import prompt_of, render_prompt
from plansmith_desk.sql import SqlTools
from plansmith_desk.sql.rows import RowLimits
from plansmith_planner.agent_cards import SQL_WRITER
from plansmith_planner.context.fence import fence
from plansmith_planner.context.token_budget import clipped, rough_count
from plansmith_planner.model_calls import read_answer, text_fields
from plansmith_planner.parse.read import read_json

PROMPT: Final = "sql_writer"
_TOKENS: Final = 4_000
_FORM: Final = '{"sql": "…", "reason": "…"}'
_ONE_OF_THEM: Final = (
    "One statement reads one of them, by its own tables alone: name it in the further field "
    '"database". When the question needs another one too, answer the part that this one can.'
)
_SEVERAL: Final = (
    "The databases are {known}; one step reads one of them: name it in the task. For a question "
    "that needs two, make a step for each, side by side, and bring their rows together afterwards."
)
_HINT: Final = "ask more precisely, or name the tables it is about"


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlWriter:
    """An agent that reads one database, or chooses one of several for each statement.

    `knowledge` is what it should know beside the schema. With `run` off, a statement is checked by
    the database and not run.
    """

    spec: AgentSpec
    model: ChatModel
    sql: SqlTools
    rows: int
    knowledge: Sequence[ContextSource] = ()
    most_tries: int = 4
    run: bool = True
    prompts: Path | None = None
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        # Report a missing prompt at the start, not in the middle of a run.
        prompt_of(PROMPT, self.prompts)

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        """Returns the statement, its columns and rows, and the number of tries."""
        messages = await self._briefing(task, inputs)
        refused: dict[str, str] = {}
        error = ""
        for tries in range(1, self.most_tries + 1):
            answer = await self._ask(messages, call)
            written = _statement(answer)
            plain = " ".join((written.database, *written.sql.split())) if written else ""
            if written is None:
                error = f"the answer is not one JSON object {_FORM}"
            elif self._has_many and written.database not in self.sql.kinds:
                error = f'"database" must be one of {", ".join(self.sql.kinds)}'
            elif plain in refused:
                why = refused[plain]
                what = Sentence("the same statement came back after it failed: {error}", error=why)
                raise ToolFailed(what, hint=_HINT)
            else:
                try:
                    return {**await self._try(written, call), "tries": tries}
                except ToolBusy:
                    raise
                except ToolFailed as failure:
                    error = refused[plain] = str(failure)
            call.progress(f"try {tries} of {self.most_tries}: {error}")
            reply = f"{fence('what the database said', error)}\n\nWrite another statement."
            messages += [Message("assistant", answer), Message("user", reply)]
        count = self.most_tries
        what = Sentence("no statement worked in {count} tries: {error}", count=count, error=error)
        raise ToolFailed(what, hint=_HINT)

    @property
    def _has_many(self) -> bool:
        return len(self.sql.kinds) > 1

    async def _briefing(self, task: str, inputs: Mapping[str, Json]) -> list[Message]:
        """Returns the rules, the tables that fit the question, the knowledge and the question."""
        system = render_prompt(
            PROMPT,
            folder=self.prompts,
            kind=" or ".join(dict.fromkeys(self.sql.kinds.values())),
            rows=str(self.rows),
            today=self.clock.now().date().isoformat(),
        )
        if self._has_many:
            known = ", ".join(f"{name} ({kind})" for name, kind in self.sql.kinds.items())
            system += f"\n\nThere are several databases: {known}. {_ONE_OF_THEM}"
        blocks = [
            fence(block.title, block.text, block.source)
            for source in (self.sql, *self.knowledge)
            for block in await source.gather(task, token_limit=_TOKENS)
        ]
        if inputs:
            text = json_text(dict(inputs), indent=1)
            blocks.append(fence("inputs", clipped(text, tokens=_TOKENS, count=rough_count)))
        return [
            Message("system", system),
            Message("user", "\n\n".join([*blocks, fence("question", task)])),
        ]

    async def _ask(self, messages: Sequence[Message], call: Call) -> str:
        database = {"database": list(self.sql.kinds)} if self._has_many else {}
        form = text_fields(sql=(), reason=(), **database)
        try:
            answer = await read_answer(self.model.stream(Prompt(messages, schema=form)))
        except ModelFailed as failure:
            kind = ToolBusy if isinstance(failure, ModelBusy) else ToolFailed
            raise kind(Sentence("the model wrote no SQL: {why}", why=failure)) from None
        call.spend(answer.usage)
        return answer.text

    async def _try(self, written: _Written, call: Call) -> dict[str, Json]:
        """Runs or checks a statement; returns its rows, or only that it is accepted."""
        name = written.database if self._has_many else next(iter(self.sql.kinds))
        where: dict[str, Json] = {"database": name} if self._has_many else {}
        if not self.run:
            # Whatever this comes to be, the database is opened for reading only.
            inner = f"SELECT * FROM (\n{written.sql}\n) AS checked"  # noqa: S608
            planned = self.sql.kinds[name] == "postgresql"
            checked = f"{inner} LIMIT 0" if planned else f"EXPLAIN {inner}"
            await self.sql.call("sql.query", {"query": checked, "limit": 1, **where}, call)
            notes: list[Json] = ["checked by the database, not run"]
            return {"sql": written.sql, **where, "columns": [], "rows": [], "notes": notes}
        given: dict[str, Json] = {"query": written.sql, "limit": self.rows, **where}
        found = cast("dict[str, Json]", await self.sql.call("sql.query", given, call))
        if found["more"]:
            cut = f"only the first {found['count']} rows are given: there are more"
            found["notes"] = [*cast("list[Json]", found.get("notes", [])), cut]
        return {"sql": written.sql, **where, **found}


def sql_writer(
    *,
    model: ChatModel,
    database: str | Mapping[str, str],
    knowledge: Sequence[ContextSource] = (),
    limits: RowLimits | None = None,
    run: bool = True,
    prompts: Path | None = None,
) -> SqlWriter:
    """Makes an SQL writer for the database at a URL, or for several by name."""
    bounds = limits or RowLimits()
    urls = {"data": database} if isinstance(database, str) else dict(database)
    sql = SqlTools(urls, limits=bounds)
    card = SQL_WRITER if run else SQL_WRITER.replace(passthrough=True)
    if len(urls) > 1:
        known = ", ".join(f"{name} ({kind})" for name, kind in sql.kinds.items())
        card = card.replace(description=f"{SQL_WRITER.description} {_SEVERAL.format(known=known)}")
    return SqlWriter(
        spec=card,
        model=model,
        sql=sql,
        rows=bounds.most_rows,
        knowledge=knowledge,
        run=run,
        prompts=prompts,
    )


class _Written(Record):
    """What a model answers; it names a database only where there are several."""

    sql: str
    reason: str = ""
    database: str = ""


def _statement(answer: str) -> _Written | None:
    """Returns the statement in an answer; None if there is no readable one."""
    try:
        written = _Written.model_validate(read_json(answer))
    except (UnreadableText, ValidationError):
        return None
    sql = written.sql.strip().rstrip(";").strip()
    if not sql:
        why = " ".join(written.reason.split())[:500] or Sentence("the model gave no reason")
        raise ToolFailed(Sentence("the database cannot answer this: {why}", why=why), hint=_HINT)
    return written.replace(sql=sql)
