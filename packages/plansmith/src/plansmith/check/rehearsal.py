"""Asks the sources of tools beforehand what would go wrong with the calls of a plan."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, cast

from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import fill, secret_names
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import ToolStep
from plansmith.ports import RehearsingSource
from plansmith.text import clip, safe

WOULD_FAIL: Final = "PS210"
MAX_STEPS: Final = 20
SECONDS: Final = 2.0
_MAX_LENGTH: Final = 600


# Returns what a source says about a call; None if it has nothing to say of it.
Rehearse = Callable[[str, Mapping[str, Json]], Awaitable[str | None]]


async def no_rehearsal(_: str, __: Mapping[str, Json]) -> None:
    """Says that no call can be rehearsed."""


def rehearsal_with(sources: Mapping[str, object]) -> Rehearse:
    """Returns what rehearses the calls of tools, given the source of each."""
    if not any(isinstance(each, RehearsingSource) for each in sources.values()):
        return no_rehearsal

    async def rehearse(tool: str, inputs: Mapping[str, Json]) -> str | None:
        source = sources.get(tool)
        if not isinstance(source, RehearsingSource):
            return None
        try:
            async with asyncio.timeout(SECONDS):
                answer = cast("object", await source.rehearse(tool, inputs))
        except Exception:  # noqa: BLE001 - the call itself will tell, if it is made
            return None
        if not isinstance(answer, str):
            return None
        text = clip(safe(answer.strip()), _MAX_LENGTH)
        return answer if isinstance(answer, Sentence) and answer == text else text

    return rehearse


async def rehearsal_problems(
    plan: Plan, tools: Mapping[str, ToolSpec], rehearse: Rehearse
) -> list[Problem]:
    """Returns what the sources say is wrong with the calls of a plan that only read.

    A call is rehearsed if all its arguments are known; at most the first 20, side by side.
    """
    steps: list[ToolStep] = []
    for step in plan.steps if rehearse is not no_rehearsal else ():
        inner = step.inner
        if not isinstance(inner, ToolStep) or step.disabled or inner.references:
            continue
        spec = tools.get(inner.tool)
        reads = spec is not None and spec.effect is Effect.READ
        # A secret is known only to the call itself.
        if reads and not secret_names(inner.inputs):
            steps.append(inner)
    del steps[MAX_STEPS:]
    inputs = [cast("dict[str, Json]", fill(dict(step.inputs), {})) for step in steps]
    answers = await asyncio.gather(
        *(rehearse(step.tool, given) for step, given in zip(steps, inputs, strict=True))
    )
    hint = Sentence("change the arguments; nothing was run")
    return [
        problem(
            WOULD_FAIL,
            Sentence("{tool} would fail: {reason}", tool=step.tool, reason=text),
            hint=hint,
            step=step.id,
            path=("inputs",),
        )
        for step, text in zip(steps, answers, strict=True)
        if text
    ]
