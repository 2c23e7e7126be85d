"""Runs a plan on a terminal: review, execution, questions, report."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, Final, NamedTuple

from plansmith.cli.describe import done_so_far, review_lines, run_json, waiting_lines
from plansmith.cli.editor import edit_in_editor
from plansmith.cli.exit_codes import Exit
from plansmith.cli.questions import (
    ALL,
    ask_line,
    consent_values,
    question_lines,
    read_answer,
    read_choice,
    whole_lines,
)
from plansmith.cli.session import Session, exit_of, has_no_plan, is_unusable
from plansmith.cli.ui.output import print_json, print_text
from plansmith.cli.ui.progress import View, ticking
from plansmith.engine.requested import missing_in
from plansmith.engine.units import named_unit
from plansmith.errors import JournalDamaged, Refused
from plansmith.plan import events as e
from plansmith.plan.capability import Effect
from plansmith.plan.fold import RunFold
from plansmith.plan.next_move import AwaitAnswer, AwaitReview, Over, Paused, next_move
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import StepFields
from plansmith.review.policy import active_steps, effects
from plansmith.review.render import problem_lines
from plansmith.text import safe

# The time to press Ctrl-C a second time; reads that it cuts off are made again.
_DETACH_S: Final = 2.0


class Stop(StrEnum):
    """Why a command stopped running a run."""

    ITSELF = "itself"
    DETACHED = "detached"
    CANCELLED = "cancelled"


class Watcher:
    """Follows the events of a run, whichever process writes them, and shows each once."""

    def __init__(self, session: Session, run_id: str) -> None:
        self.session = session
        self.run_id = run_id
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
    smith = watcher.session.smith
    before, smith.runs.planner.tell = smith.runs.planner.tell, watcher.view.say
    try:
        yield
    finally:
        smith.runs.planner.tell = before


class Executed(NamedTuple):
    """A run after its execution, and why that stopped."""

    run: Run
    stop: Stop


async def execute(watcher: Watcher) -> Executed:
    """Executes a run until it is over or waits; Ctrl-C once detaches, twice cancels."""
    session, run_id = watcher.session, watcher.run_id
    watcher.view = session.view()
    watcher.stopped_elsewhere.clear()
    await watcher.catch_up()
    async with ticking(watcher.view), interrupts() as hits, _planning_shown_in(watcher):
        following = asyncio.ensure_future(watcher.follow())
        running = asyncio.ensure_future(session.smith.run(run_id))
        try:
            stop = await _until_stopped(watcher, running, hits)
        finally:
            await _cancelled(following)
            await watcher.catch_up()
    run = await running if stop is Stop.ITSELF else await session.smith.get(run_id)
    return Executed(run, stop)


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
    watcher.view.say(watcher.session.words["stopping"])
    pausing = asyncio.ensure_future(smith.pause(run_id, by=by, reason=Sentence("pause.detached")))
    short = min(smith.runs.execution.limits.grace_s, _DETACH_S)
    patience = None if await _has_effects_under_way(watcher) else short
    first = await _first(pausing, hits.get, timeout=patience)
    if first == 1:
        watcher.view.say(watcher.session.words["cancelling"])
        await smith.cancel(run_id, by=by)
    await _cancelled(pausing)
    return Stop.CANCELLED if first == 1 else Stop.DETACHED


async def _has_effects_under_way(watcher: Watcher) -> bool:
    """Whether a call is running that may change something and so must not be cut off."""
    run = watcher.run
    if run.plan is None:
        return False
    units = [named_unit(run.plan, name, run.templates) for name in run.calls_open]
    return await _any_changes(watcher.session, [unit.step for unit in units if unit])


async def _is_read_only(session: Session, run: Run) -> bool:
    """Whether `--yes-read-only` covers the plan: not if a requested change is missing."""
    return not missing_in(run.problems) and await _only_reads(session, run)


async def _only_reads(session: Session, run: Run) -> bool:
    """Whether a plan changes nothing, and drops no approved change."""
    if run.plan is None or run.drops:
        return False
    steps = list(active_steps(run.plan, run.templates))
    return not await _any_changes(session, steps)


async def _any_changes(session: Session, steps: Sequence[StepFields]) -> bool:
    callees = await session.smith.runs.intake.callees()
    agents = {spec.name: spec for spec in session.smith.runs.intake.agents()}
    return any(
        effect is not Effect.READ
        for step in steps
        for _, effect in effects(step, tools=callees.specs, agents=agents)
    )


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


async def run_interactively(session: Session, run_id: str, *, fresh: bool = True) -> int:
    """Runs a run as far as it goes now, asks the person, and prints the result."""
    watcher = Watcher(session, run_id)
    if not fresh:
        await watcher.skip()
    stop = Stop.ITSELF
    try:
        stop = await _until_rest(watcher)
    except KeyboardInterrupt:
        session.say("")
        stop = Stop.DETACHED
    await watcher.catch_up()
    run = await session.smith.get(run_id)
    finish(session, run, detached=stop is Stop.DETACHED)
    return exit_of(run) if stop is Stop.ITSELF else Exit.INTERRUPTED


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
            return None if await _review(session, run) else Stop.ITSELF
        case AwaitAnswer() | Paused():
            return None if await _ask(session, run) else Stop.ITSELF
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


async def _review(session: Session, run: Run) -> bool:
    """Shows the plan and asks for a decision; returns False if there is none."""
    if run.plan is None:
        return False
    await session.refuse_what_cannot_run(run.plan)
    events = list(await session.smith.store.events(run.id))
    session.say(*review_lines(run, events, session))
    given = vars(session.args).get("approve_plan")
    if given == run.plan.hash:
        await session.smith.decide(run.id, approve=run.plan.hash, by=session.by)
        return True
    if given:
        session.say("--approve-plan names another plan: this one is not approved")
    elif vars(session.args).get("yes_read_only") and await _is_read_only(session, run):
        # A plan made by rules is always reviewed; the flag approves it if it only reads.
        await session.smith.decide(run.id, approve=run.plan.hash, by=session.by)
        return True
    return session.has_person and await _decide(session, run)


async def _decide(session: Session, run: Run) -> bool:
    choice = read_choice(ask_line(session.words["approve"]) or "")
    digest = run.plan.hash if run.plan else ""
    match choice.kind:
        case "yes":
            await session.smith.decide(run.id, approve=digest, by=session.by)
            session.say(session.words["approved"])
        case "no":
            await session.smith.decide(run.id, reject=True, by=session.by)
            session.say(session.words["rejected"].format(ran=done_so_far(run, session)))
        case "edit":
            await edit_in_editor(session, run)
        case "changes":
            await session.smith.request_changes(run.id, choice.text, by=session.by)
        case "later":
            session.say(session.words["not_now"].format(ran=done_so_far(run, session)))
            return False
    return True


async def _ask(session: Session, run: Run) -> bool:
    """Asks the open questions; returns False if one stays open."""
    if not session.has_person:
        return False
    for name, asked in run.questions.items():
        values = await consent_values(session, asked)
        session.say(*question_lines(asked, session, run, values))
        while True:
            typed = ask_line(session.words["answer" if values is None else "answer_consent"])
            if not (typed or "").strip():
                return False
            if values is not None and (typed or "").strip() in ALL:
                session.say(*whole_lines(values))
                continue
            try:
                await session.smith.answer(
                    run.id, name, read_answer(asked, typed or ""), by=session.by
                )
                break
            except Refused as error:
                session.say(safe(str(error)))
    return True


def _no_plan_text(session: Session, run: Run) -> str:
    return session.words["degraded"].format(ran=done_so_far(run, session))


def say_no_plan(session: Session, run: Run) -> None:
    """Says that planning failed, why, and how to try again."""
    session.say(_no_plan_text(session, run))
    if run.problems:
        session.say(*problem_lines(run.problems, session.words["locale"]))
    session.say(session.words["try_again"], f"  {session.command('retry', run.id)}")


def finish(session: Session, run: Run, *, detached: bool = False) -> None:
    """Prints the result of a run on stdout, and what to do next on stderr."""
    args = vars(session.args)
    if args.get("json"):
        print_json(run_json(run, session))
    elif not args.get("jsonl") and run.status.over:
        print_text(run.report or in_language(run.reason, session.words["locale"]))
    if is_unusable(run):
        found = problem_lines(run.problems, session.words["locale"])
        session.say(_no_plan_text(session, run), *found)
    if has_no_plan(run):
        say_no_plan(session, run)
    if detached:
        session.say(session.words["detached"], f"  {session.command('resume', run.id)}")
    elif not run.status.over:
        session.say(*waiting_lines(run, session))
