"""Checks that the output of a step fits the place where a reference puts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from plansmith.check.names import Catalogue, KnownTool, Names
from plansmith.check.placeholders import Placeholders
from plansmith.check.schemas import Document, Shape, shape_of
from plansmith.errors import ReferenceFailed
from plansmith.plan.data import Json, Path, same
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity, problem
from plansmith.plan.refs import ITEM, RESERVED, Ref, find, lookup, whole_ref
from plansmith.plan.sentence import Sentence, joined
from plansmith.plan.steps import AnyStep, AskStep, MapStep, ReplyStep, StepFields, ToolStep

_NO_SCHEMA = Document({})
_TEXT = Shape([{"type": "string"}], _NO_SCHEMA)
_ANY = Shape([{}], _NO_SCHEMA)
# A call may still convert between these: "5" to 5.
_SCALARS = frozenset({"string", "number", "integer", "boolean"})


class Flow:
    """Knows the outputs of a plan's steps, as far as schemas describe them.

    `earlier` are the values of earlier runs that the plan uses, which are known as they are.
    """

    def __init__(
        self, plan: Plan, tools: Catalogue, earlier: Mapping[str, Json] | None = None
    ) -> None:
        self.plan = plan
        self.tools = tools
        self._earlier = earlier or {}
        self._outputs: dict[str, Shape] = {}

    def lookups(self, step: AnyStep) -> Iterator[Problem]:
        """Yields references of a step that point to nothing, and a map over what is no list."""
        within = step if step.kind == "map" else None
        for found in step.references:
            if found.ref is None or not found.ref.path:
                continue
            if found.ref.step in self._earlier:
                yield from self._earlier_lookup(found.ref, step.id, found.where)
            elif (depth := self.output(found.ref, within).lost) is not None:
                message, hint, severity = self._lost(found.ref, depth, within)
                yield _mismatch(message, hint, severity, step.id, found.where)
        if within is not None:
            source = self.over(within)
            if source is not None and source.known and "array" not in source.types:
                message = Sentence(
                    "`over` is {type} by the tool's output schema, not a list", type=_types(source)
                )
                hint = Sentence("name the list inside of it, with $path")
                yield problem("PS309", message, hint=hint, step=step.id, path=("over",))

    def misfits(
        self, step: ToolStep, within: MapStep | None, tool: KnownTool, arguments: Placeholders
    ) -> Iterator[Problem]:
        """Yields references to values of a type that the tool does not take there."""
        for path, ref in arguments.refs.items():
            gives, wanted = self.output(ref, within), tool.takes.inside(path)
            if not (gives.known and wanted.known) or _can_fit(gives, wanted):
                continue
            message = Sentence(
                "{ref} is {given}, and '{name}' should be {wanted}",
                ref=str(ref),
                name=str(path[-1]),
                given=_types(gives),
                wanted=_types(wanted),
            )
            hint = Sentence("refer to another part of the output, or to another step")
            out, into = gives.types, wanted.types
            # A call may convert the value, such as a number to text.
            converted = not out & into and out & _SCALARS and into & _SCALARS
            severity = Severity.WARNING if converted else Severity.ERROR
            where = ("inputs", *arguments.real(path))
            yield _mismatch(message, hint, severity, step.id, where)

    def output(self, ref: Ref, within: MapStep | None) -> Shape:
        """Returns the shape of what a reference points at, in a map step or outside of one."""
        if ref.step == ITEM:
            source = self._items(within, ref) if within is not None else _ANY
        elif ref.step in self._earlier:
            return self._earlier_output(ref)
        else:
            source = self._outputs.get(ref.step) or self._output_of(ref.step)
        if not source.known:
            return _ANY
        return source.inside(ref.path) if ref.path else source

    def over(self, step: MapStep) -> Shape | None:
        """Returns the shape of the list of a map step, if it is a reference."""
        ref = whole_ref(step.over)
        return None if ref is None or ref.step == ITEM else self.output(ref, None)

    def _earlier_output(self, ref: Ref) -> Shape:
        try:
            return shape_of(lookup(ref, self._earlier))
        except ReferenceFailed:
            return _ANY  # reported where its path is followed

    def _output_of(self, name: str) -> Shape:
        step = None if name in RESERVED else self.plan.by_id.get(name)
        found = self._outputs[name] = _ANY if step is None else self._of(step)
        return found

    def _of(self, step: StepFields) -> Shape:
        if step.otherwise is not None or step.on_error not in ("fail", "skip"):
            return _ANY  # another value may stand in for its result
        match step:
            case ToolStep():
                tool = self.tools.tool(step.tool)
                return _ANY if tool is None else tool.gives
            case AskStep(answer_schema=schema) if schema:
                return Shape.of(schema)
            case ReplyStep():
                return _TEXT
            case MapStep():
                each = self._of(step.each)
                return Shape([{"type": "array", "items": {"anyOf": [*each.forms]}}], each.document)
            case _:
                return _ANY

    def _items(self, step: MapStep, ref: Ref) -> Shape:
        if isinstance(step.over, list):
            known = step.over and not ref.path and not any(find(step.over))
            return Shape([{"enum": step.over}], _NO_SCHEMA) if known else _ANY
        source = self.over(step)
        return source.inside((0,)) if source is not None and source.forms else _ANY

    def _lost(self, ref: Ref, depth: int, within: MapStep | None) -> tuple[str, str, Severity]:
        """Returns what to say of the first key of a path that does not exist."""
        source = self.output(Ref(ref.step), within)
        here, below = source.inside(ref.path[:depth]), source.inside(ref.path[: depth + 1])
        key, place = ref.path[depth], ".".join(map(str, ref.path[:depth]))
        message = Sentence(
            "{ref}: the output of '{step}' has no {key} in '{place}'"
            if place
            else "{ref}: the output of '{step}' has no {key}",
            ref=str(ref),
            step=ref.step,
            key=_key(key),
            place=place,
        )
        hint: str = Sentence("it is {type}", type=_types(here))
        if here.properties:
            hint = Names(here.properties).hint(str(key))
        return message, hint, Severity.WARNING if below.forms else Severity.ERROR

    def _earlier_lookup(self, ref: Ref, step: str, where: Path) -> Iterator[Problem]:
        """Follows the path in the value itself.

        The problem names nothing of the value: models read it, and the value is words of tools.
        """
        for depth, key in enumerate(ref.path):
            try:
                lookup(Ref(ref.step, ref.path[: depth + 1]), self._earlier)
            except ReferenceFailed:
                message = Sentence(
                    "{ref}: the output of '{step}' has no {key}",
                    ref=str(ref),
                    step=ref.step,
                    key=_key(key),
                )
                here = self._earlier_output(Ref(ref.step, ref.path[:depth]))
                hint = Sentence("it is {type}", type=_types(here))
                yield _mismatch(message, hint, Severity.ERROR, step, where)
                return


def _mismatch(message: str, hint: str, severity: Severity, step: str, where: Path) -> Problem:
    found = problem("PS208", message, hint=hint, step=step, path=where)
    return found.model_copy(update={"severity": severity})


def _key(key: str | int) -> str:
    if isinstance(key, int):
        return Sentence("item {place}", place=str(key))
    return Sentence("'{name}'", name=key)


def _types(place: Shape) -> str:
    types = place.types - ({"integer"} if "number" in place.types else set())
    return joined(sorted(types), "text.or") or Sentence("nothing")


def _can_fit(gives: Shape, wanted: Shape) -> bool:
    """Tells whether a value of one shape may have the other, by types and by listed values."""
    for types, values in gives.kinds:
        for allowed, listed in wanted.kinds:
            if values is None or listed is None:
                fits = bool(types & allowed)
            else:
                fits = any(same(one, other) for one in values for other in listed)
            if fits:
                return True
    return False
