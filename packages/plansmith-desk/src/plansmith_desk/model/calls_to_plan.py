"""Turns the calls of a small model into a plan with references and a reply."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, cast

from plansmith.plan.data import Json
from plansmith.plan.refs import FROM, ITEM, PATH, RESERVED, escape_text
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import ReplyStyle
from plansmith_desk.model.grounding import ASK, grounded, without_later
from plansmith_desk.model.known_names import KnownNames
from plansmith_desk.model.prompt import DraftTask
from plansmith_desk.model.signatures import WORDS, Offered, Schema

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


def plan_of_reply(text: str, request: str) -> dict[str, Json]:
    """Makes a plan that only replies; a mere apology is marked as no plan at all."""
    if _APOLOGY.fullmatch(text.strip()):
        return no_plan(text, request)
    return {"goal": request, "steps": [_reply("answer", escape_text(text), "exact")]}


def no_plan(text: str, request: str) -> dict[str, Json]:
    """Makes a placeholder where no plan is possible, marked so that it is not used as one."""
    steps: list[Json] = [_reply("answer", escape_text(text), "exact")]
    return {"goal": request, "steps": steps, "degraded": text}


def plan_of_calls(
    calls: Sequence[Mapping[str, Any]], tools: Mapping[str, Offered], request: str
) -> dict[str, Json]:
    """Makes a plan of the calls that answers from their results.

    Arguments with the value `"?"` are left out of the inputs: the planner asks for them.
    """
    called = [tools[str(call["tool"])] for call in calls]
    ids = _ids([tool.name for tool in called])
    # A new text that is written into nothing is itself the answer.
    made = bool(called) and called[-1].name == WORDS.name and all(t.only_reads for t in called)
    ids = [*ids[:-1], "answer"] if made else ids
    filler = _Filler(ids, called)
    steps: list[Json] = []
    for place, call in enumerate(calls):
        steps += filler.steps(place, call["args"])
    if not made:
        asked = escape_text(" ".join(request.split()))
        instruction = "\n".join([asked, *map(_named, ids)])
        steps.append(_reply("answer", instruction, "results"))
    return {"goal": request, "steps": steps}


def _reply(name: str, instruction: str, style: ReplyStyle) -> dict[str, Json]:
    return {"id": name, "kind": "reply", "instruction": instruction, "style": style}


def _named(step: str) -> str:
    return f"{{{{{step}}}}}"


def _ids(names: Sequence[str]) -> list[str]:
    """Makes short, unique step ids from the names of tools."""
    taken = {*RESERVED, "answer"}
    ids: list[str] = []
    for name in names:
        last = re.split(r"[./:]", name)[-1]
        stem = re.sub(r"[^A-Za-z0-9_-]+", "_", last).strip("_-")[:40] or "step"
        wishes = (stem if number == 1 else f"{stem}_{number}" for number in count(1))
        wish = next(each for each in wishes if each not in taken)
        taken |= {wish, f"{wish}_text"}  # the second for its result in words
        ids.append(wish)
    return ids


class _Filler:
    """Makes steps of calls, with references in the place of `$n`."""

    def __init__(self, ids: Sequence[str], tools: Sequence[Offered]) -> None:
        self._ids = ids
        self._tools = tools
        self._worded: set[str] = set()

    def steps(self, place: int, args: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
        """Yields the step of a call, after those that make text of results it needs as text."""
        name, tool = self._ids[place], self._tools[place]
        if tool.name == WORDS.name:
            parts = [str(args[each]) for each in ("instruction", "from") if each in args]
            told = "\n".join(self._text(each) for each in parts if each != ASK)
            yield _reply(name, told, "worded")
            return
        many, over = self._each_of(args, tool)
        for source in self._quoted_in(args, tool):
            yield _reply(f"{source}_text", _named(source), "results")
        inputs: dict[str, Json] = {
            key: {FROM: ITEM, PATH: [key]} if key == many else self._value(value, key, tool)
            for key, value in args.items()
            if value != ASK and (many or not self._is_lost(value, key, tool))
        }
        if tool.is_agent:
            task = inputs.get("task", "")
            yield {"id": name, "kind": "agent", "agent": tool.name, "task": task}
            return
        step: dict[str, Json] = {"id": name, "kind": "tool", "tool": tool.name, "inputs": inputs}
        if many:
            step = {"id": name, "kind": "map", "over": over, "each": {**step, "id": "each"}}
        yield step

    def _value(self, value: Json, name: str = "", tool: Offered | None = None) -> Json:
        if isinstance(value, list):
            return [self._value(each) for each in value]
        if isinstance(value, dict):
            return {key: self._value(each, key) for key, each in value.items()}
        found = _WHOLE.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return self._text(value) if isinstance(value, str) else value
        schema: Schema = tool.fields.get(name, {}) if tool else {}
        place, path = int(found[1]) - 1, [part for part in found[2].split(".") if part]
        path = path or self._fitting_part(place, name, schema)
        if path:
            return {FROM: self._ids[place], PATH: [*path]}
        if self._is_quoted(place, schema):
            return _named(f"{self._ids[place]}_text")
        # Whatever comes out goes into a text as text.
        is_text = schema.get("type") == "string"
        return _named(self._ids[place]) if is_text else {FROM: self._ids[place]}

    def _text(self, value: str) -> str:
        parts = re.split(r"\$([1-9])", value)
        texts = [escape_text(part) for part in parts[::2]]
        names = [_named(self._ids[int(part) - 1]) for part in parts[1::2]]
        return "".join(a + b for a, b in zip(texts, [*names, ""], strict=True))

    def _quoted_in(self, args: Mapping[str, Json], tool: Offered) -> Iterator[str]:
        """Yields the steps whose results must be made text for a text argument, each once."""
        for name, value in args.items():
            schema = tool.fields.get(name, {})
            place = self._source(value, schema)
            if place is None or self._fitting_part(place, name, schema) or _ONE_THING.search(name):
                continue
            if self._is_quoted(place, schema) and self._ids[place] not in self._worded:
                self._worded.add(self._ids[place])
                yield self._ids[place]

    def _is_quoted(self, place: int, schema: Schema) -> bool:
        """Whether a result is data but the argument wants text: a step in between makes text."""
        gives = self._tools[place].gives
        return schema.get("type") == "string" != _subschema(gives, "type") and gives is not None

    def _each_of(self, args: Mapping[str, Json], tool: Offered) -> tuple[str, dict[str, Json]]:
        """Returns the text argument whose referenced result has a list of such texts, and it."""
        for name, value in args.items():
            place = self._source(value, tool.fields.get(name, {}))
            for part, schema in self._parts(place).items() if not tool.is_agent else ():
                if _subschema(schema, "items", "properties", name, "type") == "string":
                    return name, {FROM: self._ids[place or 0], PATH: [part]}
        return "", {}

    def _is_lost(self, value: Json, name: str, tool: Offered) -> bool:
        """Whether a whole result stands where a single value is needed and no part of it fits."""
        schema = tool.fields.get(name, {})
        place = self._source(value, schema)
        if place is None or self._tools[place].gives is None or not _ONE_THING.search(name):
            return False
        return not self._fitting_part(place, name, schema)

    def _source(self, value: Json, schema: Schema) -> int | None:
        """Returns the call whose whole result a text argument gets."""
        found = _WHOLE.fullmatch(value) if isinstance(value, str) else None
        whole = found is not None and not found[2] and schema.get("type") == "string"
        return int(found[1]) - 1 if found and whole else None

    def _parts(self, place: int | None) -> Schema:
        gives = self._tools[place].gives if place is not None else None
        return cast("Schema", (gives or {}).get("properties") or {})

    def _fitting_part(self, place: int, name: str, schema: Schema) -> list[str]:
        """Returns the part of a result with the argument's name, or the only one of its type."""
        gives, kind = self._tools[place].gives, schema.get("type")
        if gives is None or gives.get("type") != "object" or kind == "object":
            return []
        # What a tool was given and gives back is nothing that it found.
        echoed = self._tools[place].fields
        parts = {key: each for key, each in self._parts(place).items() if key not in echoed}
        same = [key for key, each in parts.items() if _subschema(each, "type") == kind]
        wishes = [name, *_TEXTS] if kind == "string" else [name]
        sure = [key for key in same if key in (gives.get("required") or parts)]
        found = [key for key in wishes if key in same] or (sure if len(sure) == 1 else [])
        return found[:1]


def _subschema(schema: Any, *keys: str) -> Any:
    """Returns a part of a schema by its path; None if there is none."""
    for key in keys:
        schema = cast("Schema", schema).get(key) if isinstance(schema, Mapping) else None
    return schema


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
