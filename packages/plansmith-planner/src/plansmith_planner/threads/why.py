"""Answers why a plan or a result is as it is, from the journal, with the step named."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from plansmith.errors import ReferenceFailed
from plansmith.plan import events as e
from plansmith.plan.refs import CITATION, lookup
from plansmith.plan.run import StepStatus
from plansmith.plan.sentence import Sentence, joined
from plansmith.plan.steps import AgentStep, AnyStep, AskStep, ReplyStep, ToolStep
from plansmith.plan.thread import ThreadReply
from plansmith.text import clip, visible
from plansmith_planner.language.messages import asks_about_failure, subject_words

if TYPE_CHECKING:
    from plansmith.plan.data import Json
    from plansmith.plan.run import Run
    from plansmith_planner.threads.memory import RunDigest

_AROUND: Final = 60
_LONGEST: Final = 400


class _Answer(NamedTuple):
    """A sentence about what is asked for, and the step it is about."""

    text: str
    step: str = ""


def why(question: str, digests: Sequence[RunDigest]) -> ThreadReply | None:
    """Answers from the newest run that has something to say about it; None if none has.

    Where a word came from counts more than that a later plan has it too.
    """
    words = subject_words(question)
    for way in (_of_run, _origins, _of_plan):
        for digest in digests:
            found = [*way(question, words, digest)][:3]
            if found:
                step = next((each.step for each in found if each.step), "")
                return ThreadReply(_all(*(each.text for each in found)), digest.run.id, step)
    return None


def _all(*texts: str) -> str:
    return joined([each for each in texts if each], "thread.both")


def _of_run(question: str, words: Sequence[str], digest: RunDigest) -> Iterator[_Answer]:
    """Answers about failures, a step that is named, or a plan as a whole."""
    run, plan = digest.run, digest.run.plan
    if plan is None:
        return
    errors = [
        _Answer(Sentence("The step {step} failed: {error}", step=name, error=state.error), name)
        for name, state in run.steps.items()
        if state.status is StepStatus.FAILED
    ]
    if not errors and run.reason and run.status.over:
        errors = [_Answer(run.reason)]
    names = ((step, name) for step in plan.steps for name in (step.id, step.title))
    named = next((step for step, name in names if len(name) > 2 and _has(question, name)), None)
    if errors and asks_about_failure(question):
        # All of them belong together, so that they are one answer.
        yield _Answer(_all(*(each.text for each in errors)), errors[0].step)
    elif named is not None:
        callee, title = _callee(named), named.title or named.id
        told = Sentence("The step {step}: {title}.", step=named.id, title=title)
        if callee:
            told = Sentence("The step {step} calls {callee}.", step=named.id, callee=callee)
        sources = sorted({ref.step for ref in named.refs()})
        uses = Sentence("It uses the results of {steps}.", steps=sources) if sources else ""
        failed = [each.text for each in errors if each.step == named.id]
        yield _Answer(_all(told, _reason(named.why), uses, *failed), named.id)
    elif not words:
        steps = [step.title or step.id for step in plan.steps[:12]]
        said = clip(plan.thought or plan.goal, _LONGEST)
        yield _Answer(
            Sentence("The plan says: “{thought}” Its steps: {steps}.", thought=said, steps=steps)
        )


def _reason(text: str) -> str:
    return Sentence("The plan gives this reason: {why}", why=clip(text, _LONGEST)) if text else ""


def _origins(_: str, words: Sequence[str], digest: RunDigest) -> Iterator[_Answer]:
    """Yields where each word comes from, a person or a result, in the order in which it came up."""
    run, bodies = digest.run, [event.body for event in digest.events]
    asked = {each.question: each for each in bodies if isinstance(each, e.QuestionAsked)}
    steps = run.plan.by_id if run.plan and words else {}
    texts = {  # once for all words: results may be large
        name: _text(state.result)
        for name, state in run.steps.items()
        if state.status is StepStatus.DONE
        and name in steps
        and not isinstance(steps[name], AskStep)
    }
    for word in words:
        if _has(run.request, word):
            quoted = _snippet(run.request, word)
            yield _Answer(Sentence("Your request says so: “{text}”.", text=quoted))
        sources = _sources(word, run, steps, texts)
        for body in bodies:
            match body:
                case e.QuestionAnswered(question=name, answer=given) if name in asked:
                    told = {"answer": _snippet(_text(given), word), "question": asked[name].text}
                    said = Sentence("You answered “{answer}” to the question: {question}", **told)
                    if _has(_text(given), word):
                        yield _Answer(said, asked[name].step or "")
                case e.ChangesAsked(text=text) if _has(text, word):
                    quoted = _snippet(text, word)
                    yield _Answer(Sentence("You asked for this change: “{text}”.", text=quoted))
                case e.StepDone(step=name) if name in sources:
                    sources.remove(name)
                    found = Sentence(
                        "It comes from the step {step} ({callee}), whose result has: “{text}”.",
                        step=name,
                        callee=run.steps[name].callee or _callee(steps[name]) or steps[name].kind,
                        text=_snippet(texts[name], word),
                    )
                    yield _Answer(_all(found, _reason(steps[name].why)), name)
                case _:
                    continue


def _sources(
    word: str, run: Run, steps: Mapping[str, AnyStep], texts: Mapping[str, str]
) -> set[str]:
    """Returns the steps that a word comes from: along the references, from the last answer back.

    A reply that no reference gave the word may still cite a step for it.
    """
    results = {name: run.steps[name].result for name in texts}
    holders = [name for name in texts if _has(texts[name], word)]
    replies = [name for name in holders if isinstance(steps[name], ReplyStep)]
    todo, seen, found = replies[-1:] or holders, set[str](), set[str]()
    while todo:
        name = todo.pop()
        given: set[str] = set()
        for ref in steps[name].refs() if name not in seen else ():
            with suppress(ReferenceFailed):  # one of several that may be missing
                if ref.step in texts and _has(_text(lookup(ref, results)), word):
                    given.add(ref.step)
        if name in replies and not given:
            lines = [line for line in texts[name].splitlines() if _has(line, word)]
            given = {each for line in lines for each in CITATION.findall(line) if each in texts}
        todo += given
        seen.add(name)
        found |= set() if given or name in replies else {name}
    return found


def _of_plan(_: str, words: Sequence[str], digest: RunDigest) -> Iterator[_Answer]:
    """Yields where a plan itself has a word that nobody said and nothing returned."""
    plan = digest.run.plan
    for word in words:
        if plan is None:
            return
        if _has(plan.thought, word):
            yield _Answer(_reason(plan.thought))
        for step in plan.steps:
            fields = {key: value for key, value in step.to_json().items() if key != "id"}
            if _has(_text(fields), word):
                phrase = next(
                    (each for each in _phrases(fields) if _has(each, word)), _text(fields)
                )
                told = {"step": step.id, "text": _snippet(phrase, word)}
                found = Sentence("The plan itself has it, in the step {step}: “{text}”.", **told)
                yield _Answer(_all(found, _reason(step.why)), step.id)
                break


def _callee(step: AnyStep) -> str:
    if isinstance(step, ToolStep):
        return step.tool
    return step.agent if isinstance(step, AgentStep) else ""


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _phrases(value: Json) -> Iterator[str]:
    """Yields the texts in a value that are more than one word: these can be read by themselves."""
    if isinstance(value, str):
        yield from [value] if " " in value else []
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _phrases(each)


def _has(text: str, word: str) -> bool:
    if not text or word.casefold() not in text.casefold():
        return False
    if word.isascii():
        return bool(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE))
    return word in text


def _snippet(text: str, word: str) -> str:
    """Returns the part of a text around a word, on one line."""
    line = " ".join(visible(text).split())
    at = line.casefold().find(word.casefold())
    start, end = max(at - _AROUND, 0), min(at + len(word) + _AROUND, len(line))
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
