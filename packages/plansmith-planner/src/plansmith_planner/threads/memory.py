"""What a thread remembers: what was said, decided and found, and why something is as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from plansmith.errors import JournalDamaged, ReferenceFailed
from plansmith.plan import events as e
from plansmith.plan.data import leaves
from plansmith.plan.earlier import EarlierResult
from plansmith.plan.refs import CITATION, lookup, value_text
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.plan.run_options import RunOptions
from plansmith.plan.sentence import Sentence, in_language, joined
from plansmith.plan.steps import AnyStep, AskStep, ReplyStep
from plansmith.ports import Message
from plansmith.report.data import words_for
from plansmith.report.history import decisions
from plansmith.runs.journals import Journals
from plansmith.text import clip, visible
from plansmith_planner.context.history import RunOutcome
from plansmith_planner.language.messages import asks_about_failure, subject_words
from plansmith_planner.threads.earlier_results import results_of
from plansmith_planner.threads.entries import ReplyGiven, RunJoined, ThreadState
from plansmith_planner.threads.store import ThreadStore

MAX_RUNS: Final = 20
_MAX_ANSWER: Final = 800
_MAX_TEXT: Final = 400
_AROUND: Final = 60  # characters on each side of a word that is quoted
# What is told of a message that has neither a reply nor a run of its own.
_DONE: Final = {
    "answer": "(taken as the answer to a question of the request before)",
    "change": "(the plan was changed as asked)",
}


class RunDigest(NamedTuple):
    """A run with its results and events, as far as they are needed to tell what came of it."""

    run: Run
    events: Sequence[e.Event] = ()


class ThreadMemory:
    """Reads threads and their runs for whoever plans the next request."""

    def __init__(self, journals: Journals) -> None:
        self._journals = journals
        self.store = ThreadStore(journals.store, journals.clock)

    async def digests(self, names: Sequence[str]) -> list[RunDigest]:
        """Returns runs with their results and events; those that are gone are left out."""
        found: list[RunDigest] = []
        for name in names:
            with suppress(JournalDamaged):  # a result is gone
                if (journal := await self._journals.load_or_none(name)) is not None:
                    whole = await self._journals.whole(journal)
                    found.append(RunDigest(whole, tuple(journal.events)))
        return found

    async def results(self, thread: str, message: int | None) -> Sequence[EarlierResult]:
        """Returns the results that a plan for a message may use: those of earlier messages."""
        state = (await self.store.read(thread)).before(message or 1)
        return results_of([each.run for each in await self.digests(state.runs[-MAX_RUNS:])])

    async def before(self, thread: str, message: int | None) -> Sequence[Message]:
        state = await self.store.read(thread)
        asking = state.message(message or 1)
        reader = asking.by if asking else None
        return await self.conversation(state.before(message or 1), reader=reader)

    async def join(self, run: str, options: RunOptions) -> None:
        """Adds a run that repeats or continues one of a thread to that thread."""
        state = await self.store.read(options.thread)
        known = state.message(options.message or 0)
        if known is not None and run not in state.runs:
            await self.store.add(options.thread, RunJoined(run=run, message=known.number))

    async def conversation(
        self, thread: ThreadState, *, reader: e.Actor | None = None
    ) -> tuple[Message, ...]:
        """Returns a thread as messages for a model; what came of each request stands behind it.

        For a request of `reader`, the words of other programs are not those of a user.
        """
        runs = {each.run.id: each for each in await self.digests(thread.runs[-MAX_RUNS:])}
        messages: list[Message] = []
        if thread.summary is not None:
            text = f"[what came before, in short] {thread.summary.text}"
            messages.append(Message("assistant", text))
        elif thread.adopted in runs:
            first = runs[thread.adopted]
            messages += [Message("user", first.run.request), _outcome(first)]
        start = thread.summary.upto if thread.summary else 0
        for message in thread.messages:
            if message.number <= start or (message.undone and message.instead not in runs):
                continue
            run = runs.get(message.instead) or runs.get(message.run)
            reply = Message("assistant", _DONE.get(message.kind or "", ""))
            if message.reply is not None and not message.undone:
                reply = Message("assistant", clip(str(message.reply.text), _MAX_ANSWER))
            elif run is not None and (message.undone or message.kind == "request"):
                reply = _outcome(run, "(taken back by the person) " if message.undone else "")
            own = message.by.kind == "person" or message.by.label == (reader or message.by).label
            words = message.text if own else f"(said by the {message.by.label}) {message.text}"
            messages.append(Message("user" if own else "assistant", words))
            if reply.text or message.reply is not None:
                messages.append(reply if own else Message("assistant", reply.text))
        return tuple(messages)


def _outcome(digest: RunDigest, start: str = "") -> RunOutcome:
    """Says what came of a run: its plan, what was decided, how it stands, what it answered."""
    run, lines = digest.run, [f"Status: {digest.run.status.value}."]
    if run.plan is not None and run.plan.goal and run.plan.goal != run.request:
        lines.append(f"Goal: {clip(run.plan.goal, _MAX_TEXT)}.")
    if run.plan is not None and run.plan.steps:
        lines.append(f"Plan: {', '.join(step.id for step in run.plan.steps[:12])}.")
    wishes = (each.body.text for each in digest.events if isinstance(each.body, e.ChangesAsked))
    lines += [f"A change of the plan was asked for: {clip(each, _MAX_TEXT)}" for each in wishes]
    lines += [each.text for each in decisions(digest.events, words_for("en"))]
    for asked in run.questions.values():
        lines.append(f"Open question: {clip(in_language(asked.text, 'en'), _MAX_TEXT)}")
    answer = answer_text(run)
    lines += [f"Answer: {clip(answer, _MAX_ANSWER)}"] if answer else []
    before = (visible(run.request), run.plan) if run.plan else None
    return RunOutcome("assistant", start + "\n".join(lines), before)


def answer_text(run: Run) -> str:
    """Returns what a run told the person: the texts of its replies, or its answer at once."""
    if run.status is RunStatus.ANSWERED:
        return run.report.strip()
    steps = run.plan.steps if run.plan else ()
    replies = [step.id for step in steps if isinstance(step, ReplyStep) and step.id in run.steps]
    texts = [run.steps[name].result for name in replies]
    return "\n".join(each.strip() for each in texts if isinstance(each, str))


def why(question: str, digests: Sequence[RunDigest]) -> ReplyGiven | None:
    """Answers from the newest run that has something to say about it; None if none has.

    Where a word came from counts more than that a later plan has it too.
    """
    words = subject_words(question)
    for way in (_of_run, _origins, _of_plan):
        for digest in digests:
            found = [*way(question, words, digest)][:3]
            if found:
                step = next((each.step for each in found if each.step), "")
                return ReplyGiven(_all(*(each.text for each in found)), digest.run.id, step)
    return None


def _all(*texts: str) -> str:
    return joined([each for each in texts if each], "thread.both")


def _of_run(question: str, words: Sequence[str], digest: RunDigest) -> Iterator[ReplyGiven]:
    """Answers about failures, a step that is named, or a plan as a whole."""
    run, plan = digest.run, digest.run.plan
    if plan is None:
        return
    errors = [
        ReplyGiven(
            Sentence("The step {step} failed: {error}", step=name, error=state.error), step=name
        )
        for name, state in run.steps.items()
        if state.status is StepStatus.FAILED
    ]
    if not errors and run.reason and run.status.over:
        errors = [ReplyGiven(run.reason)]
    names = ((step, name) for step in plan.steps for name in (step.id, step.title))
    named = next((step for step, name in names if len(name) > 2 and _has(question, name)), None)
    if errors and asks_about_failure(question):
        # All of them belong together, so that they are one answer.
        yield ReplyGiven(_all(*(each.text for each in errors)), step=errors[0].step)
    elif named is not None:
        callee, title = named.callee, named.title or named.id
        about = Sentence("The step {step}: {title}.", step=named.id, title=title)
        if callee:
            about = Sentence("The step {step} calls {callee}.", step=named.id, callee=callee)
        sources = sorted({ref.step for ref in named.input_refs()})
        uses = Sentence("It uses the results of {steps}.", steps=sources) if sources else ""
        failed = [each.text for each in errors if each.step == named.id]
        yield ReplyGiven(_all(about, _reason(named.why), uses, *failed), step=named.id)
    elif not words:
        steps = [step.title or step.id for step in plan.steps[:12]]
        summary = clip(plan.thought or plan.goal, _MAX_TEXT)
        yield ReplyGiven(
            Sentence("The plan says: “{thought}” Its steps: {steps}.", thought=summary, steps=steps)
        )


def _reason(text: str) -> str:
    return Sentence("The plan gives this reason: {why}", why=clip(text, _MAX_TEXT)) if text else ""


def _origins(_: str, words: Sequence[str], digest: RunDigest) -> Iterator[ReplyGiven]:
    """Yields where each word comes from, a person or a result, in the order in which it came up."""
    run, bodies = digest.run, [event.body for event in digest.events]
    asked = {each.question: each for each in bodies if isinstance(each, e.QuestionAsked)}
    steps = run.plan.by_id if run.plan and words else {}
    texts = {  # once for all words: results may be large
        name: value_text(state.result)
        for name, state in run.steps.items()
        if state.status is StepStatus.DONE
        and name in steps
        and not isinstance(steps[name], AskStep)
    }
    for word in words:
        if _has(run.request, word):
            quoted = _snippet(run.request, word)
            yield ReplyGiven(Sentence("Your request says so: “{text}”.", text=quoted))
        sources = _sources(word, run, steps, texts)
        for body in bodies:
            match body:
                case e.QuestionAnswered(question=name, answer=given) if name in asked:
                    text, question = value_text(given), asked[name]
                    fields = {"answer": _snippet(text, word), "question": question.text}
                    line = Sentence("You answered “{answer}” to the question: {question}", **fields)
                    if _has(text, word):
                        yield ReplyGiven(line, step=question.step or "")
                case e.ChangesAsked(text=text) if _has(text, word):
                    quoted = _snippet(text, word)
                    yield ReplyGiven(Sentence("You asked for this change: “{text}”.", text=quoted))
                case e.StepDone(step=name) if name in sources:
                    sources.remove(name)
                    found = Sentence(
                        "It comes from the step {step} ({callee}), whose result has: “{text}”.",
                        step=name,
                        callee=run.steps[name].callee or steps[name].callee or steps[name].kind,
                        text=_snippet(texts[name], word),
                    )
                    yield ReplyGiven(_all(found, _reason(steps[name].why)), step=name)
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
        for ref in steps[name].input_refs() if name not in seen else ():
            with suppress(ReferenceFailed):  # one of several that may be missing
                if ref.step in texts and _has(value_text(lookup(ref, results)), word):
                    given.add(ref.step)
        if name in replies and not given:
            lines = [line for line in texts[name].splitlines() if _has(line, word)]
            given = {each for line in lines for each in CITATION.findall(line) if each in texts}
        todo += given
        seen.add(name)
        found |= set() if given or name in replies else {name}
    return found


def _of_plan(_: str, words: Sequence[str], digest: RunDigest) -> Iterator[ReplyGiven]:
    """Yields where a plan itself has a word that nobody said and nothing returned."""
    plan = digest.run.plan
    for word in words:
        if plan is None:
            return
        if _has(plan.thought, word):
            yield ReplyGiven(_reason(plan.thought))
        for step in plan.steps:
            fields = {key: value for key, value in step.to_json().items() if key != "id"}
            if _has(value_text(fields), word):
                texts = (each for each in leaves(fields) if isinstance(each, str))
                # A text of more than one word can be read by itself.
                read = (each for each in texts if " " in each and _has(each, word))
                phrase = next(read, value_text(fields))
                place = {"step": step.id, "text": _snippet(phrase, word)}
                found = Sentence("The plan itself has it, in the step {step}: “{text}”.", **place)
                yield ReplyGiven(_all(found, _reason(step.why)), step=step.id)
                break


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
