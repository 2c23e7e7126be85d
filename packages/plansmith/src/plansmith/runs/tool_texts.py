"""What tools said, for a planner that plans again: errors and results, fenced and cut."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from plansmith.engine.units import named_unit
from plansmith.plan.next_move import sees_first
from plansmith.plan.run import Run, StepStatus
from plansmith.ports import ContextBlock
from plansmith.text import clip

if TYPE_CHECKING:
    from plansmith.plan.data import Json
    from plansmith.plan.limits import Limits
    from plansmith.plan.plan import Plan
    from plansmith.review.settings import ReviewPolicy

ERRORS: Final = "errors of failed steps"
RESULTS: Final = "results of finished steps"
_MOST: Final = 20
_LONGEST_ERROR: Final = 2_000
_LONGEST_RESULT: Final = 4_000
_DIGEST: Final = 16


def may_read_texts(run: Run, limits: Limits, policy: ReviewPolicy) -> bool:
    """Tells whether a planner that plans again may read what tools said."""
    return limits.tool_texts != "reviewed" or sees_first(run) or policy.ask == "always"


def texts_of(
    run: Run, templates: Mapping[str, Plan], results: Mapping[str, Json]
) -> tuple[ContextBlock, ...]:
    """Returns the errors of failed steps and some results, as data for the planner.

    Secrets are hidden in what a journal stores, and so in these texts.
    """
    errors = "\n".join(_errors(run, templates))
    found = {name: each for name, each in results.items() if name in run.steps and "/" not in name}
    lines = [
        json.dumps({"step": name, "result": _short(value)}, ensure_ascii=False)
        for name, value in list(found.items())[-_MOST:]
    ]
    blocks = (ContextBlock(ERRORS, errors), ContextBlock(RESULTS, "\n".join(lines)))
    return tuple(block for block in blocks if block.text)


def _errors(run: Run, templates: Mapping[str, Plan]) -> Iterator[str]:
    failed = [name for name, step in run.steps.items() if step.status is StepStatus.FAILED]
    for name in failed[:_MOST]:
        state = run.steps[name]
        unit = named_unit(run.plan, name, templates) if run.plan else None
        line: dict[str, Json] = {
            "step": name,
            "calls": state.callee or (unit.callee if unit else ""),
            "arguments": state.call[:_DIGEST],
            "tries": state.attempts,
            "error": clip(str(state.error), _LONGEST_ERROR),
        }
        yield json.dumps(line, ensure_ascii=False)
    if len(failed) > _MOST:
        yield json.dumps({"more": len(failed) - _MOST})


def _short(value: Json) -> Json:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _LONGEST_RESULT else clip(text, _LONGEST_RESULT)
