"""Judges the calls that a small model drafted, and makes a plan of them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from plansmith.adapters.models.local.brief import DraftTask
from plansmith.adapters.models.local.calls_to_plan import plan_of_calls, plan_of_reply
from plansmith.adapters.models.local.grounding import grounded, without_later
from plansmith.adapters.models.local.known_names import KnownNames
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence

PARTS: Final = ("grounding", "names")


@dataclass(frozen=True, slots=True)
class DraftParts:
    """What is done to a model's draft; each part can be left out, to measure what it gives.

    `grounding`: invented values of changes and of tools outside are asked for or left out.
    `names`: tables, columns and files that the folder does not have become those that are meant.
    """

    grounding: bool = True
    names: bool = True

    @classmethod
    def of(cls, without: Collection[str]) -> DraftParts:
        """Returns all parts but those named."""
        return cls(grounding="grounding" not in without, names="names" not in without)


_TOOL: Final = re.compile(r'"tool": ?"([^"]+)"')


def new_call(before: str, text: str) -> str:
    """Returns a word on a call that a draft has just named, for people who wait."""
    named = _TOOL.findall(text)
    if len(named) <= len(_TOOL.findall(before)):
        return ""
    return Sentence("planning.step", number=len(named), tool=named[-1])


def plan_of_draft(text: str, task: DraftTask, parts: DraftParts) -> dict[str, Json]:
    """Returns the plan that a draft stands for."""
    answer: dict[str, Any] = json.loads(text)
    if "reply" in answer:
        return plan_of_reply(str(answer["reply"]), task.request)
    tools = {tool.name: tool for tool in task.tools}
    return plan_of_calls(judged(answer["calls"], task, parts), tools, task.request)


def judged(
    calls: Sequence[Mapping[str, Any]], task: DraftTask, parts: DraftParts
) -> list[dict[str, Any]]:
    """Returns drafted calls with names that the folder has and without invented values."""
    tools = {tool.name: tool for tool in task.tools}
    if parts.names:
        known = KnownNames(task.files)
        calls = [known.mended(call, tools[call["tool"]]) for call in calls]
    if not parts.grounding:
        return without_later(calls, tools)
    return grounded(calls, tools, task.request_text, task.context)
