"""Makes a plan that can run of SAGE's list of steps: what is missing is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from pydantic_core import from_json, to_json

from plansmith.check.autofix import autofix
from plansmith.check.check_plan import check_plan
from plansmith.formats.dialect import place_id
from plansmith.plan.capability import tool_specs
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity
from plansmith.plan.refs import Ref, escape_text
from plansmith.plan.steps import AnyStep, ReplyStep, ToolStep
from plansmith_compat.sage.dialect import read, reply_text, write
from plansmith_compat.sage.drafting import PlanStep
from plansmith_planner.fallback import salvage
from plansmith_planner.language.locales import locale_of

_SUM_UP: Final = {
    "zh": "请简洁汇总以下结果，保留关键信息和结论。",
    "en": "Sum up these results briefly; keep the key facts and conclusions.",
}
_SUMMARY: Final = "summary"


class Runnable(NamedTuple):
    """A plan, None if nothing can run, and an observation for each step that cannot."""

    plan: Plan | None
    unusable: list[dict[str, Any]]


def runnable(
    steps: Sequence[PlanStep],
    tools: Mapping[str, Any],
    query: str,
    *,
    most: int,
    words: bool,
    sums: bool,
) -> Runnable:
    """Returns the plan of a list of steps, at most so many.

    With `words` a model words the replies from the results, else they are said as they are
    written. With `sums` a list without a reply gets one that sums the results up.
    """
    # A planner of another make may put anything into its list; place by place, as data.
    listed = _cut([_step(_plain(each)) for each in steps], most)
    whole = getattr(steps, "plan", None) if len(listed) == len(steps) else None
    if not isinstance(whole, Plan) or write(whole).value != list(steps):
        whole = read(cast("Json", listed)).plan
    if whole is None:
        return Runnable(None, [])
    specs = tool_specs(tools)
    locale = locale_of(query)
    plan = autofix(whole.replace(goal=query, locale=locale), specs).plan
    errors = [each for each in check_plan(plan, specs) if each.severity is Severity.ERROR]
    usable = salvage(plan, errors, max_steps=len(plan.steps)) if errors else plan
    unusable = _unusable(listed, errors)
    if usable is None:
        return Runnable(None, unusable)
    said = [_said(step, words=words) for step in usable.steps]
    if sums and not any(isinstance(step, ReplyStep) for step in said):
        said.append(_summary(said, locale))
    return Runnable(usable.replace(steps=tuple(said)), unusable)


def _plain(entry: Any) -> Any:
    try:
        return from_json(to_json(entry, fallback=str, inf_nan_mode="strings"))
    except ValueError:  # a circle, or no text: it cannot be kept, so it cannot be run
        return None


def _step(entry: Any) -> PlanStep:
    return cast("PlanStep", entry) if isinstance(entry, dict) else {"type": entry}


def _cut(steps: Sequence[PlanStep], most: int) -> list[PlanStep]:
    """Returns the first steps; if the last of all is a reply, it is kept too."""
    if len(steps) <= most:
        return [*steps]
    ends = steps[-1].get("type") == "reply" and most > 1
    return [*steps[: most - 1], steps[-1]] if ends else [*steps[:most]]


def _unusable(steps: Sequence[PlanStep], errors: Sequence[Problem]) -> list[dict[str, Any]]:
    """Returns an observation for each tool step that has an error."""
    why = {each.step: str(each.message) for each in reversed(errors) if each.step is not None}
    return [
        {
            "step": place,
            "tool": step.get("name"),
            "ok": False,
            "error": why[place_id(place + 1)],
            "arguments": step.get("arguments") or {},
        }
        for place, step in enumerate(steps)
        if place_id(place + 1) in why and step.get("type") == "tool"
    ]


def _said(step: AnyStep, *, words: bool) -> AnyStep:
    """Returns a reply to be said as it is written, where there is nothing to word it from."""
    if not isinstance(step, ReplyStep) or (words and step.needs()):
        return step
    text = escape_text(reply_text(step.instruction))
    return step.replace(instruction=text, style="exact", after=tuple(sorted(step.needs())))


def _summary(steps: Sequence[AnyStep], locale: str) -> ReplyStep:
    results = "\n".join(str(Ref(step.id)) for step in steps if isinstance(step, ToolStep))
    text = _SUM_UP["zh" if locale.startswith("zh") else "en"]
    taken = {step.id for step in steps}
    name = next(each for each in (_SUMMARY, f"{_SUMMARY}_of_all") if each not in taken)
    return ReplyStep(id=name, instruction=f"{text}\n\n{results}")
