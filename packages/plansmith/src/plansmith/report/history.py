"""Lists the deviations and decisions of a run; checks which step proves each claim."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from plansmith.plan import events as e
from plansmith.plan.diff import diff_plans
from plansmith.plan.earlier import source_name
from plansmith.plan.ids import root_of
from plansmith.plan.plan import Plan
from plansmith.plan.question_options import ALLOW, CHANGE
from plansmith.plan.refs import CITATION, is_earlier, value_text
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import in_language
from plansmith.report.data import Line, Passage, Words
from plansmith.text import clip

_MAX_NAMED: Final = 8
_CONSENT: Final = {ALLOW: "allowed", CHANGE: "allowed_changed"}
_MAX_LENGTH: Final = 400


def deviations(events: Sequence[e.Event], words: Words) -> Iterator[Line]:
    """Yields everything that went differently from the first plan."""
    plan: Plan | None = None
    failed: dict[str, list[str]] = {}
    for event in events:
        body = event.body
        if isinstance(body, e.PlanProposed):
            if plan is not None:
                yield _entry(event, _revision(event, body.plan, plan, words))
            plan = body.plan
        elif isinstance(body, e.StepFailed) and body.again:
            failed.setdefault(body.step, []).append(body.error)
        elif entry := _deviation(event, words):
            yield entry
    for step, reasons in failed.items():
        reason = _short(in_language(reasons[-1], words["locale"]))
        yield Line(words["retried"].format(count=len(reasons) + 1, reason=reason), step)
    off = [step.id for step in plan.steps if step.disabled] if plan else []
    yield from (Line(words["switched_off"], step) for step in off)


def _deviation(event: e.Event, words: Words) -> Line | None:
    step, key = "", event.body.type
    match event.body:
        case e.StepReused(step=step, run=run, done_at=done):
            return Line(words[key].format(reason=run), step, "", done or event.at)
        case e.ReplanStarted(cause=detail) | e.ChangesAsked(text=detail):
            pass
        case e.RunPaused(reason=detail) | e.CancelAsked(reason=detail):
            pass
        case e.RunRepaired(aside=aside):
            return _entry(event, words[key].format(who=_who(event, words), count=aside))
        case e.StepReset(step=step, reason=detail) | e.StepUnknown(step=step, reason=detail):
            pass
        case e.StepAdvised(step=step, reason=detail, advice=advice):
            key = f"{key}_{advice}"
        case _:
            return None
    reason = _short(in_language(detail, words["locale"])) or words["no_reason"]
    return _entry(event, words[key].format(who=_who(event, words), reason=reason), step)


def _revision(event: e.Event, after: Plan, before: Plan, words: Words) -> str:
    diff = diff_plans(before, after)
    groups = {
        "added": [each.step.id for each in diff.added],
        "removed": [each.step.id for each in diff.removed],
        "changed": [each.id for each in diff.changed],
        "moved": [each.id for each in diff.moved],
    }
    parts: list[str] = []
    for key, names in groups.items():
        more = f" (+{len(names) - _MAX_NAMED})" if len(names) > _MAX_NAMED else ""
        if names:
            parts.append(words[key].format(steps=", ".join(names[:_MAX_NAMED]) + more))
    changes = "; ".join(parts) or words["reworded"]
    key = "edited" if event.by.kind == "person" else "revised"
    return words[key].format(who=_who(event, words), changes=changes)


def decisions(events: Sequence[e.Event], words: Words) -> Iterator[Line]:
    """Yields who approved, rejected or answered what, and when."""
    asked: dict[str, e.QuestionAsked] = {}
    for event in events:
        who = _who(event, words)
        match event.body:
            case e.QuestionAsked() as body:
                asked[body.question] = body
            case e.PlanApproved() as body:
                yield _entry(event, _approved(body, who, words))
            case e.PlanRejected() as body:
                reason = _short(body.reason) or words["no_reason"]
                yield _entry(event, words["rejected"].format(who=who, reason=reason))
            case e.QuestionAnswered() as body:
                yield _entry(event, _answered(body, asked.get(body.question), who, words))
            case _:
                pass


def _approved(body: e.PlanApproved, who: str, words: Words) -> str:
    """Says what was approved: a plan, perhaps with the calls of its preview."""
    fields = {"who": who, "hash": body.hash[:12]}
    parts = [words["approved_preview" if body.preview else "approved"].format(**fields)]
    for key, names in (("left_out", body.left_out), ("changed_values", [*body.changed])):
        more = ", …" if len(names) > _MAX_NAMED else ""
        if names:
            parts.append(words[key].format(steps=", ".join(names[:_MAX_NAMED]) + more))
    return "; ".join(parts)


def _answered(
    body: e.QuestionAnswered, asked: e.QuestionAsked | None, who: str, words: Words
) -> str:
    """Describes an answer and who asked: a plan's question must not look like Plansmith's."""
    locale, answer = words["locale"], value_text(body.answer)
    key, question, callee, sources = "answered", body.question, "", ""
    if asked is not None:
        question, callee = in_language(asked.text, locale), asked.callee or asked.step or ""
        sources = ", ".join(in_language(source_name(each), locale) for each in asked.sources)
        key = {"step": "answered_step", "call": "answered_call"}.get(asked.kind, key)
        if asked.kind == "consent" and asked.callee:
            key = _CONSENT.get(answer, "refused")
    return words["no_answer" if body.no_answer else key].format(
        who=who, question=_short(question), answer=_short(answer), callee=callee, sources=sources
    )


def _entry(event: e.Event, text: str, step: str = "") -> Line:
    # A program's name alone could look like a person's.
    who = f"program {event.by.name}" if event.by.kind == "program" else event.by.name
    return Line(text, step, who, event.at)


def _who(event: e.Event, words: Words) -> str:
    name, kind = event.by.name, event.by.kind
    if kind == "program" and name:
        return words["named_program"].format(name=name)
    return name or words["someone" if kind == "person" else kind]


def _short(text: str) -> str:
    return clip(" ".join(text.split()), _MAX_LENGTH)


Flaw = Literal["unknown", "undone", "unseen"]


@dataclass(frozen=True, slots=True)
class Checked:
    """An answer with only valid citations, its claims, and the invalid citations."""

    text: str
    claims: tuple[Passage, ...]
    wrong: tuple[tuple[str, Flaw], ...] = ()

    @property
    def uncited(self) -> int:
        """Counts the passages that cite no step, if any passage cites one."""
        cited = sum(bool(claim.steps) for claim in self.claims)
        return len(self.claims) - cited if cited or self.wrong else 0


_GONE: Final = "\0"  # in place of a citation that is removed
_LEFT: Final = re.compile(rf"(?<! ) *+{_GONE}(?=[.,;:!?。，；：！？])")


def check_claims(text: str, run: Run, seen: Collection[str]) -> Checked:
    """Removes citations of steps that do not exist, did not finish or were not used."""
    wrong: dict[str, Flaw] = {}

    def valid_only(found: re.Match[str]) -> str:
        good: list[str] = []
        for name in _names(found[1]):
            flaw = _flaw(name, run, seen)
            if flaw is None:
                good.append(name)
            else:
                wrong.setdefault(name, flaw)
        return "".join(f"[step:{name}]" for name in good) or _GONE

    # No space is left before the end of a sentence.
    checked = _LEFT.sub("", CITATION.sub(valid_only, text.replace(_GONE, ""))).replace(_GONE, "")
    claims: list[Passage] = []
    for passage in _passages(checked):
        bare = CITATION.sub("", passage).strip()
        # Not a title, not a ruler, not empty.
        if any(letter.isalnum() for letter in bare) and not bare.startswith("#"):
            cited = [name for found in CITATION.findall(passage) for name in _names(found)]
            claims.append(Passage(" ".join(bare.split()), tuple(dict.fromkeys(cited))))
    return Checked(checked, tuple(claims), tuple(wrong.items()))


def _passages(text: str) -> list[str]:
    """Returns the lines of a text; a table, and a bullet with what is below it, is one passage."""
    passages: list[str] = []
    before = ""
    for line in text.splitlines():
        in_table = line.startswith("|") and before.startswith("|")
        below = line.startswith(" ") and before.lstrip().startswith("- ")
        if passages and (in_table or below):
            passages[-1] += f"\n{line}"
        else:
            passages.append(line)
        before = line
    return passages


def _names(cited: str) -> list[str]:
    parts = (part.strip().removeprefix("step:").strip() for part in cited.split(","))
    return [part for part in parts if part]


def _flaw(name: str, run: Run, seen: Collection[str]) -> Flaw | None:
    if is_earlier(name) and name in seen:
        return None
    if name not in run.steps:
        return "unknown"
    if run.steps[name].status is not StepStatus.DONE:
        return "undone"
    return None if root_of(name) in seen else "unseen"
