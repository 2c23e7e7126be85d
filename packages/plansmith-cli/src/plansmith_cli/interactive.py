"""Runs a plan on a terminal: review, execution, questions, report."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar

from plansmith.engine.units import named_unit
from plansmith.errors import JournalDamaged
from plansmith.plan import events as e
from plansmith.plan.fold import RunFold
from plansmith.plan.next_move import AwaitAnswer, AwaitReview, Over, Paused, next_move
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.review.render import plan_lines
from plansmith_cli.ending import finish
from plansmith_cli.exit_codes import Exit
from plansmith_cli.reviewing import Prompts, any_changes
from plansmith_cli.session import Session, exit_of, is_unusable
from plansmith_cli.ui.progress import Lines, View, is_stage, ticking

# The time to press Ctrl-C a second time; reads that it cuts off are made again.
_DETACH_S: Final = 2.0
_T = TypeVar("_T")


class Stop(StrEnum):
    """Why a command stopped running a run."""

    ITSELF = "itself"
    DETACHED = "detached"
    CANCELLED = "cancelled"


class Watcher:
    """Follows the events of a run, whichever process writes them, and shows each once."""

    def __init__(self, session: Session, run_id: str, prompts: Prompts | None = None) -> None:
        self.session = session
        self.run_id = run_id
        self.prompts = prompts or Prompts()
        self.view: View = session.view()
        self.stopped_elsewhere = asyncio.Event()
        self._fold = RunFold(Run(id=run_id))
        self.number = 0

    @property
    def run(self) -> Run:
        """The run after the events so far."""
        return self._fold.result()

    async def skip(self) -> None:
        """Reads the events from before this command without showing them."""
        if vars(self.session.args).get("jsonl"):
            return
        async for event in self.session.smith.events(self.run_id):
            self.number = event.number
            self._fold.take(event)

    async def catch_up(self) -> None:
        """Shows the events that were not shown yet."""
        async for event in self.session.smith.events(self.run_id, after=self.number):
            self._take(event)

    async def follow(self) -> None:
        """Shows events as they come, until the run is over."""
        news = self.session.smith.events(self.run_id, after=self.number, follow=True)
        async for event in news:
            if event.number > self.number:
                self._take(event)

    def _take(self, event: e.Event) -> None:
        self.number = event.number
        self._fold.take(event)
        if event.by.speaks and isinstance(event.body, e.RunPaused | e.CancelAsked):
            self.stopped_elsewhere.set()
        self.view.show(self.run, event)


@asynccontextmanager
async def interrupts() -> AsyncGenerator[asyncio.Queue[None]]:
    """Puts each Ctrl-C into a queue instead of raising KeyboardInterrupt."""
    hits: asyncio.Queue[None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def hit(*_: object) -> None:
        loop.call_soon_threadsafe(hits.put_nowait, None)

    before = signal.signal(signal.SIGINT, hit)
    try:
        yield hits
    finally:
        signal.signal(signal.SIGINT, before)


@asynccontextmanager
async def _planning_shown_in(watcher: Watcher) -> AsyncGenerator[None]:
    """Shows messages of the planner in the view: other lines would break its block."""
    smith, verbose = watcher.session.smith, watcher.session.detail == "verbose"

    def say(text: str) -> None:
        # Where lines are written one below the other, a stage is one only if it is wanted.
        if verbose or not is_stage(text) or not isinstance(watcher.view, Lines):
            watcher.view.say(text)

    before, smith.runs.planning.tell = smith.runs.planning.tell, say
    try:
        yield
    finally:
        smith.runs.planning.tell = before


class Executed(NamedTuple):
    """A run after its execution, and why that stopped."""

    run: Run
    stop: Stop

    @property
    def code(self) -> Exit:
        """The exit code of a command that ends with this."""
        return exit_of(self.run) if self.stop is Stop.ITSELF else Exit.INTERRUPTED


async def execute(watcher: Watcher) -> Executed:
    """Executes a run until it is over or waits; Ctrl-C once detaches, twice cancels."""
    session, run_id = watcher.session, watcher.run_id
    watcher.view = session.view()
    watcher.stopped_elsewhere.clear()
    await watcher.catch_up()
    async with ticking(watcher.view), interrupts() as hits, _planning_shown_in(watcher):
        following = asyncio.ensure_future(watcher.follow())
        running = asyncio.ensure_future(session.smith.runs.run(run_id))
        try:
            stop = await _until_stopped(watcher, running, hits)
        finally:
            await _cancelled(following)
            await watcher.catch_up()
    if stop is Stop.ITSELF:
        return Executed(await running, stop)
    # A read that was cut off must not go on in this process, which may live on.
    executing = session.smith.runs.execution.of(run_id)
    for each in (executing, running):
        if each is not None and stop is Stop.DETACHED:
            await _cancelled(each)
    return Executed(await session.smith.get(run_id), stop)


async def _until_stopped(
    watcher: Watcher, running: asyncio.Future[Run], hits: asyncio.Queue[None]
) -> Stop:
    smith, run_id, by = watcher.session.smith, watcher.run_id, watcher.session.by
    elsewhere = watcher.stopped_elsewhere.wait
    if await _first(running, hits.get, elsewhere) == 0:
        return Stop.ITSELF
    if watcher.stopped_elsewhere.is_set():
        # Another process has stopped the run: stop the execution here, too.
        over = watcher.run.cancel_asked
        await (smith.cancel(run_id, by=by) if over else smith.pause(run_id, by=by))
        await asyncio.wait([running])
        return Stop.ITSELF
    watcher.view.say(
        watcher.session.own_text("Stopping: what runs now may end. Ctrl-C again cancels the run.")
    )
    pausing = asyncio.ensure_future(smith.pause(run_id, by=by, reason=Sentence("detached")))
    short = min(smith.runs.execution.limits.grace_s, _DETACH_S)
    patience = None if await _has_effects_under_way(watcher) else short
    first = await _first(pausing, hits.get, timeout=patience)
    if first == 1:
        watcher.view.say(watcher.session.own_text("Cancelling …"))
        await smith.cancel(run_id, by=by)
    await _cancelled(pausing)
    return Stop.CANCELLED if first == 1 else Stop.DETACHED


async def _has_effects_under_way(watcher: Watcher) -> bool:
    """Whether a call is running that may change something and so must not be cut off."""
    run = watcher.run
    if run.plan is None:
        return False
    units = [named_unit(run.plan, name, run.templates) for name in run.calls_open]
    return await any_changes(watcher.session, [unit.step for unit in units if unit])


async def _first(
    future: asyncio.Future[Run],
    *others: Callable[[], Awaitable[object]],
    timeout: float | None = None,  # noqa: ASYNC109 - returns None then
) -> int | None:
    """Returns the index of what finished first; leaves the future running."""
    tasks = [asyncio.ensure_future(other()) for other in others]
    every: list[asyncio.Future[Any]] = [future, *tasks]
    await asyncio.wait(every, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    first = next((index for index, each in enumerate(every) if each.done()), None)
    for task in tasks:
        await _cancelled(task)
    return first


async def _cancelled(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def is_new(run: Run) -> bool:
    """Whether nothing of a run's plan was started."""
    return run.plan is not None and run.started_at is None and not run.status.over


