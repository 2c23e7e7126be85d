"""Random plans with guards, maps and nested templates, and which effects each of them has."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from plansmith import Plan
from plansmith.plan.refs import Ref, find_refs
from plansmith.plan.steps import AgentStep, AnyStep, AskStep, MapStep, PlanStep, ToolStep

WRITES = frozenset({"pay", "post", "clerk", "refund"})  # the clerk is an agent
ITEMS = 3
EPOCHS = 4
Effect = tuple[str, str]  # what is called, and its id
_VALUE = re.compile(r"\{\{(s\d+)\.(paid|items\[0\])\}\}")


def found_items(n: object, epoch: int = 0) -> list[str]:
    """What `look` finds: the same for the same question, until the world has moved."""
    found = [f"found{n}.{place}" for place in range(ITEMS)]
    if epoch:
        found[epoch % ITEMS] = f"new{n}.{epoch}"
    return found[epoch % ITEMS :] + found[: epoch % ITEMS]


class Facts(NamedTuple):
    """What looks of a plan found, and which effects a person left out or changed the id of."""

    found: Mapping[str, list[str]] = {}
    left: AbstractSet[Effect] = frozenset()
    changed: Mapping[Effect, str] = {}
    off: AbstractSet[str] = frozenset()  # the steps that were left out


NO_FACTS = Facts()


@dataclass
class Drafter:
    """Makes random plans; every write has an id of its own, by which its effect is known."""

    rng: random.Random
    asks: bool = True
    nests: bool = True
    refers: bool = False  # to single values that others gave
    templates: dict[str, Plan] = field(default_factory=dict[str, Plan])
    _count: int = 0

    def _next(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def plan(self) -> Plan:
        """A plan of two to six steps, with templates up to three levels deep."""
        for level in range(3, 0, -1) if self.nests else ():
            self.templates[f"t{level}"] = self._plan(level, inside=True)
        return self._plan(0, inside=False)

    def _plan(self, level: int, *, inside: bool) -> Plan:
        size = self.rng.randint(1, 3) if inside else self.rng.randint(2, 5 if self.nests else 6)
        steps: list[dict[str, Any]] = []
        if inside:  # every template uses its parameter
            steps.append(
                {"id": self._next("s"), "tool": "pay", "inputs": {"id": self._tag(inside=True)}}
            )
        for _ in range(size):
            steps.append(self._step(level, steps, inside=inside))
        return Plan.model_validate({"goal": "pay what is due", "steps": steps})

    def _step(self, level: int, earlier: list[dict[str, Any]], *, inside: bool) -> dict[str, Any]:
        names = [each["id"] for each in earlier]
        many = min(len(names), self.rng.choice([0, 1, 1, 2]))
        step: dict[str, Any] = {"id": self._next("s"), "after": self.rng.sample(names, many)}
        kinds = ["look", "look", "look", "pay", "pay", "post", "map"]
        kinds += ["clerk", "ask", "ask"] * self.asks  # neither is for plans that run unattended
        kinds += ["plan", "each"] * (level < 3 and self.nests)
        looks = [each["id"] for each in earlier if each.get("tool") == "look"]
        plain = [each for each in earlier if not each.keys() & {"when", "otherwise", "on_error"}]
        kinds += ["value"] * (3 * bool(self.refers and plain and not inside))
        match self.rng.choice(kinds + ["found"] * (2 * bool(looks and self.asks))):
            case "value":
                step |= {"tool": "pay", "inputs": {"id": self._value_of(self.rng.choice(plain))}}
            case "look":
                step |= {"tool": "look", "inputs": {"n": self.rng.randint(1, 9)}}
            case "ask":
                step |= {"question": "Really?", "timeout_s": self.rng.choice([None, None, 40.0])}
            case "clerk":
                step |= {"agent": "clerk", "task": self._tag(inside=inside)}
            case "found":
                found = {"$from": self.rng.choice(looks), "$path": ["items"]}
                tag = f"{{{{item}}}}.{step['id']}"
                step |= _map(found, {"tool": "pay", "inputs": {"id": tag}})
            case "map" | "each" as kind:
                step |= self._map_of(kind, level, inside=inside)
            case "plan":
                name = f"t{self.rng.randint(level + 1, 3)}"
                step |= {"template": name, "inputs": {"tag": self._tag(inside=inside)}}
            case tool:
                step |= {"tool": tool, "inputs": {"id": self._tag(inside=inside)}}
                step |= self._extras(step) if not inside else {}
        return step | self._rules(step, looks)

    def _map_of(self, kind: str, level: int, *, inside: bool) -> dict[str, Any]:
        """The same call, or the same template, for each item of a list."""
        over = [self._tag(inside=inside) for _ in range(ITEMS if kind == "map" else 2)]
        if kind == "map":
            tool = self.rng.choice(["pay", "post"])
            return _map(over, {"tool": tool, "inputs": {"id": {"$from": "item"}}})
        name = f"t{self.rng.randint(level + 1, 3)}"
        return _map(over, {"template": name, "inputs": {"tag": {"$from": "item"}}})

    def _value_of(self, source: dict[str, Any]) -> str:
        """An id that holds a value of another step."""
        path = {"look": "items[0]", "pay": "paid", "post": "paid"}.get(source.get("tool", ""))
        value = f"{{{{{source['id']}.{path}}}}}." if path else ""
        return f"{value}{self._tag(inside=False)}"

    def _extras(self, step: dict[str, Any]) -> dict[str, Any]:
        """A secret for the call, or a call that takes it back."""
        extras: dict[str, Any] = {}
        if self.rng.random() < 0.3:
            extras["inputs"] = {**step["inputs"], "token": "${secret:bank}"}
        if self.rng.random() < 0.3:
            back = {"id": f"back.{step['inputs']['id']}"}
            extras["undo_with"] = {"tool": "refund", "inputs": back}
        return extras

    def _rules(self, step: dict[str, Any], looks: list[str]) -> dict[str, Any]:
        """Some rules for a step; a question is never passed over, and a read gives only items."""
        rules: dict[str, Any] = {}
        if self.rng.random() < 0.3:
            return rules
        if looks and self.rng.random() < 0.7:
            rules["when"] = items_are(self.rng.choice(looks), self.rng.choice([ITEMS, ITEMS, 4]))
        if "question" in step:
            return rules
        reads = step.get("tool") == "look"
        if not reads and self.rng.random() < 0.3:
            rules["otherwise"] = {"value": "nothing"}
        if self.rng.random() < 0.4:
            rules["on_error"] = self.rng.choice(["skip", "collect"])
        pause = self.rng.choice([0, 0, 20])
        if self.rng.random() < 0.3 and not step.keys() & {"over", "template"}:
            rules["retry"] = {"at_most": 2, "every": pause}
        if reads and self.rng.random() < 0.4:
            until = items_are(step["id"], self.rng.choice([ITEMS, ITEMS, 4]))
            rules["repeat"] = {"until": until, "at_most": 2, "every": pause}
        return rules

    def _tag(self, *, inside: bool) -> str:
        own = self._next("id")
        return f"{{{{params.tag}}}}.{own}" if inside else own


def items_are(look: str, count: int) -> dict[str, Any]:
    """The condition that a look found so many items: it always finds `ITEMS`."""
    return {"equals": [{"length": {"$from": look, "$path": ["items"]}}, count]}


def skipped(plan: Plan, left: AbstractSet[str] = frozenset()) -> set[str]:
    """The steps that do not run, since their condition or one that they need never holds.

    Nor does one run whose condition or list is about a look of which only the error was kept; it
    has failed. If its own error is kept, or it is skipped and has another value for that, what
    needs it goes on. What a person `left` out has no other value.
    """
    found, silent = {*left}, {*left}
    errors = {step.id for step in plan.steps if step.on_error == "collect" and never_ends(step)}
    size = -1
    while size != len(found | silent):
        size = len(found | silent)
        silent |= {step.id for step in plan.steps if step.disabled and step.needed & silent}
        for step in plan.steps:
            holds = step.when is None or step.when["equals"][1] == ITEMS  # type: ignore[index]
            fails = bool({ref.step for ref in _refs(step)} & errors)
            if not step.disabled and (fails or not holds or step.needed & silent):
                found.add(step.id)
                instead = step.otherwise is not None and (not fails or step.on_error == "skip")
                goes_on = instead or (fails and step.on_error == "collect")
                silent |= set() if goes_on and step.id not in left else {step.id}
    return found


def never_ends(step: AnyStep) -> bool:
    """Whether a look is repeated until it finds what it never finds."""
    return step.repeat is not None and step.repeat.until["equals"][1] != ITEMS  # type: ignore[index]


def _refs(step: AnyStep) -> Iterator[Ref]:
    """The references of a step's condition and list."""
    over = step.over if isinstance(step, MapStep) else None
    return (found.ref for found in find_refs([step.when, over]) if found.ref is not None)


