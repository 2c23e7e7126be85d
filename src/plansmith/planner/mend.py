"""Mend: what is obviously meant in a plan put right, each change told in a note."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar, cast

from plansmith.plan.capability import AgentSpec, Tools, ToolSpec
from plansmith.plan.data import Json, Path, flaws
from plansmith.plan.plan import MAX_STEPS, Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import RESERVED, Ref, escape_text
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep, AskStep, MapStep, StepFields, ToolStep
from plansmith.planner.check import agent_names
from plansmith.planner.checking.blanks import Blanks, put
from plansmith.planner.checking.catalogue import Catalogue
from plansmith.planner.checking.coercion import coerce
from plansmith.planner.checking.faults import faults
from plansmith.planner.checking.names import Names
from plansmith.planner.checking.schemas import Schema, Unusable, inside, shape
from plansmith.planner.recurrence import without_recurrence

_MOST_ROUNDS: Final = 8
_MOST_OPTIONS: Final = 20
_S = TypeVar("_S", bound=StepFields)


class Mended(NamedTuple):
    """A plan with what is obvious put right, and a note on each change."""

    plan: Plan
    problems: list[Problem]


def mend(
    plan: Plan,
    tools: Tools,
    *,
    agents: Iterable[str | AgentSpec] = (),
    ask_for_missing: bool = True,
) -> Mended:
    """The plan with mistyped names, types and missing arguments mended, where no doubt is left.

    No value is invented: what is missing becomes a question. A plan with a schedule does each task
    once a fire, so its tasks do not speak of it. Mending twice changes nothing.
    """
    known, _ = agent_names(agents)
    mender = _Mender(plan, Catalogue(tools), Names(known), ask_for_missing=ask_for_missing)
    steps: list[AnyStep] = []
    for step in plan.steps:
        changed = mender.mended(step)
        steps += [*mender.take_questions(), changed]
    if all(new is old for new, old in zip(steps, plan.steps, strict=False)):
        return Mended(plan, [])
    # Not `replace`, which trips over the table of steps by id once somebody has looked at it.
    fields = {name: getattr(plan, name) for name in Plan.model_fields}
    return Mended(Plan.model_validate(fields | {"steps": tuple(steps)}), mender.notes)


class _Mender:
    """Works through the steps and keeps the notes, the questions and the ids in use."""

    def __init__(
        self, plan: Plan, tools: Catalogue, agents: Names, *, ask_for_missing: bool
    ) -> None:
        self.tools = tools
        self.agents = agents
        self.ask_for_missing = ask_for_missing
        self.scheduled = plan.schedule is not None
        self.chinese = plan.locale.lower().startswith("zh")
        self.notes: list[Problem] = []
        self.questions: list[AskStep] = []
        self.room = MAX_STEPS - len(plan.steps)
        self.ids = set(RESERVED) | {step.id for step in plan.steps}
        self.ids |= {step.each.id for step in plan.steps if isinstance(step, MapStep)}

    def take_questions(self) -> list[AskStep]:
        questions, self.questions = self.questions, []
        return questions

    def mended(self, step: AnyStep) -> AnyStep:
        """The step, or a changed copy of it."""
        match step:
            case MapStep():
                inner = self.mended(step.each)
                return step if inner is step.each else step.replace(each=inner)
            case ToolStep():
                named = self._named(step, "tool", step.tool, self.tools.names)
                spec = self.tools.get(named.tool)
                return named if spec is None or step.disabled else self._filled(named, spec)
            case AgentStep():
                return self._agent(step)
            case _:
                return step

    def _agent(self, step: AgentStep) -> AgentStep:
        named = self._named(step, "agent", step.agent, self.agents) if self.agents.known else step
        bare = without_recurrence(step.task) if self.scheduled else step.task
        if bare == step.task:
            return named
        self._note("PS013", Sentence("ps.schedule_words"), step, ("task",))
        return named.replace(task=bare)

    def _named(self, step: _S, field: str, name: str, known: Names) -> _S:
        right = None if name in known else known.obvious(name)
        if right is None:
            return step
        self._note("PS206", Sentence("ps.renamed", before=name, after=right), step, (field,))
        return step.replace(**{field: right})

    def _filled(self, step: ToolStep, spec: ToolSpec) -> ToolStep:
        inputs: Json = step.inputs
        for _ in range(_MOST_ROUNDS):
            before = inputs
            inputs = self._renamed(step, inputs, spec.input_schema)
            inputs = self._coerced(step, inputs, spec.input_schema)
            if self.ask_for_missing:
                inputs = self._asked(step, inputs, spec.input_schema)
            if inputs is before:
                break
        return step if inputs is step.inputs else step.replace(inputs=inputs)

    def _renamed(self, step: ToolStep, inputs: Json, schema: Schema) -> Json:
        """Arguments under a mistyped name, where the right one is still free."""
        place = shape(schema, schema)
        if len(place.forms) != 1 or not isinstance(inputs, dict):
            return inputs
        properties = place.forms[0].get("properties")
        if not isinstance(properties, dict) or place.forms[0].get("additionalProperties"):
            return inputs
        free = Names([name for name in properties if name not in inputs])
        meant = {name: free.obvious(name) for name in inputs if name not in properties}
        table = dict[str, str]()
        for wrong, right in meant.items():
            if right is not None and list(meant.values()).count(right) == 1:
                table[wrong] = right
                message = Sentence("ps.renamed_argument", before=wrong, after=right)
                self._note("PS206", message, step, ("inputs", right))
        return {table.get(name, name): value for name, value in inputs.items()} if table else inputs

    def _coerced(self, step: ToolStep, inputs: Json, schema: Schema) -> Json:
        done = coerce(inputs, schema)
        for change in done.changes:
            name = ".".join(map(str, change.path))
            before, after = _shown(change.before), _shown(change.after)
            message = Sentence("ps.coerced", name=name, before=before, after=after)
            self._note("PS205", message, step, ("inputs", *change.path))
        return done.inputs if done.changes else inputs

    def _asked(self, step: ToolStep, inputs: Json, schema: Schema) -> Json:
        blanks = Blanks(inputs)
        found = faults(schema, blanks)
        for fault in [] if isinstance(found, Unusable) else found:
            if fault.keyword != "required" or self.room <= 0:
                continue
            name = str(fault.detail["property"])
            path = (*blanks.real(fault.path), name)
            if "$literal" in path[:-1]:
                continue
            about = _about(schema, (*fault.path, name))
            question = self._question(step, name, about)
            inputs = put(inputs, path, cast("Json", Ref(question.id).to_json()))
            message = Sentence("ps.asked_for", name=name, question=question.id)
            self._note("PS207", message, step, ("inputs", *path))
        return inputs

    def _question(self, step: ToolStep, name: str, about: Schema) -> AskStep:
        self.room -= 1
        title, note = step.title or step.id, str(about.get("description") or "").strip()
        if self.chinese:
            text = f"“{title}”需要“{name}”，请提供。" + (f"（{note}）" if note else "")
        else:
            text = f'What should "{name}" be in "{title}"?' + (f" ({note})" if note else "")
        fields: dict[str, Any] = {"id": self._id(f"ask_{step.id}_{name}"), "question": text}
        fields["question"] = escape_text(text)
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
        """An id that is not taken, as near to the wish as ids allow."""
        stem = re.sub(r"[^A-Za-z0-9_-]+", "_", wish)[:56].rstrip("_") or "ask"
        name, number = stem, 2
        while name in self.ids:
            name, number = f"{stem}_{number}", number + 1
        self.ids.add(name)
        return name

    def _note(self, code: str, message: str, step: StepFields, path: Path) -> None:
        hint = Sentence("hint.look_meant")
        self.notes.append(problem(code, message, hint=hint, step=step.id, path=path))


def _about(schema: Schema, path: Path) -> Schema:
    """What the schema says of a place, fit to stand alone."""
    forms = inside(shape(schema, schema), path[:-1]).forms
    for form in forms:
        properties = form.get("properties")
        found = properties.get(str(path[-1])) if isinstance(properties, dict) else None
        if isinstance(found, dict):
            shared = dict(_definitions(schema)) if '"$ref"' in json.dumps(found) else {}
            return {**found, **shared}
    return {}


def _definitions(schema: Schema) -> Iterator[tuple[str, Json]]:
    for key in ("$defs", "definitions"):
        if key in schema:
            yield key, schema[key]


def _shown(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"
