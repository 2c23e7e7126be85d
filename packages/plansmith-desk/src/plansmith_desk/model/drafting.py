"""Lets a small model draft tool calls, and makes a plan of them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from plansmith.errors import ModelRefused, PromptTooLong
from plansmith.plan.briefs import MessageBrief
from plansmith.plan.capability import ToolSpec
from plansmith.plan.sentence import Sentence
from plansmith.ports import (
    Delta,
    ModelDone,
    PlanBrief,
    Prompt,
    ReplyBrief,
    TextDelta,
    TriageBrief,
    Usage,
)
from plansmith_desk.model.answer_prompt import answer_start
from plansmith_desk.model.call_language import calls_grammar
from plansmith_desk.model.calls_to_plan import plan_of_draft
from plansmith_desk.model.follow_up import completed, follow_up_messages, follows, put_in_place
from plansmith_desk.model.model import LocalModel
from plansmith_desk.model.prompt import (
    DraftTask,
    chosen_tools,
    constant_tools,
    draft_prompt,
    folder_prefix,
    prompt_prefix,
)
from plansmith_desk.model.signatures import offered
from plansmith_desk.model.wording import Task, answer
from plansmith_planner.models.fact_checked import FactCheckedModel
from plansmith_planner.models.tokens import count_prompt_tokens

_WORDING_TOKENS: Final = 3000
_DRAFT: Final = 640  # tokens
_SENTENCE: Final = 80
_LINE: Final = "root ::= [^\\n]{1,240}\n"
_TOOL: Final = re.compile(r'"tool": ?"([^"]+)"')


class DraftingModel:
    """Drafts plans as calls, skips triage, and checks the facts in replies."""

    def __init__(
        self,
        model: LocalModel,
        *,
        without: Collection[str] = (),
        wording_tokens: int = _WORDING_TOKENS,
    ) -> None:
        self.name = model.name
        self._model = model
        self._without = without
        self._wording_tokens = wording_tokens

    def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Yields the answer to whatever the planner or the engine asks."""
        match prompt.brief:
            case PlanBrief() as brief:
                return self._draft(DraftTask.of(brief))
            case TriageBrief() as brief:
                return self._triage(brief)
            case MessageBrief():
                raise ModelRefused(Sentence("the embedded model does not judge messages: rules do"))
            case ReplyBrief(style="results" | "worded", results=results) as brief if results:
                return answer(Task.of(brief), self._model)
            case _:
                return self._other(prompt)

    async def warm(self, tools: Iterable[ToolSpec]) -> AsyncGenerator[TextDelta]:
        """Reads the start of all answers, and of all drafts with these tools; yields how far."""
        known = tuple(map(offered, tools))
        some = chosen_tools(DraftTask("", (), enabled=known))
        for start in (answer_start(), prompt_prefix(some)):
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
        task = replace(task, tools=chosen_tools(task))
        # Read what later drafts begin with, too; not tools that were chosen for one request.
        if constant_tools(task):
            async with aclosing(self._model.prime(folder_prefix(task))) as primed:
                async for progress in primed:
                    yield progress
        text, usage, named = "", Usage(), 0
        prompt = Prompt(draft_prompt(task), max_tokens=_DRAFT)
        # File names and columns are in the language of whoever made them.
        grammar = calls_grammar(task.request_text, task.tools, known=task.file_lines())
        async with aclosing(self._model.constrained(prompt, grammar=grammar)) as pieces:
            async for delta in pieces:
                usage = delta.usage if isinstance(delta, ModelDone) else usage
                if isinstance(delta, TextDelta):
                    text += delta.text
                    told, calls = delta.progress, _TOOL.findall(text)
                    if len(calls) > named and not told:
                        named = len(calls)
                        told = Sentence("step {number}: {tool}", number=named, tool=calls[-1])
                    yield TextDelta("", told)
        plan = plan_of_draft(text, task, self._without)
        yield TextDelta(json.dumps(plan, ensure_ascii=False))
        yield ModelDone(usage, self.name)

    def _other(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Answers anything else; a text is read to its end first: no wrong number may get out."""
        count = count_prompt_tokens(prompt.messages)
        if prompt.schema is None and count > self._wording_tokens:
            raise PromptTooLong(
                Sentence(
                    "about {count} tokens of results are too many for the embedded model to word",
                    count=count,
                ),
                hint=Sentence("the results themselves are shown"),
            )
        return FactCheckedModel(self._model).stream(prompt)
