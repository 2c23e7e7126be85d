"""Runs a plan on a terminal: review, execution, questions, report."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar

from plansmith import Effect, Plan, QuestionAsked, Refused, Run
from plansmith.engine.units import named_unit
from plansmith.errors import JournalDamaged, StaleDecision
from plansmith.formats.native import to_yaml
from plansmith.plan import events as e
from plansmith.plan.capability import Capabilities
from plansmith.plan.fold import fold
from plansmith.plan.next_move import AwaitAnswer, AwaitReview, Over, Paused, next_move
from plansmith.plan.sentence import Sentence, did_you_mean, joined
from plansmith.plan.steps import AnyStep, ToolStep
from plansmith.review.policy import active_steps
from plansmith.runs.decisions import ApprovalDetails
from plansmith.text import clip, safe
from plansmith_cli.command_table import Exit
from plansmith_cli.describe import (
    approval_hash,
    change_lines,
    done_so_far,
    finish,
    review_lines,
)
from plansmith_cli.keyboard import Choice, ask_line, editor_of, open_in_editor, read_choice
from plansmith_cli.options import read_pairs, read_value
from plansmith_cli.previews import ShownPreview
from plansmith_cli.questions import ask_all
from plansmith_cli.session import Session, exit_of, is_unusable
from plansmith_cli.ui.output import error_text, load_plan, own_text, read_file, refused, wrong
from plansmith_cli.ui.render import plan_lines
from plansmith_connect.mcp import servers
from plansmith_desk.toolset import DescribedTools

# The time to press Ctrl-C a second time; reads that it cuts off are made again.
_DETACH_S: Final = 2.0
_T = TypeVar("_T")


class Stop(StrEnum):
    """Why a command stopped running a run."""

    ITSELF = "itself"
    DETACHED = "detached"
    CANCELLED = "cancelled"


class Executed(NamedTuple):
    """A run after its execution, and why that stopped."""

    run: Run
    stop: Stop

    @property
    def code(self) -> Exit:
        return exit_of(self.run) if self.stop is Stop.ITSELF else Exit.INTERRUPTED


class Watcher:
    """Follows the events of a run, whichever process writes them, and shows each once."""

    def __init__(self, session: Session, run_id: str, prompts: Prompts | None = None) -> None:
        self.session = session
        self.run_id = run_id
        self.prompts = prompts or Prompts()
        self.view = session.lines
        self.view.restart(session.locale)
        self.asked_to_stop = asyncio.Event()
        self.run = Run(id=run_id)
        self.number = 0

    async def skip(self) -> None:
        if self.session.given("jsonl"):
            return
        events = [event async for event in self.session.smith.events(self.run_id)]
        self.run, self.number = fold(events, self.run), len(events)

    async def catch_up(self, *, follow: bool = False) -> None:
        """Shows the events that were not shown yet; if it follows, until the run is over."""
        news = self.session.smith.events(self.run_id, after=self.number, follow=follow)
        async for event in news:
            if event.number > self.number:
                self.number = event.number
                self.run = fold([event], self.run)
                if event.by.speaks and isinstance(event.body, e.RunPaused | e.CancelAsked):
                    self.asked_to_stop.set()
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


async def _first(
    future: asyncio.Future[Any],
    *others: Coroutine[Any, Any, object],
    timeout: float | None = None,  # noqa: ASYNC109 - returns None then
) -> int | None:
    """Returns the index of what finished first; leaves the future running."""
    tasks = [asyncio.ensure_future(other) for other in others]
    every: list[asyncio.Future[Any]] = [future, *tasks]
    await asyncio.wait(every, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    first = next((index for index, each in enumerate(every) if each.done()), None)
    for task in tasks:
        await _cancelled(task)
    return first


async def _cancelled(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def stoppable(work: Coroutine[Any, Any, _T], *signals: signal.Signals) -> _T | None:
    """Does some work; Ctrl-C, or one of these signals, cancels it and gives None."""
    async with interrupts(*signals) as hits:
        working = asyncio.ensure_future(work)
        if await _first(working, hits.get()) == 0:
            return await working
        await _cancelled(working)
        return None


async def execute(watcher: Watcher) -> Executed:
    """Executes a run until it is over or waits; Ctrl-C once detaches, twice cancels."""
    session, run_id = watcher.session, watcher.run_id
    watcher.view.restart(session.locale)
    watcher.asked_to_stop.clear()
    await watcher.catch_up()
    async with interrupts() as hits:
        following = asyncio.ensure_future(watcher.catch_up(follow=True))
        running = asyncio.ensure_future(session.smith.runs.run(run_id))
        try:
            stop = await _until_stopped(watcher, running, hits)
        finally:
            await _cancelled(following)
            await watcher.catch_up()
            watcher.view.stop()
    if stop is Stop.ITSELF:
        return Executed(await running, stop)
    # A read that was cut off must not go on in this process, which may live on.
    executing = session.smith.runs.execution.future_of(run_id)
    for each in (executing, running):
        if each is not None and stop is Stop.DETACHED:
            await _cancelled(each)
    return Executed(await session.smith.get(run_id), stop)


async def _until_stopped(
    watcher: Watcher, running: asyncio.Future[Run], hits: asyncio.Queue[None]
) -> Stop:
    smith, run_id, by = watcher.session.smith, watcher.run_id, watcher.session.by
    if await _first(running, hits.get(), watcher.asked_to_stop.wait()) == 0:
        return Stop.ITSELF
    if watcher.asked_to_stop.is_set():
        # Another process has stopped the run: stop the execution here, too.
        over = watcher.run.cancel_asked
        await (smith.cancel(run_id, by=by) if over else smith.pause(run_id, by=by))
        await asyncio.wait([running])
        return Stop.ITSELF
    short = min(smith.runs.execution.limits.grace_s, _DETACH_S)
    pausing = asyncio.ensure_future(smith.pause(run_id, by=by, reason=Sentence("detached")))
    # Said once no step can start any more; a store that is away holds the words back only shortly.
    await _first(pausing, watcher.asked_to_stop.wait(), timeout=short)
    watcher.view.say(own_text("Stopping: what runs now may end. Ctrl-C again cancels the run."))
    # A call that may change something must not be cut off.
    run, steps = watcher.run, list[AnyStep]()
    if run.plan is not None:
        units = [named_unit(run.plan, name, run.templates) for name in run.calls_open]
        steps = [unit.step for unit in units if unit]
    patience = None if await any_changes(watcher.session, steps) else short
    first = await _first(pausing, hits.get(), timeout=patience)
    if first == 1:
        watcher.view.say(own_text("Cancelling …"))
        await smith.cancel(run_id, by=by)
    await _cancelled(pausing)
    return Stop.CANCELLED if first == 1 else Stop.DETACHED


async def any_changes(session: Session, steps: Sequence[AnyStep]) -> bool:
    """Whether a step calls something that may change something."""
    known = await session.smith.runs.registry.capabilities(None)
    return any(_acts(known, step) for step in steps)


def _acts(known: Capabilities, step: AnyStep) -> bool:
    return known.effect(step) is not Effect.READ


async def require_runnable(session: Session, plan: Plan | None) -> None:
    """Refuses a plan if the tool of a step is missing, or only described."""
    if plan is None:
        return
    registry = session.smith.runs.registry
    known = (await registry.callees()).tools
    for step in active_steps(plan, await registry.template_plans(plan)):
        source = known.get(step.tool) if isinstance(step, ToolStep) else None
        if isinstance(step, ToolStep) and (source is None or isinstance(source, DescribedTools)):
            hint = Sentence("name the Python file that has it with --tools")
            raise wrong(
                "error.tool_described" if source else "error.tool_missing",
                hint=hint if source else await missing_hint(session, step.tool, hint),
                tool=step.tool,
                step=step.id,
            )


async def missing_hint(session: Session, name: str, otherwise: str) -> str:
    """Returns what helps where there is no tool of this name: an approval, or another name."""
    registry = session.smith.runs.registry
    for source in registry.sources:
        for each in await source.pending() if isinstance(source, servers.McpServers) else ():
            if each.name in (name, name.partition(".")[0]):
                command = session.command("tools", "approve", each.name)
                return Sentence("it waits for your approval: {command}", command=command)
    return joined([did_you_mean(name, (await registry.callees()).tools, otherwise=""), otherwise])


async def previewed(session: Session, run: Run, *, wanted: bool = False) -> Run:
    """Returns a run with what its plan would change, where that is free or the person wants it."""
    runs, flags = session.smith.runs, vars(session.args)
    pairs = read_pairs(flags.pop("with", None) or ())
    given = {name: read_value(name, text) for name, text in pairs.items()}
    wanted = bool(flags.pop("preview", None)) or bool(given) or wanted
    by_itself = run.preview is None and runs.execution.limits.preview
    if run.plan is None or not (wanted or (by_itself and await runs.reads_are_free(run))):
        return run
    if not wanted and not await _changes(session, run):
        return run
    if wanted and (names := await _reading(session, run)):
        session.tell(Sentence("Reading, which changes nothing: {names}", names=names))
    with session.lines.moving():
        making = runs.preview(run.id, given=given, fresh=not given and wanted, by=session.by)
        return await stoppable(making) or run


async def _changes(session: Session, run: Run) -> bool:
    steps = active_steps(run.plan, run.templates) if run.plan is not None else ()
    return await any_changes(session, [*steps])


async def _reading(session: Session, run: Run) -> str:
    """Returns what a preview of a plan would call."""
    known = await session.smith.runs.registry.capabilities(None)
    steps = active_steps(run.plan, run.templates) if run.plan is not None else ()
    calls = [each for each in steps if each.kind in ("tool", "agent") and not _acts(known, each)]
    return ", ".join(dict.fromkeys(safe(each.callee) for each in calls))


def say_unapproved(session: Session, given: str, *hashes: str) -> None:
    """Says why `--approve-plan` does not approve the plan with these hashes."""
    is_cut = any(each.startswith(given) for each in hashes)
    session.say(
        Sentence(
            "--approve-plan gives only the beginning of the hash: this plan is not approved"
            if is_cut
            else "--approve-plan names another plan: this one is not approved"
        )
    )


def is_new(run: Run) -> bool:
    """Whether nothing of a run's plan was started."""
    return run.plan is not None and run.started_at is None and not run.status.over


