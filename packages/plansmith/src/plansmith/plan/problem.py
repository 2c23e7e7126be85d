"""Problems of plans as data: a stable code, the place, the reason and a hint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from plansmith.plan.data import Path
from plansmith.plan.event_body import EventPart, ShownField
from plansmith.plan.sentence import Sentence, in_language, language_of


class Severity(StrEnum):
    """How bad a problem is: an error stops the plan; warnings and notes are only shown."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Code(NamedTuple):
    """A kind of problem; `docs/problems.md` has a paragraph on each."""

    name: str
    severity: Severity
    meaning: str


_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

CODES: Final[dict[str, Code]] = {
    "PS001": Code("not-a-plan", _E, "The input is not a plan at all."),
    "PS002": Code("syntax", _E, "The text is neither valid JSON nor valid YAML."),
    "PS003": Code("unknown-field", _E, "A field that the plan language does not have."),
    "PS004": Code("missing-field", _E, "A required field is missing."),
    "PS005": Code("wrong-value", _E, "A field holds a value of the wrong type or form."),
    "PS006": Code("too-large", _E, "The plan is larger than Plansmith reads."),
    "PS007": Code("too-deep", _E, "Values are nested too deeply."),
    "PS008": Code("bad-text", _E, "A text is not valid Unicode."),
    "PS009": Code(
        "bad-number", _E, "A number that JSON cannot hold: NaN, infinity, endless digits."
    ),
    "PS010": Code("duplicate-key", _E, "The same key appears twice in one object."),
    "PS011": Code("yaml-feature", _E, "A YAML feature that has no meaning in a plan."),
    "PS012": Code("newer-version", _E, "The plan was written for a newer plan language."),
    "PS013": Code("other-words", _N, "Something was read although it is written in another way."),
    "PS014": Code("dropped-step", _E, "A step cannot be read and is left out."),
    "PS015": Code("model-failed", _W, "The model gave no usable answer."),
    "PS016": Code("context-cut", _N, "Part of the context was cut or is not available."),
    "PS017": Code("left-behind", _W, "The other format cannot express something."),
    "PS018": Code("background", _N, "A search was made before planning."),
    "PS101": Code("unknown-tool", _E, "No tool of this name is available."),
    "PS102": Code("unknown-agent", _E, "No agent of this name is available."),
    "PS103": Code("unknown-template", _E, "No template of this name is available."),
    "PS201": Code("argument-type", _E, "An argument has the wrong type."),
    "PS202": Code("missing-argument", _E, "A required argument is missing."),
    "PS203": Code("unknown-argument", _E, "The tool has no argument of this name."),
    "PS204": Code("argument-value", _E, "An argument has the right type and a wrong value."),
    "PS205": Code("coerced", _N, "An argument was converted to the type its tool wants."),
    "PS206": Code("mended-name", _N, "A name was replaced by the only one that it can mean."),
    "PS207": Code("asked", _N, "A missing argument became a question to the person."),
    "PS208": Code("reference-type", _E, "The value of a reference does not fit its place."),
    "PS209": Code("tool-schema", _W, "The schema of a tool is itself not valid."),
    "PS210": Code("would-fail", _W, "A call that only reads would fail: its tool says so."),
    "PS301": Code("cycle", _E, "Steps wait for each other in a cycle."),
    "PS302": Code("dangling-reference", _E, "A step refers to something that does not exist."),
    "PS303": Code(
        "malformed-reference", _E, "Something meant as a reference cannot be read as one."
    ),
    "PS304": Code("duplicate-id", _E, "Two steps have the same id."),
    "PS305": Code("self-reference", _E, "A step waits for itself."),
    "PS306": Code("reserved-id", _E, "A step has an id that the plan language keeps for itself."),
    "PS307": Code("empty-plan", _E, "The plan has no step that would run."),
    "PS308": Code("disabled-source", _E, "A step uses the output of a step that is switched off."),
    "PS309": Code("not-a-list", _E, "A map step goes over something that is not a list."),
    "PS310": Code("inner-order", _E, "The inner step of a map has an order or switch of its own."),
    "PS311": Code("braces-in-text", _W, "Double braces that are no reference stay as they are."),
    "PS312": Code(
        "merge-conflict",
        _N,
        "A new plan changed what a person edited or what is finished; that change is dropped.",
    ),
    "PS313": Code("too-many-steps", _E, "The plan has more steps than are allowed."),
    "PS314": Code("bad-schedule", _E, "The plan's schedule names times that cannot be computed."),
    "PS315": Code("endless-timeout", _E, "A step has a time limit of more than a year."),
    "PS316": Code(
        "earlier-result", _E, "A step uses a result of an earlier run that it may not use."
    ),
    "PS317": Code("from-earlier-run", _N, "A step uses a result of an earlier run."),
    "PS318": Code(
        "bad-condition", _E, "A condition cannot be read, or compares what has no order."
    ),
    "PS319": Code("bad-rule", _E, "A rule of a step cannot be kept by that step."),
    "PS401": Code("dead-step", _W, "No reply and no change uses what a step finds out."),
    "PS402": Code("hidden-serialisation", _N, "A step waits for another one without need."),
    "PS403": Code("unused-output", _N, "Steps wait for a step and do not use its output."),
    "PS404": Code("duplicate-work", _W, "Two steps do the same."),
    "PS405": Code(
        "unbounded-fan-out", _W, "A map step has no limit on how many calls it may make."
    ),
    "PS407": Code("missing-reply", _W, "No reply uses what the plan finds out."),
    "PS408": Code(
        "passed-over-change", _N, "If a change fails, the plan goes on as if nothing was wrong."
    ),
    "PS410": Code("rival-writers", _W, "Two steps write the same file, in no order."),
    "PS501": Code("policy", _E, "The plan breaks a rule of the policy."),
    "PS502": Code("hard-constraint", _E, "The plan breaks a constraint that must be kept."),
    "PS503": Code("soft-constraint", _W, "The plan may break a constraint that should be kept."),
    "PS505": Code("made-up-value", _W, "A step acts with a value that nobody gave."),
}


