"""A travel planner behind a model server: it reads its prompts, and answers by them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.flow.looking_model import BOOK, CHEAPER, FIND
from tests.servers.model_server import ModelServer, Reply, Request

TOOLS = '''
from pathlib import Path

from plansmith import tool


@tool(effect="read")
def flights(city: str) -> dict:
    """Find a flight to a city."""
    return {"name": "AZ 123", "city": city}


@tool(effect="read")
def trains(city: str) -> dict:
    """Find a train to a city."""
    return {"name": "Nightjet", "city": city}


@tool(effect="write")
def book(what: str) -> str:
    """Book a journey."""
    with Path("booked.txt").open("a", encoding="utf-8") as file:
        file.write(what + "\\n")
    return f"booked {what}"
'''
WAIT: dict[str, Any] = {
    "goal": "Wait",
    "steps": [{"id": "wait", "kind": "tool", "tool": "wait", "inputs": {"name": "go.txt"}}],
}

NEW: dict[str, Any] = {"kind": "request", "question": "", "option": "", "reason": "it is new"}


class Travel:
    """Answers each call by what it reads; `judge` says what a message is for, `plan` may plan."""

    def __init__(self) -> None:
        self.judge: Callable[[], Reply] = lambda: Reply(NEW)
        self.plan: Callable[[], Reply] | None = None
        self.server = ModelServer(then=self.answer)

    def answer(self, request: Request) -> Reply:
        text = "\n".join(str(each["content"]) for each in request.json["messages"])
        if "You decide what a person's message is for" in text:
            return self.judge()
        if '"decision"' in json.dumps(request.json):
            asks = "Rome" not in text
            decision: dict[str, Any] = {
                "decision": "ask" if asks else "plan",
                "answer": "Where to?" if asks else "",
            }
            return Reply({"reason": "", "query": ""} | decision)
        if "Name AZ 123" in text:
            return Reply("You could take AZ 123.")
        if self.plan is not None:
            return self.plan()
        if "cheaper, please" in text:
            return Reply(CHEAPER)
        if "book it" in text:
            # What was found before can only be named by one who was told of it.
            assert "AZ 123" in text
            return Reply(BOOK)
        return Reply(WAIT if "Wait for Rome" in text else FIND)
