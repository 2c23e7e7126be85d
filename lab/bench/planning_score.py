"""Scores of drafted plans: against gold steps of public sets, and exactly, case by case."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plansmith.plan.plan import Plan
from plansmith.plan.refs import Ref, find_refs
from plansmith.plan.steps import AskStep, ToolStep

Step = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Score:
    """How near a plan is to its gold steps, each from 0 to 1."""

    node_f1: float
    edge_f1: float
    args: float
    violated: float


def steps_of(plan: Plan | None) -> list[Step]:
    """The tool steps of a plan as the sets write them; a question is `?`, a result `$id`."""
    if plan is None:
        return []
    tools = [step for step in plan.steps if isinstance(step, ToolStep)]
    asked = {step.id for step in plan.steps if isinstance(step, AskStep)}
    places = {step.id: f"${number}" for number, step in enumerate(tools, start=1)}
    after = {step.id: sorted(needs & places.keys()) for step in tools for needs in [_needs(step)]}
    return [
        {
            "id": step.id,
            "tool": step.tool,
            "args": {key: _seen(each, places, asked) for key, each in step.inputs.items()},
            "after": after[step.id],
        }
        for step in tools
    ]


def _needs(step: ToolStep) -> set[str]:
    found = (each.ref for each in find_refs(step.inputs))
    return {ref.step for ref in found if isinstance(ref, Ref)} | set(step.after)


def _seen(value: Any, places: Mapping[str, str], asked: set[str]) -> Any:
    """An argument with references as their signs."""
    if isinstance(value, list):
        return [_seen(each, places, asked) for each in value]
    if isinstance(value, dict) and "$from" in value:
        return "?" if value["$from"] in asked else places.get(value["$from"], "$?")
    if isinstance(value, dict):
        return {key: _seen(each, places, asked) for key, each in value.items()}
    for name, sign in places.items():
        if isinstance(value, str):
            value = value.replace("{{" + name + "}}", sign)
    return value


def is_exact(gold: Sequence[Mapping[str, Any]], steps: Sequence[Step]) -> bool:
    """Whether the calls are the gold ones, in any order, every argument an accepted one."""
    left = list(steps)
    for call in gold:
        found = next((step for step in left if _fits(call, step)), None)
        if found is None:
            return False
        left.remove(found)
    return not left


def _fits(call: Mapping[str, Any], step: Step) -> bool:
    if call["tool"] != step["tool"] or step["args"].keys() - call["args"].keys():
        return False
    return all(_accepted(step["args"].get(name), each) for name, each in call["args"].items())


def _accepted(value: Any, accepted: Sequence[Any]) -> bool:
    """`*` takes anything; `$1` also a part of the first result."""
    if "*" in accepted:
        return True
    return any(type(each) is type(value) and each == value for each in _evened(accepted, value))


def _evened(accepted: Sequence[Any], value: Any) -> Iterator[Any]:
    for each in accepted:
        is_number = isinstance(value, float) and type(each) is int
        yield float(each) if is_number else each


def score(gold: Sequence[Step], steps: Sequence[Step]) -> Score:
    """Tools, order and arguments of a plan against gold steps, paired by tool and arguments."""
    pairs = _paired(gold, steps)
    back = {new: old for old, new in pairs.items()}
    wanted = {(need, step["id"]) for step in gold for need in step.get("after") or ()}
    given = {
        (back.get(need, f"+{need}"), back.get(step["id"], f"+{step['id']}"))
        for step in steps
        for need in step["after"]
    }
    by_id = {step["id"]: step for step in steps}
    total = right = 0
    for step in gold:
        facts = _facts(step.get("args") or {})
        total += len(facts)
        if step["id"] in pairs:
            right += len(facts & _facts(by_id[pairs[step["id"]]]["args"]))
    must, done = _closed(wanted), _closed(given)
    return Score(
        node_f1=_f1(len(pairs), len(steps), len(gold)),
        edge_f1=_f1(len(wanted & given), len(given), len(wanted)),
        args=right / total if total else 1.0,
        violated=len(must - done) / len(must) if must else 0.0,
    )


def _paired(gold: Sequence[Step], steps: Sequence[Step]) -> dict[str, str]:
    wishes = sorted(
        (-len(_facts(old.get("args") or {}) & _facts(new["args"])), place, number)
        for place, old in enumerate(gold)
        for number, new in enumerate(steps)
        if old["tool"] == new["tool"]
    )
    pairs: dict[str, str] = {}
    for _, place, number in wishes:
        old, new = gold[place]["id"], steps[number]["id"]
        if old not in pairs and new not in pairs.values():
            pairs[old] = new
    return pairs


def _facts(args: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(path, json.dumps(each, sort_keys=True)) for path, each in _flat(args)}


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _flat(each, f"{path}.{key}")
    else:
        yield path, float(value) if type(value) is int else value


def _closed(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    closed = set(edges)
    while True:
        more = {(a, d) for a, b in closed for c, d in closed if b == c} - closed
        if not more:
            return closed
        closed |= more


def _f1(both: int, given: int, wanted: int) -> float:
    return 2 * both / (given + wanted) if given + wanted else 1.0