def _map(over: object, each: dict[str, Any]) -> dict[str, Any]:
    return {"over": over, "width": 2, "each": each}


def effects_of(plan: Plan, templates: Mapping[str, Plan], facts: Facts = NO_FACTS) -> list[Effect]:
    """The writes of a plan that take place if nothing fails; the engine has no part in it."""
    return [*_Effects(templates, facts).of(plan, "")]


def writes_of(plan: Plan, templates: Mapping[str, Plan], facts: Facts = NO_FACTS) -> list[Effect]:
    """The writes a person approves with a plan: also those that only a failure leads to."""
    return [*_Effects(templates, facts, skips=False).of(plan, "")]


@dataclass
class _Effects:
    templates: Mapping[str, Plan]
    facts: Facts
    skips: bool = True

    def of(self, plan: Plan, tag: str, *, inside: bool = False) -> Iterator[Effect]:
        found = {} if inside else self.facts.found
        left = {step.id for step in plan.steps if self._planned(step, tag, plan) in self.facts.left}
        left |= set[str]() if inside else {*self.facts.off} & {*plan.by_id}
        out = skipped(plan, left) if self.skips else set[str]()
        for step in plan.steps:
            if step.id in out:
                continue
            if isinstance(step, MapStep) and not step.disabled:
                for item in _items(step.over, plan, tag, found):
                    yield from self._calls(step.each, tag, item, plan)
            elif not step.disabled:
                yield from self._calls(step, tag, "", plan)

    def _calls(self, step: AnyStep, tag: str, item: str, plan: Plan) -> Iterator[Effect]:
        if isinstance(step, PlanStep):
            inner = _text(step.inputs.get("tag"), tag, item)
            yield from self.of(self.templates[step.template], inner, inside=True)
        elif (effect := self._planned(step, tag, plan, item)) and effect not in self.facts.left:
            yield effect[0], self.facts.changed.get(effect, effect[1])

    def _planned(self, step: AnyStep, tag: str, plan: Plan, item: str = "") -> Effect | None:
        """The effect of a step before a person left it out or changed it."""
        if isinstance(step, ToolStep) and step.tool in WRITES:
            text = _text(step.inputs.get("id"), tag, item)
            return step.tool, _VALUE.sub(lambda it: self._value(plan, *it.groups()), text)
        if isinstance(step, AgentStep):
            return step.agent, _text(step.task, tag, item)
        return None

    def _value(self, plan: Plan, name: str, path: str) -> str:
        """What a single value of another step is."""
        source = plan.by_id.get(name)
        if source is None:
            return "nothing"
        if path != "paid":
            n = source.inputs.get("n") if isinstance(source, ToolStep) else None
            return self.facts.found.get(name, found_items(n))[0]
        effect = self._planned(source, "", plan)
        return self.facts.changed.get(effect, effect[1]) if effect else "nothing"


