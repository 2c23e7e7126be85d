"""Corrects what is obviously meant, such as a number written as text; notes each change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar, cast

from plansmith.check.arguments import CertainError, Placeholders, certain_errors, short_json
from plansmith.check.check_plan import agent_names
from plansmith.check.names import Catalogue, KnownTool, Names
from plansmith.check.schemas import Compiled, Schema, at
from plansmith.plan.capability import AgentSpec, Tools
from plansmith.plan.data import Json, Path, flaws, same
from plansmith.plan.plan import MAX_STEPS, Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import LITERAL, RESERVED, Ref, escape_text, literal
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import AgentStep, AnyStep, AskStep, MapStep, StepFields, ToolStep

_MAX_ROUNDS: Final = 8
_MAX_OPTIONS: Final = 20
_MAX_NESTED: Final = 3
_S = TypeVar("_S", bound=StepFields)
_INTEGER: Final = re.compile(r"[+-]?\d{1,18}(?:\.0{1,6})?")
_NUMBER: Final = re.compile(r"[+-]?\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,2})?")


class Autofixed(NamedTuple):
    """A plan with obvious mistakes corrected, and a note on each change."""

    plan: Plan
    problems: list[Problem]


def autofix(
    plan: Plan,
    tools: Tools,
    *,
    agents: Iterable[str | AgentSpec] = (),
    ask_for_missing: bool = True,
) -> Autofixed:
    """Corrects mistyped names and types and asks for missing arguments, if the fix is certain.

    No value is invented: a missing one becomes a question. Fixing a fixed plan changes nothing.
    """
    fixer = _Fixer(plan, Catalogue(tools), agent_names(agents), ask_for_missing=ask_for_missing)
    steps: list[AnyStep] = []
    for step in plan.steps:
        changed = fixer.fix(step)
        steps += [*fixer.questions, changed]
        fixer.questions.clear()
    return Autofixed(plan.replace(steps=tuple(steps)) if fixer.notes else plan, fixer.notes)


class _Fixer:
    """Corrects steps, and keeps the notes, the new questions and the ids in use."""

    def __init__(
        self, plan: Plan, tools: Catalogue, agents: Names, *, ask_for_missing: bool
    ) -> None:
        self.tools = tools
        self.agents = agents
        self.ask_for_missing = ask_for_missing
        self.locale = plan.locale
        self.notes: list[Problem] = []
        self.questions: list[AskStep] = []
        self.free_steps = MAX_STEPS - len(plan.steps)
        self.ids = set(RESERVED) | {step.id for step in plan.steps}
        self.ids |= {step.each.id for step in plan.steps if isinstance(step, MapStep)}

    def fix(self, step: AnyStep) -> AnyStep:
        match step:
            case MapStep():
                inner = self.fix(step.each)
                return step if inner is step.each else step.replace(each=inner)
            case ToolStep():
                named = self._correct_name(step, "tool", step.tool, self.tools.names)
                tool = self.tools.tool(named.tool)
                return named if tool is None or step.disabled else self._fix_inputs(named, tool)
            case AgentStep() if self.agents.known:
                return self._correct_name(step, "agent", step.agent, self.agents)
            case _:
                return step

    def _correct_name(self, step: _S, field: str, name: str, known: Names) -> _S:
        right = None if name in known else known.obvious(name)
        if right is None:
            return step
        message = Sentence("'{before}' became '{after}'", before=name, after=right)
        self._note("PS206", message, step, (field,))
        return step.replace(**{field: right})

    def _fix_inputs(self, step: ToolStep, tool: KnownTool) -> ToolStep:
        inputs: Json = step.inputs
        for _ in range(_MAX_ROUNDS):
            before = inputs
            inputs, changes = _convert(self._rename_arguments(step, inputs, tool), tool.inputs)
            for path, was, became in changes:
                message = Sentence(
                    "'{name}' was {before} and became {after}",
                    name=".".join(map(str, path)),
                    before=short_json(was),
                    after=short_json(became),
                )
                self._note("PS205", message, step, ("inputs", *path))
            if self.ask_for_missing:
                inputs = self._ask_for_missing(step, inputs, tool)
            if inputs is before:
                break
        return step if inputs is step.inputs else step.replace(inputs=inputs)

    def _rename_arguments(self, step: ToolStep, inputs: Json, tool: KnownTool) -> Json:
        """Renames arguments with a mistyped name, if the right name is still free."""
        form = tool.input_shape.forms[0] if len(tool.input_shape.forms) == 1 else {}
        properties, more = form.get("properties"), form.get("additionalProperties")
        if more or not isinstance(properties, dict) or not isinstance(inputs, dict):
            return inputs
        free = Names([name for name in properties if name not in inputs])
        corrections = {name: free.obvious(name) for name in inputs if name not in properties}
        table = dict[str, str]()
        for wrong, right in corrections.items():
            if right is not None and list(corrections.values()).count(right) == 1:
                table[wrong] = right
                message = Sentence(
                    "the argument '{before}' became '{after}'", before=wrong, after=right
                )
                self._note("PS206", message, step, ("inputs", right))
        return {table.get(name, name): value for name, value in inputs.items()} if table else inputs

    def _ask_for_missing(self, step: ToolStep, inputs: Json, tool: KnownTool) -> Json:
        """Puts a reference to a new question in the place of each missing argument."""
        arguments = Placeholders(inputs)
        for fault in certain_errors(tool.inputs, arguments) or ():
            inside = arguments.real(fault.path)
            if fault.keyword != "required" or self.free_steps <= 0 or LITERAL in inside:
                continue
            name = str(fault.detail["property"])
            question = self._question(step, name, _about(tool, fault.path, name))
            inputs = _put(inputs, (*inside, name), cast("Json", Ref(question.id).to_json()))
            message = Sentence(
                "'{name}' is missing, so '{question}' asks for it", name=name, question=question.id
            )
            self._note("PS207", message, step, ("inputs", *inside, name))
        return inputs

    def _question(self, step: ToolStep, name: str, about: Schema) -> AskStep:
        self.free_steps -= 1
        title, note = step.title.strip(), str(about.get("description") or "").strip()
        code = "question.argument" if title else "question.argument_of_tool"
        asks = Sentence(code, name=name, title=title, tool=step.tool)
        text = in_language(asks, self.locale) + (f" ({note})" if note else "")
        # An unused id, as close to the wanted one as possible.
        stem = re.sub(r"[^A-Za-z0-9_-]+", "_", f"ask_{step.id}_{name}")[:56].rstrip("_")
        step_id, number = stem, 2
        while step_id in self.ids:
            step_id, number = f"{stem}_{number}", number + 1
        self.ids.add(step_id)
        fields: dict[str, Any] = {"id": step_id, "question": escape_text(text)}
        options = about.get("enum")
        if isinstance(options, list) and 0 < len(options) <= _MAX_OPTIONS:
            are_texts = all(isinstance(each, str) for each in options)
            fields["options"] = tuple(options) if are_texts else ()
        if about and not any(flaws(about)):
            fields["answer_schema"] = about
        self.questions.append(AskStep.model_validate(fields))
        return self.questions[-1]

    def _note(self, code: str, message: str, step: StepFields, path: Path) -> None:
        hint = Sentence("check that this is what was meant")
        self.notes.append(problem(code, message, hint=hint, step=step.id, path=path))


def _about(tool: KnownTool, path: Path, name: str) -> Schema:
    """Returns the schema of a member, complete with the definitions it needs."""
    schema = tool.spec.input_schema
    for form in tool.input_shape.inside(path).forms:
        properties = form.get("properties")
        found = properties.get(name) if isinstance(properties, dict) else None
        if isinstance(found, dict):
            links = '"$ref"' in json.dumps(found)
            shared: Schema = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
            return {**found, **shared} if links else found
    return {}


_Change = tuple[Path, Json, Json]  # the place in the inputs, the value before and after


def _convert(inputs: Json, schema: Compiled, nested: int = 0) -> tuple[Json, list[_Change]]:
    """Converts wrong values to right ones where that is harmless; returns the changes too."""
    changes: list[_Change] = []
    for _ in range(_MAX_ROUNDS):
        arguments = Placeholders(inputs)
        faults = certain_errors(schema, arguments) or ()
        tries = (_conversion(inputs, schema, arguments, fault, nested) for fault in faults)
        made = next(filter(None, tries), None)
        if made is None:
            break
        inputs = made[0]
        changes += made[1]
    return inputs, changes


def _conversion(
    inputs: Json, schema: Compiled, arguments: Placeholders, fault: CertainError, nested: int
) -> tuple[Json, list[_Change]] | None:
    """Returns the inputs with one value converted, if that makes the value valid."""
    path, real = fault.path, arguments.real(fault.path)
    value = at(arguments.value, path)
    for candidate in () if arguments.has_placeholders(path) else _candidates(fault, value):
        if any(flaws(candidate)):
            continue
        made = _put(inputs, real, candidate if LITERAL in real else literal(candidate))
        changes: list[_Change] = [(real, value, candidate)]
        if nested < _MAX_NESTED and isinstance(candidate, (dict, list)):
            made, deeper = _convert(made, schema, nested + 1)
            changes += deeper
        left = certain_errors(schema, Placeholders(made))
        if left is not None and all(each.path[: len(path)] != path for each in left):
            return made, changes
    return None


def _put(value: Json, path: Path, part: Json) -> Json:
    """Returns a copy of a value with another part at a path."""
    if not path:
        return part
    key, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {**value, str(key): _put(value.get(str(key)), rest, part)}
    if isinstance(value, list) and isinstance(key, int):
        return [*value[:key], _put(value[key], rest, part), *value[key + 1 :]]
    return value


def _candidates(fault: CertainError, value: Json) -> Iterator[Json]:
    """Yields what the value may mean, the most likely first."""
    detail = fault.detail
    if fault.keyword in ("enum", "const"):
        options = detail["options"] if fault.keyword == "enum" else [detail["expected_value"]]
        near = [each for each in options if _plain(each) == _plain(value)]
        near = [each for each in near if not same(each, value)]
        if len(near) == 1 and value is not None and not isinstance(value, (dict, list)):
            yield near[0]
    else:
        yield from _of_types(detail.get("types", ()), value)
    if isinstance(value, str) and value != value.strip():
        yield value.strip()


def _plain(value: Json) -> str:
    """Returns a value as text without case, spaces and separators."""
    text = value if isinstance(value, str) else json.dumps(value)
    return re.sub(r"[\s_-]+", "", text).casefold()


def _of_types(types: Iterable[str], value: Json) -> Iterator[Json]:
    if isinstance(value, str):
        yield from _from_text(types, value.strip())
    elif isinstance(value, float) and value.is_integer() and "integer" in types:
        yield int(value)
    if isinstance(value, (bool, int, float)) and "string" in types:
        yield json.dumps(value)
    if "array" in types and value is not None and not isinstance(value, (list, dict)):
        yield [value]
        if isinstance(value, str):
            yield from ([each] for each in _from_text(("integer", "number"), value.strip()))


def _from_text(types: Iterable[str], text: str) -> Iterator[Json]:
    if "integer" in types and _INTEGER.fullmatch(text):
        yield int(text.partition(".")[0])
    if "number" in types and _NUMBER.fullmatch(text):
        yield int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    if "boolean" in types and text.lower() in ("true", "false"):
        yield text.lower() == "true"
    if text[:1] in ("{", "[") and {"object", "array"}.intersection(types):
        try:
            yield cast("Json", json.loads(text))
        except (ValueError, RecursionError):
            return
