"""Completes a planner's answer as DeerFlow does: missing fields, step types, a web search."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

from plansmith.errors import PlanInvalid
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan as CorePlan
from plansmith.plan.steps import AgentStep
from plansmith_compat.deerflow.dialect import RESEARCHER, is_work, read, write
from plansmith_compat.deerflow.llms import text_of_blocks
from plansmith_compat.reading import json_in

logger: Final = logging.getLogger("plansmith")
_T = TypeVar("_T")
_SEARCH: Final = ("need_search", "need_web_search")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MOST: Final = 50_000


def validate_and_fix_plan(
    plan: _T,
    enforce_web_search: bool = False,  # noqa: FBT001, FBT002 - DeerFlow's signature
    enable_web_search: bool = True,  # noqa: FBT001, FBT002 - DeerFlow's signature
) -> _T:
    """Completes a plan in place and returns it; what is no object is returned as it is.

    A step without a type is research if it needs a search, else analysis. With
    `enforce_web_search` at least one step searches, unless `enable_web_search` is off.
    """
    if not isinstance(plan, dict):
        return plan
    fields = cast("dict[str, Any]", plan)
    given: Any = fields.get("steps")
    steps = cast("list[object]", given) if isinstance(given, list) else []
    written = [cast("dict[str, Any]", each) for each in steps if isinstance(each, dict)]
    for step in written:
        if not step.get("step_type"):
            step["step_type"] = "research" if _searches(step) else "analysis"
            title = step.get("title") or "a step"
            logger.info("Repaired missing step_type of %s: %s", title, step["step_type"])
    if enforce_web_search and enable_web_search:
        _enforce_search(fields, written)
    fields["locale"] = fields.get("locale") or "en-US"
    fields.setdefault("has_enough_context", False)
    named = (str(step["title"]) for step in written if step.get("title"))
    fields["title"] = fields.get("title") or next(named, "Research Plan")
    return cast("_T", fields)


def _searches(step: Mapping[str, Any]) -> bool:
    return any(step.get(name) for name in _SEARCH)


def _enforce_search(plan: dict[str, Any], steps: list[dict[str, Any]]) -> None:
    """Makes the first research step search, else the first step; adds one if there is none."""
    if any(_searches(step) for step in steps):
        return
    if not steps:
        about = plan.get("title") or plan.get("thought") or "the topic"
        found = {"title": "Research", "description": f"Find out what is known: {about}"}
        steps.append(found)
        given: Any = plan.get("steps")
        plan["steps"] = [*(given if isinstance(given, list) else ()), found]
    first = next((step for step in steps if step.get("step_type") == "research"), steps[0])
    first["step_type"] = "research"
    first["need_web_search" if "need_web_search" in first else "need_search"] = True
    logger.info("Enforced a web search in the step %s", first.get("title"))


def with_search(plan: CorePlan) -> CorePlan:
    """Returns a plan that has at least one step for the researcher."""
    work = [step for step in plan.steps if isinstance(step, AgentStep) and is_work(step)]
    if any(step.agent == RESEARCHER for step in work):
        return plan
    if work:
        first = work[0].replace(agent=RESEARCHER)
        return plan.replace(steps=[first if step is work[0] else step for step in plan.steps])
    fields = cast("dict[str, Json]", write(plan, None).value)
    title = fields["title"]
    reading = read(validate_and_fix_plan(fields, enforce_web_search=True) | {"title": title})
    if reading.plan is None:
        raise PlanInvalid(reading.problems)
    return plan.replace(steps=reading.plan.steps)


def repair_json_output(content: str) -> str:
    """Returns the JSON value in a model's text as clean JSON; a text without one as it is."""
    text = content.strip()
    value = json_in(text)
    # A few bare words can be read as a value too, but they are no JSON.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else text


def extract_plan_content(plan_data: object) -> str:
    """Returns the text of a plan that comes as a text, a message or an object."""
    found: Any = plan_data
    if isinstance(plan_data, dict):
        found = cast("dict[str, Any]", plan_data).get("content", plan_data)
    elif isinstance(getattr(plan_data, "content", None), (str, list)):
        found = cast("Any", plan_data).content
    if text := text_of_blocks(found):
        return text
    return json.dumps(found, ensure_ascii=False) if isinstance(found, (dict, list)) else str(found)


def sanitize_tool_response(content: str, max_length: int = _MOST) -> str:
    """Returns a tool's text without control characters and trailing words, cut if it is long."""
    text, end = content.strip(), None
    if text[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            _, end = json.JSONDecoder().raw_decode(text)
    text = _CONTROL.sub("", text[:end]).strip()
    return text if len(text) <= max_length else text[:max_length].rstrip() + "..."
