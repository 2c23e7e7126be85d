"""Lets a small model draft tool calls, and makes a plan of them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from plansmith.adapters.models.local.answer_check import check_wording, source_text
from plansmith.adapters.models.local.answer_prompt import answer_start
from plansmith.adapters.models.local.answering import answer
from plansmith.adapters.models.local.brief import DraftTask, offered
from plansmith.adapters.models.local.call_language import calls_grammar, reply_grammar
from plansmith.adapters.models.local.drafted import DraftParts, draft_flaw, new_call, plan_of_draft
from plansmith.adapters.models.local.files import DraftStyle
from plansmith.adapters.models.local.follow_up import (
    completed,
    follow_up_messages,
    follows,
    put_in_place,
)
from plansmith.adapters.models.local.gate import has_evidence, is_reply
from plansmith.adapters.models.local.model import LocalModel
from plansmith.adapters.models.local.prompt import (
    chosen_tools,
    constant_tools,
    draft_prompt,
    folder_prefix,
    prompt_prefix,
)
from plansmith.adapters.models.local.signatures import easiest
from plansmith.adapters.models.local.wording import Task
from plansmith.adapters.models.tokens import count_prompt_tokens
from plansmith.errors import ModelRefused, PromptTooLong
from plansmith.plan.briefs import MessageBrief
from plansmith.plan.capability import ToolSpec
from plansmith.planner.model_calls import total
from plansmith.ports import (
    Delta,
    Message,
    ModelDone,
    PlanBrief,
    Prompt,
    ReplyBrief,
    TextDelta,
    TriageBrief,
    Usage,
)

_WORDING_TOKENS: Final = 3000
_DRAFTS: Final = 2
_DRAFT: Final = 640  # tokens
_SENTENCE: Final = 80
_LINE: Final = "root ::= [^\\n]{1,240}\n"


class DraftingModel:
    """Drafts plans as calls, skips triage, and checks the facts in replies."""

    def __init__(
        self,
        model: LocalModel,
        *,
        style: DraftStyle = DraftStyle.CALLS,
        without: Collection[str] = (),
        wording_tokens: int = _WORDING_TOKENS,
    ) -> None:
        self._model = model
        self._parts = DraftParts.of(style, without)
        self._wording_tokens = wording_tokens

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self._model.name

    def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Yields the answer to whatever the planner or the engine asks."""
        match prompt.brief:
            case PlanBrief() as brief:
                return self._draft(DraftTask.of(brief))
            case TriageBrief() as brief:
                return self._triage(brief)
            case MessageBrief():
                raise ModelRefused("the embedded model does not judge messages: rules do")
            case ReplyBrief(style="results" | "worded", results=results) as brief if results:
                return answer(Task.of(brief), self._model)
            case _ if prompt.schema is None:
                return self._checked(prompt)
            case _:
                return self._model.stream(prompt)

    async def warm(self, tools: Iterable[ToolSpec]) -> AsyncGenerator[TextDelta]:
        """Reads the start of all answers, and of all drafts with these tools; yields how far."""
        known = tuple(map(offered, tools))
        some = chosen_tools(DraftTask("", (), enabled=known)) if self._parts.tuned else ()
        for start in (answer_start(), prompt_prefix(some, self._parts.style)):
            async with aclosing(self._model.prime(start)) as primed:
                async for progress in primed:
                    yield progress

    async def _triage(self, brief: TriageBrief) -> AsyncIterator[Delta]:
        """Always decides to plan: the later check knows the tools and costs nothing.

        A request that leans on earlier ones is completed by them.
        """
        query, usage = put_in_place(brief.request, brief.before), Usage()
        if not query and follows(brief.request, brief.before):
            prompt = Prompt(follow_up_messages(brief.request, brief.before), max_tokens=_SENTENCE)
            async with aclosing(self._model.constrained(prompt, grammar=_LINE)) as pieces:
                async for delta in pieces:
                    query += delta.text if isinstance(delta, TextDelta) else ""
                    usage = delta.usage if isinstance(delta, ModelDone) else usage
                    yield TextDelta("")
            query = completed(query, brief.request, brief.before)
        decision = {"decision": "plan", "reason": "the model sees the tools before it decides"}
        yield TextDelta(json.dumps(decision | {"query": query, "answer": ""}))
        yield ModelDone(usage, self.name)

    async def _draft(self, task: DraftTask) -> AsyncIterator[Delta]:
        parts, style = self._parts, self._parts.style
        tools = chosen_tools(task) if parts.tuned else easiest(task.tools)
        task = replace(task, tools=tools)
        async with aclosing(self._prime(task)) as primed:
            async for progress in primed:
                yield progress
        messages, text, spent = draft_prompt(task, style), "", Usage()
        only = "" if task.tools else "reply"
        if parts.gate and task.tools:
            only, spent = await self._gate(task, messages)
            yield TextDelta("")
        for _ in range(_DRAFTS):
            text, grammar = "", self._grammar(task, only)
            prompt = Prompt(messages, max_tokens=_DRAFT)
            drafted = self._model.constrained(prompt, grammar=grammar)
            async with aclosing(drafted) as pieces:
                async for delta in pieces:
                    spent = total(spent, delta.usage) if isinstance(delta, ModelDone) else spent
                    if isinstance(delta, TextDelta):
                        before, text = text, text + delta.text
                        yield TextDelta("", delta.progress or new_call(before, text))
            flaw = draft_flaw(text, task, parts)
            if not flaw:
                break
            messages = draft_prompt(replace(task, remark=flaw), style)
        yield TextDelta(json.dumps(plan_of_draft(text, task, parts), ensure_ascii=False))
        yield ModelDone(spent, self.name)

    async def _prime(self, task: DraftTask) -> AsyncGenerator[TextDelta]:
        """Reads what later drafts begin with too; not tools that were chosen for one request."""
        style = self._parts.style
        if self._parts.tuned:
            start = folder_prefix(task, style) if constant_tools(task) else []
        else:
            start = prompt_prefix(task.tools, style)
        if start:
            async with aclosing(self._model.prime(start)) as primed:
                async for progress in primed:
                    yield progress

    async def _gate(self, task: DraftTask, messages: Sequence[Message]) -> tuple[str, Usage]:
        """Asks whether the draft is a reply or calls; the prompt stays in the cache."""
        odds, spent = await self._model.odds(messages, '{"', ("reply", "calls"))
        evidence = has_evidence(task.request, task.tools)
        replies = is_reply(odds, evidence=evidence) and not task.remark
        return "reply" if replies else "calls", spent

    def _grammar(self, task: DraftTask, only: str) -> str:
        if only == "reply":
            return reply_grammar()
        # File names and columns are in the language of whoever made them.
        folder = task.files if self._parts.tuned else ""
        return calls_grammar(
            task.request_text,
            task.tools,
            known=folder,
            in_turn=self._parts.in_turn,
            replies=only != "calls",
        )

    async def _checked(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Reads any other text to its end before it yields it: no wrong number may get out."""
        count = count_prompt_tokens(prompt.messages)
        if count > self._wording_tokens:
            raise PromptTooLong(
                f"about {count} tokens of results are too many for the embedded model to word",
                hint="the results themselves are shown",
            )
        text = ""
        async with aclosing(self._model.constrained(prompt)) as pieces:
            async for delta in pieces:
                if isinstance(delta, TextDelta):
                    text += delta.text
                    yield TextDelta("")
                else:
                    check_wording(text, source_text(prompt))
                    yield TextDelta(text)
                    yield delta
