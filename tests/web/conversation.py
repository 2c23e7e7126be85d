"""What the stage's model says in a conversation: it looks at what its prompts know of it."""

from __future__ import annotations

import json
from typing import Any, Final

from plansmith.plan.briefs import MessageBrief
from plansmith.ports import PlanBrief, Prompt, TriageBrief

TRIP: Final = "Plan a short trip"
NOTE: Final = "Write that into a note"


def says(prompt: Prompt) -> str | None:
    """Returns the model's part in the conversation; None if the prompt is of another story."""
    match prompt.brief:
        case MessageBrief():
            answer = {
                "kind": "request",
                "question": "",
                "option": "",
                "reason": "it is something new",
            }
            return json.dumps(answer)
        case TriageBrief(request=request) if request.strip() == TRIP:
            answer = {"decision": "ask", "reason": "no place", "query": "", "answer": "Where to?"}
            return json.dumps(answer)
        case PlanBrief(request=request) as brief if request.startswith(TRIP):
            return json.dumps(_trip("Rome" if "Rome" in prompt.text else "nowhere", brief.locale))
        case PlanBrief(request=request) as brief if request.startswith(NOTE):
            return json.dumps(_note(prompt.text, brief.feedback))
        case _:
            return None


def _trip(city: str, locale: str) -> dict[str, Any]:
    look = {"id": "look", "kind": "tool", "tool": "weather.forecast", "inputs": {"city": city}}
    tell = {"id": "tell", "kind": "reply", "instruction": "Say {{look.sky}}"}
    return {"goal": f"A short trip to {city}", "locale": locale, "steps": [look, tell]}


def _note(known: str, feedback: str) -> dict[str, Any]:
    """The plan of a note; what was looked at is taken from the run before, if the prompt has it."""
    path = "weather.md" if "weather.md" in feedback else "trip.md"
    sky: Any = {"$from": "look", "$path": ["sky"]} if '"look"' in known else "unknown"
    inputs = {"path": path, "text": sky}
    write = {"id": "write", "kind": "tool", "tool": "notes.write", "inputs": inputs}
    return {"goal": "Note the weather", "steps": [write]}
