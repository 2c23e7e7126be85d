"""A small model behind the planner's own calls: it drafts calls, and a whole plan comes out.

The planner asks as it asks any model. What it offers is read from its prompt; the draft is
gated, written in the language of calls under a grammar, grounded, and turned into a plan.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, cast

from plansmith.adapters.models.local.brief import Brief, read_brief
from plansmith.adapters.models.local.calls import (
    PREFIX,
    calls_grammar,
    calls_messages,
    reply_grammar,
)
from plansmith.adapters.models.local.gate import has_evidence, is_reply
from plansmith.adapters.models.local.grounding import grounded
from plansmith.adapters.models.local.model import LocalModel
from plansmith.adapters.models.local.unfold import plan_of_calls, plan_of_reply
from plansmith.adapters.models.local.wording import (
    Task,
    check_wording,
    phrase_messages,
    read_task,
    said_exactly,
    worded,
)
from plansmith.adapters.models.tokens import count_prompt_tokens
from plansmith.errors import ModelFailed, PromptTooLong
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.planner.listen import total
from plansmith.ports import Delta, Message, ModelDone, TextDelta, Usage

_WORDING_TOKENS: Final = 3000
_SENTENCE: Final = 80  # tokens
_LINE: Final = "root ::= [^\\n]{1,240}\n"


class DraftingModel:
    """Drafts plans as calls, decides nothing at triage, and is held to the facts in replies."""

    def __init__(self, model: LocalModel, *, wording_tokens: int = _WORDING_TOKENS) -> None:
        self._model = model
        self._wording_tokens = wording_tokens

    @property
    def name(self) -> str:
        """The name of the model behind."""
        return self._model.name

    def stream(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Json] | None = None,
        tools: Sequence[ToolSpec] = (),
    ) -> AsyncIterator[Delta]:
        """The answer to whatever the planner or the runner asks."""
        brief = read_brief(messages)
        if brief is not None:
            return self._draft(brief)
        if schema is None:
            return self._word(messages)
        if "decision" in cast("Mapping[str, Any]", schema.get("properties") or {}):
            return self._triage(messages)
        return self._model.stream(messages, schema=schema, tools=tools)

    async def _triage(self, messages: Sequence[Message]) -> AsyncIterator[Delta]:
        """Plan, unasked: the gate decides better once the tools are known, and costs nothing."""
        del messages
        said = {"decision": "plan", "reason": "the gate decides when the tools are known"}
        yield TextDelta(json.dumps(said | {"query": "", "answer": ""}))
        yield ModelDone(Usage(), self.name)

    async def _draft(self, brief: Brief) -> AsyncIterator[Delta]:
        prompt = draft_prompt(brief)
        await self._model.prime([*PREFIX, Message("user", "")])
        yield TextDelta("")
        odds, spent = await self._model.odds(prompt, '{"', ("reply", "calls"))
        yield TextDelta("")
        evidence = has_evidence(brief.request, brief.tools)
        replies = is_reply(odds, evidence=evidence) and not brief.remark
        grammar = (
            reply_grammar()
            if replies or not brief.tools
            else calls_grammar(brief.told, brief.tools)
        )
        text, usage = "", Usage()
        async with aclosing(self._model.constrained(prompt, grammar=grammar)) as pieces:
            async for delta in pieces:
                match delta:
                    case TextDelta(piece):
                        text += piece
                        yield TextDelta("")
                    case ModelDone(usage=usage):
                        pass
                    case _:
                        pass
        yield TextDelta(json.dumps(_plan(text, brief), ensure_ascii=False))
        yield ModelDone(total(spent, usage), self.name)

    def _word(self, messages: Sequence[Message]) -> AsyncIterator[Delta]:
        prompt = "\n".join(message.text for message in messages)
        exact, task = said_exactly(prompt), read_task(prompt)
        if exact:
            return self._say(exact)
        return self._answer(task) if task is not None else self._checked(messages, prompt)

    async def _say(self, text: str) -> AsyncIterator[Delta]:
        yield TextDelta(text)
        yield ModelDone(Usage(), self.name)

    async def _answer(self, task: Task) -> AsyncIterator[Delta]:
        """The facts as they are, behind one sentence of the model's if it keeps to them."""
        sentence, usage = "", Usage()
        try:
            prompt = phrase_messages(task)
            pieces = self._model.constrained(prompt, grammar=_LINE, max_tokens=_SENTENCE)
            async with aclosing(pieces):
                async for delta in pieces:
                    yield TextDelta("")
                    sentence += delta.text if isinstance(delta, TextDelta) else ""
                    usage = delta.usage if isinstance(delta, ModelDone) else usage
        except ModelFailed:
            sentence = ""  # a sentence without an end is worth nothing, the facts are
        yield TextDelta(worded(task, sentence))
        yield ModelDone(usage, self.name)

    async def _checked(self, messages: Sequence[Message], prompt: str) -> AsyncIterator[Delta]:
        """Any other text, heard to its end first: a wrong number must not get out."""
        count = count_prompt_tokens(messages)
        if count > self._wording_tokens:
            raise PromptTooLong(
                f"about {count} tokens of results are too many for the embedded model to word",
                hint="the results themselves are shown",
            )
        text = ""
        async with aclosing(self._model.constrained(messages)) as pieces:
            async for delta in pieces:
                if isinstance(delta, TextDelta):
                    text += delta.text
                    yield TextDelta("")
                else:
                    check_wording(text, prompt)
                    yield TextDelta(text)
                    yield delta


def draft_prompt(brief: Brief) -> list[Message]:
    """The prompt of a draft: the same start for all, then what this brief says."""
    known = [brief.context] if brief.context else []
    known += [f"Now: {brief.now}"] if brief.now else []
    context = "\n".join(known)
    return calls_messages(brief.request, brief.tools, context=context, remark=brief.remark)


def _plan(text: str, brief: Brief) -> dict[str, Json]:
    answer: dict[str, Any] = json.loads(text)
    if "reply" in answer:
        return plan_of_reply(str(answer["reply"]), brief.request)
    tools = {tool.name: tool for tool in brief.tools}
    calls = grounded(answer["calls"], tools, brief.told, brief.context)
    return plan_of_calls(calls, tools, brief.request)
