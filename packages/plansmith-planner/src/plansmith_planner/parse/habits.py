"""Reads loosely written JSON: field names, flags and numbers, with a note on every guess."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from plansmith.formats.native import read as read_native
from plansmith.plan.data import Json, Path
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import FROM, Ref, pieces, value_text
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep, StepFields
from plansmith_planner.dialect import Reading, Write, Writing, field_losses, left_behind, plain_text

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_SLUG: Final = re.compile(r"[^A-Za-z0-9_-]+")
_TRUE: Final = frozenset({"true", "yes", "y", "1", "on", "是"})
_FALSE: Final = frozenset({"false", "no", "n", "0", "off", "否", ""})
_HINT: Final = Sentence("check that this is what was meant")
_PLACE: Final = Sentence(
    "write it where the format has a place for it, or leave it out if it is not meant"
)
# Without these a plan would run that should not, or at another time, or say something else.
_REFUSALS: Final = frozenset({"adequate", "has_enough_context", "enough_context"})
_DECISIVE: Final = frozenset(
    {
        *("guidance_message", "question", "questions", "clarification", "direct_response"),
        *("schedule", "schedule_config", "terminate_columns"),
        *("when", "if", "unless", "only_if", "run_if", "skip_if", "condition", "conditions"),
        *("depends_on_condition", "then", "else", "loop", "repeat", "repeat_until", "until"),
        *("while",),
    }
)


def decides(name: str, value: Json) -> bool:
    """Whether a plan without this field would run when it should not, or otherwise."""
    plain = snake(name)
    if plain in _REFUSALS:
        return value is not None and str(value).strip().lower() not in _TRUE
    if plain == "pattern":
        return text_of(value).lower() not in ("", "once")
    return plain in _DECISIVE and value not in (None, False, "", [], {})


@cache
def aliases(form: str, package: str = "plansmith_planner.parse") -> dict[str, str]:
    """Returns the fields of a form by their other names, as a list in a package has them."""
    text = (files(package) / "aliases.txt").read_text(encoding="utf-8")
    rows = (re.split(r":? ", line) for line in text.splitlines())
    return {name: row[1] for row in rows if row[0] == form for name in row[2:]}


class Notes:
    """The problems found while reading or writing one plan."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def say(self, message: str, *, step: str | None = None, path: Path = ()) -> None:
        """Notes that something was read although it is written differently, or was left out."""
        self.problems.append(problem("PS013", message, hint=_HINT, step=step, path=path))

    def lose(self, message: str, *, step: str | None = None, path: Path = ()) -> None:
        """Notes that the format cannot express something."""
        self.problems.append(left_behind(message, step=step, path=path))

    def drop(self, message: str, *, hint: str, path: Path = ()) -> None:
        self.problems.append(problem("PS014", message, hint=hint, path=path))

    def leave_out(
        self, name: str, value: Json, message: str = "", *, step: str | None = None
    ) -> None:
        """Notes that a field is left out; an error if the plan means something else without it."""
        if not decides(name, value):
            usual = Sentence("the field '{name}' has no place in a plan and is left out", name=name)
            self.say(message or usual, step=step, path=(name,))
            return
        error = Sentence(
            "the field '{name}' cannot be read here, and without it the "
            "plan would mean something else",
            name=name,
        )
        self.refuse("PS003", error, step=step, path=(name,))

    def refuse(
        self, code: str, message: str, *, hint: str = "", step: str | None = None, path: Path = ()
    ) -> None:
        """Notes an error: the plan must be written again."""
        self.problems.append(problem(code, message, hint=hint or _PLACE, step=step, path=path))

    def reading(self, document: Mapping[str, Json]) -> Reading:
        """Reads a document in our own plan language; adds the notes so far."""
        made = read_native(dict(document))
        if isinstance(made, Plan):
            return Reading(made, tuple(self.problems))
        return Reading(None, (*self.problems, *made))

    def fields(
        self,
        value: Mapping[str, Json],
        known: Collection[str],
        *,
        aliases: Mapping[str, str] | None = None,
        step: str | None = None,
    ) -> dict[str, Json]:
        """Returns the known fields, also under other spellings; notes and drops the others."""
        found: dict[str, Json] = {}
        # Its own name counts before another one for the same field.
        for name, each in sorted(value.items(), key=lambda item: item[0] not in known):
            plain = snake(name)
            field = plain if plain in known else (aliases or {}).get(plain, plain)
            if field not in known:
                self.leave_out(name, each, step=step)
            elif field in found:
                names = {"name": name, "field": field}
                again = Sentence("the field '{name}' says '{field}' again and is left out", **names)
                self.leave_out(field, None if each == found[field] else each, again, step=step)
            else:
                found[field] = each
        return found

    def flag(self, value: Json, name: str, *, step: str | None = None) -> bool | None:
        """Reads a boolean, also from a word or a number; None if it is missing or unclear."""
        if value is None or isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        known = word in _TRUE if word in _TRUE or word in _FALSE else None
        unclear = Sentence("{value} is neither true nor false", value=repr(value))
        self._read_as(value, known, unclear, name, step)
        return known

    def consent(self, value: Json, name: str) -> bool:
        """Reads a boolean without which nothing runs; anything unclear is an error, and no."""
        if value is not None and str(value).strip().lower() in _TRUE | _FALSE:
            return bool(self.flag(value, name))
        unclear = Sentence("{value} is neither true nor false", value=repr(value))
        self.refuse("PS005", unclear, path=(name,))
        return False

    def whole(self, value: Json, name: str, *, step: str | None = None) -> int | None:
        """Reads a whole number, also from text; None if it is missing or unclear."""
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        try:
            number = float(str(value).strip())
        except ValueError:
            number = 0.5
        known = int(number) if number.is_integer() else None
        unclear = Sentence("{value} is not a whole number", value=repr(value))
        self._read_as(value, known, unclear, name, step)
        return known

    def _read_as(
        self, value: Json, known: float | None, unclear: str, name: str, step: str | None
    ) -> None:
        message = Sentence("{value} is read as {known}", value=repr(value), known=str(known))
        self.say(unclear if known is None else message, step=step, path=(name,))


