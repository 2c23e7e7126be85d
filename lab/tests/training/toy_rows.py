"""A few rows of each family."""

from __future__ import annotations

from typing import Any

from lab.training.prompts import Row

MAIL = {
    "name": "mail.send",
    "description": "Send a mail",
    "input_schema": {
        "type": "object",
        "properties": {"to": {"type": "string"}, "text": {"type": "string"}},
        "required": ["to", "text"],
    },
}


def sql(query: str) -> dict[str, Any]:
    return {"calls": [{"tool": "tables.sql", "args": {"query": query}}]}


def folder_row(request: str, answer: dict[str, Any], **more: Any) -> Row:
    lines = ["sales.csv: region (North/South), units (4, 1)", "notes.md: Team meeting"]
    row = {"family": "folder", "request": request, "folder": lines, "tools": "builtin"}
    return {
        **row,
        "now": "Monday 2026-11-16 09:12",
        "answer": answer,
        "kind": "sql",
        "lang": "en",
        **more,
    }


FOLDER = folder_row("total units", sql('SELECT SUM(units) FROM "sales.csv"'))
CHINESE = folder_row("一共多少？", sql("SELECT COUNT(*) FROM sales"), lang="zh", now="")
TOOLS: Row = {
    "family": "tools",
    "request": "Send hi to bo@x.org",
    "tools": [MAIL, "files.read"],
    "answer": {"calls": [{"tool": "mail.send", "args": {"to": "bo@x.org", "text": "hi"}}]},
    "kind": "mail",
    "lang": "en",
}
ANSWER: Row = {
    "family": "answer",
    "request": "When does it end?",
    "results": "lease.txt:\nIt ends on 3 May.",
    "answer": "It ends on 3 May.",
    "kind": "question",
    "lang": "en",
}
