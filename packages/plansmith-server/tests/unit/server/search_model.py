"""A model for the tests of the server: its plan searches the files for one word of the request."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from plansmith import ports
from plansmith.errors import ModelRefused
from plansmith.plan.briefs import MessageBrief
from plansmith.plan.data import Json
from plansmith_desk.model.answer_rules import Task
from plansmith_desk.model.rules import keyword
from plansmith_desk.model.wording import worded


class SearchModel:
    """Answers any call: with a plan that searches files, or with what the search found."""

    name = "search"

    async def stream(self, prompt: ports.Prompt) -> AsyncIterator[ports.Delta]:
        yield ports.TextDelta(_answer(prompt))
        yield ports.ModelDone(ports.Usage(), self.name)


def _answer(prompt: ports.Prompt) -> str:
    match prompt.brief:
        case ports.TriageBrief(request):
            return json.dumps({"decision": "plan", "reason": "", "query": request, "answer": ""})
        case ports.PlanBrief(previous=None) as brief:
            return json.dumps(_plan(brief.request, brief.locale), ensure_ascii=False)
        case ports.PlanBrief() | MessageBrief() | None:
            raise ModelRefused("it can only search")
        case ports.ReplyBrief() as brief:
            return worded(Task.of(brief)._replace(writes=False), "")


def _plan(request: str, locale: str) -> dict[str, Json]:
    word = keyword(request) or "plan"
    titles = ("See what is in the folder", f'Search the files for "{word}"', "Say what was found")
    if locale.startswith("zh"):
        titles = ("看看文件夹里有什么", f"在文件中查找“{word}”", "说出找到了什么")
    looks, searches, answers = titles
    inputs: Json = {"text": word, "folder": "."}
    answer: dict[str, Json] = {"title": answers, "instruction": f"{answers}: {{{{search}}}}"}
    steps: list[Json] = [
        {"id": "list", "title": looks, "tool": "files.list", "inputs": {"folder": "."}},
        {"id": "search", "title": searches, "tool": "files.search", "inputs": inputs},
        {"id": "answer", "kind": "reply", **answer, "after": ["list"]},
    ]
    return {"goal": request, "steps": steps}
