"""SAGE's helpers around a draft: which tools are shown, the prompt, reading, checking."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from plansmith.errors import UnreadableText
from plansmith.plan.capability import tool_specs
from plansmith.plan.data import Json
from plansmith.ports import Ranker
from plansmith_compat.sage.dialect import is_step
from plansmith_planner.context.fence import fence
from plansmith_planner.draft import Offer, draft_messages
from plansmith_planner.language.locales import locale_of
from plansmith_planner.parse.read import read_json
from plansmith_planner.parse.reply import plan_fit
from plansmith_planner.ranking.pick import shortlist

PlanStep = dict[str, Any]
Manifest = Mapping[str, Mapping[str, Any]]
# What a list says that has no step.
NOTHING: Final[PlanStep] = {"type": "reply", "text": "（计划不可用）"}
_FENCE: Final = re.compile(r"\A```[^\n]*\n?(.*?)(?:```)?\Z", re.DOTALL)
_WRAPPERS: Final = ("steps", "plan")


def top_k_tools(
    user_query: str, tools: Manifest, k: int = 6, *, ranker: Ranker | None = None
) -> dict[str, Any]:
    """Returns the k tools that fit best, in any language; `ranker` adds nearness in meaning."""
    if not tools:
        return {}
    picks = shortlist(user_query, tool_specs(tools), k=k, ranker=ranker)
    return {pick.name: tools[pick.name] for pick in picks}


def build_prompt(
    profile_system_prompt: str, user_query: str, tools_subset: Manifest, max_steps: int = 6
) -> str:
    """Returns the whole prompt as one text: rules, tools, profile and query."""
    messages = draft_messages(
        user_query,
        offer=Offer(tool_specs(tools_subset)),
        context=fence("profile", profile_system_prompt),
        max_steps=max_steps,
        locale=locale_of(user_query, ""),
        shape="sage",
    )
    return "\n\n".join(each.text for each in messages)


def strip_code_fences(text: str) -> str:
    """Returns a text without the fence that stands around all of it."""
    fenced = _FENCE.match(text.strip())
    return (fenced[1] if fenced else text).strip()


def coerce_json_array(text: str) -> list[Any] | None:
    """Returns the list of steps in a text, bare, wrapped or amid prose; None if there is none."""
    try:
        value: Any = json.loads(strip_code_fences(text))
    except (ValueError, RecursionError):
        try:
            value = read_json(text, fits=plan_fit)
        except UnreadableText:
            return None
        if isinstance(value, list) and not any(map(is_step, cast("list[Json]", value))):
            return None  # words in brackets
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        value = next((table[key] for key in _WRAPPERS if isinstance(table.get(key), list)), None)
    return [*cast("Sequence[Any]", value)] if isinstance(value, list) else None


def validate_steps(steps: Sequence[Any], tools: Manifest) -> list[PlanStep]:
    """Returns the steps that SAGE could run; one reply that says so where none is left."""
    made = (_valid(cast("PlanStep", each), tools) for each in steps if isinstance(each, dict))
    return [each for each in made if each] or [{**NOTHING}]


def _valid(step: PlanStep, tools: Manifest) -> PlanStep | None:
    text, name, arguments = step.get("text"), step.get("name"), step.get("arguments", {})
    if step.get("type") == "reply":
        said = isinstance(text, str) and text.strip()
        return {"type": "reply", "text": said} if said else None
    known = step.get("type") == "tool" and isinstance(name, str) and name in tools
    if not known or not isinstance(arguments, dict):
        return None
    schema: Any = tools[cast("str", name)].get("input_schema") or {}
    if any(each not in arguments for each in schema.get("required") or ()):
        return None
    return {"type": "tool", "name": name, "arguments": cast("dict[str, Any]", arguments)}
