"""Labels: whether what a call would send came out of a tool, or from the plan and the person."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from plansmith.plan.data import Json, content_hash
from plansmith.plan.events import AnyBody, QuestionAsked, StepFailed, StepReplied
from plansmith.plan.refs import RESERVED, Ref
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AskStep
from plansmith.runner.units import Unit

ALLOW: Final = "allow"
DATA_OPTIONS: Final = (ALLOW, "refuse")
_SHOWN: Final = 2000


def data_sources(
    unit: Unit,
    units: Mapping[str, Unit],
    answered_by: Callable[[str], str],
    *,
    refs: Iterable[Ref] | None = None,
) -> list[str]:
    """The steps whose output reaches a unit's inputs; what a person answered is no such data.

    `answered_by` names the program that answered an ask step: its word is data like a tool's.
    `refs` are the references to follow, if not all of the unit's.
    """
    found: dict[str, None] = {}
    for ref in unit.step.refs() if refs is None else refs:
        if ref.step in RESERVED:
            parent = units.get(unit.parent or "")
            found |= dict.fromkeys(data_sources(parent, units, answered_by) if parent else [])
            continue
        name = f"{unit.scope}{ref.step}"
        source = units.get(name)
        if source is None or not isinstance(source.step, AskStep):
            found[name] = None
        elif program := answered_by(name):
            found[f"{name}, answered by the program {program!r}"] = None
    return list(found)


def data_question(
    unit: Unit, inputs: Mapping[str, Json], sources: list[str], attempt: int
) -> QuestionAsked:
    """Show a person the very values that a call would send, and where they come from."""
    shown = [Sentence("question.value", name=name, value=_shown(v)) for name, v in inputs.items()]
    text = Sentence("question.values", callee=unit.callee, values=shown, sources=sources)
    return QuestionAsked(
        question=f"data:{unit.name}?{attempt}",
        text=text,
        options=DATA_OPTIONS,
        step=unit.name,
        state=content_hash(inputs),
        kind="consent",
        callee=unit.callee,
        sources=tuple(sources),
    )


def settle_data(asked: QuestionAsked, value: Json) -> list[AnyBody]:
    """What follows from a person's word on values that came out of tools."""
    assert asked.step is not None  # noqa: S101
    if value == ALLOW:
        return [StepReplied(step=asked.step, answer=ALLOW, state=asked.state, permit=True)]
    error = Sentence("step.values_refused")
    return [StepFailed(step=asked.step, error=error, kind="person")]


def _shown(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= _SHOWN:
        return text
    return Sentence("text.cut", text=text[:_SHOWN], shown=_SHOWN, size=len(text))
