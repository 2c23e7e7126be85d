"""Translates steps with other field names into the plan language; notes each change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, get_args

from plansmith.formats.dialect import PRIMARY
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json, Path
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import FROM, LITERAL, PATH, STEP_ID, Ref, pieces
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import (
    KINDS,
    RULES,
    SAY,
    STEP_TYPES,
    AgentStep,
    AnyStep,
    ReplyStyle,
    kind_of,
)
from plansmith_planner.parse.habits import Notes
from plansmith_planner.parse.rules import RULE_ALIASES, as_rule, rule_as_meant

_ALIASES: Final = {
    "type": "kind",
    "step_id": "id",
    "arguments": "inputs",
    "args": "inputs",
    "parameters": "inputs",
    "tool_parameters": "inputs",
    "tool_name": "tool",
    "tool_to_use": "tool",
    "agent_name": "agent",
    "depends_on": "after",
    "dependencies": "after",
    "needs": "after",
    "reason": "why",
    "description": "why",
    "query": "task",
    "items": "over",
    "step": "each",
    **RULE_ALIASES,
}
_NAMED: Final = {"tool": "tool", "agent": "agent", "plan": "template"}
_TEXTS: Final = {"reply": "instruction", "ask": "question", "agent": "task"}
_PLAN_ALIASES: Final = {
    "title": "goal",
    "thought_process": "thought",
    "has_enough_context": "enough_context",
}
_FOREIGN_REF: Final = re.compile(rf"\$\{{\s*({STEP_ID})((?:\.[\w-]+|\[\d+\])*)\s*\}}")
_FIELDS: Final = frozenset({SAY, *(name for kind in STEP_TYPES for name in kind.model_fields)})
_REFERRING: Final = (
    *("inputs", "over", "task", "question", "instruction"),
    *("when", "repeat", "undo_with"),
)
_NOT_SLUG: Final = re.compile(r"[^A-Za-z0-9_-]+")


class Shape:
    """Reads steps tolerantly; `notes` has a problem for everything changed or left out."""

    def __init__(self) -> None:
        self._noted = Notes()
        self.notes = self._noted.problems
        self._renamed: dict[str, str] = {}
        self._taken: set[str] = set()

    def head(self, value: dict[str, Json]) -> dict[str, Json]:
        """Returns the fields of the plan itself."""
        fields: dict[str, Json] = {}
        for name, each in value.items():
            known = _PLAN_ALIASES.get(name, name)
            if known not in Plan.model_fields or known == "steps" or known in fields:
                message = Sentence(
                    "the field '{name}' is not part of a plan and is left out", name=name
                )
                self._noted.leave_out(name, each, message)
            elif each is not None:
                fields[known] = each
        fields.pop("schema_version", None)
        return fields

    def step(self, value: Json, place: int) -> dict[str, Json] | None:
        """Returns one step in the plan language, or None with a problem."""
        if not isinstance(value, dict):
            shown = repr(str(value)[:80])
            message = Sentence(
                "entry {place} of the steps is not a step: {text}", place=place, text=shown
            )
            hint = Sentence("write each step as an object")
            self._noted.drop(message, hint=hint, path=("steps", place - 1))
            return None
        fields = self._known_fields(value, place)
        fields["id"] = self._id(fields.get("id"), place)
        kind = kind_of(fields)
        if kind is not None and kind not in KINDS:
            fields |= self._kind_from_fields(fields, kind)
        each = fields.get("each")
        if isinstance(each, dict):
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
        fields: dict[str, Json] = {}
        kind = kind_of({_ALIASES.get(name, name): each for name, each in value.items()})
        for name, each in value.items():
            known = _field_name(name, kind, value)
            if each is None:
                continue
            if known not in _FIELDS or known in fields or _is_other_style(known, each, kind):
                message = Sentence(
                    "the field '{name}' is not part of a step and is left out", name=name
                )
                self._noted.leave_out(name, each, message, step=str(value.get("id", place)))
            else:
                fields[known] = as_rule(name, each) if known in RULES else each
                if known in RULES and name != known:
                    message = Sentence(
                        "the field '{name}' is read as '{known}'", name=name, known=known
                    )
                    self._noted.say(message, step=str(value.get("id", place)), path=(known,))
        return fields

    def _kind_from_fields(self, fields: dict[str, Json], kind: str) -> dict[str, Json]:
        """Replaces an unknown kind by the kind that the fields imply."""
        implied = kind_of({name: each for name, each in fields.items() if name != "kind"})
        if implied is None:
            return {}
        message = Sentence("the kind '{kind}' is read as '{known}'", kind=str(kind), known=implied)
        self._noted.say(message, step=str(fields["id"]), path=("kind",))
        return {"kind": implied}

    def _id(self, given: Json, place: int) -> str:
        if given is None or isinstance(given, (dict, list, bool)):
            name = self._free(f"s{place}")
            message = Sentence(
                "step {place} has no id; it is called '{name}'", place=place, name=name
            )
            self._noted.say(message, step=name, path=("id",))
            return name
        text = str(given)
        slug = _NOT_SLUG.sub("_", text).strip("_-")[:64] or f"s{place}"
        if slug != text:
            slug = self._free(slug)
            message = Sentence("the id '{given}' is written '{name}'", given=text, name=slug)
            self._noted.say(message, step=slug, path=("id",))
        self._renamed.setdefault(text, slug)
        self._taken.add(slug)
        return slug

    def _free(self, name: str) -> str:
        free, number = name, 2
        while free in self._taken:
            free, number = f"{name}_{number}", number + 1
        self._taken.add(free)
        return free

    def _with_references(self, step: dict[str, Json], ids: set[str]) -> dict[str, Json]:
        name = str(step["id"])
        after = step.get("after")
        if after is not None:
            names = after if isinstance(after, list) else [after]
            step["after"] = [self._renamed.get(str(each), str(each)) for each in names]
        for rule in sorted(RULES & step.keys()):
            step[rule] = self._rule(rule, step[rule], ids, name)
        for field in _REFERRING:
            if field in step:
                step[field] = self._references(step[field], ids, name, (field,))
        each = step.get("each")
        if isinstance(each, dict):
            step["each"] = self._with_references({"id": f"{name}_each", **each}, ids | {"item"})
        return step

    def _rule(self, rule: str, value: Json, ids: set[str], step: str) -> Json:
        """Returns a rule as it is meant, with a note if it was written in another way."""
        meant = rule_as_meant(rule, value, ids | self._renamed.keys())
        if meant != value:
            text = json.dumps(meant, ensure_ascii=False)
            message = Sentence("'{rule}' is read as {text}", rule=rule, text=text)
            self._noted.say(message, step=step, path=(rule,))
        return meant

    def _references(self, value: Json, ids: set[str], step: str, path: Path) -> Json:
        if isinstance(value, str):
            return self._text(value, ids, step, path)
        if isinstance(value, list):
            return [
                self._references(each, ids, step, (*path, place))
                for place, each in enumerate(value)
            ]
        if not isinstance(value, dict) or LITERAL in value:
            return value
        if FROM in value:
            return self._reference(value, step, path)
        return {
            name: self._references(each, ids, step, (*path, name)) for name, each in value.items()
        }

    def _reference(self, value: dict[str, Json], step: str, path: Path) -> Json:
        """Corrects a reference with a renamed id, or with its path written as text."""
        source, inside = value[FROM], value.get(PATH)
        if isinstance(source, (int, str)) and not isinstance(source, bool):
            found = pieces("{{" + str(source) + "}}")[0]
            inner = found if isinstance(found, Ref) else Ref(str(source))
            more = _path(inside) if isinstance(inside, (str, int)) else inside
            keys = [*inner.path, *(more if isinstance(more, list) else [])]
            made: dict[str, Json] = {FROM: self._renamed.get(inner.step, inner.step)}
            made |= {PATH: [*keys]} if keys else {}
            made |= {name: each for name, each in value.items() if name not in (FROM, PATH)}
            if made != value and inside != []:
                self._noted.say(
                    Sentence("a reference was written in another way"), step=step, path=path
                )
            return made
        return value

    def _text(self, text: str, ids: set[str], step: str, path: Path) -> str:
        """Rewrites `${step.key}` as a reference, if there is such a step."""
        if "{" not in text:
            return text

        def rewrite(match: re.Match[str]) -> str:
            source = self._renamed.get(match[1], match[1])
            return "{{" + source + match[2] + "}}" if source in ids else match[0]

        written = _FOREIGN_REF.sub(rewrite, text)
        if written != text:
            self._noted.say(
                Sentence("a reference was written in another way"), step=step, path=path
            )
        parts = pieces(written)
        if any(isinstance(part, Ref) and part.step in self._renamed for part in parts):
            return "".join(self._renamed_ref(part) for part in parts)
        return written

    def _renamed_ref(self, part: str | Ref) -> str:
        if isinstance(part, Ref):
            return str(part._replace(step=self._renamed.get(part.step, part.step)))
        return part.replace("{{", '{{"{{"}}')


class Assigned(NamedTuple):
    """A plan whose steps all name an agent, and a note for each that did not."""

    plan: Plan
    problems: list[Problem]


def assigned(
    plan: Plan, agents: Sequence[AgentSpec], step_text: Callable[[AnyStep], str] | None = None
) -> Assigned:
    """Gives steps without an agent to the first agent.

    Where programs know steps by their text, a name that belongs to no agent is the kind of step,
    and stays in the task; a step that gets an agent, or its agent's name in another spelling,
    keeps its text as title.
    """
    usable = {each.name.lower(): each.name for each in agents if each.enabled and not each.hidden}
    if not usable:
        return Assigned(plan, [])
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
    return Assigned(plan.replace(steps=tuple(steps)) if changed else plan, notes)


def _is_other_style(name: str, value: Json, kind: str | None) -> bool:
    """Whether `style` means something else than how a reply is made, such as a tone."""
    return name == "style" and (kind != "reply" or value not in get_args(ReplyStyle))


def _field_name(name: str, kind: str | None, value: dict[str, Json]) -> str:
    """Returns the plan-language name of a field."""
    if name in _FIELDS:
        return name
    if name == "name" and kind in _NAMED:
        return _NAMED[kind]
    if name in ("text", "content", "message") and kind in _TEXTS:
        return _TEXTS[kind]
    known = _ALIASES.get(name, name)
    return name if known in value else known


def _path(text: str | int) -> list[Json]:
    """Reads a path that was written as text, such as `items[0].title`."""
    if isinstance(text, int):
        return [text]
    found = pieces("{{x." + text.removeprefix("$").removeprefix(".") + "}}")[0]
    return [*found.path] if isinstance(found, Ref) else [text]
