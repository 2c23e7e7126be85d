"""Checks that outputs of steps fit where references put them: into arguments and conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, cast

from plansmith.check.arguments import Placeholders, type_names
from plansmith.check.names import Catalogue, KnownTool, Names
from plansmith.check.schemas import Shape
from plansmith.errors import ReferenceFailed
from plansmith.plan import conditions as cond
from plansmith.plan import steps as st
from plansmith.plan.data import Json, Path, kind_of_value, same
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity, problem
from plansmith.plan.refs import ITEM, RESERVED, Found, Ref, find_refs, lookup, whole_ref
from plansmith.plan.sentence import Sentence, joined

_TEXT: Final = Shape.of({"type": "string"})
_ANY: Final = Shape.of({})
# A call may still convert between these: "5" to 5.
_SCALARS: Final = frozenset({"string", "number", "integer", "boolean"})
_UNTIL: Final = ("repeat", "until")
# The kinds of steps that may have a rule; the others may be on any step.
_ALLOWED: Final = {
    "repeat": frozenset({"tool", "agent", "plan", "map"}),
    "retry": frozenset({"tool", "agent", "reply"}),
    "undo_with": frozenset({"tool", "agent"}),
}
# What to write instead, where that is not simply to leave it out.
_INSTEAD: Final = {("repeat", "ask"): "hint.repeat_ask", ("repeat", "reply"): "hint.repeat_reply"}


class Flow:
    """Knows the outputs of a plan's steps, as far as schemas describe them.

    `earlier_values` are those of earlier runs that the plan uses, which are known as they are.
    """

    def __init__(
        self, plan: Plan, tools: Catalogue, earlier_values: Mapping[str, Json] | None = None
    ) -> None:
        self.plan = plan
        self.tools = tools
        self._earlier_values = earlier_values or {}
        self._outputs: dict[str, Shape] = {}

    def output(self, ref: Ref, within: st.MapStep | None) -> Shape:
        """Returns the shape of what a reference points at, in a map step or outside of one."""
        if ref.step == ITEM:
            source = _ANY if within is None else self._item(within, ref)
        elif ref.step in self._earlier_values:
            try:
                kind = kind_of_value(lookup(ref, self._earlier_values))
            except ReferenceFailed:
                return _ANY  # reported where its path is followed
            return Shape.of({"type": kind})
        else:
            if ref.step not in self._outputs:
                step = None if ref.step in RESERVED else self.plan.by_id.get(ref.step)
                self._outputs[ref.step] = _ANY if step is None else self._of(step)
            source = self._outputs[ref.step]
        return source.inside(ref.path) if source.known else _ANY

    def over(self, step: st.MapStep) -> Shape | None:
        """Returns the shape of the list of a map step, if it is a reference."""
        ref = whole_ref(step.over)
        return None if ref is None or ref.step == ITEM else self.output(ref, None)

    def _item(self, step: st.MapStep, ref: Ref) -> Shape:
        if isinstance(step.over, list):
            known = step.over and not ref.path and not any(find_refs(step.over))
            return Shape.of({"enum": step.over}) if known else _ANY
        source = self.over(step)
        return source.inside((0,)) if source is not None and source.forms else _ANY

    def _of(self, step: st.StepFields) -> Shape:
        if step.otherwise is not None or step.on_error not in ("fail", "skip"):
            return _ANY  # another value may stand in for its result
        match step:
            case st.ToolStep():
                tool = self.tools.tool(step.tool)
                return _ANY if tool is None else tool.output_shape
            case st.AskStep(answer_schema=schema) if schema:
                return Shape.of(schema)
            case st.ReplyStep():
                return _TEXT
            case st.MapStep():
                each = self._of(step.each)
                return Shape([{"type": "array", "items": {"anyOf": [*each.forms]}}], each.whole)
            case _:
                return _ANY

    def missing_key(self, found: Found, step: st.AnyStep) -> Iterator[Problem]:
        """Yields that a reference of a step points to nothing in an output."""
        ref, within = found.ref, step if step.kind == "map" else None
        if ref is None or (depth := self._lost(ref, within)) is None:
            return
        key, is_earlier = str(ref.path[depth]), ref.step in self._earlier_values
        here = self.output(Ref(ref.step, ref.path[:depth]), within)
        below = self.output(Ref(ref.step, ref.path[: depth + 1]), within)
        about = {"ref": str(ref), "step": ref.step, "key": key}
        message = Sentence("{ref}: the output of '{step}' has no '{key}'", **about)
        # Nothing in an earlier value is named: models read this, and it is words of tools.
        hint: str = Sentence("it is {type}", type=_types(here))
        if here.properties and not is_earlier:
            hint = Names(here.properties).hint(key)
        severity = None if is_earlier or not below.forms else Severity.WARNING
        where = found.where
        yield problem("PS208", message, hint=hint, step=step.id, path=where, severity=severity)

    def not_a_list(self, step: st.MapStep) -> Iterator[Problem]:
        """Yields that a map step goes over an output that is no list."""
        source = self.over(step)
        if source is not None and source.known and "array" not in source.types:
            message = Sentence(
                "`over` is {type} by the tool's output schema, not a list", type=_types(source)
            )
            hint = Sentence("name the list inside of it, with $path")
            yield problem("PS309", message, hint=hint, step=step.id, path=("over",))

    def _lost(self, ref: Ref, within: st.MapStep | None) -> int | None:
        """Returns the place of the first key in a reference that does not exist."""
        if ref.step not in self._earlier_values:
            return self.output(ref, within).lost
        for depth in range(len(ref.path)):
            try:
                lookup(Ref(ref.step, ref.path[: depth + 1]), self._earlier_values)
            except ReferenceFailed:
                return depth
        return None

    def misfits(
        self, step: st.ToolStep, within: st.MapStep | None, tool: KnownTool, arguments: Placeholders
    ) -> Iterator[Problem]:
        """Yields references to values of a type that the tool does not take there."""
        for path, ref in arguments.refs.items():
            gives, wanted = self.output(ref, within), tool.input_shape.inside(path)
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
            where = ("inputs", *arguments.real(path))
            severity = Severity.WARNING if converted else None
            yield problem("PS208", message, hint=hint, step=step.id, path=where, severity=severity)

    def types_of(self, operand: Json, within: st.MapStep | None) -> frozenset[str]:
        """Returns the JSON types that an operand of a condition may have; none if not known."""
        refs = cond.refs_alone(operand)
        if not refs:
            known = not isinstance(operand, dict)
            return frozenset({kind_of_value(operand)} if known else ())
        shapes = [self.output(ref, within) for ref in refs]
        kinds = {kind for shape in shapes for kind in shape.types}
        is_known = all(shape.known for shape in shapes)
        return frozenset("number" if each == "integer" else each for each in kinds if is_known)


def _types(place: Shape) -> str:
    types = place.types - ({"integer"} if "number" in place.types else set())
    return joined(sorted(types), "text.or") or Sentence("nothing")


def _can_fit(gives: Shape, wanted: Shape) -> bool:
    """Tells whether a value of one shape may have the other, by types and by listed values."""
    for types, values in gives.kinds:
        for allowed, listed in wanted.kinds:
            fits = bool(types & allowed)
            if values is not None and listed is not None:
                fits = any(same(one, other) for one in values for other in listed)
            if fits:
                return True
    return False


def rule_problems(
    plan: Plan, flow: Flow, check_call: Callable[[st.ToolStep], Iterable[Problem]]
) -> Iterator[Problem]:
    """Yields the problems of the steps' rules; `check_call` checks the call of a tool."""
    for step in plan.steps if "rules" in plan.features else ():
        # The rules of the inner step of a map have problems that name the map.
        inner = [(step.each, ("each",), step)] if step.kind == "map" else []
        for each, place, within in [(step, (), None), *inner]:
            found = [*_rules(each, flow, within)]
            undo = each.undo_with
            if undo is not None and each.kind in _ALLOWED["undo_with"]:
                call = st.ToolStep(id=each.id, tool=undo.tool, inputs=undo.inputs)
                where = ("undo_with",)
                found += [_within(where, each.id, flaw) for flaw in check_call(call)]
            yield from (_within(place, step.id, flaw) for flaw in found)


