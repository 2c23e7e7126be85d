"""Lists the results of earlier runs of a conversation, with what a planner is told of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from plansmith.plan.data import Json, kind_of_value
from plansmith.plan.earlier import EarlierResult
from plansmith.plan.refs import earlier_source, value_text
from plansmith.plan.run import Run, StepStatus
from plansmith.text import clip, visible

_KINDS: Final = {"null": "nothing", "boolean": "yes or no", "string": "text", "array": "list"}


def results_of(runs: Sequence[Run]) -> list[EarlierResult]:
    """Returns the results of finished steps of runs, oldest run first, each with a short name.

    The runs need their results. The newest result of a step has the step's id as its name; an
    older one of that id has the place of its run behind it: `totals`, and `totals_1` before.
    """
    done = [
        (place, run, step, state)
        for place, run in enumerate(runs, start=1)
        for step, state in run.steps.items()
        if state.status is StepStatus.DONE and state.result_hash and earlier_source(run.id, step)
    ]
    newest, found = {step: place for place, _, step, _ in done}, list[EarlierResult]()
    for place, run, step, state in done:
        older, value = f"{step[:58]}_{place}", state.result
        name = step if newest[step] == place else older if older not in newest else ""
        about = name, _kind_of(value), first_lines(value), run.request
        found.append(EarlierResult(earlier_source(run.id, step), state.result_hash, *about))
    return found


def _kind_of(value: Json) -> str:
    """Returns the type of a value in a few words of ours; nothing of the value itself."""
    if isinstance(value, list):
        kinds = {kind_of_value(each) for each in value}
        kind = kinds.pop() if len(kinds) == 1 else ""
        return f"list of {len(value)}" + (f" ({_KINDS.get(kind, kind)} each)" if kind else "")
    kind = kind_of_value(value)
    return f"object of {len(value)} keys" if isinstance(value, dict) else _KINDS.get(kind, kind)


def first_lines(value: Json) -> str:
    """Returns the beginning of a value as text; of an object its keys, each with its beginning."""
    if isinstance(value, list):
        lines = [value_text(each) for each in value[:3]]
    elif isinstance(value, dict):  # more of it: a plan refers to what it wants by its key
        head = list(value.items())[:8]
        lines = [f"{json.dumps(key, ensure_ascii=False)}: {value_text(each)}" for key, each in head]
    else:
        lines = value_text(value).splitlines()[:3]
    return "\n".join(clip(visible(" ".join(line.split())), 120) for line in lines)
