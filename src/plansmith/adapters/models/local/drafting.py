"""A small model behind the planner's own calls: it drafts calls, and a whole plan comes out.

The planner asks as it asks any model. What it offers is read from its prompt; the draft is
gated, written in the language of calls under a grammar, grounded, and turned into a plan.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, cast

from plansmith.adapters.models.local.brief import Brief, read_brief
from plansmith.adapters.models.local.calls import (
    PREFIX,
    calls_grammar,
    calls_messages,
    is_rows,
    reply_grammar,
)
from plansmith.adapters.models.local.gate import has_evidence, is_reply
from plansmith.adapters.models.local.grounding import ASK, grounded, untold_values
from plansmith.adapters.models.local.model import LocalModel
from plansmith.adapters.models.local.queries import unknown_names
from plansmith.adapters.models.local.signatures import easiest
from plansmith.adapters.models.local.unfold import plan_of_calls, plan_of_reply
from plansmith.adapters.models.local.wording import (
    Task,
    check_wording,
    lead,
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
_DRAFTS: Final = 2
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
        brief = replace(brief, tools=easiest(brief.tools))
        prompt = draft_prompt(brief)
        await self._model.prime([*PREFIX, Message("user", "")])
        yield TextDelta("")
        odds, spent = await self._model.odds(prompt, '{"', ("reply", "calls"))
        yield TextDelta("")
        evidence = has_evidence(brief.request, brief.tools)
        likely = is_reply(odds, evidence=evidence) and not brief.remark
        replies = likely or not brief.tools
        text = ""
        for _ in range(_DRAFTS):
            grammar = reply_grammar() if replies else calls_grammar(brief.told, brief.tools)
            text = ""
            async with aclosing(self._model.constrained(prompt, grammar=grammar)) as pieces:
                async for delta in pieces:
                    text += delta.text if isinstance(delta, TextDelta) else ""
                    spent = total(spent, delta.usage) if isinstance(delta, ModelDone) else spent
                    yield TextDelta("")
            flaw = "" if replies or brief.remark else draft_flaw(text, brief)
            if not flaw:
                break
            prompt = draft_prompt(replace(brief, remark=flaw))
        yield TextDelta(json.dumps(_plan(text, brief), ensure_ascii=False))
        yield ModelDone(spent, self.name)

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
        """The facts as they are, behind one sentence of the model's if it keeps to them.

        Where many things were found, their names are the sentence: a small model counts badly.
        """
        sentence, usage = lead(task), Usage()
        if sentence is not None or task.is_quote:
            yield TextDelta(worded(task, sentence or ""))
            yield ModelDone(usage, self.name)
            return
        sentence = ""
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


def draft_flaw(text: str, brief: Brief) -> str:
    """What a model is told of its draft, once: rows that only a call can give, wrong queries."""
    tools = {tool.name: tool for tool in brief.tools}
    drafted = cast("list[dict[str, Any]]", json.loads(text)["calls"])
    flaws = [
        f'{call["tool"]} needs {name} from a call before it, as "$1"'
        for call in _calls(text, brief)
        for name in tools[call["tool"]].required
        if call["args"].get(name, ASK) == ASK and is_rows(tools[call["tool"]].fields.get(name))
    ]
    for call in drafted:
        for name, schema in tools[call["tool"]].fields.items():
            query = call["args"].get(name)
            if schema.get("format") == "sql" and isinstance(query, str) and query != ASK:
                flaws += _query_flaws(query, brief)
    return f"Your answer before had problems: {'; '.join(flaws[:3])}" if flaws else ""


def _query_flaws(query: str, brief: Brief) -> list[str]:
    names = [f"there is no {name}" for name in unknown_names(query, brief.context)]
    values = untold_values(query, brief.told)
    return [*names, *(f"the request does not say {value}: leave it out" for value in values)]


def _calls(text: str, brief: Brief) -> list[dict[str, Any]]:
    tools = {tool.name: tool for tool in brief.tools}
    return grounded(json.loads(text)["calls"], tools, brief.told, brief.context)


def _plan(text: str, brief: Brief) -> dict[str, Json]:
    answer: dict[str, Any] = json.loads(text)
    if "reply" in answer:
        return plan_of_reply(str(answer["reply"]), brief.request)
    tools = {tool.name: tool for tool in brief.tools}
    return plan_of_calls(_calls(text, brief), tools, brief.request)
