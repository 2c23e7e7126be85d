"""Sealing: secrets are put into a call at the last moment, and out of all that comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from plansmith.errors import InputNeeded
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.secrets import put_secrets, secret_names
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MapStep, StepFields, ToolStep
from plansmith.ports import Advice, Call, Secrets, Usage
from plansmith.runner.units import Unit, resolved


def unsealed(
    unit: Unit, inputs: dict[str, Json], secrets: Secrets | None, results: Mapping[str, Json]
) -> dict[str, Json]:
    """The inputs with the values of the secrets that the plan itself names."""
    step = unit.step
    if not isinstance(step, ToolStep) or secrets is None:
        return inputs
    values = {name: secrets.reveal(name, step.tool) for name in secret_names(step.inputs)}
    if not values:
        return inputs
    filled = cast("dict[str, Json]", put_secrets(step.inputs, values))
    return resolved(replace(unit, step=step.replace(inputs=filled)), results)


def sealed_call(call: Call, secrets: Secrets) -> Call:
    """A call whose words carry no secret."""

    def text(said: str) -> str:
        return cast("str", secrets.hide(said))

    def progress(said: str) -> None:
        call.progress(text(said))

    def advise(advice: Advice, reason: str) -> None:
        call.advise(advice, text(reason))

    def spend(usage: Usage) -> None:
        call.spend(usage)

    return replace(call, progress=progress, advise=advise, spend=spend)


def sealed_need(need: InputNeeded, secrets: Secrets) -> InputNeeded:
    """A question without any secret in it."""
    return InputNeeded(
        cast("str", secrets.hide(need.message)),
        schema=cast("dict[str, Any] | None", secrets.hide(cast("Json", need.schema))),
        options=[cast("str", secrets.hide(each)) for each in need.options],
        state=secrets.hide(need.state),
        link=cast("str", secrets.hide(need.link)),
    )


def secret_problems(plan: Plan, secrets: Secrets | None) -> Iterator[Problem]:
    """Secrets that are unknown, or named where they would end up in words."""
    for step in plan.steps:
        inner: StepFields = step.each if isinstance(step, MapStep) else step
        for name in secret_names(step.to_json()):
            if isinstance(inner, ToolStep) and name in secret_names(inner.inputs):
                flaw = (
                    secrets.flaw(name, inner.tool)
                    if secrets
                    else Sentence("ps.no_secret", name=name)
                )
            else:
                flaw = Sentence("ps.secret_shown", name=name)
            if flaw:
                hint = Sentence("hint.set_secret", name=name)
                yield problem("PS501", flaw, hint=hint, step=step.id, path=("inputs",))
