from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from tests.property.strategies import JSON, TEXT, plans, steps

from plansmith import apply_diff, diff_plans
from plansmith.plan.data import Json, same
from plansmith.plan.diff import Change, merge_plans
from plansmith.plan.plan import Plan


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
TRIPLES = plans().flatmap(lambda plan: st.tuples(st.just(plan), edited(plan), edited(plan)))
REORDERED = (
    plans(8)
    .filter(lambda plan: len(plan.steps) > 2)
    .flatmap(
        lambda plan: st.tuples(
            st.just(plan),
            edited(plan).flatmap(
                lambda edit: st.permutations(edit.steps).map(
                    lambda steps: edit.replace(steps=tuple(steps))
                )
            ),
            edited(plan),
        )
    )
)


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


@given(TRIPLES)
def test_a_merge_keeps_every_edit_of_the_person(triple: tuple[Plan, Plan, Plan]) -> None:
    base, person, replan = triple
    merged = merge_plans(base, person, replan).plan
    edits = diff_plans(base, person)
    for gone in edits.removed:
        assert gone.step.id not in merged.by_id
    for added in edits.added:
        assert merged.by_id[added.step.id] == added.step
    for step in edits.changed:
        value: Json = merged.by_id[step.id].to_json()
        for change in step.fields:
            _assert_kept(value, change.path, change.change, change.after)
    for change in edits.plan:
        _assert_kept(merged.to_json(), change.path, change.change, change.after)


def _assert_kept(value: Json, path: tuple[str | int, ...], change: Change, wanted: Json) -> None:
    for key in path[:-1]:
        value = value[key]  # type: ignore[index]
    if change is Change.REMOVED:
        assert path[-1] not in value  # type: ignore[operator]
    else:
        assert same(value[path[-1]], wanted)  # type: ignore[index]


@given(REORDERED)
def test_a_merge_keeps_the_order_a_person_chose(triple: tuple[Plan, Plan, Plan]) -> None:
    base, person, replan = triple
    assume(diff_plans(base, person).moved)
    merged = [step.id for step in merge_plans(base, person, replan).plan.steps]
    kept = [step.id for step in person.steps if step.id in merged]
    assert [step_id for step_id in merged if step_id in person.by_id] == kept
