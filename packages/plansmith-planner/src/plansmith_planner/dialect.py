"""Dialects: what every foreign plan format offers, how it is found, and shared functions.

A package brings a dialect by the entry point group `plansmith.dialects`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, cast

from plansmith import plugins
from plansmith.errors import Misconfigured, PlanInvalid
from plansmith.plan.conditions import rule_text
from plansmith.plan.data import MAX_DEPTH, Json, Path, is_deep
from plansmith.plan.diff import rename_steps
from plansmith.plan.graph import order, upstream
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import escape_text, fill, find_refs, literal, pieces
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import RULES, AnyStep, StepFields

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

PRIMARY: Final = "primary"  # the agent of a step that names none


@dataclass(frozen=True, slots=True)
class Reading:
    """A plan read from a foreign value, or None, and the problems of reading it."""

    plan: Plan | None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Writing:
    """A plan in a foreign format; `lost` names everything that the format cannot express."""

    value: Json
    lost: tuple[Problem, ...] = ()


Write = Callable[[Plan, Run | None], Writing]


@dataclass(frozen=True, slots=True)
class Dialect:
    """A foreign plan format; `prompt` is the file whose text asks a model for it.

    `asks` returns what a plan wants answered before the planner goes on. With `agents_only` every
    agent is offered to the planner and no tool, since its tasks are for agents alone. `step_text`
    is how programs show a step, where they know it by that text, and `language` that of the steps
    that stand in for a plan. Values are shown to dialects by `turn`, the most distinctive first;
    one without a turn is only read by its name.
    """

    name: str
    title: str
    recognises: Callable[[Json], bool]
    read: Callable[[Json], Reading]
    write: Write
    schema: Callable[[], dict[str, Json]]
    prompt: Traversable
    asks: Callable[[Plan], tuple[str, ...]] = lambda _: ()
    agents_only: bool = False
    step_text: Callable[[AnyStep], str] | None = None
    language: str = ""
    turn: int | None = 100


def left_behind(message: str, *, step: str | None = None, path: Path = ()) -> Problem:
    """Returns the problem that the other format cannot express something."""
    hint = Sentence("keep the plan itself too: nothing is lost in it")
    return problem("PS017", message, hint=hint, step=step, path=path)


def place_id(place: int) -> str:
    """Returns the id of a step that has only a position, from 1."""
    return f"s{place}"


def data_of(template: Json, ids: Collection[str]) -> Json:
    """Returns foreign data as a template: only references to these steps count as references."""
    refs = [found.ref for found in find_refs(template)]
    if refs and all(ref is not None and ref.step in ids for ref in refs):
        return template
    if not refs and fill(template, {}) == template:  # nor would an escape in it be taken out
        return template
    return escape_text(template) if isinstance(template, str) else literal(template)


def plain_text(template: str) -> str:
    """Returns a text without escapes for braces; references stay as text."""
    return "".join(str(piece) for piece in pieces(template))


def in_order(plan: Plan) -> list[AnyStep]:
    """Returns the steps in an order in which they can run; as listed if there is a cycle."""
    try:
        names = order(plan.needs)
    except PlanInvalid:
        return list(plan.steps)
    return [plan.by_id[name] for name in names]


def by_place(steps: Sequence[AnyStep]) -> tuple[AnyStep, ...]:
    """Returns the steps with ids by position; references are updated."""
    names = {step.id: place_id(place) for place, step in enumerate(steps, start=1)}
    return rename_steps(Plan(steps=tuple(steps)), names).steps


def order_losses(plan: Plan, steps: Sequence[AnyStep], *, title: str) -> Iterator[Problem]:
    """Reports steps that could run in parallel but are listed in turn."""
    graph = plan.needs
    for first, then in pairwise(steps):
        if first.id not in upstream(graph, [then.id]):
            message = Sentence(
                "{title} runs steps one after the other: '{step}' could run beside others",
                title=title,
                step=then.id,
            )
            yield left_behind(message, step=then.id, path=("after",))
            return


def reference_losses(step: StepFields, *, title: str) -> Iterator[Problem]:
    """Reports references, which other systems read as plain text."""
    refs = list(dict.fromkeys(map(str, step.input_refs())))
    if refs:
        message = Sentence(
            "{title} does not fill in references: {refs} stays as text", title=title, refs=[*refs]
        )
        yield left_behind(message, step=step.id)


def field_losses(
    fields: Mapping[str, Json], held: Collection[str], *, title: str, step: str | None = None
) -> Iterator[Problem]:
    """Reports every field that the format does not have."""
    for name, value in fields.items():
        if name in held or value == "":
            continue
        if step and name in RULES:
            rule = rule_text(name, value)
            message = Sentence(
                "{title} has no '{name}': there the step would run without this rule: {rule}",
                title=title,
                name=name,
                rule=rule,
            )
        else:
            code = "shape.no_step_field" if step else "shape.no_plan_field"
            message = Sentence(code, title=title, name=name)
        yield left_behind(message, step=step, path=(name,))


def id_losses(steps: Sequence[AnyStep], *, title: str) -> Iterator[Problem]:
    """Reports ids that the format replaces by positions."""
    names = {step.id: place_id(place) for place, step in enumerate(steps, start=1)}
    changed = [
        Sentence("{old} is {new}", old=old, new=new) for old, new in names.items() if old != new
    ]
    if changed:
        message = Sentence(
            "{title} knows steps by their place only: {changes}", title=title, changes=[*changed]
        )
        yield left_behind(message, path=("id",))


def dialect_names() -> list[str]:
    """Returns the names of the installed dialects."""
    return plugins.names("dialects")


@cache
def dialect(name: str) -> Dialect:
    """Returns the dialect with a name."""
    known = dialect_names()
    if known and name not in known:
        hint = Sentence("known: {names}", names=known)
        raise Misconfigured(Sentence("there is no dialect '{name}'", name=name), hint=hint)
    found = cast("Dialect", plugins.load("dialects", name))
    return replace(found, read=partial(_read, found.read))


def _read(read: Callable[[Json], Reading], value: Json) -> Reading:
    if is_deep(value):
        message = Sentence("values are nested more than {most} levels deep", most=MAX_DEPTH)
        hint = Sentence("flatten the value, or pass it by file")
        return Reading(None, (problem("PS007", message, hint=hint),))
    return read(value)


def recognise(value: Json) -> str | None:
    """Returns the name of the first dialect that recognises a value, or None."""
    return next((each.name for each in _in_turn() if each.recognises(value)), None)


@cache
def _in_turn() -> list[Dialect]:
    turns = {each.name: each.turn for each in map(dialect, dialect_names())}
    offered = [(turn, name) for name, turn in turns.items() if turn is not None]
    return [dialect(name) for _, name in sorted(offered)]
