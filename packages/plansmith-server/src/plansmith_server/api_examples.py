"""Examples of requests and answers for the OpenAPI document; a test checks each by its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plansmith.plan.data import Json

_RUN: Final = "01990f3e-7a51-7cc2-9b7e-2f4f5b8c6d10"
_HASH: Final = "sha256:5f2b0c7e"
_AT: Final = "2026-11-16T09:30:00Z"
_STEP: Final[dict[str, Json]] = {
    "id": "weather",
    "kind": "tool",
    "tool": "weather.get",
    "inputs": {"city": "Oslo"},
}
_PLAN: Final[dict[str, Json]] = {"goal": "Say how the weather is in Oslo", "steps": [_STEP]}
_TIMING: Final[dict[str, Json]] = {"daily_at": "08:00", "timezone": "Europe/Oslo"}
_TEMPLATE: Final[dict[str, Json]] = {"name": "weather", "parameters": {"city": ["weather.city"]}}

# By the name of the operation.
REQUESTS: Final[Mapping[str, Json]] = {
    "runs_create": {"request": "Which files mention invoices?", "mode": "review"},
    "plans_edit": {"plan": _PLAN},
    "plans_check": {"plan": _PLAN},
    "plans_check_new": {"plan": _PLAN},
    "decisions_decide": {"approve": _HASH},
    "decisions_answer": {"question": "weather", "answer": "allow"},
    "files_with_values": {"question": "data:save?1", "change": {"path": "june.md"}},
    "runs_cancel": {"reason": "not needed any more"},
    "runs_pause": {"reason": "back on Monday"},
    "runs_resume": {"force": False},
    "runs_retry": {"from_step": "weather"},
    "runs_skip": {"step": "weather"},
    "templates_of_run": _TEMPLATE,
    "templates_create": {**_TEMPLATE, "plan": _PLAN},
    "templates_use": {"parameters": {"city": "Rome"}},
    "conversations_message": {"text": "Which of them are of May?"},
    "schedules_create": {"run": _RUN, "timing": _TIMING, "approve": _HASH},
    "schedules_change": {"timing": _TIMING},
    "schedules_preview": {**_TIMING, "count": 3},
    "schedules_pause": {"reason": "summer holidays"},
    "schedules_backfill": {"from": "2026-11-01T00:00:00Z", "to": "2026-11-08T00:00:00Z"},
    "models_use": {"kind": "auto"},
    "models_pull": {"name": "qwen2.5-coder-0.5b"},
    "tools_approve": {"server": "files", "hash": _HASH},
    "tools_approve_agent": {"name": "researcher", "hash": _HASH},
}
_ROW: Final[dict[str, Json]] = {
    "id": _RUN,
    "status": "done",
    "request": "Which files mention invoices?",
    "goal": "Find the files that mention invoices",
    "origin": "request",
    "folder": "/data/papers",
    "locale": "en",
    "created_at": _AT,
    "updated_at": "2026-11-16T09:30:09Z",
    "steps": {"total": 2, "done": 2, "failed": 0, "running": 0},
    "questions": 0,
    "tokens": 1834,
    "cost_usd": "0.0021",
    "damage": "",
    "planning_seconds": 4.1,
    "running_seconds": 0.8,
    "waiting_seconds": 4.0,
}
_REVIEW: Final[dict[str, Json]] = {"hash": _HASH, "reasons": ["it changes something"]}
ANSWERS: Final[Mapping[str, Json]] = {
    "runs_listing": {"items": [_ROW], "next": None},
    "decisions_inbox": {
        "count": 1,
        "items": [
            {
                "kind": "review",
                "run": _RUN,
                "request": "Write a summary of notes.txt",
                "goal": "Write a summary",
                "since": _AT,
                "review": _REVIEW,
            }
        ],
    },
    "plans_diff": {
        "from": 1,
        "to": 2,
        "changes": [{"kind": "added", "step": _STEP, "position": 0}],
    },
    "schedules_preview": {"fires": ["2026-11-17T07:00:00Z", "2026-11-18T07:00:00Z"]},
    "health_alive": {"status": "ok"},
    "health_ready": {"status": "ok", "open_runs": 3},
    "audit_me": {
        "user": "ann",
        "kind": "person",
        "role": "",
        "tenant": "",
        "scopes": ["look", "propose", "answer", "approve"],
    },
}
