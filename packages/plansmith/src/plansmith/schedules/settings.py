"""The settings that a schedule may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from plansmith.plan.data import Json
from plansmith.plan.limits import BudgetLimits
from plansmith.plan.run_options import RunOptions
from plansmith.plan.schedules import Missed, Overlap


class ScheduleSettings(TypedDict, total=False):
    """Optional settings of a schedule.

    Attributes:
        overlap: What happens if the last run still goes on: `skip`, `queue` or `allow`.
        missed: What happens to missed times: `one` run for all, `none`, or `all`.
        window_minutes: How far back `all` goes.
        jitter_seconds: A delay of up to so many seconds, the same in every process.
        max_failures: After how many failures in a row the schedule is paused.
        budget: The limits of each fire.
        options: The options of each run.
    """

    overlap: Overlap | str
    missed: Missed | str
    window_minutes: int
    jitter_seconds: int
    max_failures: int
    budget: BudgetLimits | Mapping[str, Json]
    options: RunOptions | Mapping[str, Json]


class NewSettings(ScheduleSettings, total=False):
    """Settings of a new schedule; those of `ScheduleSettings`, and `id`.

    Attributes:
        id: Your own id; if it is taken, the schedule that has it is returned.
    """

    id: str
