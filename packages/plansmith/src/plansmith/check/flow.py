"""Checks that the output of a step fits the place where a reference puts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from plansmith.check.names import Catalogue, Names
from plansmith.check.placeholders import Placeholders
from plansmith.check.schemas import Schema, Shape, inside, shape, shape_of, types_of, values_of
from plansmith.errors import ReferenceFailed
from plansmith.plan.data import Json, Path, same
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity, problem
from plansmith.plan.refs import ITEM, RESERVED, Ref, find, lookup
from plansmith.plan.sentence import Sentence, joined
from plansmith.plan.steps import AnyStep, AskStep, MapStep, ReplyStep, StepFields, ToolStep

_TEXT = Shape([{"type": "string"}], {})
_ANY = Shape([{}], {})
# A call may still convert between these: "5" to 5.
_SCALARS = frozenset({"string", "number", "integer", "boolean"})


class Place(NamedTuple):
    """The place of a reference: the step that a problem names, and the field."""

    step: str
    path: Path


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

    def problems(self, step: AnyStep, arguments: Placeholders | None = None) -> Iterator[Problem]:
        """Yields references that point to nothing, or to a value of the wrong type.

        `arguments` are those of a tool step, if the caller has them.
        """
        within = step if step.kind == "map" else None
        for found in step.references:
            if found.ref is not None and found.ref.path:
                yield from self._lookup(found.ref, Place(step.id, found.where), within)
        if within is not None:
            yield from self._list(within)
        inner = step.each if step.kind == "map" else step
        if inner.kind == "tool" and step.references:
            yield from self._fit(inner, within, arguments or Placeholders(inner.inputs))

    def output(self, ref: Ref, within: MapStep | None) -> Shape:
        if ref.step == ITEM:
            source = self._items(within, ref) if within is not None else _ANY
        elif ref.step in self._earlier:
            return self._earlier_output(ref)
        else:
            source = self._outputs.get(ref.step) or self._output_of(ref.step)
        if not source.known:
            return _ANY
        return inside(source, ref.path) if ref.path else source

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
                spec = self.tools.get(step.tool)
                return _ANY if spec is None else self.tools.gives(spec)
            case AskStep(answer_schema=schema) if schema:
                return shape(schema, schema)
            case ReplyStep():
                return _TEXT
            case MapStep():
                each = self._of(step.each)
                return Shape([{"type": "array", "items": {"anyOf": [*each.forms]}}], each.root)
            case _:
                return _ANY

    def _items(self, step: MapStep, ref: Ref) -> Shape:
        if isinstance(step.over, list):
            known = step.over and not ref.path and not any(find(step.over))
            return Shape([{"enum": step.over}], {}) if known else _ANY
        source = self.over(step)
        return inside(source, (0,)) if source is not None and source.forms else _ANY

    def over(self, step: MapStep) -> Shape | None:
        """Returns the shape of the list of a map step, if it is a reference."""
        ref = Placeholders(step.over).refs.get(())
        return None if ref is None or ref.step == ITEM else self.output(ref, None)

    def _lookup(self, ref: Ref, place: Place, within: MapStep | None) -> Iterator[Problem]:
        """Follows the path key by key, to report the first that does not exist."""
        if ref.step == ITEM and within is not None and isinstance(within.over, list):
            return
        if ref.step in self._earlier:
            yield from self._earlier_lookup(ref, place)
            return
        source = self.output(Ref(ref.step), within)
        for depth, key in enumerate(ref.path if source.known else ()):
            below = inside(source, (key,))
            if below.forms and not below.undeclared:
                source = below
                continue
            fields = {"ref": str(ref), "step": ref.step, "key": _key(key)}
            message = Sentence("{ref}: the output of '{step}' has no {key}", **fields)
            if before := ref.path[:depth]:
                place_in = ".".join(map(str, before))
                message = Sentence(
                    "{ref}: the output of '{step}' has no {key} in '{place}'",
                    place=place_in,
                    **fields,
                )
            severity = Severity.WARNING if below.forms else Severity.ERROR
            yield _mismatch(place, message, _near(source, key), severity)
            return

    def _earlier_lookup(self, ref: Ref, place: Place) -> Iterator[Problem]:
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
                yield _mismatch(place, message, hint, Severity.ERROR)
                return

    def _list(self, step: MapStep) -> Iterator[Problem]:
        source = self.over(step)
        if source is None or not source.known:
            return
        if "array" not in source.types:
            message = Sentence(
                "`over` is {type} by the tool's output schema, not a list", type=_types(source)
            )
            hint = Sentence("name the list inside of it, with $path")
            yield problem("PS309", message, hint=hint, step=step.id, path=("over",))

    def _fit(
        self, step: ToolStep, within: MapStep | None, arguments: Placeholders
    ) -> Iterator[Problem]:
        spec = self.tools.get(step.tool)
        if spec is None:
            return
        for path, ref in arguments.refs.items():
            gives, wanted = self.output(ref, within), inside(self.tools.takes(spec), path)
            if not (gives.known and wanted.known) or _can_fit(gives, wanted):
                continue
            types = {"given": _types(gives), "wanted": _types(wanted)}
            message = Sentence(
                "{ref} is {given}, and '{name}' should be {wanted}",
                ref=str(ref),
                name=str(path[-1]),
                **types,
            )
            place = Place(step.id, ("inputs", *arguments.real(path)))
            hint = Sentence("refer to another part of the output, or to another step")
            yield _mismatch(place, message, hint, _severity(gives, wanted))


def _mismatch(place: Place, message: str, hint: str, severity: Severity) -> Problem:
    found = problem("PS208", message, hint=hint, step=place.step, path=place.path)
    return found.model_copy(update={"severity": severity})


def _key(key: str | int) -> str:
    if isinstance(key, int):
        return Sentence("item {place}", place=str(key))
    return Sentence("'{name}'", name=key)


def _near(source: Shape, key: str | int) -> str:
    if source.properties:
        return Names(source.properties).hint(str(key))
    return Sentence("it is {type}", type=_types(source))


def _types(place: Shape) -> str:
    types = place.types - ({"integer"} if "number" in place.types else set())
    return joined(sorted(types), "text.or") or Sentence("nothing")


def _can_fit(gives: Shape, wanted: Shape) -> bool:
    return any(_forms_fit(one, other) for one in gives.forms for other in wanted.forms)


def _forms_fit(gives: Schema, wanted: Schema) -> bool:
    values, allowed = values_of(gives), values_of(wanted)
    if values is None or allowed is None:
        return bool(types_of(gives) & types_of(wanted))
    return any(same(one, other) for one in values for other in allowed)


def _severity(gives: Shape, wanted: Shape) -> Severity:
    """Returns a warning if a call may convert the value (a number to text), else an error."""
    out, into = gives.types, wanted.types
    converted = not out & into and out & _SCALARS and into & _SCALARS
    return Severity.WARNING if converted else Severity.ERROR
