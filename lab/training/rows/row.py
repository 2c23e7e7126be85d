"""A training row: what was asked, what the folder holds, and the answer that is right."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

Lang = Literal["en", "zh"]
Call = dict[str, Any]
Spec = dict[str, Any]


def call(tool: str, /, **args: Any) -> Call:
    """Returns a call; arguments that are None are left out, `from_` stands for `from`."""
    given = {name.rstrip("_"): value for name, value in args.items() if value is not None}
    return {"tool": tool, "args": given}


@dataclass(frozen=True, slots=True)
class Row:
    """One row; `tools` holds names of built-in tools and specs of foreign ones."""

    request: str
    kind: str
    lang: Lang
    folder: tuple[str, ...] = ()
    now: str = ""
    calls: tuple[Call, ...] = ()
    reply: str = ""
    tools: tuple[str | Spec, ...] = ()
    remark: str = ""
    family: str = "folder"
    sources: tuple[tuple[str, str], ...] = ()
    """Names in FROM by path."""
    columns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The columns of the tables that the request is about, by path."""
    near: tuple[str, ...] = ()
    """Lines about files that the folder's own lines have no room for."""

    @property
    def answer(self) -> dict[str, Any]:
        """The answer in the call language."""
        return {"calls": list(self.calls)} if self.calls else {"reply": self.reply}

    def line(self) -> str:
        """Returns the row as one line of JSON."""
        row: dict[str, Any] = {
            "family": self.family,
            "request": self.request,
            "folder": list(self.folder),
            "now": self.now,
            "tools": list(self.tools) or "builtin",
            "answer": self.answer,
            "kind": self.kind,
            "lang": self.lang,
        }
        if self.near:
            row["near"] = list(self.near)
        if self.remark:
            row["remark"] = self.remark
        return json.dumps(row, ensure_ascii=False)


def compact(answer: dict[str, Any]) -> str:
    """Writes an answer as the model has to write it."""
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
