"""The texts of OpenManus' planning tool: its parameters, statuses, and plans as text."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from plansmith_compat.openmanus.book import Kept

COMMANDS: Final = ("create", "update", "list", "get", "set_active", "mark_step", "delete")
_TOLD: Final = ("completed", "in_progress", "blocked", "not_started")


class PlanStepStatus(StrEnum):
    """The status of a step."""

    NOT_STARTED = "not_started"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    BLOCKED = "blocked"

    @classmethod
    def get_all_statuses(cls) -> list[str]:
        """Returns all statuses as texts."""
        return [each.value for each in cls]

    @classmethod
    def get_active_statuses(cls) -> list[str]:
        """Returns the statuses of steps that are not finished."""
        return [cls.NOT_STARTED.value, cls.IN_PROGRESS.value]

    @classmethod
    def get_status_marks(cls) -> dict[str, str]:
        """Returns the mark of each status in a plan that is shown."""
        return dict(zip(cls.get_all_statuses(), ("[ ]", "[→]", "[✓]", "[!]"), strict=True))


STATUSES: Final = tuple(PlanStepStatus.get_all_statuses())


def parameters() -> dict[str, Any]:
    """Returns the JSON Schema of the arguments of `execute`."""
    texts = {
        "plan_id": "The plan's id. Needed by create, update, set_active and delete; get and "
        "mark_step take the active plan without it.",
        "title": "The plan's title. Needed by create; update changes it.",
        "step_notes": "Notes on the step, for mark_step.",
    }
    properties: dict[str, Any] = {
        "command": {
            "description": f"What to do: {', '.join(COMMANDS)}.",
            "enum": [*COMMANDS],
            "type": "string",
        },
        "steps": {
            "description": "What is to be done, a text for each step. Needed by create; update "
            "changes them.",
            "type": "array",
            "items": {"type": "string"},
        },
        "step_index": {
            "description": "The place of the step, from 0. Needed by mark_step.",
            "type": "integer",
        },
        "step_status": {
            "description": "The status that mark_step sets.",
            "enum": [*STATUSES],
            "type": "string",
        },
    }
    properties |= {name: {"description": a, "type": "string"} for name, a in texts.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": ["command"],
        "additionalProperties": False,
    }


def plan_row(plan: Kept, active: str | None) -> str:
    """Returns a plan as a row of a list."""
    mark = " (active)" if plan.plan_id == active else ""
    progress = f"{plan.completed}/{len(plan.steps)} steps completed"
    return f"• {plan.plan_id}{mark}: {plan.title} - {progress}\n"


def plan_text(plan: Kept) -> str:
    """Returns a plan as text for people and agents."""
    head = f"Plan: {plan.title} (ID: {plan.plan_id})\n"
    total = len(plan.steps)
    share = f"{plan.completed / total * 100:.1f}%" if total else "0%"
    counts = {status: plan.statuses.count(status) for status in STATUSES}
    standing = ", ".join(f"{counts[name]} {name.replace('_', ' ')}" for name in _TOLD)
    lines = [
        head + "=" * len(head) + "\n",
        f"Progress: {plan.completed}/{total} steps completed ({share})",
        f"Status: {standing}\n",
        "Steps:",
    ]
    marks = PlanStepStatus.get_status_marks()
    for place, step in enumerate(plan.steps):
        lines.append(f"{place}. {marks[plan.statuses[place]]} {step}")
        lines += [f"   Notes: {plan.notes[place]}"] if plan.notes[place] else []
    return "\n".join(lines) + "\n"
