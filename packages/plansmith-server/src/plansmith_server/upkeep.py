"""What goes on beside the requests: open runs, decisions of others, schedules, old runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

from plansmith.engine.lease import LEASE_S
from plansmith.engine.processes import read_kind, this_process
from plansmith.errors import PlansmithError
from plansmith.housekeeping import prune, read_age
from plansmith.plan import events as e
from plansmith.plan.next_move import goes_on
from plansmith.ports import News
from plansmith_planner.threads.store import needed_by_threads
from plansmith_server.state import ServerState

_DAY_S: Final = 86_400.0
_BATCH: Final = 500
_AGAIN_S: Final = 1.0
# `plansmith approve --go` decides and then runs the plan itself: give it time to start.
GRACE_S: Final = 0.5
_DECISIONS: Final = (
    *(e.PlanApproved, e.QuestionAnswered, e.RunResumed),
    # The process that wrote one of these may have ended right after it.
    *(e.ChangesAsked, e.CancelAsked, e.StepSkipped, e.StepReset),
)
# Whoever writes one of these does nothing more about the run.
_INSTRUCTIONS: Final = (e.RunResumed, e.CancelAsked)


def begin_upkeep(server_state: ServerState) -> list[asyncio.Task[Any]]:
    """Starts everything that a server or a worker does by itself."""
    return [asyncio.create_task(each) for each in upkeep(server_state)]


def upkeep(server_state: ServerState) -> list[Coroutine[Any, Any, None]]:
    """Returns what a server or a worker does unasked."""
    return [
        _fire_schedules(server_state),
        prune_daily(server_state),
        _carry_runs(server_state),
        server_state.background.continue_released(),
    ]


async def in_role(
    server_state: ServerState, name: str, work: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Does work for ever, while this process has a role that one of all has at a time."""
    while True:
        async with server_state.smith.runs.journals.owners.role(name) as lost:
            doing = asyncio.create_task(work())
            tasks: list[asyncio.Task[Any]] = [doing, asyncio.create_task(lost.wait())]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if doing.done():
                    doing.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def _carry_runs(server_state: ServerState) -> None:
    """Continues runs that nobody has; one process of a folder does so at a time.

    Without workers, each server also follows what others decide about its own runs.
    """
    role, carrier = f"runs {server_state.smith.runs.journals.folder}", server_state.carrier
    if carrier is None:
        # Taken before the runs are read: of what is decided from here on, nothing is missed.
        after = await _newest_position(server_state)
        await _be_ready_beside_others(server_state)
        resume = in_role(server_state, role, partial(_resume_open_runs, server_state))
        await asyncio.gather(resume, follow_decisions(server_state, after))
        return
    if not server_state.ready:
        await carrier.open()
        server_state.ready = True
        server_state.log.info("ready", sends_to=carrier.queue.name)
    await in_role(server_state, role, partial(_watch, server_state))


async def _be_ready_beside_others(server_state: ServerState) -> None:
    """A server is ready at once where another one lives, which continues the open runs."""
    journals = server_state.smith.runs.journals
    found = await journals.patience.until_done(journals.owners.processes)
    kinds = [each.beat.kind for each in found if each.lives and each.beat.process != this_process()]
    if any(read_kind(each).kind == "server" for each in kinds):
        server_state.ready = True
        server_state.log.info("waiting", why="another server runs the open runs of this store")


async def _watch(server_state: ServerState) -> None:
    """Sends what is open now and what is decided later, and hands on what dead workers had."""
    after = await _newest_position(server_state)  # before the runs are read, as above
    await asyncio.gather(follow_decisions(server_state, after), _resume_open_runs(server_state))


async def _newest_position(server_state: ServerState) -> int:
    """Returns the position of the newest event, as soon as the store tells it."""
    while True:
        try:
            return await server_state.smith.store.wait_news(-1)
        except PlansmithError as error:
            server_state.log.warning("decision_not_followed", error=str(error))
            await server_state.smith.runs.journals.clock.sleep(_AGAIN_S)


async def follow_decisions(server_state: ServerState, after: int) -> None:
    """Continues runs of this server when another process decides about them after a position.

    With workers, all runs of the folder: any process may have created them.
    """
    store = server_state.smith.store
    waiting: set[asyncio.Task[None]] = set()
    try:
        while True:
            try:
                news = await store.news(after, limit=_BATCH)
                begun = _begun_elsewhere(server_state, news)
                decided = await _decided(server_state, news)
                works = [_continue_run(server_state, *each) for each in decided]
                works += [_take_in(server_state, each) for each in begun]
                for work in works:
                    waiting.add(task := asyncio.create_task(work))
                    task.add_done_callback(waiting.discard)
                after = news[-1].position if news else after
                if not news:
                    await store.wait_news(after)
            except PlansmithError as error:
                server_state.log.warning("decision_not_followed", error=str(error))
                await server_state.smith.runs.journals.clock.sleep(_AGAIN_S)
    finally:
        for task in waiting:
            task.cancel()