def _items(over: object, plan: Plan, tag: str, found: Mapping[str, list[str]]) -> list[str]:
    if isinstance(over, dict):
        source = plan.by_id.get(str(over["$from"]))
        known = found_items(source.inputs.get("n")) if isinstance(source, ToolStep) else []
        return found.get(str(over["$from"]), known)
    return [_text(each, tag, "") for each in over] if isinstance(over, list) else []


def _text(value: object, tag: str, item: str) -> str:
    if isinstance(value, dict):
        return item if value.get("$from") == "item" else tag
    return str(value).replace("{{params.tag}}", tag).replace("{{item}}", item)


def looks_of(plan: Plan) -> dict[str, object]:
    """The looks of a plan itself that find something, and what they ask for."""
    out = skipped(plan)
    return {
        step.id: step.inputs.get("n")
        for step in plan.steps
        if isinstance(step, ToolStep) and step.tool == "look" and not step.disabled
        if step.id not in out and not never_ends(step)
    }


def uses_data(plan: Plan, unit: str) -> bool:
    """Whether the call of a unit holds values from tools."""
    step = plan.by_id.get(unit.partition("/")[0])
    if isinstance(step, MapStep):
        return isinstance(step.over, dict)
    return isinstance(step, ToolStep) and bool(_VALUE.search(str(step.inputs.get("id"))))


