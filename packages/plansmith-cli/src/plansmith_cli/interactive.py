"""Runs a plan on a terminal: review, execution, questions, report."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar

from plansmith.engine.units import named_unit
from plansmith.errors import JournalDamaged
from plansmith.plan import events as e
from plansmith.plan.capability import Effect
from plansmith.plan.events import QuestionAsked
from plansmith.plan.fold import RunFold
from plansmith.plan.next_move import AwaitAnswer, AwaitReview, Over, Paused, next_move
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import StepFields
from plansmith.report.build import load_report
from plansmith.report.data import Report
from plansmith.report.markdown import answer_markdown, lacking_markdown, to_markdown, took_lines
from plansmith.review.policy import active_steps, effects
from plansmith.review.render import plan_lines, problem_lines
from plansmith.text import clip, safe
from plansmith_cli.consent import ask_all, waiting_lines
from plansmith_cli.describe import done_so_far, review_lines, run_json, status_text
from plansmith_cli.editor import edit_in_editor
from plansmith_cli.exit_codes import Exit
from plansmith_cli.questions import Choice, ask_line, read_choice
from plansmith_cli.session import Session, exit_of, has_no_plan, is_unusable
from plansmith_cli.ui.output import dim, print_json, print_markdown, print_prose, print_text
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
async def interrupts(*others: signal.Signals) -> AsyncGenerator[asyncio.Queue[None]]:
    """Puts each Ctrl-C, and other signals, into a queue instead of raising KeyboardInterrupt."""
    hits: asyncio.Queue[None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def hit(*_: object) -> None:
        loop.call_soon_threadsafe(hits.put_nowait, None)

    before = {each: signal.signal(each, hit) for each in (signal.SIGINT, *others)}
    try:
        yield hits
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@asynccontextmanager
async def _planning_shown_in(watcher: Watcher) -> AsyncGenerator[None]:
    """Shows messages of the planner in the view: other lines would break its block."""
    smith, verbose = watcher.session.smith, watcher.session.detail == "verbose"

    def say(text: str) -> None:
        # Where lines are written one below the other, a stage is one only if it is wanted.
        if verbose or not is_stage(text) or not isinstance(watcher.view, Lines):
            watcher.view.say(text)

    with smith.runs.planning.telling(say):
        yield


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


async def stoppable(work: Coroutine[Any, Any, _T], *signals: signal.Signals) -> _T | None:
    """Does some work; Ctrl-C, or one of these signals, cancels it and gives None."""
    async with interrupts(*signals) as hits:
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
    stop: Stop | None = None
    try:
        while stop is None:
            run = await session.smith.get(run_id)
            session.use_language_of(run)
            stop = await _advance(watcher, run)
    except KeyboardInterrupt:
        session.say("")
        stop = Stop.DETACHED
    await watcher.catch_up()
    watcher.view.stop()
    return Executed(await session.smith.get(run_id), stop)


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
            pass
    if run.plan is not None:
        await session.refuse_what_cannot_run(run.plan)
    executed = await execute(watcher)
    # No new event: another process has the run, or it cannot continue here.
    stuck = executed.run.last == run.last
    return executed.stop if stuck or executed.stop is not Stop.ITSELF else None


class Prompts:
    """Asks for decisions and answers, each at a prompt of its own."""

    def approve(self, session: Session) -> str:
        """Returns the prompt under a plan."""
        return session.own_text(
            "Run this plan? y = yes, n = reject it, e = edit it, c TEXT = ask for changes, "
            "Enter = not now: "
        )

    asks_again = True  # what is neither a yes nor a no is not taken for either

    async def review(self, session: Session, run: Run) -> bool:
        """Shows the plan and asks for a decision; returns False if there is none."""
        if run.plan is None:
            return False
        await session.refuse_what_cannot_run(run.plan)
        given = vars(session.args).get("approve_plan")
        flag = "--approve-plan" if given == run.plan.hash else ""
        if not given and vars(session.args).get("yes_read_only"):
            # A plan made by rules is always reviewed; the flag approves it if it only reads.
            flag = "--yes-read-only" if await _only_reads(session, run) else ""
        if flag:
            session.tell(*await review_lines(run, session, flag=flag))
            await session.smith.decide(run.id, approve=run.plan.hash, by=session.by)
            return True
        session.say(*await review_lines(run, session))
        if given:
            session.say(Sentence("--approve-plan names another plan: this one is not approved"))
        return session.has_person and await self._decide(session, run)

    async def answer(self, session: Session, run: Run) -> bool:
        """Asks the open questions; returns False if one stays open."""
        if not session.has_person:
            return False
        asked = [each for each in run.questions.values() if not self.leaves(each)]
        return await ask_all(session, run, asked) and len(asked) == len(run.questions)

    def leaves(self, asked: QuestionAsked) -> bool:
        """Tells whether a question is answered elsewhere; here none is."""
        del asked
        return False

    def put_off(self, session: Session, run: Run, choice: Choice) -> None:
        """Says that the plan was not decided on."""
        del choice
        session.say(Sentence("not approved: {ran}", ran=done_so_far(run, session)))

    async def _decide(self, session: Session, run: Run) -> bool:
        choice = read_choice(ask_line(self.approve(session)) or "")
        while self.asks_again and choice.kind == "later" and choice.text:
            typed = safe(clip(choice.text, 40))
            session.say(
                Sentence("“{typed}” is neither y nor n, and only y runs the plan.", typed=typed)
            )
            choice = read_choice(ask_line(self.approve(session)) or "")
        digest = run.plan.hash if run.plan else ""
        match choice.kind:
            case "yes":
                await session.smith.decide(run.id, approve=digest, by=session.by)
                session.tell(Sentence("approved"))
            case "no":
                await session.smith.decide(run.id, reject=True, by=session.by)
                session.say(Sentence("rejected: {ran}", ran=done_so_far(run, session)))
            case "edit":
                await edit_in_editor(session, run, tells=False)
            case "changes":
                with session.planning():
                    await session.smith.request_changes(run.id, choice.text, by=session.by)
            case "later":
                self.put_off(session, run, choice)
                return False
        return True


async def _only_reads(session: Session, run: Run) -> bool:
    """Whether a plan changes nothing, and drops no approved change."""
    if run.plan is None or run.drops:
        return False
    steps = list(active_steps(run.plan, run.templates))
    return not await any_changes(session, steps)


async def any_changes(session: Session, steps: Sequence[StepFields]) -> bool:
    """Whether a step calls something that may change something."""
    callees = await session.smith.runs.intake.callees()
    agents = {spec.name: spec for spec in session.smith.runs.intake.agents()}
    return any(
        effect is not Effect.READ
        for step in steps
        for _, effect in effects(step, tools=callees.specs, agents=agents)
    )


async def finish(session: Session, run: Run, *, detached: bool = False) -> None:
    """Prints what to do next on stderr, and the result of a run on stdout."""
    args = vars(session.args)
    found = run.status.over and run.status is not RunStatus.CANCELLED and not has_no_plan(run)
    if found and args.get("request") and session.has_person:
        whole = safe(session.command("report", run.id))
        again = safe(session.command("ask", "--thread", "last", "…"))
        session.tell(
            dim(session.own_text("How this was found: {command}", command=whole)),
            dim(session.own_text("To follow up: {command}", command=again)),
        )
    if args.get("json"):
        print_json(run_json(run, session))
    await print_end(session, run, silent=bool(args.get("json") or args.get("jsonl")))
    if detached:
        stopped = Sentence("Stopped here; what is done is kept. To go on:")
        session.say(stopped, f"  {session.command('go', run.id)}")
    elif not run.status.over:
        session.say(*await waiting_lines(run, session))


async def print_end(session: Session, run: Run, *, silent: bool = False) -> None:
    """Prints what a run that is over came to, or why there is no plan."""
    report = None
    # Only a run that was executed to its end has one.
    if run.status.over and run.status is not RunStatus.ANSWERED and run.report:
        report = await load_report(session.smith.store, run.id, locale=session.locale)
    if report is not None and session.detail == "verbose":
        session.say(*took_lines(report.took, report.words))
    if run.status.over and not silent:
        _print_outcome(session, run, report)
    if is_unusable(run):
        session.say(_no_plan(session, run), *problem_lines(run.problems, session.locale))
    if has_no_plan(run):
        say_no_plan(session, run)


def _print_outcome(session: Session, run: Run, report: Report | None) -> None:
    """Prints the answer of a run, after what failed or is missing; the report tells the rest.

    A run without an answer has only its results to show, and the report of a team is its answer.
    """
    if report is None:
        print_prose(run.report or in_language(run.reason, session.locale))
    elif session.detail == "quiet" and not report.answer.text and run.options.team is None:
        if run.status is not RunStatus.DONE:
            session.say(*lacking_markdown(report).splitlines())
        status, command = status_text(run, session), session.command("report", run.id)
        print_text(
            session.own_text(
                "{status}; the plan has no reply, its results are in: {command}",
                status=status,
                command=command,
            )
        )
    elif run.options.team is not None or not report.answer.text:
        print_markdown(to_markdown(report))
    elif session.detail == "quiet":
        session.say(*lacking_markdown(report).splitlines())
        print_markdown(answer_markdown(report, alone=True))
    else:
        print_markdown(answer_markdown(report))
    sys.stdout.flush()


def _no_plan(session: Session, run: Run) -> Sentence:
    return Sentence("No usable plan could be made; {ran}.", ran=done_so_far(run, session))


def say_no_plan(session: Session, run: Run) -> None:
    """Says that planning failed, why, and how to try again."""
    # The reason of a run that failed is printed with it.
    others = [each for each in run.problems if each.message not in run.reason]
    session.say(
        _no_plan(session, run),
        *problem_lines(others, session.locale),
        Sentence("To have it planned again, perhaps with another --model:"),
        f"  {session.command('runs', 'retry', run.id)}",
    )
