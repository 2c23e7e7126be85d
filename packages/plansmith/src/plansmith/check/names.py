"""The tools by name, and the existing name that an unknown one probably means."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Final

from plansmith import plugins
from plansmith.check.schemas import SAYS_WHAT_ELSE, Compiled, Shape, compiled
from plansmith.plan.capability import Effect, Tools, ToolSpec, tool_spec
from plansmith.plan.data import objects_in
from plansmith.plan.sentence import Sentence, joined

# A name is compared with at most so many others: that takes up to 60 ms.
_COMPARED: Final = 1000
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")


def folded_name(name: str) -> str:
    """Returns the name without case and separators."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def words(name: str) -> list[str]:
    """Returns the words of a name, in lower case, for any usual spelling."""
    return [word.lower() for word in _WORD.findall(name)]


class Names:
    """Known names, and what an unknown one may mean."""

    def __init__(self, known: Collection[str]) -> None:
        self.known = known

    def __contains__(self, name: object) -> bool:
        return name in self.known

    def hint(self, name: str) -> str:
        """Returns the names that look like this one, else some that there are."""
        if not self.known:
            return Sentence("hint.none_known")
        folded, known = folded_name(name), [*self._folded]
        if len(known) > _COMPARED:
            known = [each for each in known if each[:1] == folded[:1]][:_COMPARED]
        near = [self._folded[each][0] for each in difflib.get_close_matches(folded, known)]
        if near:
            names = joined([Sentence("ps.quoted", text=each) for each in near], "text.or")
            return Sentence("did you mean {names}?", names=names)
        some = sorted(self.known)[:8]
        if len(self.known) <= 8:
            return Sentence("there is {names}", names=some)
        return Sentence("there is {names} and {more} more", names=some, more=len(self.known) - 8)

    def obvious(self, name: str) -> str | None:
        """Returns the one name that this is in other case or with other separators."""
        folded = folded_name(name)
        matches = self._folded.get(folded, [])
        return matches[0] if folded and len(matches) == 1 else None

    @cached_property
    def _folded(self) -> dict[str, list[str]]:
        table: dict[str, list[str]] = {}
        for name in self.known:
            table.setdefault(folded_name(name), []).append(name)
        return table


def seems_to_read(spec: ToolSpec) -> bool:
    """Tells whether calling the tool changes nothing.

    If the effect is not stated, running the tool counts as a write. For warnings the name is a
    better guide, where a planner is installed that can read it.
    """
    if "effect" in spec.model_fields_set:
        return spec.effect is Effect.READ
    if spec.search or "reads" not in plugins.names("language"):
        return spec.search
    by_name: Callable[[str], bool] = plugins.load("language", "reads")
    return by_name(spec.name)


class KnownTool:
    """A tool and what follows from its schemas, each computed once."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    @cached_property
    def seems_to_read(self) -> bool:
        return seems_to_read(self.spec)

    @cached_property
    def inputs(self) -> Compiled:
        return compiled(self.spec.input_schema)

    @cached_property
    def outputs(self) -> Compiled:
        return compiled(self.spec.output_schema or {})

    @cached_property
    def input_shape(self) -> Shape:
        return Shape.of(self.spec.input_schema)

    @cached_property
    def lists_fields(self) -> bool:
        """Whether its input schema lists the fields of an object, and says nothing of others."""
        return any(
            isinstance(form.get("properties"), dict) and SAYS_WHAT_ELSE.isdisjoint(form)
            for form in objects_in(self.spec.input_schema)
        )

    @cached_property
    def output_shape(self) -> Shape:
        """The shape of the output, as far as it is declared."""
        return Shape.of(self.spec.output_schema or {})


class Catalogue:
    """Tools in any accepted form, by name; cheap to make for 10,000 tools."""

    @classmethod
    def of(cls, tools: Tools | Catalogue) -> Catalogue:
        """Returns a catalogue of these tools; a catalogue itself is returned unchanged."""
        return tools if isinstance(tools, Catalogue) else cls(tools)

    def __init__(self, tools: Tools) -> None:
        if isinstance(tools, Mapping):
            self._entries: dict[str, Mapping[str, object] | ToolSpec] = {
                entry.name if isinstance(entry, ToolSpec) else name: entry
                for name, entry in tools.items()
            }
        else:
            self._entries = {spec.name: spec for spec in tools}
        self.names = Names(self._entries.keys())
        self._known: dict[str, KnownTool] = {}

    def get(self, name: str) -> ToolSpec | None:
        tool = self.tool(name)
        return None if tool is None else tool.spec

    def tool(self, name: str) -> KnownTool | None:
        tool = self._known.get(name)
        if tool is None and name in self._entries:
            entry = self._entries[name]
            spec = entry if isinstance(entry, ToolSpec) else tool_spec({**entry, "name": name})
            tool = self._known[name] = KnownTool(spec)
        return tool
