"""Keeps schedules and their fires in a store, as documents of the kinds `schedule` and `fire`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, TypeVar

from plansmith.plan.data import canonical_json, parse_json
from plansmith.plan.event_body import moment
from plansmith.ports import Document, Store
from plansmith.schedules.schedule import Fire, Schedule

T = TypeVar("T", Schedule, Fire)
_SCHEDULE: Final = "schedule"
_FIRE: Final = "fire"
_OPEN: Final = "open"
# However rare a schedule is, failures in a row are counted in what is left of its fires.
_SPARED: Final = 100


class ScheduleStore:
    """The schedules of a store; if two write the same version, one wins."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def put(self, item: Schedule | Fire) -> bool:
        """Stores the next version of a schedule or a fire; false if another one came first."""
        document = _document(item)
        if await self._store.put_documents([document]):
            return True
        # This very one may be there: its writer may have lost the answer, and tried again.
        return await self._store.document(document.kind, document.name) == document

    async def change(self, item: T, **changes: Any) -> T:
        """Changes a schedule or a fire, also if others change it at the same time.

        Returns it as it then is: a fire that is over stays as it is.
        """
        kind = type(item)
        while not _is_over(item):
            after = item.next(**changes)
            if await self.put(after):
                return after
            found = await self._store.document(*_document(item)[:2])
            if found is None:
                break  # nothing is left to change
            item = _read(kind, found.checked_body)
        return item

    async def schedules(self) -> Sequence[Schedule]:
        """Returns all schedules, also removed ones, oldest first."""
        return [
            _read(Schedule, each.checked_body) for each in await self._store.documents(_SCHEDULE)
        ]

    async def schedule(self, schedule_id: str) -> Schedule | None:
        """Returns a schedule by its whole id."""
        found = await self._store.document(_SCHEDULE, schedule_id)
        return _read(Schedule, found.checked_body) if found is not None else None

    async def has_name(self, name: str) -> bool:
        """Tells whether a schedule that is not removed has a name, in whatever case."""
        label = _label(name)
        return bool(await self._store.documents(_SCHEDULE, label=label, state="kept", limit=1))

    async def fires(self, schedule: str, *, limit: int) -> Sequence[Fire]:
        """Returns the newest fires of a schedule, newest first."""
        found = await self._store.documents(_FIRE, label=schedule, newest=True, limit=limit)
        return [_read(Fire, each.checked_body) for each in found]

    async def open_fires(self) -> Sequence[Fire]:
        """Returns the open fires of all schedules, those of one schedule oldest first."""
        found = await self._store.documents(_FIRE, state=_OPEN)
        return [_read(Fire, each.checked_body) for each in found]

    async def prune(self, before: datetime) -> int:
        """Removes fires that were due before a moment and are over; spares the newest ones."""
        seen: Counter[str] = Counter()
        old: list[str] = []
        for fire in await self._store.documents(_FIRE, newest=True):
            seen[fire.label] += 1
            over = fire.state != _OPEN and fire.place < moment(before)
            old += [fire.name] if over and seen[fire.label] > _SPARED else []
        return await self._store.remove_documents(_FIRE, old)


def _is_over(item: Schedule | Fire) -> bool:
    return isinstance(item, Fire) and not item.state.open


def _document(item: Schedule | Fire) -> Document:
    body = canonical_json(item.to_json()).decode()
    if isinstance(item, Schedule):
        label, state = _label(item.name), "removed" if item.removed else "kept"
        return Document(_SCHEDULE, item.id, item.version, body, label, state=state)
    due, state = moment(item.due), _OPEN if item.state.open else "over"
    name = f"{item.schedule} {due}"
    return Document(_FIRE, name, item.version, body, item.schedule, due, state)


def _label(name: str) -> str:
    return " ".join(name.split()).lower()


# Whoever keeps schedules reads all of them again and again, and few have changed.
@lru_cache(maxsize=8192)
def _read(kind: type[T], body: str) -> T:
    return kind.model_validate(parse_json(body))
