"""A small model behind the planner's own calls: it drafts calls, and a whole plan comes out.

The planner asks as it asks any model, and its prompt carries a brief. The draft is
gated, written in the language of calls under a grammar, grounded, and turned into a plan.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, cast

from plansmith.adapters.models.local.brief import DraftTask
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
    told_in,
    worded,
)
from plansmith.adapters.models.tokens import count_prompt_tokens
from plansmith.errors import ModelFailed, PromptTooLong
from plansmith.plan.data import Json
from plansmith.planner.listen import total
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

    def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """The answer to whatever the planner or the runner asks."""
        match prompt.brief:
            case PlanBrief() as brief:
                return self._draft(DraftTask.of(brief))
            case TriageBrief():
                return self._triage()
            case ReplyBrief(style="results") as brief:
                return self._answer(Task.of(brief))
            case _ if prompt.schema is None:
                return self._checked(prompt)
            case _:
                return self._model.stream(prompt)

    async def _triage(self) -> AsyncIterator[Delta]:
        """Plan, unasked: the gate decides better once the tools are known, and costs nothing."""
        said = {"decision": "plan", "reason": "the gate decides when the tools are known"}
        yield TextDelta(json.dumps(said | {"query": "", "answer": ""}))
        yield ModelDone(Usage(), self.name)

    async def _draft(self, task: DraftTask) -> AsyncIterator[Delta]:
        task = replace(task, tools=easiest(task.tools))
        messages = draft_prompt(task)
        await self._model.prime([*PREFIX, Message("user", "")])
        yield TextDelta("")
        odds, spent = await self._model.odds(messages, '{"', ("reply", "calls"))
        yield TextDelta("")
        evidence = has_evidence(task.request, task.tools)
        likely = is_reply(odds, evidence=evidence) and not task.remark
        replies = likely or not task.tools
        text = ""
        for _ in range(_DRAFTS):
            grammar = reply_grammar() if replies else calls_grammar(task.told, task.tools)
            text = ""
            drafted = self._model.constrained(Prompt(messages), grammar=grammar)
            async with aclosing(drafted) as pieces:
                async for delta in pieces:
                    text += delta.text if isinstance(delta, TextDelta) else ""
                    spent = total(spent, delta.usage) if isinstance(delta, ModelDone) else spent
                    yield TextDelta("")
            flaw = "" if replies or task.remark else draft_flaw(text, task)
            if not flaw:
                break
            messages = draft_prompt(replace(task, remark=flaw))
        yield TextDelta(json.dumps(_plan(text, task), ensure_ascii=False))
        yield ModelDone(spent, self.name)

    async def _answer(self, task: Task) -> AsyncIterator[Delta]:
        """The facts as they are, behind one sentence of the model's if it keeps to them.

        Where many things were found, their names are the sentence: a small model counts badly.
        """
        sentence, usage = lead(task), Usage()
        if sentence is not None or not task.request:
            yield TextDelta(worded(task, sentence or ""))
            yield ModelDone(usage, self.name)
            return
        sentence = ""
        try:
            prompt = Prompt(phrase_messages(task), max_tokens=_SENTENCE)
            pieces = self._model.constrained(prompt, grammar=_LINE)
            async with aclosing(pieces):
                async for delta in pieces:
                    yield TextDelta("")
                    sentence += delta.text if isinstance(delta, TextDelta) else ""
                    usage = delta.usage if isinstance(delta, ModelDone) else usage
        except ModelFailed:
            sentence = ""  # a sentence without an end is worth nothing, the facts are
        yield TextDelta(worded(task, sentence))
        yield ModelDone(usage, self.name)

    async def _checked(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Any other text, heard to its end first: a wrong number must not get out."""
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
                    check_wording(text, told_in(prompt))
                    yield TextDelta(text)
                    yield delta


def draft_prompt(task: DraftTask) -> list[Message]:
    """The prompt of a draft: the same start for all, then what this task says."""
    known = [task.context] if task.context else []
    known += [f"Now: {task.now}"] if task.now else []
    context = "\n".join(known)
    return calls_messages(task.request, task.tools, context=context, remark=task.remark)


def draft_flaw(text: str, task: DraftTask) -> str:
    """What a model is told of its draft, once: rows that only a call can give, wrong queries."""
    tools = {tool.name: tool for tool in task.tools}
    drafted = cast("list[dict[str, Any]]", json.loads(text)["calls"])
    flaws = [
        f'{call["tool"]} needs {name} from a call before it, as "$1"'
        for call in _calls(text, task)
        for name in tools[call["tool"]].required
        if call["args"].get(name, ASK) == ASK and is_rows(tools[call["tool"]].fields.get(name))
    ]
    for call in drafted:
        for name, schema in tools[call["tool"]].fields.items():
            query = call["args"].get(name)
            if schema.get("format") == "sql" and isinstance(query, str) and query != ASK:
                flaws += _query_flaws(query, task)
    return f"Your answer before had problems: {'; '.join(flaws[:3])}" if flaws else ""


def _query_flaws(query: str, task: DraftTask) -> list[str]:
    names = [f"there is no {name}" for name in unknown_names(query, task.tables)]
    values = untold_values(query, task.told)
    return [*names, *(f"the request does not say {value}: leave it out" for value in values)]


def _calls(text: str, task: DraftTask) -> list[dict[str, Any]]:
    tools = {tool.name: tool for tool in task.tools}
    return grounded(json.loads(text)["calls"], tools, task.told, task.context)


def _plan(text: str, task: DraftTask) -> dict[str, Json]:
    answer: dict[str, Any] = json.loads(text)
    if "reply" in answer:
        return plan_of_reply(str(answer["reply"]), task.request)
    tools = {tool.name: tool for tool in task.tools}
    return plan_of_calls(_calls(text, task), tools, task.request)