def show_plan(session: Session, run: Run) -> None:
    """Shows a plan that starts now; one that is reviewed is shown there."""
    if is_new(run) and run.plan is not None and not isinstance(next_move(run), AwaitReview):
        session.use_language_of(run)
        session.tell(*plan_lines(run.plan, locale=session.locale), "")


async def stoppable(work: Coroutine[Any, Any, _T]) -> _T | None:
    """Does some work; Ctrl-C cancels it and gives None."""
    async with interrupts() as hits:
        working = asyncio.ensure_future(work)
        hit = asyncio.ensure_future(hits.get())
        both: list[asyncio.Future[Any]] = [working, hit]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        await _cancelled(hit)
        if working.done():
            return await working
        await _cancelled(working)
        return None


async def run_interactively(session: Session, run_id: str, *, fresh: bool = True) -> int:
    """Runs a run as far as it goes now, asks the person, and prints the result."""
    rest = await run_to_rest(session, run_id, fresh=fresh)
    await finish(session, rest.run, detached=rest.stop is Stop.DETACHED)
    return rest.code


async def run_to_rest(
    session: Session, run_id: str, *, fresh: bool = True, prompts: Prompts | None = None
) -> Executed:
    """Runs a run as far as it goes now, and asks the person on the way."""
    watcher = Watcher(session, run_id, prompts)
    if not fresh:
        await watcher.skip()
    stop = Stop.ITSELF
    try:
        stop = await _until_rest(watcher)
    except KeyboardInterrupt:
        session.say("")
        stop = Stop.DETACHED
    await watcher.catch_up()
    watcher.view.stop()
    return Executed(await session.smith.get(run_id), stop)


async def _until_rest(watcher: Watcher) -> Stop:
    while True:
        run = await watcher.session.smith.get(watcher.run_id)
        watcher.session.use_language_of(run)
        stop = await _advance(watcher, run)
        if stop is not None:
            return stop


async def _advance(watcher: Watcher, run: Run) -> Stop | None:
    """Does what a run needs next; returns why it stopped, or None to continue."""
    session = watcher.session
    if run.damage:
        raise JournalDamaged(run.damage)
    move = next_move(run)
    if isinstance(move, Over) or move == Paused() or is_unusable(run):
        return Stop.ITSELF
    session.smith.runs.journals.require_here(f"run {run.id}", run.folder)
    match move:
        case AwaitReview():
            return None if await watcher.prompts.review(session, run) else Stop.ITSELF
        case AwaitAnswer() | Paused():
            return None if await watcher.prompts.answer(session, run) else Stop.ITSELF
        case _:
            return await _execute(watcher, run)


async def _execute(watcher: Watcher, run: Run) -> Stop | None:
    """Plans or executes; returns why it stopped, or None to continue."""
    session = watcher.session
    if run.plan is not None:
        await session.refuse_what_cannot_run(run.plan)
    executed = await execute(watcher)
    # No new event: another process has the run, or it cannot continue here.
    stuck = executed.run.last == run.last
    return executed.stop if stuck or executed.stop is not Stop.ITSELF else None
