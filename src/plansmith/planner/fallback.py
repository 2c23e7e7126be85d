"""Fallback: the plan when no model gave a usable one, deterministic and marked degraded."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from plansmith.plan.plan import Plan
from plansmith.plan.refs import escape_text
from plansmith.plan.steps import ReplyStep

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
