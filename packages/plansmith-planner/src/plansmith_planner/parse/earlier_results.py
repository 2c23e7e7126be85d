"""Lets plans of other systems use results of earlier runs, which they name in braces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.refs import Ref, escape_text, pieces
from plansmith.plan.steps import AgentStep, AnyStep, ReplyStep

# Braces in a text of another system, which reading it has escaped.
_BRACES: Final = re.compile(re.escape(escape_text("{{")) + r"([^{}]*)\}\}")


def with_results(plan: Plan, names: Mapping[str, str]) -> Plan:
    """Returns the plan with `{{name}}` in its texts read as the result of that name.

    An agent gets it as an input, so that it is data and no part of the task. In these systems a
    plan cannot name its own steps, so a name is always that of an earlier result.
    """
    steps = tuple(_using(step, names) for step in plan.steps)
    return plan if steps == plan.steps else plan.replace(steps=steps)


def _using(step: AnyStep, names: Mapping[str, str]) -> AnyStep:
    given: dict[str, Json] = {}

    def named(found: re.Match[str]) -> str:
        ref = _result(found[1], names)
        if ref is None:
            return found[0]
        if isinstance(step, ReplyStep):
            return str(ref)
        name = f"earlier_{len(given) + 1}"
        given[name] = ref.to_json()
        return name

    match step:
        case ReplyStep(instruction=text):
            return step.replace(instruction=_BRACES.sub(named, text))
        case AgentStep(task=text):
            task = _BRACES.sub(named, text)
            return step.replace(task=task, inputs={**step.inputs, **given}) if given else step
        case _:
            return step


def _result(words: str, names: Mapping[str, str]) -> Ref | None:
    found = pieces("{{" + words + "}}")[0]
    if not isinstance(found, Ref) or found.step not in names:
        return None
    return Ref(names[found.step], found.path)
