"""Translates steps with other field names into the plan language; notes each change.

A rule of a step that could mean two things stays as it was written: the reader of plans refuses it,
and the model is told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, get_args

from plansmith.formats.dialect import PRIMARY
from plansmith.plan.capability import AgentSpec
from plansmith.plan.conditions import LISTS, OPERATORS, PAIRS
from plansmith.plan.data import Json, Path
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import FROM, LITERAL, PATH, STEP_ID, Ref, escape_text, pieces
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
from plansmith_planner.parse.habits import Ids, Notes

# Other names of the fields of a step; those of `_NEGATED` hold the opposite of a condition.
_ALIASES: Final = {
    "type": "kind",
    "step_id": "id",
    **dict.fromkeys(("arguments", "args", "parameters", "tool_parameters"), "inputs"),
    **dict.fromkeys(("tool_name", "tool_to_use"), "tool"),
    "agent_name": "agent",
    **dict.fromkeys(("depends_on", "dependencies", "needs"), "after"),
    **dict.fromkeys(("reason", "description"), "why"),
    "query": "task",
    "items": "over",
    "step": "each",
    **dict.fromkeys(("condition", "if", "only_if", "run_if"), "when"),
    **dict.fromkeys(("depends_on_condition", "unless", "skip_if"), "when"),
    **dict.fromkeys(("loop", "repeat_until"), "repeat"),
    **dict.fromkeys(("on_failure", "on_fail", "onError"), "on_error"),
    "retries": "retry",
    "compensate_with": "undo_with",
}
_NEGATED: Final = frozenset({"unless", "skip_if"})
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
        self._ids = Ids()

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
        step = fields["id"] = self._id(fields.get("id"), place)
        kind = kind_of(fields)
        if kind is not None and kind not in KINDS:
            implied = kind_of({name: each for name, each in fields.items() if name != "kind"})
            if implied is not None:
                fields["kind"] = implied
                message = Sentence(
                    "the kind '{kind}' is read as '{known}'", kind=str(kind), known=implied
                )
                self._noted.say(message, step=step, path=("kind",))
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
        fields: dict[str, Json] = {}
        step = str(value.get("id", place))
        kind = kind_of({_ALIASES.get(name, name): each for name, each in value.items()})
        for name, each in value.items():
            if each is None:
                continue
            known = _field_name(name, kind, value)
            # A style of anything but a reply means something else, such as a tone.
            tone = known == "style" and (kind != "reply" or each not in get_args(ReplyStyle))
            if known not in _FIELDS or known in fields or tone:
                message = Sentence(
                    "the field '{name}' is not part of a step and is left out", name=name
                )
                self._noted.leave_out(name, each, message, step=step)
                continue
            fields[known] = {name: each} if name in _NEGATED else each
            if known in RULES and name != known:
                message = Sentence(
                    "the field '{name}' is read as '{known}'", name=name, known=known
                )
                self._noted.say(message, step=step, path=(known,))
        return fields

    def _id(self, given: Json, place: int) -> str:
        if given is None or isinstance(given, (dict, list, bool)):
            name = self._ids.free(f"s{place}")
            message = Sentence(
                "step {place} has no id; it is called '{name}'", place=place, name=name
            )
            self._noted.say(message, step=name, path=("id",))
            return name
        text = str(given)
        slug = _NOT_SLUG.sub("_", text).strip("_-")[:64] or f"s{place}"
        if slug != text:
            slug = self._ids.free(slug)
            message = Sentence("the id '{given}' is written '{name}'", given=text, name=slug)
            self._noted.say(message, step=slug, path=("id",))
        self._renamed.setdefault(text, slug)
        self._ids.taken.add(slug)
        return slug

    def _with_references(self, step: dict[str, Json], ids: set[str]) -> dict[str, Json]:
        name = str(step["id"])
        after = step.get("after")
        if after is not None:
            names = after if isinstance(after, list) else [after]
            step["after"] = [self._renamed.get(str(each), str(each)) for each in names]
        for rule in sorted(RULES & step.keys()):
            meant = _rule_as_meant(rule, step[rule], ids | self._renamed.keys())
            if meant != step[rule]:
                text = json.dumps(meant, ensure_ascii=False)
                message = Sentence("'{rule}' is read as {text}", rule=rule, text=text)
                self._noted.say(message, step=name, path=(rule,))
            step[rule] = meant
        for field in _REFERRING:
            if field in step:
                step[field] = self._references(step[field], ids, name, (field,))
        if isinstance(each := step.get("each"), dict):
            step["each"] = self._with_references({"id": f"{name}_each", **each}, ids | {"item"})
        return step

    def _references(self, value: Json, ids: set[str], step: str, path: Path) -> Json:
        written = value
        if isinstance(value, str):
            written, changed = self._text(value, ids)
        elif isinstance(value, list):
            return [self._references(each, ids, step, (*path, at)) for at, each in enumerate(value)]
        elif not isinstance(value, dict) or LITERAL in value:
            return value
        elif FROM in value:
            written = self._reference(value)
            changed = written != value and value.get(PATH) != []
        else:
            return {
                name: self._references(each, ids, step, (*path, name))
                for name, each in value.items()
            }
        if changed:
            message = Sentence("a reference was written in another way")
            self._noted.say(message, step=step, path=path)
        return written

    def _reference(self, value: dict[str, Json]) -> Json:
        """Corrects a reference with a renamed id, or with its path written as text."""
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
        made: dict[str, Json] = {FROM: self._renamed.get(inner.step, inner.step)}
        made |= {PATH: [*keys]} if keys else {}
        return made | {name: each for name, each in value.items() if name not in (FROM, PATH)}

    def _text(self, text: str, ids: set[str]) -> tuple[str, bool]:
        """Rewrites `${step.key}` as a reference, if there is such a step; whether any was."""
        if "{" not in text:
            return text, False

        def rewrite(match: re.Match[str]) -> str:
            source = self._renamed.get(match[1], match[1])
            return "{{" + source + match[2] + "}}" if source in ids else match[0]

        written = _FOREIGN_REF.sub(rewrite, text)
        parts = pieces(written)
        if not any(isinstance(part, Ref) and part.step in self._renamed for part in parts):
            return written, written != text
        renamed = (
            str(part._replace(step=self._renamed.get(part.step, part.step)))
            if isinstance(part, Ref)
            else part.replace("{{", '{{"{{"}}')
            for part in parts
        )
        return "".join(renamed), written != text


def _field_name(name: str, kind: str | None, value: dict[str, Json]) -> str:
    if name in _FIELDS:
        return name
    if name == "name" and kind in _NAMED:
        return _NAMED[kind]
    if name in ("text", "content", "message") and kind in _TEXTS:
        return _TEXTS[kind]
    known = _ALIASES.get(name, name)
    return name if known in value else known


# Rules of a step in other words.
_OPERATORS: Final = {
    **dict.fromkeys(("<", "lt", "less_than"), "below"),
    **dict.fromkeys(("<=", "lte", "le"), "at_most"),
    **dict.fromkeys((">", "gt", "greater_than"), "above"),
    **dict.fromkeys((">=", "gte", "ge"), "at_least"),
    **dict.fromkeys(("==", "=", "eq", "equal"), "equals"),
    **dict.fromkeys(("!=", "<>", "ne", "neq", "not_equal"), "not_equals"),
    **dict.fromkeys(("and", "&&"), "all"),
    **dict.fromkeys(("or", "||"), "any"),
    "!": "not",
    "is_empty": "empty",
    "includes": "contains",
}
_OPPOSITES: Final = {"not_in": "in", "not_contains": "contains", "not_empty": "empty"}
_EVERY: Final = ("interval", "interval_s", "interval_seconds", "every_seconds", "every_s")
_PAUSE: Final = ("delay", "delay_s", "delay_seconds", "wait_seconds", *_EVERY)
_RETRY: Final = {"at_most": ("max", "max_retries", "retries", "times", "count"), "every": _PAUSE}
_REPEAT: Final = {
    "at_most": ("max", "max_rounds", "max_iterations", "max_times", "times", "limit"),
    "every": _PAUSE,
    "until": ("stop_when", "condition"),
}
_ON_ERROR: Final = {"ignore": "skip", "stop": "fail", "abort": "fail", "raise": "fail"}
_SIDES: Final = re.compile(r"(.*[^<>=!\s])\s*+(<=|>=|==|!=|<>|<|>|=)\s*+([^<>=!]+)")
_BARE: Final = re.compile(rf"({STEP_ID})((?:\.[\w-]+|\[\d+\])*)")
_SECONDS: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|secs?|seconds?|min|minutes?|hours?)")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}


def _rule_as_meant(rule: str, value: Json, ids: Collection[str]) -> Json:
    """Returns the value of a rule as the plan language has it; `ids` are those of all steps."""
    match rule, value:
        case "when", _:
            return _condition(value, ids)
        case "repeat", dict():
            found = _with_names(value, _REPEAT)
            if "while" in found and "until" not in found:
                found["until"] = {"unless": found.pop("while")}
            return found | {name: _condition(found[name], ids) for name in {"until"} & found.keys()}
        case "retry", dict():
            return _with_names(value, _RETRY)
        case "retry", int() if not isinstance(value, bool):
            return {"at_most": value}
        case "on_error", dict():
            return {"value": value["default"]} if value.keys() == {"default"} else value
        case "on_error", str():
            return _ON_ERROR.get(value, value)
        case _:
            return (
                {"value": value} if rule == "otherwise" and not isinstance(value, dict) else value
            )


def _with_names(value: dict[str, Json], others: Mapping[str, Collection[str]]) -> dict[str, Json]:
    """Returns an object with its keys and times as meant; two names of one key stay as they are."""
    found = dict(value)
    for name, aliases in others.items():
        given = [each for each in aliases if each in found]
        if len(given) == 1 and name not in found:
            found[name] = found.pop(given[0])
    every = found.get("every")
    read = _SECONDS.fullmatch(every.strip().lower()) if isinstance(every, str) else None
    if read is not None:
        seconds = float(read[1]) * _UNITS[read[2][0]]
        found["every"] = int(seconds) if seconds.is_integer() else seconds
    return found


def _condition(value: Json, ids: Collection[str]) -> Json:
    if not isinstance(value, dict):
        return _comparison(value, ids) if isinstance(value, str) else value
    spelled = _with_names(value, {"operator": ("op",)})
    name = spelled.get("operator")
    if spelled.keys() == {"operator", "left", "right"} and isinstance(name, str):
        # A comparison with its parts named.
        opposite = name in _OPPOSITES and _OPPOSITES[name] in PAIRS
        known = name if opposite else _OPERATORS.get(name, name)
        if opposite or known in PAIRS:
            value = {known: [spelled["left"], spelled["right"]]}
    if len(value) != 1:
        return value
    name, given = next(iter(value.items()))
    if name in _OPPOSITES:
        return {"not": {_OPPOSITES[name]: given}}
    known = name if name in OPERATORS else _OPERATORS.get(name, name)
    if known in LISTS and isinstance(given, list):
        return {known: [_condition(each, ids) for each in given]}
    if known == "not" or name in _NEGATED:
        return {"not": _condition(given, ids)}
    return {known: given}


def _comparison(text: str, ids: Collection[str]) -> Json:
    """Reads `{{stock.count}} < 10`; a text that is not one comparison stays as it is."""
    sides = _SIDES.fullmatch(text.strip())
    if sides is None:
        return text
    left, right = _operand(sides[1], ids), _operand(sides[3], ids)
    if left is None or right is None:
        return text
    return {_OPERATORS[sides[2]]: [left[0], right[0]]}


def _operand(text: str, ids: Collection[str]) -> tuple[Json] | None:
    """Returns what one side of a comparison is, in a tuple; None if that is not certain."""
    parts = pieces(text)
    if len(parts) == 1 and isinstance(parts[0], Ref):
        return (text,)
    bare = _BARE.fullmatch(text.removeprefix("${").removesuffix("}"))
    if bare is not None and bare[1] in ids:
        return ("{{" + bare[0] + "}}",)
    if len(text) > 1 and text[0] == text[-1] == "'" and "'" not in text[1:-1]:
        text = json.dumps(text[1:-1])
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return None if isinstance(value, (dict, list)) else (value,)


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


# Braces in a text of another system, which reading it has escaped.
_BRACES: Final = re.compile(re.escape(escape_text("{{")) + r"([^{}]*)\}\}")


def with_results(plan: Plan, names: Mapping[str, str]) -> Plan:
    """Returns the plan of another system with `{{name}}` read as the earlier result of that name.

    An agent gets it as an input, so that it is data and no part of the task. In these systems a
    plan cannot name its own steps, so a name is always that of an earlier result.
    """
    steps: list[AnyStep] = []
    for step in plan.steps:
        given: dict[str, Json] = {}

        def named(
            found: re.Match[str], step: AnyStep = step, given: dict[str, Json] = given
        ) -> str:
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
            steps.append(step.replace(instruction=_BRACES.sub(named, step.instruction)))
        elif isinstance(step, AgentStep) and (task := _BRACES.sub(named, step.task)) != step.task:
            steps.append(step.replace(task=task, inputs={**step.inputs, **given}))
        else:
            steps.append(step)
    return plan if tuple(steps) == plan.steps else plan.replace(steps=tuple(steps))
