"""Keeps templates in a store: every version is a record of kind `template`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plansmith.errors import Misconfigured
from plansmith.plan.data import Json, canonical_json, parse_json
from plansmith.plan.sentence import Sentence
from plansmith.ports import PlanStore, Record, Records

# A version: name, number, whether it was removed (it is kept for runs that use it), and content.
Kept = tuple[str, int, bool, Json]

_KIND: Final = "template"
_REMOVED: Final = "removed"


class TemplateStore:
    """The templates of a store."""

    def __init__(self, store: PlanStore) -> None:
        if not isinstance(store, Records):
            hint = Sentence("use SQLite or PostgreSQL")
            raise Misconfigured(Sentence("this store cannot keep templates"), hint=hint)
        self._records: Records = store

    async def keep(self, name: str, value: Json) -> int:
        """Stores a new version and returns its number; content equal to the last adds none."""
        body = canonical_json(value).decode()
        while True:
            found = await self._records.records(_KIND, label=name, newest=True, limit=1)
            last = int(found[0].place) if found else 0
            if found and found[0].body == body:
                return last
            new = Record(_KIND, f"{name}@{last + 1}", 1, body, name, f"{last + 1:09}")
            if await self._records.put_records([new]):
                return last + 1

    async def kept(self) -> Sequence[Kept]:
        """Returns all versions of all names, also removed ones, by name and version."""
        found = sorted(await self._records.records(_KIND), key=lambda each: each.label)
        return [
            (each.label, int(each.place), each.state == _REMOVED, parse_json(each.checked_body))
            for each in found
        ]

    async def drop(self, name: str, version: int | None = None) -> int:
        """Removes one version or all; returns how many. Their numbers are not used again."""
        while True:
            found = [
                each._replace(version=each.version + 1, state=_REMOVED)
                for each in await self._records.records(_KIND, label=name, state="")
                if version in (None, int(each.place))
            ]
            if await self._records.put_records(found):
                return len(found)
