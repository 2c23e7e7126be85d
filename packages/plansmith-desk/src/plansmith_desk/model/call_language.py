"""The short language of calls that a small model writes instead of a plan, and its grammar."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from plansmith.text import HAN
from plansmith_desk.model.grammar import GrammarBook, literal
from plansmith_desk.model.signatures import Offered

MOST_CALLS: Final = 6
REPLY_START: Final = '{"reply":'


def reply_grammar() -> str:
    """Returns a grammar for drafts that call no tool."""
    book = GrammarBook()
    return book.text(_reply(book))


def calls_grammar(request: str, tools: Sequence[Offered], *, known: str = "") -> str:
    """Returns a grammar for drafts that reply or call these tools with valid arguments."""
    # A small model translates what it should copy: it does not get the letters to do so.
    book = GrammarBook(without="" if HAN.search(request + known) else "\\u3400-\\u9fff")
    ws = book.use("ws")
    # Where a call can give rows, they are taken from it and not asked for.
    starts = [tool for tool in tools if not _needs_rows(tool)]
    found = any(map(_gives_rows, starts))
    first, second, later = (
        book.rule(" | ".join(_tool_call(book, tool, earlier, found=found) for tool in some))
        for earlier, some in (("", starts if found else tools), ("[1]", tools), ("[1-9]", tools))
    )
    rest = f'("," {ws} {later}){{0,{MOST_CALLS - 2}}}'
    calls = f'{first} ("," {ws} {second} {rest})?'
    whole = f'{literal("{")} {literal(json.dumps("calls"))} ":" {ws} "[" {calls} "]" "}}"'
    return book.text(f"{_reply(book)} | {whole}")


def _reply(book: GrammarBook) -> str:
    return f'{literal(REPLY_START)} {book.use("string")} "}}"'


def _tool_call(book: GrammarBook, tool: Offered, earlier: str, *, found: bool) -> str:
    placeholder = book.rule(_placeholder(earlier))
    rows = book.rule(f'"\\"" {_result(earlier)} "\\""') if earlier and found else placeholder
    fields: dict[str, str] = {}
    for name, schema in tool.fields.items():
        if is_rows(schema):
            fields[name] = rows
            continue
        value = book.within(tool.inputs, schema)
        # A plain text can be a hole as it is.
        fields[name] = value if value == "string" else book.rule(f"{value} | {placeholder}")
    args = book.record(fields, tool.required) if fields else '"{" "}"'
    name = literal(json.dumps(tool.name, ensure_ascii=False))
    return f'"{{\\"tool\\":" ws {name} "," ws "\\"args\\":" ws {args} "}}"'


def is_rows(schema: Any) -> bool:
    """Whether an argument takes rows of any shape: they come from a call, no one writes them."""
    if not isinstance(schema, Mapping):
        return False
    known = cast("Mapping[str, Any]", schema)
    items: Any = known.get("items")
    if known.get("type") != "array" or not isinstance(items, Mapping):
        return False
    each = cast("Mapping[str, Any]", items)
    return each.get("type") == "object" and not each.get("properties")


def _needs_rows(tool: Offered) -> bool:
    return any(is_rows(tool.fields.get(name)) for name in tool.required)


def _gives_rows(tool: Offered) -> bool:
    given: Any = (tool.gives or {}).get("properties")
    fields = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else dict[str, Any]()
    return any(is_rows(each) for each in (tool.gives, *fields.values()))


def _placeholder(earlier: str) -> str:
    """Returns what may replace any value: a question, or the result of an earlier call."""
    result = f" | {_result(earlier)}" if earlier else ""
    return f'"\\"" ("?"{result}) "\\""'


def _result(earlier: str) -> str:
    return f'"$" {earlier} ("." [a-zA-Z0-9_]+){{0,3}}'
