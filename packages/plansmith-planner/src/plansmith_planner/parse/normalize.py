"""Translates steps with other field names into the plan language; notes each change.

The value of a rule of a step stays as it was written: what is no rule the reader of plans refuses,
and the model is told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, get_args

from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json, Path
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import FROM, LITERAL, PATH, STEP_ID, Ref, escape_text, pieces, rename_refs
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import (
    KINDS,
    RULES,
    SAY,
    STEP_TYPES,
    AgentStep,
    AnyStep,
    ReplyStep,
    ReplyStyle,
    kind_of,
)
from plansmith_planner.dialect import PRIMARY
from plansmith_planner.parse.habits import Ids, Notes, aliases, snake

_ALIASES: Final = aliases("step")
_FOREIGN_REF: Final = re.compile(rf"\$\{{\s*({STEP_ID})((?:\.[\w-]+|\[\d+\])*)\s*\}}")
_FIELDS: Final = frozenset({SAY, *(name for kind in STEP_TYPES for name in kind.model_fields)})
_REFERRING: Final = (
    *("inputs", "over", "task", "question", "instruction"),
    *("when", "repeat", "undo_with"),
)


class Shape:
    """Reads steps tolerantly; `notes` has a problem for everything changed or left out."""

    def __init__(self) -> None:
        self._notes = Notes()
        self.problems = self._notes.problems
        self._renamed: dict[str, str] = {}
        self._ids = Ids()

    def head(self, value: dict[str, Json]) -> dict[str, Json]:
        known = Plan.model_fields.keys() - {"steps"}
        found = self._notes.fields(value, known, aliases=aliases("head"))
        given = {name: each for name, each in found.items() if each is not None}
        return {name: each for name, each in given.items() if name != "schema_version"}

    def step(self, value: Json, place: int) -> dict[str, Json] | None:
        """Returns one step in the plan language, or None with a problem."""
        if not isinstance(value, dict):
            entry = repr(str(value)[:80])
            message = Sentence(
                "entry {place} of the steps is not a step: {text}", place=place, text=entry
            )
            hint = Sentence("write each step as an object")
            self._notes.drop(message, hint=hint, path=("steps", place - 1))
            return None
        fields = self._known_fields(value, place)
        step = fields["id"] = self._id(fields.get("id"), place)
        kind = kind_of(fields)
        if kind is not None and kind not in KINDS:
            implied = kind_of({name: each for name, each in fields.items() if name != "kind"})
            if implied is not None:
                fields["kind"] = implied
                message = Sentence(
                    "the kind '{kind}' is read as '{known}'", kind=str(kind), known=implied
                )
                self._notes.say(message, step=step, path=("kind",))
        if isinstance(each := fields.get("each"), dict):
            inner = self._known_fields(each, place)
            if "id" in inner:
                inner["id"] = self._id(inner["id"], place)
            fields["each"] = inner
        return fields

    def settle(self, steps: list[dict[str, Json]]) -> list[Json]:
        """Returns the steps with corrected references, once all ids are known."""
        ids = {str(step["id"]) for step in steps}
        return [self._with_references(step, ids) for step in steps]

    def _known_fields(self, value: dict[str, Json], place: int) -> dict[str, Json]:
        step = str(value.get("id", place))
        kind = kind_of({_ALIASES.get(name, name): each for name, each in value.items()}) or ""
        given = {name: each for name, each in value.items() if each is not None}
        # A style of anything but a reply means something else, such as a tone.
        style = given.get("style")
        if style is not None and (kind != "reply" or style not in get_args(ReplyStyle)):
            self._notes.leave_out("style", given.pop("style"), step=step)
        known_as = {**_ALIASES, **(aliases(kind) if kind in KINDS else {})}
        fields = self._notes.fields(given, _FIELDS, aliases=known_as, step=step)
        for known in (each for each in fields if each in RULES and each not in given):
            name = next(each for each in given if known_as.get(snake(each), snake(each)) == known)
            message = Sentence("the field '{name}' is read as '{known}'", name=name, known=known)
            self._notes.say(message, step=step, path=(known,))
        return fields

    def _id(self, given: Json, place: int) -> str:
        if given is None or isinstance(given, (dict, list, bool)):
            name = self._ids.free(f"s{place}")
            message = Sentence(
                "step {place} has no id; it is called '{name}'", place=place, name=name
            )
            self._notes.say(message, step=name, path=("id",))
            return name
        text = str(given)
        slug = text
        if not re.fullmatch(STEP_ID, text):
            slug = self._ids.make(text, place)
            message = Sentence("the id '{given}' is written '{name}'", given=text, name=slug)
            self._notes.say(message, step=slug, path=("id",))
        self._renamed.setdefault(text, slug)
        self._ids.taken.add(slug)
        return slug

    def _with_references(self, step: dict[str, Json], ids: set[str]) -> dict[str, Json]:
        name = str(step["id"])
        after = step.get("after")
        if after is not None:
            names = after if isinstance(after, list) else [after]
            step["after"] = [self._renamed.get(str(each), str(each)) for each in names]
        for field in _REFERRING:
            if field in step:
                written = self._references(step[field], ids, name, (field,))
                step[field] = rename_refs(written, self._renamed)
        if isinstance(each := step.get("each"), dict):
            step["each"] = self._with_references({"id": f"{name}_each", **each}, ids | {"item"})
        return step

    def _references(self, value: Json, ids: set[str], step: str, path: Path) -> Json:
        """Returns a value with its references in our own form; notes each that was not."""
        written = value
        if isinstance(value, str):
            written = self._text(value, ids)
        elif isinstance(value, list):
            return [self._references(each, ids, step, (*path, at)) for at, each in enumerate(value)]
        elif not isinstance(value, dict) or LITERAL in value:
            return value
        elif FROM in value:
            written = self._reference(value)
        else:
            return {
                name: self._references(each, ids, step, (*path, name))
                for name, each in value.items()
            }
        if written != value and not (isinstance(value, dict) and value.get(PATH) == []):
            message = Sentence("a reference was written in another way")
            self._notes.say(message, step=step, path=path)
        return written

    def _reference(self, value: dict[str, Json]) -> Json:
        """Corrects a reference with its path written as text."""
        source, inside = value[FROM], value.get(PATH)
        if not isinstance(source, (int, str)) or isinstance(source, bool):
            return value
        found = pieces("{{" + str(source) + "}}")[0]
        inner = found if isinstance(found, Ref) else Ref(str(source))
        more: Json = [inside] if isinstance(inside, int) else inside
        if isinstance(inside, str):  # such as `items[0].title`
            read = pieces("{{x." + inside.removeprefix("$").removeprefix(".") + "}}")[0]
            more = [*read.path] if isinstance(read, Ref) else [inside]
        keys = [*inner.path, *(more if isinstance(more, list) else [])]
        made: dict[str, Json] = {FROM: inner.step}
        made |= {PATH: [*keys]} if keys else {}
        return made | {name: each for name, each in value.items() if name not in (FROM, PATH)}

    def _text(self, text: str, ids: set[str]) -> str:
        """Rewrites `${step.key}` as a reference, if there is such a step."""

        def rewrite(match: re.Match[str]) -> str:
            known = self._renamed.get(match[1], match[1]) in ids
            return "{{" + match[1] + match[2] + "}}" if known else match[0]

        return _FOREIGN_REF.sub(rewrite, text)


def assigned(
    plan: Plan, agents: Sequence[AgentSpec], step_text: Callable[[AnyStep], str] | None = None
) -> tuple[Plan, list[Problem]]:
    """Gives steps without an agent to the first agent; returns the plan, and a note for each.

    Where programs know steps by their text, a name that belongs to no agent is the kind of step,
    and stays in the task; a step that gets an agent, or its agent's name in another spelling,
    keeps its text as title.
    """
    usable = {each.name.lower(): each.name for each in agents if each.enabled and not each.hidden}
    if not usable:
        return plan, []
    first = next(iter(usable.values()))
    notes: list[Problem] = []
    steps: list[AnyStep] = []
    for step in plan.steps:
        if not isinstance(step, AgentStep) or usable.get(step.agent.lower()) == step.agent:
            steps.append(step)
            continue
        given, title = step.agent, {"title": step_text(step)} if step_text else {}
        if given.lower() in usable or not (given == PRIMARY or (step_text and given)):
            steps.append(step.replace(**title) if title else step)
            continue
        tag = "" if given == PRIMARY or f"[{given}]" in step.task else f"[{given}] "
        steps.append(step.replace(agent=first, task=f"{tag}{step.task}", **title))
        message = Sentence("it names no agent, so '{name}' gets it", name=first)
        hint = Sentence("name another one if need be")
        notes.append(problem("PS013", message, hint=hint, step=step.id, path=("agent",)))
    changed = tuple(steps) != plan.steps
    return (plan.replace(steps=tuple(steps)) if changed else plan), notes


# Braces in a text of another system, which reading it has escaped.
_BRACES: Final = re.compile(re.escape(escape_text("{{")) + r"([^{}]*)\}\}")


def with_results(plan: Plan, names: Mapping[str, str]) -> Plan:
    """Returns the plan of another system with `{{name}}` read as the earlier result of that name.

    An agent gets it as an input, so that it is data and no part of the task. In these systems a
    plan cannot name its own steps, so a name is always that of an earlier result.
    """
    steps = (_with_results(step, names) for step in plan.steps)
    return plan.replace(steps=tuple(steps))


def _with_results(step: AnyStep, names: Mapping[str, str]) -> AnyStep:
    given: dict[str, Json] = {}

    def named(found: re.Match[str]) -> str:
        ref = pieces("{{" + found[1] + "}}")[0]
        if not isinstance(ref, Ref) or ref.step not in names:
            return found[0]
        ref = Ref(names[ref.step], ref.path)
        if isinstance(step, ReplyStep):
            return str(ref)
        name = f"earlier_{len(given) + 1}"
        given[name] = ref.to_json()
        return name

    if isinstance(step, ReplyStep):
        return step.replace(instruction=_BRACES.sub(named, step.instruction))
    if isinstance(step, AgentStep):
        return step.replace(task=_BRACES.sub(named, step.task), inputs={**step.inputs, **given})
    return step
