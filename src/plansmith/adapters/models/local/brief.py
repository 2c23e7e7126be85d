"""The brief: what the planner's prompt offers and asks, read back out of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from plansmith.adapters.models.local.signatures import Offered
from plansmith.ports import Message

_FENCE: Final = re.compile(r'<(data-\w+) title="([^"]*)"[^>]*>\n(.*?)\n</\1>', re.DOTALL)
_TASK: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"task": {"type": "string", "description": "what to do, in words"}},
    "required": ["task"],
}
_LONGEST_BLOCK: Final = 1500
_IN_TEXT: Final = re.compile(r"\{\{([\w-]+)[^{}]*\}\}")
_REQUEST: Final = "request"
_TIME: Final = "current time"
_PREVIOUS: Final = "previous plan"
_CHANGES: Final = "changes the person asks for"


@dataclass(frozen=True, slots=True)
class Brief:
    """A request with the tools on offer, what is known, and what was wrong with an earlier try."""

    request: str
    tools: tuple[Offered, ...]
    context: str = ""
    remark: str = ""
    now: str = ""
    changes: str = ""

    @property
    def told(self) -> str:
        """All that the person said; what the model said before and the clock are no part of it."""
        return f"{self.request}\n{self.changes}" if self.changes else self.request


def read_brief(messages: Sequence[Message]) -> Brief | None:
    """The brief of a planner's prompt; None when a prompt asks for something else."""
    if len(messages) < 2 or [each.role for each in messages[:2]] != ["system", "user"]:
        return None
    prompt = messages[1].text
    found = [(title, body) for _, title, body in _FENCE.findall(prompt)]
    blocks = dict(found)
    request = blocks.get(_REQUEST)
    # Only what stands before the first block is the planner's own word.
    head = prompt.partition("\n<data-")[0]
    tools = tuple(_tools(head))
    if request is None or ("Tools, one a line" not in head and not tools):
        return None
    now = " ".join(blocks.get(_TIME, "").split())
    remark, changes = _remark(blocks, messages[2:]), blocks.get(_CHANGES, "")
    return Brief(request, tools, _context(found), remark, now, changes)


def _tools(head: str) -> Iterator[Offered]:
    for line in head.splitlines():
        if not line.startswith("{"):
            continue
        try:
            value: Any = json.loads(line)
        except ValueError:
            continue
        known = cast("dict[str, Any]", value)
        if "inputs" in known:
            yield Offered(
                known["name"],
                known["does"],
                known["inputs"],
                known.get("gives"),
                only_reads=known.get("effect") == "read",
            )
        elif "skills" in known:
            yield Offered(known["name"], known["does"], _TASK, is_agent=True)


def _context(blocks: Sequence[tuple[str, str]]) -> str:
    """What else is known, each thing on a line of its own; many may share a title."""
    return "\n".join(
        f"Known ({title}): {' '.join(body.split())[:_LONGEST_BLOCK]}"
        for title, body in blocks
        if title not in (_REQUEST, _TIME, _PREVIOUS, _CHANGES)
    )


def _remark(blocks: Mapping[str, str], later: Sequence[Message]) -> str:
    """What has to be different this time."""
    lines: list[str] = []
    if _PREVIOUS in blocks:
        lines.append(f"Your answer before: {_calls_of(blocks[_PREVIOUS])}")
    if _CHANGES in blocks:
        lines.append(f"Change it: {' '.join(blocks[_CHANGES].split())}")
    if later:
        problems = re.findall(r'"problem": "((?:[^"\\]|\\.)*)"', later[-1].text)
        lines.append(f"Your answer before had problems: {'; '.join(problems)[:_LONGEST_BLOCK]}")
    return "\n".join(lines)


def _calls_of(text: str) -> str:
    """A plan in the language of calls, as far as it has words for it."""
    try:
        plan: Any = json.loads(text)
        steps = cast("list[dict[str, Any]]", plan["steps"])
    except (ValueError, KeyError, TypeError):
        return ""
    names = [step["id"] for step in steps if "tool" in step]

    def place(name: str) -> str:
        return f"${names.index(name) + 1}" if name in names else "?"

    def value(each: Any) -> Any:
        if isinstance(each, dict) and "$from" in each:
            return place(str(cast("dict[str, Any]", each)["$from"]))
        if isinstance(each, str):
            return _IN_TEXT.sub(lambda found: place(found[1]), each)
        return cast("Any", each)

    calls = [
        {"tool": step["tool"], "args": {key: value(each) for key, each in step["inputs"].items()}}
        for step in steps
        if "tool" in step and isinstance(step.get("inputs"), dict)
    ]
    return json.dumps({"calls": calls}, ensure_ascii=False, separators=(",", ":"))
