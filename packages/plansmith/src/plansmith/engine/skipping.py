"""Decides by the plan's own rules whether a step runs: its condition, and what it needs."""

from __future__ import annotations

from collections.abc import Mapping

from plansmith.engine.progress import Batch
from plansmith.engine.state import State
from plansmith.engine.units import Unit, Values
from plansmith.errors import ReferenceFailed
from plansmith.plan.conditions import condition_text, holds
from plansmith.plan.refs import with_words
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.step_events import SkipRule
from plansmith.plan.steps import ReplyStep
from plansmith.ports import Advice


def settle_by_rules(unit: Unit, state: State, batch: Batch) -> bool:
    """Skips a unit, or lets it fail, if its plan says so; false if it runs."""
    because = "" if unit.is_item or unit.is_round else _skipped_need(unit, state.passed)
    if because:
        # A need that was skipped because of a failure passes that on: what was approved is missing.
        rule: SkipRule = "error" if state.passed[f"{unit.scope}{because}"] == "error" else "need"
        state.skip(
            unit, Sentence("'{step}', which it needs, was skipped", step=because), rule, batch
        )
        return True
    condition = unit.step.when
    if condition is None:
        return False
    try:
        if holds(condition, Values(state.results, unit)):
            return False
    except ReferenceFailed as error:
        state.fail(
            unit, Sentence("its condition cannot be decided: {reason}", reason=str(error)), batch
        )
        return True
    reason = Sentence("it runs only if {condition}", condition=condition_text(condition))
    state.skip(unit, reason, "when", batch)
    return True


def _skipped_need(unit: Unit, passed: Mapping[str, SkipRule]) -> str:
    """Returns the step because of which a unit is skipped; empty if it is not."""
    here = {name.removeprefix(unit.scope) for name in passed if name.startswith(unit.scope)}
    if not here:
        return ""
    through = (each for need in unit.step.needed for each in unit.off.get(need, ()))
    return unit.step.skipped_with(here) or next((each for each in through if each in here), "")


def told_without(unit: Unit, passed: Mapping[str, SkipRule], locale: str) -> Unit:
    """Returns a reply that tells which of its steps were skipped, in place of their results."""
    step = unit.step
    missing = [name for name in step.needed if f"{unit.scope}{name}" in passed]
    if not isinstance(step, ReplyStep) or not missing:
        return unit
    said = {name: in_language(Sentence("reply.skipped", step=name), locale) for name in missing}
    told = step.model_copy(update={"instruction": with_words(step.instruction, said)})
    return unit.with_step(told)


def starts_after(advice: Advice, unit: Unit) -> bool:
    """Tells whether a unit still starts after advice: parts of open steps, and the reply."""
    return unit.parent is not None or (advice == "finish" and unit.step.kind == "reply")
