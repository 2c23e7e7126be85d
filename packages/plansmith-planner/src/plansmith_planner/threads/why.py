"""Answers why a plan or a result is as it is, from the journal, with the step named."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from plansmith.errors import ReferenceFailed
from plansmith.plan import events as e
from plansmith.plan.refs import CITATION, Ref, lookup
from plansmith.plan.run import StepStatus
from plansmith.plan.sentence import Sentence, joined
from plansmith.plan.steps import AgentStep, AnyStep, AskStep, ReplyStep, ToolStep
from plansmith.plan.thread import ThreadReply
from plansmith.text import clip, visible
from plansmith_planner.language.messages import asks_about_failure, subject_words

if TYPE_CHECKING:
    from plansmith.plan.data import Json
    from plansmith.plan.run import Run
    from plansmith_planner.threads.digest import RunDigest

_AROUND: Final = 60
_MOST: Final = 3


class _Origin(NamedTuple):
    """Where a word comes from: a sentence about it, and the step."""

    text: str
    step: str = ""


def why(question: str, digests: Sequence[RunDigest]) -> ThreadReply | None:
    """Answers from the newest run that has something to say about it; None if none has.

    Where a word came from counts more than that a later plan has it too.
    """
    words = subject_words(question)
    for look in (_told_by_run, _told_by_origin, _told_by_plan):
        for each in digests:
            found = look(question, words, each)
            if found is not None:
                return found
    return None


def _told_by_run(question: str, words: list[str], digest: RunDigest) -> ThreadReply | None:
    """Answers about a failure, a step that is named, or a plan as a whole."""
    run = digest.run
    if run.plan is not None and asks_about_failure(question):
        failed = _failures(run)
        if failed:
            return ThreadReply(_all(each.text for each in failed), run.id, failed[0].step)
    named = _named_step(question, run)
    if named is not None:
        return ThreadReply(_all(_of_step(named, run)), run.id, named.id)
    if not words and run.plan is not None:
        return ThreadReply(_of_plan(run), run.id)
    return None


def _told_by_origin(_: str, words: list[str], digest: RunDigest) -> ThreadReply | None:
    """Answers where a word came from: a person, or a result."""
    return _reply([*_origins(words, digest)], digest.run)


def _told_by_plan(_: str, words: list[str], digest: RunDigest) -> ThreadReply | None:
    """Answers where a plan itself has a word that nobody said and nothing returned."""
    return _reply([found for word in words for found in _from_plan(word, digest.run)], digest.run)


def _reply(origins: list[_Origin], run: Run) -> ThreadReply | None:
    if not origins:
        return None
    step = next((each.step for each in origins if each.step), "")
    return ThreadReply(_all(each.text for each in origins[:_MOST]), run.id, step)


def _all(texts: Iterable[str]) -> str:
    return joined([*texts], "thread.both")


def _named_step(question: str, run: Run) -> AnyStep | None:
    """Returns the step that a question names by its id or title."""
    said = question.casefold()
    for step in run.plan.steps if run.plan else ():
        names = [step.id.casefold(), step.title.casefold()]
        if any(
            len(each) > 2 and re.search(rf"(?<!\w){re.escape(each)}(?!\w)", said) for each in names
        ):
            return step
    return None


def _of_plan(run: Run) -> str:
    assert run.plan is not None  # noqa: S101
    thought = run.plan.thought or run.plan.goal
    steps = [step.title or step.id for step in run.plan.steps]
    return Sentence(
        "The plan says: “{thought}” Its steps: {steps}.",
        thought=clip(thought, 400),
        steps=steps[:12],
    )


def _of_step(step: AnyStep, run: Run) -> Iterator[str]:
    callee = _callee(step)
    yield (
        Sentence("The step {step} calls {callee}.", step=step.id, callee=callee)
        if callee
        else Sentence("The step {step}: {title}.", step=step.id, title=step.title or step.id)
    )
    if step.why:
        yield Sentence("The plan gives this reason: {why}", why=clip(step.why, 400))
    sources = sorted({ref.step for ref in step.refs()})
    if sources:
        yield Sentence("It uses the results of {steps}.", steps=sources)
    state = run.steps.get(step.id)
    if state is not None and state.error:
        yield Sentence("The step {step} failed: {error}", step=step.id, error=state.error)


def _failures(run: Run) -> list[_Origin]:
    failed = [
        _Origin(Sentence("The step {step} failed: {error}", step=name, error=state.error), name)
        for name, state in run.steps.items()
        if state.status is StepStatus.FAILED
    ]
    return failed or ([_Origin(run.reason)] if run.reason and run.status.over else [])


def _origins(words: list[str], digest: RunDigest) -> Iterator[_Origin]:
    """Yields where the words come from, in the order in which they came up."""
    run, texts = digest.run, _texts_of(digest.run) if words else {}
    for word in words:
        if _has(run.request, word):
            yield _Origin(
                Sentence("Your request says so: “{text}”.", text=_snippet(run.request, word))
            )
        yield from _from_events(word, digest, texts)


def _texts_of(run: Run) -> dict[str, str]:
    """Returns the results of steps as text, once for all words: they may be large."""
    steps = run.plan.by_id if run.plan else {}
    return {
        name: _text(state.result)
        for name, state in run.steps.items()
        if state.status is StepStatus.DONE
        and name in steps
        and not isinstance(steps[name], AskStep)
    }


def _from_events(word: str, digest: RunDigest, texts: Mapping[str, str]) -> Iterator[_Origin]:
    asked: dict[str, e.QuestionAsked] = {}
    sources = _sources(word, digest.run, texts)
    for event in digest.events:
        match event.body:
            case e.QuestionAsked() as question:
                asked[question.question] = question
            case e.QuestionAnswered(question=name, answer=answer) if name in asked:
                if _has(_text(answer), word):
                    question = asked[name]
                    shown = _snippet(_text(answer), word)
                    said = Sentence(
                        "You answered “{answer}” to the question: {question}",
                        answer=shown,
                        question=question.text,
                    )
                    yield _Origin(said, question.step or "")
            case e.ChangesAsked(text=text) if _has(text, word):
                yield _Origin(
                    Sentence("You asked for this change: “{text}”.", text=_snippet(text, word))
                )
            case e.StepDone(step=name) if name in sources:
                sources.remove(name)
                yield _from_step(name, word, digest.run, texts[name])
            case _:
                continue


def _sources(word: str, run: Run, texts: Mapping[str, str]) -> set[str]:
    """Returns the steps that a word comes from: along the references, from the last answer back.

    A reply that no reference gave the word may still cite a step for it.
    """
    steps = run.plan.by_id if run.plan else {}
    results = {name: run.steps[name].result for name in texts}
    holders = [name for name in texts if _has(texts[name], word)]
    replies = [name for name in holders if isinstance(steps[name], ReplyStep)]
    todo, seen, found = replies[-1:] or holders, set[str](), set[str]()
    while todo:
        name = todo.pop()
        refs = [ref for ref in steps[name].refs() if ref.step in texts and name not in seen]
        given = {ref.step for ref in refs if _has(_given(ref, results), word)}
        if name in replies and not given:
            lines = [line for line in texts[name].splitlines() if _has(line, word)]
            given = {each for line in lines for each in CITATION.findall(line) if each in texts}
        todo += given
        seen.add(name)
        found |= set() if given or name in replies else {name}
    return found


def _given(ref: Ref, results: Mapping[str, Json]) -> str:
    with suppress(ReferenceFailed):  # one of several that may be missing
        return _text(lookup(ref, results))
    return ""


def _from_step(name: str, word: str, run: Run, result: str) -> _Origin:
    assert run.plan is not None  # noqa: S101
    step = run.plan.by_id[name]
    found = Sentence(
        "It comes from the step {step} ({callee}), whose result has: “{text}”.",
        step=name,
        callee=run.steps[name].callee or _callee(step) or step.kind,
        text=_snippet(result, word),
    )
    return _Origin(_all([found, *_reason(step)]), name)


def _from_plan(word: str, run: Run) -> Iterator[_Origin]:
    """Yields the first step of a plan whose own text has a word, or the plan's reason."""
    if run.plan is not None and _has(run.plan.thought, word):
        yield _Origin(
            Sentence("The plan gives this reason: {why}", why=clip(run.plan.thought, 400))
        )
    for step in run.plan.steps if run.plan else ():
        fields = step.to_json()
        told = _text({key: value for key, value in fields.items() if key != "id"})
        if _has(told, word):
            text = next((each for each in _texts(fields) if _has(each, word)), told)
            found = Sentence(
                "The plan itself has it, in the step {step}: “{text}”.",
                step=step.id,
                text=_snippet(text, word),
            )
            yield _Origin(_all([found, *_reason(step)]), step.id)
            return


def _reason(step: AnyStep) -> Iterator[str]:
    if step.why:
        yield Sentence("The plan gives this reason: {why}", why=clip(step.why, 400))


def _callee(step: AnyStep) -> str:
    if isinstance(step, ToolStep):
        return step.tool
    return step.agent if isinstance(step, AgentStep) else ""


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _texts(value: Json) -> Iterator[str]:
    """Yields the texts in a value that are more than one word: these can be read by themselves."""
    if isinstance(value, str):
        yield from [value] if " " in value else []
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


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
