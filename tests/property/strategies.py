"""Random plans, journals and JSON, for property tests."""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping
from typing import Any

from hypothesis import strategies as st

from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.refs import literal

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["no", "1e5", "007", "2020-01-01", "~", "null", "{{a}}", "- x", "a\nb\n", " a", "#"]
)
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
JSON: st.SearchStrategy[Json] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
IDS = st.text(string.ascii_lowercase + string.digits + "_-", min_size=1, max_size=4).filter(
    lambda name: name[0] != "-" and name not in ("item", "params")
)


@st.composite
def inputs(draw: Any, sources: list[str]) -> dict[str, Json]:
    """Arguments made of plain data, escaped data and references to the sources."""
    plain: dict[str, Json] = draw(st.dictionaries(TEXT, JSON.map(literal), max_size=3))
    if sources and draw(st.booleans()):
        source = draw(st.sampled_from(sources))
        path = draw(st.lists(TEXT | st.integers(0, 9), max_size=2))
        plain["ref"] = {"$from": source, "$path": [*path]}
    if sources and draw(st.booleans()):
        plain["text"] = "see {{" + draw(st.sampled_from(sources)) + ".a[0]}} there"
    return plain


WORD = st.sampled_from(["alpha", "beta", "查天气"])
PAUSE = st.integers(0, 90)
MOST = st.integers(1, 9)
# The rules that each kind of step may have.
RULES = {
    "when": ("tool", "agent", "ask", "map", "plan", "reply"),
    "otherwise": ("tool", "agent", "ask", "map", "plan", "reply"),
    "on_error": ("tool", "agent", "ask", "map", "plan", "reply"),
    "repeat": ("tool", "agent", "map", "plan"),
    "retry": ("tool", "agent", "reply"),
    "undo_with": ("tool", "agent"),
}


# Made once: to make a strategy for each step would take far longer than to draw from it.
OPERANDS = st.sampled_from(["literal", "ref", "text", "length", "first"])
COMPARISONS = st.sampled_from(["equals", "not_equals", "below", "at_least", "in", "contains"])
CONDITIONS = st.sampled_from(["compare", "empty", "not", "all", "any"])
INSTEAD = st.sampled_from([None, 0, "none", {"a": [1]}])
ON_ERROR = st.sampled_from(["fail", "skip", "collect", {"value": 0}])
CHOSEN = {
    kind: st.lists(
        st.sampled_from([name for name, kinds in RULES.items() if kind in kinds]),
        max_size=2,
        unique=True,
    )
    for kind in RULES["when"]
}


def _operand(draw: st.DrawFn, sources: list[str]) -> Json:
    """A reference, its length, the first of several, or a literal."""
    kind = draw(OPERANDS)
    if not sources or kind == "literal":
        return literal(draw(SCALARS))
    first, other = (sources[draw(MOST) % len(sources)] for _ in "ab")
    ref: Json = {"$from": first, "$path": ["a"]}
    match kind:
        case "ref":
            return ref
        case "text":
            return "{{" + first + ".a[0]}}"
        case "length":
            return {"length": ref}
        case _:
            return {"$first": [ref, {"$from": other}]}


def _condition(draw: st.DrawFn, sources: list[str], depth: int = 0) -> dict[str, Json]:
    """A condition over the sources, of any form."""
    match draw(CONDITIONS) if depth < 2 else "compare":
        case "compare":
            return {draw(COMPARISONS): [_operand(draw, sources) for _ in "ab"]}
        case "empty":
            return {"empty": _operand(draw, sources)}
        case "not":
            return {"not": _condition(draw, sources, depth + 1)}
        case name:
            return {name: [_condition(draw, sources, depth + 1) for _ in "ab"]}


def _rules(draw: st.DrawFn, step_id: str, kind: str, earlier: list[str]) -> dict[str, Any]:
    """Some of the rules that a step of a kind may have; many steps have none."""
    made: dict[str, Any] = {}
    own = [*earlier, step_id]
    for name in draw(CHOSEN[kind]):
        match name:
            case "when":
                made[name] = _condition(draw, earlier)
            case "otherwise":
                made[name] = {"value": draw(INSTEAD)}
            case "on_error":
                made[name] = draw(ON_ERROR)
            case "repeat":
                until = _condition(draw, own)
                made[name] = {"until": until, "at_most": draw(MOST), "every": draw(PAUSE)}
            case "retry":
                made[name] = {"at_most": draw(MOST), "every": draw(PAUSE)}
            case _:
                given = {"id": "{{" + own[draw(MOST) % len(own)] + ".a}}"}
                made[name] = {"tool": draw(WORD), "inputs": given}
    return made


@st.composite
def steps(draw: st.DrawFn, step_id: str, earlier: list[str]) -> dict[str, Any]:
    """One step that uses only earlier ones."""
    fields: dict[str, Any] = {"id": step_id, "title": draw(TEXT), "why": draw(TEXT)}
    if earlier:
        fields["after"] = draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True))
    kind = draw(st.sampled_from(["tool", "agent", "ask", "map", "plan", "reply"]))
    word = WORD
    match kind:
        case "tool":
            fields |= {"tool": draw(word), "inputs": draw(inputs(earlier))}
        case "agent":
            fields |= {"agent": draw(word), "task": "do it", "inputs": draw(inputs(earlier))}
        case "ask":
            fields |= {"question": "which?", "options": draw(st.lists(TEXT, max_size=2))}
        case "map":
            inner = f"{step_id}_each"  # longer than any other id
            each = {"id": inner, "tool": draw(word), "inputs": draw(inputs([*earlier, "item"]))}
            each |= _rules(draw, inner, "tool", [*earlier, "item"])
            fields |= {"over": [1, 2], "each": each, "width": draw(st.integers(1, 9))}
        case "plan":
            fields |= {"template": draw(word), "inputs": draw(inputs(earlier))}
        case _:
            fields |= {"instruction": "say it"}
    fields |= _rules(draw, step_id, kind, earlier)
    return fields | ({"kind": kind} if draw(st.booleans()) else {})


@st.composite
def plan_values(draw: st.DrawFn, max_steps: int = 6) -> dict[str, Any]:
    """A sound plan as plain JSON; its steps stand in any order."""
    ids = draw(st.lists(IDS, max_size=max_steps, unique=True))
    made = [draw(steps(step_id, ids[:place])) for place, step_id in enumerate(ids)]
    value: dict[str, Any] = {
        "goal": draw(TEXT),
        "steps": draw(st.permutations(made)),
        "assumptions": draw(st.lists(TEXT, max_size=2)),
        "revision": draw(st.integers(1, 9)),
    }
    if draw(st.booleans()):
        value["schedule"] = {"every_minutes": draw(st.integers(1, 90))}
    return value


def plans(max_steps: int = 6) -> st.SearchStrategy[Plan]:
    """Sound plans."""
    return plan_values(max_steps).map(Plan.model_validate)


def ready(
    graph: Mapping[str, frozenset[str]], done: Collection[str], started: Collection[str] = ()
) -> list[str]:
    """The nodes that can start now: not done, not started, all needs done."""
    finished, busy = set(done), set(started)
    return [
        node
        for node, before in graph.items()
        if node not in finished and node not in busy and before <= finished
    ]
