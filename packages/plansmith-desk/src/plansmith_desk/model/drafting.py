"""Lets a small model complete a follow-up, draft tool calls, and makes a plan of them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from plansmith import ports
from plansmith.errors import ModelRefused, PromptTooLong
from plansmith.lazy import lazy_pattern
from plansmith.plan.briefs import MessageBrief
from plansmith.plan.capability import ToolSpec
from plansmith.plan.sentence import Sentence
from plansmith_desk.model import prompt as prompts
from plansmith_desk.model.answer_rules import Task
from plansmith_desk.model.calls_to_plan import calls_grammar, plan_of_draft
from plansmith_desk.model.model import LocalModel
from plansmith_desk.model.wording import answer, answer_start
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

    def stream(self, prompt: ports.Prompt) -> AsyncIterator[ports.Delta]:
        """Yields the answer to whatever the planner or the engine asks."""
        match prompt.brief:
            case ports.PlanBrief() as brief:
                return self._draft(prompts.DraftTask.of(brief))
            case ports.TriageBrief() as brief:
                return self._triage(brief)
            case MessageBrief():
                raise ModelRefused(Sentence("the embedded model does not judge messages: rules do"))
            case ports.ReplyBrief(style="results" | "worded", results=results) as brief if results:
                return answer(Task.of(brief), self._model)
            case _:
                return self._other(prompt)

    async def warm(self, tools: Iterable[ToolSpec]) -> AsyncGenerator[ports.TextDelta]:
        """Reads the start of all answers, and of all drafts with these tools; yields how far."""
        known = tuple(map(prompts.offered, tools))
        some = prompts.chosen_tools(prompts.DraftTask("", (), enabled=known))
        for start in (answer_start(), prompts.prompt_prefix(some)):
            async with aclosing(self._model.prime(start)) as primed:
                async for progress in primed:
                    yield progress

    async def _triage(self, brief: ports.TriageBrief) -> AsyncIterator[ports.Delta]:
        """Always decides to plan: the later check knows the tools and costs nothing.

        A request that leans on earlier ones is completed by them.
        """
        query, usage = put_in_place(brief.request, brief.before), ports.Usage()
        if not query and follows(brief.request, brief.before):
            prompt = ports.Prompt(
                follow_up_messages(brief.request, brief.before), max_tokens=_SENTENCE
            )
            async with aclosing(self._model.constrained(prompt, grammar=_LINE)) as pieces:
                async for delta in pieces:
                    query += delta.text if isinstance(delta, ports.TextDelta) else ""
                    usage = delta.usage if isinstance(delta, ports.ModelDone) else usage
                    yield ports.TextDelta("")
            query = completed(query, brief.request, brief.before)
        decision = {"decision": "plan", "reason": "the model sees the tools before it decides"}
        yield ports.TextDelta(json.dumps(decision | {"query": query, "answer": ""}))
        yield ports.ModelDone(usage, self.name)

    async def _draft(self, task: prompts.DraftTask) -> AsyncIterator[ports.Delta]:
        task = replace(task, tools=prompts.chosen_tools(task))
        # Read what later drafts begin with, too; not tools that were chosen for one request.
        if prompts.constant_tools(task):
            async with aclosing(self._model.prime(prompts.folder_prefix(task))) as primed:
                async for progress in primed:
                    yield progress
        text, usage, named = "", ports.Usage(), 0
        prompt = ports.Prompt(prompts.draft_prompt(task), max_tokens=_DRAFT)
        # File names and columns are in the language of whoever made them.
        grammar = calls_grammar(task.request_text, task.tools, known=task.file_lines())
        async with aclosing(self._model.constrained(prompt, grammar=grammar)) as pieces:
            async for delta in pieces:
                usage = delta.usage if isinstance(delta, ports.ModelDone) else usage
                if isinstance(delta, ports.TextDelta):
                    text += delta.text
                    told, calls = delta.progress, _TOOL.findall(text)
                    if len(calls) > named and not told:
                        named = len(calls)
                        told = Sentence("step {number}: {tool}", number=named, tool=calls[-1])
                    yield ports.TextDelta("", told)
        plan = plan_of_draft(text, task, self._without)
        yield ports.TextDelta(json.dumps(plan, ensure_ascii=False))
        yield ports.ModelDone(usage, self.name)

    def _other(self, prompt: ports.Prompt) -> AsyncIterator[ports.Delta]:
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


_MOST: Final = 3  # earlier requests that are shown
_LONGEST: Final = 300
_SHORT: Final = 40
_FOLLOWS: Final = lazy_pattern(
    r"^(?:and|now|also|then|but|so|what about|how about|the same|same|instead|again)\b"
    r"|\b(?:it|that|those|them|this|these|same|there|one|ones|previous|last|above)\b"
    r"|^(?:那|再|然后|还有|同样|换成|改成)|它|这个|那个|上面|刚才|呢[？?]?$"
)
_TASK: Final = (
    "Write the last request as one whole request that can be understood without the ones before. "
    "What the last one names takes the place of its like; do not ask for the earlier thing again. "
    "Use only words, names and files that were written, in the language of the last request."
)
_EXAMPLES: Final = (
    (
        "How many orders came from Berlin in orders.csv?",
        "And Paris?",
        "How many orders came from Paris in orders.csv?",
    ),
    ("Which notes mention Anna?", "and which mention the bill?", "Which notes mention the bill?"),
    (
        "Draw a pie chart of cost by team in costs.csv",
        "now the same for month",
        "Draw a pie chart of cost by month in costs.csv",
    ),
    ("Show the first 3 lines of a.txt", "and of b.txt", "Show the first 3 lines of b.txt"),
    (
        "List the people in club.csv who are older than 60",
        "how many are there?",
        "How many people in club.csv are older than 60?",
    ),
    ("统计 a.csv 中北京的订单数", "那上海呢？", "统计 a.csv 中上海的订单数"),
)
# Words of one kind that can take each other's place: a file, a code such as Q1, a name.
_KINDS: Final = (
    lazy_pattern(r"(?<![\w/-])[\w/-]*\w\.[A-Za-z]\w{0,4}\b"),
    lazy_pattern(r"\b(?=\w*\d)(?=\w*[A-Za-z])\w+\b"),
    lazy_pattern(r"\b\d[\d.,-]*\b"),
    lazy_pattern(r"(?<=\s)[A-Z][a-z]+(?:\s[A-Z][a-z]+)*\b"),
)
_LEAD: Final = lazy_pattern(r"^(?:(?i:and|now|also|then|but|so|ok|what|how|about)\b[\s,]*)+")
_ONLY: Final = lazy_pattern(
    r"(?:(?:and|now|also|then|but|what|how|about|the|same|for|of|from|in|with|to|at|on|please|ok"
    r"|do|it|that|again|instead|next)\b|[\s,.?!])*"
)


def follows(request: str, before: Sequence[str]) -> bool:
    """Tells whether a request seems to lean on the ones before it."""
    return bool(before) and (len(request) <= _SHORT or bool(_FOLLOWS.search(request.casefold())))


def follow_up_messages(request: str, before: Sequence[str]) -> list[ports.Message]:
    """Returns the prompt that asks for the completed request."""
    messages = [ports.Message("system", _TASK)]
    for earlier, last, whole in _EXAMPLES:
        asked = f"Earlier: {earlier}\nLast: {last}"
        messages += [ports.Message("user", asked), ports.Message("assistant", whole)]
    said = "\n".join(f"Earlier: {_line(each)}" for each in before[-_MOST:])
    return [*messages, ports.Message("user", f"{said}\nLast: {_line(request)}")]


def put_in_place(request: str, before: Sequence[str]) -> str:
    """Returns the request before with the one thing that a follow-up names in place of its like.

    Empty where the follow-up says more, or where more than one thing could be meant.
    """
    earlier = before[-1] if before else ""
    named = f" {_LEAD.sub('', request)}"
    for kind in _KINDS:
        new, old = kind.findall(named), set(kind.findall(earlier))
        if not new:
            continue
        rest = named.replace(new[0], " ", 1).casefold()
        if len(new) == 1 == len(old) and _ONLY.fullmatch(rest):
            return earlier.replace(old.pop(), new[0])
        return ""
    return ""


def completed(text: str, request: str, before: Sequence[str]) -> str:
    """Returns the completed request; the one that was given if the model made something up."""
    line = text.strip().removeprefix("Last:").strip().strip('"')
    said = "\n".join([*before[-_MOST:], request]).casefold()
    named = [each for kind in _KINDS for each in kind.findall(line)]
    return line if line and all(each.casefold() in said for each in named) else request


def _line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]
