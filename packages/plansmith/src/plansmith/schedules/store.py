"""Keeps schedules and their fires in a store, as records of the kinds `schedule` and `fire`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from plansmith.errors import Misconfigured
from plansmith.plan.data import canonical_json, parse_json
from plansmith.plan.event_body import moment
from plansmith.plan.schedules import Fire, Schedule
from plansmith.plan.sentence import Sentence
from plansmith.ports import PlanStore, Record, Records

_SCHEDULE: Final = "schedule"
_FIRE: Final = "fire"
_OPEN: Final = "open"
# However rare a schedule is, failures in a row are counted in what is left of its fires.
_SPARED: Final = 100


class ScheduleStore:
    """The schedules of a store; if two write the same version, one wins."""

    def __init__(self, store: PlanStore) -> None:
        if not isinstance(store, Records):
            hint = Sentence("use SQLite or PostgreSQL")
            raise Misconfigured(Sentence("this store cannot keep schedules"), hint=hint)
        self._records: Records = store

    async def put_schedule(self, schedule: Schedule) -> bool:
        """Stores the next version of a schedule; false if another one came first."""
        body = canonical_json(schedule.to_json()).decode()
        label, state = _label(schedule.name), "removed" if schedule.removed else "kept"
        record = Record(_SCHEDULE, schedule.id, schedule.version, body, label, state=state)
        return await self._put(record)

    async def schedules(self) -> Sequence[Schedule]:
        """Returns all schedules, also removed ones, oldest first."""
        return [_schedule(each.checked_body) for each in await self._records.records(_SCHEDULE)]

    async def schedule(self, schedule_id: str) -> Schedule | None:
        """Returns a schedule by its whole id."""
        found = await self._records.record(_SCHEDULE, schedule_id)
        return _schedule(found.checked_body) if found is not None else None

    async def change(self, schedule: Schedule, **changes: Any) -> Schedule:
        """Changes fields of a schedule; repeats if others change it at the same time."""
        while True:
            if changes.get("settled"):
                changes["settled"] = max(changes["settled"], schedule.settled)
            after = schedule.replace(version=schedule.version + 1, **changes)
            if await self.put_schedule(after):
                return after
            found = await self.schedule(schedule.id)
            if found is None:
                return schedule  # nothing is left to change
            schedule = found

    async def has_name(self, name: str) -> bool:
        """Tells whether a schedule that is not removed has a name, in whatever case."""
        label = _label(name)
        return bool(await self._records.records(_SCHEDULE, label=label, state="kept", limit=1))

    async def put_fire(self, fire: Fire) -> bool:
        """Stores a fire or its next version; false if another one came first."""
        due, body = moment(fire.due), canonical_json(fire.to_json()).decode()
        state = _OPEN if fire.state.open else "over"
        record = Record(_FIRE, _name(fire), fire.version, body, fire.schedule, due, state)
        return await self._put(record)

    async def change_fire(self, fire: Fire, **changes: Any) -> Fire:
        """Changes an open fire, and returns it as it then is; one that is over stays as it is."""
        while fire.state.open:
            after = fire.replace(version=fire.version + 1, **changes)
            if await self.put_fire(after):
                return after
            found = await self._records.record(_FIRE, _name(fire))
            if found is None:
                break
            fire = _fire(found.checked_body)
        return fire

    async def fires(self, schedule: str, *, limit: int) -> Sequence[Fire]:
        """Returns the newest fires of a schedule, newest first."""
        found = await self._records.records(_FIRE, label=schedule, newest=True, limit=limit)
        return [_fire(each.checked_body) for each in found]

    async def open_fires(self) -> Sequence[Fire]:
        """Returns the open fires of all schedules, those of one schedule oldest first."""
        found = await self._records.records(_FIRE, state=_OPEN)
        return [_fire(each.checked_body) for each in found]

    async def prune(self, before: datetime) -> int:
        """Removes fires that were due before a moment and are over; spares the newest ones."""
        seen: Counter[str] = Counter()
        old: list[str] = []
        for fire in await self._records.records(_FIRE, newest=True):
            seen[fire.label] += 1
            over = fire.state != _OPEN and fire.place < moment(before)
            old += [fire.name] if over and seen[fire.label] > _SPARED else []
        return await self._records.remove_records(_FIRE, old)

    async def _put(self, record: Record) -> bool:
        if await self._records.put_records([record]):
            return True
        # This very one may be there: its writer may have lost the answer, and tried again.
        found = await self._records.record(record.kind, record.name)
        return found == record


def _name(fire: Fire) -> str:
    return f"{fire.schedule} {moment(fire.due)}"


def _label(name: str) -> str:
    return " ".join(name.split()).lower()


# Whoever keeps schedules reads all of them again and again, and few have changed.
@lru_cache(maxsize=4096)
def _schedule(body: str) -> Schedule:
    return Schedule.model_validate(parse_json(body))


@lru_cache(maxsize=4096)
def _fire(body: str) -> Fire:
    return Fire.model_validate(parse_json(body))
