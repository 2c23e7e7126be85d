"""Judges the calls that a small model drafted, and makes a plan of them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, cast

from plansmith.adapters.models.local.brief import DraftTask
from plansmith.adapters.models.local.call_language import is_rows
from plansmith.adapters.models.local.calls_to_plan import plan_of_calls, plan_of_reply
from plansmith.adapters.models.local.files import DraftStyle
from plansmith.adapters.models.local.grounding import ASK, grounded, values_not_in, without_later
from plansmith.adapters.models.local.known_names import KnownNames
from plansmith.adapters.models.local.signatures import unknown_names
from plansmith.plan.data import Json

PARTS: Final = ("gate", "in_turn", "grounding", "flaws", "names")


@dataclass(frozen=True, slots=True)
class DraftParts:
    """What is done around a model's draft; each part can be left out, to measure what it gives.

    `gate`: a first call decides between a reply and calls. `in_turn`: words such as "then" force
    a second call. `grounding`: invented values are asked for or left out. `flaws`: a draft with
    invented rows or wrong queries is written again. `names`: tables, columns and files that the
    folder does not have become those that are meant.
    """

    style: DraftStyle = DraftStyle.CALLS
    gate: bool = True
    in_turn: bool = True
    grounding: bool = True
    flaws: bool = True
    names: bool = False

    @classmethod
    def of(cls, style: DraftStyle, without: Collection[str] = ()) -> DraftParts:
        """Returns the parts of a style; those named in `without` are left out."""
        tuned = style is DraftStyle.TUNED
        return cls(
            style,
            gate=not tuned and "gate" not in without,
            in_turn=not tuned and "in_turn" not in without,
            grounding="grounding" not in without,
            flaws="flaws" not in without,
            names=tuned and "names" not in without,
        )

    @property
    def tuned(self) -> bool:
        """Whether the model is tuned to write calls."""
        return self.style is DraftStyle.TUNED


_ALL: Final = DraftParts()


_TOOL: Final = re.compile(r'"tool": ?"([^"]+)"')


def new_call(before: str, text: str) -> str:
    """Returns a word on a call that a draft has just named, for people who wait."""
    named = _TOOL.findall(text)
    return f"step {len(named)}: {named[-1]}" if len(named) > len(_TOOL.findall(before)) else ""


def draft_flaw(text: str, task: DraftTask, parts: DraftParts = _ALL) -> str:
    """Returns what is wrong with a draft, for one retry: invented rows, wrong queries."""
    answer = json.loads(text)
    if "reply" in answer or not parts.flaws or task.remark:
        return ""
    tools = {tool.name: tool for tool in task.tools}
    flaws = [
        f'{call["tool"]} needs {name} from a call before it, as "$1"'
        for call in _calls(answer, task, parts)
        for name in tools[call["tool"]].required
        if call["args"].get(name, ASK) == ASK and is_rows(tools[call["tool"]].fields.get(name))
    ]
    # What a tuned model queries is tried on the real tables instead, once it is a plan.
    if not parts.tuned:
        for call in cast("list[dict[str, Any]]", answer["calls"]):
            for name, schema in tools[call["tool"]].fields.items():
                query = call["args"].get(name)
                if schema.get("format") == "sql" and isinstance(query, str) and query != ASK:
                    flaws += _query_flaws(query, task)
    return f"Your answer before had problems: {'; '.join(flaws[:3])}" if flaws else ""


def _query_flaws(query: str, task: DraftTask) -> list[str]:
    names = [f"there is no {name}" for name in unknown_names(query, task.tables)]
    values = values_not_in(query, task.request_text)
    return [*names, *(f"the request does not say {value}: leave it out" for value in values)]


def _calls(answer: dict[str, Any], task: DraftTask, parts: DraftParts) -> list[dict[str, Any]]:
    calls = cast("list[dict[str, Any]]", answer["calls"])
    tools = {tool.name: tool for tool in task.tools}
    if parts.names:
        known = KnownNames(task.files)
        calls = [known.mended(call, tools[call["tool"]]) for call in calls]
    if not parts.grounding:
        return without_later(calls, tools)
    return grounded(calls, tools, task.request_text, task.context, tuned=parts.tuned)


def plan_of_draft(text: str, task: DraftTask, parts: DraftParts) -> dict[str, Json]:
    """Returns the plan that a draft stands for."""
    answer: dict[str, Any] = json.loads(text)
    if "reply" in answer:
        return plan_of_reply(str(answer["reply"]), task.request)
    tools = {tool.name: tool for tool in task.tools}
    return plan_of_calls(_calls(answer, task, parts), tools, task.request)
