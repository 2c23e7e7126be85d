"""The calls that a small model writes: their grammar, and the plan that is made of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, cast

from plansmith.plan.data import Json
from plansmith.plan.refs import FROM, ITEM, PATH, RESERVED, escape_text
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import ReplyStyle
from plansmith_desk.model.grammar import GrammarBook, exactly, literal, quoted
from plansmith_desk.model.grounding import ASK, Drafted, grounded
from plansmith_desk.model.prompt import WORDS, DraftTask, Offered, Schema
from plansmith_planner.language.characters import HAN

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

_NO_TOOL: Final = Sentence(
    "the embedded model found no tool for this; it is small and may be wrong: "
    "ask in other words, or name another model with --model"
)


def plan_of_draft(text: str, task: DraftTask) -> dict[str, Json]:
    """Returns the plan that a draft stands for, without the values that it invented."""
    answer: dict[str, Any] = json.loads(text)
    request = task.changes if task.before else task.request
    if "reply" in answer:
        return plan_of_reply(str(answer["reply"]), request or task.request)
    tools = {tool.name: tool for tool in task.tools}
    calls = grounded(answer["calls"], tools, task.request_text, task.context)
    return plan_of_calls(calls, tools, request or task.request)


def plan_of_reply(text: str, request: str) -> dict[str, Json]:
    """Makes a plan that only replies; a mere apology is marked so that it is not used as one."""
    plan: dict[str, Json] = {
        "goal": request,
        "steps": [_reply("answer", escape_text(text), "exact")],
    }
    if not _APOLOGY.fullmatch(text.strip()):
        return plan
    # In the model's own words it would be told as a fact, which it often is not.
    return plan | {"degraded": in_language(_NO_TOOL, "zh" if HAN.search(request) else "en")}


def plan_of_calls(
    calls: Sequence[Drafted], tools: Mapping[str, Offered], request: str
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
        steps.append(_reply("answer", "\n".join([asked, *map(_named, ids)]), "results"))
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
        self._worded: list[str] = []  # steps whose results are made text

    def steps(self, place: int, args: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
        """Yields the step of a call, after those that make text of results it needs as text."""
        name, tool = self._ids[place], self._tools[place]
        if tool.name == WORDS.name:
            parts = [str(args[each]) for each in ("instruction", "from") if each in args]
            yield _reply(name, "\n".join(map(self._text, (p for p in parts if p != ASK))), "worded")
            return
        many, over = self._each_of(args, tool)
        known = len(self._worded)
        inputs: dict[str, Json] = {}
        for key, value in args.items():
            filled = self._argument(value, key, tool.fields.get(key, {}))
            if key == many:
                inputs[key] = {FROM: ITEM, PATH: [key]}
            elif filled != ASK:
                inputs[key] = filled
        for source in self._worded[known:]:
            yield _reply(f"{source}_text", _named(source), "results")
        if tool.is_agent:
            yield {"id": name, "kind": "agent", "agent": tool.name, "task": inputs.get("task", "")}
            return
        step: dict[str, Json] = {"id": name, "kind": "tool", "tool": tool.name, "inputs": inputs}
        if many:
            step = {"id": name, "kind": "map", "over": over, "each": {**step, "id": "each"}}
        yield step

    def _argument(self, value: Json, name: str = "", schema: Schema | None = None) -> Json:
        """Returns a value with references; `"?"` where a whole result cannot be what is meant."""
        if isinstance(value, list):
            return [self._argument(each) for each in value]
        if isinstance(value, dict):
            return {key: self._argument(each, key) for key, each in value.items()}
        found = _WHOLE.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return self._text(value) if isinstance(value, str) and value != ASK else value
        place, schema = int(found[1]) - 1, schema or {}
        step, gives = self._ids[place], self._tools[place].gives
        path = [part for part in found[2].split(".") if part]
        if path := path or self._fitting_part(place, name, schema):
            return {FROM: step, PATH: [*path]}
        if schema.get("type") != "string":
            return {FROM: step}
        return self._as_text(step, gives, name)

    def _as_text(self, step: str, gives: Schema | None, name: str) -> str:
        if gives is not None and _ONE_THING.search(name):
            return ASK
        if gives is None or gives.get("type") == "string":
            return _named(step)
        # Data becomes text in a step of its own.
        if step not in self._worded:
            self._worded.append(step)
        return _named(f"{step}_text")

    def _text(self, value: str) -> str:
        parts = re.split(r"\$([1-9])", value)
        texts = [escape_text(part) for part in parts[::2]]
        names = [_named(self._ids[int(part) - 1]) for part in parts[1::2]]
        return "".join(a + b for a, b in zip(texts, [*names, ""], strict=True))

    def _each_of(self, args: Mapping[str, Json], tool: Offered) -> tuple[str, dict[str, Json]]:
        """Returns the text argument whose referenced result has a list of such texts, and it."""
        for name, value in args.items() if not tool.is_agent else ():
            found = _WHOLE.fullmatch(value) if isinstance(value, str) else None
            if found is None or found[2] or tool.fields.get(name, {}).get("type") != "string":
                continue
            place = int(found[1]) - 1
            for part, schema in _parts(self._tools[place].gives).items():
                if _parts(schema.get("items")).get(name, {}).get("type") == "string":
                    return name, {FROM: self._ids[place], PATH: [part]}
        return "", {}

    def _fitting_part(self, place: int, name: str, schema: Schema) -> list[str]:
        """Returns the part of a result with the argument's name, or the only one of its type."""
        gives, kind = self._tools[place].gives, schema.get("type")
        if gives is None or gives.get("type") != "object" or kind == "object":
            return []
        # What a tool was given and gives back is nothing that it found.
        echoed = self._tools[place].fields
        parts = {key: each for key, each in _parts(gives).items() if key not in echoed}
        same = [key for key, each in parts.items() if each.get("type") == kind]
        wishes = [name, *_TEXTS] if kind == "string" else [name]
        sure = [key for key in same if key in (gives.get("required") or parts)]
        found = [key for key in wishes if key in same] or (sure if len(sure) == 1 else [])
        return found[:1]