class Problem(EventPart, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is wrong with a plan, and what to do about it.

    Attributes:
        code: A stable code such as `PS101`; the page Problem codes explains each.
        severity: An `error` stops the plan; a `warning` or a `note` is only shown.
        message: What is wrong.
        hint: What to do about it.
        step: The id of the step, if it is about one.
        path: The place in the step or the plan.

    Examples:
        >>> from plansmith import check_plan, read_plan
        >>> plan = read_plan({"steps": [{"id": "have", "tool": "stok"}]})
        >>> [problem] = check_plan(plan, {"stock": {}})
        >>> problem.code, problem.name, problem.step
        ('PS101', 'unknown-tool', 'have')
    """

    code: str
    severity: Severity
    message: ShownField
    hint: ShownField = ""
    step: str | None = None
    path: Path = ()

    @property
    def name(self) -> str:
        """The readable name of the code, such as `unknown-tool`."""
        return CODES[self.code].name

    def line(self, locale: str = "en") -> str:
        """Returns the problem on one line, in the reader's language.

        Args:
            locale: The language, such as `en` or `zh`.

        Examples:
            >>> problem.line()
            "error PS101 unknown-tool: have.tool: there is no tool called 'stok' (did you mean …)"
        """
        place = ".".join(str(part) for part in ((self.step,) if self.step else ()) + self.path)
        line = Sentence(
            "{severity} {kind}:{where} {message}{hint}",
            severity=Sentence(f"severity.{self.severity}"),
            # The name is English, so a line in Chinese has the code alone.
            kind=f"{self.code} {self.name}" if language_of(locale) == "en" else self.code,
            where=Sentence(" {place}:", place=place) if place else "",
            message=self.message,
            hint=Sentence(" ({hint})", hint=self.hint) if self.hint else "",
        )
        return in_language(line, locale)

    def __str__(self) -> str:
        return self.line()


def unusable(problems: Sequence[Problem], locale: str) -> str:
    """Says in the reader's language that a plan is not usable, and why."""
    lines = [each.line(locale) for each in problems[:3]]
    if more := len(problems) - len(lines):
        lines.append(in_language(Sentence("and {count} more", count=more), locale))
    mark = "; " if language_of(locale) == "en" else "；"
    text = Sentence("the plan is not usable: {problems}", problems=mark.join(lines))
    return in_language(text, locale)


def problem(
    code: str,
    message: str,
    *,
    hint: str = "",
    step: str | None = None,
    path: Path = (),
    severity: Severity | None = None,
) -> Problem:
    """Makes a problem; its severity is that of its code, if none is given."""
    level = severity or CODES[code].severity
    return Problem(code=code, severity=level, message=message, hint=hint, step=step, path=path)


def has_errors(problems: Iterable[Problem]) -> bool:
    """Tells whether any of the problems stops the plan."""
    return any(each.severity is Severity.ERROR for each in problems)
