"""A model that looks at the prompt and answers by rules of its own, and conversations with it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from plansmith import Plansmith, RunStatus, tool
from plansmith.plan.briefs import MessageBrief
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
from plansmith.tools.functions import FunctionTool

Plans = Callable[[PlanBrief, str], Mapping[str, Any]]
Judges = Callable[[str, str], Mapping[str, Any]]


class LookingModel:
    """Answers each call by its brief; keeps the prompts it saw."""

    name = "looking"

    def __init__(
        self, plan: Plans, *, ask: Mapping[str, str] | None = None, judge: Judges | None = None
    ) -> None:
        self._plan = plan
        self._ask = dict(ask or {})
        self._judge = judge
        self.prompts: list[Prompt] = []

    def kinds(self) -> list[str]:
        return [type(each.brief).__name__ for each in self.prompts]

    def texts(self, kind: type) -> list[str]:
        return [each.text for each in self.prompts if isinstance(each.brief, kind)]

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        self.prompts.append(prompt)
        answer = self._answer(prompt)
        yield TextDelta(answer if isinstance(answer, str) else json.dumps(answer))
        yield ModelDone(Usage(10, 10), self.name)

    def _answer(self, prompt: Prompt) -> Mapping[str, Any] | str:
        match prompt.brief:
            case TriageBrief(request) if request in self._ask:
                question = self._ask[request]
                return {"decision": "ask", "reason": "", "query": "", "answer": question}
            case TriageBrief(request):
                return {"decision": "plan", "reason": "", "query": request, "answer": ""}
            case PlanBrief() as brief:
                return self._plan(brief, prompt.text)
            case ReplyBrief() as brief:
                return "; ".join(str(each) for each in brief.results.values())
            case MessageBrief(text):
                new = {"kind": "request", "question": "", "option": "", "reason": "it is new"}
                return self._judge(text, prompt.text) if self._judge else new
            case None:
                return "in short"


def one_step(tool: str, **inputs: Any) -> dict[str, Any]:
    return {"goal": "g", "steps": [{"id": "s", "kind": "tool", "tool": tool, "inputs": inputs}]}


class Desk:
    """Tools that look and act, and what they were called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.flight: Any = {"name": "AZ 123", "city": "Rome", "price": 200}

    def tools(self) -> list[FunctionTool[..., Any]]:
        @tool(effect="read")
        def flights(city: str) -> Any:
            """Find a flight to a city."""
            self.calls.append(("flights", city))
            return self.flight

        @tool(effect="read")
        def trains(city: str) -> Any:
            """Find a train to a city."""
            self.calls.append(("trains", city))
            return {"name": "Nightjet", "city": city, "price": 80}

        @tool(effect="write")
        def book(what: str) -> str:
            """Book a journey."""
            self.calls.append(("book", what))
            return f"booked {what}"

        return [flights, trains, book]

    def count(self, name: str) -> int:
        return sum(called == name for called, _ in self.calls)


def _call(name: str, tool: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "kind": "tool", "tool": tool, **more}


def _book(found: str) -> dict[str, Any]:
    return _call("book", "book", inputs={"what": {"$from": found, "$path": ["name"]}})


ROME = {"city": "Rome"}
FIND: dict[str, Any] = {
    "goal": "Find a flight",
    "thought": "Look before booking.",
    "steps": [
        _call("find", "flights", inputs=ROME, why="the person wants to fly"),
        {"id": "say", "kind": "reply", "instruction": "Name {{find.name}}"},
    ],
}
BOOK: dict[str, Any] = {"goal": "Book the flight", "steps": [_book("find")]}
CHEAPER: dict[str, Any] = {
    "goal": "Book a cheap journey",
    "thought": "A train costs less.",
    "steps": [_call("train", "trains", inputs=ROME), _book("train")],
}


def journey(brief: PlanBrief, _: str) -> Mapping[str, Any]:
    """Plans journeys: looks up a flight; books what was found; takes a train when asked."""
    if "cheaper" in brief.feedback:
        return CHEAPER
    return BOOK if "book" in brief.request else FIND


def asks(question: str = "Which one?", **ask: Any) -> dict[str, Any]:
    """Returns a plan that looks up what the person answers."""
    return _asking(question, ask, tool="flights", inputs={"city": {"$from": "q"}})


def guards(question: str = "Really book it?", **ask: Any) -> dict[str, Any]:
    """Returns a plan that books once a person has answered."""
    return _asking(question, ask, tool="book", inputs={"what": "x"}, after=["q"])


def _asking(question: str, ask: dict[str, Any], **use: Any) -> dict[str, Any]:
    asks = {"id": "q", "kind": "ask", "question": question, **ask}
    return {"goal": "g", "steps": [asks, {"id": "use", "kind": "tool", **use}]}


def made(desk: Desk, plan: Any, **model: Any) -> Plansmith:
    plans: Any = plan if callable(plan) else lambda *_: plan
    return Plansmith(model=LookingModel(plans, **model), tools=desk.tools())


async def asking(smith: Plansmith, request: str = "Begin") -> str:
    """Returns a run of the thread that waits for the answer to its question."""
    turn = await (await smith.thread("t")).say(request, by="ann")
    assert turn.run is not None
    return await approved(smith, turn.run.id)


async def approved(smith: Plansmith, run_id: str) -> str:
    run = await smith.get(run_id)
    if run.status is RunStatus.REVIEWING and run.plan is not None:
        await smith.decide(run_id, approve=run.plan.hash, by="ann")
    assert (await smith.run(run_id)).status is RunStatus.ASKING
    return run_id
