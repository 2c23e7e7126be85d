"""Where schedules are kept: the store, if it has a place for them."""

from __future__ import annotations

from typing import cast

from plansmith.errors import Misconfigured
from plansmith.ports import PlanStore, ScheduleStore


def keeps_schedules(store: PlanStore) -> bool:
    """Whether a store has a place for schedules."""
    return hasattr(store, "put_schedule")


def shelf_of(store: PlanStore) -> ScheduleStore:
    """The store as one that keeps schedules."""
    if not keeps_schedules(store):
        raise Misconfigured("this store keeps no schedules", hint="use SQLite or PostgreSQL")
    return cast("ScheduleStore", store)
