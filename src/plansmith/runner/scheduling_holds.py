"""Holds: which process carries out a fire of a schedule, as the row of the fire says."""

from __future__ import annotations

import asyncio
from typing import Any

from plansmith.plan.schedules import Fire
from plansmith.ports import ScheduleStore


class Hold:
    """A fire that this process carries out, as its row stands."""

    def __init__(self, fire: Fire, shelf: ScheduleStore) -> None:
        self.fire = fire
        self._shelf = shelf
        self._writing = asyncio.Lock()

    async def mark(self, **changes: Any) -> bool:
        """Write the row's next version; false when another process has taken it over."""
        async with self._writing:
            after = self.fire.replace(version=self.fire.version + 1, **changes)
            if not await self._shelf.put_fire(after):
                return False
            self.fire = after
            return True
