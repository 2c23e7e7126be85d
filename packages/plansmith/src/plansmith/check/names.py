"""The tools by name, and the existing name that an unknown one probably means."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Final

from plansmith import plugins
from plansmith.check.schemas import Compiled, Shape, compiled
from plansmith.plan.capability import Effect, Tools, ToolSpec, tool_spec
from plansmith.plan.sentence import Sentence, joined

_COMPARED: Final = 40
_LIKE: Final = 0.6
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")


def fold(name: str) -> str:
    """Returns the name without case and separators."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def words(name: str) -> list[str]:
    """Returns the words of a name, in lower case, for any usual spelling."""
    return [word.lower() for word in _WORD.findall(name)]


class Names:
    """Known names; the index of similar names is built at the first unknown name."""

    def __init__(self, known: Collection[str]) -> None:
        self.known = known

    def __contains__(self, name: object) -> bool:
        return name in self.known

    def hint(self, name: str) -> str:
        """Returns the names that look like this one, else some that there are."""
        if not self.known:
            return Sentence("hint.none_known")
        folded = fold(name)
        near = self._folded.get(folded, [])[:1]
        if not near:
            matcher = difflib.SequenceMatcher(b=folded)
            scored: list[tuple[float, str]] = []
            for each in self._similar(folded):
                matcher.set_seq1(each)
                scored.append((-matcher.ratio(), each))
            best = [each for score, each in sorted(scored)[:3] if -score >= _LIKE]
            near = [self._folded[each][0] for each in best]
        if near:
            names = joined([Sentence("ps.quoted", text=each) for each in near], "text.or")
            return Sentence("did you mean {names}?", names=names)
        some = sorted(self.known)[:8]
        if len(self.known) <= 8:
            return Sentence("there is {names}", names=some)
        return Sentence("there is {names} and {more} more", names=some, more=len(self.known) - 8)

    def obvious(self, name: str) -> str | None:
        """Returns the one name that this must mean: another spelling or a typing error."""
        folded = fold(name)
        meant = self._folded.get(folded, [])
        if folded and not meant:
            similar = [each for key in self._similar(folded) for each in self._folded[key]]
            meant = [each for each in similar if _is_slip(name, each)]
        return meant[0] if folded and len(meant) == 1 else None

    @cached_property
    def _folded(self) -> dict[str, list[str]]:
        table: dict[str, list[str]] = {}
        for name in self.known:
            table.setdefault(fold(name), []).append(name)
        return table

    @cached_property
    def _holders(self) -> dict[str, list[str]]:
        """The names that contain each pair of letters."""
        table: dict[str, list[str]] = {}
        for name in self._folded:
            for pair in _pairs(name):
                table.setdefault(pair, []).append(name)
        return table

    def _similar(self, folded: str) -> list[str]:
        """Returns the few names that share most pairs of letters."""
        pairs = _pairs(folded)
        shared = Counter(each for pair in pairs for each in self._holders.get(pair, ()))
        scored = [(-2 * count / (len(pairs) + len(each)), each) for each, count in shared.items()]
        return [each for _, each in sorted(scored)[:_COMPARED]]


def _pairs(folded: str) -> set[str]:
    padded = f" {folded} "
    return {padded[place : place + 2] for place in range(len(padded) - 1)}


def _is_slip(wrong: str, right: str) -> bool:
    """Whether a name is another one mistyped, and not a different name that looks like it.

    Numbers and short words must be equal; `unlock` is not a mistyped `lock`.
    """
    if re.findall(r"\d+", wrong) != re.findall(r"\d+", right):
        return False
    ours, theirs = words(wrong), words(right)
    if len(ours) != len(theirs):
        ours, theirs = [fold(wrong)], [fold(right)]
    differing = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    for one, other in differing:
        short, same_start = min(len(one), len(other)), one[:1] == other[:1]
        if short < 3 or (short < 5 and not same_start):
            return False
        if not _within(one, other, 2 if short >= 8 and same_start else 1):
            return False
    return len(differing) <= 2


def _within(left: str, right: str, edits: int) -> bool:
    """Whether so many letters added, left out, replaced or swapped make one word the other."""
    if left == right:
        return True
    if not edits or abs(len(left) - len(right)) > edits:
        return False
    if left[:1] == right[:1]:
        return _within(left[1:], right[1:], edits)
    pairs = [(left[1:], right), (left, right[1:]), (left[1:], right[1:])]
    if left[:2] == right[1::-1]:
        pairs.append((left[2:], right[2:]))
    return any(_within(one, other, edits - 1) for one, other in pairs)


class KnownTool:
    """A tool and what follows from its schemas, each computed once."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    @cached_property
    def inputs(self) -> Compiled:
        return compiled(self.spec.input_schema)

    @cached_property
    def outputs(self) -> Compiled:
        return compiled(self.spec.output_schema or {})

    @cached_property
    def takes(self) -> Shape:
        return Shape.of(self.spec.input_schema)

    @cached_property
    def gives(self) -> Shape:
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


def reads(spec: ToolSpec) -> bool:
    """Whether calling the tool changes nothing.

    If the effect is not stated, running the tool counts as a write. For warnings the name is a
    better guide, where a planner is installed that can read it.
    """
    if states_effect(spec):
        return spec.effect is Effect.READ
    if spec.search or "reads" not in plugins.names("planners"):
        return spec.search
    by_name: Callable[[str], bool] = plugins.load("planners", "reads")
    return by_name(spec.name)


def states_effect(spec: ToolSpec) -> bool:
    """Whether the tool's effect was stated, and not assumed."""
    return "effect" in spec.model_fields_set