MAX_CALLS: Final = 6


def calls_grammar(request: str, tools: Sequence[Offered], *, known: str = "") -> str:
    """Returns a grammar for drafts that reply or call these tools with valid arguments."""
    # A small model translates what it should copy: it does not get the letters to do so.
    book = GrammarBook(without="" if HAN.search(request + known) else "\\u3400-\\u9fff")
    reply = literal('{"reply":') + ' string "}"'
    if not tools:
        return book.text(reply)
    # Where a call can give rows, they are taken from it and not asked for.
    starts = [
        tool for tool in tools if not any(_is_rows(tool.fields.get(name)) for name in tool.required)
    ]
    given = [schema for tool in starts for schema in (tool.gives, *_parts(tool.gives).values())]
    found = any(map(_is_rows, given))
    first, second, later = (
        book.rule(" | ".join(_tool_call(book, tool, earlier, found=found) for tool in some))
        for earlier, some in (("", starts if found else tools), ("[1]", tools), ("[1-9]", tools))
    )
    rest = f'("," ws {later}){{0,{MAX_CALLS - 2}}}'
    calls = f'{first} ("," ws {second} {rest})?'
    whole = literal('{"calls"') + f' ":" ws "[" {calls} "]" "}}"'
    return book.text(f"{reply} | {whole}")


def _parts(schema: Any) -> dict[str, Schema]:
    return Offered("", "", _mapping(schema)).fields


def _tool_call(book: GrammarBook, tool: Offered, earlier: str, *, found: bool) -> str:
    result = f'"$" {earlier} ("." [a-zA-Z0-9_]+){{0,3}}'
    # What may replace any value: a question, or the result of an earlier call.
    hole = book.rule(quoted(f'("?"{f" | {result}" if earlier else ""})'))
    rows = book.rule(quoted(result)) if earlier and found else hole
    fields: dict[str, str] = {}
    for name, schema in tool.fields.items():
        if _is_rows(schema):
            fields[name] = rows
            continue
        value = book.within(tool.inputs, schema)
        # A plain text can be a hole as it is.
        fields[name] = value if value == "string" else book.rule(f"{value} | {hole}")
    args = book.record(fields, tool.required) if fields else '"{" "}"'
    return f'"{{\\"tool\\":" ws {exactly(tool.name)} "," ws "\\"args\\":" ws {args} "}}"'


def _is_rows(schema: Any) -> bool:
    """Whether an argument takes rows of any shape: they come from a call, no one writes them."""
    whole = _mapping(schema)
    item = _mapping(whole.get("items"))
    rows = whole.get("type") == "array" and item.get("type") == "object"
    return rows and not item.get("properties")


def _mapping(value: Any) -> Schema:
    return cast("Schema", value) if isinstance(value, Mapping) else {}
