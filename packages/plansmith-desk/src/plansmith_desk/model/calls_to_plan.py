"""Turns the calls of a small model into a plan with references and a reply."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from plansmith.plan.data import Json
from plansmith.plan.refs import FROM, ITEM, PATH, RESERVED, escape_text
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import ReplyStyle
from plansmith.text import HAN
from plansmith_desk.model.grounding import ASK, grounded, without_later
from plansmith_desk.model.known_names import KnownNames
from plansmith_desk.model.prompt import DraftTask
from plansmith_desk.model.signatures import WORDS, Offered

_WHOLE: Final = re.compile(r"\$([1-9])((?:\.[A-Za-z0-9_]+)*)")
# Arguments that name one thing: the text of a whole result is never right there.
_ONE_THING: Final = re.compile(r"path|file|folder|ur[il]|^id$|_id$|date|^to$", re.IGNORECASE)
_TEXTS: Final = ("text", "content", "answer", "summary", "result", "value", "message", "name", "id")


# One sentence that says what cannot be done, and nothing that answers the request.
_APOLOGY: Final = re.compile(
    r"(?:sorry, )?(?:none of the tools|no tool|there is no tool|i (?:cannot|can't|can not))\b"
    r"[^.!?]*[.!?]?"
    r"|(?:抱歉，)?(?:这里)?没有[^。！？]*工具[^。！？]*[。！？]?",
    re.IGNORECASE,
)


# A request that names neither what to do nor with what: no tool is missing, words are.
_VAGUE: Final = re.compile(
    r"(?:(?:please|can|could|you|do|did|the|a|an|some|my|your|it|this|that|these|those|thing|things"
    r"|something|anything|stuff|job|task|work|help|me|us|with|fix|handle|make|run|go|start|now|for"
    r"|again)\b[\s.,!?]*)+"
    r"|(?:请|帮|我|你|做|弄|搞|处理|办|一下|这个|那个|这|那|东西|事情|事|吧|把|了|的|些|点|[\s，。！？])+",
    re.IGNORECASE,
)
_SAY_MORE: Final = {
    "en": "The request does not say what to do with what. Name both, such as: "
    "List the files that mention invoices.",
    "zh": "请求没有说明对什么做什么。请两者都说明，例如：列出提到发票的文件。",
}


def plan_of_reply(text: str, request: str) -> dict[str, Json]:
    """Makes a plan that only replies; a mere apology is marked as no plan at all."""
    if _APOLOGY.fullmatch(text.strip()):
        return no_plan(text, request)
    return _saying(text, request)


def _saying(text: str, request: str) -> dict[str, Json]:
    return {"goal": request, "steps": [_reply("answer", escape_text(text), "exact")]}


def no_plan(text: str, request: str) -> dict[str, Json]:
    """Makes a placeholder where no plan is possible, marked so that it is not used as one."""
    if _VAGUE.fullmatch(request.strip()):
        text = _SAY_MORE["zh" if HAN.search(request) else "en"]
    return _saying(text, request) | {"degraded": text}


def plan_of_calls(
    calls: Sequence[Mapping[str, Any]], tools: Mapping[str, Offered], request: str
) -> dict[str, Json]:
    """Makes a plan of the calls that answers from their results.

    Arguments with the value `"?"` are left out of the inputs: the planner asks for them.
    """
    ids = _ids([str(call["tool"]) for call in calls])
    # A new text that is written into nothing is itself the answer.
    last = calls[-1]["tool"] if calls else ""
    made = last == WORDS.name and all(tools[call["tool"]].only_reads for call in calls)
    ids = [*ids[:-1], "answer"] if made else ids
    filler = _Filler(ids, [tools[str(call["tool"])] for call in calls])
    steps: list[Json] = []
    for name, call in zip(ids, calls, strict=True):
        steps += _steps_of(name, call["args"], tools[str(call["tool"])], filler)
    if made:
        return {"goal": request, "steps": steps}
    asked = escape_text(" ".join(request.split()))
    instruction = "\n".join([asked, *(f"{{{{{name}}}}}" for name in ids)])
    return {"goal": request, "steps": [*steps, _reply("answer", instruction, "results")]}


def _steps_of(
    name: str, args: Mapping[str, Json], tool: Offered, filler: _Filler
) -> Iterator[dict[str, Json]]:
    """Makes the step of a call, after those that make text of results it needs as text."""
    if tool.name == WORDS.name:
        yield _reply(name, filler.instruction(args), "worded")
        return
    each = filler.each_of(args, tool)
    for source in filler.quoted_in(args, tool):
        yield _reply(f"{source}_text", f"{{{{{source}}}}}", "results")
    inputs: dict[str, Json] = {
        key: {FROM: ITEM, PATH: [key]}
        if each is not None and key == each.name
        else filler.value(value, key, tool.fields.get(key))
        for key, value in args.items()
        if value != ASK and (each or not filler.is_lost(value, key, tool.fields.get(key)))
    }
    yield _step(name, tool, inputs, each)


def _reply(name: str, instruction: str, style: ReplyStyle) -> dict[str, Json]:
    return {"id": name, "kind": "reply", "instruction": instruction, "style": style}


def _step(name: str, tool: Offered, inputs: dict[str, Json], each: _Each | None) -> dict[str, Json]:
    if tool.is_agent:
        return {"id": name, "kind": "agent", "agent": tool.name, "task": inputs.get("task", "")}
    if each is None:
        return {"id": name, "kind": "tool", "tool": tool.name, "inputs": inputs}
    inner: dict[str, Json] = {"id": "each", "kind": "tool", "tool": tool.name, "inputs": inputs}
    return {"id": name, "kind": "map", "over": each.over, "each": inner}


def _ids(names: Sequence[str]) -> list[str]:
    """Makes short, unique step ids from the names of tools."""
    taken = {*RESERVED, "answer"}
    ids: list[str] = []
    for name in names:
        last = re.split(r"[./:]", name)[-1]
        stem = re.sub(r"[^A-Za-z0-9_-]+", "_", last).strip("_-")[:40] or "step"
        number, wish = 2, stem
        while wish in taken:
            wish, number = f"{stem}_{number}", number + 1
        taken |= {wish, f"{wish}_text"}  # the second for its result in words
        ids.append(wish)
    return ids


class _Each(NamedTuple):
    """An argument with many values in an earlier result: the call is made for each."""

    name: str
    over: dict[str, Json]


class _Filler:
    """Replaces `$n` by references."""

    def __init__(self, ids: Sequence[str], tools: Sequence[Offered]) -> None:
        self._ids = ids
        self._tools = tools
        self._worded: set[str] = set()

    def value(self, value: Json, name: str = "", schema: Any = None) -> Json:
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {key: self.value(each, key) for key, each in value.items()}
        if not isinstance(value, str):
            return value
        found = _WHOLE.fullmatch(value)
        if found is None:
            return self._text(value)
        place, path = int(found[1]) - 1, [part for part in found[2].split(".") if part]
        path = path or self._fitting_part(place, name, schema)
        if not path and self._is_quoted(place, schema):
            return f"{{{{{self._ids[place]}_text}}}}"
        if not path and _kind(schema) == "string":
            # Whatever comes out goes in as text.
            return f"{{{{{self._ids[place]}}}}}"
        return {FROM: self._ids[place], PATH: path} if path else {FROM: self._ids[place]}

    def instruction(self, args: Mapping[str, Json]) -> str:
        """Returns what a text is to be, and what it is made from."""
        parts = (str(args[name]) for name in ("instruction", "from") if name in args)
        return "\n".join(self._text(each) for each in parts if each != ASK)

    def quoted_in(self, args: Mapping[str, Json], tool: Offered) -> list[str]:
        """Returns the steps whose results must be made text for a text argument, each once."""
        found: list[str] = []
        for name, value in args.items():
            schema = tool.fields.get(name)
            place = self._source(value, schema)
            if place is None or self._fitting_part(place, name, schema) or _ONE_THING.search(name):
                continue
            if self._is_quoted(place, schema) and self._ids[place] not in self._worded:
                self._worded.add(self._ids[place])
                found.append(self._ids[place])
        return found

    def _is_quoted(self, place: int, schema: Any) -> bool:
        """Whether a result is data but the argument wants text: a step in between makes text."""
        gives = self._tools[place].gives
        return _kind(schema) == "string" and gives is not None and _kind(gives) != "string"

    def each_of(self, args: Mapping[str, Json], tool: Offered) -> _Each | None:
        """Returns the text argument whose referenced result has a list of such texts."""
        for name, value in args.items():
            place = self._source(value, tool.fields.get(name))
            if place is None or tool.is_agent:
                continue
            for part, schema in self._parts(place).items():
                if _kind(_subschema(schema, "items", "properties", name)) == "string":
                    return _Each(name, {FROM: self._ids[place], PATH: [part]})
        return None

    def is_lost(self, value: Json, name: str, schema: Any) -> bool:
        """Whether a whole result stands where a single value is needed and no part of it fits."""
        place = self._source(value, schema)
        if place is None or self._tools[place].gives is None or not _ONE_THING.search(name):
            return False
        return not self._fitting_part(place, name, schema)

    def _source(self, value: Json, schema: Any) -> int | None:
        """Returns the call whose whole result a text argument gets."""
        found = _WHOLE.fullmatch(value) if isinstance(value, str) else None
        return int(found[1]) - 1 if found and not found[2] and _kind(schema) == "string" else None

    def _parts(self, place: int) -> Mapping[str, Any]:
        gives = self._tools[place].gives or {}
        return cast("Mapping[str, Any]", gives.get("properties") or {})

    def _text(self, value: str) -> str:
        parts = re.split(r"\$([1-9])", value)
        texts = [escape_text(part) for part in parts[::2]]
        names = [f"{{{{{self._ids[int(part) - 1]}}}}}" for part in parts[1::2]]
        return "".join(a + b for a, b in zip(texts, [*names, ""], strict=True))

    def _fitting_part(self, place: int, name: str, schema: Any) -> list[Json]:
        """Returns the part of a result with the argument's name, or the only one of its type."""
        gives = self._tools[place].gives
        if gives is None or gives.get("type") != "object" or _kind(schema) == "object":
            return []
        # What a tool was given and gives back is nothing that it found.
        echoed = self._tools[place].fields
        parts = {key: each for key, each in self._parts(place).items() if key not in echoed}
        same = [key for key, each in parts.items() if _kind(each) == _kind(schema)]
        wishes = [name, *_TEXTS] if _kind(schema) == "string" else [name]
        found = next((key for key in wishes if key in same), None)
        sure = [key for key in same if key in (gives.get("required") or parts)]
        if found is None and len(sure) == 1:
            found = sure[0]
        return [found] if found else []


