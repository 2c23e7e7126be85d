"""The short language of calls that a small model writes instead of a plan, and its grammar."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, cast

from plansmith.text import HAN
from plansmith_desk.model.grammar import GrammarBook, exactly, literal, quoted
from plansmith_desk.model.signatures import Offered

MOST_CALLS: Final = 6
REPLY_START: Final = '{"reply":'


def calls_grammar(request: str, tools: Sequence[Offered], *, known: str = "") -> str:
    """Returns a grammar for drafts that reply or call these tools with valid arguments."""
    # A small model translates what it should copy: it does not get the letters to do so.
    book = GrammarBook(without="" if HAN.search(request + known) else "\\u3400-\\u9fff")
    ws = book.use("ws")
    reply = f'{literal(REPLY_START)} {book.use("string")} "}}"'
    if not tools:
        return book.text(reply)
    # Where a call can give rows, they are taken from it and not asked for.
    starts = [tool for tool in tools if not any(map(is_rows, _schemas(tool.inputs, tool.required)))]
    found = any(is_rows(tool.gives) or any(map(is_rows, _schemas(tool.gives))) for tool in starts)
    first, second, later = (
        book.rule(" | ".join(_tool_call(book, tool, earlier, found=found) for tool in some))
        for earlier, some in (("", starts if found else tools), ("[1]", tools), ("[1-9]", tools))
    )
    rest = f'("," {ws} {later}){{0,{MOST_CALLS - 2}}}'
    calls = f'{first} ("," {ws} {second} {rest})?'
    whole = f'{literal("{")} {literal(json.dumps("calls"))} ":" {ws} "[" {calls} "]" "}}"'
    return book.text(f"{reply} | {whole}")


def _schemas(schema: Any, names: Collection[str] | None = None) -> list[Any]:
    """Returns the schemas of the fields of an object, or of some of them."""
    fields: Any = cast("Mapping[str, Any]", schema or {}).get("properties")
    known: Mapping[str, Any] = (
        cast("Mapping[str, Any]", fields) if isinstance(fields, Mapping) else {}
    )
    return [each for name, each in known.items() if names is None or name in names]


def _tool_call(book: GrammarBook, tool: Offered, earlier: str, *, found: bool) -> str:
    result = f'"$" {earlier} ("." [a-zA-Z0-9_]+){{0,3}}'
    # What may replace any value: a question, or the result of an earlier call.
    hole = book.rule(quoted(f'("?"{f" | {result}" if earlier else ""})'))
    rows = book.rule(quoted(result)) if earlier and found else hole
    fields: dict[str, str] = {}
    for name, schema in tool.fields.items():
        if is_rows(schema):
            fields[name] = rows
            continue
        value = book.within(tool.inputs, schema)
        # A plain text can be a hole as it is.
        fields[name] = value if value == "string" else book.rule(f"{value} | {hole}")
    args = book.record(fields, tool.required) if fields else '"{" "}"'
    return f'"{{\\"tool\\":" ws {exactly(tool.name)} "," ws "\\"args\\":" ws {args} "}}"'


def is_rows(schema: Any) -> bool:
    """Whether an argument takes rows of any shape: they come from a call, no one writes them."""
    whole: Mapping[str, Any] = (
        cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else {}
    )
    items: Any = whole.get("items")
    if not isinstance(items, Mapping) or whole.get("type") != "array":
        return False
    item = cast("Mapping[str, Any]", items)
    return item.get("type") == "object" and not item.get("properties")
