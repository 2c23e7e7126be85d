"""The rule of the second person: who asked for a plan, or changed it last, cannot approve it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plansmith.plan.sentence import Sentence

if TYPE_CHECKING:
    from plansmith.plan.events import Actor
    from plansmith.plan.run import Run
    from plansmith.plan.run_options import SecondPerson

_ORDER: Final[tuple[SecondPerson, ...]] = ("never", "changes", "always")


def stricter(one: SecondPerson, other: SecondPerson) -> SecondPerson:
    """Returns the stricter of two rules."""
    return _ORDER[max(_ORDER.index(one), _ORDER.index(other))]


def applies(rule: SecondPerson, *, acts: bool) -> bool:
    """Tells whether a plan needs a second person; `acts` tells whether it changes something."""
    return rule == "always" or (rule == "changes" and acts)


def same_user(one: str, other: str) -> bool:
    """Tells whether two names are of one user; an unknown user could be anybody."""
    return not one or not other or one.casefold() == other.casefold()


def why_cannot_approve(run: Run, who: Actor, rule: SecondPerson = "never") -> Sentence | None:
    """Returns why this person cannot approve the plan of a run, or None.

    Counted is the rule with which the run was created, or `rule` if that is stricter.
    """
    if rule == run.options.second_person == "never":
        return None
    wanted = stricter(run.options.second_person, rule)
    if not applies(wanted, acts=bool(run.acts)):
        return None
    if not who.identity:
        return Sentence("A named user has to approve this")
    for author, code in ((run.requested_by, "second.asked"), (run.edited_by, "second.edited")):
        if author is not None and not author.identity and author.speaks:
            return Sentence(
                "Nobody knows whose {name} is, so nobody can approve what it asked for or changed",
                name=author.label or "?",
            )
        if author is not None and same_user(author.identity, who.identity):
            return Sentence(code, user=who.identity)
    return None
