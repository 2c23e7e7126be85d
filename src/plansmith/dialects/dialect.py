"""Dialects: what every foreign plan shape offers, the shapes by name, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Final, cast

from plansmith.errors import InvalidPlan, Misconfigured
from plansmith.plan.data import Json, Path
from plansmith.plan.graph import needs, order, upstream
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import escape_text, find, literal, pieces
from plansmith.plan.rename import rename_steps
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep, StepFields

# The order in which a value is offered to them: the shapes with the plainest marks first.
_OFFERED: Final = ("spring", "valuecell", "deerflow", "openmanus", "sage")
# Two of Spring AI Alibaba's three shapes can also be asked for by name; it recognises all three.
_PARTS: Final = {"jmanus": "spring.jmanus", "deepresearch": "spring.research"}
DIALECTS: Final = (*_OFFERED, *_PARTS)


@dataclass(frozen=True, slots=True)
class Reading:
    """A plan out of a foreign value, or none, and all that is to be said of the reading."""

    plan: Plan | None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Writing:
    """A plan in a foreign shape; `lost` names everything that the shape cannot hold."""

    value: Json
    lost: tuple[Problem, ...] = ()


Write = Callable[[Plan, Run | None], Writing]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One foreign shape; `prompt` names the file of `planner/prompts` that asks a model for it."""

    name: str
    title: str
    recognises: Callable[[Json], bool]
    read: Callable[[Json], Reading]
    write: Write
    schema: Callable[[], dict[str, Json]]
    prompt: str


def left_behind(message: str, *, step: str | None = None, path: Path = ()) -> Problem:
    """That something has no place in the other shape."""
    hint = Sentence("hint.plan_kept")
    return problem("PS017", message, hint=hint, step=step, path=path)


def place_id(place: int) -> str:
    """The id of a step that is known only by its place, from 1."""
    return f"s{place}"


def data_of(template: Json, ids: Collection[str]) -> Json:
    """Foreign data as a template: only a reference to one of these steps is one."""
    known = all(found.ref is not None and found.ref.step in ids for found in find(template))
    if known:
        return template
    return escape_text(template) if isinstance(template, str) else literal(template)


def plain_text(template: str) -> str:
    """A text of ours as others read it: quoted braces as braces, references as they stand."""
    return "".join(str(piece) for piece in pieces(template))


def in_order(plan: Plan) -> list[AnyStep]:
    """The steps one after the other, each behind what it needs; as listed when there is a ring."""
    try:
        names = order(needs(plan))
    except InvalidPlan:
        return list(plan.steps)
    return [plan.by_id[name] for name in names]


def by_place(steps: Sequence[AnyStep]) -> tuple[AnyStep, ...]:
    """The steps with ids after their places, and references that follow them."""
    names = {step.id: place_id(place) for place, step in enumerate(steps, start=1)}
    return rename_steps(Plan(steps=tuple(steps)), names).steps


def order_losses(plan: Plan, steps: Sequence[AnyStep], *, title: str) -> Iterator[Problem]:
    """One word on steps that could run side by side and are listed one after the other."""
    graph = needs(plan)
    for first, then in pairwise(steps):
        if first.id not in upstream(graph, [then.id]):
            told = Sentence("shape.in_turn", title=title, step=then.id)
            yield left_behind(told, step=then.id, path=("after",))
            return


def reference_losses(step: StepFields, *, title: str) -> Iterator[Problem]:
    """A word on references, which others take for text."""
    refs = list(dict.fromkeys(map(str, step.refs())))
    if refs:
        told = Sentence("shape.no_references", title=title, refs=[*refs])
        yield left_behind(told, step=step.id)


def field_losses(
    fields: Mapping[str, Json], held: Collection[str], *, title: str, step: str | None = None
) -> Iterator[Problem]:
    """A word on every field that a shape has no place for."""
    for name, value in fields.items():
        if name not in held and value != "":
            code = "shape.no_step_field" if step else "shape.no_plan_field"
            told = Sentence(code, title=title, name=name)
            yield left_behind(told, step=step, path=(name,))


def id_losses(steps: Sequence[AnyStep], *, title: str) -> Iterator[Problem]:
    """One word on ids that are not those the places give."""
    names = {step.id: place_id(place) for place, step in enumerate(steps, start=1)}
    changed = [
        Sentence("shape.renamed", old=old, new=new) for old, new in names.items() if old != new
    ]
    if changed:
        told = Sentence("shape.by_place", title=title, changes=[*changed])
        yield left_behind(told, path=("id",))


def refers_to(step: StepFields, ids: Collection[str]) -> bool:
    """Whether a step uses the output of one of these steps."""
    return any(ref.step in ids for ref in step.refs())


def closed(
    properties: Mapping[str, Json], required: Sequence[str] | None = None
) -> dict[str, Json]:
    """The JSON Schema of an object with these fields and no others; all are required by default."""
    made: dict[str, Json] = {"type": "object", "properties": dict(properties)}
    wanted: list[Json] = [*(properties if required is None else required)]
    if wanted:
        made["required"] = wanted
    return made | {"additionalProperties": False}


def plan_schema(
    title: str, properties: Mapping[str, Json], required: Sequence[str] | None = None
) -> dict[str, Json]:
    """The JSON Schema of a whole plan in a foreign shape."""
    head: dict[str, Json] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | {"title": title} | closed(properties, required)


@cache
def dialect(name: str) -> Dialect:
    """The dialect of a name."""
    if name not in DIALECTS:
        hint = f"known: {', '.join(sorted(DIALECTS))}"
        raise Misconfigured(f"there is no dialect {name!r}", hint=hint)
    module = import_module(f"plansmith.dialects.{_PARTS.get(name, name)}")
    return cast("Dialect", module.DIALECT)


def recognise(value: Json) -> str | None:
    """The name of the dialect whose marks a value bears, if it bears any."""
    return next((name for name in _OFFERED if dialect(name).recognises(value)), None)
