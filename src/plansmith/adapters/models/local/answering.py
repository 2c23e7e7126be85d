"""Lets a small model write an answer from results, and keeps of it what the results bear out."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Final, Protocol

from plansmith.adapters.models.local.answer_prompt import (
    answer_messages,
    answer_start,
    is_summary,
    material,
)
from plansmith.adapters.models.local.wording import Task, without_model, worded
from plansmith.errors import ModelFailed
from plansmith.ports import Delta, Message, ModelDone, Prompt, TextDelta, Usage

# Tokens and shape of an answer: one line, or several for a summary or a written text. The tokens
# bound its length: counted repetitions in a grammar are refused beyond a few hundred.
_SENTENCE: Final = (100, "root ::= [^\\n]+\n")
_SUMMARY: Final = (220, 'root ::= [^\\n]+ ("\\n" [^\\n]+)*\n')
_WRITTEN: Final = (320, 'root ::= [^\\n]+ ("\\n" "\\n"? [^\\n]+)*\n')
_END: Final = re.compile(r"[.!?。！？](?=\s|$|[^\x00-\x7f])|\n")


class Constrained(Protocol):
    """A model that answers in the form of a grammar."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    def constrained(self, prompt: Prompt, *, grammar: str = "") -> AsyncGenerator[Delta]:
        """Yields the answer to a prompt, constrained by a GBNF grammar."""
        ...

    def prime(self, messages: Sequence[Message]) -> AsyncGenerator[TextDelta]:
        """Reads the start of later prompts, once for all processes."""
        ...


async def answer(task: Task, model: Constrained) -> AsyncIterator[Delta]:
    """Yields the answer by rules, or else with what the model says, at its end and checked."""
    ready, usage = without_model(task), Usage()
    if ready is not None:
        yield TextDelta(ready)
        yield ModelDone(usage, model.name)
        return
    limit, grammar = _WRITTEN if task.writes else _SENTENCE
    if is_summary(task.request) and not task.writes:
        limit, grammar = _SUMMARY
    results = material(task.request, list(task.results.values()))
    asked = answer_messages(task.request, results, writes=task.writes)
    said = ""
    try:
        async with aclosing(model.prime(answer_start())) as primed:
            async for _ in primed:
                yield TextDelta("")
        pieces = model.constrained(Prompt(asked, max_tokens=limit), grammar=grammar)
        async with aclosing(pieces):
            async for delta in pieces:
                yield TextDelta("")
                said += delta.text if isinstance(delta, TextDelta) else ""
                usage = delta.usage if isinstance(delta, ModelDone) else usage
    except ModelFailed:
        said = _whole_sentences(said)  # the rest has no end
    yield TextDelta(worded(task, said))
    yield ModelDone(usage, model.name)


def _whole_sentences(text: str) -> str:
    ends = [found.end() for found in _END.finditer(text)]
    return text[: ends[-1]] if ends else ""
