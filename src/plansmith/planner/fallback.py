"""The plan when no model gave a usable one: a fixed stand-in, or the steps that are usable."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

from plansmith.plan.graph import downstream, needs
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity
from plansmith.plan.refs import escape_text
from plansmith.plan.steps import AnyStep, MapStep, ReplyStep

_MOST_TEXT: Final = 2000
_NOTHING: Final = {"zh": "（计划不可用）", "en": "(no plan is available)"}
_THREE: Final = {
    "zh": ("分析请求", "执行任务", "验证结果"),
    "en": ("Analyze request", "Execute task", "Verify results"),
}


class Fallback(StrEnum):
    """Which plan stands in: what the model said as a reply, three general steps, or none."""

    REPLY = "reply"
    THREE_STEPS = "three_steps"
    NONE = "none"


def fallback(
    kind: Fallback, *, request: str, text: str, reason: str, locale: str, agent: str | None = None
) -> Plan | None:
    """The stand-in plan; `reason` says why it had to be."""
    if kind is Fallback.NONE:
        return None
    steps = _three(request, locale, agent) if kind is Fallback.THREE_STEPS else _reply(text, locale)
    goal = f"Plan for: {request[:50]}{'...' * (len(request) > 50)}"
    return Plan.model_validate({"goal": goal, "locale": locale, "degraded": reason, "steps": steps})


def only_stands_in(plan: Plan) -> bool:
    """Whether a plan does nothing but say that there is none: it is not one to approve.

    A plan by rules that calls tools is degraded too, and is a plan all the same.
    """
    return bool(plan.degraded) and all(isinstance(step, ReplyStep) for step in plan.steps)


def _reply(text: str, locale: str) -> list[dict[str, Any]]:
    """What the model said, as the answer it probably was."""
    said = text.strip()[:_MOST_TEXT].encode("utf-8", "replace").decode()
    instruction = escape_text(said) or _NOTHING["zh" if locale.startswith("zh") else "en"]
    return [{"id": "reply", "kind": "reply", "instruction": instruction}]


def _three(request: str, locale: str, agent: str | None) -> list[dict[str, Any]]:
    """Analyse, execute, verify: by an agent when there is one, else as replies."""
    steps: list[dict[str, Any]] = []
    for name, title in zip(
        ("analyze", "execute", "verify"),
        _THREE["zh" if locale.startswith("zh") else "en"],
        strict=True,
    ):
        words = f"{title}: {escape_text(request)}"
        deed = {"agent": agent, "task": words} if agent else {"instruction": words}
        after = [steps[-1]["id"]] if steps else []
        steps.append({"id": name, "title": title, "after": after, **deed})
    return steps


_UNREADABLE: Final = "PS014"


def salvage(plan: Plan, problems: Sequence[Problem], *, max_steps: int) -> Plan | None:
    """The plan without steps that have errors, what uses them, and replies that tell of them.

    Of too many steps the first are kept, and the last reply. None when nothing is left.
    """
    errors = [each for each in problems if each.severity is Severity.ERROR]
    inner = {step.each.id: step.id for step in plan.steps if isinstance(step, MapStep)}
    bad = {inner.get(each.step, each.step) for each in errors if each.step is not None}
    using = {step.id: frozenset(ref.step for ref in step.refs()) for step in plan.steps}
    known = {name: used & using.keys() for name, used in using.items()}
    gone = bad | downstream(known, [name for name in bad if name in known])
    # An unreadable step has no id any more: nobody knows which reply was to tell of it.
    lost = any(each.code == _UNREADABLE and each.step is None for each in errors)
    behind = downstream(needs(plan), [name for name in gone if name in using])
    kept = [
        step
        for step in plan.steps
        if step.id not in gone and not (isinstance(step, ReplyStep) and (lost or step.id in behind))
    ]
    steps = _cut(kept, max_steps)
    names = {step.id for step in steps}
    loose = [step.replace(after=tuple(n for n in step.after if n in names)) for step in steps]
    return plan.replace(steps=tuple(loose)) if steps else None


def _cut(steps: Sequence[AnyStep], most: int) -> list[AnyStep]:
    """The first steps, and the last reply in place of what would have been the last of them."""
    if len(steps) <= most:
        return list(steps)
    last = steps[-1]
    # Alone, a reply would have nothing to tell of.
    ends = isinstance(last, ReplyStep) and most > 1
    return [*steps[: most - 1], last] if ends else list(steps[:most])
