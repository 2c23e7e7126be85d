"""Dialect: what every foreign plan shape offers, so that one parser and one checker serve all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem
from plansmith.plan.run import Run


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
