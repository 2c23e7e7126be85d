"""Heeding: what a person says to a run through another process is noticed, and the run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from plansmith.errors import PlansmithError
from plansmith.plan import events as e
from plansmith.plan.next_move import goes_on
from plansmith.ports import News
from plansmith.server.office import Office

_BATCH: Final = 500
_AGAIN_S: Final = 1.0
# Who decides may run it at once, as `plansmith approve --run` does: that one comes first.
GRACE_S: Final = 0.5
_WORDS: Final = (e.PlanApproved, e.QuestionAnswered, e.RunResumed)


async def heed(office: Office) -> None:
    """Follow the store, and take runs of this server on after a word from elsewhere."""
    store, after = office.smith.store, -1
    waiting: set[asyncio.Task[None]] = set()
    try:
        while True:
            try:
                after = await store.wait_news(-1) if after < 0 else after
                news = await store.news(after, limit=_BATCH)
                for run, number in await _words(office, news):
                    task = asyncio.create_task(_take_on(office, run, number))
                    waiting.add(task)
                    task.add_done_callback(waiting.discard)
                after = news[-1].position if news else after
                if not news:
                    await store.wait_news(after)
            except PlansmithError as error:
                office.log.warning("not_heeded", error=str(error))
                await office.smith.runs.journals.clock.sleep(_AGAIN_S)
    finally:
        for task in waiting:
            task.cancel()


async def _words(office: Office, news: Sequence[News]) -> list[tuple[str, int]]:
    """The runs to which somebody said something, each with the number of the last such event."""
    firsts: dict[str, int] = {}
    for each in news:
        if office.conducting.knows(each.run):
            firsts.setdefault(each.run, each.number)
    found: dict[str, int] = {}
    for run, first in firsts.items():
        for event in await office.smith.store.events(run, after=first - 1):
            if event.by.speaks and isinstance(event.body, _WORDS):
                found[run] = event.number
    return [*found.items()]


async def _take_on(office: Office, run_id: str, number: int) -> None:
    """Take a run on if whoever spoke did not: nothing has happened to it but words since."""
    await office.smith.runs.journals.clock.sleep(GRACE_S)
    try:
        journal = await office.smith.runs.journals.load(run_id)
    except PlansmithError as error:
        office.log.warning("not_heeded", run=run_id, error=str(error))
        return
    # Who answers a question about the request plans by itself: that takes as long as a model.
    spoken = all(event.by.speaks for event in journal.events[number - 1 :])
    if spoken and journal.run.plan is not None and goes_on(journal.run):
        office.conducting.go_on(run_id)
