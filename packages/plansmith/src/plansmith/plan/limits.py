"""Limits and budgets of runs."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from plansmith.plan.data import Flag, Json, Number, Record, StrictInt, canonical_hash


class Limits(Record):
    """How many steps run at once, how often calls are tried, how long a run waits, and the like.

    A person is asked before a run exceeds `max_replans`, `max_iterations` or `max_rejections`.

    Attributes:
        width: How many steps run at the same time.
        per_tool: How many calls of a tool run at the same time, by its name.
        tries: How many times to try a call that is safe to repeat.
        first_wait_s: Seconds before the second try; each later wait is longer.
        grace_s: Seconds that running calls get to finish when a run is stopped.
        replan: When a new plan is made: `never`, `on_failure` (or when an agent advises it), or
            `after_each` step.
        max_replans: How many new plans are made after a failure or advice.
        max_iterations: How many plans a run may have in total, if it plans again after all steps
            have run; 1 means plan once.
        max_rejections: How many plans a person may send back.
        tool_texts: Whether a planner that plans again reads errors and results of tools:
            `reviewed`: only where a person sees every plan; `ask`: always, and a person reviews the
            new plan; `trust`: always, and a person reviews only what goes beyond the approval.
        data: What happens when a value from a tool reaches a call that changes something: `show`
            it at review, `ask` before the call, or `deny` the call.
        data_free: Name patterns of tools to which `data` does not apply.
        preview: Whether a plan made for a request is previewed by itself, where that is free: what
            only reads runs before the approval.
        lease_s: Seconds of silence after which other machines consider this process dead.

    Examples:
        >>> from plansmith import Limits, Plansmith
        >>> smith = Plansmith(limits=Limits(width=4, tries=1))
    """

    width: StrictInt = Field(default=16, ge=1)
    per_tool: dict[str, Annotated[StrictInt, Field(ge=1)]] = Field(default_factory=dict)
    tries: StrictInt = Field(default=3, ge=1)
    first_wait_s: Number = Field(default=0.5, ge=0)
    grace_s: Number = Field(default=5.0, ge=0)
    replan: Literal["never", "on_failure", "after_each"] = "on_failure"
    max_replans: StrictInt = Field(default=2, ge=0)
    max_iterations: StrictInt = Field(default=1, ge=1)
    max_rejections: StrictInt = Field(default=3, ge=0)
    tool_texts: Literal["reviewed", "ask", "trust"] = "reviewed"
    data: Literal["show", "ask", "deny"] = "ask"
    data_free: tuple[str, ...] = ()
    preview: Flag = True
    lease_s: Number = Field(default=20.0, ge=1, le=3600)


class Bound(Record):
    """What a person allows of the calls of one tool, whatever values come from other tools.

    Attributes:
        most: How many calls a run may make.
        only: The values that an argument may have, by its name.
    """

    most: StrictInt = Field(ge=1)
    only: dict[str, tuple[Json, ...]] = Field(default_factory=dict)

    def allows(self, inputs: Mapping[str, Json], made: int) -> bool:
        """Tells whether one more call may be made, with these inputs."""
        known = {name: {canonical_hash(each) for each in some} for name, some in self.only.items()}
        fits = (canonical_hash(inputs.get(name)) in some for name, some in known.items())
        return made < self.most and all(fits)


class BudgetLimits(Record):
    """What one run, or all runs together, may use before they stop and ask; None is no limit.

    Attributes:
        money: US dollars.
        tokens: Tokens of models.
        steps: Calls of tools and agents, replies, and each new plan of a run under way.
        seconds: Time from the start of the run.

    Examples:
        >>> from plansmith import BudgetLimits, Plansmith
        >>> smith = Plansmith(budget=BudgetLimits(tokens=50_000, seconds=60))
    """

    money: Decimal | None = Field(default=None, gt=0, max_digits=20)
    tokens: StrictInt | None = Field(default=None, ge=1)
    steps: StrictInt | None = Field(default=None, ge=1)
    seconds: Number | None = Field(default=None, gt=0)