async def _decided(server_state: ServerState, news: Sequence[News]) -> list[tuple[str, int]]:
    """Returns the runs that were decided on, or wait for a time, with the last such event."""
    firsts: dict[str, int] = {}
    for each in news:
        if server_state.carrier is not None or server_state.background.knows(each.run):
            firsts.setdefault(each.run, each.number)
    found: dict[str, int] = {}
    for run, first in firsts.items():
        for event in await server_state.smith.store.events(run, after=first - 1):
            if _is_decision(event) or isinstance(event.body, e.StepWaits):
                found[run] = event.number
    return [*found.items()]


def _is_decision(event: e.Event) -> bool:
    """Tells whether a person or a program decided, or the time for an answer is over."""
    if isinstance(event.body, e.QuestionAnswered) and event.body.no_answer:
        return True
    return event.by.speaks and isinstance(event.body, _DECISIONS)


def _begun_elsewhere(server_state: ServerState, news: Sequence[News]) -> list[str]:
    """Returns the new runs of other processes."""
    knows = server_state.background.knows
    return [each.run for each in news if each.number == 1 and not knows(each.run)]


async def _take_in(server_state: ServerState, run_id: str) -> None:
    """Makes a run of another process this server's too, if it waits for a person after a while.

    Whoever decides on it, now or meanwhile, need not go on with it. A run whose process ended right
    after it had created it is planned here.
    """
    journals = server_state.smith.runs.journals
    await journals.clock.sleep(LEASE_S)
    try:
        journal = await journals.patience.until_done(lambda: journals.load(run_id))
        waits = not journal.run.status.over and not goes_on(journal.run)
        unplanned = len(journal.events) == 1
        if waits or (unplanned and (await journals.owners.marked(journal.run)).interrupted):
            await server_state.background.adopt(run_id)
        elif _is_decision(journal.events[-1]):
            await _continue_run(server_state, run_id, journal.events[-1].number)
    except PlansmithError as error:
        server_state.log.warning("run_not_taken_in", run=run_id, error=str(error))


async def _continue_run(server_state: ServerState, run_id: str, number: int) -> None:
    """Continues a run unless the process that decided on it has done so already."""
    journals = server_state.smith.runs.journals
    await journals.clock.sleep(GRACE_S)
    try:
        journal = await journals.patience.until_done(lambda: journals.load(run_id))
    except PlansmithError as error:
        server_state.log.warning("decision_not_followed", run=run_id, error=str(error))
        return
    server_state.background.await_time(journal.run)
    since = journal.events[number - 1 :]
    if not all(event.by.speaks for event in since) or not journals.is_here(journal.run.folder):
        return
    # A process that answers a question about the request makes the plan itself, which takes long.
    plans = journal.run.plan is None and not isinstance(since[0].body, _INSTRUCTIONS)
    if not plans and goes_on(journal.run):
        server_state.background.go_on(run_id)


async def _resume_open_runs(server_state: ServerState) -> None:
    """Continues the runs that are open, and later those that others leave."""
    patience, background = server_state.smith.runs.journals.patience, server_state.background
    try:
        count = await patience.until_done(background.resume_open)
    except PlansmithError as error:
        server_state.log.failure("runs_not_resumed", error=str(error))
    else:
        server_state.ready = True
        server_state.log.info("runs_sent" if server_state.carrier else "ready", runs=count)
    await asyncio.gather(_sum_up(server_state), background.adopt_orphans())


async def _sum_up(server_state: ServerState) -> None:
    """Makes the summaries that a process that died did not make."""
    try:
        smith = server_state.smith
        await smith.runs.journals.patience.until_done(smith.runs.lists.sum_up)
    except PlansmithError as error:
        server_state.log.warning("runs_not_summed_up", error=str(error))


async def _fire_schedules(server_state: ServerState) -> None:
    """Fires schedules, if the store can keep them, as long as no other server here does so."""
    journals = server_state.smith.runs.journals
    try:
        await journals.patience.until_done(lambda: journals.owners.serve(str(server_state.kind)))
        if server_state.carrier is not None:
            server_state.smith.schedules.firing.execute_run = server_state.background.until_rest
        keep = server_state.smith.schedules.keep
        await in_role(server_state, f"schedules {journals.folder}", keep)
    except PlansmithError as error:
        server_state.log.info("no_schedules", why=str(error))


async def prune_daily(server_state: ServerState) -> None:
    """Removes runs that ended too long ago, at the start and once a day; one server does it."""
    if not server_state.settings.keep_runs:
        return
    await in_role(server_state, "housekeeping", partial(_prune_each_day, server_state))


async def _prune_each_day(server_state: ServerState) -> None:
    age, clock = read_age(server_state.settings.keep_runs), server_state.smith.runs.clock
    while True:
        try:
            old = await prune(server_state.smith, clock.now() - age, needed=needed_by_threads)
            server_state.log.info("pruned", runs=len(old.runs), bytes=old.bytes)
        except PlansmithError as error:
            server_state.log.warning("not_pruned", error=str(error))
        await clock.sleep(_DAY_S)
