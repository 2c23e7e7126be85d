"""Corrects what is obviously meant, such as a number written as text; notes each change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar, cast

from plansmith.check.arguments import CertainError, certain_errors, short_json
from plansmith.check.check_plan import agent_names
from plansmith.check.names import Catalogue, KnownTool, Names
from plansmith.check.placeholders import Placeholders, at, put
from plansmith.check.schemas import Compiled, Schema
from plansmith.plan.capability import AgentSpec, Tools
from plansmith.plan.data import Json, Path, flaws, same
from plansmith.plan.plan import MAX_STEPS, Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import LITERAL, RESERVED, Ref, escape_text, literal
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import AgentStep, AnyStep, AskStep, MapStep, StepFields, ToolStep

_MOST_ROUNDS: Final = 8
_MOST_OPTIONS: Final = 20
_S = TypeVar("_S", bound=StepFields)
_INTEGER: Final = re.compile(r"[+-]?\d{1,18}(?:\.0{1,6})?")
_NUMBER: Final = re.compile(r"[+-]?\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,2})?")
_BOOLEANS: Final = {"true": True, "false": False}
_MOST_NESTED: Final = 3


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
    known, _ = agent_names(agents)
    fixer = _Fixer(plan, Catalogue(tools), Names(known), ask_for_missing=ask_for_missing)
    steps: list[AnyStep] = []
    for step in plan.steps:
        changed = fixer.fixed(step)
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

    def fixed(self, step: AnyStep) -> AnyStep:
        match step:
            case MapStep():
                inner = self.fixed(step.each)
                return step if inner is step.each else step.replace(each=inner)
            case ToolStep():
                named = self._named(step, "tool", step.tool, self.tools.names)
                tool = self.tools.tool(named.tool)
                return named if tool is None or step.disabled else self._filled(named, tool)
            case AgentStep() if self.agents.known:
                return self._named(step, "agent", step.agent, self.agents)
            case _:
                return step

    def _named(self, step: _S, field: str, name: str, known: Names) -> _S:
        right = None if name in known else known.obvious(name)
        if right is None:
            return step
        message = Sentence("'{before}' became '{after}'", before=name, after=right)
        self._note("PS206", message, step, (field,))
        return step.replace(**{field: right})

    def _filled(self, step: ToolStep, tool: KnownTool) -> ToolStep:
        inputs: Json = step.inputs
        for _ in range(_MOST_ROUNDS):
            before = inputs
            inputs = self._renamed(step, inputs, tool)
            inputs = self._coerced(step, inputs, tool)
            if self.ask_for_missing:
                inputs = self._asked(step, inputs, tool)
            if inputs is before:
                break
        return step if inputs is step.inputs else step.replace(inputs=inputs)

    def _renamed(self, step: ToolStep, inputs: Json, tool: KnownTool) -> Json:
        """Renames arguments with a mistyped name, if the right name is still free."""
        forms = tool.takes.forms
        if len(forms) != 1 or not isinstance(inputs, dict):
            return inputs
        properties = forms[0].get("properties")
        if not isinstance(properties, dict) or forms[0].get("additionalProperties"):
            return inputs
        free = Names([name for name in properties if name not in inputs])
        meant = {name: free.obvious(name) for name in inputs if name not in properties}
        table = dict[str, str]()
        for wrong, right in meant.items():
            if right is not None and list(meant.values()).count(right) == 1:
                table[wrong] = right
                message = Sentence(
                    "the argument '{before}' became '{after}'", before=wrong, after=right
                )
                self._note("PS206", message, step, ("inputs", right))
        return {table.get(name, name): value for name, value in inputs.items()} if table else inputs

    def _coerced(self, step: ToolStep, inputs: Json, tool: KnownTool) -> Json:
        done = coerce(inputs, tool.inputs)
        for change in done.changes:
            name = ".".join(map(str, change.path))
            before, after = short_json(change.before), short_json(change.after)
            message = Sentence(
                "'{name}' was {before} and became {after}", name=name, before=before, after=after
            )
            self._note("PS205", message, step, ("inputs", *change.path))
        return done.inputs if done.changes else inputs

    def _asked(self, step: ToolStep, inputs: Json, tool: KnownTool) -> Json:
        arguments = Placeholders(inputs)
        for fault in certain_errors(tool.inputs, arguments) or ():
            if fault.keyword != "required" or self.free_steps <= 0:
                continue
            name = str(fault.detail["property"])
            path = (*arguments.real(fault.path), name)
            if "$literal" in path[:-1]:
                continue
            about = _about(tool, (*fault.path, name))
            question = self._question(step, name, about)
            inputs = put(inputs, path, cast("Json", Ref(question.id).to_json()))
            message = Sentence(
                "'{name}' is missing, so '{question}' asks for it", name=name, question=question.id
            )
            self._note("PS207", message, step, ("inputs", *path))
        return inputs

    def _question(self, step: ToolStep, name: str, about: Schema) -> AskStep:
        self.free_steps -= 1
        title, note = step.title.strip(), str(about.get("description") or "").strip()
        code = "question.argument" if title else "question.argument_of_tool"
        asks = Sentence(code, name=name, title=title, tool=step.tool)
        text = in_language(asks, self.locale) + (f" ({note})" if note else "")
        step_id = self._id(f"ask_{step.id}_{name}")
        fields: dict[str, Any] = {"id": step_id, "question": escape_text(text)}
        options = about.get("enum")
        if isinstance(options, list) and 0 < len(options) <= _MOST_OPTIONS:
            texts = [each for each in options if isinstance(each, str)]
            fields["options"] = tuple(texts) if len(texts) == len(options) else ()
        if about and not any(flaws(about)):
            fields["answer_schema"] = about
        asked = AskStep.model_validate(fields)
        self.questions.append(asked)
        return asked

    def _id(self, wish: str) -> str:
        """Returns an unused id, as close to the wanted one as possible."""
        stem = re.sub(r"[^A-Za-z0-9_-]+", "_", wish)[:56].rstrip("_") or "ask"
        name, number = stem, 2
        while name in self.ids:
            name, number = f"{stem}_{number}", number + 1
        self.ids.add(name)
        return name

    def _note(self, code: str, message: str, step: StepFields, path: Path) -> None:
        hint = Sentence("check that this is what was meant")
        self.notes.append(problem(code, message, hint=hint, step=step.id, path=path))


def _about(tool: KnownTool, path: Path) -> Schema:
    """Returns the schema of a place, complete with the definitions it needs."""
    schema = tool.spec.input_schema
    for form in tool.takes.inside(path[:-1]).forms:
        properties = form.get("properties")
        found = properties.get(str(path[-1])) if isinstance(properties, dict) else None
        if isinstance(found, dict):
            links = '"$ref"' in json.dumps(found)
            shared: Schema = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
            return {**found, **shared} if links else found
    return {}


class Change(NamedTuple):
    """A converted value and its place in the step's inputs."""

    path: Path
    before: Json
    after: Json


