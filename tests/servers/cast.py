"""A scripted model that plays every part of the research team, by what it is asked for."""

from __future__ import annotations

import json
from typing import Any

from tests.servers.model_server import Reply, Request

STEP = {
    "need_web_search": True,
    "title": "The opening",
    "description": "When was the bridge opened?",
    "step_type": "research",
}
PLAN: dict[str, Any] = {
    "locale": "en-US",
    "has_enough_context": True,
    "thought": "The notes may say it.",
    "title": "The bridge",
    "steps": [STEP],
}
FOUND: dict[str, Any] = {
    "text": "In 1932.",
    "citations": [{"path": "bridge.md", "quote": "opened in 1932"}],
}


def research(request: Request) -> Reply:
    """Plans one step of research, does it, and reports on it."""
    body = request.json
    form = json.dumps(body.get("response_format") or {})
    if "decision" in form:
        return Reply({"decision": "plan", "reason": "", "query": "", "answer": ""})
    if "has_enough_context" in form:
        return Reply(PLAN)
    if body.get("tools"):
        read = "result of files.read" in json.dumps(body["messages"])
        return (
            Reply(FOUND, tool="finish")
            if read
            else Reply({"path": "bridge.md"}, tool=_reader(body))
        )
    if "score" in form:
        return Reply({"score": 9, "missing": []})
    return Reply("The bridge was opened in 1932 [step:s1].")


def _reader(body: dict[str, Any]) -> str:
    """Returns the name under which the model is offered `files.read`."""
    names = [str(each["function"]["name"]) for each in body["tools"]]
    return next(name for name in names if name.startswith("files_read"))
