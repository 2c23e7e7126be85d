"""Writes the text of a reply step with a model, in the language of the run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from plansmith.errors import ModelFailed, ToolBusy
from plansmith.plan.citations import without_citations
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.refs import Ref, pieces, value_text
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, language_of
from plansmith.plan.steps import MapStep, ReplyStep, ReplyStyle
from plansmith.planner.context.fence import fence
from plansmith.planner.context.history import TITLE, recall
from plansmith.planner.context.token_budget import Count, Part, clipped, fit, rough_count
from plansmith.planner.model_calls import read_answer, render
from plansmith.ports import Call, ChatModel, ContextBlock, Message, Prompt, ReplyBrief
from plansmith.report.result_text import Language, facts
from plansmith.report.words import words_for

MAX_TOKENS: Final = 24_000
_TRIES: Final = 2
_SAID_TOKENS: Final = 1_500
_SMALL: Final = 200
_CITE: Final = (
    "Put the step that a statement rests on behind it, in this form: [step:ID]. "
    "These are the steps there are: {names}."
)
_AS_RESULTS: Final = "\n\nShow the results themselves, as tables and lists."


class Composer:
    """Writes replies; clips results that do not fit into the prompt, with a note.

    Without a model, when it fails, or where there is nothing to word, a reply is its instruction
    with the results filled in.
    `said` reads the conversation before the request; `used` gives the instructions of replies that
    other steps use: their text has no marks of its sources.
    """

    def __init__(
        self,
        model: ChatModel | None,
        *,
        locale: str = "en",
        prompts: Path | None = None,
        tokens: int = MAX_TOKENS,
        count: Count = rough_count,
        said: Callable[[], Awaitable[Sequence[Message]]] | None = None,
        used: Callable[[], Collection[str]] = frozenset[str],
    ) -> None:
        self._model = model
        self._locale = locale
        self._prompts = prompts
        self._tokens = tokens
        self._count = count
        self._said = said
        self._used = used

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
        given = results or {}
        if self._model is None or (style == "worded" and _needs_no_words(instruction, given)):
            return self._plainly(instruction, given, style)
        prompt = await self._conversation() + self._reply_prompt(instruction, given)
        prompt += _AS_RESULTS if style == "results" else ""
        text = render("reply", folder=self._prompts, locale=self._locale, instruction=prompt)
        brief = ReplyBrief(instruction, given, style, self._locale)
        try:
            stream = self._model.stream(Prompt([Message("user", text)], brief=brief))
            answer = await read_answer(stream, on_progress=call.progress)
        except ModelFailed as failure:
            return self._without_model(self._plainly(instruction, given, style), failure.message)
        call.spend(answer.usage)
        if answer.text.strip():
            text = answer.text.strip()
            return without_citations(text) if instruction in self._used() else text
        if call.attempt < _TRIES:
            raise ToolBusy(Sentence("model.empty_answer"))
        plainly = self._plainly(instruction, given, style)
        return self._without_model(plainly, Sentence("model.empty_answer"))

    async def _conversation(self) -> str:
        """Returns the conversation before the request, so that a reply fits into it."""
        messages = await self._said() if self._said is not None else ()
        if not messages:
            return ""
        said = await recall(messages, tokens=_SAID_TOKENS, count=self._count)
        return fence(TITLE, said.text) + "\n\n"

    def _reply_prompt(self, instruction: str, results: Mapping[str, Json]) -> str:
        """Returns the model's material: the instruction first, then each result in equal shares."""
        if not results:
            whole = clipped(instruction, tokens=self._tokens, count=self._count)
            return fence("what to say, and the results", whole)
        # A small value stays in its place; a large one would bury the instruction.
        small = {name: each for name, each in results.items() if len(value_text(each)) <= _SMALL}
        task = filled(instruction, small)
        short = clipped(task, tokens=self._tokens // 2, count=self._count)
        names = ", ".join(dict.fromkeys(_step_of(name) for name in results))
        head = f"{fence('what to say', short)}\n\n{_CITE.format(names=names)}\n\n"
        parts = [
            Part((ContextBlock(f"result {name}", value_text(value), _step_of(name)),))
            for name, value in results.items()
        ]
        left = self._tokens - self._count(head) - 1
        fitted = fit(parts, tokens=max(left, 0), count=self._count)
        return head + (fitted.text or "; ".join(fitted.notes))

    def _plainly(self, instruction: str, results: Mapping[str, Json], style: ReplyStyle) -> str:
        """Returns a reply that no model words: values in their places, or tables and lists."""
        if style != "results" or not results:
            return filled(instruction, results)
        own = "".join(each for each in pieces(instruction) if isinstance(each, str))
        tables = (
            facts(value_text(each), language=_language(self._locale)) for each in results.values()
        )
        return "\n\n".join(filter(None, (" ".join(own.split()), *tables)))

    def _without_model(self, instruction: str, reason: str) -> str:
        return f"{words_for(self._locale)['plainly'].format(reason=reason)}\n\n{instruction}"


def _language(locale: str) -> Language:
    return "zh" if language_of(locale) == "zh" else "en"


Said = Callable[[], Awaitable[Sequence[Message]]]


def composer_of(
    run: Run, model: ChatModel | None, *, prompts: Path | None = None, said: Said | None = None
) -> Composer:
    """Returns what writes the replies of a run."""

    def used() -> frozenset[str]:
        return _used_replies(run.plan, run.templates.values()) if run.plan else frozenset()

    return Composer(model, locale=run.locale, prompts=prompts, said=said, used=used)


def _used_replies(plan: Plan, templates: Iterable[Plan]) -> frozenset[str]:
    """Returns the instructions of replies whose text other steps get, in templates and maps too."""
    found = {ref.step for step in plan.steps for ref in step.refs()}
    replies = [step for step in plan.steps if isinstance(step, ReplyStep) and step.id in found]
    inner = [step.each for step in plan.steps if isinstance(step, MapStep)]
    below = [step for each in templates for step in each.steps]
    within = [step for step in (*inner, *below) if isinstance(step, ReplyStep)]
    return frozenset(step.instruction for step in (*replies, *within))


def _needs_no_words(instruction: str, results: Mapping[str, Json]) -> bool:
    """Whether an instruction has no word of its own, and fills in texts and numbers alone."""
    own = "".join(each for each in pieces(instruction) if isinstance(each, str))
    is_flat = not any(isinstance(each, (dict, list)) for each in results.values())
    return bool(results) and is_flat and not any(each.isalpha() for each in own)


def filled(instruction: str, results: Mapping[str, Json]) -> str:
    """Returns the instruction with its references replaced; inserted text is never parsed again."""
    if not results:
        return instruction
    return "".join(
        value_text(results[str(piece)])
        if isinstance(piece, Ref) and str(piece) in results
        else str(piece)
        for piece in pieces(instruction)
    )


def _step_of(name: str) -> str:
    """Returns the step that a reference such as `{{oslo.weather[0]}}` names."""
    found = pieces(name)[0]
    return found.step if isinstance(found, Ref) else name
