"""`plansmith approve`, `reject`, `answer` and most verbs of `runs`: decisions about a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from plansmith.plan.events import PlanningFailed, PlanProposed
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.plan.question_options import ALLOW
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import ToolStep
from plansmith.review.policy import active_steps
from plansmith.text import safe
from plansmith_cli import options, questions
from plansmith_cli.command_table import Command, Exit
from plansmith_cli.describe import review_lines, revision_lines, run_json, status_text
from plansmith_cli.interactive import (
    edit_from,
    edit_in_editor,
    previewed,
    require_runnable,
    run_interactively,
)
from plansmith_cli.options import DETAIL, JSON, NO_INPUT, PARTS, RUN, TOOLS
from plansmith_cli.previews import ShownPreview
from plansmith_cli.session import Session, session_command, store_command
from plansmith_cli.ui.output import own, own_text, print_json, print_lines, refused, status_word

Action = Callable[[Session, Run], Awaitable[Run | None]]


def _about_run(act: Action, flags: str = "", more: str = "", **typed: Any) -> Command:
    """Makes a command that does something with a run and prints its status.

    It exits with 5 if the action gives no run: then a person is needed.
    """

    async def work(session: Session) -> int | None:
        args = session.args
        run = await act(session, await session.run(args.run))
        if run is None:
            if args.json and not session.given("show"):
                print_json(run_json(await session.run(args.run), session))
            return Exit.OK if session.given("show") else Exit.WAITING
        if session.given("go") and not run.status.over:
            return await run_interactively(session, run.id, fresh=False)
        if args.json:
            print_json(run_json(run, session))
        waits, status = await questions.waiting_lines(run, session), status_text(run)
        ownership = session.journals.ownership
        if run.status is RunStatus.RUNNING and not await ownership.owner_elsewhere(run.id):
            status = status_word("ready")  # nothing runs it now
        session.tell(f"{run.id}: {status}", *waits)
        return None

    make = session_command if flags else store_command
    return make(RUN + flags + DETAIL + JSON + NO_INPUT + more, work, **typed)


def _what_it_waits_for(run: Run) -> str:
    show = Sentence("plansmith show {run} tells what it waits for", run=run.id)
    if run.interrupted:
        show = Sentence("its process has ended: plansmith go {run} goes on", run=run.id)
    return "" if run.status.over else show


async def _approve(session: Session, run: Run) -> Run | None:
    """Approves a plan; names the tools whose definitions the approval cannot cover."""
    if not session.args.hash or session.args.show:
        if not isinstance(next_move(run), AwaitReview):
            raise refused(
                "run {run} does not wait for approval: it is {status}",
                hint=_what_it_waits_for(run),
                run=run.id,
                status=Sentence(f"status.{run.status.value}"),
            )
        run = await previewed(session, run)
        if session.args.show:
            print_lines(ShownPreview(run).lines(whole=True))
        else:
            waits = await questions.waiting_lines(run, session)
            session.say(*await review_lines(run, session), *waits)
        return None
    if session.args.go:
        # An approval that cannot be followed by the run would only confuse.
        await require_runnable(session, run.plan)
    args = session.args
    run = await session.smith.decide(run.id, approve=args.hash, by=session.by, fresh=args.fresh)
    steps = active_steps(run.plan, run.templates) if run.plan else ()
    called = dict.fromkeys(step.tool for step in steps if isinstance(step, ToolStep))
    unknown = [safe(name) for name in called if name not in run.approved_tools]
    if unknown:
        uncovered = Sentence(
            "the approval does not cover how these tools are defined, since they are "
            "not known here: {names} (--tools FILE makes them known)",
            names=", ".join(unknown),
        )
        session.say(uncovered)
    return run


async def _reject(session: Session, run: Run) -> Run:
    return await session.smith.decide(run.id, reject=True, by=session.by)


async def _answer(session: Session, run: Run) -> Run | None:
    """Gives the answer of the command line, or shows the question; None if it stays open."""
    args = session.args
    if args.show:
        for group in _groups(run, args.words[0] if args.words else None):
            _print_whole(await questions.Asked.look(session, run, group))
        return None
    if len(args.words) > 2:
        raise refused("too many arguments", "put the answer in quotes")
    is_named = len(args.words) == 2 or (args.words and args.changes)
    groups = _groups(run, args.words[0] if is_named else None)
    if args.changes and len(args.words) == 2 and args.words[1] != ALLOW:
        raise refused(
            "values of your own allow the call: they do not go with another answer",
            "leave out --set, or the answer",
        )
    answered = await _answer_group(session, run, groups[0]) if len(groups) == 1 else None
    if answered is None:
        for group in groups:
            session.say(*(await questions.Asked.look(session, run, group)).lines())
        session.say(*await questions.waiting_lines(run, session, asks=False))
    return answered


async def _answer_group(session: Session, run: Run, group: questions.Group) -> Run | None:
    """Gives an answer; None if there is none, or several are allowed that nobody need have seen."""
    args = session.args
    if args.changes:
        given = options.read_pairs(args.changes).items()
        changes = {name: options.read_value(name, text) for name, text in given}
        if len(group) > 1:
            return None
        return await questions.Asked(session, run, group, []).change(changes)
    if not args.words or not args.words[-1].strip():
        return None
    value = questions.read_answer(group[0], args.words[-1])
    with session.lines.moving():
        if len(group) == 1 and not args.seen:
            return await questions.answer_seen(session, run, group[0], value)
        asked = await questions.Asked.look(session, run, group)
        if args.seen:
            asked.require_hash(args.seen)
        elif value == ALLOW:
            return None
        return await asked.answer(value)


def _print_whole(group_asked: questions.Asked) -> None:
    session, group, digest = group_asked.session, group_asked.group, group_asked.hash
    if session.args.json:
        values = {each.step: each.inputs for each in group_asked.calls}
        for asked in group:
            more = {"kind": asked.kind, "values": values.get(asked.step or ""), "seen": digest}
            print_json(asked.shown_json() | more)
        return
    print_lines(group_asked.lines(whole=True))
    if group[0].kind == "consent":
        words = ("answer", group_asked.run.id, questions.group_name(group), ALLOW, "--seen", digest)
        allow = f"  {session.command_for(group_asked.run, *words)}"
        print_lines([Sentence("To allow exactly this:"), allow])


def _groups(run: Run, name: str | None) -> list[questions.Group]:
    """Returns the open questions, or those of a name: of a question, or of a step with items."""
    if not run.questions:
        raise refused(
            "run {run} has no open question: it is {status}",
            hint=_what_it_waits_for(run),
            run=run.id,
            status=Sentence(f"status.{run.status.value}"),
        )
    groups = questions.question_groups(run.questions.values())
    if name is None:
        return groups
    if name in run.questions:
        return [(run.questions[name],)]
    found = [group for group in groups if questions.group_name(group) == name]
    if not found:
        names = Sentence("open questions: {names}", names=[*run.questions])
        raise refused("run {run} has no open question '{name}'", hint=names, run=run.id, name=name)
    return found


async def _edit(session: Session, run: Run) -> Run:
    if session.args.file:
        return await edit_from(session, run, session.args.file)
    return await edit_in_editor(session, run)


async def _change(session: Session, run: Run) -> Run | None:
    with session.lines.moving():
        changed = await session.smith.request_changes(run.id, session.args.text, by=session.by)
    if changed.questions.keys() - run.questions.keys():
        session.say(*await questions.waiting_lines(changed, session))
        return None
    events = list(await session.smith.store.events(run.id))
    # The last request for changes gave a plan, or says why not.
    outcomes = [
        each.body for each in events if isinstance(each.body, PlanProposed | PlanningFailed)
    ]
    if outcomes and isinstance(outcomes[-1], PlanningFailed) and outcomes[-1].reason:
        command = session.command("show", run.id)
        hint = Sentence("the previous plan is still there: {command}", command=command)
        raise refused("the plan was not changed: {why}", hint=hint, why=outcomes[-1].reason)
    session.say(*revision_lines(events))
    return changed


async def _undo(session: Session, run: Run) -> Run:
    if session.args.effects:
        made = await session.smith.runs.undo_effects(run.id, by=session.by)
        made = await previewed(session, made)
        session.say(*await review_lines(made, session))
        return made
    go = session.smith.runs.editing.redo if session.args.redo else session.smith.runs.editing.undo
    undone = await go(run.id, by=session.by)
    session.say(*revision_lines(list(await session.smith.store.events(run.id))))
    return undone


async def _pause(session: Session, run: Run) -> Run:
    return await session.smith.pause(run.id, by=session.by, reason=session.args.reason)


async def _cancel(session: Session, run: Run) -> Run:
    if run.status.over:
        status = Sentence(f"status.{run.status.value}")
        raise refused("run {run} is over: {status}", run=run.id, status=status)
    return await session.smith.cancel(run.id, by=session.by, reason=session.args.reason)


async def _skip(session: Session, run: Run) -> Run:
    left = await session.smith.runs.skip(run.id, session.args.step, by=session.by)
    session.say(Sentence("left out: {step}", step=safe(left.step)))
    if others := ", ".join(map(safe, left.with_it)):
        session.say(Sentence("and what needs it: {steps}", steps=others))
    return await session.smith.get(run.id)


async def _repair(session: Session, run: Run) -> Run:
    before = run.last.number if run.last else 0
    repaired = await session.smith.runs.journals.repair(run.id, by=session.by)
    goes_on = own_text(
        "The run goes on from event {number}; later events are kept separately.", number=before
    )
    session.say(goes_on, f"  {safe(own(repaired.reason))}")
    return repaired


_GO: Final = "--go  then go on with it at once\n"
_APPROVE: Final = """
[HASH]  the hash of exactly this plan, or of its preview; without it, both are only shown
--show  print all that it would change, whole
--fresh  read again when it runs, and ask if something is different then
"""
_ANSWER: Final = """
WORDS  which question, and the answer
--show  print the question and its values, whole
--set NAME=VALUE*  allow the call with this value instead
--seen HASH  answer only what --show printed with this hash
"""
_UNDO: Final = """
--redo  go forward again instead
| --effects  of a run that is over: make the plan that takes back what it did
"""
_REASON: Final = "--reason REASON  why, for the journal\n"
APPROVE = _about_run(_approve, PARTS, _GO + _APPROVE)
REJECT = _about_run(_reject)
ANSWER = _about_run(
    _answer,
    PARTS,
    _GO + _ANSWER,
    words={"nargs": "*", "metavar": "[QUESTION] ANSWER"},
    set={"dest": "changes"},
)
EDIT = _about_run(_edit, TOOLS, "--file FILE  take this plan instead of opening $EDITOR")
CHANGE = _about_run(_change, PARTS, "TEXT  how the plan should differ, in your words")
UNDO = _about_run(_undo, TOOLS, _UNDO)
PAUSE = _about_run(_pause, more=_REASON, reason={"default": ""})
SKIP = _about_run(_skip, more="STEP  the step to skip")
CANCEL = _about_run(_cancel, more=_REASON, reason={"default": ""})
REPAIR = _about_run(_repair)