def _subschema(schema: Any, *keys: str) -> Any:
    """Returns a part of a schema by its path; None if there is none."""
    for key in keys:
        schema = cast("Mapping[str, Any]", schema).get(key) if isinstance(schema, Mapping) else None
    return schema


def _kind(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return ""
    return str(cast("Mapping[str, Any]", schema).get("type") or "")


PARTS: Final = ("grounding", "names")


@dataclass(frozen=True, slots=True)
class DraftParts:
    """What is done to a model's draft; each part can be left out, to measure what it gives.

    `grounding`: invented values of changes and of tools outside are asked for or left out.
    `names`: tables, columns and files that the folder does not have become those that are meant.
    """

    grounding: bool = True
    names: bool = True

    @classmethod
    def of(cls, without: Collection[str]) -> DraftParts:
        """Returns all parts but those named."""
        return cls(grounding="grounding" not in without, names="names" not in without)


_TOOL: Final = re.compile(r'"tool": ?"([^"]+)"')


def new_call(before: str, text: str) -> str:
    """Returns a word on a call that a draft has just named, for people who wait."""
    named = _TOOL.findall(text)
    if len(named) <= len(_TOOL.findall(before)):
        return ""
    return Sentence("step {number}: {tool}", number=len(named), tool=named[-1])


def plan_of_draft(text: str, task: DraftTask, parts: DraftParts) -> dict[str, Json]:
    """Returns the plan that a draft stands for."""
    answer: dict[str, Any] = json.loads(text)
    if "reply" in answer:
        return plan_of_reply(str(answer["reply"]), task.request)
    tools = {tool.name: tool for tool in task.tools}
    return plan_of_calls(judged(answer["calls"], task, parts), tools, task.request)


def judged(
    calls: Sequence[Mapping[str, Any]], task: DraftTask, parts: DraftParts
) -> list[dict[str, Any]]:
    """Returns drafted calls with names that the folder has and without invented values."""
    tools = {tool.name: tool for tool in task.tools}
    if parts.names:
        known = KnownNames(task.files)
        calls = [known.mended(call, tools[call["tool"]]) for call in calls]
    if not parts.grounding:
        return without_later(calls, tools)
    return grounded(calls, tools, task.request_text, task.context)
