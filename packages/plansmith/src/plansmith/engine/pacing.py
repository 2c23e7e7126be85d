"""What an executor waits with: steps until a plan is thought over, replies until the last plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from plansmith.engine.units import Unit
from plansmith.plan.refs import escape_text, with_words
from plansmith.plan.run import NOT_STARTED, Run, StepStatus
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import ReplyStep

_OPEN: Final = (*NOT_STARTED, StepStatus.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """Holds steps back: all new ones once a step has ended (`after_step`), or some replies.

    `due`: a step has ended already. With `replies` nothing but these is run, whether or not the
    steps they need have finished.
    """

    after_step: bool = False
    due: bool = False
    held: frozenset[str] = frozenset()
    replies: Mapping[str, Unit] = field(default_factory=dict[str, Unit])

    def holds(self, name: str, *, has_ended: bool) -> bool:
        """Tells whether a step must not start now; `has_ended`: another one has."""
        if self.replies:
            return name not in self.replies
        return (self.after_step and has_ended) or name in self.held


def last_replies(run: Run) -> dict[str, ReplyStep]:
    """Returns the replies of a plan that no other step uses and that are not written yet."""
    if run.plan is None:
        return {}
    found = {
        step.id: step
        for step in run.plan.steps
        if step.kind == "reply" and not step.disabled and run.steps[step.id].status in _OPEN
    }
    return {name: step for name, step in found.items() if not run.plan.needed_by[name]}


def open_replies(run: Run) -> tuple[dict[str, Unit], dict[str, Unit]]:
    """Returns the last replies that can be written as they are, and those only from a part.

    Without any finished step there is nothing to write from.
    """
    left = last_replies(run)
    if not left:
        return {}, {}
    done = {name for name, state in run.steps.items() if state.status is StepStatus.DONE}
    off = {step.id for step in run.plan.steps if step.disabled} if run.plan else set[str]()
    ready: dict[str, Unit] = {}
    partial: dict[str, Unit] = {}
    for name, step in left.items():
        missing = sorted(step.needed - done - off)
        if not missing:
            ready[name] = Unit(name, step)
        elif done:
            partial[name] = Unit(name, _from_part(step, missing, run.locale))
    return ready, partial


def _from_part(step: ReplyStep, missing: list[str], locale: str) -> ReplyStep:
    """Returns a reply that says which steps did not finish, in place of what they would give."""
    nothing = [Sentence("(nothing: the step '{step}' did not finish)", step=n) for n in missing]
    said = {name: in_language(each, locale) for name, each in zip(missing, nothing, strict=True)}
    rest = Sentence(
        "These steps did not finish: {steps}. Answer from what there is, and say what is missing.",
        steps=missing,
    )
    text, end = with_words(step.instruction, said), escape_text(in_language(rest, locale))
    return step.replace(instruction=f"{text}\n\n{end}", after=())
