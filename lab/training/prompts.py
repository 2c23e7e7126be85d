"""Renders rows as prompts, with the very functions that the product asks its model with."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab.training.tokenizer import ANSWER_START, chat_text
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.ports import ContextBlock, Message
from plansmith_desk.builtin import builtin_sources
from plansmith_desk.model.prompt import (
    DraftTask,
    Offered,
    draft_prompt,
    offered,
    offered_tools,
    prompt_prefix,
)
from plansmith_desk.model.wording import answer_messages
from plansmith_planner.context.gather import FOLDER, FOLDER_NEAR

Row = Mapping[str, Any]
_BUILTIN: Final = "builtin"
_PLACE: Final = re.compile(r'"\$(\d)')
_CHANGE: Final = re.compile(r"^Change it: (.+)$", re.MULTILINE)
_USER: Final = "<|im_start|>user\n"
_END: Final = "<|im_end|>"


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text of a row: two starts that it may share with others, the rest, the answer."""

    short_start: str
    """Up to the first word of the user's message."""
    long_start: str
    """With the tools as well; the same as the short one where there are none."""
    rest: str
    """All behind the long start, up to the first sign of the answer."""
    answer: str


class Renderer:
    """Renders rows; knows the built-in tools."""

    def __init__(self) -> None:
        self.builtin = {spec.name: spec for spec in asyncio.run(_builtin_specs())}
        self._offered: dict[str, tuple[Offered, ...]] = {}

    def render(self, row: Row) -> Rendered:
        """Returns the texts of a row of any family."""
        if row["family"] == "answer":
            return self._answer(row)
        return self._draft(row)

    def problem(self, row: Row) -> str:
        """Returns what a row's calls have that its tools do not offer; empty if all is well."""
        if row["family"] == "answer" or "calls" not in row["answer"]:
            return ""
        tools = {tool.name: tool for tool in self.tools(row["tools"])}
        for place, call in enumerate(row["answer"]["calls"]):
            tool = tools.get(call["tool"])
            if tool is None:
                return f"{call['tool']} is not offered"
            wrong = [name for name in call["args"] if name not in tool.fields]
            wrong += [name for name in tool.required if name not in call["args"]]
            if wrong:
                return f"{call['tool']}: {wrong[0]} is not offered, or required and missing"
            later = set(_PLACE.findall(compact(call["args"]))) - set(map(str, range(1, place + 1)))
            if later:
                return f"{call['tool']}: ${min(later)} is no call before it"
        return ""

    def _answer(self, row: Row) -> Rendered:
        request, writes = str(row["request"]), row.get("kind") == "write"
        system, user = answer_messages(request, str(row["results"]), writes=writes)
        return _split(system, "", user.text, str(row["answer"]))

    def _draft(self, row: Row) -> Rendered:
        task = self.task(row)
        _, shared = prompt_prefix(task.tools)
        system, user = draft_prompt(task)
        return _split(system, shared.text, user.text, compact(row["answer"]))

    def task(self, row: Row) -> DraftTask:
        """Returns the task of a row, as the product would make it."""
        told = (FOLDER, row.get("folder")), (FOLDER_NEAR, row.get("near"))
        known = [ContextBlock(title, "\n".join(lines)) for title, lines in told if lines]
        known += [ContextBlock(title=title, text=text) for title, text in row.get("known") or ()]
        remark = row.get("remark") or ""
        return DraftTask(
            request=row["request"],
            tools=self.tools(row["tools"]),
            known=tuple(known),
            remark=remark,
            now=row.get("now") or "",
            changes="\n".join(_CHANGE.findall(remark)),
        )

    def tools(self, named: str | Sequence[str | Mapping[str, Any]]) -> tuple[Offered, ...]:
        """Returns the tools of a row: all built-in ones, or those it names or describes."""
        key = named if isinstance(named, str) else compact(named)
        if key not in self._offered:
            # Most rows have all built-in tools; the others are asked for twice in a row.
            self._offered = {_BUILTIN: self._made(_BUILTIN), key: self._made(named)}
        return self._offered[key]

    def _made(self, named: str | Sequence[str | Mapping[str, Any]]) -> tuple[Offered, ...]:
        if named == _BUILTIN:
            known = self._offered.get(_BUILTIN)
            return known or offered_tools(map(offered, self.builtin.values()))
        specs = [
            self.builtin[each] if isinstance(each, str) else _spec(each)
            for each in named
            if each != "words.make"
        ]
        return offered_tools(map(offered, specs))


def compact(answer: Mapping[str, Any] | Sequence[Any]) -> str:
    """Writes an answer as the model has to write it."""
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def _split(system: Message, shared: str, user: str, answer: str) -> Rendered:
    short = chat_text([(system.role, system.text)]) + _USER
    rest = f"{user.removeprefix(shared)}{_END}\n{ANSWER_START}"
    return Rendered(short, short + shared, rest, answer + _END)


def _spec(tool: Mapping[str, Any]) -> ToolSpec:
    schema = tool.get("input_schema") or tool.get("parameters") or {"type": "object"}
    return ToolSpec(
        name=tool["name"],
        description=tool.get("description") or tool["name"],
        input_schema=schema,
        output_schema=tool.get("output_schema"),
        effect=Effect(tool.get("effect") or "read"),
    )


async def _builtin_specs() -> list[ToolSpec]:
    with tempfile.TemporaryDirectory() as folder:
        return [spec for source in builtin_sources(Path(folder)) for spec in await source.tools()]
