"""What is done with any plan and any schema: it is checked, mended, compared and merged."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.property.strategies import JSON, TEXT, plan_values, plans, steps

from plansmith import Plan, Problem, apply_diff, diff_plans, try_read_plan
from plansmith.check.arguments import Placeholders, certain_errors
from plansmith.check.check_plan import check_plan
from plansmith.check.lint import lint_plan
from plansmith.check.names import Catalogue
from plansmith.check.schemas import compiled
from plansmith.plan.capability import ToolSpec
from plansmith.plan.diff import undone_edits
from plansmith_planner.autofix import autofix

KEYS = st.sampled_from(["ref", "text", "a", "b", "alpha"])
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
LEAVES: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(lambda kind: {"type": kind}, TYPES | st.lists(TYPES, min_size=1, unique=True)),
    st.builds(lambda values: {"enum": values}, st.lists(JSON, min_size=1, max_size=3)),
    st.builds(lambda value: {"const": value}, JSON),
    st.builds(lambda most: {"maxLength": most, "maxItems": most}, st.integers(0, 3)),
    st.sampled_from(
        [{}, {"$ref": "#"}, {"$ref": "#/properties/a"}, {"format": "date"}, {"pattern": "^a"}]
    ),
)


def _larger(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    several = st.lists(inner, min_size=1, max_size=3)
    members = st.dictionaries(KEYS, inner, max_size=3)
    several_of = (st.fixed_dictionaries({each: several}) for each in ("anyOf", "oneOf", "allOf"))
    return st.one_of(
        st.fixed_dictionaries({"type": st.just("object"), "properties": members}),
        st.fixed_dictionaries({"properties": members, "additionalProperties": st.just(False)}),
        st.builds(lambda table: {"properties": table, "required": sorted(table)}, members),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"if": inner, "then": inner, "else": inner}),
        *several_of,
    )


SCHEMAS = st.recursive(LEAVES, _larger, max_leaves=6)
ANY_SCHEMAS = SCHEMAS | st.dictionaries(
    st.sampled_from(
        ["type", "properties", "required", "anyOf", "$ref", "enum", "$schema", "items"]
    ),
    JSON,
    max_size=3,
)
TOOLS = st.fixed_dictionaries(
    {
        name: st.builds(
            lambda takes, gives, name=name: ToolSpec(
                name=name, input_schema=takes, output_schema=gives
            ),
            ANY_SCHEMAS,
            st.none() | ANY_SCHEMAS,
        )
        for name in ("alpha", "查天气")
    }
)


def problems(plan: Plan, tools: dict[str, ToolSpec]) -> list[Problem]:
    found = check_plan(plan, tools, agents=["Alpha"], max_steps=2)
    return found + lint_plan(plan, tools) + lint_plan(plan, tools, advice=True)


@given(plans(), plans(), TOOLS)
def test_a_catalogue_that_has_seen_other_plans_reports_the_same_problems(
    first: Plan, second: Plan, tools: dict[str, ToolSpec]
) -> None:
    used = Catalogue(tools)
    for plan in (first, second, first):
        assert check_plan(plan, used, agents=["Alpha"]) == check_plan(plan, tools, agents=["Alpha"])


@given(plan_values(), st.lists(st.tuples(st.integers(0, 5), JSON), max_size=3), TOOLS)
def test_whatever_can_be_read_can_be_checked(
    value: dict[str, Any], changes: list[tuple[int, Any]], tools: dict[str, ToolSpec]
) -> None:
    for place, inputs in changes:
        if place < len(value["steps"]):
            value["steps"][place]["inputs"] = inputs
    plan = try_read_plan(value)
    assume(isinstance(plan, Plan))
    assert isinstance(plan, Plan)
    for each in [*problems(plan, tools), *problems(autofix(plan, tools).plan, tools)]:
        assert each.message
        assert each.name


MENDED = {"PS205": {"PS201", "PS204"}, "PS206": {"PS101", "PS102", "PS203"}, "PS207": {"PS202"}}


@settings(max_examples=max(30, settings().max_examples))
@given(plans(), TOOLS, st.booleans())
def test_mending_twice_changes_nothing_and_what_is_mended_is_no_problem_any_more(
    plan: Plan, tools: dict[str, ToolSpec], ask: bool
) -> None:
    done = autofix(plan, tools, agents=["Beta"], ask_for_missing=ask)
    again = autofix(done.plan, tools, agents=["Beta"], ask_for_missing=ask)
    assert again.plan == done.plan
    assert again.problems == []
    kept = {step.id for step in plan.steps}
    assert kept <= {step.id for step in done.plan.steps}
    left = {
        (each.step, each.path, each.code) for each in check_plan(done.plan, tools, agents=["Beta"])
    }
    assume("PS304" not in {code for _, _, code in left})
    for note in done.problems:
        for code in MENDED[note.code]:
            assert (note.step, note.path, code) not in left


@given(SCHEMAS, st.dictionaries(KEYS, JSON, max_size=3), KEYS, JSON, TEXT)
def test_what_is_certain_with_a_blank_is_wrong_whatever_fills_it(
    schema: dict[str, Any], inputs: dict[str, Any], key: str, filling: Any, text: str
) -> None:
    quoted = {name: {"$literal": value} for name, value in inputs.items()}
    whole: tuple[Any, Any] = {"$from": "a"}, filling
    for blank, value in (whole, (f"x{{{{a}}}}{text}", f"x{text}")):
        found = certain_errors(compiled(schema), Placeholders({**quoted, key: blank}))
        filled = certain_errors(
            compiled(schema), Placeholders({**quoted, key: {"$literal": value}})
        )
        assert filled or not found


@st.composite
def edited(draw: st.DrawFn, plan: Plan) -> Plan:
    """A plan after a few edits: changed, added, removed and moved steps."""
    value: Any = plan.to_json()
    made: list[Any] = list(value["steps"])
    for _ in range(draw(st.integers(0, 3))):
        made = draw(_edit(made))
    goal = draw(st.just(value["goal"]) | TEXT)
    return Plan.model_validate(value | {"steps": made, "goal": goal})


@st.composite
def _edit(draw: st.DrawFn, made: list[Any]) -> list[Any]:
    deed = draw(st.sampled_from(["change", "remove", "add", "move"]))
    if deed == "add" or not made:
        new = draw(st.sampled_from(["x1", "x2", "x3"]))
        if any(each["id"] == new for each in made):
            return made
        place = draw(st.integers(0, len(made)))
        return [*made[:place], draw(steps(new, [])), *made[place:]]
    place = draw(st.integers(0, len(made) - 1))
    rest = [*made[:place], *made[place + 1 :]]
    if deed == "remove":
        return rest
    if deed == "move":
        other = draw(st.integers(0, len(rest)))
        return [*rest[:other], made[place], *rest[other:]]
    return [*made[:place], draw(_changed(made[place])), *made[place + 1 :]]


@st.composite
def _changed(draw: st.DrawFn, step: dict[str, Any]) -> dict[str, Any]:
    if step.get("inputs") and draw(st.booleans()):
        value = draw(JSON)
        name = draw(st.sampled_from(sorted(step["inputs"])) | TEXT)
        return step | {"inputs": step["inputs"] | {name: value}}
    return step | {"title": draw(TEXT), "disabled": draw(st.booleans())}


PAIRS = plans().flatmap(lambda plan: st.tuples(st.just(plan), edited(plan)))


@given(PAIRS)
def test_a_diff_is_empty_exactly_for_equal_plans(pair: tuple[Plan, Plan]) -> None:
    before, after = pair
    assert bool(diff_plans(before, after)) == (before != after)
    assert len(diff_plans(before, after)) == 0 or before != after
    assert not diff_plans(before, before)


@given(PAIRS | st.tuples(plans(), plans()))
def test_applying_a_diff_gives_the_other_plan(pair: tuple[Plan, Plan]) -> None:
    before, after = pair
    assert apply_diff(before, diff_plans(before, after)) == after
    assert apply_diff(after, diff_plans(after, before)) == before


@given(PAIRS)
def test_an_edit_is_undone_exactly_where_a_new_plan_has_it_otherwise(
    pair: tuple[Plan, Plan],
) -> None:
    base, person = pair
    edits = diff_plans(base, person)
    steps = {each.step.id for each in (*edits.added, *edits.removed)}
    assert undone_edits(base, person, person) == []
    assert {*undone_edits(base, person, base)} == steps | {each.id for each in edits.changed}
