"""What goes on beside requests: open runs, decisions of others, schedules, old runs, notices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from plansmith.engine.lease import LEASE_S
from plansmith.errors import JournalDamaged, PlansmithError
from plansmith.plan import events as e
from plansmith.plan.next_move import goes_on
from plansmith.ports import News
from plansmith_server.housekeeping import prune, read_age
from plansmith_server.ops.tasks import background_tasks, end, in_role
from plansmith_server.state import ServerState
from plansmith_server.team.notices import Key, notice_of, waiting_items

# `plansmith approve --go` decides and then runs the plan itself: give it time to claim the run.
GRACE_S: Final = 0.5
_NOTICED_S: Final = 0.5
_DECISIONS: Final = (
    *(e.PlanApproved, e.QuestionAnswered, e.RunResumed),
    # The process that wrote one of these may have ended right after it.
    *(e.ChangesAsked, e.CancelAsked, e.StepSkipped, e.StepReset),
)


def upkeep(state: ServerState) -> list[Coroutine[Any, Any, None]]:
    """Returns what a server or a worker does unasked."""
    return [
        _fire_schedules(state),
        prune_daily(state),
        _carry_runs(state),
        state.background.keep_looking(released=True),
    ]


async def _carry_runs(state: ServerState) -> None:
    """Continues runs that nobody has; one process of a folder does so at a time.

    Without workers, each server also follows what others decide about its own runs.
    """
    journals, carrier = state.smith.runs.journals, state.carrier
    role = f"runs {journals.folder}"
    if carrier is None:
        # Taken before the runs are read: of what is decided from here on, nothing is missed.
        after = await _newest_position(state)
        found = await journals.store_retry.until_done(journals.ownership.processes)
        others = {each.heartbeat.process: each.heartbeat.about.kind for each in found if each.lives}
        others.pop(journals.ownership.me(), None)
        if "server" in others.values():
            state.ready = True
            state.log.info("waiting", why="another server runs the open runs of this store")
        resume = in_role(journals.ownership, role, partial(_resume_open_runs, state))
        await asyncio.gather(resume, follow_decisions(state, after))
        return
    if not state.ready:
        await carrier.open()
        state.ready = True
        state.log.info("ready", sends_to=carrier.queue.name)

    async def watch() -> None:
        after = await _newest_position(state)  # before the runs are read, as above
        await asyncio.gather(follow_decisions(state, after), _resume_open_runs(state))

    await in_role(journals.ownership, role, watch)


async def _newest_position(state: ServerState) -> int:
    store, retry = state.smith.store, state.smith.runs.journals.store_retry
    return await retry.until_done(lambda: store.wait_news(-1))


async def follow_decisions(state: ServerState, after: int) -> None:
    """Continues runs of this server when another process decides about them after a position.

    With workers, all runs of the folder: any process may have created them.
    """
    store, knows, looks = state.smith.store, state.background.knows, set[asyncio.Task[None]]()
    try:
        while True:
            try:
                news = await store.news(after, limit=500)
                begun = [each.run for each in news if each.number == 1 and not knows(each.run)]
                works = [_look(state, run) for run in await _decided(state, news)]
                works += [_look(state, run, is_new=True) for run in begun]
                looks = {each for each in looks if not each.done()}
                looks.update(map(asyncio.create_task, works))
                after = news[-1].position if news else after
                if not news:
                    await store.wait_news(after)
            except PlansmithError as error:
                state.log.warning("decision_not_followed", error=str(error))
                await state.clock.sleep(1.0)
    finally:
        await end(looks)


async def _decided(state: ServerState, news: Sequence[News]) -> list[str]:
    """Returns the runs that were decided on, began elsewhere or wait for a time."""
    firsts, found = dict[str, int](), list[str]()
    for each in news:
        if state.carrier is not None or state.background.knows(each.run):
            firsts.setdefault(each.run, each.number)
    for run, first in firsts.items():
        with suppress(JournalDamaged):  # whoever reads the run is told
            events = await state.smith.store.events(run, after=first - 1)
            # Who began a run may end while it waits for a time that was set before.
            waits = (e.StepWaits, e.RunStarted)
            if any(_is_decision(each) or isinstance(each.body, waits) for each in events):
                found.append(run)
    return found


def _is_decision(event: e.Event) -> bool:
    """Tells whether a person or a program decided, or the time for an answer is over."""
    is_over = isinstance(event.body, e.QuestionAnswered) and event.body.no_answer
    return bool(is_over) or (event.by.speaks and isinstance(event.body, _DECISIONS))


async def _look(state: ServerState, run_id: str, *, is_new: bool = False) -> None:
    """Continues a run a while after a decision, unless another process does.

    A new one of another process becomes this server's too if it waits for a person, if somebody
    has just decided on it, or if that process ended when it had created it.
    """
    journals = state.smith.runs.journals

    async def adopt() -> None:
        if is_new:
            journal = await journals.load_verified(run_id)
            run, last = await journals.ownership.mark_interrupted(journal.run), journal.events[-1]
            if run.status.over or (goes_on(run) and not run.interrupted and not _is_decision(last)):
                return
        await state.background.adopt(run_id)

    await state.clock.sleep(LEASE_S if is_new else GRACE_S)
    try:
        await journals.store_retry.until_done(adopt)
    except PlansmithError as error:
        state.log.warning("decision_not_followed", run=run_id, error=str(error))


async def _resume_open_runs(state: ServerState) -> None:
    """Continues the runs that are open, and later those that others leave."""
    retry, background = state.smith.runs.journals.store_retry, state.background
    try:
        count = await retry.until_done(background.resume_open)
        state.ready = True
        state.log.info("runs_sent" if state.carrier else "ready", runs=count)
    except PlansmithError as error:
        state.log.failure("runs_not_resumed", error=str(error))

    async def store_summaries() -> None:
        """Makes the summaries that a process that died did not make."""
        try:
            await retry.until_done(state.smith.runs.lists.store_summaries)
        except Exception as error:  # noqa: BLE001 - orphans are adopted all the same
            why = str(error) if isinstance(error, PlansmithError) else repr(error)
            state.log.warning("runs_not_summed_up", error=why)

    await asyncio.gather(store_summaries(), background.keep_looking())


async def _fire_schedules(state: ServerState) -> None:
    journals = state.smith.runs.journals
    try:
        await journals.store_retry.until_done(lambda: journals.ownership.announce(state.about))
        schedules = state.smith.schedules
        if state.carrier is not None:  # also for what a person fires at this server
            schedules.execute = state.background.until_rest
        await in_role(journals.ownership, f"schedules {journals.folder}", schedules.run_forever)
    except PlansmithError as error:
        state.log.info("no_schedules", why=str(error))


async def prune_daily(state: ServerState) -> None:
    """Removes runs that ended too long ago, at the start and once a day; one server does it."""
    if not state.settings.keep_runs:
        return
    age = read_age(state.settings.keep_runs)

    async def prune_each_day() -> None:
        while True:
            try:
                until = state.clock.now() - age
                old = await prune(state.smith, until, by=e.Actor(kind="system", name="keep_runs"))
                state.log.info("pruned", runs=len(old.runs), bytes=old.bytes)
            except PlansmithError as error:
                state.log.warning("not_pruned", error=str(error))
            await state.clock.sleep(86_400.0)

    await in_role(state.smith.runs.journals.ownership, "housekeeping", prune_each_day)


@asynccontextmanager
async def sending_notices(state: ServerState, base: str) -> AsyncGenerator[None]:
    """Tells people what waits for them while the server serves; nothing without settings."""
    if not state.notices.channels:
        yield
        return

    async def tell() -> None:
        # One server of a folder does so: nobody is told twice.
        journals = state.smith.runs.journals
        while True:
            try:
                role = f"notices {journals.folder}"
                await in_role(journals.ownership, role, lambda: _tell_what_waits(state, base))
            except PlansmithError as error:
                state.log.warning("notices_stopped", error=str(error))
                await state.clock.sleep(1.0)

    async with state.notices.sending(), background_tasks(tell()):
        yield


async def _tell_what_waits(state: ServerState, base: str) -> None:
    """Tells each channel once of what waits; what was due before, another server has told."""
    store, clock, journals = state.smith.store, state.clock, state.smith.runs.journals
    # Of each channel: when it is to be told of what waits; None once it was.
    due: dict[str, dict[Key, datetime | None]] = {}
    while True:
        after, now = await store.wait_news(-1), clock.now()
        runs = [each.run for each in await state.open_runs.all()]
        here = [each for each in runs if journals.is_here(each.folder)]
        waiting = {one.key: one for run in here for one in waiting_items(run)}
        for name, channel in state.notices.channels.items():
            known, wait = due.get(name), timedelta(seconds=channel.settings.after_s)
            mine = due[name] = dict[Key, datetime | None]()
            for key, one in waiting.items():
                if one.kind in channel.settings.about:
                    start = now if known is not None else one.since or now
                    is_late = known is None and start + wait <= now
                    mine[key] = None if is_late else (known or {}).get(key, start + wait)
            ready = [key for key, at in mine.items() if at is not None and at <= now]
            if ready:
                mine |= dict.fromkeys(ready)
                items = [waiting[key] for key in ready]
                state.notices.tell(channel, notice_of(channel.settings, items, base))
        dues = [at for mine in due.values() for at in mine.values() if at is not None]
        left = max(0.0, (min(dues) - clock.now()).total_seconds()) if dues else None
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await store.wait_news(after)
        await clock.sleep(_NOTICED_S)  # however much happens meanwhile
