"""Profiles: for whom a plan is made, and the constraints that it has to keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from plansmith.plan.run_options import Profile
from plansmith_planner.context.fence import indented

_TEXTS: Final = ("name", "role", "backstory", "language", "tone")


def about(profile: Profile) -> str:
    """Returns a profile as text, one fact per line, without its constraints."""
    given = {name: cast("str", getattr(profile, name)) for name in _TEXTS}
    facts = [f"{name}: {indented(value)}" for name, value in given.items() if value.strip()]
    return "\n".join([*facts, *_list("goals:", profile.goals), *_list("tasks:", profile.tasks)])


def constraints(profile: Profile) -> str:
    """Returns the constraints of a profile as text; empty if there are none."""
    hard = _list("hard constraints, the plan keeps every one:", profile.hard_constraints)
    soft = _list("soft constraints, kept where possible:", profile.soft_constraints)
    return "\n".join([*hard, *soft])


def _list(heading: str, texts: tuple[str, ...]) -> Iterator[str]:
    if texts:
        yield heading
        yield from (f"- {indented(text)}" for text in texts)