def questions_before(
    plan: Plan, templates: Mapping[str, Plan], facts: Facts, effect: Effect
) -> set[str]:
    """The questions of the plan itself that come before an effect, wherever the plan has it."""
    ways = [
        {name for name, asks in _before(plan, step.id) if asks}
        for step in plan.steps
        if effect in effects_of(plan.replace(steps=_with_sources(plan, step)), templates, facts)
    ]
    return set[str].intersection(*ways) if ways else set()


def _with_sources(plan: Plan, step: AnyStep) -> tuple[AnyStep, ...]:
    """A step with what it needs: the others are off."""
    looks = {each.id for each in plan.steps if isinstance(each, ToolStep) and each.tool == "look"}
    return tuple(
        each if each is step or each.id in looks else each.replace(disabled=True)
        for each in plan.steps
    )


def guards_of(plan: Plan, templates: Mapping[str, Plan], unit: str) -> set[tuple[str, bool]]:
    """Every unit that must be done before this one starts, and whether it is a question."""
    found: set[tuple[str, bool]] = set()
    scope, current = "", plan
    parts = unit.split("/")
    while parts:
        step = current.by_id.get(parts.pop(0))
        if step is None:
            return found
        found |= {(f"{scope}{name}", asks) for name, asks in _before(current, step.id)}
        place = f"{scope}{step.id}"
        if isinstance(step, MapStep):
            if not parts:
                return found
            place = f"{place}/{parts.pop(0)}"
            inner: object = step.each
        else:
            inner = step
        if not isinstance(inner, PlanStep):
            return found
        scope, current = f"{place}/", templates[inner.template]
    return found


def needs_of(plan: Plan, unit: str) -> frozenset[str]:
    """The steps that a step of the plan itself needs; none for a part, whose whole has begun."""
    return plan.by_id[unit].needed if unit in plan.by_id else frozenset()


def _before(plan: Plan, name: str) -> set[tuple[str, bool]]:
    found: set[str] = set()
    open_ = [name]
    while open_:
        step = plan.by_id.get(open_.pop())
        for need in step.needed if step else ():
            if need not in found and need in plan.by_id:
                found.add(need)
                open_.append(need)
    active = {each for each in found if not plan.by_id[each].disabled}
    return {(each, isinstance(plan.by_id[each], AskStep)) for each in active}
