"""Reads the values of the earlier results that a plan uses, to check the plan with them."""

from __future__ import annotations

from plansmith.errors import JournalDamaged
from plansmith.plan.data import Json
from plansmith.plan.earlier import Earlier, UsableResults, uses_of
from plansmith.plan.plan import Plan


async def used_results(plan: Plan, usable: UsableResults) -> Earlier:
    """Returns the results that a plan may use, with the values of those that it uses."""
    values: dict[str, Json] = {}
    for ref in uses_of(plan):
        known = usable.results.get(ref)
        if known is None:
            continue
        try:
            values[ref] = await usable.load(known.hash)
        except JournalDamaged:
            continue  # the check says that it is gone
    return Earlier(usable.results, values)
