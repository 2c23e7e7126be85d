"""A model that plans a trip by what its prompts say, and the tools of the trip."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence

from tests.unit.server.house import CITY, Tools

from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import (
    Call,
    Delta,
    ModelDone,
    PlanBrief,
    Prompt,
    ReplyBrief,
    TextDelta,
    TriageBrief,
    Usage,
)

FLIGHT, TRAIN = "AZ 123", "Nightjet"
_WHAT = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}


class TripTools(Tools):
    """`flights` and `trains` find something, `book` books it."""

    async def tools(self) -> Sequence[ToolSpec]:
        reads = {"flights": "Finds flights to a city", "trains": "Finds trains to a city"}
        return [
            *(
                ToolSpec(name=name, description=about, input_schema=CITY, effect=Effect.READ)
                for name, about in reads.items()
            ),
            ToolSpec(name="book", description="Books it", input_schema=_WHAT, effect=Effect.WRITE),
        ]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        self.calls.append((tool, dict(arguments)))
        if tool == "book":
            return f"booked {arguments['what']}"
        name = FLIGHT if tool == "flights" else TRAIN
        return {"name": f"{name} to {arguments['city']}", "price": 80}


class TripModel:
    """Asks where to, finds a flight, books what was found, and takes the train if told to."""

    name = "trip"

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        self.prompts.append(prompt)
        said = self._answer(prompt)
        yield TextDelta(said if isinstance(said, str) else json.dumps(said))
        yield ModelDone(Usage(10, 10), self.name)

    def _answer(self, prompt: Prompt) -> Json:
        match prompt.brief:
            case TriageBrief(request=request):
                ask = request.strip() == "Plan a trip"
                decision, told = ("ask", "Where to?") if ask else ("plan", "")
                return {"decision": decision, "reason": "", "query": request, "answer": told}
            case PlanBrief() as brief:
                return self._plan(brief, prompt.text)
            case ReplyBrief():
                return f"I found {FLIGHT}."
            case None:
                return "in short"
            case _:
                return {"kind": "request", "question": "", "option": "", "reason": "it is new"}

    def _plan(self, brief: PlanBrief, text: str) -> Json:
        if "cheaper" in brief.feedback:
            steps = [_find("train", "trains"), _book("train")]
            return {"goal": "A cheap trip", "thought": "A train is cheaper.", "steps": steps}
        if "book it" in brief.request:
            # It books only what the conversation before has.
            assert FLIGHT in text, text
            assert "Plan a trip" in text, text
            return {"goal": "Book it", "steps": [_book("find")]}
        reply: Json = {"id": "say", "kind": "reply", "instruction": "Say {{find.name}}"}
        return {"goal": "Find a flight", "steps": [_find("find", "flights"), reply]}


def _find(name: str, tool: str) -> Json:
    return {"id": name, "kind": "tool", "tool": tool, "inputs": {"city": "Rome"}}


def _book(source: str) -> Json:
    what: Json = {"$from": source, "$path": ["name"]}
    return {"id": "book", "kind": "tool", "tool": "book", "inputs": {"what": what}}