class Coerced(NamedTuple):
    """Inputs after conversion, and the changes."""

    inputs: Json
    changes: list[Change]


def coerce(inputs: Json, schema: Compiled, *, nested: int = 0) -> Coerced:
    """Converts wrong values to right ones where that is harmless."""
    changes: list[Change] = []
    for _ in range(_MOST_ROUNDS):
        arguments = Placeholders(inputs)
        found = certain_errors(schema, arguments)
        if not found:
            break
        tries = (
            _tried(inputs, schema, arguments, fault.path, candidate, nested)
            for fault in found
            for candidate in _candidates(fault, at(arguments.value, fault.path))
        )
        step = next(filter(None, tries), None)
        if step is None:
            break
        inputs = step.inputs
        changes += step.changes
    return Coerced(inputs, changes)


def _tried(
    inputs: Json,
    schema: Compiled,
    arguments: Placeholders,
    path: Path,
    candidate: Json,
    nested: int,
) -> Coerced | None:
    """Returns the inputs with one value converted, if that makes the value valid."""
    real, before = arguments.real(path), at(arguments.value, path)
    if arguments.has_placeholders(path) or any(flaws(candidate)):
        return None
    inner = candidate if LITERAL in real else literal(candidate)
    made = Coerced(put(inputs, real, inner), [Change(real, before, candidate)])
    if nested < _MOST_NESTED and isinstance(candidate, (dict, list)):
        deeper = coerce(made.inputs, schema, nested=nested + 1)
        made = Coerced(deeper.inputs, made.changes + deeper.changes)
    left = certain_errors(schema, Placeholders(made.inputs))
    wrong = left is None or any(fault.path[: len(path)] == path for fault in left)
    return None if wrong else made


def _candidates(fault: CertainError, value: Json) -> Iterator[Json]:
    """Yields what the value may mean, the most likely first."""
    match fault.keyword:
        case "enum":
            yield from _options(cast("list[Json]", fault.detail["options"]), value)
        case "const":
            yield from _options([cast("Json", fault.detail["expected_value"])], value)
        case "pattern" | "format" | "maxLength" | "minLength":
            pass
        case _:
            yield from _of_types(cast("list[str]", fault.detail.get("types", [])), value)
    if isinstance(value, str) and value != value.strip():
        yield value.strip()


def _options(options: list[Json], value: Json) -> Iterator[Json]:
    if isinstance(value, (dict, list)) or value is None:
        return
    near = [each for each in options if _plain(each) == _plain(value) and not same(each, value)]
    if len(near) == 1:
        yield near[0]


def _plain(value: Json) -> str:
    """Returns a scalar as text without case, spaces and separators."""
    text = value if isinstance(value, str) else json.dumps(value)
    return re.sub(r"[\s_-]+", "", text).casefold()


def _of_types(types: list[str], value: Json) -> Iterator[Json]:
    if isinstance(value, str):
        yield from _from_text(types, value.strip())
    elif isinstance(value, float) and value.is_integer() and "integer" in types:
        yield int(value)
    if isinstance(value, (bool, int, float)) and "string" in types:
        yield json.dumps(value)
    if "array" in types and value is not None and not isinstance(value, (list, dict)):
        yield [value]
        if isinstance(value, str):
            yield from ([each] for each in _from_text(["integer", "number"], value.strip()))


def _from_text(types: list[str], text: str) -> Iterator[Json]:
    if "integer" in types and _INTEGER.fullmatch(text):
        yield int(text.partition(".")[0])
    if "number" in types and _NUMBER.fullmatch(text):
        yield int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    if "boolean" in types and text.lower() in _BOOLEANS:
        yield _BOOLEANS[text.lower()]
    if text[:1] in ("{", "[") and {"object", "array"}.intersection(types):
        try:
            yield cast("Json", json.loads(text))
        except (ValueError, RecursionError):
            return
