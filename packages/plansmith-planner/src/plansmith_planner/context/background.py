"""Searches for background on a request before a plan is made for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json, content_hash
from plansmith.plan.sentence import Sentence
from plansmith.ports import Available, Call, Clock, ContextBlock, ToolSource
from plansmith.text import visible
from plansmith_planner.context.fence import label
from plansmith_planner.context.timeouts import Failed, with_timeout
from plansmith_planner.context.token_budget import Count, clipped
from plansmith_planner.language.verbs import says_it_searches

HEADING: Final = "background investigation results of user query:"
_QUERY_NAMES: Final = (
    "query", "q", "search_query", "search", "question", "keywords", "keyword", "text", "input",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Search:
    """Tools to search with before planning, and limits for them."""

    tools: ToolSource
    calls: int = 1
    seconds: float = 15.0
    tokens: int = 1500


def search_with(available: Available) -> Search | None:
    """Returns the search for background before planning; a marked tool comes first."""
    found = next(iter(_marked_first(available.tools)), None)
    return Search(available.sources[found.name]) if found is not None else None


class Investigated(NamedTuple):
    """What the searches found, one block per tool, and what went wrong."""

    blocks: tuple[ContextBlock, ...]
    notes: tuple[str, ...] = ()


async def investigate(
    request: str, *, search: Search, clock: Clock, tokens: int, count: Count
) -> Investigated:
    """Calls the first tools that search, in parallel; failures become notes."""
    start = clock.monotonic()
    listed = await with_timeout(_listed(search.tools), seconds=search.seconds, clock=clock)
    if isinstance(listed, Failed):
        note = Sentence("no background investigation: {reason}", reason=listed.reason)
        return Investigated((), (note,))
    chosen, notes = _choose(listed, request, search.calls)
    left = search.seconds - (clock.monotonic() - start)
    room = min(tokens, search.tokens) // max(len(chosen), 1)
    calls = [_ask(search.tools, *each, room, count) for each in chosen.items()]
    found = await asyncio.gather(*(with_timeout(call, seconds=left, clock=clock) for call in calls))
    blocks: list[ContextBlock] = []
    for name, block in zip(chosen, found, strict=True):
        if isinstance(block, Failed):
            note = Sentence(
                "background search with {tool} failed: {reason}",
                tool=label(name),
                reason=block.reason,
            )
            notes.append(note)
        elif block.text:
            blocks.append(block)
    return Investigated(tuple(blocks), tuple(notes))


async def _listed(source: ToolSource) -> Sequence[ToolSpec]:
    return _marked_first(await source.tools())


def _marked_first(tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    return sorted(filter(is_search, tools), key=lambda tool: not tool.search)


def is_search(tool: ToolSpec) -> bool:
    """Whether a tool is marked as search, or by its name or description searches the world."""
    if tool.search or not tool.open_world:
        return tool.search
    says_so = says_it_searches(tool.name, tool.description)
    return says_so and query_argument(tool.input_schema) is not None


def _choose(
    tools: Sequence[ToolSpec], request: str, calls: int
) -> tuple[dict[str, dict[str, Json]], list[str]]:
    """Returns the tools to call with their arguments, and why others are not called."""
    chosen: dict[str, dict[str, Json]] = {}
    notes: list[str] = []
    for tool in tools:
        name, key = label(tool.name), query_argument(tool.input_schema)
        if tool.effect is not Effect.READ:
            # Nothing is approved yet, so only tools that read are called.
            code = "context.search_writes" if tool.search else "context.search_effect"
            notes.append(Sentence(code, name=name))
        elif key is None:
            note = Sentence(
                "{name} is marked as search but takes no single text: not called", name=name
            )
            notes.append(note)
        elif len(chosen) < calls:
            chosen[tool.name] = {key: visible(request)}
    if not tools:
        notes.append(Sentence("no background investigation: no tool is marked as search"))
    return chosen, notes


def query_argument(schema: Mapping[str, Json]) -> str | None:
    """Returns the argument for the search words, if no other argument is required."""
    properties, required = schema.get("properties"), schema.get("required")
    known = properties if isinstance(properties, dict) else {}
    needed = [str(each) for each in required] if isinstance(required, list) else []
    texts = [name for name, each in known.items() if _takes_text(each)]
    if needed:
        return needed[0] if len(needed) == 1 and needed[0] in texts else None
    named = (name for name in _QUERY_NAMES if name in texts)
    return next(named, texts[0] if len(texts) == 1 else None)


def _takes_text(schema: Json) -> bool:
    if not isinstance(schema, dict):
        return schema is True
    kind = schema.get("type", "string")
    return "enum" not in schema and "string" in (kind if isinstance(kind, list) else [kind])


async def _ask(
    source: ToolSource, tool: str, arguments: dict[str, Json], tokens: int, count: Count
) -> ContextBlock:
    key = f"background-{content_hash([tool, arguments])[:16]}"
    result = await source.call(tool, arguments, Call(key=key))
    if not isinstance(result, str):
        result = "" if result is None else json.dumps(result, ensure_ascii=False, indent=1)
    return ContextBlock(HEADING, clipped(result.strip(), tokens=tokens, count=count), tool)
