"""Searches for background on a request before a plan is made for it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from plansmith.check.names import words
from plansmith.lazy import lazy_pattern
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json, content_hash
from plansmith.plan.sentence import Sentence
from plansmith.ports import Available, Call, Clock, ContextBlock, ToolSource
from plansmith.text import visible
from plansmith_planner.context.fence import label
from plansmith_planner.context.timeouts import Failed, with_timeout
from plansmith_planner.context.token_budget import Count, clipped

HEADING: Final = "background investigation results of user query:"
# Words in the names of tools that search the world, and how such tools describe themselves.
_SEARCH_WORDS: Final = frozenset(
    {"search", "websearch", "tavily", "serper", "serpapi"}
    | {"duckduckgo", "ddg", "bing", "brave", "searxng", "exa"}
)
_DESCRIBED: Final = lazy_pattern(
    r"(?:search(?:es)?|look(?:s)? (?:things )?up on|find(?:s)? (?:\w+ ){0,3}on)\b.{0,40}"
    r"\b(?:web|internet|online|news|google|bing|duckduckgo|tavily|wikipedia)\b"
    r"|(?:搜索|检索|查找).{0,12}(?:网|互联网|新闻|资料)|(?:联网|网页|网络)(?:搜索|检索)",
    re.IGNORECASE,
)
_HAN_SEARCH: Final = ("搜索", "检索", "搜一下")
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
    marked = (each for each in available.tools if each.search)
    found = next(marked, None) or next(filter(is_search, available.tools), None)
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
        return Investigated(
            (), (Sentence("no background investigation: {reason}", reason=listed.reason),)
        )
    chosen, notes = _choose(listed, request, search.calls)
    left = search.seconds - (clock.monotonic() - start)
    room = min(tokens, search.tokens) // max(len(chosen), 1)
    found = await asyncio.gather(
        *(
            with_timeout(
                _ask(search.tools, tool, arguments, room, count), seconds=left, clock=clock
            )
            for tool, arguments in chosen
        )
    )
    blocks: list[ContextBlock] = []
    for (tool, _), block in zip(chosen, found, strict=True):
        if isinstance(block, Failed):
            notes.append(
                Sentence(
                    "background search with {tool} failed: {reason}",
                    tool=label(tool.name),
                    reason=block.reason,
                )
            )
        elif block.text:
            blocks.append(block)
    return Investigated(tuple(blocks), tuple(notes))


async def _listed(source: ToolSource) -> Sequence[ToolSpec]:
    found = [tool for tool in await source.tools() if is_search(tool)]
    return sorted(found, key=lambda tool: not tool.search)  # marked ones first


def is_search(tool: ToolSpec) -> bool:
    """Whether a tool is marked as search, or by its name or description searches the world."""
    if tool.search or not tool.open_world:
        return tool.search
    names = set(words(tool.name))
    named = not names.isdisjoint(_SEARCH_WORDS) or any(each in tool.name for each in _HAN_SEARCH)
    described = bool(_DESCRIBED.search(tool.description[:200]))
    return (named or described) and query_argument(tool.input_schema) is not None


def _choose(
    tools: Sequence[ToolSpec], request: str, calls: int
) -> tuple[list[tuple[ToolSpec, dict[str, Json]]], list[str]]:
    """Returns the tools to call with their arguments, and why others are not called."""
    chosen: list[tuple[ToolSpec, dict[str, Json]]] = []
    notes: list[str] = []
    for tool in tools:
        name = label(tool.name)
        key = query_argument(tool.input_schema)
        if tool.effect is not Effect.READ:
            # Nothing is approved yet, so only tools that read are called.
            code = "context.search_writes" if tool.search else "context.search_effect"
            notes.append(Sentence(code, name=name))
        elif key is None:
            notes.append(
                Sentence(
                    "{name} is marked as search but takes no single text: not called", name=name
                )
            )
        elif len(chosen) < calls:
            chosen.append((tool, {key: visible(request)}))
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
    return "enum" not in schema and (
        kind == "string" or (isinstance(kind, list) and "string" in kind)
    )


async def _ask(
    source: ToolSource, tool: ToolSpec, arguments: dict[str, Json], tokens: int, count: Count
) -> ContextBlock:
    key = f"background-{content_hash([tool.name, arguments])[:16]}"
    result = await source.call(tool.name, arguments, Call(key=key))
    text = result if isinstance(result, str) else _as_text(result)
    return ContextBlock(HEADING, clipped(text.strip(), tokens=tokens, count=count), tool.name)


def _as_text(result: Json) -> str:
    return "" if result is None else json.dumps(result, ensure_ascii=False, indent=1)
