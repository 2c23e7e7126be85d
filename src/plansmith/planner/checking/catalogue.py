"""The tools there are, by name; a tool's description is read when it is first looked at."""

from __future__ import annotations

from collections.abc import Mapping

from plansmith.plan.capability import Tools, ToolSpec, tool_spec
from plansmith.planner.checking.names import Names
from plansmith.planner.checking.schemas import Shape, shape


class Catalogue:
    """Tools in any accepted form, ready to be looked up; cheap to make for 10,000 of them."""

    @classmethod
    def of(cls, tools: Tools | Catalogue) -> Catalogue:
        """A catalogue of these tools; one that is there already knows its schemas by now."""
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
        self._takes: dict[str, Shape] = {}
        self._gives: dict[str, Shape] = {}

    def get(self, name: str) -> ToolSpec | None:
        """The tool of this name."""
        entry = self._entries.get(name)
        if entry is None or isinstance(entry, ToolSpec):
            return entry
        spec = self._entries[name] = tool_spec({**entry, "name": name})
        return spec

    def takes(self, spec: ToolSpec) -> Shape:
        """The shape of a tool's arguments."""
        if spec.name not in self._takes:
            self._takes[spec.name] = shape(spec.input_schema, spec.input_schema)
        return self._takes[spec.name]

    def gives(self, spec: ToolSpec) -> Shape:
        """The shape of a tool's output, where it is declared."""
        if spec.name not in self._gives:
            declared = spec.output_schema or {}
            self._gives[spec.name] = shape(declared, declared)
        return self._gives[spec.name]
