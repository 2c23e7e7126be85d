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
        match prompt.brief:
            case ports.TriageBrief(request):
                given = {"decision": "plan", "reason": "", "query": request, "answer": ""}
                yield ports.TextDelta(json.dumps(given))
            case ports.PlanBrief(previous=None) as brief:
                yield ports.TextDelta(json.dumps({"goal": brief.request, "steps": steps(brief)}))
            case ports.PlanBrief() | MessageBrief() | None:
                raise ModelRefused("it can only search")
            case ports.ReplyBrief() as brief:
                yield ports.TextDelta(worded(Task.of(brief)._replace(writes=False), ""))
        yield ports.ModelDone(ports.Usage(), self.name)


def steps(brief: ports.PlanBrief) -> list[Json]:
    inputs: Json = {"text": keyword(brief.request) or "plan", "folder": "."}
    answer: Json = {"id": "answer", "kind": "reply", "instruction": "{{search}}", "after": ["list"]}
    listed: Json = {"id": "list", "tool": "files.list", "inputs": {"folder": "."}}
    return [listed, {"id": "search", "tool": "files.search", "inputs": inputs}, answer]
