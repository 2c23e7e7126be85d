"""Reads the plans that clients send, and writes plans for them: our own, or in a dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from plansmith.errors import PlanInvalid
from plansmith.formats.dialect import dialect
from plansmith.formats.native import try_read_plan
from plansmith.plan.capability import AgentSpec
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, has_errors
from plansmith.plan.run import Run
from plansmith_planner.parse.normalize import assigned
from plansmith_server.errors import problem_view


class Received(NamedTuple):
    """A plan that a client sent, and what was read although it is written differently."""

    plan: Plan
    notes: tuple[Problem, ...] = ()


def plan_of(value: object) -> Plan:
    """Reads a plan in the plan language; `PlanInvalid` lists what is wrong."""
    found = try_read_plan(value)
    if not isinstance(found, Plan):
        raise PlanInvalid(found)
    return found


def received(
    value: Any, name: str | None = "", *, goal: str = "", agents: Sequence[AgentSpec] = ()
) -> Received:
    """Reads a plan in a dialect, or in the plan language; `PlanInvalid` lists what is wrong.

    A step that names no agent goes to the first one; `goal` is used if the format has none.
    """
    if not name:
        return Received(plan_of(value))
    form = dialect(name)
    reading = form.read(value)
    if reading.plan is None or has_errors(list(reading.problems)):
        raise PlanInvalid(reading.problems)
    named = assigned(reading.plan, agents, form.step_text)
    plan = named.plan.replace(goal=named.plan.goal or goal)
    return Received(plan, (*reading.problems, *named.problems))


def exported(plan: Plan, name: str, run: Run | None = None) -> dict[str, Any]:
    """Returns a plan in a dialect, and what that cannot hold; with a run, also its results."""
    writing = dialect(name).write(plan, run)
    lost = [problem_view(each) for each in writing.lost]
    return {"dialect": name, "hash": plan.hash, "plan": writing.value, "lost": lost}