def show_plan(session: Session, run: Run) -> None:
    """Shows a plan that starts now; one that is reviewed is shown there."""
    if is_new(run) and run.plan is not None and not isinstance(next_move(run), AwaitReview):
        session.use_language_of(run)
        session.tell(*plan_lines(run.plan, locale=session.locale), "")


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
    await require_runnable(session, run.plan)
    executed = await execute(watcher)
    # No new event: another process has the run, or it cannot continue here.
    stuck = executed.run.last == run.last
    return executed.stop if stuck or executed.stop is not Stop.ITSELF else None


class Prompts:
    """Asks for decisions and answers, each at a prompt of its own."""

    asks_again = True  # what is neither a yes nor a no is not taken for either

    @property
    def approve(self) -> str:
        return own_text(
            "Run this plan? y = yes, n = reject it, e = edit it, c TEXT = ask for changes, "
            "Enter = not now: "
        )

    def is_answered_elsewhere(self, asked: QuestionAsked) -> bool:
        """Tells whether a question is answered elsewhere; here none is."""
        del asked
        return False

    def postpone(self, session: Session, run: Run, choice: Choice) -> None:
        del choice
        session.say(Sentence("not approved: {ran}", ran=done_so_far(run)))

    async def answer(self, session: Session, run: Run) -> bool:
        """Asks the open questions; returns False if one stays open."""
        if not session.has_person:
            return False
        asked = [each for each in run.questions.values() if not self.is_answered_elsewhere(each)]
        return await ask_all(session, run, asked) and len(asked) == len(run.questions)

    async def review(self, session: Session, run: Run) -> bool:
        """Shows the plan and asks for a decision; returns False if there is none."""
        plan = run.plan
        if plan is None:
            return False
        await require_runnable(session, plan)
        given = session.given("approve_plan")
        digest = plan.hash
        if given != digest:
            run = await previewed(session, run)
            if not isinstance(next_move(run), AwaitReview):
                return True
            digest = approval_hash(run)
        flag = "--approve-plan" if given == digest else ""
        if not given and session.given("yes_read_only") and not run.drops_in_review:
            # A plan made by rules is always reviewed; the flag approves it if it only reads.
            flag = "" if await _changes(session, run) else "--yes-read-only"
        if flag:
            session.tell(*await review_lines(run, session, flag=flag))
            await self._approve(session, ShownPreview(run), digest)
            return True
        session.say(*await review_lines(run, session))
        if given:
            say_unapproved(session, given, plan.hash, digest)
        return session.has_person and await self._decide(session, ShownPreview(run), digest)

    async def _decide(self, session: Session, shown: ShownPreview, digest: str) -> bool:
        run = shown.run
        if shown.calls:
            session.say(Sentence("Also: leave out 2 3, change 2 NAME=VALUE, all = see it whole"))
        elif run.preview is None and (names := await _reading(session, run)):
            first = own_text("Also: p = see first what would change (calls {names})", names=names)
            session.say(first)
        choice = self._choose(session, shown)
        match choice.kind:
            case "yes":
                await self._approve(session, shown, digest)
            case "preview":
                await previewed(session, run, wanted=True)
            case "no":
                await session.smith.decide(run.id, reject=True, by=session.by)
                session.say(Sentence("rejected: {ran}", ran=done_so_far(run)))
            case "edit":
                await edit_in_editor(session, run, tells=False)
            case "changes":
                with session.lines.moving():
                    await session.smith.request_changes(run.id, choice.text, by=session.by)
            case _:
                self.postpone(session, run, choice)
                return False
        return True

    def _choose(self, session: Session, shown: ShownPreview) -> Choice:
        """Asks for a decision, until it is about the whole plan."""
        while True:
            choice = read_choice(ask_line(self.approve) or "", also=shown.choices)
            if choice.kind in ("leave_out", "change", "all"):
                session.say(*shown.decide(choice))
            elif self.asks_again and choice.kind == "later" and choice.text:
                typed = safe(clip(choice.text, 40))
                session.say(
                    Sentence("“{typed}” is neither y nor n, and only y runs the plan.", typed=typed)
                )
            else:
                return choice

    async def _approve(self, session: Session, shown: ShownPreview, digest: str) -> None:
        """Approves what was shown; a value of the person's own that does not fit is told."""
        details: ApprovalDetails = {
            "fresh": bool(session.given("fresh")),
            "leave_out": shown.leave_out,
            "change": shown.change,
        }
        try:
            await session.smith.decide(shown.run.id, approve=digest, by=session.by, **details)
        except Refused as error:
            if isinstance(error, StaleDecision) or not shown.change:
                raise
            session.say(safe(error_text(error, session.locale)))
        else:
            session.tell(Sentence("approved"))


