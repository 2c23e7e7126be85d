"""Lets a small model draft tool calls, also as a follow-up, and makes a plan of them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from plansmith import ports
from plansmith.errors import ModelRefused, PromptTooLong
from plansmith.plan.briefs import MessageBrief, total
from plansmith.plan.capability import ToolSpec
from plansmith.plan.sentence import Sentence, in_language
from plansmith_desk.model import prompt as prompts
from plansmith_desk.model.answer_rules import Task
from plansmith_desk.model.calls_to_plan import calls_grammar, plan_of_draft
from plansmith_desk.model.grounding import ASK
from plansmith_desk.model.model import LocalModel
from plansmith_desk.model.wording import answer, answer_start
from plansmith_planner.language.characters import HAN
from plansmith_planner.language.words import FILLER, is_cjk, terms
from plansmith_planner.models.fact_checked import FactCheckedModel
from plansmith_planner.models.tokens import count_prompt_tokens

_WORDING_TOKENS: Final = 3000
_TOOL: Final = re.compile(r'"tool": ?"([^"]+)"')


class DraftingModel:
    """Drafts plans as calls, skips triage, and checks the facts in replies."""

    def __init__(self, model: LocalModel) -> None:
        self.name = model.name
        self._model = model

    def stream(self, prompt: ports.Prompt) -> AsyncIterator[ports.Delta]:
        match prompt.brief:
            case ports.PlanBrief() as brief:
                return self._draft(prompts.DraftTask.of(brief))
            case ports.TriageBrief():
                return self._triage()
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

    async def _triage(self) -> AsyncIterator[ports.Delta]:
        """Always decides to plan: the later check knows the tools and costs nothing."""
        decision = {"decision": "plan", "reason": "the model sees the tools before it decides"}
        yield ports.TextDelta(json.dumps(decision | {"query": "", "answer": ""}))
        yield ports.ModelDone(ports.Usage(), self.name)

    async def _draft(self, task: prompts.DraftTask) -> AsyncIterator[ports.Delta]:
        task = replace(task, tools=prompts.chosen_tools(task))
        # Read what later drafts begin with, too; not tools that were chosen for one request.
        if prompts.constant_tools(task):
            async with aclosing(self._model.prime(prompts.folder_prefix(task))) as primed:
                async for progress in primed:
                    yield progress
        text, usage, drafts = "", ports.Usage(), list[tuple[str, prompts.DraftTask]]()
        for form in follow_up_forms(task):
            text = ""
            async with aclosing(self._written(form)) as pieces:
                async for delta in pieces:
                    if isinstance(delta, ports.ModelDone):
                        usage = total(usage, delta.usage)
                    else:
                        text += delta.text
                        yield ports.TextDelta("", delta.progress)
            drafts.append((text, form))
            if not is_lacking(text, form):
                break
        else:
            text, form = drafts[0]
        plan = plan_of_draft(text, form)
        if is_repeated(text, form):
            language = "zh" if HAN.search(task.request) else "en"
            plan |= {"degraded": in_language(_REPEATED, language)}
        yield ports.TextDelta(json.dumps(plan, ensure_ascii=False))
        yield ports.ModelDone(usage, self.name)

    async def _written(
        self, task: prompts.DraftTask
    ) -> AsyncGenerator[ports.TextDelta | ports.ModelDone]:
        """Yields the calls that the model writes for a task, and what it is at."""
        text, count = "", 0
        prompt = ports.Prompt(prompts.draft_prompt(task), max_tokens=640)
        # File names and columns are in the language of whoever made them.
        grammar = calls_grammar(task.request_text, task.tools, known=task.file_lines())
        async with aclosing(self._model.constrained(prompt, grammar=grammar)) as pieces:
            async for delta in pieces:
                if isinstance(delta, ports.ModelDone):
                    yield delta
                elif isinstance(delta, ports.TextDelta):
                    text += delta.text
                    progress, calls = delta.progress, _TOOL.findall(text)
                    if len(calls) > count and not progress:
                        count = len(calls)
                        progress = Sentence("step {number}: {tool}", number=count, tool=calls[-1])
                    yield ports.TextDelta(delta.text, progress)

    def _other(self, prompt: ports.Prompt) -> AsyncIterator[ports.Delta]:
        """Answers anything else; a text is read to its end first: no wrong number may get out."""
        count = count_prompt_tokens(prompt.messages)
        if prompt.schema is None and count > _WORDING_TOKENS:
            raise PromptTooLong(
                Sentence(
                    "about {count} tokens of results are too many for the embedded model to word",
                    count=count,
                ),
                hint=Sentence("the results themselves are shown"),
            )
        return FactCheckedModel(self._model).stream(prompt)


_REPEATED: Final = Sentence(
    "It is not clear what this changes in the request before: the plan is the same again. "
    "If that is wrong, ask in a whole sentence."
)
_TOKEN: Final = re.compile(r"\w+(?:[./-]+\w+)*")


def follow_up_forms(task: prompts.DraftTask) -> list[prompts.DraftTask]:
    """Returns the forms in which a request is put to the model, until a draft lacks nothing.

    What names one thing alone leans on the request before, and is a change of its plan. So may
    be what gives a draft that lacks something: "write that to a file".
    """
    if task.before is None or not prompts.calls_of(task.before[1]):
        return [task]
    names = [each for each in _TOKEN.findall(task.request) if _significant(each)]
    if sum(map(_significant, names)) >= 2:
        return [task, task.as_change(task.request)]
    return [task.as_change(task.request), *([task.as_change(" ".join(names))] if names else [])]


def _significant(token: str) -> float:
    """Returns how many words of a token name something; two Chinese characters are one."""
    found = [word for word, _ in terms(token) if word not in FILLER]
    han = sum(is_cjk(word) and len(word) == 1 for word in found)
    return han / 2 if han else float(bool(found))


def is_lacking(text: str, task: prompts.DraftTask) -> bool:
    """Whether a draft has no calls, leaves a value open, or only repeats the plan before."""
    calls: list[dict[str, Any]] = json.loads(text).get("calls", [])
    values = (value for call in calls for value in call["args"].values())
    return not calls or ASK in values or is_repeated(text, task)


def is_repeated(text: str, task: prompts.DraftTask) -> bool:
    """Whether a draft that was to change the calls before has the same words again."""
    if task.before is None or not task.changes:
        return False
    before = json.dumps({"calls": prompts.calls_of(task.before[1])}, ensure_ascii=False)
    return _words(text) == _words(before)


def _words(text: str) -> list[str]:
    """Returns the words of calls; `x = 'a'` and `x LIKE '%a%'` say the same."""
    return sorted(each for each in re.findall(r"\w+", text.casefold()) if each != "like")
