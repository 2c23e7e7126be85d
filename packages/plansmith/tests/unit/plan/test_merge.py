from __future__ import annotations

from typing import Any

from plansmith import Plan
from plansmith.plan.diff import merge_plans


def plan(*steps: dict[str, Any], **fields: Any) -> Plan:
    return Plan.model_validate({"steps": list(steps)} | fields)


A, B = ({"id": name, "tool": "t", "inputs": {"x": 1, "y": 1}} for name in "ab")


def test_edits_to_different_fields_are_both_kept_without_a_note() -> None:
    person = plan(A | {"title": "mine"}, B)
    replan = plan(A | {"inputs": {"x": 2, "y": 1}}, B)
    merged = merge_plans(plan(A, B), person, replan)
    assert merged.plan.by_id["a"].to_json() == A | {
        "kind": "tool",
        "title": "mine",
        "inputs": {"x": 2, "y": 1},
    }
    assert merged.notes == []


def test_where_both_changed_the_same_field_the_person_wins_and_a_note_says_so() -> None:
    person = plan(A | {"inputs": {"x": 5, "y": 1}}, B)
    replan = plan(A | {"inputs": {"x": 7, "y": 1}}, B)
    merged = merge_plans(plan(A, B), person, replan)
    assert merged.plan.by_id["a"].to_json()["inputs"] == {"x": 5, "y": 1}
    assert [(note.code, note.step) for note in merged.notes] == [("PS312", "a")]


def test_a_step_the_person_removed_stays_removed() -> None:
    merged = merge_plans(plan(A, B), plan(A), plan(A, B | {"title": "better"}))
    assert list(merged.plan.by_id) == ["a"]
    assert "removed by the person" in merged.notes[0].message


def test_a_step_the_person_edited_survives_its_removal_by_the_replan() -> None:
    edited = B | {"title": "mine"}
    merged = merge_plans(plan(A, B), plan(A, edited), plan(A))
    assert merged.plan.by_id["b"].title == "mine"
    assert "kept since the person edited it" in merged.notes[0].message


def test_new_steps_of_both_stand_where_they_were_put() -> None:
    mine, theirs = A | {"id": "mine"}, A | {"id": "theirs"}
    merged = merge_plans(plan(A, B), plan(A, mine, B), plan(A, B, theirs))
    assert [step.id for step in merged.plan.steps] == ["a", "mine", "b", "theirs"]


def test_the_same_new_id_by_both_is_the_persons_step() -> None:
    mine, theirs = A | {"id": "new", "tool": "mine"}, A | {"id": "new", "tool": "theirs"}
    merged = merge_plans(plan(A), plan(A, mine), plan(A, theirs))
    assert merged.plan.by_id["new"].to_json()["tool"] == "mine"
    assert "added by both" in merged.notes[0].message