def with_notes(write: Callable[[Plan, Run | None, Notes], dict[str, Json]]) -> Write:
    """Turns a writing function that takes notes into one that returns them."""

    def written(plan: Plan, run: Run | None = None) -> Writing:
        notes = Notes()
        return Writing(write(plan, run, notes), tuple(notes.problems))

    return written


class Ids:
    """Makes unique step ids from the names that other systems use."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def make(self, wanted: Json, place: int) -> str:
        """Returns an id like the wanted one, or one made from the position."""
        plain = _NOT_SLUG.sub("_", str(wanted)).strip("_-")[:60] if wanted else ""
        return self.free(plain or f"s{place}")

    def free(self, name: str) -> str:
        """Returns a name that no other step has, and takes it."""
        free, number = name, 2
        while free in self.taken:
            free, number = f"{name}_{number}", number + 1
        self.taken.add(free)
        return free


def snake(name: str) -> str:
    """Returns a field name in lower case with underscores."""
    return _CAMEL.sub("_", name.strip()).replace("-", "_").replace(" ", "_").lower()


def text_of(value: Json) -> str:
    """Returns a value as text without surrounding space."""
    return "" if value is None else value_text(value).strip()


def raw_text(value: Json) -> str:
    """Returns a value as text, unchanged; empty if it is blank."""
    text = "" if value is None else value_text(value)
    return text if text.strip() else ""


def objects(value: Json) -> list[Json] | None:
    """Returns a list, also from JSON text; else None."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, list) else None


def not_a_plan(title: str, hint: str) -> tuple[Problem, ...]:
    """Returns the problem that a value is not a plan in a format."""
    return (problem("PS001", Sentence("no plan of {title} was found", title=title), hint=hint),)


def result_text(run: Run | None, step: str) -> str | None:
    """Returns the result of a finished step as text; None for other steps."""
    state = run.steps.get(step) if run else None
    if state is None or state.status is not StepStatus.DONE:
        return None
    value = state.result
    inner = value.get("text") if isinstance(value, dict) else None
    return inner if isinstance(inner, str) else text_of(value)


def losses(plan: Plan, held: Iterable[str], *, title: str, notes: Notes) -> None:
    """Notes the fields of the plan itself that a format does not have."""
    given = {name: each for name, each in plan.to_json().items() if each}
    kept = {"schema_version", "steps", "revision", *held}
    notes.problems += field_losses(given, kept, title=title)


def step_losses(step: StepFields, held: Iterable[str], *, title: str, notes: Notes) -> None:
    """Notes the fields of a step that a format does not have."""
    kept = {"id", "kind", *held}
    notes.problems += field_losses(step.to_json(), kept, title=title, step=step.id)


def inputs_loss(
    step: AgentStep, inputs: Mapping[str, Json], implied: Mapping[str, Json], notes: Notes
) -> None:
    """Notes that a step would get other results than its position in the format implies."""
    if inputs != implied:
        names = [*implied] or Sentence("nothing")
        message = Sentence("its place gives it {names} as inputs, and nothing else", names=names)
        notes.lose(message, step=step.id, path=("inputs",))


def no_such_step(step: AnyStep, *, title: str, notes: Notes) -> None:
    """Notes that a format has no step of this kind."""
    fields = {"title": title, "kind": step.kind}
    gone = Sentence("{title} has no step like this {kind} step: it is left out", **fields)
    notes.lose(gone, step=step.id)


def result_inputs(names: Iterable[str]) -> dict[str, Json]:
    """Returns inputs that refer to the results of earlier steps."""
    return {name: {FROM: name} for name in names}


def export_text(text: str, notes: Notes, *, step: str) -> str:
    """Returns a text for the other system; notes references, which become plain text there."""
    refs = [str(piece) for piece in pieces(text) if isinstance(piece, Ref)]
    if refs:
        notes.lose(Sentence("references become plain text: {refs}", refs=[*refs]), step=step)
    return plain_text(text)
