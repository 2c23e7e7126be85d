"""Lets a small model draft tool calls, and makes a plan of them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, cast

from plansmith.adapters.models.local.answer_check import check_wording, source_text
from plansmith.adapters.models.local.answering import answer
from plansmith.adapters.models.local.brief import DraftTask
from plansmith.adapters.models.local.call_language import (
    PREFIX,
    calls_grammar,
    calls_messages,
    is_rows,
    reply_grammar,
)
from plansmith.adapters.models.local.calls_to_plan import plan_of_calls, plan_of_reply
from plansmith.adapters.models.local.follow_up import (
    completed,
    follow_up_messages,
    follows,
    put_in_place,
)
from plansmith.adapters.models.local.grounding import ASK, grounded, values_not_in
from plansmith.adapters.models.local.model import LocalModel
from plansmith.adapters.models.local.signatures import Offered, easiest, unknown_names
from plansmith.adapters.models.local.wording import Task
from plansmith.adapters.models.tokens import count_prompt_tokens
from plansmith.errors import ModelRefused, PromptTooLong
from plansmith.plan.briefs import MessageBrief
from plansmith.plan.data import Json
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

# Log-odds of a reply against calls, where the draft begins: below this, calls are drafted.
# Measured with `scripts/bench planning --gate`: see docs/model.md.
REPLY_FROM: Final = -1.5
_WITH_EVIDENCE: Final = 3.0
# Things a request can name, and the arguments that take them.
_NAMED: Final = (
    (
        re.compile(r"(?:^|[\s\"'“‘《(（])[\w./~-]*\w{2}\.[a-z][a-z0-9]{1,4}\b|\w/\w"),
        re.compile(r"path|file|folder|dir|doc|database|image|source|input|output", re.IGNORECASE),
    ),
    (re.compile(r"https?://\S"), re.compile(r"url|link|page|site|address", re.IGNORECASE)),
    (re.compile(r"\S@\S+\.\S"), re.compile(r"to|mail|recipient|address|user", re.IGNORECASE)),
)


def is_reply(odds: float, *, evidence: bool = False) -> bool:
    """Whether a draft should only reply; corrects that small models call tools too readily.

    With evidence that a tool is meant, a reply needs much better odds.
    """
    return odds > (_WITH_EVIDENCE if evidence else REPLY_FROM)


def has_evidence(request: str, tools: Sequence[Offered]) -> bool:
    """Whether a request names a file, an address or the like that a tool takes."""
    names = [name for tool in tools for name in tool.fields]
    return any(
        thing.search(request) and any(argument.search(name) for name in names)
        for thing, argument in _NAMED
    )


_WORDING_TOKENS: Final = 3000
_DRAFTS: Final = 2
_SENTENCE: Final = 80  # tokens
_LINE: Final = "root ::= [^\\n]{1,240}\n"


class DraftingModel:
    """Drafts plans as calls, skips triage, and checks the facts in replies."""

    def __init__(self, model: LocalModel, *, wording_tokens: int = _WORDING_TOKENS) -> None:
        self._model = model
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
        decision = {"decision": "plan", "reason": "the gate decides when the tools are known"}
        yield TextDelta(json.dumps(decision | {"query": query, "answer": ""}))
        yield ModelDone(usage, self.name)

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
            grammar = reply_grammar() if replies else calls_grammar(task.request_text, task.tools)
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


def draft_prompt(task: DraftTask) -> list[Message]:
    """Returns the prompt of a draft: a shared start, then this task."""
    known = [task.context] if task.context else []
    known += [f"Now: {task.now}"] if task.now else []
    context = "\n".join(known)
    return calls_messages(task.request, task.tools, context=context, remark=task.remark)


def draft_flaw(text: str, task: DraftTask) -> str:
    """Returns what is wrong with a draft, for one retry: invented rows, wrong queries."""
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
    values = values_not_in(query, task.request_text)
    return [*names, *(f"the request does not say {value}: leave it out" for value in values)]


def _calls(text: str, task: DraftTask) -> list[dict[str, Any]]:
    tools = {tool.name: tool for tool in task.tools}
    return grounded(json.loads(text)["calls"], tools, task.request_text, task.context)


def _plan(text: str, task: DraftTask) -> dict[str, Json]:
    answer: dict[str, Any] = json.loads(text)
    if "reply" in answer:
        return plan_of_reply(str(answer["reply"]), task.request)
    tools = {tool.name: tool for tool in task.tools}
    return plan_of_calls(_calls(text, task), tools, task.request)
