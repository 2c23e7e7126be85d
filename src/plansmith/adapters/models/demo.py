"""The demonstration model: the same example plan for every request, and it says so."""

from __future__ import annotations

from plansmith.adapters.models.scripted import ScriptedModel
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json

NOTICE = (
    "No language model is set up yet, so the scripted demo model answers: every request "
    "gets the same example plan. Nothing is run."
)

_FOLDER: dict[str, Json] = {
    "type": "object",
    "properties": {"folder": {"type": "string"}},
    "required": ["folder"],
}
_FILE: dict[str, Json] = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
}

DEMO_TOOLS = (
    ToolSpec(
        name="files.list",
        description="List the files of a folder with name, size and date.",
        input_schema=_FOLDER,
        effect=Effect.READ,
        open_world=False,
    ),
    ToolSpec(
        name="files.read",
        description="Read a text file.",
        input_schema=_FILE,
        effect=Effect.READ,
        open_world=False,
    ),
)

_PLAN: dict[str, Json] = {
    "steps": [
        {
            "id": "list",
            "kind": "tool",
            "title": "See what is in the folder",
            "tool": "files.list",
            "inputs": {"folder": "."},
        },
        {
            "id": "read",
            "kind": "map",
            "title": "Read every file",
            "over": {"$from": "list", "$path": ["files"]},
            "each": {
                "id": "one",
                "kind": "tool",
                "tool": "files.read",
                "inputs": {"path": {"$from": "item", "$path": ["path"]}},
            },
        },
        {
            "id": "answer",
            "kind": "reply",
            "title": "Answer from what was read",
            "instruction": "Answer the request from {{read}}, and name the files you used.",
        },
    ],
}


def demo_model() -> ScriptedModel:
    """A model for one request."""
    return ScriptedModel(_PLAN, name="demo")
