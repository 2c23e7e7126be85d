"""Random plans with guards, maps and nested templates, and which effects each of them has."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from plansmith import Plan
from plansmith.plan.refs import Ref, find_refs
from plansmith.plan.steps import AgentStep, AnyStep, AskStep, MapStep, PlanStep, ToolStep

WRITES = frozenset({"pay", "post", "clerk", "refund"})  # the clerk is an agent
ITEMS = 3


def found_items(n: object) -> list[str]:
    """What `look` finds: the same for the same question."""
    return [f"found{n}.{place}" for place in range(ITEMS)]


@dataclass
class Drafter:
    """Makes random plans; every write has an id of its own, by which its effect is known."""

    rng: random.Random
    asks: bool = True
    nests: bool = True
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
        match self.rng.choice(kinds + ["found"] * (2 * bool(looks and self.asks))):
            case "look":
                step |= {"tool": "look", "inputs": {"n": self.rng.randint(1, 9)}}
            case "ask":
                step |= {"question": "Really?", "timeout_s": self.rng.choice([None, None, 40.0])}
            case "clerk":
                step |= {"agent": "clerk", "task": self._tag(inside=inside)}
            case "map":
                over = [self._tag(inside=inside) for _ in range(ITEMS)]
                tool = self.rng.choice(["pay", "post"])
                step |= _map(over, {"tool": tool, "inputs": {"id": {"$from": "item"}}})
            case "found":
                found = {"$from": self.rng.choice(looks), "$path": ["items"]}
                tag = f"{{{{item}}}}.{step['id']}"
                step |= _map(found, {"tool": "pay", "inputs": {"id": tag}})
            case "each":
                over = [self._tag(inside=inside) for _ in range(2)]
                name = f"t{self.rng.randint(level + 1, 3)}"
                step |= _map(over, {"template": name, "inputs": {"tag": {"$from": "item"}}})
            case "plan":
                name = f"t{self.rng.randint(level + 1, 3)}"
                step |= {"template": name, "inputs": {"tag": self._tag(inside=inside)}}
            case tool:
                step |= {"tool": tool, "inputs": {"id": self._tag(inside=inside)}}
                step |= self._extras(step) if not inside else {}
        return step | self._rules(step, looks)

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


def _skipped(plan: Plan) -> set[str]:
    """The steps that do not run, since their condition or one that they need never holds.

    Nor does one run whose condition or list is about a look of which only the error was kept; it
    has failed. If its own error is kept, or it is skipped and has another value for that, what
    needs it goes on.
    """
    found: set[str] = set()
    silent: set[str] = set()
    errors = {step.id for step in plan.steps if step.on_error == "collect" and _never_ends(step)}
    size = -1
    while size != len(found):
        size = len(found)
        for step in plan.steps:
            holds = step.when is None or step.when["equals"][1] == ITEMS  # type: ignore[index]
            fails = bool({ref.step for ref in _refs(step)} & errors)
            if not step.disabled and (fails or not holds or step.needed & silent):
                found.add(step.id)
                instead = step.otherwise is not None and (not fails or step.on_error == "skip")
                goes_on = instead or (fails and step.on_error == "collect")
                silent |= set() if goes_on else {step.id}
    return found


def _never_ends(step: AnyStep) -> bool:
    """Whether a look is repeated until it finds what it never finds."""
    return step.repeat is not None and step.repeat.until["equals"][1] != ITEMS  # type: ignore[index]


def _refs(step: AnyStep) -> Iterator[Ref]:
    """The references of a step's condition and list."""
    over = step.over if isinstance(step, MapStep) else None
    return (found.ref for found in find_refs([step.when, over]) if found.ref is not None)


def _map(over: object, each: dict[str, Any]) -> dict[str, Any]:
    return {"over": over, "width": 2, "each": each}


def effects_of(plan: Plan, templates: Mapping[str, Plan]) -> list[tuple[str, str]]:
    """The writes of a plan that take place if nothing fails; the engine has no part in it."""
    return list(_effects(plan, templates, ""))


def writes_of(plan: Plan, templates: Mapping[str, Plan]) -> list[tuple[str, str]]:
    """The writes a person approves with a plan: also those that only a failure leads to."""
    return list(_effects(plan, templates, "", _nothing))


def _nothing(_: Plan) -> set[str]:
    return set()


def _effects(
    plan: Plan,
    templates: Mapping[str, Plan],
    tag: str,
    left_out: Callable[[Plan], set[str]] | None = None,
) -> Iterator[tuple[str, str]]:
    skipped = (left_out or _skipped)(plan)
    for step in plan.steps:
        if step.id in skipped:
            continue
        if isinstance(step, MapStep) and not step.disabled:
            for item in _items(step.over, plan, tag):
                yield from _calls(step.each, templates, tag, item, left_out)
        elif not step.disabled:
            yield from _calls(step, templates, tag, "", left_out)


def _calls(
    step: AnyStep,
    templates: Mapping[str, Plan],
    tag: str,
    item: str,
    left_out: Callable[[Plan], set[str]] | None,
) -> Iterator[tuple[str, str]]:
    if isinstance(step, ToolStep) and step.tool in WRITES:
        yield step.tool, _text(step.inputs.get("id"), tag, item)
    elif isinstance(step, AgentStep):
        yield step.agent, _text(step.task, tag, item)
    elif isinstance(step, PlanStep):
        inner = _text(step.inputs.get("tag"), tag, item)
        yield from _effects(templates[step.template], templates, inner, left_out)


def _items(over: object, plan: Plan, tag: str) -> list[str]:
    if isinstance(over, dict):
        source = plan.by_id.get(str(over["$from"]))
        return found_items(source.inputs.get("n")) if isinstance(source, ToolStep) else []
    return [_text(each, tag, "") for each in over] if isinstance(over, list) else []


def _text(value: object, tag: str, item: str) -> str:
    if isinstance(value, dict):
        return item if value.get("$from") == "item" else tag
    return str(value).replace("{{params.tag}}", tag).replace("{{item}}", item)


def questions_before(
    plan: Plan, templates: Mapping[str, Plan], effect: tuple[str, str]
) -> set[str]:
    """The questions of the plan itself that come before an effect, wherever the plan has it."""
    ways = [
        {name for name, asks in _before(plan, step.id) if asks}
        for step in plan.steps
        if effect in effects_of(plan.replace(steps=_with_sources(plan, step)), templates)
    ]
    return set[str].intersection(*ways) if ways else set()


def _with_sources(plan: Plan, step: AnyStep) -> tuple[AnyStep, ...]:
    """A step, and the reads whose results it goes over: they have no effects."""
    looks = [each for each in plan.steps if isinstance(each, ToolStep) and each.tool == "look"]
    return (*(each for each in looks if each is not step), step)


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
