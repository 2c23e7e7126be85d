"""Makes the prompt data for a small model that drafts calls, from the planner's brief."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.refs import FROM, Ref, pieces, ref_of
from plansmith.plan.steps import ToolStep
from plansmith.ports import ContextBlock, PlanBrief
from plansmith.text import visible
from plansmith_desk.model.signatures import Offered
from plansmith_planner.context.fence import label
from plansmith_planner.context.gather import EARLIER, FOLDER, FOLDER_NEAR
from plansmith_planner.context.history import TITLE

_TASK: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"task": {"type": "string", "description": "what to do, in words"}},
    "required": ["task"],
}
_LONGEST_BLOCK: Final = 1500
_CONVERSATION: Final = frozenset({TITLE, EARLIER})
_FILES: Final = frozenset({FOLDER, FOLDER_NEAR})
_HEADINGS: Final = re.compile(
    r"(?:tools|folder|more of the folder|known|now|request)\b[^/]*:", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class DraftTask:
    """A request with the offered tools, the context, and what was wrong with the last try.

    `enabled` are all tools that there are, for a model that can hold them.
    """

    request: str
    tools: tuple[Offered, ...]
    known: tuple[ContextBlock, ...] = ()
    remark: str = ""
    now: str = ""
    changes: str = ""
    enabled: tuple[Offered, ...] = ()

    @classmethod
    def of(cls, brief: PlanBrief) -> DraftTask:
        """Makes the task from a planner's brief."""
        remark = "\n".join(_remarks(brief))
        tools = tuple(_offered(brief))
        # A small model gets the completed request instead of the conversation.
        known = tuple(each for each in brief.known if each.title not in _CONVERSATION)
        enabled = tuple(map(offered, brief.enabled)) if not brief.agents else ()
        return cls(brief.request, tools, known, remark, brief.now, brief.feedback, enabled)

    @property
    def request_text(self) -> str:
        """Returns everything that the person said; not the model's answers or the time."""
        return f"{self.request}\n{self.changes}" if self.changes else self.request

    @property
    def folder(self) -> str:
        """Returns the lines about the working folder: the same whatever is asked there."""
        return self._file_lines(FOLDER)

    @property
    def near(self) -> str:
        """Returns lines about more files of the folder, which the request may mean."""
        return self._file_lines(FOLDER_NEAR)

    @property
    def files(self) -> str:
        """Returns all lines about files."""
        return "\n".join(filter(None, (self.near, self.folder)))

    def _file_lines(self, title: str) -> str:
        return "\n".join(
            # A file may be called like a line of the prompt.
            f"./{line}" if _HEADINGS.match(line) else line
            for each in self.known
            if each.title == title
            for line in _lines(each.text)
        )

    @property
    def others(self) -> str:
        """Returns what is known besides the request and the folder, one item per line."""
        return "\n".join(
            f"Known ({label(block.title)}): {_line(block.text)}"
            for block in self.known
            if block.title not in _FILES
        )

    @property
    def context(self) -> str:
        """Returns all that is known besides the request, one item per line."""
        folder = f"Known ({FOLDER}):\n{self.files}" if self.files else ""
        return "\n".join(filter(None, (folder, self.others)))


def _lines(text: str) -> Iterator[str]:
    """Returns the lines of a text, without empty ones."""
    return filter(None, (" ".join(visible(line).split()) for line in text.split("\n")))


def _line(text: str) -> str:
    return " ".join(visible(text).split())[:_LONGEST_BLOCK]


def offered(tool: ToolSpec) -> Offered:
    """Returns a tool as a small model sees it."""
    return Offered(
        tool.name,
        tool.description,
        tool.input_schema,
        tool.output_schema,
        only_reads=tool.effect is Effect.READ,
        is_safe=tool.effect is Effect.READ and not tool.open_world,
    )


def _offered(brief: PlanBrief) -> Iterator[Offered]:
    yield from map(offered, brief.tools)
    for agent in brief.agents:
        yield Offered(agent.name, agent.description, _TASK, is_agent=True)


def _remarks(brief: PlanBrief) -> Iterator[str]:
    """Returns what has to be different this time."""
    if brief.previous is not None:
        yield f"Your answer before: {_calls_of(brief.previous)}"
    if brief.feedback:
        yield f"Change it: {' '.join(brief.feedback.split())}"
    if brief.problems:
        # What a tool says may hold words of files: on one line it starts no other part.
        problems = _line("; ".join(brief.problems))
        yield f"Your answer before had problems: {problems}"


def _calls_of(plan: Plan) -> str:
    """Writes a plan in the call language, as far as it can be expressed."""
    steps = [step for step in plan.steps if isinstance(step, ToolStep)]
    names = [step.id for step in steps]

    def place(ref: Ref) -> str:
        return f"${names.index(ref.step) + 1}" if ref.step in names else "?"

    def value(each: Json) -> Json:
        if isinstance(each, dict) and FROM in each:
            ref = ref_of(each)
            return place(ref) if ref is not None else "?"
        if isinstance(each, str):
            return "".join(p if isinstance(p, str) else place(p) for p in pieces(each))
        return each

    calls = [
        {"tool": step.tool, "args": {key: value(each) for key, each in step.inputs.items()}}
        for step in steps
    ]
    return json.dumps({"calls": calls}, ensure_ascii=False, separators=(",", ":"))
