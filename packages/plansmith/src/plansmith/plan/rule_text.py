"""Says the rules of a step as sentences: when it runs, how often, and what a failure means."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import ValidationError

from plansmith.plan.conditions import condition_text, refs_alone
from plansmith.plan.data import Json
from plansmith.plan.refs import ITEM, RESERVED, Ref
from plansmith.plan.sentence import Sentence, joined
from plansmith.plan.step_rules import Instead, Repeat, Retry, Undo
from plansmith.plan.steps import MapStep, StepFields, ToolStep
from plansmith.text import clip, safe


def rule_sentences(step: StepFields) -> list[Sentence]:
    """Returns the rules of a step, without those of the inner step of a map."""
    return [*_rules(step)]


def rule_text(name: str, value: Json) -> str:
    """Says one rule of a step by its JSON form; one that cannot be read as its JSON."""
    try:
        step = ToolStep.model_validate({"id": "step", "tool": "tool", name: value})
    except ValidationError:
        return _value(value)
    return joined(rule_sentences(step)) if has_rules(step) else _value(value)


def has_rules(step: StepFields) -> bool:
    """Tells whether a step has any rule, without looking at the inner step of a map."""
    return bool(
        step.when is not None
        or step.otherwise
        or step.repeat
        or step.on_error != "fail"
        or step.retry
        or step.undo_with
    )


def _rules(step: StepFields) -> Iterator[Sentence]:
    if step.when is not None:
        yield when_sentence(step.when)
    if step.otherwise is not None:
        yield Sentence("rule.otherwise", value=_value(step.otherwise.value))
    if step.repeat is not None:
        yield _repeat(step.repeat)
    if step.retry is not None:
        yield _retry(step.retry)
    yield from _on_error(step)
    if step.undo_with is not None:
        yield Sentence("rule.undo_with", call=_undo_call(step, step.undo_with))


def _undo_call(step: StepFields, undo: Undo) -> str:
    given = [
        Sentence("rule.argument", name=safe(name), value=_argument(value, step))
        for name, value in undo.inputs.items()
    ]
    arguments = joined(given, "rule.arguments")
    return Sentence("rule.call", tool=safe(undo.tool), arguments=arguments)


def _argument(value: Json, step: StepFields) -> str:
    """Says an argument of the call that undoes a step; of a reference, whose result it is."""
    refs = refs_alone(value)
    if len(refs) != 1:
        return _value(value)
    [ref] = refs
    path = clip(safe(str(Ref("", ref.path))[2:-2].lstrip(".")), 60)
    whole = _whose(ref.step, step)
    return Sentence("rule.part_of", path=path, whole=whole) if path else whole


def _whose(name: str, step: StepFields) -> Sentence:
    if name == step.id:
        return Sentence("rule.own_result")
    if name in RESERVED:
        return Sentence("rule.the_item" if name == ITEM else "rule.the_parameters")
    return Sentence("rule.result_of", step=clip(safe(name), 60))


def _on_error(step: StepFields) -> Iterator[Sentence]:
    if isinstance(step.on_error, Instead):
        yield Sentence("rule.error_value", value=_value(step.on_error.value))
    elif step.on_error == "skip":
        yield Sentence("rule.error_skip")
    elif step.on_error == "collect":
        items = isinstance(step, MapStep)
        yield Sentence("rule.collect_items") if items else Sentence("rule.error_collect")


def when_sentence(condition: Json) -> Sentence:
    """Says under which condition a step runs."""
    return Sentence("rule.when", condition=condition_text(condition))


def _repeat(repeat: Repeat) -> Sentence:
    until = condition_text(repeat.until)
    if not repeat.every:
        return Sentence("rule.repeat", condition=until, most=repeat.at_most)
    every = f"{repeat.every:g}"
    return Sentence("rule.repeat_every", condition=until, most=repeat.at_most, seconds=every)


def _retry(retry: Retry) -> Sentence:
    if not retry.every:
        return Sentence("rule.retry", most=retry.at_most)
    return Sentence("rule.retry_every", most=retry.at_most, seconds=f"{retry.every:g}")


def _value(value: Json) -> str:
    return clip(safe(json.dumps(value, ensure_ascii=False)), 60)
