"""How a call ended: with a result, a failure (perhaps an unsure one) or a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from plansmith.check.schemas import BadSchema, validator
from plansmith.errors import InputNeeded, PlansmithError
from plansmith.plan.data import Json, flaws
from plansmith.plan.events import FailureKind, QuestionAsked
from plansmith.plan.preview import CallPreview
from plansmith.plan.sentence import Sentence, with_hint
from plansmith.plan.steps import AnyStep, Instead, OnError

MAX_ERROR: Final = 10_000


@dataclass(slots=True)
class Done:
    """The call gave a result."""

    value: Json


@dataclass(slots=True)
class Failed:
    """The call gave no result and changed nothing; or, if `unsure`, it may have taken effect.

    `again`: another try may help, and is harmless. It should `wait` that many seconds.
    """

    error: str
    again: bool = False
    kind: FailureKind = "tool"
    wait: float | None = None
    unsure: bool = False


@dataclass(slots=True)
class Asks:
    """The call needs an answer from a person."""

    need: InputNeeded


@dataclass(slots=True)
class Differs:
    """The call was not made: it would do something else than a person saw."""

    shown: CallPreview


@dataclass(slots=True)
class Wanted:
    """Consent to a call is asked for, with what its tool says that it would do."""

    question: QuestionAsked
    inputs: dict[str, Json]
    shown: CallPreview | None


Outcome = Done | Failed | Asks | Differs | Wanted


def error_text(error: BaseException) -> str:
    """Returns the message of an error as text for the journal; a tool's own may be anything."""
    try:
        if isinstance(error, PlansmithError) and isinstance(error.message, Sentence):
            return kept_text(with_hint(error.message, error.hint))
        return kept_text(error)
    except Exception:  # noqa: BLE001 - `__str__` of a tool's error may raise anything
        return Sentence("it cannot say why")


def with_class_name(error: BaseException) -> str:
    """Returns the message of an error, with its class name unless it is one of Plansmith's."""
    is_ours = isinstance(error, PlansmithError)
    return error_text(error) if is_ours else f"{type(error).__name__}: {error_text(error)}"


def kept_text(text: object) -> str:
    """Returns a tool's text in a form that a journal can store."""
    clean = str(text).encode("utf-8", "backslashreplace").decode()
    if isinstance(text, Sentence) and clean == text and len(clean) <= MAX_ERROR:
        return text
    return clean if len(clean) <= MAX_ERROR else f"{clean[:MAX_ERROR]}…"


def question_flaw(need: InputNeeded) -> str:
    """Says why a call's question cannot be put to a person; empty if it can."""
    # A tool may have put anything there.
    texts: list[Any] = [need.message, need.link, *need.options]
    flaw = next(flaws([need.state, need.schema, *texts]), None)
    if flaw is not None or not all(isinstance(each, str) for each in texts):
        why = flaw.message if flaw is not None else Sentence("its words are not text")
        return Sentence("it asks a question that cannot be kept: {reason}", reason=why)
    try:
        validator(need.schema or {})
    except BadSchema as error:
        return Sentence(
            "it asks a question whose schema cannot be used: {reason}", reason=str(error)
        )
    return ""


def on_error(step: AnyStep, whole: AnyStep | None) -> OnError:
    """Returns what a failure of a step means; a map that collects (`whole`) says it for items."""
    collects = whole is not None and whole.on_error == "collect"
    return "collect" if collects and step.on_error == "fail" else step.on_error


def instead_of_result(
    step: AnyStep, rule: OnError, error: str, kind: FailureKind
) -> Instead | None:
    """Returns the value that stands in for the result of a failed step, if there is one."""
    if rule == "collect":
        return Instead(value={"error": {"kind": kind, "message": str(error)}})
    return rule if isinstance(rule, Instead) else step.otherwise
