"""Searches for background on a request before a plan is made for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json, canonical_hash, json_text
from plansmith.plan.sentence import Sentence
from plansmith.ports import Available, Call, Clock, ContextBlock, ContextSource, ToolSource
from plansmith.text import visible
from plansmith_planner.context.fence import label
from plansmith_planner.context.timeouts import Failed, with_timeout
from plansmith_planner.context.token_budget import clipped
from plansmith_planner.language.verbs import says_it_searches

TOKENS: Final = 1500
HEADING: Final = "background investigation results of user query:"
_QUERY_NAMES: Final = (
    "query", "q", "search_query", "search", "question", "keywords", "keyword", "text", "input",
)  # fmt: skip


class Investigated(NamedTuple):
    """What the search found, as one block or none, and what went wrong."""

    blocks: tuple[ContextBlock, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Background:
    """Context for planning: what the first of these sources that can search finds."""

    sources: Sequence[ToolSource]
    clock: Clock

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        return (await self.investigate(query, tokens=token_limit)).blocks

    async def investigate(self, request: str, *, tokens: int) -> Investigated:
        """Calls the first tool that searches and only reads; a failure becomes a note."""
        notes: list[str] = []
        asked = ""

        async def found() -> str:
            nonlocal asked
            tools = [
                (each, tool) for each in self.sources for tool in _marked_first(await each.tools())
            ]
            if not tools:
                notes.append(Sentence("no background investigation: no tool is marked as search"))
            for search, tool in tools:
                name, key = label(tool.name), query_argument(tool.input_schema)
                if tool.effect is not Effect.READ:
                    # Nothing is approved yet, so only tools that read are called.
                    code = "context.search_writes" if tool.search else "context.search_effect"
                    notes.append(Sentence(code, name=name))
                elif key is None:
                    notes.append(
                        Sentence(
                            "{name} is marked as search but takes no single text: not called",
                            name=name,
                        )
                    )
                else:
                    asked = tool.name
                    arguments: dict[str, Json] = {key: visible(request)}
                    call = Call(key=f"background-{canonical_hash([asked, arguments])[:16]}")
                    result = await search.call(asked, arguments, call)
                    text = result if isinstance(result, str) else json_text(result, indent=1)
                    return "" if result is None else text.strip()
            return ""

        text = await with_timeout(found(), seconds=15.0, clock=self.clock)
        if isinstance(text, Failed):
            about = Sentence("no background investigation: {reason}", reason=text.reason)
            if asked:
                about = Sentence(
                    "background search with {tool} failed: {reason}",
                    tool=label(asked),
                    reason=text.reason,
                )
            return Investigated((), (*notes, about))
        clipped_text = clipped(text, tokens=min(tokens, TOKENS))
        blocks = (ContextBlock(HEADING, clipped_text, asked),) if clipped_text else ()
        return Investigated(blocks, tuple(notes))


def with_search(
    context: Sequence[ContextSource], available: Available, clock: Clock
) -> list[ContextSource]:
    """Adds a search with a tool that is there, unless there is one; a marked tool comes first."""
    found = next(iter(_marked_first(available.tools)), None)
    if found is None or any(isinstance(each, Background) for each in context):
        return [*context]
    return [*context, Background([available.sources[found.name]], clock)]


def _marked_first(tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    return sorted(filter(is_search, tools), key=lambda tool: not tool.search)


def is_search(tool: ToolSpec) -> bool:
    """Whether a tool is marked as search, or by its name searches the world."""
    if tool.search or not tool.open_world:
        return tool.search
    says_so = says_it_searches(tool.name)
    return says_so and query_argument(tool.input_schema) is not None


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