async def edit_in_editor(session: Session, run: Run, *, tells: bool = True) -> Run:
    """Opens the plan of a run in the editor, checks the result and saves it in the run.

    Keeps the file if the plan cannot be used. `tells` what has changed; a review that follows
    shows it anyway.
    """
    if run.plan is None:
        raise refused("run {run} has no plan", run=run.id)
    editor, before = editor_of(has_person=session.has_person), to_yaml(run.plan)
    handle, name = tempfile.mkstemp(prefix=f"plansmith-{run.id[:13]}-", suffix=".yaml")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(before)
    await open_in_editor(editor, name)
    edited = run
    if read_file(name) == before.encode():
        session.say(Sentence("nothing was changed"))
    else:
        try:
            edited = await edit_from(session, run, name, tells=tells)
        except BaseException:
            kept = Sentence("your text is kept in {path}", path=name)
            session.say(kept, f"  {session.command('runs', 'edit', run.id, '--file', name)}")
            raise
    os.unlink(name)  # noqa: PTH108 - in an async function
    return edited


async def edit_from(session: Session, run: Run, name: str, *, tells: bool = True) -> Run:
    """Replaces the plan of a run by the plan of a file, and tells what has changed."""
    edited = await session.smith.edit(run.id, load_plan(name), by=session.by)
    if tells and run.plan is not None and edited.plan is not None:
        session.say(Sentence("changed plan:"), *change_lines(run.plan, edited.plan))
    return edited