def _within(place: Path, step: str, found: Problem) -> Problem:
    return found.replace(step=step, path=(*place, *found.path))


def _rules(step: st.AnyStep, flow: Flow, within: st.MapStep | None) -> Iterator[Problem]:
    """Yields the problems of the rules of one step."""
    for rule, kinds in _ALLOWED.items():
        if getattr(step, rule) is not None and step.kind not in kinds:
            message = Sentence("'{rule}' is not for a {kind} step", rule=rule, kind=step.kind)
            hint = Sentence(_INSTEAD.get((rule, step.kind), "hint.rule_leave_out"))
            yield problem("PS319", message, hint=hint, path=(rule,))
    if step.when is not None:
        yield from _condition(step, step.when, ("when",), flow, within)
    if step.repeat is not None:
        yield from _condition(step, step.repeat.until, _UNTIL, flow, within)
    for rule in ("otherwise", "on_error"):
        given = getattr(step, rule)
        if isinstance(given, st.Instead) and any(find_refs(given.value)):
            message = Sentence("'{rule}' is a plain value, which holds no references", rule=rule)
            hint = Sentence("join results with {example}", example='{"$first": […]}')
            yield problem("PS319", message, hint=hint, path=(rule, "value"))


def _condition(
    step: st.AnyStep, condition: Json, path: Path, flow: Flow, within: st.MapStep | None
) -> Iterator[Problem]:
    flaws = cond.condition_flaws(condition)
    for flaw in flaws:
        hint = Sentence("write for example {example}", example='{"below": [{"$from": "step"}, 10]}')
        yield problem("PS318", flaw.why, hint=hint, path=(*path, *flaw.where))
    if flaws:
        return
    names = {found.ref.step if found.ref else "" for found in find_refs(condition)}
    if not names:
        message = Sentence("the condition is the same in every run: it refers to nothing")
        hint = Sentence("refer to a result, such as {example}", example='{"$from": "step"}')
        yield problem("PS318", message, hint=hint, path=path, severity=Severity.WARNING)
    for order, where in _unordered(condition, path, flow, within):
        hint = Sentence("compare numbers with numbers and texts with texts")
        yield problem("PS318", order, hint=hint, path=where)
    if path == _UNTIL and step.id not in names:
        message = Sentence(
            "`until` does not look at the result of '{step}', so that no round can change it",
            step=step.id,
        )
        example = f'{{"$from": "{step.id}"}}'
        hint = Sentence("refer to a result, such as {example}", example=example)
        yield problem("PS319", message, hint=hint, path=path)


def _unordered(
    condition: Json, path: Path, flow: Flow, within: st.MapStep | None
) -> Iterator[tuple[str, Path]]:
    """Yields comparisons of values that have no order, such as a number and a text."""
    name, given = next(iter(cast("dict[str, Json]", condition).items()))
    here, items = (*path, name), given if isinstance(given, list) else [given]
    if name == "not" or name in cond.LISTS:
        for each in items:
            yield from _unordered(each, here, flow, within)
    elif name in cond.ORDER:
        left, right = (flow.types_of(each, within) for each in items)
        if left and right and not left & right & {"number", "string"}:
            message = Sentence(
                "{condition}: {left} and {right} are never compared that way",
                condition=cond.condition_text(condition),
                left=type_names(sorted(left)),
                right=type_names(sorted(right)),
            )
            yield message, here
