"""Writes the text of a reply step: worded by a writer, or the results as they are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from plansmith.errors import ModelFailed, ToolBusy
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.refs import Ref, fill_by_ref_text, pieces, value_text, without_citations
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, MapStep, ReplyStep, ReplyStyle
from plansmith.ports import Call, Message, ReplyBrief, ReplyWriter
from plansmith.report.data import words_for
from plansmith.report.result_text import facts

_TRIES: Final = 2
History = Callable[[], Awaitable[Sequence[Message]]]


async def no_history() -> Sequence[Message]:
    """Says that nothing came before a message."""
    return ()


class Replies:
    """Writes the replies of a run; `history` reads the conversation before its request.

    Without a writer, when it fails, or where there is nothing to word, a reply is its instruction
    with the results filled in.
    """

    def __init__(self, run: Run, writer: ReplyWriter | None, history: History = no_history) -> None:
        self._run = run
        self._writer = writer
        self._history = history

    async def __call__(
        self,
        instruction: str,
        call: Call,
        results: Mapping[str, Json] | None = None,
        style: ReplyStyle = "worded",
    ) -> str:
        """Returns the text of one reply.

        `results` are the values of the references in the instruction, by their text; without
        them the instruction has its values filled in already.
        """
        brief = ReplyBrief(instruction, results or {}, style, self._run.locale)
        if self._writer is None or (style == "worded" and _needs_no_words(brief)):
            return self._plainly(brief)
        try:
            text = (await self._writer.write(brief, await self._history(), call)).strip()
        except ModelFailed as failure:
            return self._not_worded(brief, failure.message)
        if text:
            plan, templates = self._run.plan, self._run.templates.values()
            # A text that other steps get has no marks of its sources.
            is_used = plan is not None and instruction in _used_replies(plan, templates)
            return without_citations(text) if is_used else text
        if call.attempt < _TRIES:
            raise ToolBusy(Sentence("the model gave an empty answer"))
        return self._not_worded(brief, Sentence("the model gave an empty answer"))

    def _not_worded(self, brief: ReplyBrief, reason: str) -> str:
        why = words_for(brief.locale)["plainly"].format(reason=reason)
        return f"{why}\n\n{self._plainly(brief)}"

    def _plainly(self, brief: ReplyBrief) -> str:
        """Returns a reply that nobody words: values in their places, or tables and lists.

        The text of an agent is Markdown; that of a tool is data.
        """
        if brief.style != "results" or not brief.results:
            return fill_by_ref_text(brief.instruction, brief.results)
        steps = self._run.plan.by_id if self._run.plan else {}
        parts = [" ".join(_own_words(brief).split())]
        for ref, value in brief.results.items():
            step = next(
                (steps.get(each.step) for each in pieces(ref) if isinstance(each, Ref)), None
            )
            is_written = isinstance(value, str) and isinstance(step, AgentStep | ReplyStep)
            text = value_text(value)
            parts.append(text if is_written else facts(text, language=brief.locale))
        return "\n\n".join(filter(None, parts))


def _used_replies(plan: Plan, templates: Iterable[Plan]) -> frozenset[str]:
    """Returns the instructions of replies whose text other steps get, in templates and maps too."""
    found = {ref.step for step in plan.steps for ref in step.input_refs()}
    replies = [step for step in plan.steps if isinstance(step, ReplyStep) and step.id in found]
    inner = [step.each for step in plan.steps if isinstance(step, MapStep)]
    below = [step for each in templates for step in each.steps]
    within = [step for step in (*inner, *below) if isinstance(step, ReplyStep)]
    return frozenset(step.instruction for step in (*replies, *within))


def _needs_no_words(brief: ReplyBrief) -> bool:
    """Tells whether an instruction has no word of its own, and fills in texts and numbers alone."""
    is_flat = not any(isinstance(each, (dict, list)) for each in brief.results.values())
    return bool(brief.results) and is_flat and not any(map(str.isalpha, _own_words(brief)))


def _own_words(brief: ReplyBrief) -> str:
    return "".join(each for each in pieces(brief.instruction) if isinstance(each, str))
