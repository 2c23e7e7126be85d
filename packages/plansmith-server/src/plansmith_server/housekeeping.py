"""Keeps a store small and restorable: prunes old runs, and marks what a backup cannot know."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from plansmith.app import Plansmith
from plansmith.errors import JournalDamaged, Misconfigured, RunBusy
from plansmith.plan import events as e
from plansmith.plan.sentence import Sentence
from plansmith.plan.summary import OVER_STATUSES
from plansmith.runs.journals import delete_run
from plansmith.schedules.store import ScheduleStore
from plansmith_planner.threads.store import needed_by_threads

_AGE: Final = re.compile(r"([1-9]\d{0,4})([mhdw])")
_MINUTES: Final = {"m": 1, "h": 60, "d": 1440, "w": 10_080}


class Old(NamedTuple):
    """Runs that are too old to be kept, with their size, and those that are still needed."""

    runs: dict[str, int]
    spared: frozenset[str]

    @property
    def bytes(self) -> int:
        """About how much space the journals of the runs take."""
        return sum(self.runs.values())


def read_age(text: str) -> timedelta:
    """Reads an age such as `30m`, `12h`, `90d` or `4w`."""
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise Misconfigured(
            Sentence("'{text}' is not an age", text=text), hint=Sentence("such as 90d, 12h or 4w")
        )
    return timedelta(minutes=int(found[1]) * _MINUTES[found[2]])


def read_statuses(text: str) -> frozenset[str]:
    """Reads statuses of runs that are over, with commas between."""
    wanted = frozenset(each.strip() for each in text.split(",") if each.strip())
    strange = sorted(wanted - set(OVER_STATUSES))
    if strange or not wanted:
        raise Misconfigured(
            Sentence("'{text}' is not a status of ended runs", text=text),
            hint=Sentence("some of {names}", names=[*OVER_STATUSES]),
        )
    return wanted


async def find_old(smith: Plansmith, before: datetime, statuses: Collection[str] = ()) -> Old:
    """Returns the runs that ended before a moment, unless their conversation goes on."""
    found = await smith.store.over_before(before)
    kept = await needed_by_threads(smith.store, found.keys(), before)
    if statuses:
        wanted, last = set[str](), ""
        while page := await smith.runs.lists.newest(statuses=statuses, before=last, limit=200):
            wanted |= {each.run for each in page}
            last = page[-1].run
        kept |= found.keys() - wanted
    old = {run: size for run, size in found.items() if run not in kept}
    return Old(old, frozenset(found.keys() & kept))


async def prune(
    smith: Plansmith, before: datetime, statuses: Collection[str] = (), *, by: e.Who
) -> Old:
    """Removes the runs that `find_old` finds, old fires, and values that nothing mentions."""
    runs, spared = await find_old(smith, before, statuses)
    busy: set[str] = set()
    for run in runs:
        try:
            await delete_run(smith.runs.journals, run, by=by)
        except (RunBusy, JournalDamaged):
            busy.add(run)
    old = Old({run: runs[run] for run in runs.keys() - busy}, spared | busy)
    await smith.store.prune(before)
    await ScheduleStore(smith.store).prune(before)
    return old


async def hold_restored(
    smith: Plansmith, *, by: str, tell: Callable[[str], None]
) -> tuple[int, int]:
    """Pauses every open run and every schedule of a restored store; returns how many.

    What was done after the backup is not in it: going on by itself could do it a second time.
    """
    reason = Sentence(
        "restored from a backup: what was done after the backup is "
        "not known here; look before you resume"
    )
    runs = await smith.store.open_runs()
    for run in runs:
        tell(Sentence("pausing run {run}", run=run))
        await smith.pause(run, by=by, reason=reason)
    schedules = [each for each in await smith.schedules.all() if not each.paused]
    for schedule in schedules:
        await smith.schedules.pause(schedule.id, reason=reason, by=by)
    return len(runs), len(schedules)
