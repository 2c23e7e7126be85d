"""The built-in tool that tells the person something: shown at once, kept in the run, no effect."""

from __future__ import annotations

from typing import Final

from plansmith.adapters.tools.toolset import TEXT, Arguments, BuiltIn, Job, ToolSet, fields, words
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json

SPEC: Final = ToolSpec(
    name="note.tell",
    description="Show a remark in the middle of a long run: a finding, a warning, progress. Not "
    "for the answer, which every plan ends with.",
    input_schema=fields(
        {
            "text": words("What is told.", minLength=1, maxLength=20_000),
            "level": {"enum": ["info", "warning"], "description": "info if left out."},
        },
        "text",
    ),
    output_schema=fields({"text": TEXT, "level": TEXT}, "text", "level"),
    effect=Effect.READ,
    open_world=False,
    idempotent=True,
    timeout_s=10,
)


class NoteTools(ToolSet):
    """The tool; what it tells is its result, and goes to whoever watches the run."""

    def __init__(self) -> None:
        super().__init__([BuiltIn(SPEC, _tell)])


def _tell(given: Arguments, job: Job) -> Json:
    text: str = given["text"]
    level: str = given.get("level", "info")
    job.call.progress(text if level == "info" else f"{level}: {text}")
    return {"text": text, "level": level}
